//! `hugetlb.pool_exhausted`: a program asks for hugetlb memory, the pool has none, and it goes on with base pages.

use std::collections::BTreeMap;

use pagelab_vocab::settings::{format_size, parse_size};

use crate::rules::chain::{CaseParts, Chain, Verdict};
use crate::rules::effect;
use crate::rules::evidence::{ENOMEM, PoolLevels, RunEvidence, SettingChange, SideEvidence};
use crate::rules::finding::{Fix, Reach, SettingSubject};
use crate::rules::scene::{MATERIAL_SHARE, Scene};
use crate::rules::{About, Effect, Manual, Rule, SideName};
use pagelab_views::mappings::{ClassProfile, MemoryKind, RefusedHugetlb};

/// The rule.
pub(super) struct PoolExhausted;

const ABOUT: About = About {
    cause: "hugetlb.pool_exhausted",
    looks_at: "mmap calls with MAP_HUGETLB and their errno, the mappings made in their place, hugetlb.free_pages and \
               hugetlb.resv_pages sample by sample, the sizes of the pools and the limits of the cgroup",
    holds_if: &[
        "on the slower side requests for hugetlb memory fail with ENOMEM",
        "on the other side there are none, or less than half as many per unit of work",
        "right after a refusal the program maps memory of the same length from base pages, or it takes at least a fifth more faults per unit of work than the other side",
        "the pages of that size that were left could not hold the request, or a setting of the pool or of the cgroup is smaller on the slower side",
    ],
    refuted_by: &[
        "the pool had room for the largest refused request throughout, and no limit of the cgroup on reservations (rsvd.max) bars it; the limit on use (max) is enforced at the touch, by SIGBUS, and refuses no mmap",
        "RLIMIT_AS bars the request: mmap fails with ENOMEM before any pool is asked",
        "the calls failed for another reason (another errno)",
        "the extra kernel time explains less than 5 % of the lost time (upper end of the interval)",
        "lost records could make up the difference",
    ],
    alone: "refused requests, and a pool without room for them; memory in their place with at least 10 % of all faults",
};

/// The refusals of a run for want of memory, with the size of page that was asked for.
fn refused(run: &RunEvidence, default: u64) -> Option<Vec<(u64, &RefusedHugetlb)>> {
    let profile = run.profile.as_ref()?;
    let found = profile.refused_hugetlb.iter().filter(|refused| refused.errno == ENOMEM);
    Some(found.map(|refused| (refused.page_bytes.unwrap_or(default), refused)).collect())
}

fn refusals(run: &RunEvidence, default: u64) -> Option<u64> {
    Some(refused(run, default)?.iter().map(|(_, refused)| refused.count).sum())
}

/// Faults in the memory mapped in place of refused memory.
fn substitute_faults(run: &RunEvidence) -> Option<u64> {
    let profile = run.profile.as_ref()?;
    Some(profile.classes.iter().map(in_place).sum())
}

/// The part of a class's faults that its substitutes took.
fn in_place(class: &ClassProfile) -> u64 {
    let share = class.after_refusal as f64 / class.mappings.max(1) as f64;
    (class.faults as f64 * share) as u64
}

impl Rule for PoolExhausted {
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
        let default = default_size(scene.slow);
        let mut chain = Chain::default();
        let size = asked_size(scene, default);
        refusal_links(scene, default, &mut chain);
        if chain.stands() {
            substitute_link(scene, &mut chain);
            pool_links(scene, size, default, &mut chain);
            chain.loss(scene.lost_faults_explain(|profile| profile.faults));
        }
        let effect = if chain.stands() {
            let cost = effect::faults(scene, &ABOUT, substitute_window_faults);
            effect::huge_pages_link(scene, effect::effect(scene, &cost), window_share(scene), &mut chain)
        } else {
            None
        };
        chain.close(scene, |scene| parts(scene, size, default, effect))
    }
}

fn default_size(side: &SideEvidence) -> u64 {
    side.setting("hugetlb.default_size").and_then(parse_size).unwrap_or(2 << 20)
}

/// The page size of most refusals on the slower side.
fn asked_size(scene: &Scene<'_>, default: u64) -> u64 {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (size, refused) in scene.slow.runs.iter().filter_map(|run| refused(run, default)).flatten() {
        *counts.entry(size).or_default() += refused.count;
    }
    counts.into_iter().max_by_key(|(size, count)| (*count, *size)).map_or(default, |(size, _)| size)
}

fn refusal_links(scene: &Scene<'_>, default: u64, chain: &mut Chain) {
    let slow = scene.slow;
    let count = |side: &SideEvidence| side.median(|run| refusals(run, default).map(|n| n as f64)).unwrap_or(0.0);
    let other_errors: u64 = slow
        .runs
        .iter()
        .filter_map(|run| run.profile.as_ref())
        .flat_map(|profile| &profile.refused_hugetlb)
        .filter(|refused| refused.errno != ENOMEM)
        .map(|refused| refused.count)
        .sum();
    let why_not = if other_errors > 0 {
        format!("{}: {other_errors} requests for hugetlb memory failed, but not with ENOMEM", slow.word())
    } else {
        format!("{}: no request for hugetlb memory was refused", slow.word())
    };
    chain.needs(
        slow.mostly(|run| refusals(run, default).map(|n| n > 0)),
        format!("{}: {:.0} mmap calls with MAP_HUGETLB failed with ENOMEM in a run (median)", slow.word(), count(slow)),
        why_not,
        "calls of the slower side",
    );
    chain.refuter(
        Some(other_errors > 0 && count(slow) < 1.0),
        "the calls failed for another reason than want of memory",
        "calls that failed for another reason: none, or beside those with ENOMEM",
        "",
    );
    if let Some(fast) = scene.fast {
        let rate = |side| scene.per_work(side, |run| refusals(run, default).map(|n| n as f64));
        let fewer = rate(slow).zip(rate(fast)).map(|(slow, fast)| fast < slow / 2.0);
        chain.needs(
            fewer,
            format!("{}: {:.0} such failures", fast.word(), count(fast)),
            format!(
                "{}: {:.0} such failures, at least half as many per {}",
                fast.word(),
                count(fast),
                scene.evidence.per()
            ),
            "calls of the other side",
        );
    }
}

fn substitute_link(scene: &Scene<'_>, chain: &mut Chain) {
    let slow = scene.slow;
    let all = |run: &RunEvidence| run.profile.as_ref().map(|profile| profile.window_faults as f64);
    let material = slow.mostly(|run| {
        let all = run.profile.as_ref()?.faults.max(1);
        Some(substitute_faults(run)? as f64 >= MATERIAL_SHARE * all as f64)
    });
    let more = scene.fast.and_then(|fast| {
        let rates = scene.per_work(slow, all).zip(scene.per_work(fast, all));
        rates.map(|(slow, fast)| slow >= fast * 1.2)
    });
    let faults = slow.median(|run| substitute_faults(run).map(|n| n as f64)).unwrap_or(0.0);
    let substitutes = slow
        .median(|run| Some(run.profile.as_ref()?.classes.iter().map(|class| class.after_refusal).sum::<u64>() as f64));
    let link = match (material, more) {
        (Some(true), None | Some(true)) | (_, Some(true)) => Some(true),
        (None, None) => None,
        _ => Some(false),
    };
    let name = slow.word();
    chain.needs(
        link,
        format!(
            "{name}: {:.0} mappings of the refused length were made from base pages right after, and took {faults:.0} faults",
            substitutes.unwrap_or(0.0)
        ),
        format!("{name}: the refusals were not followed by more faults ({faults:.0} in what was mapped instead)"),
        "faults of the slower side",
    );
}

fn pool(run: &RunEvidence, size: u64) -> Option<&PoolLevels> {
    run.pools.get(&size)
}

/// The largest refused request for pages of `size` in a run, bytes.
fn largest_refused(run: &RunEvidence, size: u64, default: u64) -> Option<u64> {
    let found = refused(run, default)?;
    found.iter().filter(|(of, _)| *of == size).map(|(_, refused)| refused.largest_bytes).max()
}

fn pool_links(scene: &Scene<'_>, size: u64, default: u64, chain: &mut Chain) {
    let slow = scene.slow;
    let name = format_size(size);
    let overcommit = setting_number(slow, &format!("hugetlb.{name}.nr_overcommit_hugepages")).unwrap_or(0.0);
    let left = |run: &RunEvidence| {
        let levels = pool(run, size)?;
        Some((levels.least_available + (overcommit - levels.most_surplus).max(0.0)) * size as f64)
    };
    let had_room = slow.mostly(|run| Some(left(run)? >= largest_refused(run, size, default)? as f64));
    let pages = slow.median(|run| pool(run, size).map(|levels| levels.least_available)).unwrap_or(0.0);
    let pool_pages = slow.median(|run| pool(run, size).map(|levels| levels.most_pages)).unwrap_or(0.0);
    address_space_refuter(scene, size, default, chain);
    let limited = limit_of_group(scene, size, default);
    if limited.is_none() || had_room == Some(false) {
        chain.refuter(
            had_room,
            format!("the pool of {name} pages had at least {pages:.0} pages left throughout, room for the largest refused request"),
            format!("a pool with room: of {pool_pages:.0} pages of {name} at times only {pages:.0} were left, too few for the largest request"),
            "free pages of the pool",
        );
    }
    let setting = deciding_setting(scene, size, default);
    let smaller = setting.as_ref().is_some_and(|setting| setting.differs);
    let why = setting.map_or_else(String::new, |setting| said(&setting, scene));
    chain.needs(
        if smaller || limited.is_some() { Some(true) } else { had_room.map(|room| !room) },
        if smaller {
            format!("the pool is smaller on {}: {why}", slow.word())
        } else if let Some(limit) = limited.filter(|_| had_room != Some(false)) {
            format!("the cgroup bars more reservations: {limit}")
        } else {
            format!("{pages:.0} pages of {name} were left at the worst moment; {why}")
        },
        "the pool was not used up",
        "the state of the pool (stream metrics, hugetlb.free_pages)",
    );
}

/// The limit on the address space is asked before any pool, and answers ENOMEM too.
fn address_space_refuter(scene: &Scene<'_>, size: u64, default: u64, chain: &mut Chain) {
    let Some(limit) = setting_number(scene.slow, "rlimit.as") else { return };
    let barred = |run: &RunEvidence| {
        let mapped = run.value("target.status.vmsize_bytes").unwrap_or(0.0);
        Some(mapped + largest_refused(run, size, default)? as f64 > limit)
    };
    chain.refuter(
        scene.slow.mostly(barred),
        format!("rlimit.as is {limit:.0}: the request would pass the limit on the address space, which is asked before the pool"),
        format!("a limit on the address space: rlimit.as is {limit:.0}, room for the largest request"),
        "requests of the slower side",
    );
}

/// The limit of the cgroup on reservations, if a refused request would have passed it. The limit on use (`max`) is
/// enforced when a page is touched and never fails an mmap (Documentation/admin-guide/mm/hugetlb, "reservation limits").
fn limit_of_group(scene: &Scene<'_>, size: u64, default: u64) -> Option<String> {
    let key = format!("cgroup.hugetlb.{}.rsvd.max", format_size(size));
    let limit = setting_number(scene.slow, &key)?;
    let granted = |run: &RunEvidence| -> Option<u64> {
        let classes = &run.profile.as_ref()?.classes;
        Some(classes.iter().filter(|class| class.key.kind == MemoryKind::Hugetlb).map(|class| class.bytes).sum())
    };
    let binds = |run: &RunEvidence| Some((granted(run)? + largest_refused(run, size, default)?) as f64 > limit);
    scene.slow.mostly(binds)?.then(|| format!("{key} is {limit:.0}"))
}

fn setting_number(side: &SideEvidence, key: &str) -> Option<f64> {
    side.setting(key)?.parse().ok()
}

/// Keys that decide how many pages of a size there are, most likely first. The cgroup's limit on reservations decides
/// only where it is passed.
fn keys(size: u64, limited: bool) -> Vec<String> {
    let name = format_size(size);
    let pool = [format!("hugetlb.{name}.nr_hugepages"), format!("hugetlb.{name}.nr_overcommit_hugepages")];
    let group = limited.then(|| format!("cgroup.hugetlb.{name}.rsvd.max"));
    pool.into_iter().chain(group).collect()
}

/// The setting that is smaller on the slower side; else the size of the pool, which does not differ.
fn deciding_setting(scene: &Scene<'_>, size: u64, default: u64) -> Option<SettingSubject> {
    let keys = keys(size, limit_of_group(scene, size, default).is_some());
    let differing = scene.evidence.contrast.as_ref().map(|contrast| contrast.differing.as_slice()).unwrap_or_default();
    let amount = |value: &Option<String>| match value.as_deref() {
        Some("max") => Some(f64::INFINITY),
        Some(text) => text.parse::<f64>().ok(),
        None => None,
    };
    let smaller = |change: &&SettingChange| {
        let (slow, fast) = match scene.slow.name {
            SideName::Test => (amount(&change.test), amount(&change.base)),
            SideName::Base => (amount(&change.base), amount(&change.test)),
        };
        slow.zip(fast).is_some_and(|(slow, fast)| slow < fast)
    };
    let found = keys.iter().find_map(|key| differing.iter().filter(|change| change.key == *key).find(smaller));
    if let Some(change) = found {
        return Some(SettingSubject {
            key: change.key.clone(),
            base: change.base.clone(),
            test: change.test.clone(),
            differs: true,
        });
    }
    let key = keys.into_iter().next()?;
    let [base, test] = scene.setting(&key);
    (base.is_some() || test.is_some()).then_some(SettingSubject { key, base, test, differs: false })
}

fn said(setting: &SettingSubject, scene: &Scene<'_>) -> String {
    let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
    match (scene.fast.is_some(), setting.differs) {
        (true, true) => {
            format!("{} is {} on base and {} on test", setting.key, show(&setting.base), show(&setting.test))
        }
        (true, false) => format!("{} is {} on both sides", setting.key, show(&setting.test)),
        (false, _) => format!("{} is {}", setting.key, show(&setting.test)),
    }
}

fn window_share(scene: &Scene<'_>) -> Option<f64> {
    scene.slow.median(|run| {
        let profile = run.profile.as_ref()?;
        Some(substitute_window_faults(run)? / profile.window_faults.max(1) as f64)
    })
}

/// Faults in the window in the memory mapped in place of refused memory.
fn substitute_window_faults(run: &RunEvidence) -> Option<f64> {
    let share = |class: &ClassProfile| class.after_refusal as f64 / class.mappings.max(1) as f64;
    let classes = &run.profile.as_ref()?.classes;
    Some(classes.iter().map(|class| class.window_faults as f64 * share(class)).sum())
}

fn parts(scene: &Scene<'_>, size: u64, default: u64, effect: Option<Effect>) -> CaseParts {
    let setting = deciding_setting(scene, size, default);
    let subject = scene
        .slow
        .subject(in_place)
        .or_else(|| scene.slow.subject(|class| if class.key.kind == MemoryKind::Anonymous { class.faults } else { 0 }));
    let count = scene.slow.median(|run| refusals(run, default).map(|n| n as f64)).unwrap_or(0.0);
    let why = setting.as_ref().map(|setting| format!(" ({})", said(setting, scene))).unwrap_or_default();
    let name = format_size(size);
    let wanted = scene
        .slow
        .runs
        .iter()
        .filter_map(|run| refused(run, default))
        .map(|found| found.iter().map(|(_, refused)| refused.bytes).sum::<u64>())
        .max()
        .unwrap_or(0);
    CaseParts {
        summary: format!(
            "{}: on {} {count:.0} requests for {name} pages were refused with ENOMEM because the pool is too small{why}, and base pages were used in their place",
            scene.movement(),
            scene.slow.word()
        ),
        numbers: vec![
            scene.number("requests for hugetlb memory refused", "", |run| refusals(run, default).map(|n| n as f64)),
            scene.number(&format!("pages of {name} left at least"), "", |run| {
                pool(run, size).map(|l| l.least_available)
            }),
            scene.number(&format!("pages of {name} in the pool at most"), "", |run| {
                pool(run, size).map(|l| l.most_pages)
            }),
            scene.number("faults in what was mapped instead", "", |run| substitute_faults(run).map(|n| n as f64)),
            scene.work_number("faults", "", |run| Some(run.profile.as_ref()?.window_faults as f64)),
            scene.work_number("time in the kernel", "ns", RunEvidence::kernel_ns),
        ],
        fixes: fixes(size, wanted),
        effect,
        mapping: subject.and_then(|subject| subject.mapping),
        setting,
        together_with: Vec::new(),
    }
}

fn fixes(size: u64, wanted: u64) -> Vec<Fix> {
    let fix = |reach, text: String, command: String| Fix { reach, text, command };
    let pages = wanted.div_ceil(size.max(1)).max(1);
    let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", size / 1024);
    let mut fixes = vec![fix(
        Reach::Mapping,
        "where the program falls back, ask for transparent huge pages for the same range, which need no pool"
            .to_owned(),
        "madvise(addr, length, MADV_HUGEPAGE);".to_owned(),
    )];
    if size != 2 << 20 {
        fixes.push(fix(
            Reach::Mapping,
            "or fall back to the next smaller pool before falling back to base pages".to_owned(),
            "mmap(NULL, length, prot, MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|MAP_HUGE_2MB, -1, 0);".to_owned(),
        ));
    }
    fixes.push(fix(
        Reach::System,
        format!(
            "let the pool grow on demand, by up to what was refused ({pages} pages); nothing is taken while nobody asks"
        ),
        format!("echo {pages} | sudo tee {folder}/nr_overcommit_hugepages"),
    ));
    fixes.push(fix(
        Reach::System,
        "keep more pages in the pool from the start; read back what was granted".to_owned(),
        format!("echo $(( $(cat {folder}/nr_hugepages) + {pages} )) | sudo tee {folder}/nr_hugepages; cat {folder}/nr_hugepages"),
    ));
    fixes
}
