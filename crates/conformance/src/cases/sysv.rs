//! SysV shared memory on huge pages. Segments live in an IPC namespace of the case's own.

use super::PAGE;
use crate::case::{Case, Need, Topic};
use crate::child::Context;
use crate::outcome::{Outcome, equal, holds, must, refused};
use crate::sys::{Ended, in_child, sysv};
use crate::view;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "sysv.segment",
        topic: Topic::Sysv,
        proves: "SHM_HUGETLB makes a segment on huge pages, reserved when it is made, named /SYSV in maps.",
        like: "libhugetlbfs shm-getraw; selftests mm/hugepage-shm",
        needs: &[Need::SysV, Need::Pool(3)],
        broken_by: "shmget.no_hugetlb",
        run: segment,
    },
    Case {
        name: "sysv.size_rounded_up",
        topic: Topic::Sysv,
        proves: "A segment of one byte more than a page reserves two.",
        like: "libhugetlbfs shm-gettest",
        needs: &[Need::SysV, Need::Pool(2)],
        broken_by: "shmget.no_hugetlb",
        run: size_rounded_up,
    },
    Case {
        name: "sysv.fork_shared",
        topic: Topic::Sysv,
        proves: "Parent and child see each other's writes to a segment, and the child's end takes nothing away.",
        like: "libhugetlbfs shm-fork",
        needs: &[Need::SysV, Need::Pool(2)],
        broken_by: "shmat.private",
        run: fork_shared,
    },
    Case {
        name: "sysv.removed_while_attached",
        topic: Topic::Sysv,
        proves: "A segment that is removed keeps its pages until the last one detaches, and not longer.",
        like: "new",
        needs: &[Need::SysV, Need::Pool(2)],
        broken_by: "shmctl.ignored",
        run: removed_while_attached,
    },
    Case {
        name: "sysv.read_only",
        topic: Topic::Sysv,
        proves: "A segment attached with SHM_RDONLY can be read and not written.",
        like: "new",
        needs: &[Need::SysV, Need::Pool(1)],
        broken_by: "shmat.writable",
        run: read_only,
    },
    Case {
        name: "sysv.permissions",
        topic: Topic::Sysv,
        proves: "Another user cannot attach a segment of mode 0600, and can one of mode 0644 for reading.",
        like: "libhugetlbfs shm-perms",
        needs: &[Need::SysV, Need::Pool(2)],
        broken_by: "shmat.private",
        run: permissions,
    },
];

const HUGE: i32 = libc::SHM_HUGETLB | libc::MAP_HUGE_2MB;

fn segment(context: &mut Context) -> Outcome {
    context.start()?;
    let id = must("shmget", sysv::get(3 * PAGE, HUGE | 0o600))?;
    context.at("making a segment of 3 pages", [0, 0, 3, 0])?;
    let region = must("shmat", sysv::attach(id, 0, 3 * PAGE))?;
    view::page_size_is(&region, PAGE)?;
    let path = view::vma(&region)?.path_text();
    holds("path in maps", path.starts_with("/SYSV"), path, "/SYSV and the key")?;
    region.touch(PAGE);
    context.at("touching it", [0, -3, 0, 0])?;
    must("shmdt", sysv::detach(&region))?;
    context.at("detaching", [0, -3, 0, 0])?;
    must("IPC_RMID", sysv::remove(id))?;
    context.at("removing it", [0, 0, 0, 0])
}

fn size_rounded_up(context: &mut Context) -> Outcome {
    context.start()?;
    let id = must("shmget", sysv::get(PAGE + 1, HUGE | 0o600))?;
    context.at("making a segment of 2 MiB + 1 byte", [0, 0, 2, 0])?;
    must("IPC_RMID", sysv::remove(id))?;
    context.at("removing it", [0, 0, 0, 0])
}

fn fork_shared(context: &mut Context) -> Outcome {
    context.start()?;
    let id = must("shmget", sysv::get(2 * PAGE, HUGE | 0o600))?;
    let region = must("shmat", sysv::attach(id, 0, 2 * PAGE))?;
    region.part(0, PAGE).fill(1);
    let ended = in_child(|| {
        let seen = region.part(0, PAGE).check("the parent's writes", 1).is_ok();
        region.part(PAGE, PAGE).fill(2);
        i32::from(!seen)
    })?;
    equal("the child sees the parent's writes", ended, Ended::Exit(0))?;
    region.part(PAGE, PAGE).check("the child's writes", 2)?;
    context.at("the child's end", [0, -2, 0, 0])?;
    must("IPC_RMID", sysv::remove(id)).map(drop)
}

fn removed_while_attached(context: &mut Context) -> Outcome {
    context.start()?;
    let id = must("shmget", sysv::get(2 * PAGE, HUGE | 0o600))?;
    let region = must("shmat", sysv::attach(id, 0, 2 * PAGE))?;
    region.fill(3);
    must("IPC_RMID", sysv::remove(id))?;
    region.check("the removed segment", 3)?;
    context.at("removing a segment that is attached", [0, -2, 0, 0])?;
    must("shmdt", sysv::detach(&region))?;
    context.at("detaching", [0, 0, 0, 0])
}

fn read_only(_: &mut Context) -> Outcome {
    let id = must("shmget", sysv::get(PAGE, HUGE | 0o600))?;
    let writable = must("shmat", sysv::attach(id, 0, PAGE))?;
    writable.write(0, 7);
    let region = must("shmat SHM_RDONLY", sysv::attach(id, libc::SHM_RDONLY, PAGE))?;
    equal("the byte read", region.read(0), 7)?;
    let ended = in_child(|| {
        region.write(0, 8);
        0
    })?;
    equal("writing to it", ended, Ended::Signal(libc::SIGSEGV))
}

fn permissions(_: &mut Context) -> Outcome {
    let own = must("shmget 0600", sysv::get(PAGE, HUGE | 0o600))?;
    let readable = must("shmget 0644", sysv::get(PAGE, HUGE | 0o644))?;
    must("shmat", sysv::attach(readable, 0, PAGE))?.write(0, 9);
    let ended = in_child(|| {
        // SAFETY: setgroups takes no list here, and the others take numbers only; this process ends right afterwards.
        let changed = unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(65534, 65534, 65534) == 0
                && libc::setresuid(65534, 65534, 65534) == 0
        };
        if !changed {
            return 1;
        }
        let barred = [(own, 0), (own, libc::SHM_RDONLY), (readable, 0)];
        for (number, (id, flags)) in barred.into_iter().enumerate() {
            if refused("shmat", sysv::attach(id, flags, PAGE), &[libc::EACCES]).is_err() {
                return 2 + number as i32;
            }
        }
        match sysv::attach(readable, libc::SHM_RDONLY, PAGE) {
            Ok(region) if region.read(0) == 9 => 0,
            _ => 5,
        }
    })?;
    let what = "another user (1 cannot become one; 2, 3, 4 attached what is barred; 5 cannot read what may be read)";
    equal(what, ended, Ended::Exit(0))
}
