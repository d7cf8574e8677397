//! System calls as the program sends them (`struct call_ring` in `bpf/wire.h`).

use super::skeleton::types::call_record_flags;

/// Bits of the word that holds duration and file.
const DUR_BITS: u32 = 40;
/// A duration that does not fit is sent as this.
pub const DUR_MAX_NS: u64 = (1 << DUR_BITS) - 1;
/// Words of the longest record.
const WORDS_MAX: usize = 14;

/// A call that has returned, or never will.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call {
    /// Entry, CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// From entry to return, ns; 18 minutes at most ([`DUR_MAX_NS`] stands for all that lasted longer).
    pub dur_ns: u64,
    /// Who called.
    pub task_id: u32,
    /// Number of the call.
    pub nr: u32,
    /// The arguments it takes; the other registers are 0.
    pub args: [u64; 6],
    /// What it returned; none if the task ended in it.
    pub ret: Option<i64>,
    /// The number of the name of the file that the call works on, or has made a descriptor for.
    pub path_id: Option<u32>,
    /// The file's position at entry and at return, for calls that transfer at it.
    pub position: Option<(u64, u64)>,
    /// The file is open for appending; told only if its position moved by something else than was transferred.
    pub appends: bool,
    /// Others use the same open file; told in the same case.
    pub shared: bool,
    /// Time off the CPU between entry and return, ns.
    pub off_ns: u64,
    /// Of that, from leaving the CPU until woken, ns.
    pub asleep_ns: u64,
}

/// Takes records apart.
///
/// The pieces of a ring meet anywhere in a record: what is left of it is kept until the rest comes.
#[derive(Debug, Default)]
pub struct Decoder {
    cut: Vec<u64>,
}

impl Decoder {
    /// Hands over the calls in one round of a ring: `older`, then `newer`. A round ends with a whole record.
    pub fn calls(&mut self, older: &[u64], newer: &[u64], mut sink: impl FnMut(Call)) {
        let rest = each(older, &mut sink);
        if rest.is_empty() {
            each(newer, &mut sink);
            return;
        }
        let ahead = newer.len().min(WORDS_MAX);
        self.cut.clear();
        self.cut.extend_from_slice(rest);
        self.cut.extend_from_slice(&newer[..ahead]);
        if let Some((call, words)) = decode(&self.cut) {
            sink(call);
            each(newer.get(words - rest.len()..).unwrap_or(&[]), &mut sink);
        }
    }
}

/// Hands over the whole records at the beginning of `words`; returns what is left.
fn each<'a>(mut words: &'a [u64], sink: &mut impl FnMut(Call)) -> &'a [u64] {
    while let Some((call, used)) = decode(words) {
        sink(call);
        words = &words[used..];
    }
    words
}

/// The record at the beginning of `words`, and how many it takes; none if it is cut.
#[inline]
fn decode(words: &[u64]) -> Option<(Call, usize)> {
    let [ts, head, ret, dur_path, rest @ ..] = words else { return None };
    let flags = (head >> 48) as u32;
    let has = |flag: call_record_flags| flags & flag.0 != 0;
    let count = ((head >> 44) & 0xf) as usize;
    let mut args = [0; 6];
    args.get_mut(..count)?.copy_from_slice(rest.get(..count)?);
    let mut at = count;
    let mut pair = |present: bool| -> Option<Option<(u64, u64)>> {
        if !present {
            return Some(None);
        }
        let pair = (*rest.get(at)?, *rest.get(at + 1)?);
        at += 2;
        Some(Some(pair))
    };
    let position = pair(has(call_record_flags::CALL_HAS_POSITION))?;
    let (off_ns, asleep_ns) = pair(has(call_record_flags::CALL_HAS_OFF))?.unwrap_or_default();
    let path_id = (dur_path >> DUR_BITS) as u32;
    let call = Call {
        ts: *ts,
        dur_ns: dur_path & DUR_MAX_NS,
        task_id: *head as u32,
        nr: (head >> 32) as u32 & 0xfff,
        args,
        ret: (!has(call_record_flags::CALL_NEVER_RETURNED)).then_some(*ret as i64),
        path_id: (path_id != 0).then_some(path_id),
        position,
        appends: has(call_record_flags::CALL_APPENDS),
        shared: has(call_record_flags::CALL_SHARED),
        off_ns,
        asleep_ns,
    };
    Some((call, 4 + at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with everything, one with nothing, one with a position.
    fn words() -> Vec<u64> {
        let head = |task: u64, nr: u64, args: u64, flags: u64| task | nr << 32 | args << 44 | flags << 48;
        let mut words = vec![10, head(1, 17, 4, 3), 4096, (7 << 40) + 500, 3, 0xbeef, 4096, 8192, 0, 4096, 300, 200];
        words.extend([20, head(2, 39, 0, 0), 77, 90]);
        words.extend([30, head(u64::from(u32::MAX), 231, 1, 4), 0, DUR_MAX_NS, 1]);
        words
    }

    fn decoded(older: &[u64], newer: &[u64]) -> Vec<Call> {
        let mut calls = Vec::new();
        Decoder::default().calls(older, newer, |call| calls.push(call));
        calls
    }

    #[test]
    fn records_are_the_same_wherever_the_ring_ends() {
        let words = words();
        let whole = decoded(&words, &[]);
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0].args, [3, 0xbeef, 4096, 8192, 0, 0]);
        assert_eq!((whole[0].position, whole[0].off_ns, whole[0].asleep_ns), (Some((0, 4096)), 300, 200));
        assert_eq!((whole[0].path_id, whole[0].dur_ns, whole[0].ret), (Some(7), 500, Some(4096)));
        assert_eq!((whole[1].nr, whole[1].path_id, whole[1].position, whole[1].off_ns), (39, None, None, 0));
        assert_eq!((whole[2].task_id, whole[2].ret, whole[2].dur_ns), (u32::MAX, None, DUR_MAX_NS));
        for at in 0..=words.len() {
            let (older, newer) = words.split_at(at);
            assert_eq!(decoded(older, newer), whole, "cut at {at}");
        }
    }
}
