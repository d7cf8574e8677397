//! Reports of what was measured so far, while the work goes on: at `--status-interval`, and when SIGUSR1 asks for one.
//!
//! Workers are asked through the page that they share with the supervisor, and answer with a report of their own between two
//! operations. One that is in the middle of a long operation is not waited for: its last answer stands in, or nothing.

use std::time::{Duration, Instant};

use super::spawn::{Crew, Member};
use crate::report::WorkerReport;
use crate::signals;

/// How long answers are waited for. An operation that takes longer is answered for by the report before.
const PATIENCE: Duration = Duration::from_millis(300);

/// Asks workers for reports and gives all that there is to whoever prints it.
pub(super) struct Asking<'a> {
    crew: &'a Crew<'a>,
    every: Option<Duration>,
    next: Option<Instant>,
    /// Since when answers are waited for.
    since: Option<Instant>,
}

impl<'a> Asking<'a> {
    /// Nothing is asked yet; the first interval begins now.
    pub(super) fn new(crew: &'a Crew<'a>) -> Self {
        let every = crew.status_interval;
        Self { crew, every, next: every.map(|every| Instant::now() + every), since: None }
    }

    /// How long the caller may wait for workers before it looks here again, ms.
    pub(super) fn nap_ms(&self) -> i64 {
        const LONGEST: i64 = 100;
        let due = self.since.map(|since| since + PATIENCE).or(self.next);
        let left = due.map(|due| due.saturating_duration_since(Instant::now()).as_millis());
        left.map_or(LONGEST, |left| i64::try_from(left).unwrap_or(LONGEST).clamp(1, LONGEST))
    }

    /// Asks if it is time to, and gives `each` the report of every worker once all have answered.
    pub(super) fn tick(&mut self, members: &mut [Member], each: &mut dyn FnMut(Vec<WorkerReport>)) {
        let now = Instant::now();
        if let (Some(next), Some(every)) = (self.next, self.every)
            && now >= next
        {
            self.next = Some((next + every).max(now));
            self.ask(members, now);
        }
        if signals::take_report_request() {
            self.ask(members, now);
        }
        let Some(since) = self.since else { return };
        let waits = members.iter().any(|member| member.open && member.asked);
        if waits && now.duration_since(since) < PATIENCE {
            return;
        }
        self.since = None;
        each(members.iter().enumerate().map(|(index, member)| self.report_of(index, member)).collect());
    }

    fn ask(&mut self, members: &mut [Member], now: Instant) {
        for (index, member) in members.iter_mut().enumerate() {
            if member.open && self.crew.shared.state(index).works() {
                member.asked = true;
                self.crew.shared.ask_to_tell(index);
            }
        }
        self.since.get_or_insert(now);
    }

    /// What is known of a worker: its end, its last answer, or no more than its name.
    fn report_of(&self, index: usize, member: &Member) -> WorkerReport {
        if let Some(result) = &member.result {
            return result.report.clone();
        }
        member.heard.so_far().cloned().unwrap_or_else(|| self.crew.nameless(index))
    }
}
