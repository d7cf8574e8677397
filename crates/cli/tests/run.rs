//! `pagelab run` as whoever comes from fio uses it: fio's own options, its report wherever it is wanted, Ctrl-C.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{json, pagelab, run, scratch, stderr};

const JOBS: &str = "[global]\nioengine=null\nbs=4k\nsize=64k\n[a]\nrw=read\n[b]\nrw=write\nnumber_ios=3\n";

fn job_file(directory: &Path) -> String {
    let path = directory.join("jobs.fio");
    std::fs::write(&path, JOBS).expect("a job file");
    path.display().to_string()
}

fn jobs_of(document: &serde_json::Value) -> Vec<&str> {
    document["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["jobname"].as_str()).collect()
}

#[test]
fn the_report_goes_where_fio_would_put_it() {
    let place = scratch();
    let (file, out) = (job_file(place.path()), place.path().join("report.json"));
    let recording = place.path().join("rec").display().to_string();
    let output = run(
        pagelab()
            .args(["run", &file, "--output-format=json", "-o", &recording])
            .arg(format!("--output={}", out.display())),
        0,
    );
    assert!(output.stdout.is_empty(), "the report is in the file");
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&out).expect("a report")).expect("one document");
    assert_eq!(jobs_of(&document), ["a", "b"]);
    assert!(Path::new(&recording).join("manifest.json").is_file());
    // What has no length needs none.
    run(pagelab().args(["run", &file, "--output=/dev/null"]).current_dir(place.path()), 0);
    // A path that cannot be written costs no run; a run that is refused leaves no file.
    let words = stderr(&run(pagelab().args(["run", &file, "--output=/nonexistent/report"]), 2));
    assert!(words.contains("/nonexistent/report"), "{words}");
    let none = place.path().join("none");
    let job = ["run", "--name=x", "--rw=write", "--size=4k", "--filename=/dev/zero"];
    run(pagelab().args(job).arg(format!("--output={}", none.display())).current_dir(place.path()), 2);
    assert!(!none.exists(), "no half-written report stays");
}

#[test]
fn sections_are_chosen_by_name() {
    let place = scratch();
    let file = job_file(place.path());
    let args = ["run", &file, "--section=b", "--output-format=json", "-o", "rec"];
    let document = json(&run(pagelab().args(args).current_dir(place.path()), 0));
    assert_eq!(jobs_of(&document), ["b"]);
    assert_eq!(document["jobs"][0]["write"]["total_ios"], 3);
    let words = stderr(&run(pagelab().args(["run", &file, "--section=bb"]), 2));
    assert!(words.contains("bb") && words.contains("did you mean 'b'"), "{words}");
    let output = run(pagelab().args(["run", &file, "--parse-only"]).current_dir(place.path()), 0);
    assert!(output.stdout.is_empty());
}

#[test]
fn help_comes_from_the_registry() {
    let text = |args: &[&str]| String::from_utf8(run(pagelab().arg("run").args(args), 0).stdout).expect("UTF-8");
    assert!(text(&["--cmdhelp=bssplit"]).contains("bssplit:"));
    assert!(text(&["--cmdhelp"]).contains("map_granularity"));
    assert!(text(&["--enghelp"]).contains("pvsync2"));
    assert!(text(&["--enghelp=pvsync2"]).contains("hipri"));
    for (args, words) in [
        (["--cmdhelp=blocksise"], "did you mean 'blocksize'"),
        (["--cmdhelp=verify_policy"], "refuses"),
        (["--enghelp=mmpa"], "did you mean 'mmap'"),
        (["--minimal"], "--output-format=json"),
        (["--status-interval=5"], "recording has every second"),
    ] {
        let said = stderr(&run(pagelab().args(["run", "--name=x", "--size=4k"]).args(args), 2));
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn readonly_forbids_every_change() {
    let place = scratch();
    let job = ["run", "--name=x", "--rw=write", "--size=64k", "--filename=f", "-o", "rec", "--readonly"];
    let words = stderr(&run(pagelab().args(job).current_dir(place.path()), 2));
    assert!(words.contains("--readonly"), "{words}");
    assert!(!place.path().join("f").exists());
}

#[test]
fn the_status_line_tells_how_far_the_run_is() {
    let place = scratch();
    let args = "run --name=x --ioengine=null --rw=randrw --size=1m --time_based --runtime=3 --eta=always -o rec";
    let words = stderr(&run(pagelab().args(args.split(' ')).current_dir(place.path()), 0));
    let lines: Vec<&str> = words.lines().filter(|line| line.starts_with("Jobs: 1 (f=1): [m(1)][")).collect();
    assert!(lines.len() >= 2, "{words}");
    assert!(
        lines.iter().all(|line| line.contains("[r=") && line.contains(",w=") && line.contains("[eta 00m:0")),
        "{words}"
    );
    let args = "run --name=x --ioengine=null --rw=read --size=1m --time_based --runtime=2 -o rec2";
    let words = stderr(&run(pagelab().args(args.split(' ')).current_dir(place.path()), 0));
    assert!(!words.contains("Jobs:"), "no terminal, no line: {words}");
}

/// SIGINT to pagelab and to what it started, as a terminal sends it, and to pagelab alone.
#[test]
fn ctrl_c_prints_the_whole_report() {
    for whole_group in [true, false] {
        let place = scratch();
        let args = "run --name=x --ioengine=null --rw=randread --bs=4k --size=1g --time_based --runtime=60 --numjobs=2 \
                    --output-format=json -o rec";
        let mut command = pagelab();
        command.args(args.split_whitespace()).current_dir(place.path()).stdout(std::process::Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().expect("pagelab starts");
        let begun = Instant::now();
        while !place.path().join("rec/manifest.json").exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "no recording was begun");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(1500));
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("not 0");
        let signal = rustix::process::Signal::INT;
        let sent = if whole_group {
            rustix::process::kill_process_group(pid, signal)
        } else {
            rustix::process::kill_process(pid, signal)
        };
        sent.expect("the signal is delivered");
        let asked = Instant::now();
        let output = child.wait_with_output().expect("it ends");
        assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
        let document = json(&output);
        assert_eq!(jobs_of(&document), ["x", "x"]);
        for job in document["jobs"].as_array().expect("jobs") {
            let read = &job["read"];
            assert!(read["total_ios"].as_u64() > Some(1000), "{read}");
            assert_eq!(read["clat_ns"]["N"], read["total_ios"], "every operation is in the report");
            assert!((500..10_000).contains(&read["runtime"].as_u64().expect("ms")), "{read}");
        }
        let manifest = std::fs::read_to_string(place.path().join("rec/manifest.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["complete"], true);
    }
}

/// What a killed recorder leaves: every second that was told, but the last one or two.
#[test]
fn seconds_are_recorded_as_they_pass() {
    let place = scratch();
    let args = "run --name=x --ioengine=null --rw=randread --bs=4k --size=1g --time_based --runtime=60 -o rec";
    let mut child = pagelab().args(args.split(' ')).current_dir(place.path()).spawn().expect("pagelab starts");
    std::thread::sleep(Duration::from_millis(6500));
    child.kill().expect("kill -9");
    child.wait().expect("it ends");
    let sql = "select count(distinct ts) as seconds, sum(count) as operations from latency where kind = 'clat'";
    let rows = json(&run(pagelab().args(["query", "rec", sql, "--format", "json"]).current_dir(place.path()), 0));
    let seconds = rows[0]["seconds"].as_u64().expect("a count");
    assert!((2..=6).contains(&seconds), "{rows}");
    assert!(rows[0]["operations"].as_u64() > Some(1_000_000), "{rows}");
}
