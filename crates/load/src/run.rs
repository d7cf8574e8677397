//! Running a workload in this process: plan, prepare, work, report.

use std::io::Write as _;
use std::path::Path;

use pagelab_fiojob::Workload;
use pagelab_fiojob::value::Choice as _;
use pagelab_vocab::terminal::{Allow, Escaping};
use rustix::process::Signal;

use crate::clock::{Clock, ClockReport, Clocks, monotonic_ns, realtime_ns};
use crate::control::Control;
use crate::disks::{DiskUse, DiskWatch};
use crate::error::LoadError;
use crate::layout;
use crate::output::{self, Format};
use crate::plan::{self, TargetPlan};
use crate::replay;
use crate::report::{JobReport, Window, WorkerReport};
use crate::safety;
use crate::segments;
use crate::shared::Shared;
use crate::signals;
use crate::worker::spawn::{self, Crew, Listeners};

/// Version of the report's format.
const REPORT_FORMAT: u32 = 1;

/// Runs a workload: makes its files ready, starts its workers, waits for them. `tell` gets a line of JSON for every second of every
/// worker, as they pass; the report is without them.
///
/// Call it from a process of its own (see [`crate::process::main`]): it forks workers, and its signal handlers and SIGBUS guard belong to the process.
///
/// # Errors
/// Nothing ran: the job asks for the impossible, the host lacks something, data could be destroyed. Later errors are in
/// the report.
pub fn run_workload(
    workload: &Workload,
    control: &Control,
    tell: &mut dyn FnMut(&[u8]),
) -> Result<JobReport, LoadError> {
    obey(control)?;
    if control.readonly {
        must_not_write(workload)?;
    }
    let started = Started { realtime_ns: realtime_ns(), ns: monotonic_ns() };
    let (workload, replays) = &replay::read(workload)?;
    let mut plan = plan::plan_with(workload, replays, &|path, job| safety::inspect(path, job))?;
    let clocks = Clocks::measure(Path::new("/"));
    let per_job: Vec<Clock> =
        workload.jobs.iter().map(|job| clocks.choose(job.options.clocksource)).collect::<Result<_, _>>()?;
    let refusals = segments::separate(workload);
    let shared = Shared::new(plan.workers.len())?;
    let handling = signals::Handling::new(&shared);
    let prepared = layout::prepare(&plan, workload, control, &|| shared.stopped())?;
    plan.grant(&prepared.permits);
    plan.open_through(&prepared.nameless);
    let crew = Crew {
        plan: &plan,
        workload,
        clocks: &per_job,
        shared: &shared,
        state_dir: &control.state_dir,
        allow_write: &control.allow_write,
        status: control.status,
        bandwidth_log: control.bandwidth_log,
        status_interval: control.status_interval,
    };
    let wanted = |target: &&TargetPlan| workload.jobs.get(target.job).is_some_and(|job| job.options.disk_util);
    let disks =
        DiskWatch::begin(Path::new("/"), plan.targets.iter().filter(wanted).map(|target| target.path.as_path()));
    let assemble = |workers: Vec<WorkerReport>| {
        let clock = clocks.report(workload.jobs.first().map_or_else(Default::default, |job| job.options.clocksource));
        assemble(workload, &plan, started, workers, disks.so_far(), clock)
    };
    let mut printed = Printed::default();
    let mut so_far = |workers| printed.print(assemble(workers), control);
    let mut listeners = Listeners { line: tell, so_far: &mut so_far };
    let results = match spawn::run(&crew, &mut listeners) {
        Ok(results) => results,
        Err(error) => {
            layout::discard(&prepared, control);
            return Err(error);
        }
    };
    let mut report = assemble(results.into_iter().map(|result| result.report).collect());
    drop(handling);
    (report.heading_printed, report.interrupted_by) = (printed.heading, shared.signal());
    let warnings = &mut report.warnings;
    warnings.clone_from(&workload.warnings);
    warnings.extend(commands_run(workload).into_iter().chain(refusals));
    warnings.extend(plan.warnings.iter().cloned());
    warnings.extend(prepared.warnings.iter().cloned());
    warnings.extend(layout::unlink(&prepared, control));
    warn(workload, &report.workers, &report.clock, warnings);
    Ok(report)
}

/// When a run began.
#[derive(Clone, Copy)]
struct Started {
    realtime_ns: u64,
    ns: u64,
}

/// The report of these workers, until now and without warnings.
fn assemble(
    workload: &Workload,
    plan: &plan::Plan,
    started: Started,
    workers: Vec<WorkerReport>,
    disks: Vec<DiskUse>,
    clock: ClockReport,
) -> JobReport {
    JobReport {
        format: REPORT_FORMAT,
        pagelab_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_realtime_ns: started.realtime_ns,
        run: Window { start_ns: started.ns, end_ns: monotonic_ns() },
        window: workers.iter().filter_map(|worker| worker.window).reduce(Window::hull),
        operations: workers.iter().map(WorkerReport::operations).sum(),
        bytes: workers.iter().map(WorkerReport::bytes).sum(),
        disks,
        clock,
        seeds: plan.seeds.clone(),
        workload: workload.clone(),
        workers,
        warnings: Vec::new(),
        interrupted_by: None,
        heading_printed: false,
        eta_s: None,
    }
}

/// Reports printed while the work goes on.
#[derive(Default)]
struct Printed {
    /// The heading of the text is printed, which comes once.
    heading: bool,
}

impl Printed {
    /// Prints a report of what was measured so far where the caller wants it.
    fn print(&mut self, mut report: JobReport, control: &Control) {
        report.heading_printed = self.heading;
        report.eta_s = Some(eta_s(&report));
        self.heading |= control.layouts.formats.contains(&Format::Normal);
        let Ok(text) = output::render(&report, &control.layouts) else { return };
        let written = if let Some(path) = &control.so_far_to {
            std::fs::File::options().append(true).open(path).and_then(|mut out| out.write_all(text.as_bytes()))
        } else {
            // Names in it were chosen by whoever wrote the job.
            let mut out = Escaping::new(std::io::stdout().lock(), Allow::Lines);
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
        if let Err(error) = written {
            // The work is worth more than this report of it.
            let _ = writeln!(std::io::stderr(), "pagelab: warning: a report of the run so far is lost: {error}");
        }
    }
}

/// Seconds until the last job ends, as far as runtimes tell; of jobs without one fio says as much.
fn eta_s(report: &JobReport) -> u64 {
    const UNKNOWN: u64 = i32::MAX.unsigned_abs() as u64;
    let left = |worker: &WorkerReport| {
        let runtime_ns = report.workload.jobs.get(worker.job)?.options.runtime.0;
        let gone_ns = report.run.end_ns.saturating_sub(worker.window?.start_ns);
        (runtime_ns > 0).then(|| runtime_ns.saturating_sub(gone_ns).div_ceil(1_000_000_000))
    };
    report.workers.iter().map(|worker| left(worker).unwrap_or(UNKNOWN)).max().unwrap_or(UNKNOWN)
}

/// The commands of the job files that were run, for the report and the recording.
fn commands_run(workload: &Workload) -> Vec<String> {
    let mut said = Vec::new();
    for job in &workload.jobs {
        for (when, command) in [("prerun", &job.options.exec_prerun), ("postrun", &job.options.exec_postrun)] {
            if let Some(command) = command {
                said.push(format!("job '{0}': exec_{when}={command}: what it printed is in {0}.{when}.txt", job.name));
            }
        }
    }
    said
}

/// Refuses a workload with a job that writes, as fio's `--readonly` does.
///
/// # Errors
/// The first job that writes.
pub fn must_not_write(workload: &Workload) -> Result<(), LoadError> {
    let Some(job) = workload.first_writer() else { return Ok(()) };
    Err(LoadError::Target {
        job: job.name.clone(),
        reason: format!("it writes (rw={}), and --readonly forbids that", job.options.rw.0.word()),
    })
}

/// Ties the load to whoever started it, and waits for its word to begin.
fn obey(control: &Control) -> Result<(), LoadError> {
    if control.handle_signals {
        signals::install_handlers();
    }
    if control.die_with_parent {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| LoadError::system("tying the load to its parent", error))?;
    }
    control.go_fd.map_or(Ok(()), await_go)
}

/// Largest tolerable difference between the counter's rate at calibration and over the whole run: 200 ppm is 0.2 ns in a microsecond.
const DRIFT_PPM: f64 = 200.0;

fn warn(workload: &Workload, workers: &[WorkerReport], clock: &crate::clock::ClockReport, warnings: &mut Vec<String>) {
    if let Some(drift) = clock.drift_ppm.filter(|drift| drift.abs() > DRIFT_PPM) {
        warnings.push(format!(
            "the time stamp counter ran {drift:.0} ppm off its calibration; run with clocksource=clock_gettime"
        ));
    }
    let wanted = |worker: &&WorkerReport| workload.jobs.get(worker.job).is_none_or(|job| !job.options.create_only);
    let unmeasured = |worker: &&WorkerReport| worker.window.is_none() && worker.failure.is_none();
    for worker in workers.iter().filter(wanted).filter(unmeasured) {
        warnings.push(format!(
            "job '{}' worker {}: the run ended before its measured window began",
            worker.name, worker.clone
        ));
    }
    for worker in workers {
        let Some(mapped) = &worker.mapped else { continue };
        if mapped.pieces_fallen_back > 0 {
            warnings.push(format!(
                "job '{}' worker {}: {} of {} pieces got ordinary memory because the hugetlb pool had no page left",
                worker.name, worker.clone, mapped.pieces_fallen_back, mapped.pieces_mapped
            ));
        }
        if let Some(files) = mapped.durable_by.get(crate::engines::persist::MSYNC) {
            warnings.push(format!(
                "job '{}' worker {}: {files} of {} files could not be mapped with MAP_SYNC: they do not lie on direct access, what was written went to the page cache, and msync(2) made it durable; `pagelab doctor FILE` says what direct access lacks",
                worker.name,
                worker.clone,
                mapped.durable_by.values().sum::<u64>()
            ));
        }
        if mapped.pieces_not_collapsed > 0 {
            warnings.push(format!(
                "job '{}' worker {}: {} of {} pieces could not be collapsed into huge pages",
                worker.name, worker.clone, mapped.pieces_not_collapsed, mapped.pieces_mapped
            ));
        }
    }
}

/// Waits for the byte that says that probes are in place.
fn await_go(fd: std::os::fd::RawFd) -> Result<(), LoadError> {
    // SAFETY: the caller handed this descriptor over for exactly this; it is only borrowed here.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let mut byte = [0_u8];
    loop {
        if let Some(signal) = signals::pending() {
            return Err(LoadError::Interrupted { signal });
        }
        match rustix::io::read(fd, &mut byte) {
            Ok(1) => return Ok(()),
            Ok(_) => return Err(LoadError::Protocol("the caller closed the go descriptor without a word".to_owned())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LoadError::system("waiting for the word to go", error)),
        }
    }
}
