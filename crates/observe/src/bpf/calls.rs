//! System calls as the program sends them (`struct call_ring` in `bpf/wire.h`).

use super::rings::Pending;
use super::skeleton::types::call_record_flags;

/// Words of the longest record.
const WORDS_MAX: usize = 16;

/// A call that has returned, or never will, as the program sent it; its flags say which fields are missing. Millions of
/// these are read per second, so no field is decoded before it is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call {
    /// Entry, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// From entry to return, ns.
    pub dur_ns: u64,
    /// The arguments it takes; the other registers are 0.
    pub args: [u64; 6],
    /// Time off the CPU between entry and return, ns.
    pub off_ns: u64,
    /// Of that, from leaving the CPU until woken, ns.
    pub asleep_ns: u64,
    /// Who called.
    pub task_id: u32,
    /// Number of the call; those of 32-bit programs follow those of 64-bit ones (`pagelab_vocab::syscalls::i386`), and
    /// [`OTHER`](crate::syscalls::OTHER) stands for all others.
    pub nr: u32,
    /// The kernel's own number of a call that has none here.
    pub number: u32,
    ret: i64,
    position: u64,
    position_after: u64,
    requested: u64,
    path_id: u64,
    flags: u32,
}

impl Call {
    /// A call of which only its entry and its end are known: how long it took and what it returned; none if it never did.
    pub(crate) fn from_tracepoints(task_id: u32, nr: u32, ts: u64, args: [u64; 6], end: Option<(u64, i64)>) -> Self {
        let flags = if end.is_some() { 0 } else { call_record_flags::CALL_NEVER_RETURNED.0 };
        let (dur_ns, ret) = end.unwrap_or_default();
        Self { ts, dur_ns, args, task_id, nr, ret, flags, ..Self::default() }
    }

    /// A call of which only its end is known: the kernel left it out. `ret` is none if its task ends of it.
    pub(crate) fn refused(task_id: u32, nr: u32, ts: u64, ret: Option<i64>) -> Self {
        let ended = if ret.is_some() { 0 } else { call_record_flags::CALL_NEVER_RETURNED.0 };
        let flags = call_record_flags::CALL_REFUSED.0 | ended;
        Self { ts, task_id, nr, ret: ret.unwrap_or_default(), flags, ..Self::default() }
    }

    #[inline]
    fn has(&self, flag: call_record_flags) -> bool {
        self.flags & flag.0 != 0
    }

    /// 0 if it is the same call with the same flags; its arguments and its results may differ.
    #[inline]
    pub fn differs_from(&self, other: &Self) -> u32 {
        (self.nr ^ other.nr) | (self.flags ^ other.flags)
    }

    /// What it returned; none if the task ended in it.
    #[inline]
    pub fn ret(&self) -> Option<i64> {
        (!self.has(call_record_flags::CALL_NEVER_RETURNED)).then_some(self.ret)
    }

    /// From entry to return, ns; none if it never returned, or was refused.
    #[inline]
    pub fn dur(&self) -> Option<u64> {
        let unknown = call_record_flags::CALL_NEVER_RETURNED.0 | call_record_flags::CALL_REFUSED.0;
        (self.flags & unknown == 0).then_some(self.dur_ns)
    }

    /// The kernel left it out, because a filter (seccomp) or a tracer wanted that. When it began is not known.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.has(call_record_flags::CALL_REFUSED)
    }

    /// The number of the name of the file that the call works on, or has made a descriptor for.
    #[inline]
    pub fn path_id(&self) -> Option<u64> {
        self.has(call_record_flags::CALL_HAS_FILE).then_some(self.path_id)
    }

    /// The file's position at entry and at return, for calls that transfer at it.
    #[inline]
    pub fn position(&self) -> Option<(u64, u64)> {
        self.has(call_record_flags::CALL_HAS_POSITION).then_some((self.position, self.position_after))
    }

    /// The bytes that its array of buffers holds, for calls that take one, if it could be read.
    #[inline]
    pub fn requested(&self) -> Option<u64> {
        self.has(call_record_flags::CALL_HAS_REQUESTED).then_some(self.requested)
    }

    /// The file is open for appending; known only if its position moved by another amount than was transferred.
    pub fn appends(&self) -> bool {
        self.has(call_record_flags::CALL_APPENDS)
    }

    /// Others use the same open file; known in the same case.
    pub fn is_shared(&self) -> bool {
        self.has(call_record_flags::CALL_SHARED)
    }
}

/// `nr` of a record that is no call but a time off the CPU.
const NR_OFF_CPU: u32 = 0xfff;
/// Beside the state of a time off the CPU: the kernel counted it as waiting for I/O.
const OFF_IOWAIT: u32 = 0x8000_0000;

/// A time off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffCpu {
    /// When the task left the CPU, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Until it ran again, ns; none if it had not when recording ended.
    pub dur_ns: Option<u64>,
    /// Who it was.
    pub task_id: u32,
    /// The kernel's state of the task when it left; 0 if it was preempted.
    pub state: u32,
    /// The kernel counted it as waiting for I/O.
    pub iowait: bool,
    /// The recorded task that ran where it was woken.
    pub waker_task_id: Option<u32>,
    /// How long it waited for a CPU after it was woken, ns; so far, if it still does.
    pub runqueue_ns: u64,
}

impl Call {
    /// The time off the CPU that this record is, if it is no call.
    #[inline]
    pub fn off_cpu(&self) -> Option<OffCpu> {
        (self.nr == NR_OFF_CPU).then(|| OffCpu {
            ts: self.ts,
            dur_ns: (!self.has(call_record_flags::CALL_NEVER_RETURNED)).then_some(self.dur_ns),
            task_id: self.task_id,
            state: self.ret as u32 & !OFF_IOWAIT,
            iowait: self.ret as u32 & OFF_IOWAIT != 0,
            waker_task_id: (self.args[0] != 0).then_some(self.args[0] as u32),
            runqueue_ns: self.args[1],
        })
    }
}

impl OffCpu {
    /// The state as `ps` shows it. `R`: it was preempted, or gave the CPU up, and could have gone on.
    pub fn state_letter(&self) -> &'static str {
        Self::letter_of(self.state)
    }

    /// The letter of a state as the kernel keeps it.
    pub(crate) fn letter_of(state: u32) -> &'static str {
        // TASK_* of the kernel's <linux/sched.h>.
        const NOLOAD: u32 = 0x400;
        const LETTERS: [(u32, &str); 7] =
            [(1, "S"), (2, "D"), (4, "T"), (8, "t"), (0x10, "X"), (0x20, "Z"), (0x40, "P")];
        if state & 0x7f == 2 && state & NOLOAD != 0 {
            return "I";
        }
        LETTERS.iter().find(|(bit, _)| state & bit != 0).map_or("R", |(_, letter)| letter)
    }
}

/// Hands over the calls in all rings in the order in which they returned. Each ring is in that order by itself.
pub(super) fn merge(rings: &[Pending<'_, u64>], mut sink: impl FnMut(&Call)) {
    let mut cursors: Vec<Cursor<'_>> = rings.iter().filter_map(Cursor::new).collect();
    // Few CPUs are busy with calls at the same time: looking at all is cheaper than keeping them sorted.
    while let Some((next, until)) = earliest(&cursors) {
        // One ring's calls up to the next of another.
        let cursor = &mut cursors[next];
        let mut is_at_end = false;
        while !is_at_end && cursor.returned <= until {
            is_at_end = !cursor.take(&mut sink);
        }
        if is_at_end {
            cursors.swap_remove(next);
        }
    }
}

/// The ring whose next call returned first, and when the first call of the others did.
fn earliest(cursors: &[Cursor<'_>]) -> Option<(usize, u64)> {
    let (mut first, mut second) = (None, u64::MAX);
    for (i, cursor) in cursors.iter().enumerate() {
        match first {
            Some((_, returned)) if returned <= cursor.returned => second = second.min(cursor.returned),
            _ => {
                second = first.map_or(second, |(_, returned)| returned);
                first = Some((i, cursor.returned));
            }
        }
    }
    first.map(|(i, _)| (i, second))
}

/// Where a ring is read.
struct Cursor<'a> {
    words: &'a [u64],
    newer: &'a [u64],
    /// When the next call returned.
    returned: u64,
}

impl<'a> Cursor<'a> {
    /// None for an empty ring.
    fn new(ring: &Pending<'a, u64>) -> Option<Self> {
        let mut cursor = Self { words: ring.older, newer: ring.newer, returned: 0 };
        cursor.look().then_some(cursor)
    }

    /// Notes when the next call returned; false at the end.
    #[inline]
    fn look(&mut self) -> bool {
        if let [ts, _, _, dur_ns, ..] = self.words {
            self.returned = ts.saturating_add(*dur_ns);
            return true;
        }
        self.look_beyond()
    }

    /// The next call lies on both sides of the ring's end, or behind it.
    #[cold]
    fn look_beyond(&mut self) -> bool {
        let mut words = self.words.iter().chain(self.newer);
        let (Some(ts), Some(dur_ns)) = (words.next(), words.nth(2)) else { return false };
        self.returned = ts.saturating_add(*dur_ns);
        true
    }

    /// Hands over one call; false if it was the last.
    #[inline]
    fn take(&mut self, sink: &mut impl FnMut(&Call)) -> bool {
        match decode(self.words) {
            Some((call, used)) => {
                self.words = &self.words[used..];
                sink(&call);
            }
            None if self.across_the_end(sink) => {}
            None => return false,
        }
        self.look()
    }

    /// Hands over the record that lies on both sides of the ring's end; false if there is none.
    #[cold]
    fn across_the_end(&mut self, sink: &mut impl FnMut(&Call)) -> bool {
        let (rest, newer) = (self.words, std::mem::take(&mut self.newer));
        let cut: Vec<u64> = rest.iter().chain(newer.iter().take(WORDS_MAX)).copied().collect();
        let Some((call, used)) = decode(&cut) else { return false };
        self.words = newer.get(used - rest.len()..).unwrap_or(&[]);
        sink(&call);
        true
    }
}

/// The record at the beginning of `words`, and how many it takes; none if it is cut.
#[inline]
fn decode(words: &[u64]) -> Option<(Call, usize)> {
    let [ts, head, ret, dur_ns, rest @ ..] = words else { return None };
    let flags = (head >> 48) as u32;
    let has = |flag: call_record_flags| flags & flag.0 != 0;
    let count = ((head >> 44) & 0xf) as usize;
    let mut args = [0; 6];
    for (arg, word) in args.get_mut(..count)?.iter_mut().zip(rest.get(..count)?) {
        *arg = *word;
    }
    let mut more = rest[count..].iter();
    let mut next_if = |present: bool| if present { more.next().copied() } else { Some(0) };
    let number = next_if(has(call_record_flags::CALL_HAS_NUMBER))? as u32;
    let path_id = next_if(has(call_record_flags::CALL_HAS_FILE))?;
    let position = next_if(has(call_record_flags::CALL_HAS_POSITION))?;
    let after = next_if(has(call_record_flags::CALL_HAS_AFTER))?;
    let (off_ns, asleep_ns) =
        (next_if(has(call_record_flags::CALL_HAS_OFF))?, next_if(has(call_record_flags::CALL_HAS_OFF))?);
    let requested = next_if(has(call_record_flags::CALL_HAS_REQUESTED))?;
    let ret = *ret as i64;
    let call = Call {
        ts: *ts,
        dur_ns: *dur_ns,
        args,
        off_ns,
        asleep_ns,
        task_id: *head as u32,
        nr: (head >> 32) as u32 & 0xfff,
        number,
        ret,
        position,
        // It moved by what was transferred: nothing, if that failed.
        position_after: if has(call_record_flags::CALL_HAS_AFTER) {
            after
        } else {
            position.wrapping_add(ret.max(0) as u64)
        },
        requested,
        path_id,
        flags,
    };
    Some((call, words.len() - more.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with everything, one whose position moved by itself, one with nothing, one that never returned, one that was refused.
    fn words() -> Vec<u64> {
        let head = |task: u64, nr: u64, args: u64, flags: u64| task | nr << 32 | args << 44 | flags << 48;
        let mut words = vec![
            10,
            head(1, 17, 4, 3 | 64 | 128),
            4096,
            500,
            3,
            0xbeef,
            4096,
            8192,
            (1 << 32) + 7,
            512,
            300,
            200,
            6000,
        ];
        words.extend([15, head(1, 0, 1, 1 | 8 | 32), -4_i64 as u64, 7, 3, 512, 4096]);
        words.extend([20, head(2, 39, 0, 0), 77, 90]);
        words.extend([30, head(u64::from(u32::MAX), 231, 1, 4), 0, 1 << 50, 1]);
        words.extend([40, head(3, 1024, 1, 256 | 512), -38_i64 as u64, 0, 5, 470]);
        words
    }

    fn decoded(rings: &[(&[u64], &[u64])]) -> Vec<Call> {
        let pending: Vec<_> = rings.iter().map(|(older, newer)| Pending { older, newer, produced: 0 }).collect();
        let mut calls = Vec::new();
        merge(&pending, |call| calls.push(*call));
        calls
    }

    #[test]
    fn records_are_the_same_wherever_the_ring_ends() {
        let words = words();
        let whole = decoded(&[(&words, &[])]);
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[0].args, [3, 0xbeef, 4096, 8192, 0, 0]);
        assert_eq!((whole[0].position(), whole[0].off_ns, whole[0].asleep_ns), (Some((512, 4608)), 300, 200));
        assert_eq!((whole[0].path_id(), whole[0].dur_ns, whole[0].ret()), (Some((1 << 32) + 7), 500, Some(4096)));
        assert_eq!((whole[0].requested(), whole[1].requested()), (Some(6000), None));
        assert_eq!((whole[1].position(), whole[1].appends(), whole[1].is_shared()), (Some((512, 4096)), true, false));
        assert_eq!((whole[2].nr, whole[2].path_id(), whole[2].position(), whole[2].off_ns), (39, None, None, 0));
        assert_eq!((whole[3].task_id, whole[3].ret(), whole[3].dur_ns), (u32::MAX, None, 1 << 50));
        assert_eq!((whole[4].number, whole[4].ret(), whole[4].dur()), (470, Some(-38), None));
        assert!(whole[4].is_refused() && !whole[0].is_refused() && whole[3].dur().is_none());
        for at in 0..=words.len() {
            let (older, newer) = words.split_at(at);
            assert_eq!(decoded(&[(older, newer)]), whole, "cut at {at}");
        }
    }

    #[test]
    fn rings_are_merged_by_the_time_of_return() {
        let ring = |times: &[u64]| -> Vec<u64> { times.iter().flat_map(|ts| [*ts, 1, 0, 5]).collect() };
        let rings = [ring(&[1, 2, 10, 11]), ring(&[]), ring(&[3, 4, 20]), ring(&[0, 11, 12])];
        let pending: Vec<(&[u64], &[u64])> = rings.iter().map(|ring| (ring.as_slice(), [].as_slice())).collect();
        let times: Vec<u64> = decoded(&pending).iter().map(|call| call.ts).collect();
        assert_eq!(times, [0, 1, 2, 3, 4, 10, 11, 11, 12, 20]);
    }
}
