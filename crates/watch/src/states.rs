//! From moments to the time that tasks spent between them.

use std::collections::{BTreeMap, HashMap};

use pagelab_observe::moment::{Doing, Moment, TaskTime, Wait};
use pagelab_vocab::waits::{Holder, Waker};

/// A state that may last beyond a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lasting {
    Ready,
    Off(Wait),
}

/// Time in the three states, ns. Sums are read while they are added to: one may seem to fall by some microseconds, and is right
/// again a second later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub run_ns: i64,
    pub ready_ns: i64,
    pub off_ns: i64,
}

/// Time in waits of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitSpent {
    pub ns: i64,
    /// Waits that ended.
    pub times: u64,
    /// Time of those, by who ended them.
    pub ended_ns: BTreeMap<Option<Waker>, u64>,
}

/// What the tasks did between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// When that was, ns.
    pub from_ts: i64,
    pub to_ts: i64,
    pub idle_ns: u64,
    pub tasks: HashMap<u32, Times>,
    /// By kind of wait, without who ended it.
    pub waits: HashMap<Wait, WaitSpent>,
    /// Waits for a CPU that ended, by who had it.
    pub ready_ended_ns: BTreeMap<Option<Holder>, u64>,
}

impl Spent {
    fn add_lasting(&mut self, task_id: u32, lasting: Lasting, ns: i64) {
        let times = self.tasks.entry(task_id).or_default();
        match lasting {
            Lasting::Ready => times.ready_ns += ns,
            Lasting::Off(wait) => {
                times.off_ns += ns;
                self.waits.entry(wait).or_default().ns += ns;
            }
        }
    }

    fn add_ended(&mut self, one: &TaskTime) {
        let ns = one.ns as i64;
        match one.doing {
            Doing::Run => self.tasks.entry(one.task_id).or_default().run_ns += ns,
            Doing::Ready(holder) => {
                self.add_lasting(one.task_id, Lasting::Ready, ns);
                *self.ready_ended_ns.entry(holder).or_default() += one.ns;
            }
            Doing::Off(Wait { by, .. }) => {
                let Some(lasting) = lasting(one.doing) else { return };
                self.add_lasting(one.task_id, lasting, ns);
                if let Lasting::Off(wait) = lasting {
                    let spent = self.waits.entry(wait).or_default();
                    spent.times += one.times;
                    *spent.ended_ns.entry(by).or_default() += one.ns;
                }
            }
        }
    }

    /// All tasks together.
    pub(crate) fn total(&self) -> Times {
        self.tasks.values().fold(Times::default(), |sum, one| Times {
            run_ns: sum.run_ns + one.run_ns,
            ready_ns: sum.ready_ns + one.ready_ns,
            off_ns: sum.off_ns + one.off_ns,
        })
    }
}

/// What lasts; who ends it is not known before.
fn lasting(doing: Doing) -> Option<Lasting> {
    match doing {
        Doing::Run => None,
        Doing::Ready(_) => Some(Lasting::Ready),
        Doing::Off(wait) => Some(Lasting::Off(Wait { by: None, ..wait })),
    }
}

/// The states of the tasks, as far as the moment before told them.
#[derive(Debug, Default)]
pub(crate) struct States {
    open: HashMap<(u32, Lasting), u64>,
    last_ts: Option<i64>,
}

impl States {
    /// What happened since the moment before; none for the first one.
    pub(crate) fn take(&mut self, moment: &Moment) -> Option<Spent> {
        let mut open: HashMap<(u32, Lasting), u64> = HashMap::with_capacity(moment.open.len());
        for one in &moment.open {
            if let Some(lasting) = lasting(one.doing) {
                *open.entry((one.task_id, lasting)).or_default() += one.ns;
            }
        }
        let before = std::mem::replace(&mut self.open, open);
        let from_ts = self.last_ts.replace(moment.ts)?;
        let mut spent = Spent { from_ts, to_ts: moment.ts, idle_ns: moment.idle_ns, ..Spent::default() };
        moment.ended.iter().for_each(|one| spent.add_ended(one));
        for ((task_id, lasting), ns) in &self.open {
            spent.add_lasting(*task_id, *lasting, *ns as i64);
        }
        for ((task_id, lasting), ns) in before {
            spent.add_lasting(task_id, lasting, -(ns as i64));
        }
        Some(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn wait(call: &'static str, by: Option<Waker>) -> Doing {
        Doing::Off(Wait { off_state: "S", iowait: false, call: Some(call), by })
    }

    fn time(doing: Doing, times: u64, ns: u64) -> TaskTime {
        TaskTime { task_id: 1, doing, times, ns }
    }

    fn moment(seconds: u64, ended: Vec<TaskTime>, open: Vec<TaskTime>) -> Moment {
        Moment { ts: (seconds * SECOND) as i64, ended, open, idle_ns: 0 }
    }

    #[test]
    fn a_wait_of_three_seconds_is_a_second_in_each() {
        let mut states = States::default();
        let nanosleep = |by| wait("nanosleep", by);
        assert_eq!(states.take(&moment(0, vec![], vec![time(nanosleep(None), 0, SECOND / 2)])), None);
        for seconds in 1..3 {
            let open = vec![time(nanosleep(None), 0, SECOND / 2 + seconds * SECOND)];
            let spent = states.take(&moment(seconds, vec![], open)).expect("a second");
            assert_eq!(spent.total(), Times { off_ns: SECOND as i64, ..Times::default() });
        }
        // It ended in the middle of the third, and the task runs since.
        let ended = vec![time(nanosleep(Some(Waker::Timer)), 1, 3 * SECOND), time(Doing::Run, 0, SECOND / 2)];
        let spent = states.take(&moment(3, ended, vec![])).expect("a second");
        let half = (SECOND / 2) as i64;
        assert_eq!(spent.total(), Times { run_ns: half, off_ns: half, ready_ns: 0 });
        let (kind, of) = spent.waits.iter().next().expect("one kind of wait");
        assert_eq!((kind.by, of.ns, of.times), (None, half, 1));
        assert_eq!(of.ended_ns, BTreeMap::from([(Some(Waker::Timer), 3 * SECOND)]));
    }

    #[test]
    fn who_had_the_cpu_is_told_by_what_ended() {
        let mut states = States::default();
        states.take(&moment(0, vec![], vec![]));
        let open = vec![time(Doing::Ready(None), 0, 300)];
        states.take(&moment(1, vec![], open));
        let ended = vec![time(Doing::Ready(Some(Holder::Foreign)), 1, 1000)];
        let spent = states.take(&moment(2, ended, vec![])).expect("a second");
        assert_eq!(spent.total().ready_ns, 700, "300 belong to the second before");
        assert_eq!(spent.ready_ended_ns, BTreeMap::from([(Some(Holder::Foreign), 1000)]));
    }
}
