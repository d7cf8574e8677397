//! A plan that runs in VMs, from the command line. The short form boots one VM for two runs; the long form
//! (PAGELAB_TEST_FULL=1) compares two kernels and looks at what is said to differ.

use crate::common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{pagelab, scratch};
use pagelab_recording::Manifest;
use serde_json::Value;

const JOB: &str =
    "[touch]\nioengine=anon\nrw=write\nbs=4k\nsize=8m\nmap_granularity=2m\nmap_lifetime=evict\nmap_resident=2\n";

/// Both variants boot alike, so that one VM does for both.
const ONE_VM: &str = r#"
runs = 2
seed = 3
observe = "metrics,settings,tasks"
timeout = "60s"
prepare = 'test "$PAGELAB_PLAN_DIR" = "$PWD" && test -f beside && echo written > new && test -f /boot/config-$(uname -r)'
job = "touch.fio"
[lab]
pmem = "none"
cmdline = "norandmaps"
[variant.never]
settings = { "thp.enabled" = "never" }
[variant.always]
settings = { "thp.enabled" = "always" }
"#;

const TWO_KERNELS: &str = r#"
runs = 2
seed = 3
observe = "metrics,settings,tasks"
timeout = "60s"
job = "touch.fio"
[lab]
pmem = "none"
[variant.old]
settings = { kernel = "6.1" }
[variant.new]
settings = { kernel = "6.12", "cmdline.transparent_hugepage" = "never" }
"#;

fn place(plan: &str) -> tempfile::TempDir {
    let dir = scratch();
    fs::write(dir.path().join("touch.fio"), JOB).expect("written");
    fs::write(dir.path().join("beside"), "").expect("written");
    fs::write(dir.path().join("plan.toml"), plan).expect("written");
    dir
}

/// Runs the plan; the document.
fn experiment(dir: &Path) -> Value {
    let begin = Instant::now();
    let mut command = pagelab();
    command.arg("experiment").arg(dir.join("plan.toml")).arg("-o").arg(dir.join("set")).arg("--json");
    let output = command.output().expect("started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
    assert!(!dir.join(".set.lab").exists(), "the shared folder is gone");
    serde_json::from_slice(&output.stdout).expect("one document")
}

fn labs_of_plans() -> Vec<String> {
    let output = pagelab().args(["lab", "status"]).output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.starts_with("plan-")).map(str::to_owned).collect()
}

fn setting(recording: &Path, key: &str) -> String {
    let query = format!("SELECT value FROM settings WHERE key = '{key}' AND at = 'start'");
    let output = pagelab().arg("query").arg(recording).args([&query, "--format", "csv"]).output();
    let text = String::from_utf8_lossy(&output.expect("started").stdout).into_owned();
    text.lines().nth(1).unwrap_or_default().trim().to_owned()
}

#[test]
#[ignore = "boots a VM: takes both processors for some 30 s"]
fn vm_two_runs_share_a_vm_and_their_recordings_come_out() {
    let dir = place(ONE_VM);
    let before = labs_of_plans();
    let document = experiment(dir.path());
    assert_eq!(document["failed_runs"].as_array().map(Vec::len), Some(0), "{document:#}");
    let differing = document["settings"].as_array().expect("a list");
    assert!(differing.iter().any(|diff| diff["key"] == "thp.enabled"), "{differing:#?}");
    assert!(differing.len() < 5, "one VM differs in little from itself: {differing:#?}");
    let mut boots = Vec::new();
    for (variant, thp) in [("never", "never"), ("always", "always")] {
        for run in 1..=2 {
            let recording = dir.path().join(format!("set/variant={variant}/run=00{run}"));
            let manifest = Manifest::load(&recording).expect("a recording");
            assert_eq!((manifest.variant.as_deref(), manifest.run), (Some(variant), Some(run)));
            assert!(manifest.complete && manifest.round.is_some() && manifest.position.is_some());
            assert!(manifest.kernel.as_deref().is_some_and(|kernel| kernel.starts_with("6.1.")), "{manifest:?}");
            assert_eq!(manifest.extra["lab"]["cpus"], 2);
            boots.push(manifest.boot_id);
            assert_eq!(setting(&recording, "thp.enabled"), thp);
            assert_eq!(setting(&recording, "kernel"), "6.1");
            assert_eq!(setting(&recording, "cmdline.norandmaps"), "set");
            assert_eq!(setting(&recording, "kconfig.HZ"), "250");
        }
    }
    boots.dedup();
    assert_eq!(boots.len(), 1, "one VM");
    assert!(!dir.path().join("new").exists(), "what a guest writes stays there");
    assert_eq!(labs_of_plans(), before, "nothing is left up");
}

#[test]
#[ignore = "boots a VM, to kill the pagelab that has it"]
fn vm_a_killed_experiment_leaves_no_vm() {
    let dir = place(&ONE_VM.replace("job = \"touch.fio\"", "command = 'sleep 60'"));
    let before = labs_of_plans();
    let mut command = pagelab();
    command.arg("experiment").arg(dir.path().join("plan.toml")).arg("-o").arg(dir.path().join("set"));
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("started");
    let deadline = Instant::now() + Duration::from_mins(2);
    while !dir.path().join("set/set.json").exists() {
        assert!(Instant::now() < deadline && child.try_wait().expect("a child").is_none(), "no run began");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(labs_of_plans().len(), before.len() + 1);
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let deadline = Instant::now() + Duration::from_secs(10);
    while labs_of_plans() != before {
        assert!(Instant::now() < deadline, "{:?}", labs_of_plans());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "boots two VMs: takes both processors for a minute or two"]
fn long_two_kernels_are_compared_and_the_list_is_short() {
    let dir = place(TWO_KERNELS);
    let document = experiment(dir.path());
    assert_eq!(document["failed_runs"].as_array().map(Vec::len), Some(0), "{document:#}");
    for (variant, kernel, thp) in [("old", "6.1", "always"), ("new", "6.12", "never")] {
        let recording = dir.path().join(format!("set/variant={variant}/run=002"));
        assert_eq!(setting(&recording, "kernel"), kernel);
        assert_eq!(setting(&recording, "thp.enabled"), thp);
    }
    let keys = |list: &str| -> Vec<String> {
        let list = document[list].as_array().expect("a list");
        list.iter().filter_map(|diff| diff["key"].as_str().map(str::to_owned)).collect()
    };
    let (settings, following) = (keys("settings"), keys("settings_following"));
    for key in ["kernel", "thp.enabled"] {
        assert!(settings.iter().take(8).any(|found| found == key), "{key}: {settings:?}");
    }
    assert!(settings.len() < 80, "{}: {settings:?}", settings.len());
    assert!(following.len() > 300 && following.iter().all(|key| !settings.contains(key)));
}
