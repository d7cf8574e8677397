//! `docs/conformance.md` is what the registry says.

use std::path::Path;

use pagelab_conformance::markdown;

#[test]
fn docs_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    if std::env::var_os("PAGELAB_BLESS").is_some() {
        std::fs::write(&path, markdown()).expect("docs/conformance.md is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, markdown(), "type: PAGELAB_BLESS=1 cargo test -p pagelab-conformance --test docs");
}
