//! `docs/ladder.md` is what the code says, and what the code says names tables and columns that exist.

use std::path::Path;

use pagelab_observe::streams::Stream;
use pagelab_recording::tables;
use pagelab_session::ladder::{LADDER, markdown};

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
        assert!(LADDER.iter().any(|step| step.stream == stream), "{stream}");
    }
    for step in LADDER {
        for (table, columns) in step.fills.iter().chain(step.null) {
            let table = tables::table(table).unwrap_or_else(|| panic!("{table} is no table"));
            for column in *columns {
                assert!(table.column(column).is_some(), "{}.{column}", table.name);
            }
        }
        for (table, columns) in step.null {
            let table = tables::table(table).expect("see above");
            let both = step.fills.iter().filter(|(name, _)| *name == table.name).flat_map(|(_, filled)| *filled);
            assert!(both.into_iter().all(|filled| !columns.contains(filled)), "{}: filled and null", table.name);
        }
    }
}
