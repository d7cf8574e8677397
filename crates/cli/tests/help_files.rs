//! `pagelab help-files`: completions for shells, and pages for man.

use crate::common;

use common::{pagelab, run, scratch};

#[test]
fn shells_and_man_get_what_they_read() {
    let dir = scratch();
    let bash = run(pagelab().args(["help-files", "--shell", "bash"]), 0);
    let bash = String::from_utf8_lossy(&bash.stdout).into_owned();
    assert!(bash.contains("_pagelab()") && bash.contains("--observe"), "{}", &bash[..bash.len().min(400)]);
    run(pagelab().args(["help-files", "--man"]).arg(dir.path()), 0);
    for (page, words) in [("pagelab", "compare"), ("pagelab-record", "observe"), ("pagelab-compare", "confirm")] {
        let text = std::fs::read_to_string(dir.path().join(format!("{page}.1"))).expect("a page");
        assert!(text.starts_with(".ie") && text.contains(words), "{page}: {}", &text[..text.len().min(200)]);
    }
    assert!(!dir.path().join("pagelab-__load.1").exists(), "hidden commands have no page");
}
