#!/usr/bin/env python3
"""What fleets of 1,000 to 1,000,000 hosts cost, from measured constants.

  benches/fleet/scale.py                 writes docs/scale.md
  benches/fleet/scale.py --check         status 1 if that page is another
  benches/fleet/scale.py NAME=VALUE...   prints the table with constants of your own

The constants are in benches/fleet/scale.toml, each with where it was measured, or how to measure it: rows that need one without a value are
left out. Nothing here was measured at a million hosts; what the page says of them is arithmetic, and it says where the arithmetic no longer
carries.
"""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/scale.md"
HOSTS = (1_000, 100_000, 1_000_000)
DAY_S = 86_400


def amount(value, unit=""):
    """Three digits and a prefix."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".strip()


def seconds(value):
    for length, name in ((DAY_S, "days"), (3600, "h"), (60, "min")):
        if value >= 2 * length:
            return f"{float(f'{value / length:.2g}'):g} {name}"
    return f"{value:.2g} s" if value >= 0.01 else f"{1000 * value:.2g} ms"


def bytes_(value):
    return amount(value, "B")


# Row, form, and what it is of the constants and a number of hosts. The manifest goes first and last, so it is put twice.
ROWS = [
    ("recordings a day", amount, lambda one, hosts: hosts * windows(one)),
    ("bytes a day, recordings", bytes_, lambda one, hosts: hosts * windows(one) * one["bytes_per_window"]),
    ("requests a second, uploads (PUT)", amount, lambda one, hosts: hosts * windows(one) * (one["objects_per_window"] + 1) / DAY_S),
    ("processors that compact all the time", amount, lambda one, hosts: hosts * windows(one) * one["compact_s_per_recording"] / DAY_S),
    ("bytes a day, compacted", bytes_, lambda one, hosts: hosts * windows(one) * one["compacted_bytes_per_run"]),
    ("one question about one day, one process", seconds, lambda one, hosts: hosts * windows(one) * one["compare_s_per_run"]),
    ("the same, one run per host and day", seconds, lambda one, hosts: hosts * one["compare_s_per_run"]),
    ("SQL of one metric, one run per host and day", seconds, lambda one, hosts: hosts * one["sql_s_per_run"]),
    ("bytes of a year, one run per host and day", bytes_, lambda one, hosts: 365 * hosts * one["compacted_bytes_per_run"]),
]


def windows(one):
    """Of a host and day."""
    return DAY_S / one["window_every_s"]


def table(one):
    lines = ["| | " + " | ".join(f"{hosts:,} hosts" for hosts in HOSTS) + " |", "|---|" + "---|" * len(HOSTS)]
    for words, form, each in ROWS:
        try:
            cells = [form(each(one, hosts)) for hosts in HOSTS]
        except KeyError:
            # A constant that has no value.
            continue
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measured(constants):
    lines = ["| constant | value | what it is | from |", "|---|---|---|---|"]
    for name, entry in constants.items():
        value = f"{entry['value']:.4g}" if "value" in entry else ""
        lines.append(f"| `{name}` | {value} | {entry['what']} | {entry.get('source') or entry['measure']} |")
    return "\n".join(lines)


def main(arguments):
    constants = tomllib.loads((ROOT / "benches/fleet/scale.toml").read_text())
    one = {name: entry["value"] for name, entry in constants.items() if "value" in entry}
    text = (ROOT / "benches/fleet/scale.in.md").read_text()
    text = text.replace("{{table}}", table(one)).replace("{{constants}}", measured(constants))
    page = "<!-- Written by benches/fleet/scale.py from benches/fleet/scale.toml and scale.in.md. -->\n" + text
    if not arguments:
        PAGE.write_text(page)
    elif arguments == ["--check"]:
        if PAGE.read_text() != page:
            sys.exit(f"{PAGE} is not what its constants give; type: benches/fleet/scale.py")
    else:
        own = dict(argument.split("=", 1) for argument in arguments)
        if unknown := sorted(own.keys() - constants.keys()):
            sys.exit(f"scale.py: found {', '.join(unknown)}, needed names of {', '.join(constants)}")
        print(table({**one, **{name: float(value) for name, value in own.items()}}))


main(sys.argv[1:])
