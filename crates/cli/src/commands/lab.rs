//! `pagelab lab`: a disposable VM with emulated persistent memory, other kernels and other boot parameters.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use pagelab_lab::{
    Command, Exit, Lab, LabError, Limits, Machine, Options, Program, RunResult, Status, Stream, VmArgs,
    interrupt_on_signals, parse_bytes,
};
use serde_json::json;

use crate::failure::Failure;
use crate::print;
use crate::say;

/// As `timeout(1)` says that the time was over.
const TIMED_OUT: u8 = 124;
/// The lab that is meant where none is named.
const DEFAULT: &str = "default";
/// Default of --output-limit: bytes of each output of a command that are copied out of the guest.
const OUTPUT_LIMIT: &str = "16M";
/// As shells say SIGINT.
const INTERRUPTED: u8 = 130;

/// Arguments of `pagelab lab`.
#[derive(Debug, Parser)]
#[command(
    after_help = "The kernel and the guest's programs are the distribution's own packages, fetched by apt and cached; QEMU is the host's.\n\n\
                  Examples:\n  pagelab lab up --kernel 6.12 --pmem 1G --share .\n  \
                  pagelab lab run -- 'mkfs.ext4 -q /dev/pmem0 && mkdir -p /mnt && mount -o dax /dev/pmem0 /mnt'\n  \
                  pagelab lab run --timeout 60 -- cat /proc/cmdline\n  pagelab lab once --kernel 6.12 -- uname -r\n  pagelab lab status\n  pagelab lab down"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Boot a lab; it stays up until it is taken down.
    Up(Box<UpArgs>),
    /// Run a command in it: one word is a line for the guest's shell, several are a program and its arguments.
    Run(RunArgs),
    /// Boot a lab for one command, and end it.
    Once(Box<OnceArgs>),
    /// End a lab, whatever state it is in; what was in it is gone.
    Down(DownArgs),
    /// What labs there are, and how they are.
    Status(StatusArgs),
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// One lab of each name.
    #[arg(long, default_value = DEFAULT)]
    name: String,
    #[command(flatten)]
    vm: VmArgs,
    /// A folder that the guest sees as /share, to read and to write.
    #[arg(long, value_name = "DIR")]
    share: Option<PathBuf>,
    /// Leave pagelab itself out of the guest: a smaller initramfs, for guests of less than 512 MiB.
    #[arg(long)]
    no_pagelab: bool,
    /// Put this pagelab into the guest: the default.
    #[arg(long, hide = true, conflicts_with = "no_pagelab")]
    pagelab: bool,
    /// Seconds that one boot may take; a boot that hangs is tried again.
    #[arg(long, default_value_t = 90, value_name = "SECONDS")]
    boot_limit: u64,
    /// Read the package lists anew even if they are not old.
    #[arg(long)]
    refresh: bool,
    /// Print one JSON document on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The lab.
    #[arg(long, default_value = DEFAULT)]
    name: String,
    /// Seconds that it may take; then it is killed, and the status is 124.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Copy at most SIZE bytes of each output; count the rest.
    #[arg(long, default_value = OUTPUT_LIMIT, value_name = "SIZE")]
    output_limit: String,
    /// Print one JSON document on standard output, with the outputs in it.
    #[arg(long)]
    json: bool,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct OnceArgs {
    #[command(flatten)]
    up: UpArgs,
    /// Seconds that the command may take; then it is killed, and the status is 124.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// The command, as `lab run` takes it.
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct DownArgs {
    /// The lab.
    #[arg(long, default_value = DEFAULT, conflicts_with = "all")]
    name: String,
    /// All there are.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Of this lab alone.
    #[arg(long)]
    name: Option<String>,
    /// Print one JSON document on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    interrupt_on_signals();
    let done = match &args.command {
        What::Up(args) => up(args),
        What::Run(args) => in_guest(args),
        What::Once(args) => once(args),
        What::Down(args) => down(args),
        What::Status(args) => status(args),
    };
    match done {
        Err(Trouble::Lab(LabError::Interrupted)) => {
            say!("pagelab: {}", LabError::Interrupted);
            Ok(INTERRUPTED)
        }
        Err(Trouble::Lab(error)) if error.exit_status() == 2 => Err(Failure::input(error)),
        Err(Trouble::Lab(error)) => Err(Failure::host(error)),
        Err(Trouble::Own(failure)) => Err(failure),
        Ok(status) => Ok(status),
    }
}

/// What went wrong, in the lab or on the way to print it.
enum Trouble {
    Lab(LabError),
    Own(Failure),
}

impl From<LabError> for Trouble {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Own(failure)
    }
}

impl UpArgs {
    fn options(&self) -> Result<Options, LabError> {
        let own = pagelab_host::own::program().ok().filter(|_| !self.no_pagelab).map(Program::stripped);
        Ok(Options {
            name: self.name.clone(),
            vm: self.vm.vm()?,
            share: self.share.clone(),
            programs: self.vm.programs.iter().map(Program::whole).chain(own).collect(),
            boot_limit: Duration::from_secs(self.boot_limit),
            refresh: self.refresh,
            ..Options::default()
        })
    }
}

fn up(args: &UpArgs) -> Result<u8, Trouble> {
    let lab = Lab::up(&args.options()?, &mut |event| say!("pagelab: {event}"))?;
    let state = &lab.state;
    if args.json {
        print::json(state)?;
        return Ok(0);
    }
    let pmem = state
        .pmem_bytes
        .map_or_else(|| "no persistent memory".to_owned(), |bytes| format!("{} of it persistent", mib(bytes)));
    print::text(&format!(
        "{} is up: Linux {}, {} CPUs, {} of memory, {pmem}, {}\nrun in it: pagelab lab run --name {} -- CMD\n",
        args.name,
        state.release,
        state.cpus,
        mib(state.memory_bytes),
        kind(state.machine),
        args.name
    ))?;
    Ok(0)
}

/// A lab that is taken down, however the work in it ends.
struct Down<'a>(&'a str);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        if let Err(error) = Lab::down(self.0) {
            say!("pagelab: {error}; type: pagelab lab down --name {}", self.0);
        }
    }
}

fn once(args: &OnceArgs) -> Result<u8, Trouble> {
    let mut options = args.up.options()?;
    if options.name == DEFAULT {
        options.name = format!("once-{}", std::process::id());
    }
    Lab::up(&options, &mut |event| say!("pagelab: {event}"))?;
    let _down = Down(&options.name);
    in_guest(&RunArgs {
        name: options.name.clone(),
        timeout: args.timeout,
        output_limit: OUTPUT_LIMIT.to_owned(),
        json: args.up.json,
        command: args.command.clone(),
    })
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// How far times in it can be trusted.
fn kind(machine: Machine) -> String {
    match machine {
        Machine::Tcg => "emulated (times in it are no measure)".to_owned(),
        Machine::Kvm => machine.name().to_owned(),
    }
}

fn in_guest(args: &RunArgs) -> Result<u8, Trouble> {
    let lab = Lab::open(&args.name)?;
    let command = match args.command.as_slice() {
        [line] => Command::shell(line),
        words => Command::new(words),
    };
    let limit = parse_bytes("--output-limit", &args.output_limit)?;
    let time = args.timeout.map(Duration::from_secs);
    let limits = Limits { time, stdout_bytes: limit, stderr_bytes: limit, ..Limits::default() };
    let json = args.json;
    let result = lab.run(&command, &limits, &mut |stream, bytes| {
        // A reader that has gone needs no output; how the command ended is told all the same.
        let _ = match stream {
            _ if json => Ok(()),
            Stream::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            Stream::Stderr => std::io::stderr().write_all(bytes),
        };
    })?;
    if args.json {
        print::json(&document(&result))?;
    }
    for (name, output) in [("standard output", &result.stdout), ("standard error", &result.stderr)] {
        if output.dropped_bytes() > 0 {
            let (all, kept) = (output.written_bytes, output.bytes.len());
            say!("pagelab: {name}: {all} bytes written, the first {kept} kept; try: --output-limit {all}");
        }
    }
    if result.interrupted {
        return Ok(INTERRUPTED);
    }
    if result.timed_out {
        say!("pagelab: the command was killed after {:.1} s", result.took.as_secs_f64());
        return Ok(TIMED_OUT);
    }
    Ok(u8::try_from(result.exit.status()).unwrap_or(u8::MAX))
}

fn document(result: &RunResult) -> serde_json::Value {
    let signal = match result.exit {
        Exit::Signal(signal) => Some(signal),
        Exit::Status(_) => None,
    };
    json!({
        "status": result.exit.status(),
        "signal": signal,
        "timed_out": result.timed_out,
        "interrupted": result.interrupted,
        "took_ns": result.took.as_nanos() as u64,
        "stdout": String::from_utf8_lossy(&result.stdout.bytes),
        "stdout_bytes": result.stdout.written_bytes,
        "stderr": String::from_utf8_lossy(&result.stderr.bytes),
        "stderr_bytes": result.stderr.written_bytes,
        "console": result.console,
    })
}

fn down(args: &DownArgs) -> Result<u8, Trouble> {
    let names = if args.all { Lab::names() } else { vec![args.name.clone()] };
    for name in names {
        if !Lab::down(&name)? {
            say!("pagelab: there is no lab {name}; look: pagelab lab status");
        }
    }
    Ok(0)
}

fn status(args: &StatusArgs) -> Result<u8, Trouble> {
    let names = args.name.clone().map_or_else(Lab::names, |name| vec![name]);
    let mut found = Vec::new();
    for name in names {
        found.extend(Lab::status(&name)?);
    }
    if args.json {
        print::json(&found)?;
        return Ok(0);
    }
    let mut text = String::new();
    for one in &found {
        let _ = writeln!(text, "{}", line(one));
    }
    if found.is_empty() {
        text.push_str("no lab; type: pagelab lab up\n");
    }
    print::text(&text)?;
    Ok(0)
}

fn line(status: &Status) -> String {
    let state = status.state.as_ref().map_or_else(
        || "coming up".to_owned(),
        |state| format!("Linux {}, {} CPUs, {}", state.release, state.cpus, kind(state.machine)),
    );
    let how = match (status.alive, &status.ended) {
        (true, _) => format!("up, process {}", status.qemu_pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string())),
        (false, Some(ended)) => format!("ended: {}", ended.how),
        (false, None) => "not running".to_owned(),
    };
    format!("{}: {how}; {state}", status.name)
}
