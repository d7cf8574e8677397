//! Plans that run in VMs, with VMs that a test makes: which ones boot, the requests they get, what happens when they
//! hang.
#![allow(clippy::unwrap_used)]

use crate::support;

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use pagelab_experiment::{
    Answer, Boot, BootVm, Change, Executed, ExperimentError, LabRunner, Made, Request, RunError, RunErrorKind,
    RunningVm, Silent, dry_run, execute, failed_runs, guest_main,
};
use pagelab_lab::{LabError, Options};
use pagelab_recording::set::RunState;
use serde_json::{Value, json};
use support::{Place, good, manifest};

const THREE: &str = r#"
runs = 3
seed = 4
command = "work"
prepare = "true"
between = "sync"
timeout = "5s"
[lab]
memory = "512M"
pmem = "none"
cmdline = ["quiet", "transparent_hugepage=always"]
[variant.old]
settings = { kernel = "6.1" }
[variant.old-too]
settings = { "thp.enabled" = "never", "env.WHO" = "me" }
[variant.new]
settings = { kernel = "6.12", "cmdline.transparent_hugepage" = "never" }
"#;

type Script = Box<dyn Fn(&Request, usize) -> Result<Answer, LabError>>;

/// What all machines of a test share.
struct World {
    /// `boot N KERNEL CMDLINE`, `down N`, `N check VARIANT`, `N step`, `N make VARIANT`.
    log: RefCell<Vec<String>>,
    alive: Cell<usize>,
    boots: Cell<usize>,
    made: Cell<usize>,
    /// Answers runs; the number is that of the run, from 1.
    script: Script,
    refuse_boot: fn(usize) -> Option<LabError>,
}

impl World {
    fn new(script: impl Fn(&Request, usize) -> Result<Answer, LabError> + 'static) -> Rc<Self> {
        Rc::new(Self {
            log: RefCell::default(),
            alive: Cell::new(0),
            boots: Cell::new(0),
            made: Cell::new(0),
            script: Box::new(script),
            refuse_boot: |_| None,
        })
    }

    fn note(&self, line: String) {
        self.log.borrow_mut().push(line);
    }

    fn lines(&self, word: &str) -> Vec<String> {
        self.log.borrow().iter().filter(|line| line.contains(word)).cloned().collect()
    }
}

struct FakeVm {
    number: usize,
    folder: PathBuf,
    world: Rc<World>,
}

fn boot_vms(world: Rc<World>) -> BootVm {
    Box::new(move |options: &Options| {
        let number = world.boots.get() + 1;
        world.boots.set(number);
        assert!(options.bound, "it would outlive a kill");
        assert!(options.mirror.as_ref().is_some_and(|dir| dir.join("plan.toml").exists()));
        assert_eq!((options.vm.memory_bytes, options.vm.pmem), (512 << 20, None));
        assert!(options.programs.iter().any(|program| program.path.ends_with("pagelab") && program.strip));
        if let Some(error) = (world.refuse_boot)(number) {
            return Err(error);
        }
        world.note(format!("boot {number} {} {}", options.vm.kernel.name(), options.vm.cmdline.join(" ")));
        world.alive.set(world.alive.get() + 1);
        Ok(Box::new(FakeVm { number, folder: options.share.clone().unwrap(), world: world.clone() }))
    })
}

impl Drop for FakeVm {
    fn drop(&mut self) {
        assert!(self.folder.exists(), "the folder goes after the machine");
        self.world.note(format!("down {}", self.number));
        self.world.alive.set(self.world.alive.get() - 1);
    }
}

impl RunningVm for FakeVm {
    fn run(&self, argv: &[String], limit: Option<Duration>) -> Result<(Option<i32>, String), LabError> {
        assert_eq!(argv[1..], ["__guest", "/share"]);
        assert!(limit.is_some_and(|limit| limit >= Duration::from_secs(10)), "{limit:?}");
        let request: Request = serde_json::from_slice(&fs::read(self.folder.join("request.json")).unwrap()).unwrap();
        let words = match &request {
            Request::Check { variant, .. } => format!("check {}", variant.name),
            Request::Step(step) => format!("step {}", step.word()),
            Request::Make { variant, .. } => format!("make {}", variant.name),
        };
        self.world.note(format!("{} {words}", self.number));
        if let Request::Make { spec, .. } = &request {
            self.world.made.set(self.world.made.get() + 1);
            let mut here = (**spec).clone();
            here.dir = self.folder.join("recording");
            fs::create_dir(&here.dir).unwrap();
            manifest(&here);
        }
        let answer = (self.world.script)(&request, self.world.made.get())?;
        fs::write(self.folder.join("answer.json"), serde_json::to_vec(&answer).unwrap()).unwrap();
        Ok((Some(0), String::new()))
    }

    fn facts(&self) -> Value {
        json!({ "machine": self.number })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of the scripts")]
fn fine(request: &Request, _made: usize) -> Result<Answer, LabError> {
    Ok(match request {
        Request::Make { .. } => {
            Answer::Made(Box::new(Made { changes: Vec::new(), warnings: Vec::new(), result: Ok(good()) }))
        }
        _ => Answer::Done,
    })
}

fn hang() -> LabError {
    LabError::GuestHang { name: "plan".to_owned(), waited_s: 60, console: "BUG: soft lockup".to_owned() }
}

fn runner(place: &Place, world: &Rc<World>, text: &str) -> (pagelab_experiment::Plan, LabRunner) {
    let plan = place.plan(text);
    let runner =
        LabRunner::with_vms(boot_vms(world.clone()), &plan, &place.set(), PathBuf::from("/usr/bin/pagelab")).unwrap();
    (plan, runner)
}

fn carried_out(place: &Place, world: &Rc<World>, text: &str) -> Result<Executed, ExperimentError> {
    let (plan, runner) = runner(place, world, text);
    execute(&plan, &place.options(), &runner, &mut Silent)
}

fn nothing_left(place: &Place, world: &World) {
    assert_eq!(world.alive.get(), 0, "{:?}", world.log.borrow());
    assert!(!place.dir.path().join(".set.lab").exists());
}

#[test]
fn one_machine_boots_for_each_distinct_boot_and_all_end() {
    let place = Place::new();
    let world = World::new(fine);
    let executed = carried_out(&place, &world, THREE).unwrap();
    nothing_left(&place, &world);
    assert_eq!(
        world.lines("boot"),
        ["boot 1 6.1 quiet transparent_hugepage=always", "boot 2 6.12 quiet transparent_hugepage=never"]
    );
    // Everything is looked at before anything runs, each variant on the machine that it runs on.
    assert_eq!(world.lines("check"), ["1 check old", "1 check old-too", "2 check new"]);
    let first_step = world.log.borrow().iter().position(|line| line.contains("step")).unwrap();
    assert!(world.log.borrow().iter().rposition(|line| line.contains("check")).unwrap() < first_step);
    for line in world.lines("make") {
        let (machine, variant) = line.split_once(" make ").unwrap();
        assert_eq!(machine, if variant == "new" { "2" } else { "1" }, "{line}");
    }
    assert_eq!(world.lines("1 step prepare").len(), 6);
    assert_eq!(world.lines("2 step sync").len(), 3);
    for run in executed.set.runs() {
        assert_eq!(run.state, RunState::Done);
        let text = fs::read_to_string(place.set().join(&run.dir).join("manifest.json")).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        let machine = if run.variant == "new" { 2 } else { 1 };
        assert_eq!(found["lab"]["machine"], machine, "{text}");
        assert_eq!(found["variant"], run.variant);
    }
}

#[test]
fn a_machine_that_hangs_fails_its_run_with_the_console_and_is_booted_again() {
    let place = Place::new();
    let world = World::new(|request, made| match request {
        Request::Make { .. } if made == 4 => Err(hang()),
        _ => fine(request, made),
    });
    let executed = carried_out(&place, &world, THREE).unwrap();
    nothing_left(&place, &world);
    let failed = failed_runs(executed.set.runs());
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].kind, "guest", "{}", failed[0].reason);
    assert!(failed[0].reason.contains("has not answered for 60 s") && failed[0].reason.contains("soft lockup"));
    assert_eq!(world.lines("boot").len(), 3, "{:?}", world.log.borrow());
    // It is gone before the next one of its kind boots.
    let log = world.log.borrow();
    let down = log.iter().position(|line| line.starts_with("down")).unwrap();
    assert!(down < log.iter().rposition(|line| line.starts_with("boot")).unwrap());
    assert_eq!(executed.set.runs().iter().filter(|run| run.state == RunState::Done).count(), 8);
}

#[test]
fn machines_end_when_the_process_panics() {
    let place = Place::new();
    let world = World::new(|request, made| match request {
        Request::Make { .. } if made == 2 => std::panic::resume_unwind(Box::new("a defect")),
        _ => fine(request, made),
    });
    let caught = std::panic::catch_unwind(AssertUnwindSafe(|| carried_out(&place, &world, THREE)));
    assert!(caught.is_err());
    assert_eq!(world.boots.get(), 2);
    nothing_left(&place, &world);
}

#[test]
fn what_does_not_boot_is_told_before_there_is_a_set() {
    type Case = (fn(usize) -> Option<LabError>, u8, &'static str);
    let cases: [Case; 4] = [
        (
            |_| {
                Some(LabError::ProgramMissing {
                    program: "qemu-system-x86_64".into(),
                    package: "qemu-system-x86".into(),
                })
            },
            3,
            "apt-get install qemu-system-x86",
        ),
        (
            |number| (number == 2).then(|| LabError::BootHang { limit_s: 90, attempts: 3, console: "x".into() }),
            3,
            "Linux 6.12",
        ),
        (|_| Some(LabError::Program { program: "nonesuch".into(), why: "not found".into() }), 2, "nonesuch"),
        (|_| Some(LabError::Interrupted), 2, "ended by the user"),
    ];
    for (refuse_boot, status, words) in cases {
        let place = Place::new();
        let mut world = World::new(fine);
        Rc::get_mut(&mut world).unwrap().refuse_boot = refuse_boot;
        let error = carried_out(&place, &world, THREE).unwrap_err();
        assert_eq!(error.exit_status(), status, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!place.set().exists());
        nothing_left(&place, &world);
    }
}

#[test]
fn what_a_guest_refuses_is_told_with_variant_and_kernel() {
    let place = Place::new();
    let world = World::new(|request, made| match request {
        Request::Check { variant, .. } if variant.name == "old-too" => {
            assert_eq!(variant.host["thp.enabled"], "never");
            assert_eq!(variant.process["env.WHO"], "me");
            assert!(variant.booted.is_empty());
            Ok(Answer::Failed(RunError::new(RunErrorKind::Host, "unknown setting `thp.enabled`")))
        }
        _ => fine(request, made),
    });
    let error = carried_out(&place, &world, THREE).unwrap_err();
    assert_eq!(error.exit_status(), 3);
    for words in ["variant old-too", "Linux 6.1, quiet transparent_hugepage=always", "unknown setting"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(world.lines("make").is_empty() && !place.set().exists());
}

#[test]
fn a_dry_run_shows_what_would_boot_and_boots_nothing() {
    let place = Place::new();
    let plan = place.plan(THREE);
    let dry = dry_run(&plan, &place.options()).unwrap();
    let expected = Boot { kernel: "6.12".into(), cmdline: vec!["quiet".into(), "transparent_hugepage=never".into()] };
    assert_eq!(dry.variants[2].boot, Some(expected));
    // What this host has says nothing about the guest.
    assert!(dry.variants[1].settings.iter().all(|setting| setting.current.is_none()));
    let text = dry.to_string();
    for words in ["2 VMs, each with 2 CPUs, 512 MiB", "boots    Linux 6.12, quiet transparent_hugepage=never"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(!place.set().exists());
}

#[test]
fn a_changed_lab_is_another_plan() {
    let place = Place::new();
    carried_out(&place, &World::new(fine), THREE).unwrap();
    let changed = THREE.replace("512M", "1G");
    let (plan, runner) = runner(&place, &World::new(fine), &changed);
    let error = execute(&plan, &place.resume(), &runner, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("lab.memory_bytes"), "{error}");
    // A whole set boots nothing.
    let world = World::new(fine);
    let (plan, runner) = self::runner(&place, &world, THREE);
    execute(&plan, &place.resume(), &runner, &mut Silent).unwrap();
    assert_eq!(world.boots.get(), 0);
}

/// The guest's side on this host, whose kernel is none of the lab's.
#[test]
fn a_boot_that_is_not_what_was_asked_for_makes_no_run() {
    let place = Place::new();
    let folder = place.dir.path();
    let asked = Rc::new(RefCell::new(None));
    let kept = asked.clone();
    let world = World::new(move |request, made| {
        if let Request::Make { variant, .. } = request
            && variant.name == "new"
        {
            *kept.borrow_mut() = Some(request.clone());
        }
        fine(request, made)
    });
    carried_out(&place, &world, THREE).unwrap();
    let request = asked.borrow().clone().unwrap();
    fs::write(folder.join("request.json"), serde_json::to_vec(&request).unwrap()).unwrap();
    assert_eq!(guest_main(&[OsString::from(folder)]), 0);
    let answer: Answer = serde_json::from_slice(&fs::read(folder.join("answer.json")).unwrap()).unwrap();
    let Answer::Made(made) = answer else { panic!("{answer:?}") };
    let change = made.changes.iter().find(|change: &&Change| change.key == "kernel").unwrap();
    assert_eq!((change.asked.as_str(), change.previous.as_str()), ("6.12", "not booted"));
    assert_ne!(change.got, "6.12");
    let failure = made.result.unwrap_err().unwrap();
    assert_eq!(failure.kind.word(), "setting_not_got", "{failure}");
    assert!(!folder.join("recording").exists());
    // Without a request it says so.
    fs::remove_file(folder.join("request.json")).unwrap();
    assert_eq!(guest_main(&[OsString::from(folder)]), 1);
    assert_eq!(guest_main(&[]), 2);
}

#[test]
fn two_processes_do_not_share_a_set() {
    let place = Place::new();
    let (plan, first) = runner(&place, &World::new(fine), THREE);
    let filled =
        plan.fill(&pagelab_experiment::Surroundings { root: Path::new("/").into(), set: place.set(), seed: 1 });
    pagelab_experiment::Runner::ready(&first, &filled.unwrap().variants[0]).unwrap();
    let error = carried_out(&place, &World::new(fine), THREE).unwrap_err();
    assert!(error.to_string().contains("another pagelab"), "{error}");
}
