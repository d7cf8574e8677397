//! When windows are recorded.
//!
//! Time is cut into periods, counted from the epoch: period k is `[k every, (k + 1) every)`. Each has one window, which begins at a time
//! drawn for it alone. A window at a fixed place would see what cron runs each minute always or never; one at a random place sees
//! everything in proportion to the time it takes (a stratified random sample). The draw depends on seed and period only: hosts with one
//! seed record the same seconds, and an agent that was restarted knows what it had planned.
//!
//! Periods are counted on CLOCK_BOOTTIME, which no one sets and which goes on while the machine sleeps, plus its distance to the wall
//! clock as it was at the start (the anchor). When the wall clock is set, the anchor is taken anew and the period that it leads into
//! is passed over: so no period is recorded twice, whichever way the clock goes.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A difference of the two clocks by which the wall clock has been set, not slewed.
const STEP_NS: i64 = 1_000_000_000;
/// A window may begin that late, though it then ends in the next period: ticks come once a second.
const LATE_NS: i64 = 2_000_000_000;

/// Both clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// CLOCK_BOOTTIME, ns.
    pub boot_ns: i64,
    /// CLOCK_REALTIME, ns since the epoch.
    pub real_ns: i64,
}

impl Now {
    /// This instant.
    pub(crate) fn read() -> Self {
        let ns = |id| {
            let time = rustix::time::clock_gettime(id);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        Self { boot_ns: ns(rustix::time::ClockId::Boottime), real_ns: ns(rustix::time::ClockId::Realtime) }
    }
}

/// Lengths of periods and windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// A window, ns.
    pub on_ns: i64,
    /// A period, ns.
    pub every_ns: i64,
    /// Seed of the windows' places.
    pub seed: u64,
}

impl Plan {
    /// Where in its period the window begins, ns.
    pub(crate) fn offset_ns(&self, period: i64) -> i64 {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        // Each period has its own place in the sequence of the generator, of 32-bit words.
        rng.set_word_pos(u128::from(period as u64) * 2);
        let room = u128::from((self.every_ns - self.on_ns) as u64 + 1);
        // The high half of the product is below `room`, with a bias of less than one in 2^20 for periods of a day.
        ((u128::from(rng.next_u64()) * room) >> 64) as i64
    }
}

/// What an agent must know after a restart so that nothing is recorded twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The kernel's boot id.
    pub boot_id: Option<String>,
    /// Wall clock less boot clock, ns.
    pub anchor_ns: i64,
    /// Length of periods, ns.
    pub every_ns: i64,
    /// The latest period that is settled.
    pub last: i64,
}

/// Why a period has no recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// No agent ran.
    AgentDown,
    /// The agent was held up, or the machine slept.
    Late,
    /// The wall clock was set.
    ClockSet,
    /// Periods are stretched, to keep to the cost that was allowed.
    Cost,
    /// `DIR/pause` is there.
    Paused,
    /// The file system is nearly full.
    DiskLow,
    /// There is nothing to record.
    TargetGone,
    /// The recorder could not begin, or its recording could not be written.
    Failed,
}

impl Reason {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::AgentDown,
        Self::Late,
        Self::ClockSet,
        Self::Cost,
        Self::Paused,
        Self::DiskLow,
        Self::TargetGone,
        Self::Failed,
    ];

    /// The word in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::AgentDown => "agent_down",
            Self::Late => "late",
            Self::ClockSet => "clock_set",
            Self::Cost => "cost",
            Self::Paused => "paused",
            Self::DiskLow => "disk_low",
            Self::TargetGone => "target_gone",
            Self::Failed => "failed",
        }
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing until then, CLOCK_BOOTTIME ns.
    Wait(i64),
    /// Record the window of this period.
    Record(i64),
    /// So many periods have no recording.
    Skipped(u64, Reason),
    /// The wall clock was set by so many ns; the period has no recording unless it had one before.
    ClockSet(i64),
}

/// The windows of one host.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    plan: Plan,
    anchor_ns: i64,
    /// The latest period that is settled: recorded or passed over.
    last: i64,
    /// Why periods before the first are missing.
    missing: Reason,
    /// One in so many periods is recorded.
    factor: i64,
    /// When the latest window ends, CLOCK_BOOTTIME ns: a clock that is set forth leads into the next period before that.
    window_ends_ns: i64,
}

impl Schedule {
    /// Goes on where an earlier agent stopped, or begins with the present period.
    pub(crate) fn resume(plan: Plan, saved: Option<&Saved>, now: Now, boot_id: Option<&str>) -> Self {
        let anchor_ns = now.real_ns - now.boot_ns;
        let fresh = Self { plan, anchor_ns, last: 0, missing: Reason::AgentDown, factor: 1, window_ends_ns: i64::MIN };
        let present = fresh.period(now);
        let begin = Self { last: present - 1, ..fresh.clone() };
        let Some(saved) = saved.filter(|saved| saved.every_ns == plan.every_ns) else { return begin };
        let is_same_boot = boot_id.is_some() && saved.boot_id.as_deref() == boot_id;
        if is_same_boot && (saved.anchor_ns - anchor_ns).abs() <= STEP_NS {
            let resumed = Self { anchor_ns: saved.anchor_ns, ..fresh };
            // A file that somebody wrote into may say anything.
            return Self { last: saved.last.min(resumed.period(now)), ..resumed };
        }
        if is_same_boot {
            // The clock was set meanwhile: what the present period had cannot be known.
            return Self { last: present, ..fresh };
        }
        // After a boot the wall clock is all there is. If it is behind what was recorded, nothing is known of the time between.
        if saved.last > present { begin } else { Self { last: saved.last, ..fresh } }
    }

    /// What the next agent must know.
    pub(crate) fn saved(&self, boot_id: Option<&str>) -> Saved {
        let (anchor_ns, every_ns, last) = (self.anchor_ns, self.plan.every_ns, self.last);
        Saved { boot_id: boot_id.map(str::to_owned), anchor_ns, every_ns, last }
    }

    /// Records one in so many periods from now on.
    pub(crate) fn stretch(&mut self, factor: u32) {
        self.factor = i64::from(factor.max(1));
    }

    fn period(&self, now: Now) -> i64 {
        (now.boot_ns + self.anchor_ns).div_euclid(self.plan.every_ns)
    }

    /// When a period's window begins, CLOCK_BOOTTIME ns.
    fn begins(&self, period: i64) -> i64 {
        period * self.plan.every_ns + self.plan.offset_ns(period) - self.anchor_ns
    }

    /// What is to be done now. To be asked again until it says wait.
    pub(crate) fn next(&mut self, now: Now) -> Step {
        let stepped_ns = now.real_ns - now.boot_ns - self.anchor_ns;
        if stepped_ns.abs() > STEP_NS {
            self.anchor_ns += stepped_ns;
            self.last = self.period(now);
            return Step::ClockSet(stepped_ns);
        }
        let period = self.period(now);
        if period > self.last + 1 {
            let missed = (period - self.last - 1) as u64;
            self.last = period - 1;
            return Step::Skipped(missed, std::mem::replace(&mut self.missing, Reason::Late));
        }
        self.missing = Reason::Late;
        if period <= self.last {
            return Step::Wait(self.begins(self.last + 1));
        }
        if period.rem_euclid(self.factor) != 0 {
            self.last = period;
            return Step::Skipped(1, Reason::Cost);
        }
        let begins = self.begins(period).max(self.window_ends_ns);
        if now.boot_ns < begins {
            return Step::Wait(begins);
        }
        self.last = period;
        let ends = (period + 1) * self.plan.every_ns - self.anchor_ns;
        let is_in_time = now.boot_ns - begins <= LATE_NS || now.boot_ns + self.plan.on_ns <= ends;
        if !is_in_time {
            return Step::Skipped(1, Reason::Late);
        }
        self.window_ends_ns = now.boot_ns + self.plan.on_ns;
        Step::Record(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    const PLAN: Plan = Plan { on_ns: 10 * S, every_ns: 60 * S, seed: 1 };
    /// A wall clock of 2026 on a machine that has been up for an hour.
    const START: Now = Now { boot_ns: 3600 * S, real_ns: 1_795_000_000 * S };

    fn at(seconds: i64) -> Now {
        Now { boot_ns: START.boot_ns + seconds * S, real_ns: START.real_ns + seconds * S }
    }

    /// What happens between two instants, asked once a second.
    fn run(schedule: &mut Schedule, from: i64, to: i64, set_by: i64) -> Vec<(i64, Step)> {
        let mut steps = Vec::new();
        for second in from..to {
            let now = Now { real_ns: at(second).real_ns + set_by * S, ..at(second) };
            loop {
                match schedule.next(now) {
                    Step::Wait(until) => {
                        assert!(until > now.boot_ns, "a wait ends later");
                        break;
                    }
                    step => steps.push((second, step)),
                }
            }
        }
        steps
    }

    fn recorded(steps: &[(i64, Step)]) -> Vec<i64> {
        steps
            .iter()
            .filter_map(|(_, step)| if let Step::Record(period) = step { Some(*period) } else { None })
            .collect()
    }

    fn begun() -> Schedule {
        Schedule::resume(PLAN, None, START, Some("boot"))
    }

    #[test]
    fn every_period_has_one_window_within_it() {
        let mut schedule = begun();
        let first = schedule.period(START);
        let steps = run(&mut schedule, 0, 3600, 0);
        let periods = recorded(&steps);
        assert!(periods.windows(2).all(|pair| pair[1] == pair[0] + 1), "{periods:?}");
        assert!(periods[0] <= first + 1 && (59..=61).contains(&periods.len()), "{periods:?}");
        for (second, step) in &steps {
            let Step::Record(period) = step else { continue };
            let into = at(*second).boot_ns + schedule.anchor_ns - period * PLAN.every_ns;
            assert!((0..=PLAN.every_ns - PLAN.on_ns + S).contains(&into), "period {period} begins {into} ns into it");
        }
    }

    /// A window at the same place in each period would see what runs once a minute always or never.
    #[test]
    fn windows_lie_evenly_in_their_periods() {
        let offsets: Vec<i64> = (0..6000).map(|period| PLAN.offset_ns(period)).collect();
        for tenth in 0..10 {
            let count = offsets.iter().filter(|offset| **offset / (5 * S) == tenth).count();
            assert!((500..=700).contains(&count), "{count} of 6000 in tenth {tenth}, needed about 600");
        }
        let again: Vec<i64> = (0..6000).map(|period| PLAN.offset_ns(period)).collect();
        assert_eq!(offsets, again, "a restarted agent plans the same");
        let other = Plan { seed: 2, ..PLAN };
        assert!((0..100).any(|period| other.offset_ns(period) != PLAN.offset_ns(period)));
        let whole = Plan { on_ns: 60 * S, ..PLAN };
        assert!((0..100).all(|period| whole.offset_ns(period) == 0), "a duty cycle of 1 leaves no room");
    }

    #[test]
    fn a_restart_records_no_period_twice_and_says_what_is_missing() {
        let mut schedule = begun();
        let before = recorded(&run(&mut schedule, 0, 300, 0));
        let saved = schedule.saved(Some("boot"));
        // At once.
        let mut next = Schedule::resume(PLAN, Some(&saved), at(300), Some("boot"));
        let mut steps = run(&mut next, 300, 600, 0);
        let mut all = [before.clone(), recorded(&steps)].concat();
        assert!(all.windows(2).all(|pair| pair[1] == pair[0] + 1), "{all:?}");
        // An hour later.
        let saved = next.saved(Some("boot"));
        let mut later = Schedule::resume(PLAN, Some(&saved), at(4200), Some("boot"));
        steps = run(&mut later, 4200, 4500, 0);
        let Step::Skipped(missed, Reason::AgentDown) = steps[0].1 else { panic!("{steps:?}") };
        all.extend(recorded(&steps));
        let span = (all[all.len() - 1] - all[0] + 1) as u64;
        let late: u64 = steps[1..].iter().map(|(_, step)| if let Step::Skipped(n, _) = step { *n } else { 0 }).sum();
        assert_eq!(all.len() as u64 + missed + late, span, "each period is recorded or accounted for: {steps:?}");
    }

    #[test]
    fn a_machine_that_slept_says_how_many_periods_are_missing() {
        let mut schedule = begun();
        run(&mut schedule, 0, 120, 0);
        let last = schedule.last;
        let steps = run(&mut schedule, 1200, 1201, 0);
        let Step::Skipped(missed, Reason::Late) = steps[0].1 else { panic!("{steps:?}") };
        assert_eq!(missed as i64, schedule.period(at(1200)) - last - 1);
    }

    #[test]
    fn a_clock_that_is_set_back_or_forth_makes_nothing_twice_and_stops_nothing() {
        for set_by in [-7200, -60, -2, 2, 60, 86_400] {
            let mut schedule = begun();
            let before = run(&mut schedule, 0, 600, 0);
            let after = run(&mut schedule, 600, 1200, set_by);
            assert_eq!(after[0], (600, Step::ClockSet(set_by * S)), "{set_by}");
            assert!(after[1..].iter().all(|(_, step)| matches!(step, Step::Record(_))), "{set_by}: {after:?}");
            let times: Vec<i64> = [before, after]
                .concat()
                .iter()
                .filter(|(_, step)| matches!(step, Step::Record(_)))
                .map(|(at, _)| *at)
                .collect();
            assert!((18..=21).contains(&times.len()), "{set_by}: {} windows in 20 minutes", times.len());
            // Windows of neighbouring periods may follow each other at once, but never overlap.
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{set_by}: {times:?}");
        }
    }

    #[test]
    fn a_clock_that_was_set_while_no_agent_ran_makes_nothing_twice() {
        let mut schedule = begun();
        run(&mut schedule, 0, 600, 0);
        let saved = schedule.saved(Some("boot"));
        let set = Now { real_ns: at(601).real_ns - 7200 * S, ..at(601) };
        let mut next = Schedule::resume(PLAN, Some(&saved), set, Some("boot"));
        assert_eq!(next.last, next.period(set), "the present period may have had its window");
        assert!(matches!(next.next(set), Step::Wait(_)));
        // Another boot with a clock far behind begins anew; with one that went on it knows what is missing.
        let behind = Schedule::resume(PLAN, Some(&saved), set, Some("other"));
        assert_eq!(behind.last, behind.period(set) - 1);
        let on = Now { boot_ns: 20 * S, real_ns: at(900).real_ns };
        let mut on_time = Schedule::resume(PLAN, Some(&saved), on, Some("other"));
        assert!(matches!(on_time.next(on), Step::Skipped(4..=5, Reason::AgentDown)));
    }

    #[test]
    fn other_lengths_begin_anew() {
        let saved = begun().saved(Some("boot"));
        let plan = Plan { every_ns: 30 * S, ..PLAN };
        let other = Schedule::resume(plan, Some(&saved), at(5), Some("boot"));
        assert_eq!(other.last, other.period(at(5)) - 1);
        // What a damaged file says is no reason to record nothing.
        let wild = Saved { last: i64::MAX, ..saved };
        let resumed = Schedule::resume(PLAN, Some(&wild), at(5), Some("boot"));
        assert_eq!(resumed.last, resumed.period(at(5)));
    }

    #[test]
    fn stretched_periods_are_said() {
        let mut schedule = begun();
        schedule.stretch(4);
        let steps = run(&mut schedule, 0, 4800, 0);
        let skipped = steps.iter().filter(|(_, step)| *step == Step::Skipped(1, Reason::Cost)).count();
        let periods = recorded(&steps);
        assert!((19..=21).contains(&periods.len()) && (58..=62).contains(&skipped), "{} and {skipped}", periods.len());
        assert!(periods.windows(2).all(|pair| pair[1] == pair[0] + 4), "{periods:?}");
    }

    #[test]
    fn a_window_that_does_not_fit_any_more_is_late() {
        let mut schedule = begun();
        run(&mut schedule, 0, 60, 0);
        let period = schedule.last + 1;
        let end = (period + 1) * PLAN.every_ns - schedule.anchor_ns;
        let room = PLAN.every_ns - PLAN.on_ns - PLAN.offset_ns(period);
        assert!(room > LATE_NS, "the drawn place leaves room: {room}");
        let now = Now { boot_ns: end - 5 * S, real_ns: end - 5 * S + schedule.anchor_ns };
        assert_eq!(schedule.next(now), Step::Skipped(1, Reason::Late));
        let mut fits = begun();
        fits.last = period - 1;
        let now = Now { boot_ns: end - 10 * S, real_ns: end - 10 * S + fits.anchor_ns };
        assert_eq!(fits.next(now), Step::Record(period), "later than planned, but within its period");
    }
}
