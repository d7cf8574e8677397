//! Turns system calls into rows of `syscalls`.

use pagelab_observe::bpf::Call;
use pagelab_observe::syscalls::Shapes;
use pagelab_recording::tables::SyscallsColumns;

use crate::files::Files;

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
}

impl CallFeed {
    /// A feed of the calls that `shapes` describes.
    pub fn new(shapes: Shapes, sched: bool) -> Self {
        Self { shapes, sched }
    }

    /// Appends one call.
    #[inline]
    pub fn push(&self, call: &Call, files: &Files, columns: &mut SyscallsColumns) {
        let shape = self.shapes.get(call.nr);
        let file = call.path_id.and_then(|id| files.get(id));
        let argument = |index: Option<u8>| index.and_then(|index| call.args.get(usize::from(index)).copied());
        let done = call.ret.filter(|ret| *ret >= 0);
        let fd = if shape.returns_fd { done.map(|fd| fd as i32) } else { argument(shape.fd_arg).map(|fd| fd as i32) };
        let (offset, kind) = match (argument(shape.offset_arg), call.position) {
            // -1 is the file's position, for the calls that may take either.
            (Some(offset), position) if offset != u64::MAX || position.is_none() => (Some(offset), Some(EXPLICIT)),
            (_, Some(position)) if file.is_some_and(|file| file.has_position) => {
                let (offset, kind) = implied(position, done.unwrap_or(0) as u64, call);
                (Some(offset), Some(kind))
            }
            _ => (None, None),
        };
        columns.ts.push(call.ts as i64);
        columns.dur.push(call.ret.map(|_| call.dur_ns as i64));
        columns.task_id.push(call.task_id);
        columns.name.push(Some(shape.name));
        columns.args.push(call.args);
        columns.fd.push(fd.filter(|fd| *fd >= 0));
        columns.file_id.push(file.map(|file| file.file_id));
        columns.offset.push(offset);
        columns.offset_kind.push(kind);
        columns.requested.push(argument(shape.requested_arg));
        columns.ret.push(call.ret);
        columns.cpu_ns.push(Some(call.dur_ns.saturating_sub(call.off_ns)));
        columns.blocked_ns.push(self.sched.then_some(call.asleep_ns));
    }
}

/// Where a transfer at the file's position began, and how sure that is.
///
/// A transfer moves the position by what it transferred; if the position moved by as much between entry and return, it
/// began where the position was. It also ends where the position is then, which tells where appended data went. If the
/// position moved by something else and the file is another's, too, nobody can tell from these two looks.
fn implied((before, after): (u64, u64), bytes: u64, call: &Call) -> (u64, &'static str) {
    if before.wrapping_add(bytes) == after {
        return (before, IMPLIED);
    }
    let began = after.wrapping_sub(bytes);
    if call.appends && !call.shared { (began, IMPLIED) } else { (began, SHARED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_moved_as_far_as_the_transfer_tells_where_it_began() {
        let call = |appends, shared| Call { appends, shared, ..Call::default() };
        assert_eq!(implied((4096, 8192), 4096, &call(false, false)), (4096, IMPLIED));
        assert_eq!(implied((4096, 4096), 0, &call(false, true)), (4096, IMPLIED), "end of file, or an error");
        assert_eq!(implied((0, 104_096), 4096, &call(true, false)), (100_000, IMPLIED), "appended behind others' data");
        assert_eq!(implied((0, 104_096), 4096, &call(true, true)), (100_000, SHARED));
        assert_eq!(implied((0, 8192), 4096, &call(false, true)), (4096, SHARED), "two threads, one descriptor");
    }
}
