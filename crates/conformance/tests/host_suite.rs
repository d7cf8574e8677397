//! The suite on the running kernel, and on one that breaks its promises.
//!
//! A case that cannot fail proves nothing. Each names a switch of `shim/broken_kernel.c`; under it the case must not pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pagelab_conformance::{Options, Report, Verdict, cases, run};
use pagelab_testing::skipped;

const FIXTURE: &str = env!("CARGO_BIN_EXE_pagelab-conformance-fixture");

/// Settings of the host that cases change, and counters that must be as before.
fn host() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let files = [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/mm/transparent_hugepage/defrag",
        "/sys/kernel/mm/transparent_hugepage/use_zero_page",
        "/proc/sys/vm/min_free_kbytes",
        "/proc/sysvipc/shm",
    ];
    for file in files {
        found.insert(file.to_owned(), std::fs::read_to_string(file).unwrap_or_default());
    }
    for size in ["2048kB", "1048576kB"] {
        for name in ["nr_hugepages", "nr_overcommit_hugepages", "resv_hugepages", "surplus_hugepages"] {
            let file = format!("/sys/kernel/mm/hugepages/hugepages-{size}/{name}");
            found.insert(file.clone(), std::fs::read_to_string(&file).unwrap_or_default());
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let huge: Vec<&str> = mounts.lines().filter(|line| line.contains(" - hugetlbfs ")).collect();
    found.insert("mounts of hugetlbfs".to_owned(), huge.join("\n"));
    found
}

/// The host must be as it was; says what is not.
fn assert_as_before(before: &BTreeMap<String, String>, when: &str) {
    let now = host();
    let changed: Vec<_> = before.iter().filter(|(key, value)| now.get(*key) != Some(*value)).collect();
    let changed: Vec<_> = changed.iter().map(|(key, value)| (key, value, now.get(*key))).collect();
    assert!(changed.is_empty(), "{when}: (what, before, now) {changed:?}");
}

fn options(only: &[&str]) -> Options {
    Options {
        program: Some(PathBuf::from(FIXTURE)),
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    }
}

fn suite(options: &Options) -> Report {
    let before = host();
    let report = run(options, &mut |_| {}).expect("the suite runs");
    assert_eq!(report.not_put_back, Vec::<String>::new());
    assert_as_before(&before, "after the run");
    report
}

/// The broken kernel, compiled once.
fn shim() -> &'static Path {
    static SHIM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = folder.path().join("broken_kernel.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/broken_kernel.c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wno-nonnull", "-o"]).arg(&library).arg(source);
        assert!(gcc.status().expect("gcc is there (apt install gcc)").success(), "the shim compiles");
        (folder, library)
    });
    path
}

fn broken(case: &str, switch: &str) -> Options {
    let preload = shim().to_str().expect("a path of ASCII").to_owned();
    let variables = [("LD_PRELOAD", preload.as_str()), ("PAGELAB_BROKEN", switch)];
    let environment = variables.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    Options { environment, ..options(&[case]) }
}

#[test]
#[ignore = "changes the hugetlb pools and THP settings of the host, and puts them back"]
fn host_every_case_passes_here() {
    let report = suite(&options(&[]));
    assert_eq!(report.cases.len(), cases().count());
    let not_passed: Vec<_> = report.cases.iter().filter(|case| case.verdict != Verdict::Pass).collect();
    for case in &not_passed {
        let reason = case.reason.as_deref().unwrap_or_default();
        assert_eq!(case.verdict, Verdict::Skip, "{}: {reason}", case.name);
        assert!(!reason.is_empty(), "{}", case.name);
        skipped(format_args!("{}: {reason}", case.name));
    }
    assert!(not_passed.len() <= 3, "{} are skipped", not_passed.len());
}

#[test]
#[ignore = "changes the hugetlb pools and THP settings of the host, and puts them back"]
fn host_every_case_fails_on_a_kernel_that_breaks_its_subject() {
    let mut silent = Vec::new();
    let before = host();
    for case in cases() {
        let mut options = broken(case.name, case.broken_by);
        // What is broken stays so: waiting longer only takes longer.
        options.environment.push(("PAGELAB_CONFORMANCE_SETTLE_MS".to_owned(), "200".to_owned()));
        let report = run(&options, &mut |_| {}).expect("the suite runs");
        let result = report.cases.first().expect("one case");
        println!("{} under {}: {} {:?}", case.name, case.broken_by, result.verdict.word(), result.reason);
        match result.verdict {
            Verdict::Fail => {}
            // What cannot be run here cannot be shown here.
            Verdict::Skip => {
                skipped(format_args!("{}: {}", case.name, result.reason.as_deref().unwrap_or("no reason")));
            }
            Verdict::Pass | Verdict::Inconclusive => silent.push(case.name),
        }
    }
    assert_eq!(silent, Vec::<&str>::new(), "these do not notice what their switch breaks");
    assert_as_before(&before, "after all");
}

#[test]
#[ignore = "changes the hugetlb pools of the host, and puts them back"]
fn host_a_shim_that_breaks_nothing_changes_nothing() {
    let report = suite(&broken("accounting", "nothing"));
    for case in &report.cases {
        assert_eq!(case.verdict, Verdict::Pass, "{}: {:?}", case.name, case.reason);
    }
}

#[test]
#[ignore = "changes the hugetlb pools of the host, and puts them back"]
fn host_the_pool_table_is_reproduced_to_the_page() {
    let report = suite(&options(&["accounting.pool_table"]));
    let case = report.cases.first().expect("one case");
    assert_eq!(case.verdict, Verdict::Pass, "{:?}", case.reason);
    let rows: Vec<_> = (case.steps.iter())
        .filter(|step| !step.after.starts_with("unmapping"))
        .map(|step| (step.nr_pages, step.free_pages, step.resv_pages, step.surplus_pages))
        .collect();
    assert_eq!(rows, [(128, 128, 0, 0), (128, 78, 0, 0), (150, 0, 0, 22), (256, 0, 0, 128)]);
}

#[test]
#[ignore = "changes the hugetlb pools and THP settings of the host, and puts them back"]
fn host_a_run_that_is_killed_leaves_nothing() {
    let before = host();
    // At different moments: while the pool is made, in the midst of cases, in the midst of one that changes settings.
    for (case, pause) in [("accounting", 150), ("thp", 300), ("accounting.shrink_in_use", 250), ("races", 500)] {
        let mut child = Command::new(FIXTURE).arg(case).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        let deadline = Instant::now() + Duration::from_secs(20);
        while host() != before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_as_before(&before, &format!("after a kill {pause} ms into {case}"));
    }
}

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// Gives the pool its size back.
struct PutBack(String);

impl Drop for PutBack {
    fn drop(&mut self) {
        std::fs::write(POOL, &self.0).expect("root");
    }
}

#[test]
#[ignore = "changes the hugetlb pools of the host, and puts them back"]
fn host_a_larger_pool_is_not_made_smaller_for_the_run() {
    let before = host();
    // By hand, as the administrator: what a guard holds, the suite may not use.
    let put_back = PutBack(std::fs::read_to_string(POOL).expect("a pool"));
    std::fs::write(POOL, "300").expect("root");
    assert_eq!(std::fs::read_to_string(POOL).expect("a pool").trim(), "300");
    let report = suite(&self::options(&["accounting"]));
    for case in &report.cases {
        assert_eq!(case.verdict, Verdict::Pass, "{}: {:?}", case.name, case.reason);
        let first = case.steps.first().expect("each looks at the counters");
        assert_eq!((first.nr_pages, first.free_pages - first.resv_pages), (300, 128), "{}", case.name);
    }
    drop(put_back);
    assert_as_before(&before, "after all");
}
