//! Turns system calls into rows of `syscalls`.

use pagelab_recording::tables::{OptColumn, SyscallsColumns};

use super::files::{Files, NamedFile};
use crate::bpf::{Call, OffCpu};
use crate::syscalls::{Shape, Shapes};

/// `syscalls.offset_kind`: the call says where.
const EXPLICIT: &str = "explicit";
/// `syscalls.offset_kind`: at the file's position.
const IMPLIED: &str = "implied";
/// `syscalls.offset_kind`: at the file's position, which another task moved meanwhile: the offset may be another's.
const SHARED: &str = "shared";

/// The calls that the kernel counts as reads, and as writes, of each process (`syscr` and `syscw` of `/proc/PID/io`).
const READS: [&str; 7] = ["read", "pread64", "readv", "preadv", "preadv2", "sendfile", "copy_file_range"];
const WRITES: [&str; 7] = ["write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range"];

/// What is known of all calls while they are written.
#[derive(Debug)]
pub struct CallFeed {
    shapes: Shapes,
    /// By number: whether the kernel counts it as a read, and as a write.
    transfers: Vec<[bool; 2]>,
    /// The stream `sched` runs: time asleep is distinguished from time in the run queue.
    sched: bool,
    /// Only entry and return are known: not the file, its position and the time off the CPU.
    bare: bool,
}

impl CallFeed {
    /// A feed of the calls that `shapes` describes.
    pub fn new(shapes: Shapes, sched: bool) -> Self {
        let transfers = shapes.names().map(|name| [READS, WRITES].map(|of| of.contains(&name))).collect();
        Self { shapes, transfers, sched, bare: false }
    }

    /// Whether every call is recorded that the kernel counts as a read or a write.
    pub(super) fn has_all_transfers(&self) -> bool {
        let mut all = READS.iter().chain(&WRITES);
        all.all(|call| self.shapes.names().any(|name| name == *call))
    }

    /// Only entry and return of the calls are known.
    pub(super) fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// Appends calls, column by column.
    fn push<'a>(
        &self,
        calls: &(impl ExactSizeIterator<Item = &'a Call> + Clone),
        files: &Files,
        columns: &mut SyscallsColumns,
    ) {
        columns.ts.extend(calls.clone().map(|call| call.ts as i64));
        columns.task_id.extend(calls.clone().map(|call| call.task_id));
        columns.args.extend(calls.clone().map(|call| call.args));
        let any_refused = if let Some(first) = alike(calls) {
            self.push_alike(first, calls, files, columns);
            first.is_refused()
        } else {
            self.push_mixed(calls, files, columns);
            calls.clone().any(Call::is_refused)
        };
        let (times_known, on_cpu) = (!self.bare, |call: &Call| call.dur_ns.saturating_sub(call.off_ns));
        push_times(&mut columns.blocked_ns, calls, (times_known && self.sched, any_refused), |call| call.asleep_ns);
        push_times(&mut columns.cpu_ns, calls, (times_known, any_refused), on_cpu);
    }

    /// The names of calls that may have none in the registry.
    fn push_names<'a>(&self, calls: impl Iterator<Item = &'a Call>, columns: &mut SyscallsColumns) {
        for call in calls {
            match self.shapes.get(call.nr).name {
                "" => columns.name.push(Some(&*Shapes::name_of(call))),
                name => columns.name.extend_static(std::iter::once(Some(name))),
            }
        }
    }

    /// The columns that depend on what call it is.
    fn push_mixed<'a>(
        &self,
        calls: &(impl ExactSizeIterator<Item = &'a Call> + Clone),
        files: &Files,
        columns: &mut SyscallsColumns,
    ) {
        let described = || calls.clone().map(|call| (call, self.shapes.get(call.nr)));
        columns.dur.extend(calls.clone().map(|call| call.dur().map(|ns| ns as i64)));
        if described().any(|(_, shape)| shape.name.is_empty()) {
            self.push_names(calls.clone(), columns);
        } else {
            columns.name.extend_static(described().map(|(_, shape)| Some(shape.name)));
        }
        columns.fd.extend(described().map(|(call, shape)| descriptor(call, shape)));
        columns.requested.extend(described().map(|(call, shape)| requested(call, shape)));
        columns.ret.extend(calls.clone().map(Call::ret));
        let file = |call: &Call| call.path_id().and_then(|id| files.get(id));
        columns.file_id.extend(calls.clone().map(|call| file(call).map(|file| file.file_id)));
        let placed = || described().map(|(call, shape)| where_in_file(call, shape, file(call)));
        columns.offset.extend(placed().map(|place| place.map(|(offset, _)| offset)));
        columns.offset_kind.extend_static(placed().map(|place| place.map(|(_, kind)| kind)));
    }

    /// The same of calls that all are what the first one is: a program that does I/O makes one call again and again, and then
    /// what differs between calls need not be looked for in each.
    fn push_alike<'a>(
        &self,
        first: &Call,
        calls: &(impl ExactSizeIterator<Item = &'a Call> + Clone),
        files: &Files,
        columns: &mut SyscallsColumns,
    ) {
        let shape = self.shapes.get(first.nr);
        if shape.name.is_empty() {
            self.push_names(calls.clone(), columns);
        } else {
            columns.name.push_repeated(shape.name, calls.len());
        }
        match first.dur() {
            Some(_) => columns.dur.extend_some(calls.clone().map(|call| call.dur_ns as i64)),
            None => columns.dur.push_nulls(calls.len()),
        }
        match first.ret() {
            Some(_) => columns.ret.extend_some(calls.clone().filter_map(Call::ret)),
            None => columns.ret.push_nulls(calls.len()),
        }
        match shape.requested_arg.map(usize::from).filter(|index| *index < first.args.len()) {
            Some(index) => columns.requested.extend_some(calls.clone().map(|call| call.args[index])),
            None => columns.requested.extend(calls.clone().map(Call::requested)),
        }
        columns.fd.extend(calls.clone().map(|call| descriptor(call, shape)));
        let mut last = (0, None);
        let mut file = |call: &Call| {
            let id = call.path_id().unwrap_or(0);
            if id != last.0 {
                last = (id, files.get(id));
            }
            last.1
        };
        columns.file_id.extend(calls.clone().map(|call| file(call).map(|file| file.file_id)));
        let mut kinds = [None; BLOCK_CALLS];
        let kinds = kinds.get_mut(..calls.len()).unwrap_or_default();
        columns.offset.extend(calls.clone().zip(kinds.iter_mut()).map(|(call, kind)| {
            let place = where_in_file(call, shape, file(call));
            *kind = place.map(|(_, kind)| kind);
            place.map(|(offset, _)| offset)
        }));
        columns.offset_kind.extend_static(kinds.iter().copied());
    }
}

/// Appends a time of each call where it is measured at all; a call that was refused has none.
fn push_times<'a>(
    column: &mut OptColumn<u64>,
    calls: &(impl ExactSizeIterator<Item = &'a Call> + Clone),
    (is_known, any_refused): (bool, bool),
    of: impl Fn(&Call) -> u64,
) {
    if !is_known {
        column.push_nulls(calls.len());
    } else if any_refused {
        column.extend(calls.clone().map(|call| (!call.is_refused()).then(|| of(call))));
    } else {
        column.extend_some(calls.clone().map(of));
    }
}

/// The first call, if all others have its number and the same fields known.
fn alike<'a>(calls: &(impl ExactSizeIterator<Item = &'a Call> + Clone)) -> Option<&'a Call> {
    let first = calls.clone().next()?;
    // No way out of the loop: so there is no branch in it.
    let differences = calls.clone().fold(0, |found, call| found | call.differs_from(first));
    (differences == 0).then_some(first)
}

/// System calls that are written at a time, as many as stay in the first-level cache from column to column; and of these the latest,
/// which wait for earlier ones of other CPUs.
const BLOCK_CALLS: usize = 320;
const WAITING_CALLS: usize = 64;

/// System calls on their way from the order in which they returned to the order in which they began.
#[derive(Debug, Default)]
pub struct WaitingCalls {
    calls: Vec<Call>,
    /// When each began and where it is in `calls`, in the order of time.
    order: Vec<(u64, u32)>,
    /// Memory for those that go on waiting.
    rest: Vec<Call>,
    /// Calls so far that the kernel counts as reads, and as writes.
    transfers: [u64; 2],
}

impl WaitingCalls {
    #[inline]
    fn push(&mut self, call: &Call) {
        let mut at = self.order.len();
        self.order.push((call.ts, self.calls.len() as u32));
        self.calls.push(*call);
        // Mostly the place is at the end, or one before it.
        while at > 0 && self.order[at - 1].0 > call.ts {
            self.order.swap(at - 1, at);
            at -= 1;
        }
    }

    /// Calls so far that the kernel counts as reads, and as writes.
    pub(super) fn transfers(&self) -> [u64; 2] {
        self.transfers
    }

    /// Writes all.
    pub fn write_all(&mut self, feed: &CallFeed, files: &Files, columns: &mut SyscallsColumns) {
        while !self.calls.is_empty() {
            self.write(self.calls.len().min(BLOCK_CALLS), feed, files, columns);
        }
    }

    /// Writes the first `count`, which are at most [`BLOCK_CALLS`].
    fn write(&mut self, count: usize, feed: &CallFeed, files: &Files, columns: &mut SyscallsColumns) {
        let of = |(_, at): &(u64, u32)| &self.calls[*at as usize];
        let (done, rest) = self.order.split_at(count);
        feed.push(&done.iter().map(of), files, columns);
        self.rest.extend(rest.iter().map(of).copied());
        std::mem::swap(&mut self.calls, &mut self.rest);
        self.rest.clear();
        self.order.clear();
        self.order.extend(self.calls.iter().zip(0..).map(|(call, at)| (call.ts, at)));
    }
}

/// Where system calls are put as they come: those that are known to be in order go into the columns.
pub struct CallSink<'a> {
    feed: Option<&'a CallFeed>,
    files: &'a Files,
    waiting: &'a mut WaitingCalls,
    columns: &'a mut SyscallsColumns,
    off_cpu: &'a mut Vec<OffCpu>,
}

impl<'a> CallSink<'a> {
    /// A sink that writes by `feed`, if calls are written at all, and collects the times off the CPU.
    pub fn new(
        feed: Option<&'a CallFeed>,
        files: &'a Files,
        waiting: &'a mut WaitingCalls,
        columns: &'a mut SyscallsColumns,
        off_cpu: &'a mut Vec<OffCpu>,
    ) -> Self {
        Self { feed, files, waiting, columns, off_cpu }
    }

    /// Takes one call, or time off the CPU.
    #[inline]
    pub fn take(&mut self, call: &Call) {
        if let Some(off) = call.off_cpu() {
            self.off_cpu.push(off);
            return;
        }
        let Some(feed) = self.feed else { return };
        if let Some([read, write]) = feed.transfers.get(call.nr as usize) {
            self.waiting.transfers[0] += u64::from(*read);
            self.waiting.transfers[1] += u64::from(*write);
        }
        match feed.shapes.as_64_bit(call) {
            Some(call) => self.waiting.push(&call),
            None => self.waiting.push(call),
        }
        if self.waiting.calls.len() >= BLOCK_CALLS {
            self.waiting.write(BLOCK_CALLS - WAITING_CALLS, feed, self.files, self.columns);
        }
    }
}

/// One of the arguments, if there is such a one.
#[inline]
fn argument(call: &Call, index: Option<u8>) -> Option<u64> {
    index.and_then(|index| call.args.get(usize::from(index)).copied())
}

/// Bytes asked for.
#[inline]
fn requested(call: &Call, shape: &Shape) -> Option<u64> {
    argument(call, shape.requested_arg).or_else(|| call.requested())
}

/// The descriptor that the call made, or works on.
#[inline]
fn descriptor(call: &Call, shape: &Shape) -> Option<i32> {
    let made = || call.ret().filter(|ret| *ret >= 0).map(|fd| fd as i32);
    let fd = if shape.returns_fd { made() } else { argument(call, shape.fd_arg).map(|fd| fd as i32) };
    fd.filter(|fd| *fd >= 0)
}

/// Offset of a transfer, and how it is known.
#[inline]
fn where_in_file(call: &Call, shape: &Shape, file: Option<&NamedFile>) -> Option<(u64, &'static str)> {
    match (argument(call, shape.offset_arg), call.position()) {
        // -1 is the file's position, for the calls that may take either.
        (Some(offset), position) if offset != u64::MAX || (position.is_none() && !shape.moves_position) => {
            Some((offset, EXPLICIT))
        }
        (_, Some(position)) if file.is_some_and(|file| file.has_position) => {
            let how = (call.appends(), call.is_shared());
            Some(implied(position, call.ret().unwrap_or(0).max(0) as u64, how))
        }
        _ => None,
    }
}

/// Where a transfer at the file's position began, and how sure that is.
///
/// A transfer moves the position by the bytes it transferred; if the position moved by as much between entry and
/// return, the transfer began at the old position. It also ends at the new one, which is where appended data went. If
/// the position moved by another amount and the file is shared, two readings are not enough to tell.
fn implied((before, after): (u64, u64), bytes: u64, (appends, shared): (bool, bool)) -> (u64, &'static str) {
    if before.wrapping_add(bytes) == after {
        return (before, IMPLIED);
    }
    let began = after.wrapping_sub(bytes);
    if appends && !shared { (began, IMPLIED) } else { (began, SHARED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_moved_as_far_as_the_transfer_tells_where_it_began() {
        assert_eq!(implied((4096, 8192), 4096, (false, false)), (4096, IMPLIED));
        assert_eq!(implied((4096, 4096), 0, (false, true)), (4096, IMPLIED), "end of file, or an error");
        assert_eq!(implied((0, 104_096), 4096, (true, false)), (100_000, IMPLIED), "appended behind others' data");
        assert_eq!(implied((0, 104_096), 4096, (true, true)), (100_000, SHARED));
        assert_eq!(implied((0, 8192), 4096, (false, true)), (4096, SHARED), "two threads, one descriptor");
    }
}
