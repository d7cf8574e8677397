//! What the rules say of themselves.

use std::path::Path;

use pagelab_vocab::causes::{cause, causes};

use super::*;

#[test]
fn every_cause_has_one_rule_and_every_rule_a_cause() {
    for rule in RULES.iter() {
        let (id, about) = (rule.cause(), rule.manual());
        assert!(cause(id).is_some(), "{id} is in no registry");
        assert!(!about.holds_if.is_empty() && !about.refuted_by.is_empty(), "{id}");
    }
    for def in causes() {
        let rules = RULES.iter().filter(|rule| rule.cause() == def.id).count();
        assert_eq!(rules, 1, "{}", def.id);
    }
}

#[test]
fn docs_page_is_what_the_rules_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let page = markdown();
    if std::env::var_os("PAGELAB_BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/rules.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/rules.md is out of date; run: make docs");
}
