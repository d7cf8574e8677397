//! Turns system calls into rows of `syscalls`.

use pagelab_observe::bpf::Call;
use pagelab_observe::syscalls::{Shape, Shapes};
use pagelab_recording::tables::SyscallsColumns;

use crate::files::{Files, NamedFile};

/// `syscalls.offset_kind`: the call says where.
const EXPLICIT: &str = "explicit";
/// `syscalls.offset_kind`: at the file's position.
const IMPLIED: &str = "implied";
/// `syscalls.offset_kind`: at the file's position, which another task moved meanwhile: the offset may be another's.
const SHARED: &str = "shared";

/// What is known of all calls while they are written.
#[derive(Debug)]
pub struct CallFeed {
    shapes: Shapes,
    /// The stream `sched` runs: time asleep is told from time in the run queue.
    sched: bool,
    /// Only entry and return are known: not the file, its position and the time off the CPU.
    bare: bool,
}

impl CallFeed {
    /// A feed of the calls that `shapes` describes.
    pub fn new(shapes: Shapes, sched: bool) -> Self {
        Self { shapes, sched, bare: false }
    }

    /// Of the calls to come only entry and return are known.
    pub fn set_bare(&mut self) {
        self.bare = true;
    }

    /// Appends calls, column by column.
    pub fn push<'a>(
        &self,
        calls: &(impl ExactSizeIterator<Item = &'a Call> + Clone),
        files: &Files,
        columns: &mut SyscallsColumns,
    ) {
        let described = || calls.clone().map(|call| (call, self.shapes.get(call.nr)));
        columns.ts.extend(calls.clone().map(|call| call.ts as i64));
        columns.dur.extend(calls.clone().map(|call| call.ret().map(|_| call.dur_ns as i64)));
        columns.task_id.extend(calls.clone().map(|call| call.task_id));
        columns.name.extend_static(described().map(|(_, shape)| Some(shape.name)));
        columns.args.extend(calls.clone().map(|call| call.args));
        columns.fd.extend(described().map(|(call, shape)| descriptor(call, shape)));
        columns.requested.extend(described().map(|(call, shape)| requested(call, shape)));
        columns.ret.extend(calls.clone().map(Call::ret));
        if self.bare {
            columns.cpu_ns.push_nulls(calls.len());
        } else {
            columns.cpu_ns.extend(calls.clone().map(|call| Some(call.dur_ns.saturating_sub(call.off_ns))));
        }
        if self.sched && !self.bare {
            columns.blocked_ns.extend(calls.clone().map(|call| Some(call.asleep_ns)));
        } else {
            columns.blocked_ns.push_nulls(calls.len());
        }
        let file = |call: &Call| call.path_id().and_then(|id| files.get(id));
        columns.file_id.extend(calls.clone().map(|call| file(call).map(|file| file.file_id)));
        let placed = || described().map(|(call, shape)| where_in_file(call, shape, file(call)));
        columns.offset.extend(placed().map(|place| place.map(|(offset, _)| offset)));
        columns.offset_kind.extend_static(placed().map(|place| place.map(|(_, kind)| kind)));
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
/// A transfer moves the position by what it transferred; if the position moved by as much between entry and return, it
/// began where the position was. It also ends where the position is then, which tells where appended data went. If the
/// position moved by something else and the file is another's, too, nobody can tell from these two looks.
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
