//! The two sides in their parts: which one suffers, and helpers to ask them.

use std::collections::BTreeMap;

use super::chain::Verdict;
use super::evidence::{Evidence, RunEvidence, SideEvidence};
use super::finding::{MappingSubject, Number, SideName};
use crate::compare::Moved;
use pagelab_views::mappings::{ClassKey, ClassProfile, MappingProfile, bytes};
use pagelab_views::run::MetricKey;
use pagelab_vocab::absence::Absence;

/// Share of mapping events that may be lost before the picture of memory areas is not believed.
const MAX_MAPS_LOST: f64 = 0.01;
/// Share of all faults below which what a class took is not worth naming.
pub(crate) const MATERIAL_SHARE: f64 = 0.10;
/// Streams whose loss leaves holes in the picture of memory areas.
const MAP_STREAMS: [&str; 3] = ["maps", "mappings", "events"];

/// What a rule examines: the side that suffers, and the other one if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// All evidence.
    pub evidence: &'a Evidence,
    /// The slower side, or the lone recording.
    pub slow: &'a SideEvidence,
    /// The other side; `None` for a lone recording.
    pub fast: Option<&'a SideEvidence>,
    /// The block device of the slow side: the target's own. Where that is not known it is the one that was busy for the longest time: a
    /// device of the device mapper and the one below it are both busy, and every figure is taken from the same one.
    pub(crate) device: Option<&'a str>,
}

/// Part of the busiest device's time below which another one is next to idle.
const LEAST_BUSY: f64 = 0.05;

/// The class of one side that weighs most, summed over runs.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub key: ClassKey,
    pub mapping: Option<MappingSubject>,
}

impl<'a> Scene<'a> {
    /// The lone recording.
    pub(crate) fn alone(evidence: &'a Evidence) -> Self {
        Self { evidence, slow: &evidence.test, fast: None, device: device_of(&evidence.test) }
    }

    /// The scene of a comparison whose slower side is known.
    pub(crate) fn of_comparison(evidence: &'a Evidence, slower: SideName) -> Option<Self> {
        let (slow, fast) = (evidence.side(slower)?, evidence.side(slower.other())?);
        Some(Self { evidence, slow, fast: Some(fast), device: device_of(slow) })
    }

    /// Whether a block device may be the target's: one that its files lie on. Where these are not known, one that is next to idle on both
    /// sides beside the busiest is not, and one that no counter is known of may be.
    pub(crate) fn uses(&self, device: &str) -> bool {
        let runs = || [Some(self.slow), self.fast].into_iter().flatten().flat_map(|side| &side.runs);
        if runs().any(|run| run.devices.are_known) {
            return runs().any(|run| run.devices.names.iter().any(|name| name == device));
        }
        let Some(busiest) = self.device else { return true };
        let busy = |of: &str| {
            let of_side = |side: &SideEvidence| side.median(|run| run.events("disk.busy_ns", Some(of)));
            [Some(self.slow), self.fast].into_iter().flatten().filter_map(of_side).reduce(f64::max)
        };
        match (busy(device), busy(busiest)) {
            (Some(own), Some(most)) => own >= LEAST_BUSY * most,
            _ => true,
        }
    }

    /// An amount per unit of work, median over the runs of a side.
    pub(crate) fn per_work(&self, side: &SideEvidence, of: impl Fn(&RunEvidence) -> Option<f64>) -> Option<f64> {
        side.median(|run| self.evidence.per_work(run, of(run)?))
    }

    /// A figure of both sides: medians of what `of` finds in the runs.
    pub(crate) fn number(&self, name: &str, unit: &str, of: impl Fn(&RunEvidence) -> Option<f64>) -> Number {
        let side = |name| self.evidence.side(name).and_then(|side: &SideEvidence| side.median(&of));
        Number { name: name.to_owned(), unit: unit.to_owned(), base: side(SideName::Base), test: side(SideName::Test) }
    }

    /// The same per unit of work.
    pub(crate) fn work_number(&self, name: &str, unit: &str, of: impl Fn(&RunEvidence) -> Option<f64>) -> Number {
        self.number(&format!("{name} per {}", self.evidence.per()), unit, |run| self.evidence.per_work(run, of(run)?))
    }

    /// What rose on the slow side where the whole shows no difference.
    pub(crate) fn rise(&self) -> Option<&'a Moved> {
        self.evidence.contrast.as_ref()?.rise.as_ref()
    }

    /// The time of a run in which the loss is, ns: all of it, or that of the components that rose.
    pub(crate) fn lossy_ns(&self, run: &RunEvidence) -> Option<f64> {
        let Some(rise) = self.rise() else { return Some(run.window_ns) };
        let names: Vec<&str> = rise.components.iter().map(String::as_str).collect();
        run.account.as_ref()?.time_ns(&names)
    }

    /// The side whose settings were not read. What was run is known all the same.
    pub(crate) fn side_without_settings(&self) -> Option<&'a SideEvidence> {
        let is_read = |key: &String| !key.starts_with("command.") && !key.starts_with("job.");
        [Some(self.slow), self.fast].into_iter().flatten().find(|side| !side.settings.keys().any(is_read))
    }

    /// How the primary metric moved, as the beginning of a summary.
    pub(crate) fn movement(&self) -> String {
        let contrast = self.evidence.contrast.as_ref();
        let Some(primary) = contrast.and_then(|contrast| contrast.primary.as_ref()) else {
            return format!("{} alone", self.slow.word());
        };
        if self.rise().is_some() {
            return format!("{} shows no difference, a part of the time does", primary.metric);
        }
        let word = if self.slow.name == SideName::Test { "slower" } else { "faster" };
        let ratio = primary.ratio.map_or_else(String::new, |ratio| format!(" {ratio:.3} times base's"));
        let interval = primary
            .ratio_ci95
            .map_or_else(String::new, |[low, high]| format!(" (95 % interval {low:.3} to {high:.3})"));
        format!("test is {word} ({}{ratio}{interval})", primary.metric)
    }

    /// Whether lost fault records on the side with few of them could make up the difference: with every lost record
    /// counted there, it must still take less than half of what the other side takes.
    pub(crate) fn lost_faults_explain(&self, of: impl Fn(&MappingProfile) -> u64) -> Option<String> {
        if let Some(reason) = self.lost_maps() {
            return Some(reason);
        }
        let fast = self.fast?;
        let amount = |run: &RunEvidence| run.profile.as_ref().map(|profile| of(profile) as f64);
        let slow = self.per_work(self.slow, amount)?;
        let few = self.per_work(fast, |run| Some(amount(run)? + run.lost("faults").lost as f64))?;
        let lost = fast.values(|run| Some(run.lost("faults").lost as f64)).into_iter().fold(0.0, f64::max);
        (lost > 0.0 && few * 2.0 > slow).then(|| {
            format!(
                "{} lost up to {lost:.0} fault records in a run; counted in, its {few:.4} faults per {} are too near {slow:.4} of {}",
                fast.word(),
                self.evidence.per(),
                self.slow.word()
            )
        })
    }

    fn lost_maps(&self) -> Option<String> {
        let sides = [Some(self.slow), self.fast];
        for side in sides.into_iter().flatten() {
            for run in &side.runs {
                for stream in MAP_STREAMS {
                    let share = run.lost(stream).share();
                    if share > MAX_MAPS_LOST {
                        return Some(format!(
                            "a run of {} lost {:.1} % of its {stream} events; above {:.0} % it is not known which memory areas there were",
                            side.word(),
                            share * 100.0,
                            MAX_MAPS_LOST * 100.0
                        ));
                    }
                }
            }
        }
        None
    }

    /// Whether both sides have mappings and faults to look at.
    pub(crate) fn has_profiles(&self) -> bool {
        let has = |side: &SideEvidence| side.mostly(|run| Some(run.profile.is_some())) == Some(true);
        has(self.slow) && self.fast.is_none_or(has)
    }

    /// What a rule says that needs them and has none.
    pub(crate) fn no_profiles() -> Verdict {
        let absence = Absence::NotRecorded { what: "faults and mappings".to_owned(), observe: "default".to_owned() };
        Verdict::Unknown(vec![absence.to_string()])
    }

    /// Value of a setting on the base and the test side.
    pub(crate) fn setting(&self, key: &str) -> [Option<String>; 2] {
        [SideName::Base, SideName::Test]
            .map(|name| self.evidence.side(name).and_then(|side| side.setting(key)).map(str::to_owned))
    }

    /// The base page size of the slow side's first profile.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.slow.runs.iter().find_map(|run| run.profile.as_ref()).map_or(4096, |profile| profile.page_bytes)
    }

    /// The slot size of the slow side's first profile.
    pub(crate) fn huge_bytes(&self) -> u64 {
        self.slow.runs.iter().find_map(|run| run.profile.as_ref()).map_or(2 << 20, |profile| profile.huge_bytes)
    }
}

/// The device of most runs of a side that know theirs, else the busiest.
pub(crate) fn device_of(side: &SideEvidence) -> Option<&str> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for main in side.runs.iter().filter_map(|run| run.devices.main.as_deref()) {
        *runs.entry(main).or_default() += 1;
    }
    let is_known = side.runs.iter().any(|run| run.devices.are_known);
    let own = runs.into_iter().max_by_key(|(_, count)| *count).map(|(device, _)| device);
    if is_known { own } else { busiest_device(side) }
}

fn busiest_device(side: &SideEvidence) -> Option<&str> {
    let mut busy: BTreeMap<&str, f64> = BTreeMap::new();
    for run in &side.runs {
        let of_disks = run.metrics.range(MetricKey::new("disk.busy_ns", None)..);
        for (key, metric) in of_disks.take_while(|(key, _)| key.name == "disk.busy_ns") {
            if let Some(device) = &key.instance {
                *busy.entry(device).or_default() += metric.events.unwrap_or(0.0);
            }
        }
    }
    let longest = busy.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    longest.filter(|(_, ns)| *ns > 0.0).map(|(device, _)| device)
}

fn describe(class: &ClassProfile) -> String {
    let each = class.bytes.checked_div(class.mappings).unwrap_or(0);
    let what = class.key.path.clone().unwrap_or_else(|| class.key.kind.word().to_owned());
    let who = class.key.comm.as_ref().map_or_else(String::new, |comm| format!(" of thread {comm}"));
    let order = class.order.word().map_or_else(String::new, |word| format!(", touched in {word} order"));
    format!("{what} memory{who}: {} mappings of {} each, {} faults{order}", class.mappings, bytes(each), class.faults)
}

impl SideEvidence {
    /// The class with the greatest sum of `weight` over its runs, and its mapping with most faults.
    pub(crate) fn subject(&self, weight: impl Fn(&ClassProfile) -> u64) -> Option<Subject> {
        let mut sums: Vec<(&ClassKey, u64)> = Vec::new();
        for class in self.runs.iter().filter_map(|run| run.profile.as_ref()).flat_map(|profile| &profile.classes) {
            let w = weight(class);
            match sums.iter_mut().find(|(key, _)| **key == class.key) {
                Some((_, sum)) => *sum += w,
                None if w > 0 => sums.push((&class.key, w)),
                None => {}
            }
        }
        let (key, _) = sums.into_iter().max_by(|(a, x), (b, y)| x.cmp(y).then_with(|| b.cmp(a)))?;
        Some(Subject { key: key.clone(), mapping: example(self, key) })
    }
}

fn example(side: &SideEvidence, key: &ClassKey) -> Option<MappingSubject> {
    let found = side.runs.iter().enumerate().filter_map(|(number, run)| {
        let class = run.profile.as_ref()?.class(key)?;
        Some((number, class, class.example.as_ref()?))
    });
    // The first of the largest: the outcome may not depend on how ties happen to be visited.
    let (run, class, example) = found.reduce(|best, next| if next.2.faults > best.2.faults { next } else { best })?;
    Some(MappingSubject {
        description: describe(class),
        class: key.clone(),
        start: example.start,
        end: example.start.saturating_add(example.len),
        len_bytes: example.len,
        thread: key.comm.clone(),
        path: key.path.clone(),
        side: side.name,
        run,
    })
}
