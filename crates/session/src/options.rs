//! What a session is asked to do, how it ends, and why it may not begin.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pagelab_fiojob::Workload;
use pagelab_host::process::ProcessSettings;
use pagelab_load::{Control, JobReport};
use pagelab_observe::cpu::{Frequency, Unwinding};
use pagelab_observe::streams::{Stream, StreamSet};
use pagelab_observe::watcher::ProbeOptions;
use pagelab_recording::{Manifest, SpoolOptions};

use crate::child::{Ended, SpawnError, remedy_at};
use crate::output::Output;
use crate::values::{ValueFound, ValueSpec};

/// Bytes of fault ring per CPU, if nobody says otherwise: 200 ms of the greatest rate of faults seen.
pub(crate) const DEFAULT_RING_BYTES: usize = 4 << 20;

/// Time between two samples of the metrics, if nobody says otherwise.
pub(crate) const DEFAULT_METRICS_INTERVAL: Duration = Duration::from_millis(100);

/// What is recorded.
#[derive(Debug, Clone)]
pub enum Target {
    /// A command with its arguments.
    Command(Vec<OsString>),
    /// A fio workload, run by pagelab's own engines in a process of its own.
    Job(Box<Workload>),
    /// Running processes with all their threads, and the children they fork from now on.
    Processes(Vec<u32>),
    /// All tasks of the cgroup with this folder and of those below it, as long as they are in it.
    Cgroup(PathBuf),
    /// The whole system but for the recorder.
    System,
}

impl Target {
    /// Whether the session starts it; else it runs already.
    pub fn is_started(&self) -> bool {
        matches!(self, Self::Command(_) | Self::Job(_))
    }
}

/// Everything a session needs to know.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// What is recorded.
    pub target: Target,
    /// The recording's directory; it must not exist, or be empty.
    pub out: PathBuf,
    /// What to observe.
    pub streams: StreamSet,
    /// Go on without streams that were asked for by name and refused.
    pub best_effort: bool,
    /// What the user calls this recording.
    pub label: Option<String>,
    /// Variant of the experiment.
    pub variant: Option<String>,
    /// Number of the run within its variant.
    pub run: Option<u64>,
    /// Round of the experiment.
    pub round: Option<u64>,
    /// Position in the round.
    pub position: Option<u64>,
    /// Seed of the experiment's random choices.
    pub seed: Option<u64>,
    /// Environment, limits and memory policy of the target.
    pub process_settings: ProcessSettings,
    /// Working directory of the target.
    pub cwd: Option<PathBuf>,
    /// A command to run along with a target that runs already: recording ends when it does. It is not part of the
    /// target, unless that is the whole system.
    pub during: Option<Vec<OsString>>,
    /// Longest time the target may take; it is then ended, with its children.
    pub timeout: Option<Duration>,
    /// Time from the start of the target (or of the session) to the start of recording. Nothing is attached meanwhile.
    pub skip: Option<Duration>,
    /// Time after which recording ends. A command is then asked to end (SIGTERM), as `perf stat --timeout` does.
    pub duration: Option<Duration>,
    /// Size of the recording at which recording ends; the target goes on.
    pub max_bytes: Option<u64>,
    /// Keep only what happened in this time before the end: a flight recorder. It ends on SIGUSR2, too; the target goes on.
    pub keep_last: Option<Duration>,
    /// Let the kernel count the run time of BPF programs, which costs time itself.
    pub bpf_stats: bool,
    /// Nice value at which the recording is closed, if that is lower in priority: naming code and making rollups takes tenths of a
    /// second of a processor.
    pub close_nice: Option<i32>,
    /// Per cent of the machine's CPU time that the recorder may take; above it, it sheds the most expensive stream.
    pub budget_pct: Option<f64>,
    /// Give the target a process group of its own, as runs without a terminal have.
    pub own_group: bool,
    /// Send the target's standard output to standard error, so that standard output holds pagelab's document alone.
    pub stdout_to_stderr: bool,
    /// Where the output of a command goes.
    pub output: Output,
    /// Numbers to look for in the output of a command.
    pub values: Vec<ValueSpec>,
    /// Record on when a command has ended, until the last task that it has left behind has.
    pub follow: bool,
    /// Bytes of fault ring per CPU.
    pub ring_bytes_per_cpu: usize,
    /// One in this many minor faults is sampled when it ends, in addition to all major ones; 0: none is.
    pub fault_details: u64,
    /// How the profile finds the stacks of user space.
    pub unwinding: Unwinding,
    /// Samples a second and CPU; none: as many as suit how the profile was asked for.
    pub frequency_hz: Option<u64>,
    /// Time between two samples of the metrics.
    pub metrics_interval: Duration,
    /// The recording's directory is a spool of this size, from which it is copied to a store.
    pub spool: Option<SpoolOptions>,
    /// Flush every part to the device.
    pub durable: bool,
    /// The user's decisions about jobs outside the job file: files they may write to, whether they report progress.
    pub load: Control,
}

impl SessionOptions {
    /// How often the profile samples: in full if it is requested by name, cheaply where it comes with other streams.
    fn frequency(&self) -> Frequency {
        let usual = if self.streams.names(Stream::Cpu) { Frequency::FULL } else { Frequency::CHEAP };
        self.frequency_hz.map_or(usual, Frequency::of)
    }

    /// What the probes must know of it.
    pub(crate) fn for_probes(&self) -> ProbeOptions {
        ProbeOptions {
            streams: self.streams.clone(),
            starts_target: self.target.is_started(),
            starts_late: self.skip.is_some(),
            ring_bytes_per_cpu: self.ring_bytes_per_cpu,
            fault_details: self.fault_details,
            unwinding: self.unwinding,
            frequency: self.frequency(),
        }
    }

    /// Options for `target` recorded into `out`, everything else as usual.
    pub fn new(target: Target, out: PathBuf) -> Self {
        Self {
            target,
            out,
            streams: StreamSet::default(),
            best_effort: false,
            label: None,
            variant: None,
            run: None,
            round: None,
            position: None,
            seed: None,
            process_settings: ProcessSettings::default(),
            cwd: None,
            during: None,
            timeout: None,
            skip: None,
            duration: None,
            max_bytes: None,
            keep_last: None,
            bpf_stats: false,
            close_nice: None,
            budget_pct: None,
            own_group: false,
            stdout_to_stderr: false,
            output: Output::Shown,
            values: Vec::new(),
            follow: false,
            ring_bytes_per_cpu: DEFAULT_RING_BYTES,
            fault_details: pagelab_observe::details::ONE_IN,
            unwinding: Unwinding::Auto,
            frequency_hz: None,
            metrics_interval: DEFAULT_METRICS_INTERVAL,
            spool: None,
            durable: false,
            load: Control::default(),
        }
    }
}

/// How a session ended.
#[derive(Debug, Clone)]
pub struct SessionOutcome {
    /// The recording.
    pub dir: PathBuf,
    /// How the target ended, or the command that ran with it; none if it was not ours, or still running when recording
    /// was aborted.
    pub ended: Option<Ended>,
    /// What the load reported, for jobs.
    pub report: Option<JobReport>,
    /// The manifest as written.
    pub manifest: Manifest,
    /// The timeout struck.
    pub timed_out: bool,
    /// A signal ended the session early.
    pub interrupted: bool,
    /// The numbers looked for in the command's output, in the order of the options.
    pub values: Vec<ValueFound>,
    /// The last line of a hidden output, without control characters.
    pub last_line: Option<String>,
    /// Things the user should know.
    pub warnings: Vec<String>,
}

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A stream asked for by name cannot be had.
    #[error("--observe {stream}: refused: {reason}; to go on without it: --best-effort")]
    StreamRefused {
        /// Its name.
        stream: &'static str,
        /// Why, what is needed, what to type.
        reason: String,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] pagelab_recording::Error),
    /// The command cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no such target, or it is not this user's.
    #[error("{0}")]
    Target(String),
    /// The host cannot do what was requested.
    #[error("{0}")]
    Host(String),
    /// The load process ran nothing: the job is wrong or refused (2), or the host cannot do it (3). It has said why.
    #[error("the load process {reason}")]
    Load {
        /// How it ended.
        reason: String,
        /// Its exit status; none if a signal ended it.
        status: Option<i32>,
    },
    /// The system refused something that always works.
    #[error("{step}: {error}{}", remedy_at(step, error))]
    System {
        /// The attempted step.
        step: &'static str,
        /// What the kernel said.
        error: std::io::Error,
    },
}

impl SessionError {
    /// What failed and the kernel's answer, as an error of the system.
    pub(crate) fn system(step: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System { step, error }
    }
}
