//! `thp.disabled`: memory that could hold transparent huge pages is filled page by page, because it is forbidden.

use crate::rules::chain::{CaseParts, Chain, Verdict};
use crate::rules::effect;
use crate::rules::evidence::{RunEvidence, SideEvidence};
use crate::rules::finding::SettingSubject;
use crate::rules::policy::{ENABLED, ThpPolicy};
use crate::rules::scene::{MATERIAL_SHARE, Scene, Subject};
use crate::rules::{About, Effect, Manual, Rule, remedies};
use pagelab_views::mappings::{ClassKey, ClassProfile, MappingProfile, SlotStats, ThpAdvice, bytes};

/// The rule.
pub(super) struct ThpDisabled;

const ABOUT: About = About {
    cause: "thp.disabled",
    looks_at: "faults per whole 2 MiB slot of private anonymous memory and the heap, vmstat.thp_fault_alloc, \
               thp.enabled, thp.<size>.enabled, mm.thp_disable, madvise and prctl calls",
    holds_if: &[
        "on the slower side whole slots were filled page by page (at least 64 of 512 pages by a fault of their own), with at least 10 % of all its faults in them",
        "on the other side at least half of such slots took at most 8 faults, and there were at least a quarter as many of them per unit of work",
        "vmstat.thp_fault_alloc of the other side accounts for them: at least 0.4 of those slots",
        "a model of the kernel's decision, fed with each side's settings and the program's advice, forbids huge pages on the slower side and allows them on the other",
    ],
    refuted_by: &[
        "the memory areas could not hold a huge page: too small or misaligned, so that whole slots took less than 10 % of the faults",
        "the kernel was allowed and tried: vmstat.thp_fault_fallback of the slower side reaches half of those slots",
        "both sides allow huge pages, or neither does",
        "the side without huge pages is the faster one",
        "the extra kernel time explains less than 5 % of the lost time (upper end of the interval)",
        "the memory stands in for hugetlb memory that was refused",
        "lost records could make up the difference",
    ],
    alone: "slots filled page by page with at least 10 % of all faults, which the settings forbid to hold huge pages",
};

/// What the rule counts in one run.
struct Counted {
    whole: SlotStats,
    faults: u64,
    window_faults: u64,
}

fn concerns(class: &ClassProfile) -> bool {
    class.key.kind.takes_anonymous_thp() && class.after_refusal * 2 < class.mappings.max(1)
}

fn counted(run: &RunEvidence) -> Option<Counted> {
    let profile = run.profile.as_ref()?;
    Some(Counted { whole: profile.whole_slots(concerns), faults: profile.faults, window_faults: profile.window_faults })
}

/// Faults in slots filled page by page, estimated from the slots of either sort.
fn faults_in_many(profile: &MappingProfile) -> u64 {
    let whole = profile.whole_slots(concerns);
    // The rest of the faults is in slots with few, which have a handful each.
    if whole.many == 0 { 0 } else { whole.faults.saturating_sub(whole.few * 2) }
}

fn material(run: &RunEvidence) -> Option<bool> {
    let counted = counted(run)?;
    let many = run.profile.as_ref().map_or(0, faults_in_many);
    Some(counted.whole.many > 0 && many as f64 >= MATERIAL_SHARE * counted.faults.max(1) as f64)
}

fn mostly_few(run: &RunEvidence) -> Option<bool> {
    let whole = counted(run)?.whole;
    Some(whole.touched > 0 && whole.few * 2 >= whole.touched)
}

impl Rule for ThpDisabled {
    fn cause(&self) -> &'static str {
        ABOUT.cause
    }

    fn manual(&self) -> Manual {
        Manual::from(&ABOUT)
    }

    fn examine(&self, scene: &Scene<'_>) -> Verdict {
        if !scene.has_profiles() {
            return without_faults(scene);
        }
        let mut chain = Chain::default();
        let Some(subject) = scene.slow.subject(|class| if concerns(class) { class.whole.many } else { 0 }) else {
            return Verdict::Refuted(vec![nothing_filled(scene)]);
        };
        if scene.fast.is_none() && subject.key.advice == ThpAdvice::NoHuge {
            return Verdict::Refuted(vec![
                "the program itself asked for no huge pages where most slots were filled".to_owned(),
            ]);
        }
        policy_link(scene, &subject, &mut chain);
        slots_link(scene, &mut chain);
        if let Some(fast) = scene.fast {
            contrast_links(scene, fast, &mut chain);
        }
        fallback_refuter(scene, &mut chain);
        chain.loss(scene.lost_faults_explain(|profile| profile.whole_slots(concerns).faults));
        let cost = effect::faults(scene, &ABOUT, |run| counted(run).map(|c| c.whole.window_faults as f64));
        let effect = effect::huge_pages_link(scene, effect::effect(scene, &cost), window_share(scene), &mut chain);
        chain.close(scene, |scene| parts(scene, &subject, effect))
    }
}

/// Why there is nothing: said with the direction, since the usual reason is that the memory cannot hold huge pages.
fn nothing_filled(scene: &Scene<'_>) -> String {
    let reversed = scene.fast.is_some_and(|fast| fast.mostly(material) == Some(true));
    if reversed {
        return format!(
            "the side whose slots were filled page by page ({}) is the faster one",
            scene.slow.name.other().word()
        );
    }
    let partial = scene.slow.median(|run| {
        let profile = run.profile.as_ref()?;
        Some(profile.classes.iter().filter(|c| c.key.kind.takes_anonymous_thp()).map(|c| c.partial.faults).sum::<u64>()
            as f64)
    });
    format!(
        "no whole {} slot of private memory was filled page by page on {}; {:.0} faults lie in slots that no huge page fits",
        bytes(scene.huge_bytes()),
        scene.slow.word(),
        partial.unwrap_or(0.0)
    )
}

fn slots_link(scene: &Scene<'_>, chain: &mut Chain) {
    let slow = scene.slow;
    let median = |of: fn(&Counted) -> f64| slow.median(|run| counted(run).map(|c| of(&c))).unwrap_or(0.0);
    let (touched, many) = (median(|c| c.whole.touched as f64), median(|c| c.whole.many as f64));
    let share = slow.median(|run| {
        let profile = run.profile.as_ref()?;
        Some(faults_in_many(profile) as f64 / profile.faults.max(1) as f64)
    });
    let share = share.unwrap_or(0.0) * 100.0;
    let huge = bytes(scene.huge_bytes());
    let each = slow.median(|run| {
        let counted = counted(run)?;
        (counted.whole.touched > 0).then(|| counted.whole.faults as f64 / counted.whole.touched as f64)
    });
    chain.needs(
        slow.mostly(material),
        format!(
            "{}: {many:.0} of {touched:.0} whole {huge} slots were filled page by page, {:.0} faults a slot; they hold {share:.0} % of all faults",
            slow.word(),
            each.unwrap_or(0.0)
        ),
        format!(
            "{}: whole {huge} slots filled page by page hold {share:.1} % of all faults, at least {:.0} % are needed: the faults lie in memory too small or misaligned for huge pages",
            slow.word(),
            MATERIAL_SHARE * 100.0
        ),
        "faults of the slower side",
    );
    let size = slow.mostly(material);
    chain.refuter(
        size.map(|material| !material),
        "mappings too small or misaligned for a huge page",
        format!("mappings too small or misaligned for a huge page: {touched:.0} slots lay whole in one memory area when first touched"),
        "size and alignment of the mappings",
    );
}

fn contrast_links(scene: &Scene<'_>, fast: &SideEvidence, chain: &mut Chain) {
    let name = fast.word();
    let median = |of: fn(&Counted) -> f64| fast.median(|run| counted(run).map(|c| of(&c))).unwrap_or(0.0);
    let (touched, few) = (median(|c| c.whole.touched as f64), median(|c| c.whole.few as f64));
    chain.needs(
        fast.mostly(mostly_few),
        format!("{name}: {few:.0} of {touched:.0} whole slots took only a fault or two, as a huge page does"),
        format!(
            "{name}: only {few:.0} of {touched:.0} whole slots took few faults, so most of them got no huge page there either"
        ),
        "faults of the faster side",
    );
    let per_work = |side, of: fn(&Counted) -> u64| scene.per_work(side, |run| counted(run).map(|c| of(&c) as f64));
    let same_memory = per_work(scene.slow, |c| c.whole.many)
        .zip(per_work(fast, |c| c.whole.touched))
        .map(|(slow, fast)| fast >= slow / 4.0);
    chain.needs(
        same_memory,
        format!("both sides use such memory: {touched:.0} slots a run on {name}"),
        format!(
            "{name} hardly uses such memory: {touched:.0} slots a run, less than a quarter of the other side's per {}",
            scene.evidence.per()
        ),
        "slots of the faster side",
    );
    let accounted = |run: &RunEvidence| {
        let counted = counted(run)?;
        let in_window = counted.window_faults as f64 / counted.faults.max(1) as f64;
        Some(run.events("vmstat.thp_fault_alloc", None)? >= 0.4 * counted.whole.few as f64 * in_window)
    };
    let allocs = |side: &SideEvidence| side.median(|run| run.events("vmstat.thp_fault_alloc", None));
    let said = allocs(fast).zip(allocs(scene.slow)).map_or_else(String::new, |(fast, slow)| {
        format!("vmstat.thp_fault_alloc in the measured time: {fast:.0} on {name}, {slow:.0} on {}", scene.slow.word())
    });
    chain.supports(
        fast.mostly(accounted),
        said.clone(),
        format!("{said}: fewer huge pages than slots with few faults"),
        "vmstat.thp_fault_alloc",
    );
}

/// The policy of each side for the memory concerned, and the setting that makes the difference.
fn policies(scene: &Scene<'_>, subject: &Subject) -> (Option<ThpPolicy>, Option<ThpPolicy>, ThpAdvice) {
    let huge = scene.huge_bytes();
    let slow = ThpPolicy::of(&scene.slow.settings, huge);
    let fast = scene.fast.and_then(|fast| ThpPolicy::of(&fast.settings, huge));
    (slow, fast, fast_advice(scene, &subject.key))
}

/// The advice on the same sort of memory on the other side: where most whole slots are.
fn fast_advice(scene: &Scene<'_>, key: &ClassKey) -> ThpAdvice {
    let Some(fast) = scene.fast else { return key.advice };
    let weight = |class: &ClassProfile| if concerns(class) && class.key.alike(key) { class.whole.touched } else { 0 };
    let anywhere = |class: &ClassProfile| if concerns(class) { class.whole.touched } else { 0 };
    let found = fast.subject(weight).or_else(|| fast.subject(anywhere));
    found.map_or(ThpAdvice::None, |found| found.key.advice)
}

fn policy_link(scene: &Scene<'_>, subject: &Subject, chain: &mut Chain) {
    let (slow, fast, fast_advice) = policies(scene, subject);
    let named = deciding(scene, subject);
    let text = named.as_ref().map(|deciding| deciding.said(scene)).unwrap_or_default();
    let slow_allows = slow.as_ref().map(|policy| policy.allows(subject.key.advice));
    if scene.fast.is_none() {
        chain.needs(
            slow_allows.map(|allowed| allowed.is_none() && named.is_some()),
            format!("the settings forbid huge pages for this memory: {text}"),
            "the settings allow huge pages for this memory",
            ENABLED,
        );
        return;
    }
    let fast_allows = fast.as_ref().map(|policy| policy.allows(fast_advice));
    let differs = slow_allows.zip(fast_allows).map(|(slow, fast)| fast > slow);
    let words = |allowed: Option<Option<u64>>| match allowed {
        Some(Some(size)) => format!("pages of {}", bytes(size)),
        _ => "no huge pages".to_owned(),
    };
    chain.needs(
        differs.map(|differs| differs && named.is_some()),
        format!(
            "the settings allow {} {} for this memory, {} {}: {text}",
            scene.slow.word(),
            words(slow_allows),
            scene.slow.name.other().word(),
            words(fast_allows)
        ),
        format!(
            "the settings allow both sides the same for this memory: {} {}, {} {}",
            scene.slow.word(),
            words(slow_allows),
            scene.slow.name.other().word(),
            words(fast_allows)
        ),
        ENABLED,
    );
}

/// What makes the difference: with the other side's values of these alone, the slow side would be allowed as much.
struct Deciding {
    /// Settings, or the program's own call; one, unless none suffices alone.
    together: Vec<SettingSubject>,
}

/// A setting that differs, or the program's own call: what could be taken from the other side.
enum Candidate<'a> {
    Setting(&'a crate::rules::evidence::SettingChange),
    Call,
}

/// The fewest settings and calls whose other value suffices; of equally few the first in the order of relevance.
fn deciding(scene: &Scene<'_>, subject: &Subject) -> Option<Deciding> {
    let advice = subject.key.advice;
    let (slow, fast, fast_advice) = policies(scene, subject);
    let slow = slow?;
    let Some(contrast) = scene.evidence.contrast.as_ref() else {
        let named = if advice == ThpAdvice::Prctl {
            call("prctl(PR_SET_THP_DISABLE)", None, Some("1"), false)
        } else {
            let (key, value) = slow.forbidding(advice)?;
            SettingSubject { key, base: None, test: Some(value), differs: false }
        };
        return Some(Deciding { together: vec![named] });
    };
    let wanted = fast?.allows(fast_advice);
    let settings = contrast.differing.iter().filter(|change| ThpPolicy::decides(&change.key)).map(Candidate::Setting);
    let own = (advice != fast_advice).then_some(Candidate::Call);
    let candidates: Vec<Candidate<'_>> = settings.chain(own).take(MOST_CANDIDATES).collect();
    let suffices = |chosen: u32| {
        let (mut policy, mut advice) = (slow.clone(), advice);
        for candidate in picked(&candidates, chosen) {
            match candidate {
                Candidate::Call => advice = fast_advice,
                Candidate::Setting(change) => {
                    let value = match scene.slow.name.other() {
                        crate::rules::SideName::Base => change.base.as_deref(),
                        crate::rules::SideName::Test => change.test.as_deref(),
                    };
                    policy = policy.with(&change.key, value);
                }
            }
        }
        policy.allows(advice) >= wanted
    };
    let mut subsets: Vec<u32> = (1..1 << candidates.len()).collect();
    subsets.sort_by_key(|chosen| (chosen.count_ones(), *chosen));
    let chosen = subsets.into_iter().find(|chosen| suffices(*chosen))?;
    let subject = |candidate: &Candidate<'_>| match candidate {
        Candidate::Call => own_call(scene, advice, fast_advice),
        Candidate::Setting(change) => SettingSubject {
            key: change.key.clone(),
            base: change.base.clone(),
            test: change.test.clone(),
            differs: true,
        },
    };
    Some(Deciding { together: picked(&candidates, chosen).map(subject).collect() })
}

/// Candidates looked at: their subsets are tried one by one.
const MOST_CANDIDATES: usize = 8;

/// The candidates whose bit is set.
fn picked<'c, 'a>(candidates: &'c [Candidate<'a>], chosen: u32) -> impl Iterator<Item = &'c Candidate<'a>> {
    candidates.iter().enumerate().filter(move |(place, _)| chosen & (1 << place) != 0).map(|(_, candidate)| candidate)
}

/// The program's call that differs between the sides.
fn own_call(scene: &Scene<'_>, slow_advice: ThpAdvice, fast_advice: ThpAdvice) -> SettingSubject {
    let (name, on_slow, on_fast) = match (slow_advice, fast_advice) {
        (ThpAdvice::Prctl, _) => ("prctl(PR_SET_THP_DISABLE)", "1", "0"),
        (ThpAdvice::NoHuge, _) => ("madvise(MADV_NOHUGEPAGE)", "called", "not called"),
        _ => ("madvise(MADV_HUGEPAGE)", "not called", "called"),
    };
    let (base, test) = match scene.slow.name {
        crate::rules::SideName::Test => (on_fast, on_slow),
        crate::rules::SideName::Base => (on_slow, on_fast),
    };
    call(name, Some(base), Some(test), true)
}

fn call(name: &str, base: Option<&str>, test: Option<&str>, differs: bool) -> SettingSubject {
    SettingSubject { key: name.to_owned(), base: base.map(str::to_owned), test: test.map(str::to_owned), differs }
}

impl Deciding {
    /// All of it in words.
    fn said(&self, scene: &Scene<'_>) -> String {
        let all: Vec<String> = self.together.iter().map(|setting| said(setting, scene)).collect();
        match all.as_slice() {
            [one] => one.clone(),
            several => format!("{}; none of these alone would bring them back", several.join(", and ")),
        }
    }
}

fn said(setting: &SettingSubject, scene: &Scene<'_>) -> String {
    let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    if scene.fast.is_some() {
        format!("{} is {} on base and {} on test", setting.key, show(&setting.base), show(&setting.test))
    } else {
        format!("{} is {}", setting.key, show(&setting.test))
    }
}

fn fallback_refuter(scene: &Scene<'_>, chain: &mut Chain) {
    let tried = |run: &RunEvidence| {
        let many = counted(run)?.whole.many as f64;
        Some(run.events("vmstat.thp_fault_fallback", None)? >= 0.5 * many.max(1.0))
    };
    let fallbacks = scene.slow.median(|run| run.events("vmstat.thp_fault_fallback", None)).unwrap_or(0.0);
    let found = scene.slow.median(|run| tried(run).map(f64::from)).map(|share| share > 0.5);
    chain.refuter(
        found,
        format!("the kernel was allowed to and found no memory in one piece: vmstat.thp_fault_fallback rose by {fallbacks:.0}"),
        format!("the kernel tried and found no memory in one piece: vmstat.thp_fault_fallback rose by {fallbacks:.0}"),
        "vmstat.thp_fault_fallback",
    );
}

/// Share of the slow side's faults in the window that lie in whole slots.
fn window_share(scene: &Scene<'_>) -> Option<f64> {
    scene.slow.median(|run| {
        let counted = counted(run)?;
        Some(counted.whole.window_faults as f64 / counted.window_faults.max(1) as f64)
    })
}

/// Without the streams of faults and maps: the setting and the host's counters may agree, which is a hint.
fn without_faults(scene: &Scene<'_>) -> Verdict {
    let mut chain = Chain::default();
    let Some(fast) = scene.fast else {
        return Scene::no_profiles();
    };
    let none = ClassKey {
        kind: pagelab_views::mappings::MemoryKind::Anonymous,
        path: None,
        size_bytes: scene.huge_bytes(),
        comm: None,
        advice: ThpAdvice::None,
    };
    let subject = Subject { key: none, mapping: None };
    policy_link(scene, &subject, &mut chain);
    let count = |side: &SideEvidence, name: &str| scene.per_work(side, |run| run.events(name, None));
    let names = ["vmstat.thp_fault_alloc", "vmstat.pgfault"];
    let [allocs, faults] = names.map(|name| count(scene.slow, name).zip(count(fast, name)));
    let moved =
        allocs.zip(faults).map(|((slow_a, fast_a), (slow_f, fast_f))| fast_a > slow_a * 4.0 && slow_f > fast_f * 1.5);
    chain.needs(
        moved,
        "the host took more faults and gave fewer huge pages (vmstat.pgfault, vmstat.thp_fault_alloc) on the slower side",
        "the host's vmstat.thp_fault_alloc and vmstat.pgfault did not move as they would",
        "vmstat.thp_fault_alloc or vmstat.pgfault",
    );
    chain.supports(None, "", "", "which mappings took the faults (streams faults and maps were not recorded)");
    chain.close(scene, |scene| parts(scene, &subject, None))
}

fn parts(scene: &Scene<'_>, subject: &Subject, effect: Option<Effect>) -> CaseParts {
    let deciding = deciding(scene, subject);
    let each = |side: &SideEvidence| {
        side.median(|run| {
            let whole = counted(run)?.whole;
            (whole.touched > 0).then(|| whole.faults as f64 / whole.touched as f64)
        })
    };
    let huge = bytes(scene.huge_bytes());
    let slow_each = each(scene.slow).map_or_else(|| "base pages".to_owned(), |n| format!("{n:.0} faults"));
    let against = scene
        .fast
        .and_then(each)
        .map_or_else(String::new, |n| format!(", where {} takes {n:.1}", scene.slow.name.other().word()));
    let why = deciding.as_ref().map(|deciding| format!(", because {}", deciding.said(scene))).unwrap_or_default();
    let (slow_policy, ..) = policies(scene, subject);
    let mut together = deciding.map(|deciding| deciding.together).unwrap_or_default().into_iter();
    CaseParts {
        summary: format!(
            "{}: memory that could hold huge pages takes {slow_each} for each {huge} on {}{against}{why}",
            scene.movement(),
            scene.slow.word()
        ),
        fixes: slow_policy.map_or_else(Vec::new, |policy| remedies::fixes(&policy, subject.key.advice, &huge)),
        numbers: vec![
            scene.work_number("faults in whole slots", "", |run| counted(run).map(|c| c.whole.faults as f64)),
            scene.number("whole slots filled page by page", "", |run| counted(run).map(|c| c.whole.many as f64)),
            scene.number("whole slots with few faults", "", |run| counted(run).map(|c| c.whole.few as f64)),
            scene.number("vmstat.thp_fault_alloc", "", |run| run.events("vmstat.thp_fault_alloc", None)),
            scene.number("vmstat.thp_fault_fallback", "", |run| run.events("vmstat.thp_fault_fallback", None)),
            scene.work_number("faults", "", |run| Some(run.profile.as_ref()?.window_faults as f64)),
            scene.work_number("time in the kernel", "ns", RunEvidence::kernel_ns),
        ],
        effect,
        mapping: subject.mapping.clone(),
        setting: together.next(),
        together_with: together.collect(),
    }
}
