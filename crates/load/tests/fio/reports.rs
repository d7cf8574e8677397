//! What is reported, and over which time: phases of verifying jobs, groups of jobs that run one after the other, errors that a job went
//! on after, parts of a report in several layouts. Each beside fio in the same run.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{document, fio_program, pagelab};

/// The same arguments in both programs, in this directory; fio's first.
fn both(place: &Path, words: &str) -> [Output; 2] {
    let run =
        |mut program: Command| program.current_dir(place).args(words.split_whitespace()).output().expect("starts");
    [run(fio_program()), run(pagelab())]
}

fn job(output: &Output) -> Value {
    document(output)["jobs"][0].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Writing takes a second by its rate, verifying some milliseconds: each has a time and rates of its own.
#[test]
fn writing_and_verifying_have_a_time_each() {
    let words = "--name=v --filename=v --rw=write --bs=64k --size=4m --rate=,4m --verify=crc32c --output-format=json,normal,terse";
    for (place, program) in [fio_program(), pagelab()].map(|program| (tempfile::tempdir().expect("tempdir"), program)) {
        let mut program = program;
        let output = program.current_dir(place.path()).args(words.split(' ')).output().expect("starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let from = text.find("\n{\n").expect("JSON") + 1;
        let to = text.find("\n}\n").expect("JSON") + 3;
        let job = serde_json::from_str::<Value>(&text[from..to]).expect("JSON")["jobs"][0].clone();
        let (write, read) = (&job["write"], &job["read"]);
        assert_eq!((write["total_ios"].as_u64(), read["total_ios"].as_u64()), (Some(64), Some(64)));
        let (writing, reading) = (number(&write["runtime"]), number(&read["runtime"]));
        assert!(writing > 950.0, "{write}");
        assert!(reading * 4.0 < writing, "verifying took {reading} ms of {writing}");
        assert!(
            number(&read["bw"]) > 3.0 * number(&write["bw"]) && number(&read["iops"]) > 3.0 * number(&write["iops"])
        );
        // The other layouts say the same.
        let terse: Vec<&str> =
            text.lines().find(|line| line.starts_with("3;fio-")).expect("terse").split(';').collect();
        assert_eq!((terse[8].parse::<f64>().ok(), terse[49].parse::<f64>().ok()), (Some(reading), Some(writing)));
        assert!(text.contains(&format!("/{writing}msec)")) && text.contains(&format!("/{reading}msec)")), "{text}");
    }
}

/// A group's jobs one after the other: rates over the longest of their times, the job's time is the sum.
#[test]
fn a_group_reports_over_its_longest_job() {
    let place = tempfile::tempdir().expect("tempdir");
    let words = "--ioengine=null --size=1g --rw=read --rate_iops=200 --time_based --group_reporting --output-format=json \
                 --name=a --runtime=600ms --name=b --startdelay=700ms --runtime=300ms";
    for output in both(place.path(), words) {
        let job = job(&output);
        let runtime = number(&job["read"]["runtime"]);
        assert!((550.0..690.0).contains(&runtime), "the longer one's time: {runtime}");
        assert!((850.0..1200.0).contains(&number(&job["job_runtime"])), "the sum of both: {}", job["job_runtime"]);
    }
}

/// A file system of 4 MiB that goes away again.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(directory.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "mounting a tmpfs needs root: run the tests as root");
        Self(directory)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// What a report says of errors: in JSON, at the ends of the terse line, in the text.
fn errors(output: &Output) -> (Value, Value, Value, Vec<String>, String, bool) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let from = text.find("\n{\n").expect("JSON") + 1;
    let to = text.find("\n}\n").expect("JSON") + 3;
    let job = serde_json::from_str::<Value>(&text[from..to]).expect("JSON")["jobs"][0].clone();
    let terse: Vec<String> =
        text.lines().find(|line| line.starts_with("3;")).expect("terse").split(';').map(str::to_owned).collect();
    let mut ends = vec![terse[4].clone()];
    if !job["total_err"].is_null() {
        ends.extend(terse.iter().rev().take(2).cloned());
    }
    let line = text.lines().find(|line| line.contains("errors    :")).unwrap_or_default().trim().to_owned();
    let shown = text.lines().any(|line| line.contains(&format!("err={:>2}", job["error"].as_i64().unwrap_or(-1))));
    (job["error"].clone(), job["total_err"].clone(), job["first_error"].clone(), ends, line, shown)
}

#[test]
fn errors_that_a_job_went_on_after_are_reported() {
    for more in [
        "--continue_on_error=write",
        "--continue_on_error=all",
        "--ignore_error=,ENOSPC",
        "--continue_on_error=write --ignore_error=,ENOSPC",
        "--continue_on_error=read",
        "--fill_device=1 --continue_on_error=all",
        "",
    ] {
        let words = format!(
            "--name=e --rw=write --bs=64k --size=8m --fallocate=none --create_on_open=1 --output-format=json,normal,terse {more}"
        );
        let [theirs, ours] = [fio_program(), pagelab()].map(|mut program| {
            let (small, state) = (Small::new(), tempfile::tempdir().expect("tempdir"));
            let output = program
                .env("PAGELAB_STATE_DIR", state.path())
                .current_dir(small.0.path())
                .args(words.split_whitespace())
                .output()
                .expect("starts");
            (errors(&output), output.status.success())
        });
        assert_eq!(ours, theirs, "{more}");
    }
}

/// A surface scan: four blocks are wrong, and it goes on.
#[test]
fn wrong_blocks_that_a_job_went_on_after_are_errors() {
    use std::os::unix::fs::FileExt as _;
    let place = tempfile::tempdir().expect("tempdir");
    let scan =
        "--filename=scan --bs=64k --verify=meta --verify_pattern=0xaaff --verify_interval=512 --size=1m --thread";
    let words = format!("--name=w --rw=write --do_verify=0 {scan}");
    let written = pagelab().current_dir(place.path()).args(words.split(' ')).output().expect("starts");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let file = std::fs::File::options().write(true).open(place.path().join("scan")).expect("opens");
    for sector in [123, 300, 700, 1500] {
        file.write_all_at(&[0x5a; 512], sector * 512).expect("writes");
    }
    for more in ["--continue_on_error=verify", "--continue_on_error=all"] {
        let words = format!("--name=r --rw=read {scan} {more} --output-format=json,normal,terse");
        let [theirs, ours] = both(place.path(), &words);
        assert_eq!(errors(&ours), errors(&theirs), "{more}");
        assert_eq!(errors(&ours).1, 4, "{more}");
        assert_eq!(ours.status.code(), Some(1), "contents that are wrong fail the command in any case");
    }
}

/// The beginnings of the parts of an output, in order.
fn parts(output: &Output) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let part = |line: &str| match line {
        line if line.starts_with("a: (g=0): rw=read") => Some("heading"),
        line if line.starts_with("a: (groupid=0") => Some("job"),
        line if line.starts_with("Run status group 0") => Some("groups"),
        line if ["2;a;", "3;fio-", "4;fio-", "5;fio-"].iter().any(|begin| line.starts_with(begin)) => Some("terse"),
        "{" => Some("JSON"),
        "}" => Some("end of JSON"),
        _ => None,
    };
    text.lines().filter_map(part).collect()
}

#[test]
fn parts_come_in_fios_order() {
    for layouts in [
        "--output-format=normal",
        "--output-format=normal --append-terse",
        "--output-format=json --append-terse",
        "--output-format=json,normal,terse",
        "--output-format=terse,json+",
        "--minimal --terse-version=5",
    ] {
        let place = tempfile::tempdir().expect("tempdir");
        let ours = layouts
            .replace("normal --append-terse", "normal,terse")
            .replace("json --append-terse", "json,terse")
            .replace("--minimal", "--output-format=terse");
        let job = "--name=a --ioengine=null --rw=read --size=64k";
        let [theirs, _] = both(place.path(), &format!("{job} {layouts}"));
        let [_, ours] = both(place.path(), &format!("{job} {ours}"));
        assert_eq!(parts(&ours), parts(&theirs), "{layouts}");
    }
}

/// Reports of the run so far: as many, of the same parts, each further than the one before; the heading comes once.
#[test]
fn reports_come_while_the_run_goes_on() {
    let place = tempfile::tempdir().expect("tempdir");
    let words = "--name=a --ioengine=null --rw=read --size=1g --time_based --runtime=2500ms --rate_iops=400 --numjobs=2 \
                 --output-format=json,normal,terse --terse-version=4 --status-interval=1";
    let [theirs, ours] = both(place.path(), words);
    assert_eq!(parts(&ours), parts(&theirs));
    let text = String::from_utf8_lossy(&ours.stdout).into_owned();
    let documents: Vec<Value> = text
        .split("\n{\n")
        .skip(1)
        .map(|part| {
            serde_json::from_str(&format!("{{\n{}\n}}", &part[..part.find("\n}\n").expect("its end")])).expect("JSON")
        })
        .collect();
    assert_eq!(documents.len(), 3);
    let done: Vec<f64> = documents.iter().map(|document| number(&document["jobs"][1]["read"]["total_ios"])).collect();
    assert!((350.0..450.0).contains(&done[0]) && (700.0..900.0).contains(&done[1]), "{done:?}");
    assert!((990.0..=1001.0).contains(&done[2]), "{done:?}");
    for document in &documents {
        let read = &document["jobs"][0]["read"];
        assert_eq!(read["clat_ns"]["N"], read["total_ios"], "every operation so far is in it");
    }
    assert!(number(&documents[0]["jobs"][0]["eta"]) >= 1.0 && number(&documents[2]["jobs"][0]["eta"]) == 0.0);
}
