//! `program.*`: which builds of its program and libraries a process runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use object::{Object as _, ReadCache};
use pagelab_residency::maps;

use super::Collector;
use crate::files::under;

/// Files that are looked at; programs have some tens of libraries.
const MOST: usize = 256;

pub(super) fn read(out: &mut Collector, pid: u32) {
    let folder = format!("/proc/{pid}");
    let exe = format!("{folder}/exe");
    if let Some(id) = build_of(out, &exe) {
        out.value("program.build_id", id, &exe);
    }
    let Ok(mappings) = maps::list(&under(out.root, &folder)) else { return };
    let mut seen = BTreeSet::new();
    for mapping in mappings.filter(|mapping| mapping.permissions.contains('x') && mapping.path.first() == Some(&b'/')) {
        let path = mapping.path_text();
        if seen.len() == MOST || !seen.insert(path.clone()) {
            continue;
        }
        // The path as the process sees it.
        let source = format!("{folder}/root{path}");
        if let Some(id) = build_of(out, &source) {
            out.value(format!("program.{path}.build_id"), id, &source);
        }
    }
}

/// The number that the linker gave the file; `SIZE bytes, written at SECONDS` of one that has none. None of a file that cannot be read,
/// and of one without a name, such as what the recorder holds a command at before it runs.
fn build_of(out: &Collector, path: &str) -> Option<String> {
    let file = File::open(under(out.root, path)).ok()?;
    let about = file.metadata().ok().filter(|about| about.is_file() && about.nlink() > 0)?;
    let cache = ReadCache::new(&file);
    let id = object::File::parse(&cache).ok().and_then(|parsed| parsed.build_id().ok().flatten().map(hexadecimal));
    Some(id.unwrap_or_else(|| format!("{} bytes, written at {}", about.len(), about.mtime())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_builds_are_those_that_file_tells() {
        let mut out = Collector::new(Path::new("/"));
        read(&mut out, std::process::id());
        let told: BTreeMap<String, String> =
            out.finish().into_iter().filter_map(|row| Some((row.key, row.value?))).collect();
        let exe = std::env::current_exe().expect("a test is a program");
        let named = std::process::Command::new("file").arg("-bL").arg(&exe).output();
        let Some(text) = named.ok().map(|out| String::from_utf8_lossy(&out.stdout).into_owned()) else { return };
        let id = &told["program.build_id"];
        assert_eq!(told.get(&format!("program.{}.build_id", exe.display())), Some(id));
        if let Some((_, rest)) = text.split_once("BuildID[sha1]=") {
            assert!(rest.starts_with(id.as_str()), "{id}: {text}");
        }
        assert!(told.keys().any(|key| key.contains("libc.so")), "{told:?}");
    }
}
