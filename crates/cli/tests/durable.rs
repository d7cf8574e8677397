//! Whoever writes what is to survive a power cut has it on the device before it gets its name, and the name before the program ends: the
//! order of the calls of whole commands, seen by strace. crates/output/tests/durable.rs asks the same of the one writer that all
//! use; the power is cut in crates/recording/tests.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use common::{binary, scratch};

/// A call that matters, in the order in which calls began.
#[derive(Debug)]
enum Call {
    /// Contents of a file, or names in a folder, go to the device.
    Synced(String),
    Renamed {
        from: String,
        to: String,
    },
}

/// The paths behind `<` and the names in quotes, in their order: `renameat2(5</a>, "x", 6</b>, "y", 0)`.
fn between(line: &str, open: char, close: char) -> Vec<&str> {
    let mut rest = line;
    let mut found = Vec::new();
    while let Some((_, behind)) = rest.split_once(open) {
        let Some((inner, after)) = behind.split_once(close) else { break };
        found.push(inner);
        rest = after;
    }
    found
}

fn calls(trace: &str) -> Vec<Call> {
    let of_line = |line: &str| {
        let name = line.split_whitespace().nth(1)?.split('(').next()?.to_owned();
        let paths = between(line, '<', '>');
        match name.as_str() {
            "fsync" | "fdatasync" => Some(Call::Synced(paths.first()?.to_string())),
            "renameat" | "renameat2" => {
                let names = between(line, '"', '"');
                let (from, to) = (names.first()?, names.get(1)?);
                Some(Call::Renamed {
                    from: format!("{}/{from}", paths.first()?),
                    to: format!("{}/{to}", paths.get(1)?),
                })
            }
            _ => None,
        }
    };
    trace.lines().filter_map(of_line).collect()
}

/// Which of the files got its name before its contents were safe, or a name that was not safe in the end. A name that was given more
/// than once counts as it was given last: parts that are merged when a recording is closed are safe from then on.
fn unsafe_names(calls: &[Call], files: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let is_last = |call: &Call| matches!(call, Call::Renamed { to, .. } if to == file);
        let Some(at) = calls.iter().rposition(is_last) else {
            wrong.push(format!("{file} was not written under another name first"));
            continue;
        };
        let Call::Renamed { from, to } = &calls[at] else { continue };
        let folder = to.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_synced = |call: &Call, path: &str| matches!(call, Call::Synced(synced) if synced == path);
        if !calls[..at].iter().any(|call| is_synced(call, from)) {
            wrong.push(format!("{to} has its name before its contents are synced"));
        }
        if !calls[at..].iter().any(|call| is_synced(call, folder)) {
            wrong.push(format!("{folder} is not synced after {to} has its name"));
        }
    }
    wrong
}

/// Runs a command of pagelab under strace; gives its calls.
fn traced(dir: &Path, arguments: &[&str]) -> Vec<Call> {
    let trace = dir.join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,renameat,renameat2", "-o"]).arg(&trace);
    strace.arg(binary()).args(arguments).current_dir(dir);
    let output = strace.output().expect("strace runs: make setup-test installs it");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    calls(&fs::read_to_string(&trace).expect("a trace"))
}

#[test]
fn commands_sync_contents_before_names_and_names_before_their_end() {
    let dir = scratch();
    let commands: [(&str, &[&str]); 4] = [
        ("rec", &["record", "-q", "-o", "rec", "--", "true"]),
        ("set", &["compare", "-n", "2", "-o", "set", "--", "true", "true"]),
        ("job", &["run", "--name=a", "--ioengine=null", "--size=1m", "-o", "job"]),
        ("rec", &["rollup", "rec"]),
    ];
    for (output, arguments) in commands {
        let output_dir = dir.path().join(output);
        let before = files_below(&output_dir);
        let calls = traced(dir.path(), arguments);
        let written = files_below(&output_dir).into_iter().filter(|file| !before.contains(file));
        let files: BTreeSet<String> = written.map(|(file, _)| file).collect();
        assert!(!files.is_empty(), "{arguments:?} leaves nothing in {output}");
        let wrong = unsafe_names(&calls, &files);
        assert!(wrong.is_empty(), "{arguments:?}: {wrong:#?}");
    }
}

/// Files with their inodes: one that is replaced has another.
fn files_below(folder: &Path) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let metadata = entry.metadata().expect("nobody else is at work here");
        if metadata.is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.insert((entry.path().display().to_string(), metadata.ino()));
        }
    }
    found
}

#[test]
fn a_name_before_its_contents_and_one_that_is_not_kept_are_seen() {
    let safe = "7 fdatasync(5</o/x.tmp>) = 0\n7 renameat2(4</o>, \"x.tmp\", 4</o>, \"x\", 0) = 0\n7 fsync(4</o>) = 0\n";
    let files = BTreeSet::from(["/o/x".to_owned()]);
    assert!(unsafe_names(&calls(safe), &files).is_empty());
    let lines: Vec<&str> = safe.lines().collect();
    for (left_out, said) in [(0, "contents"), (2, "is not synced after")] {
        let rest: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
        let wrong = unsafe_names(&calls(&rest.join("\n")), &files);
        assert!(matches!(wrong.as_slice(), [one] if one.contains(said)), "{wrong:?}");
    }
}
