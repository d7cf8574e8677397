//! What loading an object file of `bpf/` takes, whichever it is: is it possible, open, share the recorded tree, load, attach; and
//! the records that its programs send.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{Iter, Link, OpenMapMut, OpenObject, PrintLevel, ProgramMut};
use pagelab_vocab::remedies::{self, Place};
use perf_event::Counter;

use super::BpfError;
use crate::btf::KernelTypes;
use crate::cpu::event_refused;

/// Includes what the build made of `NAME.bpf.c` as the module `skeleton`. Generated code is held to no lints.
macro_rules! include_skeleton {
    ($name:literal) => {
        #[allow(
            clippy::all,
            clippy::pedantic,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            missing_docs,
            unreachable_pub
        )]
        mod skeleton {
            include!(concat!(env!("OUT_DIR"), "/", $name, ".skel.rs"));
        }
    };
}
pub(crate) use include_skeleton;

/// What libbpf said since the last load began: the verifier's words are only available this way.
static LIBBPF_SAID: Mutex<String> = Mutex::new(String::new());

pub(crate) const NEEDED_TO_LOAD: &str = "root (or CAP_BPF and CAP_PERFMON), a kernel with BTF (/sys/kernel/btf/vmlinux) and raw tracepoints; try: sudo pagelab record ...";

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

fn listen_to_libbpf() {
    LIBBPF_SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        tracing::debug!(target: "libbpf", "{}", text.trim_end());
        LIBBPF_SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
    })));
}

/// The line of libbpf that says most: what the verifier objected to, else the first complaint.
fn told_by_libbpf() -> Option<String> {
    let said = LIBBPF_SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let verifier = lines().take_while(|line| !line.starts_with("processed ")).last();
    verifier.or_else(|| lines().next()).map(str::to_owned)
}

pub(crate) fn refused(step: &'static str, needed: &'static str) -> impl Fn(libbpf_rs::Error) -> BpfError {
    move |error| {
        let words = format!("{error:#}");
        let needed = remedies::needed(remedies::errno_in(&words), Place::Bpf, needed);
        let reason = told_by_libbpf().map_or_else(|| words.clone(), |said| format!("{words} ({said})"));
        BpfError::Refused { step, reason, needed }
    }
}

/// The same of an error of the system, of a step that is one of bpf(2).
pub(crate) fn refused_io(step: &'static str, needed: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |error| {
        let reason = error.to_string();
        let errno = error.raw_os_error().or_else(|| remedies::errno_in(&reason));
        BpfError::Refused { step, reason, needed: remedies::needed(errno, Place::Bpf, needed) }
    }
}

/// Why the programs could not be loaded. libbpf says no more than ESRCH when the kernel's types are missing.
pub(crate) fn not_loaded(error: libbpf_rs::Error) -> BpfError {
    if std::path::Path::new(KERNEL_BTF).exists() {
        return refused("load", NEEDED_TO_LOAD)(error);
    }
    BpfError::Refused {
        step: "load",
        reason: format!("the kernel's BTF is not there: found no {KERNEL_BTF} ({error:#})"),
        needed: "a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are, and sysfs mounted; look: grep DEBUG_INFO_BTF /boot/config-$(uname -r)",
    }
}

/// The running kernel's types, if it has the raw tracepoints without which there is nothing to see. Nothing is loaded.
///
/// # Errors
/// The reason in words.
pub(crate) fn check(tracepoints: &[&str], needed: &str) -> Result<Rc<KernelTypes>, String> {
    let kernel = KernelTypes::read()?;
    match tracepoints.iter().find(|name| !kernel.has_tracepoint(name)) {
        Some(missing) => Err(format!("the kernel has no tracepoint {missing}; needed: {needed}")),
        None => Ok(kernel),
    }
}

/// Opens an object file: its maps and constants can be set before it is loaded.
pub(crate) fn open<B: SkelBuilder<'static> + Default>(needed: &'static str) -> Result<B::Output, BpfError> {
    listen_to_libbpf();
    // The object must not move while the skeleton borrows it. It is a pointer's worth of memory per recording.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    B::default().open(storage).map_err(refused("open", needed))
}

/// Makes a map of an object file the map of another: that of the recorded tasks, mostly.
pub(crate) fn share(map: &mut OpenMapMut<'_>, with: BorrowedFd<'_>, needed: &'static str) -> Result<(), BpfError> {
    map.reuse_fd(with).map_err(refused("sharing the tree", needed))
}

/// Attaches programs to their tracepoints, in this order.
pub(crate) fn attach_all<'a, 'obj: 'a>(
    programs: impl IntoIterator<Item = (&'static str, &'a ProgramMut<'obj>)>,
    needed: &'static str,
) -> Result<Vec<Link>, BpfError> {
    let attach =
        |(name, program): (&'static str, &ProgramMut<'_>)| program.attach_trace().map_err(refused(name, needed));
    programs.into_iter().map(attach).collect()
}

/// Puts a program on a perf event, and enables the event.
pub(crate) fn attach_to_event(program: &ProgramMut<'_>, event: &mut Counter) -> Result<Link, BpfError> {
    // libbpf closes the descriptor with the link.
    // SAFETY: the counter lives, and its descriptor with it, while this is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
    let own = fd.try_clone_to_owned().map_err(event_refused)?;
    let needed = "BPF programs on perf events; look: cat /sys/kernel/security/lockdown";
    let link = program.attach_perf_event(own.as_raw_fd()).map_err(refused("attaching to a perf event", needed))?;
    let _closed_by_the_link = own.into_raw_fd();
    event.enable().map_err(event_refused)?;
    Ok(link)
}

/// Has a program look at every task there is.
///
/// # Errors
/// The kernel could not walk over its tasks.
pub(crate) fn walk_tasks(walk: &Link) -> io::Result<()> {
    let mut iter = Iter::new(walk).map_err(io::Error::other)?;
    loop {
        match iter.read(&mut [0; 1]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // The kernel lets others have the CPU and goes on.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// A record as a program sends it.
///
/// # Safety
/// It consists of integers and arrays of integers only, for which every bit pattern is a value.
pub(crate) unsafe trait WireRecord: Copy {}

/// Reads a record from the start of `bytes`; none if they are too short for one.
pub(crate) fn read<T: WireRecord>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the slice holds at least size_of::<T>() bytes, the read is unaligned, and by the trait's promise every bit pattern
    // is a value.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(C)]
    struct Two {
        one: u64,
        other: u32,
        padding: u32,
    }

    // SAFETY: integers without gaps.
    unsafe impl WireRecord for Two {}

    #[test]
    fn a_record_is_read_wherever_it_lies_and_one_cut_short_is_none() {
        let mut bytes = vec![9; 1];
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend(8_u32.to_ne_bytes());
        bytes.extend([0; 4]);
        assert_eq!(read::<Two>(&bytes[1..]), Some(Two { one: 7, other: 8, padding: 0 }));
        assert_eq!(read::<Two>(&bytes[2..]), None);
    }

    #[test]
    fn a_tracepoint_that_the_kernel_lacks_is_named_with_what_is_needed() {
        if let Err(error) = KernelTypes::read() {
            return pagelab_testing::skipped(error);
        }
        assert!(check(&["sched_switch"], "x").is_ok());
        let error = check(&["sched_switch", "no_such_point"], "a newer kernel").err();
        assert_eq!(error.as_deref(), Some("the kernel has no tracepoint no_such_point; needed: a newer kernel"));
    }
}
