//! The process of a target: a user's command, or the load worker.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use pagelab_load::worker::{arguments, read_report};
use pagelab_load::{JobReport, Workload};

use crate::child::{Child, ChildSpec, Ended};
use crate::options::{SessionError, SessionOptions, Target};

/// The hidden command of the binary that runs a workload (see `pagelab_load::worker`).
const LOAD_COMMAND: &str = "__load";

/// A target at the gate or beyond.
pub struct Started {
    /// Its process.
    pub child: Child,
    /// The process is our load worker.
    pub is_load: bool,
    report: Option<File>,
}

fn memfd(name: &str) -> Result<File, SessionError> {
    let fd: OwnedFd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| SessionError::System { step: "memfd_create", error: error.into() })?;
    Ok(File::from(fd))
}

impl Started {
    /// Forks the target's process; it waits at the gate.
    pub fn at_gate(options: &SessionOptions) -> Result<Self, SessionError> {
        match &options.target {
            Target::Command(argv) => {
                let spec = ChildSpec { argv: argv.clone(), ..spec(options) };
                Ok(Self { child: Child::spawn(&spec)?, is_load: false, report: None })
            }
            Target::Job(workload) => Self::load(options, workload),
        }
    }

    fn load(options: &SessionOptions, workload: &Workload) -> Result<Self, SessionError> {
        let io = SessionError::system;
        let exe = std::env::current_exe().map_err(io("finding pagelab's own binary"))?;
        let mut input = memfd("pagelab-workload")?;
        let text = serde_json::to_vec(workload).map_err(|error| io("handing over the workload")(error.into()))?;
        input.write_all(&text).map_err(io("handing over the workload"))?;
        input.seek(SeekFrom::Start(0)).map_err(io("handing over the workload"))?;
        let report = memfd("pagelab-report")?;
        let mut argv = vec![exe.into_os_string(), OsString::from(LOAD_COMMAND)];
        argv.extend(arguments(&options.load, report.as_raw_fd()));
        let mut spec = ChildSpec { argv, dies_with_recorder: true, ..spec(options) };
        // The report keeps its number, so that it cannot land on a descriptor that is still needed.
        spec.hand_down.extend([(input.as_raw_fd(), 0), (report.as_raw_fd(), report.as_raw_fd())]);
        Ok(Self { child: Child::spawn(&spec)?, is_load: true, report: Some(report) })
    }

    /// What the load worker reported; `None` for commands.
    pub fn take_report(&mut self, ended: Option<&Ended>) -> Option<Result<JobReport, SessionError>> {
        let mut file = self.report.take()?;
        let how = ended.map_or_else(
            || "is still running".to_owned(),
            |ended| format!("ended with status {}", ended.shell_status()),
        );
        let status = ended.and_then(Ended::code);
        let failed = |what: String| SessionError::Load { reason: format!("{how}: {what}"), status };
        let rewound = file.seek(SeekFrom::Start(0)).map_err(SessionError::system("reading the load's report"));
        Some(rewound.and_then(|_| read_report(file).map_err(|error| failed(error.to_string()))))
    }
}

fn spec(options: &SessionOptions) -> ChildSpec {
    let mut hand_down = Vec::new();
    if options.stdout_to_stderr {
        hand_down.push((2, 1));
    }
    ChildSpec {
        argv: Vec::new(),
        cwd: options.cwd.clone(),
        settings: options.process_settings.clone(),
        dies_with_recorder: false,
        own_group: options.own_group,
        hand_down,
    }
}
