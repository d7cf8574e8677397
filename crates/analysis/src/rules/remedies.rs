//! What brings transparent huge pages back, and what cannot under the settings found.
//!
//! Which remedy works under which setting was measured (`tests/host_remedies.rs` measures it again, on the host it runs on):
//!
//! | found | madvise(MADV_HUGEPAGE) | glibc tunable | MADV_COLLAPSE | prctl taken back | thp.enabled=always |
//! |---|---|---|---|---|---|
//! | `madvise` | yes | yes | yes | - | yes |
//! | `never` | no | no | yes | - | yes |
//! | `PR_SET_THP_DISABLE` under `always` | no | no | no | yes | no |
//! | the same under `madvise` | no | no | no | with madvise | no |
//! | `thp.2M.enabled=never` under `always` | no | no | yes | - | no |
//! | `thp.2M.enabled=madvise` under `always` | yes | no | yes | - | no |
//!
//! The tunable (`glibc.malloc.hugetlb=1`) lets malloc call madvise, but only where it reads `madvise` in `thp.enabled`
//! itself. `MADV_COLLAPSE` heeds no setting of the host, only the process's.

use std::collections::BTreeMap;

use pagelab_vocab::settings::format_size;

use super::finding::{Fix, Reach};
use super::policy::{ENABLED, THP_DISABLE, ThpPolicy};
use pagelab_views::mappings::ThpAdvice;

/// A way to huge pages, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remedy {
    /// madvise(MADV_HUGEPAGE) on the memory, before it is touched.
    Advise,
    /// madvise(MADV_COLLAPSE) on memory that is filled (Linux 6.1).
    Collapse,
    /// prctl(PR_SET_THP_DISABLE, 0).
    TakeBack,
    /// The same, and madvise(MADV_HUGEPAGE).
    TakeBackAndAdvise,
    /// The same, and madvise(MADV_COLLAPSE).
    TakeBackAndCollapse,
    /// The tunable that lets glibc's malloc advise its memory.
    MallocTunable,
    /// thp.enabled=madvise on the host, and madvise(MADV_HUGEPAGE).
    AllowAdvised,
    /// The size's own `enabled` set to `inherit`.
    InheritSize,
    /// thp.enabled=always on the host.
    AllowAll,
}

impl Remedy {
    /// Every remedy.
    pub const ALL: [Self; 9] = [
        Self::Advise,
        Self::Collapse,
        Self::TakeBack,
        Self::TakeBackAndAdvise,
        Self::TakeBackAndCollapse,
        Self::MallocTunable,
        Self::AllowAdvised,
        Self::InheritSize,
        Self::AllowAll,
    ];

    /// Whether it takes back the prohibition of the process.
    pub const fn takes_back(self) -> bool {
        matches!(self, Self::TakeBack | Self::TakeBackAndAdvise | Self::TakeBackAndCollapse)
    }
}

/// The remedies that give memory without advice huge pages under these settings (`thp.enabled`, `thp.<size>.enabled`,
/// `mm.thp_disable`), the narrowest first; `None` if `thp.enabled` is not among them.
pub fn thp_remedies(settings: &BTreeMap<String, String>, huge_bytes: u64) -> Option<Vec<Remedy>> {
    Some(working(&ThpPolicy::of(settings, huge_bytes)?))
}

fn working(policy: &ThpPolicy) -> Vec<Remedy> {
    let huge = Some(policy.largest());
    let advised = |policy: &ThpPolicy| policy.allows(ThpAdvice::Huge) == huge;
    let plain = |policy: &ThpPolicy| policy.allows(ThpAdvice::None) == huge;
    let mut remedies = Vec::new();
    if advised(policy) {
        remedies.push(Remedy::Advise);
    }
    if !policy.process_forbids_all() {
        remedies.push(Remedy::Collapse);
    }
    if policy.process_forbids() {
        let lifted = policy.with(THP_DISABLE, Some("0"));
        // What spares advised memory need not be taken back for it.
        if plain(&lifted) {
            remedies.push(Remedy::TakeBack);
        } else if policy.process_forbids_all() {
            remedies.push(if advised(&lifted) { Remedy::TakeBackAndAdvise } else { Remedy::TakeBackAndCollapse });
        }
    }
    if advised(policy) && policy.enabled() == "madvise" {
        remedies.push(Remedy::MallocTunable);
    }
    if !advised(policy) && advised(&policy.with(ENABLED, Some("madvise"))) {
        remedies.push(Remedy::AllowAdvised);
    }
    let own = format!("thp.{}.enabled", format_size(policy.largest()));
    if policy.own_of_largest().is_some() && plain(&policy.with(&own, Some("inherit"))) {
        remedies.push(Remedy::InheritSize);
    }
    if policy.enabled() != "always" && plain(&policy.with(ENABLED, Some("always"))) {
        remedies.push(Remedy::AllowAll);
    }
    remedies
}

/// The remedies as they are said. `advice` is what the program says of the memory now.
pub(super) fn fixes(policy: &ThpPolicy, advice: ThpAdvice, huge: &str) -> Vec<Fix> {
    let policy = policy.with_prctl(advice);
    let mut fixes: Vec<Fix> = working(&policy).into_iter().map(|remedy| fix(remedy, &policy, huge)).collect();
    if advice == ThpAdvice::NoHuge && fixes.is_empty() {
        let text = "ask for huge pages where the program forbids them now; without either call the settings would allow them too";
        fixes.push(said(Reach::Mapping, text, "madvise(addr, length, MADV_HUGEPAGE);"));
    }
    if fixes.iter().any(|fix| fix.command.contains("MADV_HUGEPAGE") && fix.reach == Reach::Mapping) {
        let text = "or fill it in one call in place of a fault per page (Linux 5.14); the pages stay small";
        fixes.push(said(Reach::Mapping, text, "madvise(addr, length, MADV_POPULATE_WRITE);"));
    }
    fixes
}

fn said(reach: Reach, text: &str, command: &str) -> Fix {
    Fix { reach, text: text.to_owned(), command: command.to_owned() }
}

fn fix(remedy: Remedy, policy: &ThpPolicy, huge: &str) -> Fix {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    match remedy {
        Remedy::Advise => said(
            Reach::Mapping,
            &format!(
                "ask for huge pages where the memory is mapped, right after mmap and before the first touch (works with thp.enabled=madvise; mappings of whole {huge} only)"
            ),
            "madvise(addr, length, MADV_HUGEPAGE);",
        ),
        Remedy::Collapse => said(
            Reach::Mapping,
            &format!(
                "or make huge pages of it once it is filled, whatever the settings of the host (Linux 6.1; mappings of whole {huge} only; the faults stay)"
            ),
            "madvise(addr, length, MADV_COLLAPSE);",
        ),
        Remedy::TakeBack => said(
            Reach::Process,
            "take back the prohibition for the process, or start it without the wrapper that sets it",
            "prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);",
        ),
        Remedy::TakeBackAndAdvise => said(
            Reach::Process,
            "take back the prohibition for the process, and ask for huge pages: without it nothing else helps, and alone it does not",
            "prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); madvise(addr, length, MADV_HUGEPAGE);",
        ),
        Remedy::TakeBackAndCollapse => said(
            Reach::Process,
            "take back the prohibition for the process, and make huge pages of the memory once it is filled (Linux 6.1): the host forbids them too",
            "prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); madvise(addr, length, MADV_COLLAPSE);",
        ),
        Remedy::MallocTunable => said(
            Reach::Process,
            "let glibc's malloc ask for them in this process (glibc 2.35; memory that the program maps itself is not affected)",
            "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 COMMAND",
        ),
        Remedy::AllowAdvised => said(
            Reach::System,
            "allow them on the host for memory that asks, and ask with madvise(addr, length, MADV_HUGEPAGE)",
            &format!("echo madvise | sudo tee {FOLDER}/enabled"),
        ),
        Remedy::InheritSize => said(
            Reach::System,
            "let this size follow thp.enabled again, for every program of the host, which may cost others memory",
            &format!("echo inherit | sudo tee {FOLDER}/hugepages-{}kB/enabled", policy.largest() / 1024),
        ),
        Remedy::AllowAll => said(
            Reach::System,
            "allow them for every program of the host, which may cost others memory",
            &format!("echo always | sudo tee {FOLDER}/enabled"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedies(settings: &[(&str, &str)]) -> Vec<Remedy> {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        thp_remedies(&settings, 2 << 20).expect("thp.enabled is given")
    }

    /// The table above; `tests/host_remedies.rs` holds it to the kernel.
    #[test]
    fn what_cannot_work_is_not_listed() {
        use Remedy::*;
        assert_eq!(remedies(&[("thp.enabled", "madvise")]), [Advise, Collapse, MallocTunable, AllowAll]);
        assert_eq!(remedies(&[("thp.enabled", "never")]), [Collapse, AllowAdvised, AllowAll]);
        let barred = |enabled| remedies(&[("thp.enabled", enabled), ("mm.thp_disable", "1")]);
        assert_eq!(barred("always"), [TakeBack]);
        assert_eq!(barred("madvise"), [TakeBackAndAdvise]);
        assert_eq!(barred("never"), [TakeBackAndCollapse]);
        let own = |own| remedies(&[("thp.enabled", "always"), ("thp.2M.enabled", own)]);
        assert_eq!(own("never"), [Collapse, InheritSize]);
        assert_eq!(own("madvise"), [Advise, Collapse, InheritSize]);
        let except = remedies(&[("thp.enabled", "always"), ("mm.thp_disable", "except-advised")]);
        assert_eq!(except, [Advise, Collapse, TakeBack]);
    }
}
