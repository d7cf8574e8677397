//! The load process: hidden command `__load` of the binary.
//!
//! The workload comes as JSON on standard input, the report goes as lines of JSON to a descriptor of its own (see
//! [`crate::worker::ReportReader`]). The work starts when a byte arrives on a third descriptor, so that probes can be
//! attached to a process that does nothing yet. Exit status 0 means that a complete report was written; 2 and 3 mean
//! that nothing ran, with the reason on standard error.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pagelab_fiojob::Workload;

use crate::control::{Control, Status};
use crate::error::LoadError;
use crate::output::{Format, TerseVersion};
use crate::run::run_workload;
use crate::worker::told;

/// The arguments that [`main`] understands, to be put after the name of the hidden command. `report_fd` and `control.go_fd` must be
/// open in the new process (not close-on-exec).
pub fn arguments(control: &Control, report_fd: RawFd) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![format!("--report-fd={report_fd}").into()];
    if let Some(fd) = control.go_fd {
        arguments.push(format!("--go-fd={fd}").into());
    }
    if control.readonly {
        arguments.push("--readonly".into());
    }
    if control.bandwidth_log {
        arguments.push("--bandwidth-log".into());
    }
    arguments.push(format!("--eta={}", control.status.word()).into());
    let with_path = |name: &str, path: &PathBuf| {
        let mut argument = OsString::from(name);
        argument.push(path);
        argument
    };
    arguments.push(format!("--layouts={}", control.layouts.list()).into());
    arguments.push(format!("--terse-version={}", control.layouts.terse_version.word()).into());
    if let Some(every) = control.status_interval {
        arguments.push(format!("--status-interval-ns={}", every.as_nanos()).into());
    }
    arguments.extend(control.so_far_to.iter().map(|path| with_path("--so-far-to=", path)));
    arguments.push(with_path("--state-dir=", &control.state_dir));
    arguments.extend(control.allow_write.iter().map(|path| with_path("--allow-write=", path)));
    arguments
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<(Control, RawFd), LoadError> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut control = Control { handle_signals: true, die_with_parent: true, ..Control::default() };
    let mut report_fd = None;
    let number = |value: &[u8]| {
        std::str::from_utf8(value).ok().and_then(|text| text.parse::<RawFd>().ok()).filter(|fd| *fd >= 0)
    };
    for argument in arguments {
        let bytes = argument.as_bytes();
        let value_of = |name: &str| bytes.strip_prefix(name.as_bytes());
        let path = |value: &[u8]| PathBuf::from(OsStr::from_bytes(value));
        if let Some(value) = value_of("--report-fd=") {
            report_fd = number(value);
        } else if let Some(value) = value_of("--go-fd=") {
            control.go_fd = number(value);
        } else if let Some(value) = value_of("--state-dir=") {
            control.state_dir = path(value);
        } else if let Some(value) = value_of("--allow-write=") {
            control.allow_write.push(path(value));
        } else if let Some(value) = value_of("--so-far-to=") {
            control.so_far_to = Some(path(value));
        } else if let Some(value) = value_of("--layouts=") {
            let formats = std::str::from_utf8(value).ok().map(Format::list);
            control.layouts.formats = formats.and_then(Result::ok).unwrap_or_default();
        } else if let Some(value) = value_of("--terse-version=") {
            let version = std::str::from_utf8(value).ok().and_then(TerseVersion::from_word);
            control.layouts.terse_version = version.unwrap_or_default();
        } else if let Some(value) = value_of("--status-interval-ns=") {
            let ns = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            control.status_interval = ns.map(Duration::from_nanos);
        } else if let Some(value) = value_of("--eta=") {
            control.status = std::str::from_utf8(value).ok().and_then(Status::from_word).unwrap_or_default();
        } else if bytes == b"--readonly" {
            control.readonly = true;
        } else if bytes == b"--bandwidth-log" {
            control.bandwidth_log = true;
        } else {
            return Err(LoadError::Protocol(format!("unknown argument {}", argument.display())));
        }
    }
    let report_fd = report_fd.ok_or_else(|| LoadError::Protocol("--report-fd=N is needed".to_owned()))?;
    Ok((control, report_fd))
}

/// The load process, from its arguments (without the command's name) to its exit status: 1 if a worker failed, which the report says.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match serve(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Standard error may be closed; the exit status says it too.
            let _ = writeln!(std::io::stderr(), "pagelab: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

/// Whether the jobs did their work.
fn serve(arguments: impl Iterator<Item = OsString>) -> Result<bool, LoadError> {
    let (control, report_fd) = parse(arguments)?;
    // SAFETY: the caller opened this descriptor for the report and keeps no other use of it in this process.
    let mut out = unsafe { File::from_raw_fd(report_fd) };
    if control.die_with_parent {
        die_with_caller(&out)?;
    }
    let mut document = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut document)
        .map_err(|error| LoadError::system("reading the workload", error))?;
    let workload: Workload = serde_json::from_slice(&document)
        .map_err(|error| LoadError::Protocol(format!("the workload is not what it should be: {error}")))?;
    let mut failed = None;
    let report = run_workload(&workload, &control, &mut |line| {
        // The work goes on if the caller no longer listens; it gets the error at the end.
        if let Err(error) = out.write_all(line) {
            failed.get_or_insert(error);
        }
    })?;
    let succeeded = report.succeeded();
    let last = told::report_line(report)?;
    failed.map_or_else(|| out.write_all(&last), Err).map_err(|error| LoadError::system("writing the report", error))?;
    Ok(succeeded)
}

/// Ties this process to its caller. If the caller was killed before prctl(2) took effect, nobody is left to read the
/// report, and without this the work would go on for nobody.
fn die_with_caller(report: &File) -> Result<(), LoadError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| LoadError::system("tying the load to its parent", error))?;
    let mut report = [PollFd::new(report, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut report, Some(&now)) {
        Ok(1) => Err(LoadError::Protocol("the caller is gone".to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Layouts;

    #[test]
    fn arguments_are_read_back() {
        let control = Control {
            allow_write: vec!["/dev/loop7".into(), "/tmp/a b".into()],
            readonly: true,
            bandwidth_log: true,
            status: Status::Always,
            go_fd: Some(5),
            state_dir: "/s".into(),
            layouts: Layouts { formats: vec![Format::JsonPlus, Format::Terse], terse_version: TerseVersion::V5 },
            status_interval: Some(Duration::from_millis(1500)),
            so_far_to: Some("/x y".into()),
            ..Control::default()
        };
        let (read, fd) = parse(arguments(&control, 6).into_iter()).expect("valid");
        assert_eq!(
            (read.allow_write, read.readonly, read.status, read.go_fd, read.state_dir, fd),
            (control.allow_write, true, Status::Always, Some(5), control.state_dir, 6)
        );
        assert_eq!(
            (read.layouts, read.status_interval, read.so_far_to),
            (control.layouts, control.status_interval, control.so_far_to)
        );
        assert!(read.handle_signals && read.die_with_parent && read.bandwidth_log);
        assert!(parse(std::iter::empty()).is_err());
        assert!(parse([OsString::from("--what")].into_iter()).is_err());
        assert!(parse([OsString::from("--report-fd=x")].into_iter()).is_err());
    }
}
