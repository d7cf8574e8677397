//! The line that tells how far a run is, once a second, on standard error, in fio's words:
//! `Jobs: 2 (f=2): [r(1),W(1)][40.0%][r=1234MiB/s,w=96MiB/s][r=316k,w=96 IOPS][eta 00m:06s]`.
//!
//! The letters are fio's: `P` getting ready, `I` waiting, `/` ramp, `R`/`r` reading in order or at random, `W`/`w` writing, `M`/`m`
//! both, `_` done. The percentage is the share of time that is over: of the runtime where the job has one, else judged by the bytes done
//! so far. Where nothing is known yet, `--`.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use pagelab_fiojob::{Direction, JobSpec};

use super::spawn::Crew;
use crate::control::Status;
use crate::output::numbers::num;
use crate::plan::WorkerPlan;
use crate::shared::{Progress, State};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Shows how far a crew is.
pub(super) struct StatusLine<'a> {
    crew: &'a Crew<'a>,
    /// Rewrite one line instead of adding new ones.
    rewrite: bool,
    begun: Instant,
    shown: Instant,
    done: Progress,
    /// When each wave was first seen at work.
    waves: Vec<Option<Instant>>,
}

impl<'a> StatusLine<'a> {
    /// A line for this crew; `None` if the caller wants none, or wants it on a terminal and there is none.
    pub(super) fn new(crew: &'a Crew<'a>, wanted: Status) -> Option<Self> {
        let terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        (wanted == Status::Always || (wanted == Status::Auto && terminal)).then(|| Self {
            crew,
            rewrite: terminal,
            begun: now,
            shown: now,
            done: Progress::default(),
            waves: vec![None; crew.plan.waves as usize],
        })
    }

    /// Shows the line if it is time to.
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        for worker in &self.crew.plan.workers {
            let at_work = self.crew.shared.state(worker.index).works();
            if let (true, Some(begun @ None)) = (at_work, self.waves.get_mut(worker.wave as usize)) {
                *begun = Some(now);
            }
        }
        let since = now.duration_since(self.shown);
        if since < EVERY {
            return;
        }
        let line = self.line(now, since.as_secs_f64());
        self.shown = now;
        // Nobody may be listening, which is no reason to stop.
        let _ = if self.rewrite {
            write!(std::io::stderr(), "\r{line}\x1b[K")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
    }

    fn line(&mut self, now: Instant, seconds: f64) -> String {
        let shared = self.crew.shared;
        let workers = &self.crew.plan.workers;
        let states: Vec<State> = workers.iter().map(|worker| shared.state(worker.index)).collect();
        let jobs: Vec<&JobSpec> = workers.iter().filter_map(|w| self.crew.workload.jobs.get(w.job)).collect();
        let alive = states.iter().filter(|state| **state != State::Done).count();
        let running = states.iter().filter(|state| state.works()).count();
        let letters = states.iter().zip(&jobs).map(|(state, job)| letter(*state, job));
        let done = workers.iter().map(|worker| shared.progress(worker.index)).fold(Progress::default(), Progress::plus);
        let (rates, counts) = rates(&jobs, done.since(self.done), seconds);
        self.done = done;
        let (percent, eta) = self.remaining(now).map_or_else(
            || ("--".to_owned(), "--".to_owned()),
            |left| {
                let gone = now.duration_since(self.begun).as_secs_f64();
                let percent = 100.0 * gone / (gone + left).max(f64::MIN_POSITIVE);
                let left = left.round() as u64;
                let hours = if left >= 3600 { format!("{:02}h:", left / 3600) } else { String::new() };
                (format!("{percent:.1}%"), format!("{hours}{:02}m:{:02}s", left / 60 % 60, left % 60))
            },
        );
        let letters = run_lengths(letters);
        format!("Jobs: {alive} (f={running}): [{letters}][{percent}][{rates}][{counts} IOPS][eta {eta}]")
    }

    /// Seconds that are left, if they can be judged: those of the longest worker of each wave.
    fn remaining(&self, now: Instant) -> Option<f64> {
        let mut total = 0.0;
        for (wave, begun) in self.waves.iter().enumerate() {
            let of_wave = self.crew.plan.workers.iter().filter(|worker| worker.wave as usize == wave);
            let gone = begun.map_or(0.0, |begun| now.duration_since(begun).as_secs_f64());
            let left = of_wave.map(|worker| self.left(worker, gone)).collect::<Option<Vec<f64>>>()?;
            total += left.into_iter().fold(0.0, f64::max);
        }
        Some(total)
    }

    fn left(&self, worker: &WorkerPlan, gone: f64) -> Option<f64> {
        if self.crew.shared.state(worker.index) == State::Done {
            return Some(0.0);
        }
        let options = &self.crew.workload.jobs.get(worker.job)?.options;
        let ns = options.startdelay.low_ns + options.ramp_time.0 + options.runtime.0;
        let by_time = (options.runtime.0 > 0).then(|| (ns as f64 / 1e9 - gone).max(0.0));
        if options.time_based {
            return by_time;
        }
        let region: u64 = worker.files.iter().map(|file| file.span.region_bytes).sum();
        let each = worker.io_bytes.unwrap_or(region);
        let bytes = options.number_ios.map_or(each, |n| each.min(n.saturating_mul(worker_block_bytes(worker))));
        let all = bytes.saturating_mul(options.loops) as f64;
        let done = self.crew.shared.progress(worker.index).bytes.iter().sum::<u64>() as f64;
        let by_bytes = (done > 0.0 && gone > 0.0).then(|| (gone * (all - done) / done).max(0.0));
        [by_time, by_bytes].into_iter().flatten().reduce(f64::min)
    }
}

impl Drop for StatusLine<'_> {
    fn drop(&mut self) {
        if self.rewrite && self.shown > self.begun {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn worker_block_bytes(worker: &WorkerPlan) -> u64 {
    let [read, write] = worker.course.block_bytes;
    u64::from(read.max(write))
}

fn letter(state: State, job: &JobSpec) -> char {
    let pattern = job.options.rw.0;
    match state {
        State::Preparing => 'P',
        State::Ready => 'I',
        State::Ramping => '/',
        State::Done => '_',
        State::Running if !pattern.reads() && !pattern.writes() => {
            if pattern.is_random() {
                'd'
            } else {
                'D'
            }
        }
        State::Running => match (pattern.reads() && pattern.writes(), pattern.reads(), pattern.is_random()) {
            (true, _, false) => 'M',
            (true, _, true) => 'm',
            (_, true, false) => 'R',
            (_, true, true) => 'r',
            (_, false, false) => 'W',
            (_, false, true) => 'w',
        },
    }
}

/// `r(3),W(1)` for `rrrW`.
fn run_lengths(letters: impl Iterator<Item = char>) -> String {
    let letters: Vec<char> = letters.collect();
    let runs = letters.chunk_by(|a, b| a == b);
    runs.map(|run| format!("{}({})", run.first().copied().unwrap_or('?'), run.len())).collect::<Vec<_>>().join(",")
}

/// Bytes and operations a second, of the directions that the jobs use.
fn rates(jobs: &[&JobSpec], done: Progress, seconds: f64) -> (String, String) {
    let used = |direction: Direction| jobs.iter().any(|job| job.options.rw.0.does(direction));
    let (mut bytes, mut counts) = (Vec::new(), Vec::new());
    for direction in Direction::ALL.into_iter().filter(|direction| used(*direction)) {
        let index = direction as usize;
        let letter = &direction.name()[..1];
        bytes.push(format!("{letter}={}B/s", num(done.bytes[index] as f64 / seconds, 4, 1024)));
        counts.push(format!("{letter}={}", num(done.operations[index] as f64 / seconds, 4, 1000)));
    }
    (bytes.join(","), counts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::plan::plan;
    use crate::safety::TargetKind;
    use crate::shared::Shared;
    use pagelab_fiojob::parse_args;

    #[test]
    fn the_line_says_what_is_going_on() {
        let words =
            "--runtime=10 --time_based --size=1m --name=a --rw=randread --numjobs=2 --name=b --rw=write --stonewall";
        let workload = parse_args(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).expect("a job");
        let plan = plan(&workload, &|_, _| Ok(TargetKind::File { bytes: 1 << 20 })).expect("a plan");
        let shared = Shared::new(3).expect("memory");
        let clocks = [Clock::gettime(); 2];
        let crew = Crew {
            plan: &plan,
            workload: &workload,
            clocks: &clocks,
            shared: &shared,
            state_dir: std::path::Path::new("/nonexistent"),
            allow_write: &[],
            status: Status::Always,
            bandwidth_log: false,
            status_interval: None,
        };
        shared.set_state(0, State::Running);
        shared.set_state(1, State::Running);
        shared.publish(0, Progress { operations: [4000, 0, 0], bytes: [4000 << 12, 0, 0], at_ns: 1 });
        let mut line = StatusLine::new(&crew, Status::Always).expect("wanted");
        line.tick();
        let begun = line.begun;
        line.waves = vec![Some(begun), None];
        let text = line.line(begun + Duration::from_secs(4), 4.0);
        assert_eq!(text, "Jobs: 3 (f=2): [r(2),P(1)][20.0%][r=4000KiB/s,w=0B/s][r=1000,w=0 IOPS][eta 00m:16s]");
        // The next line covers everything since; a worker that is done leaves.
        shared.set_state(0, State::Done);
        let text = line.line(begun + Duration::from_secs(6), 2.0);
        assert_eq!(text, "Jobs: 2 (f=1): [_(1),r(1),P(1)][30.0%][r=0B/s,w=0B/s][r=0,w=0 IOPS][eta 00m:14s]");
        assert!(StatusLine::new(&crew, Status::Never).is_none());
    }
}
