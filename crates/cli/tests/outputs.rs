//! Root writes files through the crate `output` and through nothing else: a path that is opened to write follows whatever
//! link a neighbour put there. The exceptions stand below, each with why it needs no `output`. Both workspaces are searched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What opens, makes or fills a file by its path.
const CALLS: [&str; 11] = [
    "fs::write(",
    "File::create(",
    "File::create_new(",
    "fs::copy(",
    "fs::rename(",
    "DirBuilder::new(",
    ".append(true)",
    ".truncate(true)",
    ".create(true)",
    ".create_new(true)",
    "OFlags::CREATE",
];

/// A source file or folder, and why it may.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/output/", "it is the one way"),
    (
        "crates/host/src/guard/",
        "journals below a held descriptor, with openat and O_NOFOLLOW; /proc and cgroup files of its own",
    ),
    ("crates/host/src/scheduling.rs", "/proc/self/autogroup"),
    ("crates/host/src/testing.rs", "a tree for tests"),
    ("crates/residency/src/testing.rs", "a tree for tests"),
    ("crates/mapping/src/lib.rs", "an example in the manual"),
    ("crates/testing/", "in tests alone: the list that make test names"),
    ("crates/observe/src/bpf/renames.rs", "in a tmpfs of its own that is mounted nowhere"),
    ("crates/lab/", "its folders belong to this user, and so does the way to them (`folders::check_way`)"),
    ("crates/load/src/safety.rs", "targets and logs of jobs: O_EXCL, marked, held by a permit"),
    ("crates/experiment/src/lab/share.rs", "O_EXCL, in the guest, below a folder that it has just made"),
    (
        "crates/load/src/engines/whole_files.rs",
        "files that a job makes and removes: O_EXCL, below the job's own folder",
    ),
    ("crates/load/src/layout.rs", "folders above a job's targets, made one by one, mode 0700, where nothing is"),
    ("crates/load/src/run.rs", "/proc/PID/fd/N of a file that the caller has opened through `output`"),
    ("crates/session/src/marks.rs", "one folder of mode 0700, which is used if it is this user's own"),
    ("crates/load/src/segments.rs", "sysctls of its own IPC namespace"),
    ("crates/conformance/src/run.rs", "/proc/sys/vm/compact_memory"),
];

#[test]
fn files_are_written_by_output_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for file in ["crates", "fleet"].iter().flat_map(|workspace| sources(&root.join(workspace))) {
        let name = file.strip_prefix(&root).expect("below").display().to_string();
        let text = fs::read_to_string(&file).expect("source is text");
        looked_at += 1;
        let program = text.lines().take_while(|line| *line != "#[cfg(test)]");
        for (at, line) in program.enumerate().filter(|(_, line)| CALLS.iter().any(|call| line.contains(call))) {
            match EXCEPTIONS.iter().find(|(place, _)| name.starts_with(place)) {
                Some((place, _)) => _ = used.insert(*place),
                None => wrong.push(format!("{name}:{}: {}", at + 1, line.trim())),
            }
        }
    }
    assert!(looked_at > 300, "only {looked_at} files were found");
    assert!(
        wrong.is_empty(),
        "needed: pagelab_output, or a line in EXCEPTIONS that says why not:\n{}",
        wrong.join("\n")
    );
    let idle: Vec<_> = EXCEPTIONS.iter().filter(|(place, _)| !used.contains(place)).collect();
    assert!(idle.is_empty(), "exceptions that nothing needs any more: {idle:?}");
}

/// The programs' sources: `crates/*/src` or `fleet/*/src`, files of tests left out.
fn sources(crates: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), Vec::new());
    folders.extend(fs::read_dir(crates).expect("crates/").flatten().map(|entry| entry.path().join("src")));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if Path::new(&name).extension().is_some_and(|ext| ext == "rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    found
}
