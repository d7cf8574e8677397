//! What can go wrong, each with the value found, the value needed and the command to type.

use std::io;
use std::path::Path;

/// Why a lab was not brought up, or a command in it not run. Nothing is left running by an `up` that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// An option that cannot be.
    #[error("{option}: found {found}, needed {needed}")]
    Option {
        /// Which one, as the command line calls it.
        option: &'static str,
        /// The value given.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// There is a lab of this name already.
    #[error("lab `{name}` is up (process {pid}); needed: none; type: pagelab lab down --name {name}")]
    AlreadyUp {
        /// Its name.
        name: String,
        /// The process that supervises it; 0 if it is only just coming up.
        pid: u32,
    },
    /// There is no lab of this name.
    #[error("lab `{name}`: found none that is up, needed one; type: pagelab lab up --name {name}")]
    NotUp {
        /// The name asked for.
        name: String,
    },
    /// A program of the host that the lab needs.
    #[error("{program}: not found on this host; type: apt-get install {package}")]
    ProgramMissing {
        /// Its name.
        program: String,
        /// The Debian package that has it.
        package: String,
    },
    /// A program asked for by the user.
    #[error("program {program} for the guest: {why}")]
    Program {
        /// As it was given.
        program: String,
        /// What is wrong with it.
        why: String,
    },
    /// The package lists know no such package.
    #[error(
        "package {package}: not found in the lists of {suites}; type: pagelab lab up --refresh, or name another kernel"
    )]
    PackageNotFound {
        /// Its name, or the pattern of its name.
        package: String,
        /// Where it was looked for.
        suites: String,
    },
    /// A package is not what the signed lists promise.
    #[error(
        "{file}: SHA-256 found {found}, needed {needed}, and once more after it was fetched anew; type: pagelab lab up --refresh"
    )]
    Checksum {
        /// The file.
        file: String,
        /// Its sum.
        found: String,
        /// What the list says.
        needed: String,
    },
    /// The package manager failed.
    #[error("{command}: {said}")]
    PackageManager {
        /// The command line.
        command: String,
        /// The end of its output.
        said: String,
    },
    /// A disk is full.
    #[error("{path}: {found_bytes} bytes free, needed {}; make room, or set PAGELAB_LAB_DIR to a folder elsewhere", needed(*.needed_bytes))]
    NoSpace {
        /// A path on the disk.
        path: String,
        /// Bytes free.
        found_bytes: u64,
        /// Bytes needed, as far as known; 0 if not.
        needed_bytes: u64,
    },
    /// A kernel package without what a lab needs of it.
    #[error("{kernel}: {why}")]
    Kernel {
        /// The package or its folder.
        kernel: String,
        /// What is missing.
        why: String,
    },
    /// A module of the lab's own could not be built.
    #[error("module {module}: building it for Linux {release} failed: {said}")]
    Build {
        /// Its name.
        module: &'static str,
        /// The kernel, as `uname -r` says it.
        release: String,
        /// The end of what make said.
        said: String,
    },
    /// QEMU ended by itself before the guest answered.
    #[error("QEMU ended ({how}) before the guest answered; it said:\n{said}{}", console_words(.console))]
    QemuFailed {
        /// How it ended.
        how: String,
        /// Its output.
        said: String,
        /// The end of the guest's console.
        console: String,
    },
    /// The guest did not answer in time, in any attempt.
    #[error("the guest did not answer in {limit_s} s, {attempts} times; its console ends with:\n{}", shown(.console))]
    BootHang {
        /// The limit for each attempt.
        limit_s: u64,
        /// How often it was tried.
        attempts: u32,
        /// The end of the console.
        console: String,
    },
    /// The guest's kernel gave up.
    #[error("the guest panicked: {what}; its console ends with:\n{}", shown(.console))]
    GuestPanic {
        /// The kernel's words.
        what: String,
        /// The end of the console.
        console: String,
    },
    /// The guest does not answer any more.
    #[error(
        "the guest has not answered for {waited_s} s; type: pagelab lab down --name {name}; its console ends with:\n{console}"
    )]
    GuestHang {
        /// The lab.
        name: String,
        /// So long.
        waited_s: u64,
        /// The end of the console.
        console: String,
    },
    /// The guest is gone: switched off, or QEMU was killed.
    #[error("the guest is gone ({how}); its console ends with:\n{}", shown(.console))]
    GuestGone {
        /// How QEMU ended.
        how: String,
        /// The end of the console.
        console: String,
    },
    /// The guest is up, but not as it was asked for.
    #[error(
        "the guest is not what was asked for: {what}: found {found}, needed {needed}; its console ends with:\n{console}"
    )]
    NotAsAsked {
        /// What differs.
        what: &'static str,
        /// What there is.
        found: String,
        /// The request.
        needed: String,
        /// The end of the console.
        console: String,
    },
    /// A command could not be started in the guest.
    #[error("the guest could not start it: {why}")]
    NotStarted {
        /// Why.
        why: String,
    },
    /// Another `run` has the lab, and did not let go of it in time.
    #[error("lab `{name}` is busy with another command; waited {waited_s} s; wait for it, or end it")]
    Busy {
        /// The lab.
        name: String,
        /// So long.
        waited_s: u64,
    },
    /// The process that supervises QEMU did not start.
    #[error("the lab's supervisor did not start ({exe}): {why}")]
    Supervisor {
        /// The program started.
        exe: String,
        /// What went wrong.
        why: String,
    },
    /// Broken off by [`crate::interrupt`].
    #[error("interrupted; nothing of it is left")]
    Interrupted,
    /// A file or folder.
    #[error("{path}: {why}")]
    Io {
        /// Which.
        path: String,
        /// What went wrong.
        why: String,
    },
}

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    /// A stable word for the kind of the error, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Option { .. } => "option",
            Self::AlreadyUp { .. } => "already_up",
            Self::NotUp { .. } => "not_up",
            Self::ProgramMissing { .. } => "program_missing",
            Self::Program { .. } => "program",
            Self::PackageNotFound { .. } => "package_not_found",
            Self::Checksum { .. } => "checksum",
            Self::PackageManager { .. } => "package_manager",
            Self::NoSpace { .. } => "no_space",
            Self::Kernel { .. } => "kernel",
            Self::Build { .. } => "build",
            Self::QemuFailed { .. } => "qemu_failed",
            Self::BootHang { .. } => "boot_hang",
            Self::GuestPanic { .. } => "guest_panic",
            Self::GuestHang { .. } => "guest_hang",
            Self::GuestGone { .. } => "guest_gone",
            Self::NotAsAsked { .. } => "not_as_asked",
            Self::NotStarted { .. } => "not_started",
            Self::Busy { .. } => "busy",
            Self::Supervisor { .. } => "supervisor",
            Self::Interrupted => "interrupted",
            Self::Io { .. } => "io",
        }
    }

    /// The exit status of a command that ends with this: 2 if the request is wrong, 3 if the host, or the guest on it,
    /// cannot carry it out, 130 if it was interrupted.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Option { .. } | Self::AlreadyUp { .. } | Self::NotUp { .. } => 2,
            Self::Program { .. } | Self::NotStarted { .. } => 2,
            // As a shell says it of what SIGINT ended.
            Self::Interrupted => 130,
            _ => 3,
        }
    }

    /// For `map_err`: an error at a path. A full disk is kept apart from everything else.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace {
                path: path.display().to_string(),
                found_bytes: free_bytes(path).unwrap_or(0),
                needed_bytes: 0,
            },
            _ => Self::Io { path: path.display().to_string(), why: error.to_string() },
        }
    }
}

/// Bytes that may still be written to the disk of the path, or of the nearest folder above it that exists.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = path.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fails early, and in words, where something big is about to be written.
pub(crate) fn need_space(path: &Path, needed_bytes: u64) -> Result<()> {
    match free_bytes(path) {
        Some(found_bytes) if found_bytes < needed_bytes => {
            Err(LabError::NoSpace { path: path.display().to_string(), found_bytes, needed_bytes })
        }
        _ => Ok(()),
    }
}

fn needed(bytes: u64) -> String {
    if bytes == 0 { "more".to_owned() } else { bytes.to_string() }
}

fn shown(console: &str) -> &str {
    if console.is_empty() { "(nothing)" } else { console }
}

fn console_words(console: &str) -> String {
    if console.is_empty() { String::new() } else { format!("\nthe guest's console ends with:\n{console}") }
}
