//! Quantities that rules compare between the sides, declared as data so that tests can build recordings for each of them.

use super::evidence::{PlaceTime, RunEvidence, SideEvidence};
use super::finding::SideName;
use super::scene::{Scene, device_of};
use pagelab_views::run::MetricKey;
use pagelab_vocab::budget::USER;
use pagelab_vocab::errands::is_named;
use pagelab_vocab::mechanisms::OTHER;
use pagelab_vocab::places::place as glossary;
use pagelab_vocab::syscalls::Purpose;

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Quantity {
    /// Increase of these counters in the measured time, per unit of work. A name stands for all its instances,
    /// `name[instance]` for one; `disk.*` for those of the target's own device.
    Events(&'static [&'static str]),
    /// Increase of the first counters over that of the second.
    Ratio(&'static [&'static str], &'static [&'static str]),
    /// Mapping calls of these kinds, per unit of work.
    Calls(&'static [&'static str]),
    /// Bytes that munmap gave back, per unit of work.
    GivenBack,
    /// Faults of this kind (`evidence::events`), per unit of work.
    Faults(&'static str),
    /// Processes that recorded tasks forked, per unit of work. (`stat.forks` counts those of the whole host.)
    Forks,
    /// Threads that recorded tasks started, per unit of work.
    Threads,
    /// Programs that recorded tasks started, per unit of work.
    Execs,
    /// Time of components of the account, ns per unit of work.
    Time(&'static [&'static str]),
    /// The same of what was spent in a way into the kernel.
    TimeIn(&'static [&'static str], Way),
    /// Time of the first components over that of the second.
    TimeRatio(&'static [&'static str], &'static [&'static str]),
    /// Of time of the first components what was spent in a way into the kernel, over that of the second; none where no stacks tell.
    TimeInRatio(&'static [&'static str], Way, &'static [&'static str]),
    /// Time of components over these totals of the run, ns each.
    TimePer(&'static [&'static str], &'static [&'static str]),
    /// Speed of the CPUs, calls per second.
    CpuSpeed,
    /// 1 if the target's own device is none that the faster side's runs work on, else 0.
    OtherDevice,
}

/// A way into the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// Calls that may ask for this.
    AskingFor(Purpose),
    /// All others.
    NotAskingFor(Purpose),
    /// Whatever leads through one of these functions; a name that ends in `*` stands for all that begin so.
    Through(&'static [&'static str]),
    /// Whatever is of this cause in the glossary of places.
    InPlacesOf(&'static str),
}

impl Way {
    /// Whether a place's time was spent in it; `None` where the place does not tell.
    fn is_of(self, place: &PlaceTime) -> Option<bool> {
        let entry = place.entry.as_deref().filter(|entry| *entry != OTHER);
        match self {
            Self::AskingFor(purpose) => entry.map(|entry| purpose.may_be_of(entry)),
            Self::NotAskingFor(purpose) => entry.map(|entry| !purpose.may_be_of(entry)),
            Self::Through(functions) => {
                let chain = place.function.as_deref()?;
                Some(chain.split(" < ").any(|one| functions.iter().any(|name| is_named(one, name))))
            }
            Self::InPlacesOf(cause) => {
                let module = place.module.as_deref();
                // What is compiled while the program runs lies in no file. Collectors and codecs do.
                let is_compiled = place.component == USER && module.is_none_or(|module| module.starts_with('['));
                if place.function.is_none() && is_compiled {
                    return Some(false);
                }
                let chain = place.function.as_deref()?;
                Some(
                    chain.split(" < ").any(|one| glossary(one, module).is_some_and(|known| known.cause == Some(cause))),
                )
            }
        }
    }

    /// The way in words, after `time spent`.
    pub(crate) fn words(self) -> String {
        match self {
            Self::AskingFor(Purpose::Safety) => "in calls that can ask for data to be made safe".to_owned(),
            Self::AskingFor(Purpose::Writing) => "in calls that write".to_owned(),
            Self::NotAskingFor(Purpose::Safety) => "in calls that do not ask for safety".to_owned(),
            Self::NotAskingFor(Purpose::Writing) => "in calls that do not write".to_owned(),
            Self::Through(functions) => format!("in {}", functions.join(", ")),
            Self::InPlacesOf(cause) => format!("in places that the glossary has for {cause}"),
        }
    }
}

impl Quantity {
    /// The figure of a run, not yet per unit of work; `None` where it was not recorded.
    pub(crate) fn of_run(&self, scene: &Scene<'_>, run: &RunEvidence) -> Option<f64> {
        // Each side's figure is of its own device. One that has none has no figure.
        let device =
            if run.devices.are_known { Some(run.devices.main.as_deref().unwrap_or_default()) } else { scene.device };
        let events = |names: &[&str]| sum(run, names, device);
        match self {
            Self::Events(names) => events(names),
            Self::Ratio(over, under) => {
                let (over, under) = (events(over)?, events(under)?);
                (under > 0.0).then(|| over / under)
            }
            Self::Calls(kinds) => {
                let calls = run.events_by_kind.calls.as_ref()?;
                Some(kinds.iter().filter_map(|kind| calls.get(*kind)).sum())
            }
            Self::GivenBack => run.events_by_kind.given_back_bytes,
            Self::Faults(kind) => run.events_by_kind.faults.as_ref()?.get(*kind).copied(),
            Self::Forks => run.events_by_kind.forks,
            Self::Threads => run.events_by_kind.threads,
            Self::Execs => run.events_by_kind.execs,
            Self::Time(names) => run.account.as_ref()?.time_ns(names),
            Self::TimeIn(names, way) => run.account.as_ref()?.time_in(names, |place| way.is_of(place)),
            Self::CpuSpeed => run.cpu_speed,
            Self::OtherDevice => other_device(scene, run),
            Self::TimePer(names, totals) => {
                let (time, total) = (run.account.as_ref()?.time_ns(names)?, total(run, totals)?);
                (total > 0.0).then(|| time / total)
            }
            Self::TimeInRatio(over, way, under) => {
                let account = run.account.as_ref()?;
                let under = account.time_ns(under).filter(|ns| *ns > 0.0)?;
                Some(account.time_in(over, |place| way.is_of(place)).unwrap_or(0.0) / under)
            }
            Self::TimeRatio(over, under) => {
                let (over, under) = (run.account.as_ref()?.time_ns(over)?, run.account.as_ref()?.time_ns(under)?);
                (under > 0.0).then(|| over / under)
            }
        }
    }

    /// Whether the figure grows with the work done, so that it is taken per unit of work.
    pub(crate) const fn is_of_work(&self) -> bool {
        matches!(
            self,
            Self::Events(_)
                | Self::Calls(_)
                | Self::GivenBack
                | Self::Faults(_)
                | Self::Forks
                | Self::Threads
                | Self::Execs
                | Self::Time(_)
                | Self::TimeIn(..)
        )
    }

    /// Whether it is a figure of one device.
    fn is_of_device(&self) -> bool {
        let of = |names: &[&str]| names.iter().any(|name| name.starts_with("disk."));
        match self {
            Self::Events(names) => of(names),
            Self::Ratio(over, under) => of(over) || of(under),
            _ => false,
        }
    }

    /// Which device a side's figure is of, behind the figure; nothing for what is of no device, or where it is not known.
    fn device_words(&self, side: &SideEvidence) -> String {
        device_of(side).filter(|_| self.is_of_device()).map_or_else(String::new, |device| format!(" ({device})"))
    }

    /// The same of both sides, behind the name of the figure.
    pub(crate) fn devices_words(&self, scene: &Scene<'_>) -> String {
        if !self.is_of_device() {
            return String::new();
        }
        let of = |name| scene.evidence.side(name).and_then(device_of);
        match (of(SideName::Base), of(SideName::Test)) {
            (Some(base), Some(test)) if base != test => format!(" ({base} on base, {test} on test)"),
            (Some(device), _) | (None, Some(device)) => format!(" ({device})"),
            (None, None) => String::new(),
        }
    }

    /// The figures of a side's runs.
    pub(crate) fn values(&self, scene: &Scene<'_>, side: &SideEvidence) -> Vec<f64> {
        side.values(|run| self.of(scene, run))
    }

    /// The figure of a run; per unit of work where it grows with it.
    pub(crate) fn of(&self, scene: &Scene<'_>, run: &RunEvidence) -> Option<f64> {
        let value = self.of_run(scene, run)?;
        if self.is_of_work() { scene.evidence.per_work(run, value) } else { Some(value) }
    }

    /// Median of a side; `None` unless at least half of its runs know it.
    pub(crate) fn median(&self, scene: &Scene<'_>, side: &SideEvidence) -> Option<f64> {
        side.median(|run| self.of(scene, run))
    }
}

/// Whether the run's own device is none of the faster side's; `None` where either is not known.
fn other_device(scene: &Scene<'_>, run: &RunEvidence) -> Option<f64> {
    let fast = &scene.fast?.runs;
    let own = run.devices.main.as_deref()?;
    if !fast.iter().any(|run| run.devices.main.is_some()) {
        return None;
    }
    let is_there = fast.iter().any(|other| other.devices.main.as_deref() == Some(own));
    Some(if is_there { 0.0 } else { 1.0 })
}

/// Sum of figures that are totals of the whole run, such as `run.voluntary_switches`; `None` unless all of them are known.
fn total(run: &RunEvidence, names: &[&str]) -> Option<f64> {
    names.iter().map(|name| run.metrics.get(&MetricKey::new(name, None))?.value).sum()
}

/// Sum of the increases of the counters that the names stand for; `None` if none of them was recorded.
fn sum(run: &RunEvidence, names: &[&str], device: Option<&str>) -> Option<f64> {
    let mut found = None;
    for name in names {
        let (name, instance) = match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
            Some((name, instance)) => (name, Some(instance)),
            None if name.starts_with("disk.") => (*name, device),
            None => (*name, None),
        };
        let of_name = run.metrics.range(MetricKey::new(name, None)..).take_while(|(key, _)| key.name == name);
        for (key, metric) in of_name {
            let is_wanted = instance.is_none_or(|instance| key.instance.as_deref() == Some(instance));
            if let Some(value) = metric.events.filter(|_| is_wanted) {
                found = Some(found.unwrap_or(0.0) + value);
            }
        }
    }
    found
}

/// What must be seen of a quantity on the slow side.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// At least this many times the other side's, in nearly every run.
    Rises(f64),
    /// The same, and at least so much in itself.
    RisesTo(f64, f64),
    /// At most this part of the other side's, in nearly every run.
    Falls(f64),
    /// At least this part of the other side's, by the medians: it did not fall.
    Keeps(f64),
    /// Less than this many times the other side's, by the medians, where that has some: it did not rise.
    StaysBelow(f64),
}

/// A quantity that must change if the cause holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sign {
    /// The quantity in words: `stalls in direct reclaim`.
    pub what: &'static str,
    /// Its unit: empty for counts, `ns`, `bytes`.
    pub unit: &'static str,
    pub quantity: Quantity,
    pub change: Change,
    /// Another sign that will do in its place.
    or: Option<&'static Sign>,
    /// One beside which it means nothing.
    unless: Option<&'static Sign>,
    /// One without which it means nothing.
    beside: Option<&'static Sign>,
}

/// Pairs of runs, one of each side, that must agree on the direction: chance alone gives half of them. With eight runs a side one
/// odd run may disagree with all others.
const AGREEING_PAIRS: f64 = 0.8;

/// A quantity that rises to at least `times` that of the other side.
pub(crate) const fn rises(what: &'static str, unit: &'static str, quantity: Quantity, times: f64) -> Sign {
    Sign::new(what, unit, quantity, Change::Rises(times))
}

/// The same, where it is at least `least` then.
pub(crate) const fn rises_to(
    what: &'static str,
    unit: &'static str,
    quantity: Quantity,
    times: f64,
    least: f64,
) -> Sign {
    Sign::new(what, unit, quantity, Change::RisesTo(times, least))
}

/// A quantity that falls to at most `part` of that of the other side.
pub(crate) const fn falls(what: &'static str, unit: &'static str, quantity: Quantity, part: f64) -> Sign {
    Sign::new(what, unit, quantity, Change::Falls(part))
}

/// A quantity that is no lower than `part` of that of the other side.
pub(crate) const fn keeps(what: &'static str, unit: &'static str, quantity: Quantity, part: f64) -> Sign {
    Sign::new(what, unit, quantity, Change::Keeps(part))
}

/// A quantity that is less than `times` that of the other side.
pub(crate) const fn stays_below(what: &'static str, unit: &'static str, quantity: Quantity, times: f64) -> Sign {
    Sign::new(what, unit, quantity, Change::StaysBelow(times))
}

/// Bytes that the target's device moved.
pub(crate) const DEVICE_BYTES: Quantity = Quantity::Events(&["disk.read_bytes", "disk.write_bytes"]);
/// Requests that it served.
pub(crate) const DEVICE_REQUESTS: Quantity = Quantity::Events(&["disk.reads", "disk.writes"]);
/// Bytes of each of them.
pub(crate) const DEVICE_REQUEST_BYTES: Quantity =
    Quantity::Ratio(&["disk.read_bytes", "disk.write_bytes"], &["disk.reads", "disk.writes"]);

/// More time in the program's own code, whatever is the reason.
pub(crate) const OWN_CODE: Sign =
    rises("time in code of the program and its libraries", "ns", Quantity::Time(&["run.user"]), 1.02);

/// More time in reads and writes past the page cache.
pub(crate) const MORE_DIRECT: Sign = rises(
    "time in reads and writes past the page cache",
    "ns",
    Quantity::Time(&["run.file.direct", "run.file.async", "off.direct_io", "off.async_io"]),
    1.05,
);

impl Sign {
    const fn new(what: &'static str, unit: &'static str, quantity: Quantity, change: Change) -> Self {
        Self { what, unit, quantity, change, or: None, unless: None, beside: None }
    }

    /// The same, or another one in its place.
    pub(crate) const fn or(self, other: &'static Sign) -> Self {
        Self { or: Some(other), ..self }
    }

    /// The same, where another one is not seen.
    pub(crate) const fn unless(self, other: &'static Sign) -> Self {
        Self { unless: Some(other), ..self }
    }

    /// The same, where another one is seen as well.
    pub(crate) const fn beside(self, other: &'static Sign) -> Self {
        Self { beside: Some(other), ..self }
    }

    /// The signs that stand for it, that take its meaning and that it needs.
    #[cfg(test)]
    pub(crate) const fn others(&self) -> [Option<&'static Self>; 3] {
        [self.or, self.unless, self.beside]
    }

    /// The same of another quantity, or another change of it.
    #[cfg(test)]
    pub(crate) const fn with(self, quantity: Quantity, change: Change) -> Self {
        Self { quantity, change, ..self }
    }

    /// The same with these.
    #[cfg(test)]
    pub(crate) const fn with_others(self, [or, unless, beside]: [Option<&'static Self>; 3]) -> Self {
        Self { or, unless, beside, ..self }
    }

    /// What must be seen, in words.
    pub(crate) fn condition(&self) -> String {
        let other = |word: &str, sign: Option<&Sign>| {
            sign.map_or_else(String::new, |sign| format!(", {word} {}", sign.condition()))
        };
        format!(
            "{}{}{}{}",
            self.own_condition(),
            other("where", self.beside),
            other("or", self.or),
            other("unless", self.unless)
        )
    }

    fn own_condition(&self) -> String {
        match self.change {
            Change::Rises(times) => {
                format!("{} on the slower side are at least {times} times the other side's", self.what)
            }
            Change::RisesTo(times, least) => format!(
                "{} on the slower side are at least {times} times the other side's, and at least {}",
                self.what,
                amount(least, self.unit)
            ),
            Change::Falls(part) => format!("{} on the slower side are at most {part} of the other side's", self.what),
            Change::Keeps(part) => format!("{} on the slower side is at least {part} of the other side's", self.what),
            Change::StaysBelow(times) => {
                format!("{} on the slower side are less than {times} times the other side's", self.what)
            }
        }
    }

    /// Whether it, or the one in its place, changed as said; `None` if that is not known on a side.
    pub(crate) fn is_seen(&self, scene: &Scene<'_>) -> Option<bool> {
        if self.unless.is_some_and(|other| other.is_seen(scene) == Some(true)) {
            return Some(false);
        }
        if self.beside.is_some_and(|other| other.is_seen(scene) != Some(true)) {
            return Some(false);
        }
        if self.stand_in(scene).is_some() { Some(true) } else { self.is_itself_seen(scene) }
    }

    /// What it counts, or what the sign in its place does where that one is seen instead.
    pub(crate) fn seen_quantity(&self, scene: &Scene<'_>) -> Quantity {
        self.stand_in(scene).unwrap_or(self).quantity
    }

    /// The sign in its place, where that one is seen instead.
    fn stand_in(&self, scene: &Scene<'_>) -> Option<&'static Self> {
        let other = self.or?;
        (self.is_itself_seen(scene) != Some(true) && other.is_seen(scene) == Some(true)).then_some(other)
    }

    fn is_itself_seen(&self, scene: &Scene<'_>) -> Option<bool> {
        let fast = scene.fast?;
        let (slow_median, fast_median) = (self.quantity.median(scene, scene.slow)?, self.quantity.median(scene, fast)?);
        let slow_values = self.quantity.values(scene, scene.slow);
        let fast_values = self.quantity.values(scene, fast);
        let pairs = slow_values.iter().flat_map(|slow| fast_values.iter().map(move |fast| (*slow, *fast)));
        let (mut agreeing, mut all) = (0.0, 0.0);
        for (slow, fast) in pairs {
            // Two that are equal, as two without a sample, tell no direction.
            if slow.total_cmp(&fast).is_eq() && !matches!(self.change, Change::Keeps(_) | Change::StaysBelow(_)) {
                continue;
            }
            let agrees = match self.change {
                Change::Rises(_) | Change::RisesTo(..) => slow > fast,
                Change::Falls(_) => slow < fast,
                Change::Keeps(_) | Change::StaysBelow(_) => true,
            };
            agreeing += f64::from(u8::from(agrees));
            all += 1.0;
        }
        let is_large = match self.change {
            Change::Rises(times) => slow_median > 0.0 && slow_median >= times * fast_median,
            Change::RisesTo(times, least) => slow_median >= least && slow_median >= times * fast_median,
            Change::Falls(part) => fast_median > 0.0 && slow_median <= part * fast_median,
            Change::Keeps(part) => slow_median >= part * fast_median,
            Change::StaysBelow(times) => fast_median > 0.0 && slow_median < times * fast_median,
        };
        Some(is_large && agreeing >= AGREEING_PAIRS * all)
    }

    /// Both figures in a sentence; of the sign in its place where that one is seen instead.
    pub(crate) fn sentence(&self, scene: &Scene<'_>) -> String {
        if let Some(other) = self.stand_in(scene) {
            return other.sentence(scene);
        }
        let said = |side: &SideEvidence| match self.quantity.median(scene, side) {
            Some(value) => {
                format!("{} on {}{}", amount(value, self.unit), side.word(), self.quantity.device_words(side))
            }
            None => format!("not known on {}", side.word()),
        };
        let per = if self.quantity.is_of_work() { format!(" per {}", scene.evidence.per()) } else { String::new() };
        let other = scene.fast.map_or_else(String::new, |fast| format!(", {}", said(fast)));
        format!("{}{per}: {}{other}", self.what, said(scene.slow))
    }
}

/// A figure with its unit.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ns" => pagelab_vocab::units::duration_of_three(value),
        "bytes" => pagelab_views::mappings::bytes(value.max(0.0) as u64),
        "%" => format!("{:.1} %", value * 100.0),
        _ if value == 0.0 => "0".to_owned(),
        _ if value.abs() < 0.01 => format!("{value:.2e}"),
        _ if value.abs() < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_name_is_a_collector_s_only_where_it_is_of_a_file() {
        let is_of = |component: &str, module: Option<&str>, function: Option<&str>| {
            let place = PlaceTime {
                component: component.to_owned(),
                entry: None,
                function: function.map(str::to_owned),
                module: module.map(str::to_owned),
                ns: 1.0,
            };
            Way::InPlacesOf("gc.more").is_of(&place)
        };
        let marking = Some("MarkSweep::follow_stack()");
        assert_eq!(is_of(USER, Some("libjvm.so"), marking), Some(true));
        assert_eq!(is_of(USER, Some("libc.so.6"), Some("memmove")), Some(false));
        assert_eq!(is_of(USER, Some("[anon]"), None), Some(false), "compiled while it runs");
        assert_eq!(is_of(USER, None, None), Some(false));
        assert_eq!(is_of(USER, Some("libjvm.so"), None), None, "stripped");
        assert_eq!(is_of("run.file.fetch", None, None), None, "the kernel's");
    }
}
