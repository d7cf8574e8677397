//! `docs/metrics.md`, printed from the registry so that the two cannot disagree.

use std::fmt::Write as _;

use super::{GROUPS, Group, MetricInfo};

const HEAD: &str = "# Metrics

<!-- Printed from crates/vocab/src/metrics by its test; rewrite with: make docs -->

Every name that may stand in the `metrics` table of a recording, with what analysis knows about it. The same facts are
in `pagelab_vocab::metrics`.

## How to read the rows

- The sampler runs ten times a second; rows of one sample share their `ts`. Sources that cost more (slab caches, huge page
  sizes, the target's `smaps_rollup`) are read once a second, and any source that takes more than its share of a CPU less
  often still.
- **A value holds until the next row of the same name and instance.** Rows are written only when a value has changed,
  except in the first and the last sample, which hold every series. A gap in a series means that its value stood still.
- A null value ends a series: the device was removed, the process ended, the file could no longer be read. What could
  not be read from the start has no rows at all, and the manifest's `probes` say why. Absent is never 0.
- *counter*: the number of a run is (last - first) / measured seconds, and per operation where the load knows its operations.
  *gauge*: the mean weighted by time. *histogram*: mean, p50, p99.
- *better* says which way is an improvement; an empty cell: neither.
- Marks: **t** follows the clock or the host's past and is left out of every family of tests; **s** is moved by
  recording itself.
";

/// The text of `docs/metrics.md`.
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    for group in GROUPS {
        section(&mut out, group);
    }
    out
}

fn section(out: &mut String, group: &Group) {
    let title = if group.prefix.is_empty() {
        group.members.first().map_or("", |m| m.field).to_owned()
    } else {
        format!("{}*", group.prefix)
    };
    // Writing to a String cannot fail.
    let _ = write!(out, "\n## `{title}`\n\nFrom `{}`. {}\n", group.source, group.note);
    if let Some(instance) = group.instance {
        let _ = writeln!(out, "Instance: {instance}.");
    }
    out.push_str("\n| name | kind | unit | better | | what it tells |\n|---|---|---|---|---|---|\n");
    for member in group.members {
        row(out, &group.info(member));
    }
    for rule in group.rules {
        let name = format!("{}{}*{}", group.prefix, rule.starts, rule.ends);
        let better = better(rule.direction);
        let _ = writeln!(
            out,
            "| `{name}` (others) | {} | {} | {better} | | {} |",
            rule.kind.name(),
            rule.unit.name(),
            rule.help
        );
    }
}

fn row(out: &mut String, info: &MetricInfo) {
    let marks = match (info.always_moves, info.self_inflicted) {
        (true, true) => "t s",
        (true, false) => "t",
        (false, true) => "s",
        (false, false) => "",
    };
    let _ = writeln!(
        out,
        "| `{}` | {} | {} | {} | {marks} | {} |",
        info.name,
        info.kind.name(),
        info.unit.name(),
        better(info.direction),
        info.help
    );
}

fn better(direction: super::Direction) -> &'static str {
    match direction {
        super::Direction::Neutral => "",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The page people read is the registry that the program uses.
    #[test]
    fn docs_page_matches_the_registry() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let now = super::markdown();
        if std::env::var_os("PAGELAB_BLESS").is_some() {
            std::fs::write(&page, &now).expect("docs/metrics.md can be written");
        }
        let stored = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(stored == now, "{} differs from the registry; run: make docs", page.display());
    }
}
