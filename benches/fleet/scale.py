#!/usr/bin/env python3
"""What fleets of 1,000 to 1,000,000 hosts cost, from measured constants: writes docs/scale.md (benches/fleet/scale.py).

The constants are in benches/fleet/scale.toml, each with where it was measured. Nothing here was measured at a million hosts; what the
page says of them is arithmetic, and it says where the arithmetic no longer carries.
"""

import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def main():
    constants = tomllib.loads((ROOT / "benches/fleet/scale.toml").read_text())
    one = {name: entry["value"] for name, entry in constants.items()}
    windows = DAY_S / one["window_every_s"]
    rows = []

    def row(what, form, each):
        rows.append(f"| {what} | " + " | ".join(form(each(hosts)) for hosts in HOSTS) + " |")

    # The manifest goes first and last.
    upload = windows * (one["objects_per_window"] + 1)
    row("recordings a day", amount, lambda hosts: hosts * windows)
    row("bytes a day, recordings", lambda value: amount(value, "B"), lambda hosts: hosts * windows * one["bytes_per_window"])
    row("requests a second, uploads (PUT)", amount, lambda hosts: hosts * upload / DAY_S)
    row("processors that compact all the time", amount, lambda hosts: hosts * windows * one["compact_s_per_recording"] / DAY_S)
    row("bytes a day, compacted", lambda value: amount(value, "B"), lambda hosts: hosts * windows * one["compacted_bytes_per_run"])
    row("one question about one day, one process", seconds, lambda hosts: hosts * windows * one["compare_s_per_run"])
    row("the same, one run per host and day", seconds, lambda hosts: hosts * one["compare_s_per_run"])
    row("SQL of one metric, one run per host and day", seconds, lambda hosts: hosts * one["sql_s_per_run"])
    row("bytes of a year, one run per host and day", lambda value: amount(value, "B"), lambda hosts: 365 * hosts * one["compacted_bytes_per_run"])
    measured = [f"| `{name}` | {entry['value']:.4g} | {entry['what']} | {entry['source']} |" for name, entry in constants.items()]
    text = (ROOT / "benches/fleet/scale.in.md").read_text()
    head = "| | " + " | ".join(f"{hosts:,} hosts" for hosts in HOSTS) + " |\n|---|" + "---|" * len(HOSTS)
    text = text.replace("{{table}}", "\n".join([head, *rows])).replace("{{constants}}", "\n".join(["| constant | value | what it is | measured |", "|---|---|---|---|", *measured]))
    (ROOT / "docs/scale.md").write_text("<!-- Written by benches/fleet/scale.py from benches/fleet/scale.toml and scale.in.md. -->\n" + text)


main()
