//! Plans as people write them: what is understood, and what is said about every mistake.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use pagelab_experiment::{Better, Between, Plan, PlanError, Surroundings, Work};
use support::Place;

const JOB: &str = "[cache]\nioengine=anon\nrw=read\nsize=64m\nruntime=1\ntime_based\n";

const REST: &str = "runs = 2\n[variant.a]\ncommand = 'x'\n[variant.b]\ncommand = 'y'\n";

fn failure(place: &Place, text: &str) -> PlanError {
    let path = place.write("plan.toml", text);
    let plan = match Plan::load(&path) {
        Err(error) => return error,
        Ok(plan) => plan,
    };
    let here = Surroundings { root: place.root(), set: place.set(), seed: 1 };
    match plan.fill(&here) {
        Err(error) => error,
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

/// A plan, the exit status it must give, and what the message must hold besides the plan's name.
type Case = (&'static str, u8, &'static [&'static str]);

/// Line numbers count from the first line of the text.
const CASES: &[Case] = &[
    // The text itself.
    ("runs = \n", 2, &["plan.toml:1", "TOML"]),
    ("title = \"a\nruns = 2", 2, &["plan.toml:1", "TOML"]),
    ("runs = 2\nruns = 3\n", 2, &["plan.toml:2", "duplicate"]),
    ("", 2, &["at least 2 variants", "[variant.good]"]),
    // Keys.
    ("run = 2\n[variant.a]\n[variant.b]\n", 2, &["plan.toml:1", "`run`", "did you mean 'runs'"]),
    ("runs = 2\n\n[varient.a]\ncommand='x'\n", 2, &["plan.toml:3", "`varient`", "did you mean 'variant'"]),
    (
        "runs = 2\n[variant.a]\ncomand = 'x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:3", "variant.a.comand", "'variant.a.command'"],
    ),
    (
        "runs = 2\nprimary = { metrik = 'load.iops' }\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:2", "primary.metrik", "'primary.metric'"],
    ),
    (
        "runs = 2\nzzz = 1\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["unknown key `zzz`", "known here: title, runs"],
    ),
    // Values.
    (
        "runs = 'ten'\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "runs: found \"ten\"", "whole number"],
    ),
    ("runs = 1\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n", 2, &["runs: found 1", "from 2"]),
    ("runs = 2.5\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n", 2, &["runs: found 2.5"]),
    ("[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n", 2, &["`runs` is missing", "runs = 10"]),
    (
        "seed = -1\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "seed: found -1"],
    ),
    (
        "timeout = '5 parsecs'\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "5 parsecs", "\"90s\""],
    ),
    (
        "timeout = 0\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["timeout: found 0", "above 0"],
    ),
    (
        "between = 'drop_cache'\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "did you mean 'drop_caches'", "compact"],
    ),
    (
        "observe = 'fault'\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "\"fault\"", "faults"],
    ),
    (
        "primary = { metric = 'load.iop' }\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["primary.metric", "load.iop", "did you mean 'load.iops'"],
    ),
    (
        "primary = { metric = 'load.lat_ns' }\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["primary.metric", "load.lat_ns.mean"],
    ),
    (
        "primary = { metric = 'load.iops', direction = 'up' }\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["primary.direction", "\"higher\" or \"lower\""],
    ),
    (
        "primary = 'load.iops'\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["primary", "a table"],
    ),
    (
        "prepare = ''\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "prepare", "command line"],
    ),
    (
        "base = 'c'\nruns = 2\n[variant.a]\ncommand='x'\n[variant.b]\ncommand='y'\n",
        2,
        &["plan.toml:1", "base: found \"c\"", "a, b"],
    ),
    // Variants.
    ("runs = 2\n[variant.only]\ncommand='x'\n", 2, &["plan.toml:2", "only one, only", "at least 2"]),
    ("runs = 2\nvariant = 3\n", 2, &["plan.toml:2", "a table: [variant]"]),
    (
        "runs = 2\n[variant.a]\n[variant.b]\ncommand='x'\n",
        2,
        &["plan.toml:2", "[variant.a] runs", "job = \"FILE.fio\""],
    ),
    ("runs = 2\n[variant.a]\ncommand='x'\njob='y'\n[variant.b]\ncommand='x'\n", 2, &["plan.toml:3", "not both"]),
    ("runs = 2\n[variant.'a/b']\ncommand='x'\n[variant.b]\ncommand='x'\n", 2, &["plan.toml:2", "a/b", "letters"]),
    ("runs = 2\n[variant.a]\ncommand=''\n[variant.b]\ncommand='x'\n", 2, &["plan.toml:3", "variant.a.command"]),
    // Jobs.
    (
        "runs = 2\n[variant.a]\njob='missing.fio'\n[variant.b]\ncommand='x'\n",
        2,
        &["plan.toml:3", "missing.fio", "No such file", "relative to the plan"],
    ),
    ("runs = 2\n[variant.a]\njob='wrong.fio'\n[variant.b]\ncommand='x'\n", 2, &["plan.toml:3", "wrong.fio:3", "bogus"]),
    ("runs = 2\njob = []\n[variant.a]\n[variant.b]\n", 2, &["plan.toml:2", "job"]),
    // Settings.
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b]\nsettings = { 'thp.enable' = 'always' }\n",
        2,
        &["plan.toml:5", "thp.enable", "did you mean 'thp.enabled'"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'thp.enabled' = 'allways'\n",
        2,
        &["plan.toml:5", "allways", "always, madvise, never"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'sysctl.vm.swapiness' = 10\n",
        2,
        &["plan.toml:5", "sysctl.vm.swapiness", "sysctl.vm.swappiness"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'block.sda.read_ahead_kb' = 0\n",
        2,
        &["plan.toml:5", "sda"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'kernel.release' = '9'\n",
        2,
        &["plan.toml:5", "only be recorded"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'rlimit.nofil' = 9\n",
        2,
        &["plan.toml:5", "rlimit.nofile"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'rlimit.nofile' = 'many'\n",
        2,
        &["plan.toml:5", "many"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'mm.thp_disable' = 'perhaps'\n",
        2,
        &["plan.toml:5", "perhaps"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'thp.enabled' = true\n",
        2,
        &["plan.toml:5", "found true"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'hugetlb.2M.nr_hugepages' = 'lots'\n",
        2,
        &["plan.toml:5", "lots", "number of pages"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'hugetlb.2M.nr_hugepages' = 1\n'hugetlb.2048kB.nr_hugepages' = 2\n",
        2,
        &["plan.toml:6", "set twice"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'hugetlb.1G.nr_hugepages' = 1\n",
        3,
        &["plan.toml:5", "only 2M"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'block.{device of /proc}.read_ahead_kb' = 0\n",
        3,
        &["plan.toml:5", "block device", "workdir"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'block.{device of .read_ahead_kb' = 0\n",
        2,
        &["plan.toml:5", "closing brace"],
    ),
    // Harmless differences.
    ("runs = 2\ncommand='x'\n[decoys]\ncount = 0\n[variant.a]\n[variant.b]\n", 2, &["plan.toml:4", "decoys.count"]),
    (
        "runs = 2\ncommand='x'\n[decoys]\ncount = 500\n[variant.a]\n[variant.b]\n",
        3,
        &["plan.toml:3", "decoys.count", "1000"],
    ),
    (
        "runs = 2\ncommand='x'\n[decoys.pool]\n'env.A' = ['1', '1']\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "differ"],
    ),
    (
        "runs = 2\ncommand='x'\n[decoys.pool]\n'env.A' = '1'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "two harmless values"],
    ),
    (
        "runs = 2\ncommand='x'\n[decoys.pool]\n'evn.A' = ['1', '2']\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "evn.A"],
    ),
    // What is wrong by itself is said of the first such key in the file, whatever its name, before what plans lack.
    ("warmup = 'x'\nruns = 1\n", 2, &["plan.toml:1", "warmup: found \"x\"", "from 0 to 100"]),
    (
        "runs = 2\n[value]\nx = { regx = '(.)' }\n",
        2,
        &["plan.toml:3", "`value.x.regx`", "'value.x.regex'", "regex, direction"],
    ),
    ("runs = 2\nvalue.x.direction = 'up'\n", 2, &["plan.toml:2", "value.x.direction: found \"up\"", "\"higher\""]),
    ("runs = 2\ntitle = 5\n", 2, &["plan.toml:2", "title: found 5", "text in quotes: title = \"...\""]),
    ("runs = 2\ncommand = ['a', 5]\n", 2, &["plan.toml:2", "command: found [\"a\", 5]", "a list of them in [ ]"]),
    (
        "runs = 2\n[decoys]\npool = 'env.A'\n",
        2,
        &["plan.toml:3", "decoys.pool: found \"env.A\"", "a table: [decoys.pool]"],
    ),
    // The lab.
    ("runs = 2\n[lab]\nkernal = '6.1'\n", 2, &["plan.toml:3", "lab.kernal", "did you mean 'lab.kernel'"]),
    ("runs = 2\n[lab]\nkernel = '6.1'\n", 2, &["at least 2 variants"]),
    (
        "runs = 2\ncommand='x'\n[lab]\nkernal = '6.1'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.kernal", "did you mean 'lab.kernel'"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nkernel = '6.11'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.kernel: found \"6.11\"", "6.1 or 6.12", "did you mean"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nkernel = 6.1\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.kernel: found 6.1", "6.1 or 6.12"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nmemory = '1 GB'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.memory", "\"512M\""],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nmemory = '1M'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.memory", "256M or more"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\npmem = '100M'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.pmem", "multiple of 128M"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\npmem_kind = 'nvdim'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.pmem_kind", "did you mean 'nvdimm'"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nicount = 11\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.icount: found 11", "0 to 10"],
    ),
    ("runs = 2\n[lab]\nicount = 256\n", 2, &["plan.toml:3", "lab.icount: found 256", "from 0 to 255"]),
    ("runs = 2\n[lab]\nmodules = [1]\n", 2, &["plan.toml:3", "lab.modules: found [1]", "a list of them in [ ]"]),
    ("runs = 2\n[lab]\nmemory = true\n", 2, &["plan.toml:3", "lab.memory: found true", "\"512M\""]),
    (
        "runs = 2\ncommand='x'\n[lab]\nprograms = 'gdb '\npmem = 'much'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:5", "lab.pmem: found \"much\"", "\"none\"", "\"1G\""],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nicount = 3\naccel = 'kvm'\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:5", "lab.accel", "only an emulator counts"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\nmodules = ['../x']\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "lab.modules", "kernel module"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\n[decoys]\ncount = 1\n[variant.a]\n[variant.b]\n",
        2,
        &["plan.toml:4", "decoys", "together with [lab]"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\nkernel = '6.1'\n",
        2,
        &["plan.toml:5", "`kernel`", "decided at boot", "[lab]"],
    ),
    (
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b.settings]\n'cmdline.norandmaps' = 'set'\n",
        2,
        &["plan.toml:5", "`cmdline.norandmaps`", "[lab]"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\n[variant.a]\n[variant.b.settings]\nkernel = '6.2'\n",
        2,
        &["plan.toml:6", "kernel: found \"6.2\"", "6.1 or 6.12"],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\n[variant.a]\n[variant.b.settings]\n'cmdline.a' = ''\n",
        2,
        &["plan.toml:6", "cmdline.a", "\"set\""],
    ),
    (
        "runs = 2\ncommand='x'\n[lab]\n[variant.a]\n[variant.b.settings]\n'kconfig.HZ' = '100'\n",
        2,
        &["plan.toml:6", "only be recorded"],
    ),
];

#[test]
fn every_mistake_has_its_line_its_cure_and_its_exit_status() {
    let place = Place::new();
    place.write("cache.fio", JOB);
    place.write("wrong.fio", "[cache]\nioengine=anon\nbogus=1\nsize=1m\n");
    for (text, status, needed) in CASES {
        let error = failure(&place, text);
        let message = error.to_string();
        assert_eq!(error.exit_status(), *status, "{message}\n{text}");
        for part in *needed {
            assert!(message.contains(part), "{part:?} is missing in {message:?} about\n{text}");
        }
        assert!(!message.contains('\n'), "one line: {message:?}");
    }
}

#[test]
fn files_that_are_no_plan() {
    let place = Place::new();
    let missing = Plan::load(&place.dir.path().join("nothing.toml")).unwrap_err();
    assert!(missing.to_string().contains("nothing.toml") && missing.exit_status() == 2, "{missing}");
    let path = place.write("latin1.toml", "");
    std::fs::write(&path, b"title = \"caf\xe9\"").unwrap();
    let error = Plan::load(&path).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
    let folder = Plan::load(place.dir.path()).unwrap_err();
    assert_eq!(folder.exit_status(), 2);
}

#[test]
fn a_full_plan_is_understood() {
    let place = Place::new();
    place.write("cache.fio", JOB);
    let plan = place.plan(
        r#"
        title = "everything"
        runs = 12
        seed = 0x1F
        observe = ["default", "faults"]
        primary = { metric = "load.lat_ns.p99", direction = "lower" }
        warmup = 1
        prepare = "sync && true"
        cleanup = ["rm", "-f", "a file"]
        between = ["sync", "drop_caches", "compact"]
        timeout = "1500ms"
        workdir = "{set}/scratch"
        base = "second"
        job = "cache.fio"
        settings = { "sysctl.vm.swappiness" = 1 }

        [variant.first.settings]
        thp.enabled = "always"
        "hugetlb.2048kB.nr_hugepages" = 16

        [variant.second]
        command = ["echo", "it's"]
        settings = { "sysctl.vm.swappiness" = 60, "env.LANG" = "C", "mm.thp_disable" = 1 }
        "#,
    );
    assert_eq!((plan.title.as_str(), plan.runs, plan.seed, plan.warmup), ("everything", 12, Some(31), 1));
    assert_eq!(plan.observe, "default,faults");
    let primary = plan.primary.as_ref().unwrap();
    assert_eq!((primary.metric.as_str(), primary.direction), ("load.lat_ns.p99", Some(Better::Lower)));
    assert_eq!(plan.prepare.as_ref().unwrap(), &["/bin/sh", "-c", "sync && true"]);
    assert_eq!(plan.cleanup.as_ref().unwrap(), &["rm", "-f", "a file"]);
    assert_eq!(plan.between, [Between::Sync, Between::DropCaches, Between::Compact]);
    assert_eq!(plan.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(plan.base, "second");
    assert!(plan.notes.is_empty());
    let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["first", "second"], "in the order of the file");
    assert!(matches!(&plan.variants[0].work, Work::Job { workload, .. } if workload.jobs.len() == 1));
    assert_eq!(plan.variants[1].work.line(), r"echo 'it'\''s'");
    let filled = plan.fill(&Surroundings { root: place.root(), set: place.set(), seed: 1 }).unwrap();
    assert_eq!(filled.workdir, place.set().join("scratch"));
    let first = &filled.variants[0];
    assert_eq!(first.host["thp.enabled"], "always");
    assert_eq!(first.host["hugetlb.2M.nr_hugepages"], "16", "keys come in their one spelling");
    assert_eq!(first.host["sysctl.vm.swappiness"], "1", "shared settings hold for every variant");
    let second = &filled.variants[1];
    assert_eq!(second.host["sysctl.vm.swappiness"], "60", "a variant's own value goes first");
    assert_eq!(second.process.len(), 2);
}

#[test]
fn variants_keep_the_order_of_the_file_whatever_their_names() {
    let place = Place::new();
    let plan = place.plan("runs = 2\ncommand = 'x'\n[variant.zeta]\n[variant.alpha]\nsettings = {'thp.enabled' = 'never'}\n[variant.mid]\n");
    let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["zeta", "alpha", "mid"]);
    assert_eq!(plan.base, "zeta");
    assert_eq!(plan.title, "plan");
}

#[test]
fn an_a_a_plan_is_allowed_and_said_to_be_one() {
    let place = Place::new();
    let plan = place.plan("runs = 2\ncommand = 'x'\n[variant.a]\n[variant.b]\n");
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].contains("A/A"));
    assert!(place.plan(REST).notes.is_empty());
}

#[test]
fn the_device_of_the_work_directory_is_found() {
    let place = Place::new();
    // The plan's directory lies on some device of this machine; the pretended host calls that one `vda`.
    let meta = std::fs::metadata(place.dir.path()).unwrap();
    let device = std::os::unix::fs::MetadataExt::dev(&meta);
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let link = place.root().join("sys/dev/block").join(number);
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("../../devices/x/block/vda", link).unwrap();
    let plan = place.plan(
        "runs = 2\ncommand='x'\n[variant.a]\n[variant.b]\nsettings = { 'block.{device of .}.read_ahead_kb' = 0 }\n",
    );
    let filled = plan.fill(&Surroundings { root: place.root(), set: place.set(), seed: 1 }).unwrap();
    assert_eq!(filled.variants[1].host["block.vda.read_ahead_kb"], "0");
    assert!(filled.variants[0].host.is_empty());
}

#[test]
fn decoys_are_drawn_from_the_seed_and_kept_in_the_set() {
    let place = Place::new();
    let text = "runs = 2\ncommand='x'\n[variant.a]\n[variant.b]\n[decoys]\ncount = 2\n[decoys.pool]\n\
                'env.A' = ['1', '2']\n'env.B' = ['1', '2']\n'env.C' = ['1', '2']\n'env.D' = ['1', '2']\n\
                'sysctl.net.core.somaxconn' = ['4096', '8192']\n'sysctl.not.there' = ['1', '2']\n";
    let plan = place.plan(text);
    let fill = |seed| plan.fill(&Surroundings { root: place.root(), set: place.set(), seed }).unwrap();
    let filled = fill(1);
    assert_eq!(filled.decoys.len(), 4);
    for decoy in &filled.decoys {
        let value = |variant: usize| {
            let variant = &filled.variants[variant];
            variant.host.get(&decoy.key).or_else(|| variant.process.get(&decoy.key)).unwrap()
        };
        assert_ne!(value(0), value(1), "{}", decoy.key);
    }
    assert!(filled.notes.iter().any(|note| note.contains("sysctl.not.there")), "{:?}", filled.notes);
    assert_eq!(filled, fill(1));
    assert!((2..20).any(|seed| fill(seed).decoys != filled.decoys));
}

/// The plans that come with pagelab, with their jobs: every file below `experiments/` that is none of the other kinds.
#[test]
fn published_experiments_are_right_as_written() {
    const OTHERS: [&str; 3] = ["published.toml", "measured.toml", "reproduce.toml"];
    let experiments = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut folders = vec![experiments];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") && !OTHERS.contains(&name.as_str()) {
                let plan = Plan::load(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                // Those that only count have nothing to compare, and tests give the companions seeds of their own.
                if path.parent().is_some_and(|folder| folder.join("published.toml").exists()) && name == "plan.toml" {
                    assert!(
                        plan.primary.is_some() && plan.seed.is_some(),
                        "{}: no primary, or no seed",
                        path.display()
                    );
                }
                found.push(name);
            }
        }
    }
    let main = found.iter().filter(|name| *name == "plan.toml").count();
    assert!(main >= 5 && found.len() >= 15, "{found:?}");
}
