//! The agent's own cost, and what it gives up to keep to what was allowed.
//!
//! Cost is CPU time of the agent and of all its children plus run time of their BPF programs, over wall time x CPUs. It is averaged over
//! the last ten windows. When it is above `max-cpu-pct`, one thing is given up, and the average begins anew:
//!
//! 1. periods are doubled, as long as the duty cycle stays at `least-duty-pct` or above;
//! 2. then the flight recorder is ended.
//!
//! What was given up last is taken back first, when the cost that it would have, by what windows and flight recorder took of late, is below
//! 80 % of what is allowed: the gap keeps it from swinging. What a flight recorder would take is not known while none runs, so after
//! 30 windows it is tried again. Each change is said in the journal, and the metrics have it.

use std::collections::VecDeque;

/// Windows that are averaged.
const WINDOWS: usize = 10;
/// Windows that must have passed before something is given up: one alone may have met a burst.
const LEAST_WINDOWS: usize = 3;
/// Share of what is allowed below which something is taken back.
const ROOM: f64 = 0.8;
/// Windows after which a flight recorder is tried again, whatever it took before.
const TRY_AGAIN: u32 = 30;

/// Cost from the end of one window to that of the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Wall time, ns.
    pub wall_ns: u64,
    /// CPU and BPF time of the window, ns.
    pub window_ns: u64,
    /// CPU and BPF time of flight recorders, ns.
    pub flight_ns: u64,
    /// CPU time of all else: the agent itself, uploads, commands of triggers, ns.
    pub rest_ns: u64,
}

/// What changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// What was found, and what follows from it.
    pub words: String,
}

/// Keeps the cost below what was allowed.
#[derive(Debug, Clone)]
pub(crate) struct Cap {
    max_pct: f64,
    least_duty_pct: f64,
    duty_pct: f64,
    every_ns: f64,
    cpus: f64,
    samples: VecDeque<Sample>,
    factor: u32,
    has_flight: bool,
    flight_runs: bool,
    /// What a flight recorder took when one ran last, ns a ns.
    flight_rate: f64,
    windows_without: u32,
}

impl Cap {
    pub(crate) fn new(config: &crate::Config, cpus: u32) -> Self {
        let has_flight = config.flight.is_some();
        Self {
            max_pct: config.max_cpu_pct,
            least_duty_pct: config.least_duty_pct,
            duty_pct: 100.0 * config.duty_cycle(),
            every_ns: config.every.as_nanos() as f64,
            cpus: f64::from(cpus.max(1)),
            samples: VecDeque::with_capacity(WINDOWS),
            factor: 1,
            has_flight,
            flight_runs: has_flight,
            flight_rate: 0.0,
            windows_without: 0,
        }
    }

    /// One in so many periods is to be recorded.
    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    /// Whether a flight recorder may run.
    pub(crate) fn flight_runs(&self) -> bool {
        self.flight_runs
    }

    /// Cost on average, per cent of the machine's CPU time; none before the first window has ended.
    pub(crate) fn average_pct(&self) -> Option<f64> {
        let wall_ns = self.sum(|sample| sample.wall_ns);
        let taken_ns = self.sum(|sample| sample.window_ns + sample.flight_ns + sample.rest_ns);
        if wall_ns > 0.0 { Some(100.0 * taken_ns / (wall_ns * self.cpus)) } else { None }
    }

    fn sum(&self, of: impl Fn(&Sample) -> u64) -> f64 {
        self.samples.iter().map(of).sum::<u64>() as f64
    }

    /// Takes the cost of one more window, and says what changes by it.
    pub(crate) fn add(&mut self, sample: Sample) -> Option<Change> {
        if self.samples.len() == WINDOWS {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        if self.samples.len() < LEAST_WINDOWS {
            return None;
        }
        let found_pct = self.average_pct()?;
        let change = if found_pct > self.max_pct { self.give_up() } else { self.take_back() }?;
        let (max_pct, windows) = (self.max_pct, self.samples.len());
        let words = format!(
            "own cost {found_pct:.2} % of the machine's CPU time over the last {windows} windows, allowed {max_pct} % (max-cpu-pct): {change}"
        );
        self.samples.clear();
        Some(Change { words })
    }

    fn give_up(&mut self) -> Option<String> {
        if self.duty_pct / f64::from(self.factor * 2) >= self.least_duty_pct {
            self.factor *= 2;
            return Some(format!("one period in {} is recorded from now on", self.factor));
        }
        if !self.flight_runs {
            return None;
        }
        let wall_ns = self.sum(|sample| sample.wall_ns).max(1.0);
        self.flight_rate = self.sum(|sample| sample.flight_ns) / wall_ns;
        (self.flight_runs, self.windows_without) = (false, 0);
        Some("the flight recorder is ended; triggers are not answered until it runs again".to_owned())
    }

    fn take_back(&mut self) -> Option<String> {
        let wall_ns = self.sum(|sample| sample.wall_ns).max(1.0);
        let rest_rate = self.sum(|sample| sample.rest_ns + sample.flight_ns) / wall_ns;
        let window_ns = self.sum(|sample| sample.window_ns) / self.samples.len() as f64;
        let pct_at = |factor: u32, more_rate: f64| {
            100.0 * (rest_rate + more_rate + window_ns / (self.every_ns * f64::from(factor))) / self.cpus
        };
        let fits = |pct: f64| pct <= ROOM * self.max_pct;
        if self.has_flight && !self.flight_runs {
            self.windows_without += 1;
            if self.windows_without < TRY_AGAIN && !fits(pct_at(self.factor, self.flight_rate)) {
                return None;
            }
            self.flight_runs = true;
            return Some("the flight recorder runs again".to_owned());
        }
        let half = self.factor / 2;
        if self.factor == 1 || self.samples.len() < WINDOWS || !fits(pct_at(half, 0.0)) {
            return None;
        }
        self.factor = half;
        Some(match half {
            1 => "every period is recorded again".to_owned(),
            _ => format!("one period in {half} is recorded from now on"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::keys::Keys;

    const MS: u64 = 1_000_000;

    /// 10 s of every 60 s on two CPUs, 1 % allowed: 1,200 ms of each minute.
    fn cap(text: &str) -> Cap {
        let keys = Keys::parse(&format!("output = '/d'\non = 10\nevery = 60\n{text}")).expect("keys");
        Cap::new(&Config::new(keys).expect("they fit"), 2)
    }

    /// Windows of so many ms each, at the pace that the cap has; what it said.
    fn run(cap: &mut Cap, windows: usize, window_ms: u64, flight_ms_a_minute: u64) -> Vec<String> {
        let mut said = Vec::new();
        for _ in 0..windows {
            let minutes = u64::from(cap.factor());
            let flight_ns = if cap.flight_runs() { flight_ms_a_minute * MS * minutes } else { 0 };
            let sample = Sample { wall_ns: 60_000 * MS * minutes, window_ns: window_ms * MS, flight_ns, rest_ns: 0 };
            said.extend(cap.add(sample).map(|change| change.words));
        }
        said
    }

    #[test]
    fn within_what_is_allowed_nothing_changes() {
        let mut cap = cap("");
        assert_eq!(cap.average_pct(), None, "nothing was measured");
        assert_eq!(run(&mut cap, 100, 1100, 0), Vec::<String>::new());
        assert!((cap.average_pct().expect("measured") - 1100.0 / 1200.0).abs() < 1e-9);
        assert_eq!(cap.factor(), 1);
    }

    #[test]
    fn above_it_periods_are_doubled_and_taken_back_when_it_is_cheap_again() {
        let mut cap = cap("");
        let said = run(&mut cap, 2, 2000, 0);
        assert_eq!((said.len(), cap.factor()), (0, 1), "two windows may be a burst");
        let said = run(&mut cap, 8, 2000, 0);
        assert_eq!(cap.factor(), 2, "half of 1.67 % fits");
        assert!(said.len() == 1 && said[0].contains("1.67 %") && said[0].contains("one period in 2"), "{said:?}");
        assert_eq!(run(&mut cap, 50, 1900, 0), Vec::<String>::new(), "twice the present cost does not fit");
        let said = run(&mut cap, 30, 900, 0);
        assert!(said.len() == 1 && said[0].contains("every period is recorded again") && cap.factor() == 1, "{said:?}");
        assert_eq!(run(&mut cap, 50, 900, 0), Vec::<String>::new(), "and does not swing");
    }

    #[test]
    fn one_burst_changes_nothing() {
        let mut cap = cap("");
        run(&mut cap, 10, 600, 0);
        assert_eq!(run(&mut cap, 1, 6000, 0), Vec::<String>::new(), "5 % in one of ten windows");
        assert_eq!(run(&mut cap, 9, 600, 0), Vec::<String>::new());
    }

    #[test]
    fn the_duty_cycle_has_an_end() {
        let mut cap = cap("least-duty-pct = 5");
        run(&mut cap, 100, 100_000, 0);
        assert_eq!(cap.factor(), 2, "16.7 % halved once is 8.3 %, twice 4.2 %");
    }

    #[test]
    fn the_flight_recorder_goes_last_and_comes_back_first() {
        let mut cap = cap("trigger = ['signal']\nleast-duty-pct = 8");
        let said = run(&mut cap, 3, 600, 1500);
        assert_eq!((said.len(), cap.factor(), cap.flight_runs()), (1, 2, true));
        let said = run(&mut cap, 3, 600, 1500);
        assert!(said.len() == 1 && said[0].contains("the flight recorder is ended") && !cap.flight_runs(), "{said:?}");
        assert_eq!(run(&mut cap, 26, 600, 1500).len(), 0, "by what it took it does not fit");
        let said = run(&mut cap, 10, 600, 100);
        assert!(said.iter().any(|words| words.contains("runs again")) && cap.flight_runs(), "{said:?}");
        run(&mut cap, 20, 600, 100);
        assert_eq!((cap.factor(), cap.flight_runs()), (1, true));
    }

    #[test]
    fn what_the_agent_itself_takes_counts() {
        let mut cap = cap("");
        let sample = Sample { wall_ns: 60_000 * MS, rest_ns: 1300 * MS, ..Sample::default() };
        assert!((0..3).filter_map(|_| cap.add(sample)).count() == 1 && cap.factor() == 2);
        assert_eq!(Duration::from_nanos(sample.wall_ns).as_secs(), 60);
    }
}
