//! Mapping actions that perf does not report by itself: the calls that take memory areas away, move them, or say how they are to
//! be used. They are seen by the tracepoints of system calls.
//!
//! The kernel runs every call of the target through the filter, wanted or not. In CPU time per `getppid` in a loop that
//! costs 160 ns, where BPF's mapping actions take 70 ns and perf's events without these 12 ns (medians of the
//! differences to nothing attached, seven interleaved rounds of 1 M calls, a 2-core x86-64 VM, Linux 6.18).

use pagelab_vocab::abi;
use pagelab_vocab::syscalls::{self, i386};

use super::areas::Areas;
use crate::bpf::{Call, CallInfo, MapEvent, Special};
use crate::syscalls::{CallFilter, Shapes};

const PR_SET_THP_DISABLE: u64 = 41;

/// Names of calls, and of the actions that they are. What maps, protects or grows the heap perf reports as it is done.
const ACTIONS: [(&str, &str); 8] = [
    ("munmap", "munmap"),
    ("mremap", "mremap"),
    ("madvise", "madvise"),
    ("process_madvise", "process_madvise"),
    ("mlock", "mlock"),
    ("mlock2", "mlock"),
    ("shmdt", "shmdt"),
    ("prctl", "prctl_thp"),
];

/// What is to be known of these calls.
pub(super) fn wanted() -> Vec<CallInfo> {
    let mut calls = CallFilter::default();
    for (name, _) in ACTIONS {
        calls.add(name);
    }
    let mut infos = Shapes::of(&calls).infos();
    infos.retain(|info| info.nr < i386::NUMBERS_FROM);
    infos
}

/// The action that a call was; none if it never returned, or is none.
pub(super) fn action(call: &Call, mm_id: u32) -> Option<MapEvent> {
    let name = syscalls::by_number(call.nr)?.name;
    let op = ACTIONS.iter().find(|(known, _)| *known == name)?.1;
    let [first, second, third, fourth, fifth, _] = call.args;
    let event = MapEvent {
        has_stack: false,
        ts: call.ts,
        dur_ns: call.dur_ns,
        op,
        kind: "call",
        special: Special::Plain,
        task_id: call.task_id,
        mm_id,
        addr: first,
        len: second,
        old_addr: 0,
        offset: 0,
        prot: 0,
        flags: 0,
        fd: -1,
        dev: 0,
        ino: 0,
        path_id: None,
        advice: 0,
        ret: call.ret()?,
    };
    Some(match name {
        "mremap" => {
            // The old length is where the recording has it.
            let (addr, flags) = (fifth, fourth as u32);
            MapEvent { addr, len: third, old_addr: first, offset: second, flags, ..event }
        }
        "madvise" => MapEvent { advice: third as u32, ..event },
        "process_madvise" => MapEvent { fd: first as i32, addr: second, len: third, advice: fourth as u32, ..event },
        "mlock2" => MapEvent { flags: third as u32, ..event },
        "shmdt" => MapEvent { len: 0, ..event },
        "prctl" if first != PR_SET_THP_DISABLE => return None,
        "prctl" => MapEvent { addr: 0, len: 0, advice: second as u32, ..event },
        _ => event,
    })
}

/// What goes when the call begins is not known any more: another thread may map something there before it returns.
pub(super) fn begins(areas: &mut Areas, nr: i64, args: &[u64; 6]) {
    let name = u32::try_from(nr).ok().and_then(syscalls::by_number).map(|call| call.name);
    if name == Some("munmap") {
        areas.forget(args[0], args[0].saturating_add(args[1]));
    }
}

/// Moves what the action has moved.
pub(super) fn done(areas: &mut Areas, event: &MapEvent) {
    if event.op == "mremap" && !event.failed() {
        let keeps_old = event.flags & abi::MREMAP_DONTUNMAP != 0;
        areas.moved((event.old_addr, event.offset), (event.ret as u64, event.len), keeps_old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(name: &str, args: [u64; 6], ret: i64) -> Call {
        let nr = syscalls::by_name(name).expect("a call").number;
        Call::from_tracepoints(3, nr, 10, args, Some((5, ret)))
    }

    #[test]
    fn calls_are_the_actions_that_bpf_reports() {
        let known: Vec<&str> = crate::bpf::MAP_OPS.iter().map(|(_, op)| *op).collect();
        assert!(ACTIONS.iter().all(|(_, op)| known.contains(op)));
        assert_eq!(wanted().len(), ACTIONS.len());
        let moved = action(&returned("mremap", [1, 2, 3, 4, 5, 0], 7), 9).expect("an action");
        assert_eq!((moved.old_addr, moved.offset, moved.len, moved.flags, moved.addr), (1, 2, 3, 4, 5));
        assert_eq!((moved.ts, moved.dur_ns, moved.mm_id, moved.ret), (10, 5, 9, 7));
        let advised = action(&returned("madvise", [1, 2, 14, 0, 0, 0], 0), 9).expect("an action");
        assert_eq!((advised.addr, advised.len, advised.advice), (1, 2, 14));
        assert!(action(&returned("prctl", [15, 0, 0, 0, 0, 0], 0), 9).is_none());
        assert!(action(&returned("prctl", [41, 1, 0, 0, 0, 0], 0), 9).is_some_and(|event| event.advice == 1));
        assert!(action(&returned("read", [0; 6], 0), 9).is_none());
    }
}
