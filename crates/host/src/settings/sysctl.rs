//! `sysctl.*`: every file below /proc/sys that can be read without doing anything.

use std::path::Path;

use pagelab_vocab::settings::{Reading, definitions, matches, sysctl_key};

use super::{Collector, mask, plain};
use crate::files::{bytes, tidy};

/// /proc/sys is four or five folders deep.
const DEEPEST: usize = 12;

pub(super) fn read(out: &mut Collector) {
    let special: Vec<(&str, Reading)> = definitions()
        .filter(|def| def.reading != Reading::Plain && def.pattern.starts_with("sysctl."))
        .map(|def| (def.pattern, def.reading))
        .collect();
    walk(out, &special, &out.root.join("proc/sys"), "", 0);
}

fn walk(out: &mut Collector, special: &[(&str, Reading)], folder: &Path, below: &str, depth: usize) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if kind.is_dir() {
            if depth < DEEPEST {
                walk(out, special, &entry.path(), &path, depth + 1);
            }
            continue;
        }
        let key = sysctl_key(&path);
        let reading = special.iter().find(|(pattern, _)| matches(pattern, &key));
        let reading = reading.map_or(Reading::Plain, |(_, reading)| *reading);
        if reading == Reading::Never {
            continue;
        }
        let source = format!("/proc/sys/{path}");
        match bytes(&entry.path()) {
            Ok(raw) if reading == Reading::Masked => out.value(key, mask(&raw), &source),
            Ok(raw) => out.value(key, tidy(&String::from_utf8_lossy(&raw)), &source),
            Err(error) => out.missing(key, &source, plain(&error)),
        }
    }
}
