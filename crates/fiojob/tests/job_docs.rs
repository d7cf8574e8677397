//! `docs/job-options.md` is what the option registry says.

use std::path::Path;

#[test]
fn the_page_of_options_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/job-options.md");
    let page = pagelab_fiojob::docs::markdown();
    if std::env::var_os("PAGELAB_BLESS").is_some() {
        std::fs::write(&path, &page).expect("write");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/job-options.md is not what the registry says; run: make docs");
}
