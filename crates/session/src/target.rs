//! The process of a target: a user's command, or the load worker.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use pagelab_fiojob::Workload;
use pagelab_load::process::arguments;
use pagelab_load::report::WorkerInterval;
use pagelab_load::worker::ReportReader;
use pagelab_load::{JobReport, LoadError};
use rustix::fs::FallocateFlags;

use crate::child::{Child, ChildSpec, Ended};
use crate::options::{SessionError, SessionOptions, Target};
use crate::output::{Heard, Tee};
use crate::signals;

/// The hidden command of the binary that runs a workload (see `pagelab_load::process`).
const LOAD_COMMAND: &str = "__load";

/// A target at the gate or beyond.
pub(crate) struct Started {
    /// Its process.
    pub child: Child,
    /// The process is our load worker.
    pub is_load: bool,
    told: Option<Told>,
    /// The command's output, where it goes through us.
    tee: Option<Tee>,
}

/// The load process's reports, as far as they were read.
struct Told {
    /// Memory that it writes lines into.
    file: File,
    read_bytes: u64,
    reader: ReportReader,
    /// The first malformed line.
    broken: Option<LoadError>,
}

impl Told {
    /// Reads the new lines and gives their memory back; intervals go to `each`.
    fn read_on(&mut self, mut each: impl FnMut(WorkerInterval)) {
        let mut chunk = vec![0_u8; 1 << 16];
        loop {
            let bytes = match self.file.read_at(&mut chunk, self.read_bytes) {
                Ok(0) => return,
                Ok(n) => chunk.get(..n).unwrap_or(&[]),
                Err(error) => {
                    self.broken.get_or_insert(LoadError::system("reading the load's report", error));
                    return;
                }
            };
            let begun = self.read_bytes;
            self.read_bytes += bytes.len() as u64;
            if let Err(error) = self.reader.add(bytes, &mut each) {
                self.broken.get_or_insert(error);
            }
            // Only memory is lost if that fails.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(&self.file, flags, begun, bytes.len() as u64);
        }
    }
}

fn memfd(name: &str) -> Result<File, SessionError> {
    let fd: OwnedFd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| SessionError::System { step: "memfd_create", error: error.into() })?;
    Ok(File::from(fd))
}

impl Started {
    /// Forks the target's process; it waits at the gate.
    pub(crate) fn at_gate(options: &SessionOptions) -> Result<Self, SessionError> {
        match &options.target {
            Target::Command(argv) => Self::command(options, argv),
            Target::Job(workload) => Self::load(options, workload),
            Target::Processes(_) | Target::Cgroup(_) | Target::System => {
                Err(SessionError::Target("what runs already cannot be started".to_owned()))
            }
        }
    }

    /// Forks a command; it waits at the gate. Its output goes through us where numbers of it are wanted.
    pub(crate) fn command(options: &SessionOptions, argv: &[OsString]) -> Result<Self, SessionError> {
        let mut tee = Tee::open(options).map_err(SessionError::system("preparing the command's output"))?;
        let mut spec = ChildSpec { argv: argv.to_vec(), ..spec(options) };
        if let Some(tee) = &tee {
            // Replaces the descriptors handed down before.
            spec.hand_down = tee.hand_down().collect();
        }
        let child = Child::spawn(&spec)?;
        if let Some(tee) = &mut tee {
            tee.started();
        }
        Ok(Self { child, is_load: false, told: None, tee })
    }

    fn load(options: &SessionOptions, workload: &Workload) -> Result<Self, SessionError> {
        let io = SessionError::system;
        let exe = pagelab_host::own::program().map_err(io("finding pagelab's own binary"))?;
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
        let told = Told { file: report, read_bytes: 0, reader: ReportReader::default(), broken: None };
        let child = signals::with_report_requests_held(|| Child::spawn(&spec))?;
        signals::pass_report_requests_to(i32::try_from(child.pid()).ok());
        Ok(Self { child, is_load: true, told: Some(told), tee: None })
    }

    /// What a command's output said until now; nothing where it does not go through us.
    pub(crate) fn heard(&mut self) -> Heard {
        self.tee.as_mut().map(Tee::heard).unwrap_or_default()
    }

    /// The load process's reports since the last time.
    pub(crate) fn intervals(&mut self, each: impl FnMut(WorkerInterval)) {
        if let Some(told) = &mut self.told {
            told.read_on(each);
        }
    }

    /// What the load process reported in the end; `None` for commands. Its intervals are to be taken before.
    pub(crate) fn take_report(&mut self, ended: Option<&Ended>) -> Option<Result<JobReport, SessionError>> {
        let told = self.told.take()?;
        signals::pass_report_requests_to(None);
        let how = ended.map_or_else(
            || "is still running".to_owned(),
            |ended| format!("ended with status {}", ended.shell_status()),
        );
        let status = ended.and_then(Ended::code);
        let failed = |error: LoadError| {
            // It gives its reason on standard error before it ends so.
            let reason =
                if matches!(status, Some(2 | 3)) { format!("said why and {how}") } else { format!("{how}: {error}") };
            SessionError::Load { reason, status }
        };
        Some(told.broken.map_or_else(|| told.reader.finish(), Err).map_err(failed))
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
