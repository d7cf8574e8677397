//! The host's side: which machine a run happens on, and what becomes of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagelab_lab::{LabError, Options, Program as GuestProgram};
use pagelab_recording::{MANIFEST, Manifest};
use pagelab_session::signals;
use serde_json::Value;

use super::share::{self, Share};
use super::vm::{BootVm, RunningVm, boot_in_lab};
use super::{ANSWER, Answer, GUEST_COMMAND, RECORDING, REQUEST, Request};
use crate::failure::{Failure, FailureKind};
use crate::plan::{Between, Boot, FilledVariant, LabPlan, Plan};
use crate::runner::{Made, RunError, RunErrorKind, RunSpec, Runner, Step, failed};
use crate::set::move_new;

/// Where the guest sees the shared folder.
const IN_GUEST: &str = "/share";

/// Longest time for steps without a limit of their own: reading settings, loading probes, copying a recording. The
/// guest may be emulated.
const ALLOWANCE: Duration = Duration::from_mins(3);

/// How often it is looked whether the user wants to end.
const POLL: Duration = Duration::from_millis(50);

/// Makes runs in VMs. They end with this value.
pub struct LabRunner {
    boot_vm: BootVm,
    lab: LabPlan,
    /// The pagelab that the guests get.
    program: PathBuf,
    plan_dir: PathBuf,
    set: PathBuf,
    /// The machines that are up. Declared before the folder, so that they end before it goes.
    machines: RefCell<BTreeMap<Boot, Up>>,
    share: RefCell<Option<Share>>,
    /// The VM of the present run.
    current: RefCell<Option<Boot>>,
    /// Machines booted so far; names and folders are numbered by it.
    booted: Cell<usize>,
    /// Tells the thread that looks for signals that it may end.
    over: Arc<AtomicBool>,
}

struct Up {
    machine: Box<dyn RunningVm>,
    folder: PathBuf,
}

impl LabRunner {
    /// A runner for a plan with a lab. `say` gets the events of its VMs.
    pub fn new(plan: &Plan, set: &Path, say: Box<dyn Fn(&str)>) -> std::io::Result<Self> {
        signals::install()?;
        let program = pagelab_host::own::program()?;
        let runner = Self::with_vms(boot_in_lab(say), plan, set, program)?;
        let over = runner.over.clone();
        // The first signal ends the work: what waits for a guest has to learn of it.
        std::thread::Builder::new().name("lab-signals".to_owned()).spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if signals::count() > 0 {
                    pagelab_lab::interrupt();
                    return;
                }
                std::thread::sleep(POLL);
            }
        })?;
        Ok(runner)
    }

    /// The same with other VMs than the lab's.
    pub fn with_vms(boot_vm: BootVm, plan: &Plan, set: &Path, program: PathBuf) -> std::io::Result<Self> {
        let lab = plan.lab.clone().ok_or_else(|| std::io::Error::other("the plan has no [lab]"))?;
        Ok(Self {
            boot_vm,
            lab,
            program,
            plan_dir: plan.dir().to_owned(),
            set: std::path::absolute(set)?,
            machines: RefCell::default(),
            share: RefCell::default(),
            current: RefCell::default(),
            booted: Cell::new(0),
            over: Arc::default(),
        })
    }

    /// Options of the next machine.
    fn options(&self, boot: &Boot, number: usize, folder: &Path) -> Result<Options, RunError> {
        let options = self.lab.options(boot).map_err(|error| RunError::new(RunErrorKind::Input, error.to_string()))?;
        let mut programs = options.programs;
        programs.push(GuestProgram::stripped(&self.program));
        Ok(Options {
            name: format!("plan-{}-{number}", std::process::id()),
            programs,
            share: Some(folder.to_owned()),
            mirror: Some(self.plan_dir.clone()),
            bound: true,
            ..options
        })
    }

    /// Boots what is not up.
    fn boot(&self, boot: &Boot) -> Result<(), RunError> {
        if self.machines.borrow().contains_key(boot) {
            return Ok(());
        }
        let number = self.booted.get() + 1;
        self.booted.set(number);
        let mut share = self.share.borrow_mut();
        let share = match share.as_mut() {
            Some(share) => share,
            None => share.insert(Share::beside(&self.set)?),
        };
        let folder = share.next(number)?;
        let options = self.options(boot, number, &folder)?;
        let machine = (self.boot_vm)(&options).map_err(|error| not_up(&error, boot))?;
        self.machines.borrow_mut().insert(boot.clone(), Up { machine, folder });
        Ok(())
    }

    fn boot_of(variant: &FilledVariant) -> Result<&Boot, RunError> {
        let missing = || RunError::new(RunErrorKind::Input, format!("variant {} has no VM to boot", variant.name));
        variant.boot.as_ref().ok_or_else(missing)
    }

    /// Asks the present machine. One that does not answer any more is ended; the next run boots it anew.
    fn ask(&self, request: &Request, limit: Option<Duration>) -> Result<Answer, RunError> {
        let boot = self.current.borrow().clone();
        let boot = boot.ok_or_else(|| RunError::new(RunErrorKind::Guest, "no VM was made ready"))?;
        self.boot(&boot)?;
        let asked = match self.machines.borrow().get(&boot) {
            Some(up) => self.ask_machine(up, request, limit.map(|limit| limit * 2 + ALLOWANCE)),
            None => Err(Broken { error: RunError::new(RunErrorKind::Guest, "no VM is up"), gone: false }),
        };
        asked.map_err(|Broken { error, gone }| {
            if gone {
                self.machines.borrow_mut().remove(&boot);
            }
            error
        })
    }

    fn ask_machine(&self, up: &Up, request: &Request, limit: Option<Duration>) -> Result<Answer, Broken> {
        let kept = |error| Broken { error, gone: false };
        let answer = up.folder.join(ANSWER);
        let _ = fs::remove_file(&answer);
        let _ = fs::remove_dir_all(up.folder.join(RECORDING));
        share::write(&up.folder.join(REQUEST), request).map_err(kept)?;
        let name = self.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let argv = [name, GUEST_COMMAND.to_owned(), IN_GUEST.to_owned()];
        let guest = |reason: String| RunError::new(RunErrorKind::Guest, reason);
        match up.machine.run(&argv, limit) {
            Ok((Some(0), _)) => share::read(&answer).map_err(kept),
            Ok((Some(status), said)) => {
                let reason = format!("pagelab ended with status {status} in the guest; it said: {}", or_nothing(&said));
                Err(kept(guest(reason)))
            }
            Ok((None, said)) => {
                let limit = limit.unwrap_or_default().as_secs();
                let reason = format!("no answer from the guest in {limit} s; it said: {}", or_nothing(&said));
                Err(Broken { error: guest(reason), gone: true })
            }
            Err(LabError::Interrupted) => Err(kept(by_user())),
            Err(error @ (LabError::Busy { .. } | LabError::NotStarted { .. })) => Err(kept(guest(error.to_string()))),
            // It hangs, panicked, or is gone.
            Err(error) => Err(Broken { error: guest(error.to_string()), gone: true }),
        }
    }

    /// Puts the recording into the set, and the facts about its VM into its manifest.
    fn fetch(&self, to: &Path) -> Result<(), RunError> {
        let current = self.current.borrow();
        let machines = self.machines.borrow();
        let Some(up) = current.as_ref().and_then(|boot| machines.get(boot)) else { return Ok(()) };
        let from = up.folder.join(RECORDING);
        if !from.exists() {
            return Ok(());
        }
        let failed = |reason: String| RunError::new(RunErrorKind::Recording, reason);
        note_machine(&from, up.machine.facts()).map_err(|error| failed(error.to_string()))?;
        move_new(&from, to).map_err(|error| failed(error.to_string()))
    }
}

/// Why a machine did not answer, and whether it will again.
struct Broken {
    error: RunError,
    gone: bool,
}

fn or_nothing(said: &str) -> &str {
    if said.is_empty() { "(nothing)" } else { said }
}

fn by_user() -> RunError {
    RunError::new(RunErrorKind::Interrupted, "ended by the user")
}

fn not_up(error: &LabError, boot: &Boot) -> RunError {
    let kind = match error {
        LabError::Interrupted => return by_user(),
        LabError::BootHang { .. } | LabError::GuestPanic { .. } | LabError::GuestGone { .. } => RunErrorKind::Guest,
        _ if error.exit_status() == 2 => RunErrorKind::Input,
        _ => RunErrorKind::Host,
    };
    RunError::new(kind, format!("[lab] {}: {error}", boot.words()))
}

/// Adds what a recording was made on to its manifest, under `lab`.
fn note_machine(dir: &Path, facts: Value) -> pagelab_recording::Result<()> {
    if !dir.join(MANIFEST).exists() {
        return Ok(());
    }
    let mut manifest = Manifest::load(dir)?;
    manifest.extra.insert("lab".to_owned(), facts);
    manifest.rewrite(dir)
}

impl Runner for LabRunner {
    fn ready(&self, variant: &FilledVariant) -> Result<(), RunError> {
        let boot = Self::boot_of(variant)?;
        *self.current.borrow_mut() = Some(boot.clone());
        self.boot(boot)
    }

    fn check(&self, variant: &FilledVariant, between: &[Between]) -> Result<(), RunError> {
        let request = Request::Check { variant: Box::new(variant.clone()), between: between.to_vec() };
        let in_guest = |error: RunError| {
            let boot = variant.boot.as_ref().map(Boot::words).unwrap_or_default();
            RunError { reason: format!("variant {}, in the guest ({boot}): {}", variant.name, error.reason), ..error }
        };
        match self.ask(&request, Some(Duration::ZERO))? {
            Answer::Failed(error) => Err(in_guest(error)),
            Answer::Done | Answer::Made(_) => Ok(()),
        }
    }

    fn step(&self, step: &Step) -> Result<(), RunError> {
        let limit = match step {
            Step::Prepare(program) => program.timeout,
            Step::Between(_) => Some(Duration::ZERO),
            Step::Cleanup(program) => {
                let current = self.current.borrow();
                let is_up = current.as_ref().is_some_and(|boot| self.machines.borrow().contains_key(boot));
                // Everything to clean up went with the guest, or is about to.
                if !is_up || self.stopped() {
                    return Ok(());
                }
                program.timeout
            }
        };
        match self.ask(&Request::Step(step.clone()), limit)? {
            Answer::Failed(error) => Err(error),
            Answer::Done | Answer::Made(_) => Ok(()),
        }
    }

    fn make(&self, variant: &FilledVariant, spec: &RunSpec) -> Made {
        let request = Request::Make { variant: Box::new(variant.clone()), spec: Box::new(spec.clone()) };
        let mut made = match self.ask(&request, spec.timeout) {
            Ok(Answer::Made(made)) => *made,
            Ok(Answer::Failed(error)) | Err(error) => not_made(failed(FailureKind::NotStarted)(error)),
            Ok(Answer::Done) => not_made(Some(Failure::new(FailureKind::Guest, "the guest made no run"))),
        };
        if let Err(error) = self.fetch(&spec.dir) {
            made.result = Err(failed(FailureKind::Recording)(error));
        }
        made
    }

    fn stopped(&self) -> bool {
        signals::count() > 0
    }
}

fn not_made(result: Option<Failure>) -> Made {
    Made { changes: Vec::new(), warnings: Vec::new(), result: Err(result) }
}

impl Drop for LabRunner {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
