//! The probe in the session's loop: makes a second of each moment, and hands it on.

use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError};

use pagelab_host::facts::Facts;
use pagelab_observe::moment::Moment;
use pagelab_observe::streams::Stream;
use pagelab_observe::sums::{SumProbe, Sums};
use pagelab_observe::watcher::{AttachTo, Round, Watcher};
use pagelab_recording::RecordingWriter;

use crate::cost::Costs;
use crate::counts::Counts;
use crate::names::Names;
use crate::second::{Making, Second};
use crate::states::States;

/// What the thread that shows is told. That it is over is told by the channel's end.
#[derive(Debug)]
pub(crate) enum Message {
    /// The target is there, and watched.
    Begun,
    /// What happened.
    Second(Box<Second>),
}

/// What goes to a thread that is slow: seconds beyond these are left out.
pub(crate) const ROOM: usize = 8;

/// Shortest interval whose rates say something, ns. The end of watching cuts the last interval anywhere: of some milliseconds,
/// one call that returned makes hours a second.
const SHORTEST_NS: i64 = 500_000_000;

/// The probe.
pub(crate) struct Onlooker {
    to: SyncSender<Message>,
    states: States,
    names: Names,
    counts: Counts,
    /// Faults and calls, or why they are not counted.
    probe: Result<SumProbe, String>,
    costs: Costs,
    began_ts: Option<i64>,
    /// Seconds that were made.
    made: u64,
    skipped: u64,
}

impl Onlooker {
    /// Nothing is watched yet.
    pub(crate) fn new(to: SyncSender<Message>, with_bpf: bool) -> Self {
        let cpus = Facts::read(Path::new("/")).cpus.unwrap_or(1);
        Self {
            to,
            states: States::default(),
            names: Names::default(),
            counts: Counts::default(),
            probe: Err("not begun".to_owned()),
            costs: Costs::new(cpus, with_bpf),
            began_ts: None,
            made: 0,
            skipped: 0,
        }
    }

    fn count(&mut self) -> Result<Sums, String> {
        let probe = self.probe.as_mut().map_err(|reason| reason.clone())?;
        let now = probe.read().map_err(|error| error.to_string())?;
        Ok(self.counts.take(&now))
    }

    fn take(&mut self, moment: &Moment) {
        let counted = self.count();
        let began_ts = *self.began_ts.get_or_insert(moment.ts);
        let Some(spent) = self.states.take(moment) else {
            self.costs.take(1);
            return;
        };
        // What is watched for less than that in all has nothing else to be shown.
        if spent.to_ts - spent.from_ts < SHORTEST_NS && self.made > 0 {
            return;
        }
        self.made += 1;
        let counted = counted.as_ref().map_err(String::as_str);
        let mut second = Making { spent: &spent, counted, names: &self.names }.make();
        second.elapsed_s = (moment.ts - began_ts) as f64 / 1e9;
        second.cost = self.costs.take((spent.to_ts - spent.from_ts) as u64);
        second.skipped = self.skipped;
        match self.to.try_send(Message::Second(Box::new(second))) {
            Ok(()) => self.skipped = 0,
            Err(TrySendError::Full(_)) => self.skipped += 1,
            // Nobody looks any more; the session is told to end by whoever went.
            Err(TrySendError::Disconnected(_)) => {}
        }
        self.names.forget_ended();
    }
}

impl Watcher for Onlooker {
    fn streams(&self) -> &'static [Stream] {
        &[]
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    /// What cannot be counted is said with each second.
    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        let task_states = target.needed_task_states();
        self.probe = task_states.and_then(|tasks| SumProbe::attach(tasks).map_err(|error| error.to_string()));
        let _ = self.to.try_send(Message::Begun);
        Ok(())
    }

    fn step(&mut self, round: &mut Round, _: &mut RecordingWriter) {
        self.names.take(&round.events);
        if let Some(moment) = &round.moment {
            self.take(moment);
        }
    }
}
