//! `docs/ladder.md` is what the code says, and what the code says names tables and columns that exist.

use std::path::Path;

use pagelab_observe::streams::Stream;
use pagelab_recording::tables;
use pagelab_session::fallbacks::{FALLBACKS, Rung, fallback, markdown};

#[test]
fn docs_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ladder.md");
    if std::env::var_os("PAGELAB_BLESS").is_some() {
        std::fs::write(&path, markdown()).expect("docs/ladder.md is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, markdown(), "type: PAGELAB_BLESS=1 cargo test -p pagelab-session --test integration docs_page");
}

#[test]
fn every_stream_stands_somewhere_and_every_column_exists() {
    for stream in Stream::all() {
        assert!(FALLBACKS.iter().any(|one| one.stream == stream), "{stream}");
    }
    for one in FALLBACKS {
        let null = one.null.iter().map(|(table, columns)| (*table, columns.to_vec()));
        for (table, columns) in one.fills().into_iter().chain(null) {
            let table = tables::table(table).unwrap_or_else(|| panic!("{table} is no table"));
            for column in columns {
                assert!(table.column(column).is_some(), "{}.{column}", table.name);
            }
        }
        for (table, columns) in one.null {
            let table = tables::table(table).expect("see above");
            let both = one.fills().into_iter().filter(|(name, _)| *name == table.name).flat_map(|(_, filled)| filled);
            assert!(both.into_iter().all(|filled| !columns.contains(&filled)), "{}: filled and null", table.name);
        }
    }
}

#[test]
fn a_fallback_fills_what_the_first_fills_less_what_is_missing() {
    let columns = |stream, rung, table: &str| {
        let fills = fallback(stream, rung).expect("it is in the list").fills();
        fills.into_iter().find(|(name, _)| *name == table).map(|(_, columns)| columns)
    };
    let faults = |rung| columns(Stream::Faults, rung, "faults").expect("rows");
    assert_eq!(faults(Rung::Bpf), ["ts", "task_id", "mm_id", "addr", "ip", "error_code", "mapping_id"]);
    assert_eq!(faults(Rung::Perf), ["ts", "task_id", "mm_id", "addr", "ip", "mapping_id"]);
    let tasks = columns(Stream::Tasks, Rung::Procfs, "tasks").expect("rows");
    assert!(!tasks.contains(&"exe") && !tasks.contains(&"cgroup_id") && tasks.contains(&"exit_code"), "{tasks:?}");
    assert!(columns(Stream::Syscalls, Rung::Bpf, "files").is_some());
    assert_eq!(columns(Stream::Syscalls, Rung::Perf, "files"), None, "a table without columns has no rows");
}
