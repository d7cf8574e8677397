//! A source: one file, or many files of one sort, with the rhythm in which it is read and what that has cost.

use rustix::io::Errno;

use super::file::{SampledFile, Text};
use super::members::Members;
use super::series::{Collector, Pass, SourceSeries, Store};
use super::{Facts, Row};

/// A source read in every sample.
pub(super) const EVERY_SAMPLE: u64 = 0;
/// A source read once a second.
pub(super) const EACH_SECOND: u64 = 1_000_000_000;
/// The rhythm that the cost of a source read in every sample is judged by.
const SAMPLE_NS: u64 = 100_000_000;
/// However costly, a source is read once in this time.
const LONGEST_NS: u64 = 60_000_000_000;
/// The caller's timer is never exact: a source due within this time is read now.
const SLACK_NS: u64 = 10_000_000;
/// A source may use one part in this many of a CPU: 0.5 ms ten times a second.
const CPU_SHARE: u64 = 200;
/// A source for which the kernel holds a lock that others wait for may use one part in this many: 2 ms a second.
const LOCK_SHARE: u64 = 500;

/// Reads one layout of text.
pub(super) type Parser = fn(&[u8], &Tag, &mut Collector<'_>);

/// Facts that a parser cannot derive from the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Tag {
    /// The field, where the file is a lone number.
    pub(super) field: &'static str,
    /// The instance, where it stands in the path; empty for none.
    pub(super) instance: Vec<u8>,
}

/// A source's properties, known before it is opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    /// Its name in reports: its path, with `<>` for the parts that vary.
    pub(super) name: &'static str,
    /// The prefix of its metrics' names.
    pub(super) prefix: &'static str,
    pub(super) parse: Parser,
    /// Least time between two readings.
    pub(super) base_ns: u64,
    /// True when the kernel holds locks that others wait for while it writes the text.
    pub(super) holds_lock: bool,
    /// True when the kernel walks the page tables of a process for it: a process with many pages is then left alone.
    pub(super) walks: bool,
    /// Why it may be missing, and what mends it.
    pub(super) missing: &'static str,
    pub(super) fix: Option<&'static str>,
}

/// One file of a source.
pub(super) struct Part {
    pub(super) file: SampledFile,
    pub(super) tag: Tag,
}

/// When a source is to be read next.
struct Rhythm {
    base_ns: u64,
    interval_ns: u64,
    due_ns: i64,
    last_cost: u64,
}

impl Rhythm {
    fn due(&self, now: i64, all: bool) -> bool {
        // The last sample reads what is read seldom by nature, but not what proved too costly.
        now >= self.due_ns || (all && self.interval_ns <= self.base_ns)
    }

    /// Sets the next reading by the lesser of the last two costs, so that one reading that was slowed by something
    /// else, or the first one, which makes the names, does not leave a gap. What holds a lock is judged by its last one alone.
    fn done(&mut self, now: i64, cost: u64, cautious: bool) {
        let share = if cautious { LOCK_SHARE } else { CPU_SHARE };
        let judged = if cautious { cost } else { cost.min(self.last_cost) };
        self.last_cost = cost;
        let wanted = judged.saturating_mul(share).min(LONGEST_NS);
        self.interval_ns = if wanted > self.base_ns.max(SAMPLE_NS) { wanted } else { self.base_ns };
        self.due_ns = now.saturating_add(self.interval_ns.saturating_sub(SLACK_NS) as i64);
    }
}

/// The cost of reading a source so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) reads: u64,
    pub(super) cpu_ns: u64,
    pub(super) max_cpu_ns: u64,
    pub(super) rows: u64,
}

/// An opened source.
pub(super) struct Source {
    pub(super) spec: Spec,
    pub(super) parts: Vec<Part>,
    /// For sources of the target: the processes whose values are added up.
    pub(super) members: Option<Members>,
    pub(super) cost: Cost,
    series: SourceSeries,
    rhythm: Rhythm,
    /// Set once a trouble has been reported, so that it is reported once.
    reported: bool,
    /// Set when the process that it described has gone.
    pub(super) ended: bool,
}

/// The outcome of reading a source.
pub(super) struct Reading {
    pub(super) rows: usize,
    pub(super) values: usize,
    /// Something to report, the first time only.
    pub(super) trouble: Option<String>,
    /// Its remedy, where there is one.
    pub(super) fix: Option<&'static str>,
}

/// The state that all sources share while a sample is taken.
pub(super) struct Shared<'a> {
    pub(super) facts: &'a Facts,
    pub(super) store: &'a mut Store,
    pub(super) text: &'a mut Text,
    pub(super) sink: &'a mut dyn FnMut(Row<'_>),
}

impl Source {
    pub(super) fn new(spec: Spec, parts: Vec<Part>) -> Self {
        let base_ns = spec.base_ns;
        Self {
            spec,
            parts,
            members: None,
            cost: Cost::default(),
            series: SourceSeries::default(),
            rhythm: Rhythm { base_ns, interval_ns: base_ns, due_ns: i64::MIN, last_cost: 0 },
            reported: false,
            ended: false,
        }
    }

    /// A source of the target, which adds up its processes.
    pub(super) fn of_target(spec: Spec, members: Members) -> Self {
        Self { members: Some(members), ..Self::new(spec, Vec::new()) }
    }

    /// The file gives way to another one of the same layout, in which counters begin anew; without one its series end.
    pub(super) fn go_on_with(&mut self, part: Option<Part>) {
        self.parts = part.into_iter().collect();
        self.series.go_on();
        self.ended = false;
        self.rhythm.due_ns = i64::MIN;
    }

    /// How many files there are behind it.
    pub(super) fn files(&self) -> usize {
        self.members.as_ref().map_or(self.parts.len(), Members::len)
    }

    pub(super) fn due(&self, now: i64, all: bool) -> bool {
        !self.ended && self.rhythm.due(now, all)
    }

    /// The time between two readings at present; 0 for every sample.
    pub(super) fn interval_ns(&self) -> u64 {
        self.rhythm.interval_ns
    }

    /// Reads every file of the source and hands on its values.
    pub(super) fn read(&mut self, now: i64, all: bool, clock: &mut CpuClock, shared: &mut Shared<'_>) -> Reading {
        let mut out =
            Collector::begin(shared.facts, self.spec.prefix, shared.store, &mut self.series, shared.sink, all);
        let mut gone = !self.parts.is_empty();
        if let Some(members) = &mut self.members {
            gone = !members.read(shared.facts, shared.text, all, &mut out);
        }
        for part in &self.parts {
            match part.file.read(shared.text) {
                Ok(()) => {
                    gone = false;
                    (self.spec.parse)(shared.text.bytes(), &part.tag, &mut out);
                }
                // The process has ended: its series end, and there is nothing to report.
                Err(Errno::SRCH) => {}
                Err(e) => {
                    gone = false;
                    out.trouble.get_or_insert_with(|| refusal(&part.file.path().display().to_string(), e));
                }
            }
        }
        let Pass { rows, values, trouble } = out.finish();
        self.ended = gone;
        let cpu = clock.lap();
        self.cost.reads += 1;
        self.cost.cpu_ns += cpu;
        self.cost.max_cpu_ns = self.cost.max_cpu_ns.max(cpu);
        self.cost.rows += rows as u64;
        self.rhythm.done(now, cpu, self.spec.holds_lock);
        let trouble = trouble.filter(|_| !self.reported);
        self.reported |= trouble.is_some();
        let fix = self.members.as_ref().and_then(Members::fix);
        Reading { rows, values, trouble, fix }
    }
}

/// The sentence for a file that could not be read.
pub(super) fn refusal(path: &str, error: Errno) -> String {
    let error = std::io::Error::from_raw_os_error(error.raw_os_error());
    format!("{path}: {error}")
}

/// The CPU time of the calling thread. Time in which something else ran is no cost of the sampler's, and on a busy
/// machine it is most of what a wall clock would show.
pub(super) struct CpuClock(u64);

impl CpuClock {
    pub(super) fn start() -> Self {
        Self(thread_cpu_ns())
    }

    /// Nanoseconds since the last call.
    pub(super) fn lap(&mut self) -> u64 {
        let now = thread_cpu_ns();
        let spent = now.saturating_sub(self.0);
        self.0 = now;
        spent
    }
}

fn thread_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::{EACH_SECOND, EVERY_SAMPLE, LONGEST_NS, Rhythm, SAMPLE_NS};

    const MS: u64 = 1_000_000;

    fn rhythm(base_ns: u64) -> Rhythm {
        Rhythm { base_ns, interval_ns: base_ns, due_ns: i64::MIN, last_cost: 0 }
    }

    #[test]
    fn a_cheap_source_keeps_its_rhythm() {
        let mut fast = rhythm(EVERY_SAMPLE);
        let mut slow = rhythm(EACH_SECOND);
        for sample in 0..100_i64 {
            // The timer comes up to 5 ms late and early.
            let now = sample * SAMPLE_NS as i64 + (sample % 3 - 1) * 5 * MS as i64;
            assert!(fast.due(now, false));
            fast.done(now, MS / 2, false);
            assert_eq!(slow.due(now, false), sample % 10 == 0, "sample {sample}");
            if slow.due(now, false) {
                slow.done(now, 2 * MS, true);
            }
        }
    }

    /// Whatever a reading costs, the share of the time spent in it stays bounded, up to once a minute.
    #[test]
    fn a_costly_source_is_read_less_often() {
        let cases = [(3 * MS, true, 500), (20 * MS, true, 500), (MS, false, 200), (9 * MS, false, 200)];
        for (cost, cautious, share) in cases {
            let mut rhythm = rhythm(EACH_SECOND * u64::from(cautious));
            let mut reads = 0_u64;
            let samples = 6000_u64;
            for sample in 0..samples {
                let now = (sample * SAMPLE_NS) as i64;
                if rhythm.due(now, false) {
                    reads += 1;
                    rhythm.done(now, cost, cautious);
                }
            }
            let (spent, time) = (reads * cost, samples * SAMPLE_NS);
            assert!(spent * share <= time * 12 / 10, "{cost} ns, {reads} readings: {spent} of {time}");
            assert!(spent * share >= time / 2, "{cost} ns, {reads} readings: backed off further than needed");
            rhythm.done(0, cost, cautious);
            assert!(!rhythm.due(SAMPLE_NS as i64, true), "not even in the last sample");
        }
    }

    #[test]
    fn one_slow_reading_leaves_no_gap_and_a_hopeless_source_is_still_read_each_minute() {
        let mut rhythm = rhythm(EVERY_SAMPLE);
        rhythm.done(0, MS / 10, false);
        rhythm.done(SAMPLE_NS as i64, 50 * MS, false);
        assert!(rhythm.due(2 * SAMPLE_NS as i64, false), "one costly reading may be the machine's fault");
        rhythm.done(2 * SAMPLE_NS as i64, 50 * MS, false);
        assert!(!rhythm.due(10 * SAMPLE_NS as i64, false), "two are its own");
        rhythm.done(0, u64::MAX, true);
        assert!(rhythm.due(LONGEST_NS as i64, false));
    }

    /// A process as old as the clock's start must not keep a source from ever being read.
    #[test]
    fn times_at_the_ends_of_the_range_are_taken() {
        let mut rhythm = rhythm(EACH_SECOND);
        assert!(rhythm.due(i64::MIN, false));
        rhythm.done(i64::MAX - 1, MS, false);
        assert!(rhythm.due(i64::MAX, false));
    }
}
