//! Where the kernel counts renames, found without its help: many kernels have no addresses of variables in /proc/kallsyms.
//!
//! The observer must know in every call whether its file is still called the same, which any rename of a folder above may have
//! changed. The kernel counts renames of all file systems for its own walks (`rename_lock`); to ask that number takes a tenth
//! of the time that a walk to the root takes. `d_move()`, which does the renames, increments it twice: so it is the variable
//! that the function increments twice, and whether it counts renames is tried on a file system that nobody else sees. Where any
//! of that fails, the observer walks.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::OpenSkel;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::object::{include_skeleton, not_loaded, open};

include_skeleton!("renames");

use skeleton::{RenamesSkel, RenamesSkelBuilder};

const NEEDED: &str = "root (or CAP_BPF and CAP_PERFMON), BPF programs of type syscall (Linux 5.16)";
/// How many renames are tried at a time; each counts for two.
const RENAMES: u32 = 4;
/// How often that is tried: others rename meanwhile.
const ATTEMPTS: u32 = 50;

/// The address of the number, if it is known.
///
/// # Errors
/// The reason in words.
pub(super) fn address() -> Result<u64, &'static str> {
    static FOUND: OnceLock<Result<u64, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().copied().map_err(String::as_str)
}

fn find() -> Result<u64, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the code of this processor is not known here".to_owned());
    }
    let mut skel = open::<RenamesSkelBuilder>(NEEDED)
        .and_then(|open| open.load().map_err(not_loaded))
        .map_err(|error| error.to_string())?;
    let code = peek(&mut skel, 0)?;
    let base = skel.maps.bss_data.as_deref().map_or(0, |bss| bss.peek_at);
    let counter = incremented_twice(base, &code).ok_or("d_move() increments no variable twice")?;
    let folder =
        unseen_folder().map_err(|error| format!("a tmpfs that is not mounted: {error}; needed: CAP_SYS_ADMIN"))?;
    counts_renames(|| number_at(&mut skel, counter), &folder)?;
    Ok(counter)
}

/// The bytes at an address; at 0 the code of `d_move()`.
fn peek(skel: &mut RenamesSkel<'static>, at: u64) -> Result<[u8; 512], String> {
    let unreachable = "the program's variables cannot be reached";
    skel.maps.bss_data.as_deref_mut().ok_or(unreachable)?.peek_at = at;
    let run = skel.progs.peek.test_run(ProgramInput::default());
    match run.map_err(|error| format!("the program cannot run: {error:#}"))?.return_value {
        0 => Ok(skel.maps.bss_data.as_deref().ok_or(unreachable)?.peeked),
        1 => Err("the kernel has no symbol d_move".to_owned()),
        _ => Err(format!("the kernel's memory at {at:#x} cannot be read")),
    }
}

fn number_at(skel: &mut RenamesSkel<'static>, at: u64) -> Result<u32, String> {
    let bytes = peek(skel, at)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The variable that code at `base` increments twice, by `addl $1, OFFSET(%rip)`.
fn incremented_twice(base: u64, code: &[u8]) -> Option<u64> {
    const LENGTH: usize = 7;
    let target = |at: usize| -> Option<u64> {
        let [0x83, 0x05, a, b, c, d, 1] = *code.get(at..at + LENGTH)? else { return None };
        let offset = i32::from_le_bytes([a, b, c, d]);
        Some(base.wrapping_add((at + LENGTH) as u64).wrapping_add_signed(i64::from(offset)))
    };
    let found: Vec<u64> = (0..code.len()).filter_map(target).collect();
    let (first, second) = (found.first()?, found.get(1)?);
    (first == second).then_some(*first)
}

/// A folder of a file system that is mounted nowhere, and gone when it is closed.
fn unseen_folder() -> io::Result<OwnedFd> {
    let system = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(system.as_fd())?;
    Ok(rustix::mount::fsmount(system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Whether the number rises by two with each rename, and by nothing else.
fn counts_renames(mut number: impl FnMut() -> Result<u32, String>, folder: &OwnedFd) -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("a rename: {error}");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let (mut name, mut other) = ("one", "two");
    rustix::fs::openat(folder, name, flags, Mode::RUSR).map_err(failed)?;
    for _ in 0..ATTEMPTS {
        let before = number()?;
        for _ in 0..RENAMES {
            rustix::fs::renameat(folder, name, folder, other).map_err(failed)?;
            std::mem::swap(&mut name, &mut other);
        }
        let counted = number()?.wrapping_sub(before);
        if counted == 2 * RENAMES {
            return Ok(());
        }
        if counted < 2 * RENAMES {
            return Err(format!("found a number that rose by {counted} in {RENAMES} renames, needed twice as many"));
        }
    }
    Err(format!("found no moment with {RENAMES} renames and no other, in {ATTEMPTS} attempts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_the_one_that_is_incremented_twice() {
        // endbr64; addl $1, 0x10(%rip); nop; addl $1, 0x8(%rip)
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x83, 5, 0x10, 0, 0, 0, 1, 0x90, 0x83, 5, 8, 0, 0, 0, 1];
        assert_eq!(incremented_twice(0x1000, &code), Some(0x1000 + 11 + 0x10));
        assert_eq!(incremented_twice(0x1000, &code[..12]), None, "once");
        let mut other = code;
        other[14] = 0x20;
        assert_eq!(incremented_twice(0x1000, &other), None, "two variables");
        assert_eq!(incremented_twice(0, &[0x83, 5]), None);
    }

    #[test]
    fn a_number_that_does_not_count_renames_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = unseen_folder().expect("root may make one");
        assert!(counts_renames(|| Ok(7), &folder).is_err());
        let mut odd = 0;
        let counts_too_much = || {
            odd += 1000;
            Ok(odd)
        };
        assert!(counts_renames(counts_too_much, &folder).is_err());
        let found = address();
        assert!(found.is_ok_and(|at| at > 1 << 47), "{found:?}");
    }
}
