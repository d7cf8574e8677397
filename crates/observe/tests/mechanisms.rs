//! The anchors of `vocab::mechanisms` against the functions of the running kernel.

use std::collections::BTreeSet;

use pagelab_vocab::mechanisms::{FAULT_ENTRIES, MECHANISMS, plain_name};

#[test]
fn the_running_kernel_has_every_anchor_that_is_not_optional() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("a list of the kernel's functions");
    let functions: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).map(plain_name).collect();
    assert!(functions.len() > 10_000, "found {} functions", functions.len());
    let anchors = || MECHANISMS.iter().flat_map(|mechanism| mechanism.anchors);
    let is_here = |names: &[&str]| names.iter().any(|name| functions.contains(name));
    let missing: Vec<_> = anchors().filter(|anchor| !anchor.optional && !is_here(anchor.names)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    // An optional place that no kernel has would be a misspelt one: most are in any kernel.
    let (optional, here) = (
        anchors().filter(|anchor| anchor.optional).count(),
        anchors().filter(|anchor| anchor.optional && is_here(anchor.names)).count(),
    );
    assert!(4 * here >= 3 * optional, "{here} of {optional} optional places are here");
    assert!(is_here(&FAULT_ENTRIES));
}
