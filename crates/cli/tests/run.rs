//! `pagelab run` as whoever comes from fio uses it: fio's own options, its report wherever it is wanted, Ctrl-C.

use crate::common;

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
    let job = ["run", "--name=x", "--rw=write", "--size=4k", "--filename=/dev/random"];
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
        (["--terse-version=6"], "needed 2, 3, 4 or 5"),
        (["--status-interval=0"], "status-interval"),
        (["--debug=io"], "write_iolog"),
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

/// SIGINT to pagelab and its children, as a terminal sends it, and to pagelab alone.
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
        assert_eq!(output.status.code(), Some(128), "fio's status of a run that was cut short");
        let document = json(&output);
        assert_eq!(jobs_of(&document), ["x", "x"]);
        for job in document["jobs"].as_array().expect("jobs") {
            let read = &job["read"];
            assert!(read["total_ios"].as_u64() > Some(1000), "{read}");
            assert_eq!(read["clat_ns"]["N"], read["total_ios"], "every operation is in the report");
            // Beside others a worker may begin late, and it was not at work for longer than pagelab ran.
            let most = u64::try_from(begun.elapsed().as_millis()).expect("ms");
            assert!((1..=most).contains(&read["runtime"].as_u64().expect("ms")), "{read}");
        }
        let manifest = std::fs::read_to_string(place.path().join("rec/manifest.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["complete"], true);
    }
}

/// The remains of a killed recorder: every second that was reported, but the last one or two.
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

/// What people copy from fio's manual, from blogs and from other programs.
#[test]
fn fios_spellings_are_read() {
    let place = scratch();
    let file = job_file(place.path());
    let here = |args: &[&str], status| run(pagelab().arg("run").args(args).current_dir(place.path()), status);
    let version = String::from_utf8(here(&["--version"], 0).stdout).expect("UTF-8");
    assert!(version.starts_with("fio-3") && version.contains("pagelab-"), "{version}");
    for args in [
        &["-name=x", "-ioengine=null", "-rw=read", "-size=64k", "-direct=1", "-output-format=json"][..],
        &["--name", "x", "--ioengine", "null", "--rw", "read", "--size", "64k", "--output-format", "json"],
        &[
            "--max-jobs=16",
            "--eta-newline=1",
            "--alloc-size=1024",
            "--output-format=normal",
            "--output-format=json",
            "--name=x",
            "--ioengine=null",
            "--rw=read",
            "--size=64k",
        ],
    ] {
        let document = json(&here(args, 0));
        assert_eq!(jobs_of(&document), ["x"], "{args:?}");
    }
    let document = json(&here(&["--number_ios=2", &file, "--output-format=json"], 0));
    assert_eq!(document["jobs"][0]["read"]["total_ios"], 2, "options before a file are its defaults");
    assert_eq!(document["jobs"][1]["write"]["total_ios"], 3);
    // Several layouts, in fio's order.
    let text = String::from_utf8(here(&[&file, "--output-format=normal,json,terse"], 0).stdout).expect("UTF-8");
    let places = ["3;fio-3", "\"jobs\"", "a: (groupid=0"].map(|part| text.find(part).expect(part));
    assert!(places.is_sorted(), "{places:?}");
    let text = String::from_utf8(here(&[&file, "--minimal"], 0).stdout).expect("UTF-8");
    assert!(text.lines().count() == 2 && text.starts_with("3;fio-3"), "{text}");
    let words = stderr(&here(&[&file, "--output-format=json,xml"], 2));
    assert!(words.contains("'xml'") || words.contains("not one of"), "{words}");
    let words = stderr(&here(&["--name=x", "--size=64k", "no-such.fio"], 2));
    assert!(words.contains("no-such.fio: found no such job file"), "{words}");
}

#[test]
fn a_job_is_read_from_standard_input() {
    use std::io::Write as _;
    let place = scratch();
    let mut command = pagelab();
    command.args(["run", "-", "--output-format=json"]).current_dir(place.path());
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("pagelab starts");
    child.stdin.take().expect("piped").write_all(JOBS.as_bytes()).expect("written");
    let document = json(&child.wait_with_output().expect("it ends"));
    assert_eq!(jobs_of(&document), ["a", "b"]);
}

/// A minimum that cannot be reached ends the job.
const TOO_SLOW: &str = "[x]
ioengine=null
rw=read
size=1g
time_based=1
runtime=5
rate_iops=10
rate_iops_min=10
rate_cycle=1
thinktime=600ms
";

#[test]
fn a_plan_leaves_out_runs_whose_job_failed() {
    let place = scratch();
    std::fs::write(place.path().join("slow.fio"), TOO_SLOW).expect("write");
    let plan = "runs = 2\nobserve = \"settings\"\njob = \"slow.fio\"\n[variant.a]\n[variant.b]\n";
    std::fs::write(place.path().join("plan.toml"), plan).expect("write");
    let output = run(pagelab().args(["experiment", "-o", "set", "plan.toml"]).current_dir(place.path()), 2);
    let words = stderr(&output);
    assert!(words.contains("exit status 1; job 'x' worker 0:") && words.contains("all 2 runs of round 1"), "{words}");
}

#[test]
fn a_run_that_fails_says_why_on_standard_error() {
    let place = scratch();
    std::fs::write(place.path().join("short"), vec![1; 4096]).expect("write");
    let here = |args: &[&str], status| {
        let output = run(pagelab().arg("run").args(args).current_dir(place.path()), status);
        stderr(&output)
    };
    // A minimum that cannot be reached ends the job.
    let failing = [
        "--name=x",
        "--ioengine=null",
        "--rw=read",
        "--size=1g",
        "--time_based",
        "--runtime=5",
        "--rate_iops=10",
        "--rate_iops_min=10",
        "--rate_cycle=1",
        "--thinktime=600ms",
        "--output=report.txt",
    ];
    let words = here(&failing, 1);
    assert!(words.contains("job 'x' worker 0:") && words.contains("rate"), "{words}");
    // What is refused is refused once, in words of the job's.
    let words = here(&["--name=x", "--rw=write", "--size=64k", "--filename=short"], 2);
    assert!(words.contains("--allow-write") && !words.contains("protocol"), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
    let words = here(&["--name=x", "--rw=randwrite", "--size=64k", "--ioengine=null", "--readonly"], 2);
    assert!(words.contains("rw=randwrite") && words.contains("--readonly"), "{words}");
    assert!(here(&["-q", "--name=x", "--ioengine=null", "--size=64k"], 0).is_empty());
}

#[test]
fn parse_only_refuses_what_the_text_has_wrong() {
    let place = scratch();
    let here = |job: &str, status| {
        let output =
            run(pagelab().args(["run", "--parse-only"]).args(job.split(' ')).current_dir(place.path()), status);
        stderr(&output)
    };
    // As in fio: which file is there is nothing that the job's text has wrong.
    for job in [
        "--name=x --rw=write --size=64k --offset=25%",
        "--name=x --rw=randread --filename=/not/here/yet --ioengine=libaio --direct=1",
        "--name=x --rw=write --directory=/not/here --size=1m",
        "--name=x --rw=write --filename=/not/here/yet --fill_device=1",
        "--name=x --rw=randtrim --filename=none",
        // What lengths need a map of nobody knows yet.
        "--name=x --rw=randrw --bssplit=4k/80:64k/20 --filename=/not/here/yet",
    ] {
        assert_eq!(here(job, 0), "", "{job}");
    }
    assert!(!place.path().join("none").exists());
    assert!(here("--name=x --size=64k --rw=reda", 2).contains("did you mean 'read'"));
    // What is only a warning where it runs is one here, too.
    let rivals = "--name=a --rw=write --size=64k --filename=f --verify=crc32c --numjobs=2 --direct=1";
    assert!(here(rivals, 0).contains("same bytes"));
    // A device that is not on this machine may be on the one that the job is for.
    here("--name=x --rw=randread --filename=/dev/nvme99n1 --offset=25%", 0);
    here("--name=x --rw=write --size=64k --filesize=128k --offset=25%", 0);
}

/// fio writes nothing but what jobs and reports write; nor does a run that records nothing. Its last line says what would record.
#[test]
fn a_run_without_o_records_nothing_and_says_so() {
    let place = scratch();
    let here = |more: &[&str]| {
        let job = ["run", "--name=x", "--rw=write", "--size=64k"];
        run(pagelab().args(job).args(more).env("TMPDIR", "/nonexistent").current_dir(place.path()), 0)
    };
    let output = here(&[]);
    let last = stderr(&output).lines().last().expect("a line").to_owned();
    assert!(last.contains("nothing was recorded") && last.contains("-o DIR"), "{last}");
    for quiet in ["--output-format=json", "--minimal", "-q"] {
        let output = here(&[quiet]);
        assert!(output.stderr.is_empty(), "{quiet}: {}", stderr(&output));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("-o DIR"));
    }
    let names: Vec<_> =
        std::fs::read_dir(place.path()).expect("a directory").flatten().map(|e| e.file_name()).collect();
    assert_eq!(names, ["x.0.0"]);
}

#[test]
fn warnings_come_in_every_layout() {
    let place = scratch();
    let job = ["run", "--name=x", "--rw=write", "--size=64k", "--iodepth=8", "--time_based"];
    for layout in ["normal", "json", "json+", "terse", "json,normal"] {
        let output = run(pagelab().args(job).arg(format!("--output-format={layout}")).current_dir(place.path()), 0);
        let said = stderr(&output);
        assert!(
            said.contains("iodepth=8 has no effect") && said.contains("time_based has no effect"),
            "{layout}: {said}"
        );
        assert!(!String::from_utf8_lossy(&output.stdout).contains("has no effect"), "{layout}");
    }
    // Those of the recorder, too, and where it recorded into.
    let args = ["--output-format=json", "--observe=settings", "--label=x"];
    let said = stderr(&run(pagelab().args(job).args(args).current_dir(place.path()), 0));
    assert!(said.contains("recorded into"), "{said}");
}

#[test]
fn help_may_stand_anywhere() {
    for args in [&["run", "--name=x", "--help"][..], &["run", "--name=x", "--rw=read", "-h"], &["run", "-help"]] {
        let text = String::from_utf8(run(pagelab().args(args), 0).stdout).expect("UTF-8");
        assert!(text.contains("--output-format"), "{args:?}: {text}");
    }
}

/// SIGUSR1 while a run is recorded, with its report in a file: both reports are in it, and the recording is whole.
#[test]
fn a_report_on_request_and_the_run_goes_on() {
    for recorded in [true, false] {
        let place = scratch();
        let args = "run --name=x --ioengine=null --rw=read --bs=4k --size=1g --time_based --runtime=4 --rate_iops=500 \
                    --output-format=json --output=report";
        let mut command = pagelab();
        command.args(args.split_whitespace()).current_dir(place.path());
        if recorded {
            command.args(["-o", "rec", "--observe=settings"]);
        }
        let mut child = command.spawn().expect("pagelab starts");
        std::thread::sleep(Duration::from_millis(2500));
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("not 0");
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("the signal is delivered");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
        let text = std::fs::read_to_string(place.path().join("report")).expect("a report");
        let documents: Vec<serde_json::Value> =
            serde_json::Deserializer::from_str(&text).into_iter().map(|one| one.expect("JSON")).collect();
        let done: Vec<u64> =
            documents.iter().map(|one| one["jobs"][0]["read"]["total_ios"].as_u64().expect("a count")).collect();
        assert!(done.len() == 2 && 0 < done[0] && done[0] < done[1], "recorded: {recorded}: {done:?}");
        if recorded {
            let manifest = std::fs::read_to_string(place.path().join("rec/manifest.json")).expect("a manifest");
            let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
            assert_eq!(manifest["complete"], true);
        }
    }
}

#[test]
fn what_is_refused_leaves_no_log_and_names_no_false_mistake() {
    let place = scratch();
    // The second job cannot get ready: its file is gone when it is opened.
    let args = "run --name=a --ioengine=null --rw=read --size=64k --write_lat_log=a --write_iolog=io \
                --name=b --ioengine=null --rw=read --size=64k --write_bw_log=sub/none";
    let output = pagelab().args(args.split_whitespace()).current_dir(place.path()).output().expect("starts");
    assert!(!output.status.success());
    let names: Vec<_> =
        std::fs::read_dir(place.path()).expect("a directory").flatten().map(|e| e.file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
    std::fs::write(place.path().join("j.fio"), "[global]\nioengine=nosuch\n[a]\nrw=read\nsize=64k\n[b]\nrw=read\n")
        .expect("written");
    for job in [&["j.fio"][..], &["--ioengine=nosuch", "--name=a", "--rw=read", "--size=64k"]] {
        let said = stderr(&run(pagelab().arg("run").args(job).current_dir(place.path()), 2));
        assert!(said.contains("nosuch") && !said.contains("take its size from"), "{said}");
    }
}
