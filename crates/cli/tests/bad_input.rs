//! Bad input: one clear message (what was found, what is needed, what to type), the right exit status, nothing left.

use crate::common;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{binary, copy_binary, is_root, json, pagelab, run, scratch, stderr};

fn record_into(out: &Path) {
    run(pagelab().args(["record", "-o"]).arg(out).args(["--", "true"]), 0);
}

/// Every message names what it found and what it needs, and is one line or a short paragraph.
#[track_caller]
fn refused(command: &mut Command, status: i32, words: &[&str]) {
    let output = run(command, status);
    let text = stderr(&output);
    for word in words {
        assert!(text.contains(word), "{command:?}: no {word:?} in: {text}");
    }
    assert!(!text.contains("panicked") && text.lines().count() <= 12, "{text}");
}

#[test]
fn plans_that_are_wrong() {
    let dir = scratch();
    let path = dir.path().join("plan.toml");
    let plan = |text: &str| {
        fs::write(&path, text).expect("scratch");
        let mut command = pagelab();
        command.args(["experiment", "-o"]).arg(dir.path().join("set")).arg(&path);
        command
    };
    let two = "[variant.a]\ncommand = [\"true\"]\n[variant.b]\ncommand = [\"true\"]\n";
    refused(&mut plan("title = \"x\nruns = 2\n"), 2, &["plan.toml", "1"]);
    refused(&mut plan(&format!("title = \"x\"\nruns = 2\nrun = 3\n{two}")), 2, &["run"]);
    refused(
        &mut plan(
            "title = \"x\"\nruns = 2\n[variant.a]\ncommand = [\"true\"]\nsettings = { \"thp.enable\" = \"always\" }\n[variant.b]\ncommand = [\"true\"]\n",
        ),
        2,
        &["thp.enable", "thp.enabled"],
    );
    refused(
        &mut plan("title = \"x\"\nruns = 2\njob = \"nothing.fio\"\n[variant.a]\n[variant.b]\n"),
        2,
        &["nothing.fio"],
    );
    refused(pagelab().args(["experiment", "/no/such/plan.toml"]), 2, &["/no/such/plan.toml"]);
    assert!(!dir.path().join("set").exists(), "a plan that is wrong leaves no set");
}

#[test]
fn jobs_that_are_wrong() {
    let dir = scratch();
    let job = dir.path().join("job.fio");
    fs::write(&job, "[a]\nioengine=anon\nrw=write\nbs=4k\nsize=1m\nthinktim=3\n").expect("scratch");
    refused(pagelab().arg("run").arg(&job), 2, &["job.fio:6", "thinktime"]);
    refused(pagelab().args(["run", "/no/such.fio"]), 2, &["/no/such.fio"]);
    refused(pagelab().args(["run", "--name=x", "--ioengine=nosuch", "--rw=read", "--size=1m"]), 2, &["nosuch"]);
}

#[test]
fn recordings_that_are_damaged_or_newer() {
    let dir = scratch();
    let whole = dir.path().join("whole");
    record_into(&whole);
    run(pagelab().arg("check").arg(&whole), 0);
    let empty = scratch();
    refused(pagelab().arg("check").arg(empty.path()), 2, &["is not a recording"]);
    let damage = |name: &str, how: &dyn Fn(&mut fs::File, u64)| {
        let copy = dir.path().join(name);
        run(Command::new("cp").arg("-r").arg(&whole).arg(&copy), 0);
        let part =
            fs::read_dir(copy.join("settings")).expect("a table").next().expect("a part").expect("a part").path();
        let mut file = fs::OpenOptions::new().read(true).write(true).open(&part).expect("our copy");
        let bytes = file.metadata().expect("its length").len();
        how(&mut file, bytes);
        copy
    };
    let short = damage("short", &|file, bytes| file.set_len(bytes / 2).expect("cut"));
    let flipped = damage("flipped", &|file, bytes| {
        file.seek(SeekFrom::Start(bytes / 3)).expect("seek");
        file.write_all(&[0xA5, 0x5A, 0xA5]).expect("write");
    });
    for copy in [&short, &flipped] {
        let report = json(&run(pagelab().args(["check", "--json"]).arg(copy), 1));
        let problems = report["problems"].as_array().expect("a list");
        assert!(problems.iter().any(|problem| problem["path"].to_string().contains("settings")), "{problems:?}");
    }
    let newer = dir.path().join("newer");
    run(Command::new("cp").arg("-r").arg(&whole).arg(&newer), 0);
    let manifest = newer.join("manifest.json");
    let text = fs::read_to_string(&manifest).expect("manifest").replacen("\"format\": 1", "\"format\": 2", 1);
    fs::write(&manifest, text).expect("our copy");
    for words in [vec!["check"], vec!["explain"]] {
        refused(pagelab().args(&words).arg(&newer), 2, &["format 2", "newer"]);
    }
}

#[test]
fn queries_that_are_wrong() {
    let dir = scratch();
    let whole = dir.path().join("whole");
    record_into(&whole);
    refused(pagelab().arg("query").arg(&whole).arg("select * from fault"), 2, &["fault"]);
    refused(pagelab().arg("query").arg(&whole).arg("selec 1"), 2, &["selec"]);
    let counted =
        json(&run(pagelab().arg("query").arg("--json").arg(&whole).arg("select count(*) as n from tasks"), 0));
    assert!(counted[0]["n"].as_u64().is_some_and(|n| n >= 1), "{counted}");
}

#[test]
fn without_root_it_says_what_is_missing() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("scratch");
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
        command.args(words).env("PAGELAB_STATE_DIR", dir.path().join("state"));
        command
    };
    let binary_is_reachable = run_status(&mut as_nobody(&["--version"])) == Some(0);
    if !binary_is_reachable {
        // The checkout lies below a directory of root's own; a copy can be reached.
        return without_root_from_a_copy(dir.path());
    }
    nobody(&|words| as_nobody(words), dir.path());
}

fn run_status(command: &mut Command) -> Option<i32> {
    command.output().ok()?.status.code()
}

fn without_root_from_a_copy(dir: &Path) {
    let copy = dir.join("pagelab");
    copy_binary(&copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("our copy");
    nobody(
        &|words| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(words);
            command.env("PAGELAB_STATE_DIR", dir.join("state"));
            command
        },
        dir,
    );
}

fn nobody(command: &dyn Fn(&[&str]) -> Command, dir: &Path) {
    let out = dir.join("as-nobody");
    let out = out.to_str().expect("plain path");
    let output = run(&mut command(&["record", "--observe", "syscalls", "-o", out, "--", "true"]), 3);
    assert!(stderr(&output).contains("root") && stderr(&output).contains("sudo"), "{}", stderr(&output));
    // `default` degrades: the command runs, metrics and settings are there, and the manifest says what is not.
    let output = run(&mut command(&["record", "--json", "-o", out, "--", "true"]), 0);
    let document = json(&output);
    let probes = document["manifest"]["probes"].as_array().expect("a list");
    let probe = |name: &str| probes.iter().find(|probe| probe["name"] == name).expect("listed");
    assert_eq!(probe("metrics")["state"], "active");
    let faults = probe("faults");
    assert!(faults["rung"] != "bpf" && faults["reason"].is_string() && faults["fix"].is_string(), "{faults}");
}

#[test]
fn a_full_disk_does_not_stop_the_command() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let small = dir.path().join("small");
    fs::create_dir(&small).expect("scratch");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=200k", "tmpfs"]).arg(&small), 0);
    let output = pagelab()
        .args(["record", "-o"])
        .arg(small.join("r"))
        .args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=512M", "count=1", "status=none"])
        .output();
    let opened = pagelab().arg("check").arg(small.join("r")).output();
    run(Command::new("umount").arg(&small), 0);
    let output = output.expect("it ran");
    assert_eq!(output.status.code(), Some(0), "the command's own status: {}", stderr(&output));
    assert!(stderr(&output).contains("space"), "{}", stderr(&output));
    assert_eq!(opened.expect("it ran").status.code(), Some(1), "readable, and said not to be whole");
}

/// Runs pagelab in a mount namespace of its own, after `script`, which may hide parts of the kernel's interface.
fn in_namespace(script: &str, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", "sh", "-ec"]);
    command.arg(format!("{script}; exec \"$0\" \"$@\"")).arg(binary()).args(words);
    command
}

#[test]
fn without_btf_it_says_what_is_missing() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("r");
    let out = out.to_str().expect("plain path");
    let hide = "mount -t tmpfs tmpfs /sys/kernel/btf";
    // What nothing but BPF can see.
    let words = ["record", "--observe", "sched", "-o", out, "--", "true"];
    refused(&mut in_namespace(hide, &words), 3, &["BTF", "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"]);
    assert!(!Path::new(out).exists(), "refused before anything was written");
    // `default` goes on without, and says so in the manifest too.
    let output = run(&mut in_namespace(hide, &["record", "--json", "-o", out, "--", "true"]), 0);
    let probes = json(&output)["manifest"]["probes"].clone();
    let faults = probes.as_array().and_then(|all| all.iter().find(|probe| probe["name"] == "faults")).cloned();
    let faults = faults.expect("listed");
    assert_ne!(faults["rung"], "bpf", "{faults}");
    assert!(faults["reason"].as_str().is_some_and(|reason| reason.contains("BTF")), "{faults}");
    assert!(stderr(&output).contains("BTF"), "{}", stderr(&output));
}

/// The probes are attached through BPF alone: a host without tracefs, or with an empty one, loses nothing.
#[test]
fn without_tracefs_nothing_is_missing() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("r");
    let out = out.to_str().expect("plain path");
    let hide = "mount -t tmpfs tmpfs /sys/kernel/tracing; mount -t tmpfs tmpfs /sys/kernel/debug";
    let output = run(
        &mut in_namespace(hide, &["record", "--json", "--observe", "tasks,faults,maps", "-o", out, "--", "true"]),
        0,
    );
    let document = json(&output);
    let probes = document["manifest"]["probes"].as_array().expect("a list");
    for name in ["tasks", "faults", "maps"] {
        let probe = probes.iter().find(|probe| probe["name"] == name).expect("listed");
        assert_eq!(probe["state"], "active", "{probe}");
    }
    assert!(!stderr(&output).contains("tracefs"), "nothing to warn of: {}", stderr(&output));
}
