//! A disposable VM with emulated persistent memory, other kernels and other boot parameters.
//!
//! ```no_run
//! use pagelab_lab::{Command, Lab, Limits, Options};
//! let lab = Lab::up(&Options::default(), &mut |event| eprintln!("{event}"))?;
//! let result = lab.run(&Command::shell("mkfs.ext4 -q /dev/pmem0 && uname -r"), &Limits::default(), &mut |_, _| {})?;
//! println!("{:?} {}", result.exit, String::from_utf8_lossy(&result.stdout.bytes));
//! Lab::down("default")?;
//! # Ok::<(), pagelab_lab::LabError>(())
//! ```
//!
//! How it works:
//!
//! - **Kernel and tools** are the distribution's own packages, fetched by apt with a configuration of the lab's own,
//!   checked against the signed lists, and unpacked without being installed. QEMU is the host's.
//! - **The guest** is an initramfs: busybox, the kernel's modules, the agent, programs of the host with their
//!   libraries. It has no disk and no network. What is in it is gone with it; a shared folder stays.
//! - **Modules of its own** (`kernel/`: a block device in memory, ext4 with another way to read DAX files) are built from
//!   sources that the library carries, against the distribution's headers, and kept in the cache.
//! - **KVM** is used where it has booted a guest since the host came up. Where it has not, that is found out by trying,
//!   with a short limit, and remembered until the host is booted again.
//! - **A supervisor** process for each lab starts QEMU and keeps the end of the console. QEMU dies with it, and it
//!   ends QEMU when `up` dies before the guest has answered.
//! - **Commands** travel over a virtio port to the agent in the guest, which runs them in process groups of their own
//!   and sends what they print in checksummed frames. A `run` that dies takes its command with it.
//! - **Whoever holds the lock** of a lab's folder is alive: supervisor and QEMU both do. Once it is free nothing runs.

mod accel;
mod apt;
mod channel;
mod console;
mod cpio;
mod elf;
mod error;
mod event;
mod folders;
#[expect(dead_code, reason = "the guest's half of the conversation is in there too")]
mod frame;
mod initramfs;
mod interrupt;
mod kmod;
mod lab;
mod modules;
mod options;
mod qemu;
mod qmp;
mod run;
mod supervisor;
mod tool;
mod up;

pub use error::{LabError, Result};
pub use event::Event;
pub use folders::Folders;
pub use interrupt::{interrupt, interrupt_on_signals};
pub use lab::{Lab, State, Status};
pub use options::{Accel, Kernel, Options, Pmem, PmemKind, Program, Vm, VmArgs, parse_bytes};
pub use qemu::Machine;
pub use run::{Command, Exit, Limits, Output, RunResult, Stream};
pub use supervisor::{Ended, SUPERVISOR_COMMAND, supervisor_main};
