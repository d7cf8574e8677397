//! The anchors of the account of time against the functions of the running kernel.

use pagelab_vocab::budget::anchors_in;

#[test]
fn the_running_kernel_has_every_anchor_that_is_not_optional() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("a list of the kernel's functions");
    let found = anchors_in(&symbols);
    assert!(found.functions > 10_000, "found {} functions", found.functions);
    assert!(found.missing.is_empty(), "{:#?}", found.missing);
    // An optional place that no kernel has would be a misspelt one: most are in any kernel.
    assert!(4 * found.optional_here >= 3 * found.optional, "{found:?}");
}
