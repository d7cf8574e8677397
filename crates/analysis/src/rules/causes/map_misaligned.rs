//! `map.misaligned`: mappings long enough for huge pages that do not begin where one can.

use crate::rules::chain::{CaseParts, Chain, Verdict};
use crate::rules::effect;
use crate::rules::evidence::{RunEvidence, SideEvidence};
use crate::rules::finding::{Fix, Reach, SettingSubject};
use crate::rules::policy::ThpPolicy;
use crate::rules::scene::{MATERIAL_SHARE, Scene, Subject};
use crate::rules::{About, Effect, Manual, Rule};
use pagelab_views::mappings::{ClassKey, ClassProfile, MemoryKind, SlotStats, ThpAdvice, bytes};

/// The rule.
pub(super) struct MapMisaligned;

const ABOUT: About = About {
    cause: "map.misaligned",
    looks_at: "start of each mapping modulo 2 MiB (for files: less the file offset), the whole 2 MiB slots its memory \
               area holds, neighbours that merged included, and the faults inside and outside of them",
    holds_if: &[
        "on the slower side mappings of at least 2 MiB hold at least a quarter fewer whole slots than their length allows, and most do not begin at a multiple of 2 MiB",
        "the faults in the slots they lost are at least 10 % of all faults and outnumber those in their whole slots",
        "on the other side mappings of the same sort and length lost at most half as many slots, and at least half of their whole slots took a fault or two each",
        "the settings allow huge pages there (if they forbid them on the slower side as well, the cause is less certain)",
    ],
    refuted_by: &[
        "the mappings are aligned on both sides",
        "the lengths differ: the program maps something else",
        "neighbouring mappings merged into areas that hold whole slots",
        "the other side takes as many faults: alignment did not matter there",
        "the extra kernel time explains less than 5 % of the lost time (upper end of the interval)",
        "lost records could make up the difference",
    ],
    alone: "at least half of the slots lost, densely faulted, with at least 10 % of all faults, where the settings allow huge pages",
};

/// A class with the slots its mappings could hold and those they do.
#[derive(Debug, Clone, Default)]
struct Counted {
    mappings: u64,
    bytes: u64,
    possible: u64,
    held: u64,
    asked: u64,
    aligned: f64,
    odd_starts: u64,
    partial: SlotStats,
    whole: SlotStats,
}

impl Counted {
    fn lost_share(&self) -> f64 {
        if self.possible == 0 { 0.0 } else { 1.0 - (self.held as f64 / self.possible as f64).min(1.0) }
    }

    fn mean_length(&self) -> f64 {
        self.bytes as f64 / self.mappings.max(1) as f64
    }
}

/// Memory that huge pages exist for, in mappings that were seen being made and are long enough for one.
fn concerns(class: &ClassProfile) -> bool {
    let kind = class.key.kind;
    let sort = kind.takes_anonymous_thp() || matches!(kind, MemoryKind::File | MemoryKind::SharedAnonymous);
    sort && kind != MemoryKind::Heap
        && class.slots_if_aligned > 0
        && class.prior < class.mappings.max(1)
        && matches!(class.key.advice, ThpAdvice::None | ThpAdvice::Huge)
}

/// All classes of a run that are alike, whoever mapped them.
fn counted(run: &RunEvidence, key: &ClassKey) -> Option<Counted> {
    let profile = run.profile.as_ref()?;
    let mut sum = Counted::default();
    let mut aligned = 0.0;
    for class in profile.classes.iter().filter(|class| concerns(class) && class.key.alike(key)) {
        sum.mappings += class.mappings;
        sum.bytes += class.bytes;
        sum.possible += class.slots_if_aligned;
        sum.held += class.eligible_slots;
        sum.asked += class.address_asked;
        sum.partial.merge(&class.partial);
        sum.whole.merge(&class.whole);
        aligned += class.aligned_share().unwrap_or(0.0) * class.mappings as f64;
        sum.odd_starts += class.misalignment.iter().filter(|(at, _)| **at != 0).map(|(_, n)| n).sum::<u64>()
            + class.misalignment_others;
    }
    sum.aligned = aligned / sum.mappings.max(1) as f64;
    Some(sum)
}

impl Rule for MapMisaligned {
    fn cause(&self) -> &'static str {
        ABOUT.cause
    }

    fn manual(&self) -> Manual {
        Manual::from(&ABOUT)
    }

    fn examine(&self, scene: &Scene<'_>) -> Verdict {
        if !scene.has_profiles() {
            return Scene::no_profiles();
        }
        let weight = |class: &ClassProfile| {
            let odd = class.aligned_share().is_some_and(|share| share < 1.0);
            if concerns(class) && odd { class.partial.faults } else { 0 }
        };
        let Some(subject) = scene.slow.subject(weight) else {
            return Verdict::Refuted(vec![aligned_already(scene)]);
        };
        let key = &subject.key;
        let mut chain = Chain::default();
        start_link(scene, key, &mut chain);
        fault_link(scene, key, &mut chain);
        if let Some(fast) = scene.fast {
            contrast_links(scene, fast, key, &mut chain);
        }
        policy_link(scene, key, &mut chain);
        chain.loss(scene.lost_faults_explain(|profile| {
            let class = profile.classes.iter().filter(|class| concerns(class) && class.key.alike(key));
            class.map(|class| class.partial.faults + class.whole.faults).sum()
        }));
        let cost = effect::faults(scene, &ABOUT, |run| counted(run, key).map(|c| c.partial.window_faults as f64));
        let effect = effect::huge_pages_link(scene, effect::effect(scene, &cost), window_share(scene, key), &mut chain);
        chain.close(scene, |scene| parts(scene, &subject, effect))
    }
}

fn aligned_already(scene: &Scene<'_>) -> String {
    let starts = scene.slow.runs.iter().filter_map(|run| run.profile.as_ref()).flat_map(|profile| &profile.classes);
    let (mut aligned, mut all) = (0, 0);
    for class in starts.filter(|class| concerns(class)) {
        aligned += class.misalignment.get(&0).copied().unwrap_or(0);
        all += class.misalignment.values().sum::<u64>() + class.misalignment_others;
    }
    let huge = bytes(scene.huge_bytes());
    if all == 0 {
        return format!("{} makes no mappings of {huge} or more that huge pages exist for", scene.slow.word());
    }
    format!(
        "{}: no faults in mappings of {huge} or more that begin off a multiple of {huge}; {aligned} of {all} begin at one",
        scene.slow.word()
    )
}

fn start_link(scene: &Scene<'_>, key: &ClassKey, chain: &mut Chain) {
    let slow = scene.slow;
    let least = if scene.fast.is_some() { 0.25 } else { 0.5 };
    let lost = |run: &RunEvidence| {
        let counted = counted(run, key)?;
        Some(counted.lost_share() >= least && counted.aligned < 0.5)
    };
    let median = |of: fn(&Counted) -> f64| slow.median(|run| counted(run, key).map(|c| of(&c))).unwrap_or(0.0);
    let (held, possible) = (median(|c| c.held as f64), median(|c| c.possible as f64));
    let huge = bytes(scene.huge_bytes());
    let usual = slow
        .runs
        .iter()
        .filter_map(|run| run.profile.as_ref()?.class(key)?.usual_misalignment())
        .max_by_key(|(_, n)| *n)
        .map_or_else(String::new, |(at, _)| format!(", most of them {} behind one", bytes(at)));
    chain.needs(
        slow.mostly(lost),
        format!(
            "{}: {:.0} of {:.0} such mappings do not begin at a multiple of {huge}{usual}; they hold {held:.0} whole slots, their length allows {possible:.0}",
            slow.word(),
            median(|c| c.odd_starts as f64),
            median(|c| c.mappings as f64)
        ),
        format!(
            "{}: the mappings hold {held:.0} of the {possible:.0} whole slots that their length allows, {:.0} % begin at a multiple of {huge}",
            slow.word(),
            median(|c| c.aligned) * 100.0
        ),
        "starts of the mappings",
    );
}

fn fault_link(scene: &Scene<'_>, key: &ClassKey, chain: &mut Chain) {
    let slow = scene.slow;
    let heavy = |run: &RunEvidence| {
        let (counted, all) = (counted(run, key)?, run.profile.as_ref()?.faults.max(1));
        let dense = counted.partial.many > 0;
        let share = counted.partial.faults as f64 / all as f64;
        Some(dense && share >= MATERIAL_SHARE && counted.partial.faults > counted.whole.faults)
    };
    let median = |of: fn(&Counted) -> f64| slow.median(|run| counted(run, key).map(|c| of(&c))).unwrap_or(0.0);
    let (outside, inside) = (median(|c| c.partial.faults as f64), median(|c| c.whole.faults as f64));
    chain.needs(
        slow.mostly(heavy),
        format!("{}: {outside:.0} faults where no huge page fits, {inside:.0} where one would", slow.word()),
        format!(
            "{}: {outside:.0} faults where no huge page fits against {inside:.0} where one would: neighbours merged into whole slots, or it is too little to matter",
            slow.word()
        ),
        "faults of the slower side",
    );
    chain.refuter(
        slow.mostly(heavy).map(|heavy| !heavy),
        "neighbouring mappings merged, so their slots are whole in spite of the starts",
        format!("neighbouring mappings that merged into whole slots: only {inside:.0} faults were in such"),
        "merging of neighbours",
    );
}

fn contrast_links(scene: &Scene<'_>, fast: &SideEvidence, key: &ClassKey, chain: &mut Chain) {
    let name = fast.word();
    let slow_lost = scene.slow.median(|run| counted(run, key).map(|c| c.lost_share())).unwrap_or(0.0);
    let median = |of: fn(&Counted) -> f64| fast.median(|run| counted(run, key).map(|c| of(&c))).unwrap_or(0.0);
    let (held, possible) = (median(|c| c.held as f64), median(|c| c.possible as f64));
    let better = |run: &RunEvidence| {
        let counted = counted(run, key)?;
        Some(counted.possible > 0 && counted.lost_share() <= slow_lost / 2.0)
    };
    chain.needs(
        fast.mostly(better),
        format!("{name}: mappings of the same sort hold {held:.0} of the {possible:.0} whole slots that their length allows"),
        format!("{name}: mappings of the same sort hold {held:.0} of {possible:.0} whole slots, no more than the slower side's"),
        "mappings of the faster side",
    );
    let few = |run: &RunEvidence| {
        let whole = counted(run, key)?.whole;
        Some(whole.touched > 0 && whole.few * 2 >= whole.touched)
    };
    chain.needs(
        fast.mostly(few),
        format!(
            "{name}: {:.0} of {:.0} whole slots took only a fault or two, as a huge page does",
            median(|c| c.whole.few as f64),
            median(|c| c.whole.touched as f64)
        ),
        format!("{name}: its whole slots were filled page by page too, so alignment did not matter there"),
        "faults of the faster side",
    );
    let lengths = scene
        .slow
        .median(|run| counted(run, key).map(|c| c.mean_length()))
        .zip(fast.median(|run| counted(run, key).map(|c| c.mean_length())));
    let alike = lengths.map(|(slow, fast)| slow <= fast * 1.25 && fast <= slow * 1.25);
    let said = lengths.map_or_else(String::new, |(slow, fast)| {
        format!("{} on {}, {} on {name}", bytes(slow as u64), scene.slow.word(), bytes(fast as u64))
    });
    chain.refuter(
        alike.map(|alike| !alike),
        format!("the mappings differ in length ({said}): the program maps something else"),
        format!("mappings of another length: they are alike ({said})"),
        "lengths of the mappings",
    );
    chain.refuter(
        fast.mostly(|run| Some(counted(run, key)?.lost_share() >= slow_lost)),
        "the mappings are misaligned on both sides alike",
        "misaligned mappings on both sides",
        "starts on the faster side",
    );
}

/// Alignment matters only where huge pages are allowed. For files other things decide, so nothing is said of them.
fn policy_link(scene: &Scene<'_>, key: &ClassKey, chain: &mut Chain) {
    if !key.kind.takes_anonymous_thp() {
        return;
    }
    let huge = scene.huge_bytes();
    let allows =
        |side: &SideEvidence| ThpPolicy::of(&side.settings, huge).map(|policy| policy.allows(key.advice).is_some());
    let slow = allows(scene.slow);
    let yes = format!("the settings allow huge pages for this memory on {}", scene.slow.word());
    let no = format!(
        "the settings forbid huge pages for this memory on {}: alignment alone would not bring them back",
        scene.slow.word()
    );
    match scene.fast {
        None => chain.needs(slow, yes, no, "thp.enabled"),
        Some(_) => chain.supports(slow, yes, no, "thp.enabled"),
    }
}

fn window_share(scene: &Scene<'_>, key: &ClassKey) -> Option<f64> {
    scene.slow.median(|run| {
        let all = run.profile.as_ref()?.window_faults.max(1);
        Some(counted(run, key)?.partial.window_faults as f64 / all as f64)
    })
}

/// Who chose the addresses: the program by asking, or the kernel, whose habit changes with its release (anonymous
/// mappings of whole huge pages are aligned since Linux 6.7) and with the layout.
fn deciding_setting(scene: &Scene<'_>, key: &ClassKey) -> Option<SettingSubject> {
    let asked = scene.slow.median(|run| {
        let counted = counted(run, key)?;
        Some(counted.asked as f64 / counted.mappings.max(1) as f64)
    })?;
    if asked > 0.5 {
        return None;
    }
    let differing = &scene.evidence.contrast.as_ref()?.differing;
    let by_kernel = ["kernel.release", "sysctl.vm.legacy_va_layout"];
    let change = by_kernel.iter().find_map(|key| differing.iter().find(|change| change.key == *key))?;
    Some(SettingSubject {
        key: change.key.clone(),
        base: change.base.clone(),
        test: change.test.clone(),
        differs: true,
    })
}

fn parts(scene: &Scene<'_>, subject: &Subject, effect: Option<Effect>) -> CaseParts {
    let key = &subject.key;
    let huge = bytes(scene.huge_bytes());
    let setting = deciding_setting(scene, key);
    let per_mapping = |side: &SideEvidence| {
        side.median(|run| {
            let counted = counted(run, key)?;
            let faults = counted.partial.faults + counted.whole.faults;
            (counted.mappings > 0).then(|| faults as f64 / counted.mappings as f64)
        })
    };
    let slow_each = per_mapping(scene.slow).unwrap_or(0.0);
    let against = scene
        .fast
        .and_then(per_mapping)
        .map_or_else(String::new, |n| format!(", where {} takes {n:.1}", scene.slow.name.other().word()));
    let who = match &setting {
        Some(setting) => format!("; the kernel chose the addresses, and {} differs", setting.key),
        None => String::new(),
    };
    CaseParts {
        summary: format!(
            "{}: mappings on {} do not begin at a multiple of {huge}, so no huge page fits and each takes {slow_each:.0} faults{against}{who}",
            scene.movement(),
            scene.slow.word()
        ),
        numbers: vec![
            scene.number("mappings that begin at a slot", "", |run| {
                counted(run, key).map(|c| c.aligned * c.mappings as f64)
            }),
            scene.number("mappings", "", |run| counted(run, key).map(|c| c.mappings as f64)),
            scene.number("whole slots held", "", |run| counted(run, key).map(|c| c.held as f64)),
            scene.number("whole slots possible", "", |run| counted(run, key).map(|c| c.possible as f64)),
            scene.work_number("faults where no huge page fits", "", |run| {
                counted(run, key).map(|c| c.partial.faults as f64)
            }),
            scene.work_number("faults", "", |run| Some(run.profile.as_ref()?.window_faults as f64)),
            scene.work_number("time in the kernel", "ns", RunEvidence::kernel_ns),
        ],
        fixes: fixes(key, scene.huge_bytes()),
        effect,
        mapping: subject.mapping.clone(),
        setting,
        together_with: Vec::new(),
    }
}

fn fixes(key: &ClassKey, huge: u64) -> Vec<Fix> {
    let fix = |reach, text: String, command: String| Fix { reach, text, command };
    let size = bytes(huge);
    let mut fixes = vec![fix(
        Reach::Mapping,
        format!("begin the mapping at a multiple of {size}: reserve {size} more, round up, map over it"),
        format!(
            "base = mmap(NULL, length + {huge}, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0); start = (base + {huge} - 1) & ~({huge} - 1); mmap(start, length, prot, flags|MAP_FIXED, fd, offset);"
        ),
    )];
    if key.kind == MemoryKind::File {
        fixes.push(fix(
            Reach::File,
            format!("keep start and file offset equal modulo {size}, and extents aligned to it"),
            "fallocate -l LENGTH FILE   # before writing; the file system must give aligned extents".to_owned(),
        ));
    }
    fixes.push(fix(
        Reach::Process,
        "map the memory in one piece, so that neighbouring pieces are one area and only its ends are lost".to_owned(),
        "mmap(NULL, TOTAL, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);".to_owned(),
    ));
    fixes.push(fix(
        Reach::System,
        "let the kernel choose the address: Linux 6.7 and later align anonymous mappings of whole huge pages"
            .to_owned(),
        "mmap(NULL, ...) in place of a fixed address; uname -r".to_owned(),
    ));
    fixes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_the_part_of_possible_slots_that_is_not_held() {
        for (possible, held, lost) in [(0, 0, 0.0), (8, 8, 0.0), (8, 6, 0.25), (8, 0, 1.0), (8, 9, 0.0)] {
            let found = Counted { possible, held, ..Counted::default() }.lost_share();
            assert!((found - lost).abs() < 1e-12, "{held} of {possible}: {found}");
        }
    }
}
