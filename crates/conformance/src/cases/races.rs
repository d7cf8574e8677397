//! Two at once: whatever the order, nobody dies and no page is lost.

use super::{BASE, PAGE, PRIVATE, SHARED};
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, must};
use crate::sys::{self, Ended, Errno, Gate, Process, pair_of_threads};

const NO_OVERCOMMIT: Need = Need::Setting("hugetlb.2M.nr_overcommit_hugepages", "0");

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "races.instantiate_shared",
        topic: Topic::Races,
        proves: "Two processes that touch the last free page of a shared mapping at the same time both get it.",
        like: "libhugetlbfs alloc-instantiate-race (shared)",
        needs: &[Need::Pool(128), NO_OVERCOMMIT],
        broken_by: "mmap.shared_is_private",
        run: instantiate_shared,
    },
    Case {
        name: "races.instantiate_private",
        topic: Topic::Races,
        proves: "Two threads that touch the last free page of a private mapping at the same time both get it.",
        like: "libhugetlbfs alloc-instantiate-race (private)",
        needs: &[Need::Pool(128), NO_OVERCOMMIT],
        broken_by: "madvise.steals",
        run: instantiate_private,
    },
    Case {
        name: "races.fault_against_dontneed",
        topic: Topic::Races,
        proves: "Faults against MADV_DONTNEED of the same pages: no signal, and all counters are back at the end.",
        like: "selftests mm/hugetlb_fault_after_madv, hugetlb_madv_vs_map",
        needs: &[Need::Pool(4)],
        broken_by: "munmap.ignored",
        run: fault_against_dontneed,
    },
    Case {
        name: "races.fault_against_truncate",
        topic: Topic::Races,
        proves: "Faults against truncation of the file: a page or an error, never more; all counters are back at the end.",
        like: "new",
        needs: &[Need::Pool(4)],
        broken_by: "ftruncate.ignored",
        run: fault_against_truncate,
    },
    Case {
        name: "races.fault_against_punch",
        topic: Topic::Races,
        proves: "Faults against holes punched under them: the mapping stays whole, and all counters are back at the end.",
        like: "libhugetlbfs fallocate_stress",
        needs: &[Need::Pool(4)],
        broken_by: "fallocate.ignored",
        run: fault_against_punch,
    },
    Case {
        name: "races.fork_against_fault",
        topic: Topic::Races,
        proves: "Forks while another thread writes: no write is lost, and all counters are back at the end.",
        like: "new",
        needs: &[Need::Pool(8)],
        broken_by: "munmap.ignored",
        run: fork_against_fault,
    },
    Case {
        name: "races.map_against_map",
        topic: Topic::Races,
        proves: "Two threads that map, touch and unmap hold their own pages only, and the reserve does not drift.",
        like: "selftests mm/hugetlb_madv_vs_map",
        needs: &[Need::Pool(8)],
        broken_by: "munmap.ignored",
        run: map_against_map,
    },
];

/// Rounds of a race: each takes well under a millisecond.
const ROUNDS: usize = 200;

/// In a race the call may fail or succeed; only the state at the end counts.
fn either_way<T>(_: Result<T, Errno>) {}

fn instantiate_shared(context: &mut Context) -> Outcome {
    context.start()?;
    // All but one page are taken, so that a second page for the same place cannot be had.
    context.anonymous(127, PRIVATE)?.touch(PAGE);
    let region = context.anonymous(1, SHARED)?;
    context.at("taking 127 pages and reserving the last", [0, -127, 1, 0])?;
    let (ready, go) = (Gate::new()?, Gate::new()?);
    let mut children = Vec::new();
    for byte in [1, 2] {
        children.push(Process::start(|| {
            ready.open();
            go.pass();
            region.write(usize::from(byte) * BASE, byte);
            0
        })?);
    }
    ready.pass();
    ready.pass();
    go.open();
    go.open();
    for child in children {
        equal("a process that touches the last page", child.wait()?, Ended::Exit(0))?;
    }
    context.at("two processes have touched it", [0, -128, 0, 0])?;
    equal("what both wrote", (region.read(BASE), region.read(2 * BASE)), (1, 2))
}

fn instantiate_private(context: &mut Context) -> Outcome {
    context.start()?;
    context.anonymous(127, PRIVATE)?.touch(PAGE);
    let region = context.anonymous(1, PRIVATE)?;
    context.at("taking 127 pages and reserving the last", [0, -127, 1, 0])?;
    for round in 0..ROUNDS {
        pair_of_threads(1, |_| region.write(BASE, 1), |_| region.write(2 * BASE, 2));
        equal(&format!("what both wrote in round {round}"), (region.read(BASE), region.read(2 * BASE)), (1, 2))?;
        must("madvise", region.advise(libc::MADV_DONTNEED))?;
    }
    region.write(0, 1);
    context.at("the last round", [0, -128, 0, 0])
}

fn fault_against_dontneed(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(4, PRIVATE)?;
    pair_of_threads(ROUNDS, |_| region.touch(PAGE), |_| either_way(region.advise(libc::MADV_DONTNEED)));
    region.touch(PAGE);
    context.at("the race, and touching all", [0, -4, 0, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn fault_against_truncate(context: &mut Context) -> Outcome {
    let file = context.file()?;
    let zeros = must("open /dev/zero", sys::open("/dev/zero", libc::O_RDONLY))?;
    context.start()?;
    let region = context.map_file(&file, 4, SHARED | libc::MAP_NORESERVE)?;
    let shrink = |_| {
        either_way(file.truncate(0));
        either_way(file.truncate(4 * PAGE));
    };
    // The kernel touches for us: beyond the end that is an error and no signal.
    let touch = |_| (0..4).for_each(|page| either_way(region.part(page * PAGE, BASE).read_from(&zeros, 0)));
    pair_of_threads(ROUNDS, touch, shrink);
    must("ftruncate to 4 pages", file.truncate(4 * PAGE))?;
    region.touch(PAGE);
    context.at("the race, and touching all", [0, -4, 0, 0])?;
    must("ftruncate to nothing", file.truncate(0))?;
    context.at("truncating", [0, 0, 0, 0])
}

fn fault_against_punch(context: &mut Context) -> Outcome {
    let file = context.file()?;
    context.start()?;
    let region = context.map_file(&file, 4, SHARED | libc::MAP_NORESERVE)?;
    pair_of_threads(ROUNDS, |_| region.touch(PAGE), |_| either_way(file.punch(0, 4 * PAGE)));
    region.touch(PAGE);
    context.at("the race, and touching all", [0, -4, 0, 0])?;
    must("punching all", file.punch(0, 4 * PAGE))?;
    context.at("punching all", [0, 0, 0, 0])
}

fn fork_against_fault(context: &mut Context) -> Outcome {
    context.start()?;
    let region = context.anonymous(2, PRIVATE)?;
    let trouble = std::sync::Mutex::new(None);
    let note = |what: String| *trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(what);
    let fork = |_| match Process::start(|| 0).and_then(Process::wait) {
        Ok(Ended::Exit(0)) => {}
        other => note(format!("a child: {other:?}")),
    };
    let write = |round: usize| {
        for at in [0, PAGE] {
            region.write(at, round as u8);
            let found = region.read(at);
            if found != round as u8 {
                note(format!("round {round} reads {found}"));
            }
        }
    };
    pair_of_threads(50, write, fork);
    equal("trouble", trouble.into_inner().unwrap_or_default(), None)?;
    context.at("the race", [0, -2, 0, 0])?;
    must("munmap", region.unmap())?;
    context.at("unmapping", [0, 0, 0, 0])
}

fn map_against_map(context: &mut Context) -> Outcome {
    context.start()?;
    let trouble = std::sync::Mutex::new(None);
    let work = |round: usize, byte: u8| {
        let found = context.anonymous(4, PRIVATE).and_then(|region| {
            region.part(0, (1 + round % 4) * PAGE).fill(byte);
            region.part(0, PAGE).check("its own page", byte)?;
            must("munmap", region.unmap())
        });
        if let Err(stop) = found {
            *trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(stop.reason);
        }
    };
    pair_of_threads(ROUNDS / 4, |round| work(round, 1), |round| work(round, 2));
    equal("trouble", trouble.into_inner().unwrap_or_default(), None)?;
    context.at("the race", [0, 0, 0, 0])
}
