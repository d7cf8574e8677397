//! A page shared by the supervisor and all workers, processes or threads: when to start, when to stop, how far everybody is.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use pagelab_fiojob::Direction;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;

use crate::error::LoadError;

/// How long the supervisor, and whoever waits for other workers, sleeps before looking again, in case the sender of a wake-up died.
const NAP: Duration = Duration::from_millis(20);

/// How long a worker sleeps before its gate. Workers die with the supervisor, so nobody else can keep them waiting.
const LONG_NAP: Duration = Duration::from_secs(5);

#[repr(C, align(64))]
struct Header {
    /// Not 0: everybody ends as soon as the present operation is done.
    stop: AtomicU32,
    /// The signal that asked for it; 0 if none.
    signal: AtomicI32,
    /// Counts changes of workers' states; the supervisor sleeps on it.
    changes: AtomicU32,
}

/// A request to a worker: it ends as soon as the present operation is done.
pub(crate) const END: u32 = 1;

/// A request to a worker: it reports what it has measured so far, and goes on.
pub(crate) const TELL: u32 = 2;

/// What a worker waits for at its gate. Each has a gate of its own: opening one wakes one, however many wait for later waves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Stage {
    /// It may open, map and allocate.
    Prepare = 1,
    /// It may work.
    Work = 2,
}

/// A gate that is open because its worker is to end.
const GATE_OF_THE_STOPPED: u32 = 3;

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Getting ready.
    Preparing = 0,
    /// Waiting for its wave.
    Ready = 1,
    /// At work that is not yet measured.
    Ramping = 2,
    /// At work.
    Running = 3,
    /// Done, well or not.
    Done = 4,
}

impl State {
    /// Whether it works.
    pub(crate) fn works(self) -> bool {
        matches!(self, Self::Ramping | Self::Running)
    }
}

/// A worker's progress, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Operations.
    pub operations: [u64; Direction::COUNT],
    /// Bytes.
    pub bytes: [u64; Direction::COUNT],
    /// When that was so, ns of `CLOCK_MONOTONIC`; of several workers, when the last one's was.
    pub at_ns: u64,
}

impl Progress {
    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The increase since `before`. A worker whose measured window begins starts from 0 again.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        let of = |mine: &[u64; Direction::COUNT], theirs: &[u64; Direction::COUNT]| {
            std::array::from_fn(|k| join(mine[k], theirs[k]))
        };
        Self {
            operations: of(&self.operations, &other.operations),
            bytes: of(&self.bytes, &other.bytes),
            at_ns: self.at_ns.max(other.at_ns),
        }
    }
}

#[repr(C, align(64))]
struct Slot {
    state: AtomicU32,
    /// Requests to this worker ([`END`], [`TELL`]), which it looks at once per operation. One word, so that a second kind of request
    /// costs the loops nothing.
    asked: AtomicU32,
    /// The last [`Stage`] that it may enter; 0 at first.
    gate: AtomicU32,
    /// How often the worker went from writing to verifying or back.
    phase: AtomicU32,
    /// Odd while the counts below are being changed.
    version: AtomicU32,
    at_ns: AtomicU64,
    operations: [AtomicU64; Direction::COUNT],
    bytes: [AtomicU64; Direction::COUNT],
}

/// The shared memory. All of it is atomics; zero bytes are its first state.
pub(crate) struct Shared {
    start: NonNull<Header>,
    len: usize,
    slots: usize,
}

// SAFETY: everything behind `start` is reached through shared references to atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Shared memory for `slots` workers.
    ///
    /// # Errors
    /// The kernel has no memory to give.
    pub(crate) fn new(slots: usize) -> Result<Self, LoadError> {
        let len = size_of::<Header>() + slots * size_of::<Slot>();
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED) }
                .map_err(|error| LoadError::system("allocating shared memory", error))?;
        let start = NonNull::new(start.cast::<Header>())
            .ok_or_else(|| LoadError::Protocol("shared memory at address 0".to_owned()))?;
        Ok(Self { start, len, slots })
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is larger than a Header, page-aligned, zeroed (a valid Header), and lives as long as `self`.
        unsafe { self.start.as_ref() }
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        if index >= self.slots {
            return None;
        }
        // SAFETY: slots follow the header, which is padded to a slot's alignment; `index` is below the number that the mapping was
        // sized for.
        Some(unsafe { self.start.add(1).cast::<Slot>().add(index).as_ref() })
    }

    /// The requests to one worker; 0 while there are none. It looks at them once per operation. Ending everything sets [`END`] in all.
    pub(crate) fn requests(&self, index: usize) -> &AtomicU32 {
        self.slot(index).map_or(&self.header().stop, |slot| &slot.asked)
    }

    /// Whether this worker is to end.
    pub(crate) fn worker_stopped(&self, index: usize) -> bool {
        self.requests(index).load(Ordering::Relaxed) & END != 0
    }

    /// Asks a worker to report what it has measured so far.
    pub(crate) fn ask_to_tell(&self, index: usize) {
        self.requests(index).fetch_or(TELL, Ordering::Relaxed);
    }

    /// Whether a worker was asked to report; the request is taken.
    pub(crate) fn take_request_to_tell(&self, index: usize) -> bool {
        self.requests(index).fetch_and(!TELL, Ordering::Relaxed) & TELL != 0
    }

    /// Ends one worker. Async-signal-safe: atomics and a futex call.
    pub(crate) fn stop_worker(&self, index: usize) {
        self.open_for_the_end(index);
        wake(&self.header().changes);
    }

    fn open_for_the_end(&self, index: usize) {
        self.requests(index).fetch_or(END, Ordering::Relaxed);
        // A terminal's signal reaches every worker, and each notifies all others: the first to open a gate wakes its
        // waiters.
        if let Some(slot) = self.slot(index)
            && slot.gate.swap(GATE_OF_THE_STOPPED, Ordering::Release) != GATE_OF_THE_STOPPED
        {
            wake(&slot.gate);
        }
    }

    /// Whether everybody is to end.
    pub(crate) fn stopped(&self) -> bool {
        self.header().stop.load(Ordering::Relaxed) != 0
    }

    /// Ends everything. Async-signal-safe: atomics and futex calls.
    pub(crate) fn stop(&self, signal: i32) {
        let header = self.header();
        let _ = header.signal.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        header.stop.fetch_or(END, Ordering::Relaxed);
        (0..self.slots).for_each(|index| self.open_for_the_end(index));
        wake(&header.changes);
    }

    /// The signal that ended the run, if one did.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.header().signal.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }

    /// A worker's state.
    pub(crate) fn state(&self, index: usize) -> State {
        match self.slot(index).map_or(0, |slot| slot.state.load(Ordering::Acquire)) {
            0 => State::Preparing,
            1 => State::Ready,
            2 => State::Ramping,
            3 => State::Running,
            _ => State::Done,
        }
    }

    /// Sets a worker's state and wakes the supervisor.
    pub(crate) fn set_state(&self, index: usize, state: State) {
        if let Some(slot) = self.slot(index) {
            slot.state.store(state as u32, Ordering::Release);
        }
        self.header().changes.fetch_add(1, Ordering::Release);
        wake(&self.header().changes);
    }

    /// A worker goes from writing to verifying or back; gives how often it did.
    pub(crate) fn next_phase(&self, index: usize) -> u32 {
        let phase = self.slot(index).map_or(1, |slot| slot.phase.fetch_add(1, Ordering::AcqRel) + 1);
        self.header().changes.fetch_add(1, Ordering::Release);
        wake(&self.header().changes);
        phase
    }

    /// How often a worker went from writing to verifying or back.
    pub(crate) fn phase(&self, index: usize) -> u32 {
        self.slot(index).map_or(0, |slot| slot.phase.load(Ordering::Acquire))
    }

    /// Publishes how far a worker is, for the status line.
    pub(crate) fn publish(&self, index: usize, progress: Progress) {
        if let Some(slot) = self.slot(index) {
            slot.version.fetch_add(1, Ordering::AcqRel);
            slot.at_ns.store(progress.at_ns, Ordering::Relaxed);
            for k in 0..Direction::COUNT {
                slot.operations[k].store(progress.operations[k], Ordering::Relaxed);
                slot.bytes[k].store(progress.bytes[k], Ordering::Relaxed);
            }
            slot.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The progress that a worker published last, all of one moment.
    pub(crate) fn progress(&self, index: usize) -> Progress {
        /// A worker that died while it published leaves the version odd: nobody waits for it.
        const MOST_TRIES: u32 = 1000;
        let Some(slot) = self.slot(index) else { return Progress::default() };
        let load =
            |values: &[AtomicU64; Direction::COUNT]| values.each_ref().map(|value| value.load(Ordering::Relaxed));
        let mut progress = Progress::default();
        for _ in 0..MOST_TRIES {
            let version = slot.version.load(Ordering::Acquire);
            progress = Progress {
                operations: load(&slot.operations),
                bytes: load(&slot.bytes),
                at_ns: slot.at_ns.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && slot.version.load(Ordering::Relaxed) == version {
                break;
            }
            std::hint::spin_loop();
        }
        progress
    }

    /// Lets a worker enter `stage`.
    pub(crate) fn release(&self, index: usize, stage: Stage) {
        if let Some(slot) = self.slot(index) {
            // Never closed again: neither for workers that were let through nor for those that were stopped.
            slot.gate.fetch_max(stage as u32, Ordering::Release);
            wake(&slot.gate);
        }
    }

    /// Sleeps until a worker may enter `stage`; false if it is to end before that.
    pub(crate) fn await_stage(&self, index: usize, stage: Stage) -> bool {
        let Some(slot) = self.slot(index) else { return false };
        loop {
            if self.worker_stopped(index) {
                return false;
            }
            let seen = slot.gate.load(Ordering::Acquire);
            if seen >= stage as u32 {
                return seen != GATE_OF_THE_STOPPED;
            }
            nap_on(&slot.gate, seen, LONG_NAP);
        }
    }

    /// A count that changes with every worker's state; hand it to [`Shared::await_change`].
    pub(crate) fn changes(&self) -> u32 {
        self.header().changes.load(Ordering::Acquire)
    }

    /// Sleeps until some worker's state changed since `seen`, or for a moment.
    pub(crate) fn await_change(&self, seen: u32) {
        nap_on(&self.header().changes, seen, NAP);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`; all references were borrowed from `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn wake(word: &AtomicU32) {
    // Nobody waiting is fine.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned());
}

fn nap_on(word: &AtomicU32, seen: u32, longest: Duration) {
    let nap = rustix::time::Timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(longest.subsec_nanos()),
    };
    // A changed word, a signal and the end of the nap all mean: look again.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&nap));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_open_one_by_one_and_stopping_frees_everybody() {
        let shared = Shared::new(3).expect("memory");
        std::thread::scope(|scope| {
            let stages = [(0, Stage::Prepare), (0, Stage::Work), (1, Stage::Prepare)];
            let waiters = stages.map(|(index, stage)| {
                let shared = &shared;
                scope.spawn(move || shared.await_stage(index, stage))
            });
            shared.release(0, Stage::Prepare);
            shared.release(0, Stage::Work);
            let [first, second, third] = waiters;
            assert!(first.join().expect("join") && second.join().expect("join"));
            shared.stop(2);
            assert!(!third.join().expect("join"), "it was never let in");
        });
        shared.release(1, Stage::Work);
        assert!(!shared.await_stage(1, Stage::Prepare), "who was stopped stays so");
        assert_eq!(shared.signal(), Some(2));
        assert!((0..3).all(|index| shared.worker_stopped(index)));
        shared.ask_to_tell(0);
        assert!(shared.take_request_to_tell(0) && !shared.take_request_to_tell(0) && shared.worker_stopped(0));
        shared.set_state(1, State::Running);
        shared.set_state(99, State::Done);
        assert_eq!((shared.state(0), shared.state(1)), (State::Preparing, State::Running));
        let progress = Progress { operations: [5, 6, 7], bytes: [8, 9, 10], at_ns: 11 };
        shared.publish(2, progress);
        assert_eq!(shared.progress(2), progress);
        assert_eq!(progress.plus(progress).since(progress), progress);
    }
}
