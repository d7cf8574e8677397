//! The page `docs/conformance.md`, made from the registry.

use std::fmt::Write;

use crate::case::cases;

const HEAD: &str = "\
# Conformance: what is put to the test on the running kernel

Made from `crates/conformance/src/cases`; do not edit. After a change there:
`PAGELAB_BLESS=1 cargo test -p pagelab-conformance --test docs`.

Each case runs in a process of its own with a time limit. The column *like* names who verifies the same: a test of
libhugetlbfs (`tests/` of its sources), or one of the kernel's own (`tools/testing/selftests`); `new` means that neither
does. The column *fails under* names the switch of `crates/conformance/tests/shim/broken_kernel.c` under which the case is
shown to fail: a kernel call that does something else than it should, while what the case expects stays as it is.
All cases need root; what else a case needs and does not find makes it a skip with the reason.

";

/// The text of `docs/conformance.md`.
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    let all: Vec<_> = cases().collect();
    let new = all.iter().filter(|case| case.like == "new").count();
    let _ = writeln!(out, "{} cases, {new} of them new.\n", all.len());
    out.push_str("| case | what the kernel promises | like | needs | fails under |\n|---|---|---|---|---|\n");
    for case in all {
        let needs = case.needs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (name, proves, like, broken) = (case.name, case.proves, case.like, case.broken_by);
        let _ = writeln!(out, "| `{name}` | {proves} | {like} | {needs} | `{broken}` |");
    }
    out
}
