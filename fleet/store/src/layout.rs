//! Which files and objects belong to recordings and to compacted fleets, and in which order they are copied.

use std::path::PathBuf;

/// The document of a recording.
pub const MANIFEST: &str = "manifest.json";
/// The document of a day of a compacted fleet: names its tables with their contents.
pub const COMPLETE: &str = "complete.json";
/// What the folder of a day is called in front of its date.
const DAY_PREFIX: &str = "day=";

/// What a file is to a recording or a fleet, in the order in which files are copied to a store: what says how much was lost goes before what it is
/// about, and documents go after what they speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A part of the table `loss`.
    Loss,
    /// A part of any other table.
    Part,
    /// A part that compaction has written and not yet renamed; void without the record of the compaction.
    Compacted,
    /// The record of a compaction that did not end.
    Compaction,
    /// `manifest.json` of a recording.
    Manifest,
    /// `set.json` and `compare.json` of a set.
    Set,
    /// A table of a day of a compacted fleet, `day=YYYY-MM-DD/TABLE.parquet`.
    DayTable,
    /// `complete.json` of a day.
    Day,
}

/// Folders above a recording, and its own: `SET/host=a/variant=b/run=001` and room for more.
const DEPTH: usize = 16;
/// Longest name of a file or folder on Linux, bytes.
const LONGEST_NAME: usize = 255;

/// What the file at `relative` is, its parts divided by `/`. `None` for all that is no file of a recording, and for every name that is
/// no plain path downwards.
pub fn kind(relative: &str) -> Option<Kind> {
    let names: Vec<&str> = relative.split('/').collect();
    let is_plain = |name: &&str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.len() <= LONGEST_NAME
            && !name.contains(['\0', '\\'])
            && !name.chars().any(char::is_control)
    };
    if names.len() > DEPTH || !names.iter().all(is_plain) {
        return None;
    }
    let (file, folders) = names.split_last()?;
    match (*file, folders.last()) {
        (MANIFEST, _) => Some(Kind::Manifest),
        ("set.json" | "compare.json", _) => Some(Kind::Set),
        ("compaction.json", _) => Some(Kind::Compaction),
        (COMPLETE, Some(folder)) if date_of(folder).is_some() => Some(Kind::Day),
        (file, Some(folder)) if date_of(folder).is_some() => {
            let table = file.strip_suffix(".parquet")?;
            (!table.is_empty() && is_table(table)).then_some(Kind::DayTable)
        }
        (file, Some(table)) if is_table(table) => {
            if is_numbered(file, "part-", ".parquet") {
                return Some(if *table == "loss" { Kind::Loss } else { Kind::Part });
            }
            is_numbered(file, "compact-", ".tmp").then_some(Kind::Compacted)
        }
        _ => None,
    }
}

/// The path below a folder for a name that [`kind`] knows.
pub fn path(relative: &str) -> Option<PathBuf> {
    kind(relative)?;
    Some(relative.split('/').collect())
}

/// The folder of the recording that a file belongs to: `a/run=1` of `a/run=1/faults/part-0000.parquet`. Empty: the root itself.
pub fn recording_of(relative: &str) -> Option<&str> {
    let above = |text: &str| text.rsplit_once('/').map_or(0, |(above, _)| above.len());
    let file_folder = &relative[..above(relative)];
    match kind(relative)? {
        Kind::Manifest | Kind::Compaction => Some(file_folder),
        Kind::Loss | Kind::Part | Kind::Compacted => Some(&file_folder[..above(file_folder)]),
        Kind::Set | Kind::DayTable | Kind::Day => None,
    }
}

/// The folder of the day that a file of a compacted fleet belongs to: `a/day=2026-03-01` of `a/day=2026-03-01/runs.parquet`.
pub fn day_of(relative: &str) -> Option<&str> {
    match kind(relative)? {
        Kind::DayTable | Kind::Day => relative.rsplit_once('/').map(|(folder, _)| folder),
        _ => None,
    }
}

/// The table of a file: `faults` of `r/faults/part-0000.parquet`, `runs` of `day=2026-03-01/runs.parquet`. None for documents.
pub fn table_of(relative: &str) -> Option<&str> {
    let (folder, file) = relative.rsplit_once('/')?;
    match kind(relative)? {
        Kind::DayTable => file.strip_suffix(".parquet"),
        Kind::Loss | Kind::Part | Kind::Compacted => Some(folder.rsplit_once('/').map_or(folder, |(_, table)| table)),
        _ => None,
    }
}

/// The date of a day's folder, `YYYY-MM-DD`; none if it is not called so. Dates compare as their texts do.
pub fn date_of(folder: &str) -> Option<&str> {
    let name = folder.rsplit_once('/').map_or(folder, |(_, name)| name);
    let date = name.strip_prefix(DAY_PREFIX)?;
    is_date(date).then_some(date)
}

/// Whether the text has the form of a date, `YYYY-MM-DD`. 31 February is none, but nothing here counts days.
pub fn is_date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u32>().ok())?
    };
    text.len() == 10
        && digits(0..4).is_some()
        && text.get(4..5) == Some("-")
        && digits(5..7).is_some_and(|month| (1..=12).contains(&month))
        && text.get(7..8) == Some("-")
        && digits(8..10).is_some_and(|day| (1..=31).contains(&day))
}

fn is_table(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

fn is_numbered(name: &str, before: &str, after: &str) -> bool {
    let number = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_recordings_are_known_by_their_names() {
        assert_eq!(kind("manifest.json"), Some(Kind::Manifest));
        assert_eq!(kind("variant=a/run=001/faults/part-0000.parquet"), Some(Kind::Part));
        assert_eq!(kind("run=001/loss/part-0012.parquet"), Some(Kind::Loss));
        assert_eq!(kind("r/faults/compact-0000.tmp"), Some(Kind::Compacted));
        assert_eq!(kind("set.json"), Some(Kind::Set));
        for other in [
            "notes.txt",
            "faults/part-0000.tmp",
            "part-0000.parquet",
            "faults/part-.parquet",
            "faults/part-1.parquet.exe",
            "Faults/part-0.parquet",
            "reserve.tmp",
            "",
        ] {
            assert_eq!(kind(other), None, "{other}");
        }
        assert!(Kind::Loss < Kind::Part && Kind::Part < Kind::Manifest && Kind::Manifest < Kind::Set);
        assert!(Kind::DayTable < Kind::Day);
    }

    #[test]
    fn files_of_days_are_known_by_their_names() {
        assert_eq!(kind("day=2026-03-01/runs.parquet"), Some(Kind::DayTable));
        assert_eq!(kind("fleet/day=2026-03-01/complete.json"), Some(Kind::Day));
        assert_eq!(day_of("fleet/day=2026-03-01/complete.json"), Some("fleet/day=2026-03-01"));
        assert_eq!(day_of("fleet/runs.parquet"), None);
        assert_eq!(date_of("fleet/day=2026-03-01"), Some("2026-03-01"));
        assert_eq!(table_of("fleet/day=2026-03-01/metrics.parquet"), Some("metrics"));
        assert_eq!(table_of("a/faults/part-0000.parquet"), Some("faults"));
        assert_eq!(table_of("faults/part-0000.parquet"), Some("faults"));
        assert_eq!(table_of("manifest.json"), None);
        for other in [
            "complete.json",
            "day=2026-3-1/runs.parquet",
            "day=2026-13-01/runs.parquet",
            "day=2026-03-32/runs.parquet",
            "day=2026-03-01x/runs.parquet",
            "day=+026-03-01/runs.parquet",
            "day=2026-03-01/runs.parquet.exe",
            "day=2026-03-01/.parquet",
            "day=2026-03-01/Runs.parquet",
            ".new-day=2026-03-01/runs.parquet",
            "day=2026-03-01/../runs.parquet",
        ] {
            assert_eq!(kind(other), None, "{other}");
        }
    }

    #[test]
    fn no_name_leads_out() {
        let long = format!("{}/manifest.json", "a".repeat(256));
        let deep = format!("{}manifest.json", "a/".repeat(20));
        for hostile in [
            "../manifest.json",
            "/etc/manifest.json",
            "a//manifest.json",
            "a/./manifest.json",
            "a/../../manifest.json",
            ".ssh/manifest.json",
            "a\0/manifest.json",
            "a\\b/manifest.json",
            "a\n/manifest.json",
            &long,
            &deep,
        ] {
            assert_eq!(kind(hostile), None, "{hostile:?}");
            assert_eq!(path(hostile), None, "{hostile:?}");
        }
        assert_eq!(path("a/manifest.json"), Some(PathBuf::from("a/manifest.json")));
    }

    #[test]
    fn files_are_told_by_recording() {
        assert_eq!(recording_of("a/run=1/faults/part-0000.parquet"), Some("a/run=1"));
        assert_eq!(recording_of("faults/part-0000.parquet"), Some(""));
        assert_eq!(recording_of("a/manifest.json"), Some("a"));
        assert_eq!(recording_of("manifest.json"), Some(""));
        assert_eq!(recording_of("set.json"), None);
    }
}
