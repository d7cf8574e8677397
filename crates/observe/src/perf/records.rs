//! The records in a ring of perf, as `perf_event_open(2)` lays them out for the events that this module opens.
//!
//! They are taken apart here and not by the crate perf-event-data, which reads any record of any event into one structure of 376
//! bytes: 0.5 us for a fault or a system call, where the few fields wanted take 2 ns.
//!
//! Every record but a sample ends with task and time (`sample_id_all` with TID and TIME), so the time of each is known.

use super::calls::{Entry, Purpose, Return};
use super::tracepoints::Tracepoint;

/// `PERF_RECORD_*`.
const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_COMM_EXEC`: the name came with a new program.
const MISC_COMM_EXEC: u16 = 1 << 13;
/// `PERF_CONTEXT_*`: marks in a chain of addresses, not addresses.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
const CONTEXT_MAX: u64 = -4095_i64 as u64;
/// Bytes of pid, tid and time behind every record but a sample.
const TRAILER_BYTES: usize = 16;

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A page fault.
    Fault { ip: u64, addr: u64 },
    /// A tick of the profile.
    Tick(Box<Tick>),
    /// The task was forked by `parent_pid`/`parent_tid`.
    Fork { parent_tid: u32, parent_pid: u32 },
    /// It ended.
    Exit,
    /// It has another name; `exec` says that it runs another program.
    Comm { comm: Vec<u8>, exec: bool },
    /// A memory area is there, new or changed.
    Mmap(Box<Mmap>),
    /// A system call begins.
    Enter(Entry),
    /// It returns.
    Return(Return),
    /// From here on records of system calls are missing, of no task in particular.
    GapBegins(Purpose),
    /// All records since were reported.
    GapEnds(Purpose),
}

/// Something that happened to a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Process and thread, in the recorder's pid namespace.
    pub pid: u32,
    pub tid: u32,
    pub what: What,
}

/// One sample of the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tick {
    pub cpu: u32,
    pub period: u64,
    /// 8 bytes a frame, innermost first.
    pub kernel: Vec<u8>,
    pub user: Vec<u8>,
    /// Instruction, stack and frame pointer of user space; 0 where there is none.
    pub regs: [u64; 3],
    /// The stack of user space from the stack pointer on.
    pub copy: Vec<u8>,
}

/// A memory area as the kernel has it after the action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mmap {
    pub start: u64,
    pub len: u64,
    pub offset: u64,
    /// As `st_dev`.
    pub dev: u64,
    pub ino: u64,
    pub generation: u32,
    pub prot: u32,
    pub flags: u32,
    /// A path, or a name such as `[heap]` and `//anon`.
    pub name: Vec<u8>,
}

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Item(Item),
    /// Records that found no room.
    Lost(u64),
    /// Nothing that matters here.
    Other,
}

/// The offsets of the two tracepoints' fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallLayout {
    pub purpose: Purpose,
    enter: Place,
    exit: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    id: u16,
    nr_at: usize,
    words_at: usize,
}

impl CallLayout {
    pub(super) fn of(purpose: Purpose, enter: &Tracepoint, exit: &Tracepoint) -> Self {
        let place = |one: &Tracepoint| Place { id: one.id, nr_at: one.nr_at, words_at: one.words_at };
        Self { purpose, enter: place(enter), exit: place(exit) }
    }
}

/// Which fields a sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// TID, TIME, RAW.
    Call { cpu: u32, at: CallLayout },
    /// IP, TID, TIME, ADDR.
    Fault,
    /// IP, TID, TIME, PERIOD, CALLCHAIN; with `stack` also REGS_USER (bp, sp, ip) and STACK_USER.
    Tick { cpu: u32, stack: bool },
}

/// Takes integers off the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// Reads the body of a record, the header left out; none if it is shorter than its kind.
pub(super) fn read(kind: u32, misc: u16, body: &[u8], layout: Layout) -> Option<Record> {
    if kind == RECORD_SAMPLE {
        return sample(body, layout).map(Record::Item);
    }
    let (fields, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER_BYTES)?)?;
    let (mut at, mut end) = (Cursor(fields), Cursor(trailer));
    end.bytes(8)?;
    let ts = end.u64()?;
    let (pid, tid, what) = match kind {
        RECORD_LOST => {
            at.u64()?;
            return at.u64().map(Record::Lost);
        }
        RECORD_FORK => {
            let (pid, parent_pid, tid, parent_tid) = (at.u32()?, at.u32()?, at.u32()?, at.u32()?);
            (pid, tid, What::Fork { parent_tid, parent_pid })
        }
        RECORD_EXIT => {
            let (pid, _, tid) = (at.u32()?, at.u32()?, at.u32()?);
            (pid, tid, What::Exit)
        }
        RECORD_COMM => {
            let (pid, tid) = (at.u32()?, at.u32()?);
            (pid, tid, What::Comm { comm: text(at.0), exec: misc & MISC_COMM_EXEC != 0 })
        }
        RECORD_MMAP2 => {
            let (pid, tid) = (at.u32()?, at.u32()?);
            (pid, tid, What::Mmap(Box::new(mmap(&mut at)?)))
        }
        _ => return Some(Record::Other),
    };
    Some(Record::Item(Item { ts, pid, tid, what }))
}

fn mmap(at: &mut Cursor<'_>) -> Option<Mmap> {
    let (start, len, offset) = (at.u64()?, at.u64()?, at.u64()?);
    let (major, minor, ino, generation) = (at.u32()?, at.u32()?, at.u64()?, at.u64()? as u32);
    let (prot, flags) = (at.u32()?, at.u32()?);
    let dev = libc::makedev(major, minor);
    Some(Mmap { start, len, offset, dev, ino, generation, prot, flags, name: text(at.0) })
}

fn sample(body: &[u8], layout: Layout) -> Option<Item> {
    let mut at = Cursor(body);
    if let Layout::Call { cpu, at: places } = layout {
        let (pid, tid, ts) = (at.u32()?, at.u32()?, at.u64()?);
        return Some(Item { ts, pid, tid, what: call(&mut at, cpu, places)? });
    }
    let (ip, pid, tid, ts) = (at.u64()?, at.u32()?, at.u32()?, at.u64()?);
    let what = match layout {
        Layout::Fault => What::Fault { ip, addr: at.u64()? },
        Layout::Tick { cpu, stack } => What::Tick(Box::new(tick(&mut at, cpu, stack)?)),
        Layout::Call { .. } => return None,
    };
    Some(Item { ts, pid, tid, what })
}

/// What a tracepoint has written; its number comes first.
fn call(at: &mut Cursor<'_>, cpu: u32, places: CallLayout) -> Option<What> {
    let (len, purpose) = (at.u32()? as usize, places.purpose);
    let raw = at.bytes(len)?;
    let word = |at: usize| Cursor(raw.get(at..)?).u64();
    let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
    if id == places.exit.id {
        let Place { nr_at, words_at, .. } = places.exit;
        let (nr, ret) = (word(nr_at)? as i64, word(words_at)? as i64);
        return Some(What::Return(Return { purpose, cpu, nr, ret, args: arguments(at) }));
    }
    let Place { id: enter, nr_at, words_at } = places.enter;
    let (mut args, mut from) = ([0; 6], Cursor(raw.get(words_at..)?));
    for arg in &mut args {
        *arg = from.u64()?;
    }
    (id == enter).then_some(What::Enter(Entry { purpose, cpu, nr: word(nr_at)? as i64, args }))
}

/// The arguments of a call out of the registers that its return was sampled with (`rings::CALL_REGS`); none if they are missing.
fn arguments(at: &mut Cursor<'_>) -> Option<[u64; 6]> {
    if at.u64()? == 0 {
        return None;
    }
    let mut next = || at.u64();
    let (third, second, first, fifth, sixth, fourth) = (next()?, next()?, next()?, next()?, next()?, next()?);
    Some([first, second, third, fourth, fifth, sixth])
}

fn tick(at: &mut Cursor<'_>, cpu: u32, stack: bool) -> Option<Tick> {
    let mut tick = Tick { cpu, period: at.u64()?, ..Tick::default() };
    let frames = at.u64()? as usize;
    let mut into = None;
    for _ in 0..frames {
        match at.u64()? {
            CONTEXT_KERNEL => into = Some(true),
            CONTEXT_USER => into = Some(false),
            mark if mark >= CONTEXT_MAX => into = None,
            addr => match into {
                Some(true) => tick.kernel.extend(addr.to_le_bytes()),
                Some(false) => tick.user.extend(addr.to_le_bytes()),
                None => {}
            },
        }
    }
    if !stack {
        return Some(tick);
    }
    // The registers are there unless the task has no user space (PERF_SAMPLE_REGS_ABI_NONE).
    if at.u64()? != 0 {
        let (bp, sp, ip) = (at.u64()?, at.u64()?, at.u64()?);
        tick.regs = [ip, sp, bp];
    }
    let room = at.u64()? as usize;
    if room > 0 {
        let copied = at.bytes(room)?;
        let used = (at.u64()? as usize).min(room);
        tick.copy = copied.get(..used)?.to_vec();
    }
    Some(tick)
}

/// Text up to the first NUL.
fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_fault_has_its_address_and_a_short_record_is_refused() {
        let body = words(&[0x1000, 7 | 8 << 32, 99, 0x2000]);
        let fault = Item { ts: 99, pid: 7, tid: 8, what: What::Fault { ip: 0x1000, addr: 0x2000 } };
        assert_eq!(read(RECORD_SAMPLE, 0, &body, Layout::Fault), Some(Record::Item(fault)));
        assert_eq!(read(RECORD_SAMPLE, 0, &body[..31], Layout::Fault), None);
        assert_eq!(read(RECORD_LOST, 0, &[0; 8], Layout::Fault), None);
    }

    #[test]
    fn a_call_is_read_from_where_the_tracepoints_have_it() {
        let point = |id, nr_at, words_at| Tracepoint { id, nr_at, words_at, filter: None };
        let at = CallLayout::of(Purpose::Maps, &point(443, 8, 16), &point(442, 16, 24));
        let of = |raw: &[u64]| {
            let mut body = words(&[7 | 8 << 32, 99]);
            // The length of four bytes takes the words off their place; padding follows.
            body.extend((raw.len() as u32 * 8).to_ne_bytes());
            body.extend(words(raw));
            body.extend([0; 4]);
            sample(&body, Layout::Call { cpu: 1, at })
        };
        let purpose = Purpose::Maps;
        let entry = Entry { purpose, cpu: 1, nr: 17, args: [3, 4, 5, 6, 7, 8] };
        let item = |what| Some(Item { ts: 99, pid: 7, tid: 8, what });
        assert_eq!(of(&[443, 17, 3, 4, 5, 6, 7, 8]), item(What::Enter(entry)));
        assert_eq!(
            of(&[442, 0, 17, -4_i64 as u64]),
            item(What::Return(Return { purpose, cpu: 1, nr: 17, ret: -4, args: None }))
        );
        assert_eq!(of(&[443, 17, 3]), None);
        assert_eq!(of(&[1, 17, 3, 4, 5, 6, 7, 8]), None, "another tracepoint");
    }

    #[test]
    fn a_chain_is_taken_apart_at_its_marks_and_the_stack_is_as_long_as_it_was_copied() {
        let mut body = words(&[1, 7 | 7 << 32, 5, 1000, 5, CONTEXT_KERNEL, 0xffff, CONTEXT_USER, 0x10, 0x20]);
        body.extend(words(&[2, 30, 20, 10, 16, 0xaa, 0xbb, 8]));
        let Some(Record::Item(Item { what: What::Tick(tick), .. })) =
            read(RECORD_SAMPLE, 0, &body, Layout::Tick { cpu: 1, stack: true })
        else {
            panic!("a tick")
        };
        assert_eq!((tick.kernel, tick.user), (words(&[0xffff]), words(&[0x10, 0x20])));
        assert_eq!((tick.regs, tick.copy, tick.period, tick.cpu), ([10, 20, 30], words(&[0xaa]), 1000, 1));
    }

    #[test]
    fn a_name_that_comes_with_a_program_is_told_from_another() {
        let mut body = words(&[7 | 8 << 32]);
        body.extend(b"true\0\0\0\0");
        body.extend(words(&[7 | 8 << 32, 42]));
        let item = |exec| {
            let what = What::Comm { comm: b"true".to_vec(), exec };
            Some(Record::Item(Item { ts: 42, pid: 7, tid: 8, what }))
        };
        assert_eq!(read(RECORD_COMM, MISC_COMM_EXEC, &body, Layout::Fault), item(true));
        assert_eq!(read(RECORD_COMM, 0, &body, Layout::Fault), item(false));
    }
}
