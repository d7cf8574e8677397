//! The stream `waits` in the loop of a recording.

use std::collections::HashMap;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::WaitsRow;
use pagelab_vocab::waits::{Holder, State, Waker};
use serde_json::json;

use super::key::WaitKey;
use super::open::{Opens, task_time};
use super::tally::{Kind, Sum, Tally};
use super::types::wait_sums_flag;
use super::{NEEDED, Record, WaitProbe, check};
use crate::bpf::refused_io;
use crate::moment::Moment;
use crate::streams::Stream;
use crate::syscalls::{CallFilter, Shapes};
use crate::watcher::{AttachTo, Closing, Count, ProbeOptions, Round, WaitStack, Watcher, monotonic_ns};

/// The streams that it fills.
pub(crate) const STREAMS: &[Stream] = &[Stream::Waits];

/// Sums are looked at as often as the accounts of the stream `counters`.
const INTERVAL_NS: i64 = 1_000_000_000;

/// Task, kind of wait and stack.
type StackKey = (u32, WaitKey, Vec<u64>);

struct WaitWatcher {
    calls: Shapes,
    probe: Option<WaitProbe>,
    tally: Tally,
    /// Where somebody looks on.
    opens: Option<Opens>,
    sums: Vec<Sum>,
    stacks: HashMap<StackKey, (u64, u64)>,
    idle_told_ns: u64,
    /// What the kernel counted as run of all tasks.
    kernel_run_ns: u64,
    next_ns: i64,
    /// When the last walk began: some 100 ms before the programs were detached.
    last_walk_ns: Option<i64>,
    /// The programs were detached, and when.
    stopped_ns: Option<i64>,
    /// And what they had sent by then has been written.
    is_written: bool,
    error: Option<String>,
}

/// Finds out whether it can be had.
///
/// # Errors
/// The reason in words.
pub(crate) fn open_watcher(_: &ProbeOptions) -> Result<Box<dyn Watcher>, String> {
    check()?;
    Ok(Box::new(WaitWatcher {
        calls: Shapes::of(&CallFilter::default()),
        probe: None,
        tally: Tally::default(),
        opens: None,
        sums: Vec::new(),
        stacks: HashMap::new(),
        idle_told_ns: 0,
        kernel_run_ns: 0,
        next_ns: i64::MIN,
        stopped_ns: None,
        last_walk_ns: None,
        is_written: false,
        error: None,
    }))
}

impl WaitWatcher {
    /// Takes what the programs have sent. `ts` is the end of the interval of sums that a walk has sent.
    fn drain(&mut self, ts: i64) {
        let Self { probe, tally, opens, sums, stacks, .. } = self;
        let Some(probe) = probe else { return };
        let mut push = |sum| sums.push(sum);
        probe.drain(|record| match record {
            Record::Sums(sums) => {
                let has = |flag: wait_sums_flag| sums.flags & flag.0 != 0;
                let until = if has(wait_sums_flag::WAIT_DEAD) { sums.ts } else { ts as u64 };
                if let Some(opens) = opens {
                    opens.take(&sums);
                }
                tally.sums(&sums, until, has(wait_sums_flag::WAIT_LAST), &mut push);
            }
            Record::Slot(slot) => tally.slot(&slot, &mut push),
            Record::Stack(stack) => {
                let frames = (stack.frames as usize).min(stack.addrs.len());
                let key = (stack.task_id, WaitKey(stack.key), stack.addrs[..frames].to_vec());
                let (samples, weight_ns) = stacks.entry(key).or_default();
                *samples += 1;
                *weight_ns += stack.weight_ns;
            }
        });
    }

    /// Ends an interval: what there is of it becomes rows.
    fn write(&mut self, ts: i64, round: &mut Round, writer: &mut RecordingWriter) {
        let idle_ns = self.probe.as_ref().map_or(0, |probe| probe.idle_ns(ts as u64));
        let ns = idle_ns.saturating_sub(self.idle_told_ns);
        self.idle_told_ns += ns;
        round.moment = self.opens.as_ref().map(|opens| Moment {
            ts: self.last_walk_ns.unwrap_or(ts),
            ended: self.sums.iter().filter_map(|sum| task_time(sum, &self.calls)).collect(),
            open: opens.at(ts as u64, &self.calls),
            idle_ns: ns,
        });
        for sum in self.sums.drain(..) {
            if sum.kind == Kind::State(State::KernelRun) {
                self.kernel_run_ns += sum.ns;
            }
            push_sum(&sum, &self.calls, writer);
        }
        writer.push(&WaitsRow { ts, state: State::Idle.word(), ns, ..WaitsRow::default() });
        let calls = &self.calls;
        round.wait_stacks.extend(self.stacks.drain().map(|((task_id, key, addrs), (samples, weight_ns))| WaitStack {
            ts,
            task_id,
            off_state: key.state(),
            iowait: key.is_io(),
            call: key.call(calls),
            by: key.waker().map(Waker::word),
            addrs,
            samples,
            weight_ns,
        }));
    }
}

fn push_sum(sum: &Sum, calls: &Shapes, writer: &mut RecordingWriter) {
    let row =
        WaitsRow { ts: sum.ts as i64, task_id: Some(sum.task_id), times: sum.times, ns: sum.ns, ..WaitsRow::default() };
    writer.push(&match sum.kind {
        Kind::State(state) => WaitsRow { state: state.word(), ..row },
        Kind::Ready(holder) => WaitsRow { state: State::Ready.word(), by: holder.map(Holder::word), ..row },
        Kind::Off(key) => WaitsRow {
            state: State::Off.word(),
            off_state: Some(key.state()),
            iowait: Some(key.is_io()),
            call: key.call(calls),
            by: key.waker().map(Waker::word),
            ..row
        },
    });
}

impl Watcher for WaitWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        let task_states = target.needed_task_states()?;
        let mut probe = WaitProbe::attach(task_states).map_err(|error| error.to_string())?;
        // Tasks that run already begin here.
        probe.walk().map_err(|error| refused_io("walking over the tasks", NEEDED)(error).to_string())?;
        self.probe = Some(probe);
        Ok(())
    }

    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        let ts = self.stopped_ns.unwrap_or(round.now_ns);
        if round.is_watched && self.opens.is_none() {
            self.opens = Some(Opens::default());
        }
        let is_due = if self.stopped_ns.is_some() { !self.is_written } else { ts >= self.next_ns };
        if is_due
            && self.stopped_ns.is_none()
            && let Some(probe) = &mut self.probe
            && let Err(error) = probe.walk()
        {
            self.error = Some(error.to_string());
        }
        self.drain(ts);
        if let Some(probe) = &mut self.probe {
            probe.adapt(ts as u64);
        }
        if is_due && self.probe.is_some() {
            self.next_ns = ts + INTERVAL_NS;
            self.is_written = self.stopped_ns.is_some();
            self.write(ts, round, writer);
        }
    }

    fn count(&self, counts: &mut Vec<Count>) {
        let Some(probe) = &self.probe else { return };
        let told = probe.counts();
        let lost = told.stacks_lost + told.sums_lost;
        counts.push(Count { stream: Stream::Waits.name(), cpu: None, seen: told.seen, lost, filtered: 0 });
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        if self.stopped_ns.is_some() {
            return;
        }
        let Some(probe) = &mut self.probe else { return };
        self.last_walk_ns = Some(monotonic_ns());
        if let Err(error) = probe.finish() {
            self.error = Some(error.to_string());
        }
        self.stopped_ns = Some(monotonic_ns());
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        let Some(probe) = &self.probe else { return };
        let told = probe.counts();
        closing.note("stacks_lost", told.stacks_lost);
        closing.note("sums_lost", told.sums_lost);
        closing.note("kernel_run_ns", self.kernel_run_ns);
        if let Some(error) = &self.error {
            closing.note("error", json!(error));
        }
    }
}
