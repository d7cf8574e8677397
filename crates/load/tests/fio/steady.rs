//! Jobs that watch their own measurements: `steadystate`, `latency_target`, `max_latency`, and histograms as text.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{document, fio_program, pagelab, refused};

fn try_in(place: &Path, fio: bool, format: &str, job: &str) -> Output {
    let mut command = if fio { fio_program() } else { pagelab() };
    let words = job.split(' ').filter(|word| !word.is_empty());
    let output = command.current_dir(place).arg(format!("--output-format={format}")).args(words).output();
    output.expect("fio is installed (apt-get install fio); `make test` does it")
}

fn json_in(place: &Path, fio: bool, job: &str) -> Value {
    let output = try_in(place, fio, "json", job);
    assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
    document(&output)
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

const PACED: &str = "--ioengine=null --size=1g --rw=randread --time_based --rate_iops=2000";

#[test]
fn steady_jobs_end_and_say_how_steady_they_were() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = format!("--name=j {PACED} --runtime=60 --ss=iops:90% --ss_dur=2");
    let theirs = json_in(place.path(), true, &job)["jobs"][0]["steadystate"].clone();
    let whole = json_in(place.path(), false, &job);
    let ours = whole["jobs"][0]["steadystate"].clone();
    assert_eq!((keys(&ours), keys(&ours["data"])), (keys(&theirs), keys(&theirs["data"])));
    for key in ["ss", "duration", "attained"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    assert_eq!(ours["attained"], 1);
    assert!(whole["jobs"][0]["read"]["runtime"].as_u64().expect("ms") >= 2000);
    // The criterion is what the samples say.
    let samples = numbers(&ours["data"]["iops"]);
    assert_eq!((samples.len(), numbers(&ours["data"]["bw"]).len()), (2, 2));
    let mean = samples.iter().sum::<f64>() / 2.0;
    let distance = samples.iter().map(|sample| (sample - mean).abs()).fold(0.0, f64::max);
    let criterion: f64 =
        ours["criterion"].as_str().and_then(|text| text.strip_suffix('%')).expect("%").parse().expect("a number");
    assert!((criterion - 100.0 * distance / mean).abs() < 1e-5, "{ours}");
}

#[test]
fn jobs_that_never_are_steady_run_to_their_end() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = format!("--name=j {PACED} --runtime=3 --ss=bw_slope:0% --ss_dur=2 --numjobs=2 --group_reporting");
    let output = try_in(place.path(), false, "normal", &job);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("  steadystate  : attained=no, bw="), "{text}");
    assert!(text.contains(", bw slope="), "{text}");
    let job = format!("--name=j {PACED} --runtime=1 --ss=iops:1 --ss_dur=2");
    let found = &json_in(place.path(), false, &job)["jobs"][0]["steadystate"];
    assert_eq!((&found["attained"], numbers(&found["data"]["iops"]).len()), (&Value::from(0), 2));
    assert_eq!(found["criterion"], "0.000000", "there were too few samples");
    let words: Vec<String> = format!("--name=j {PACED} --runtime=1 --ss_dur=2 --name=k {PACED} --runtime=1 --ss_dur=3")
        .split(' ')
        .map(str::to_owned)
        .collect();
    let said = refused(&words, 2);
    assert!(said.contains("same group"), "{said}");
}

#[test]
fn the_depth_that_keeps_to_a_latency_is_found() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--name=j --ioengine=libaio --rw=randread --bs=4k --size=1m --iodepth=8 --time_based --runtime=60 --latency_target=10s --latency_window=20ms";
    let (theirs, ours) = (json_in(place.path(), true, job), json_in(place.path(), false, job));
    for key in ["latency_depth", "latency_target", "latency_percentile", "latency_window"] {
        assert_eq!(ours["jobs"][0][key], theirs["jobs"][0][key], "{key}");
    }
    assert_eq!(ours["jobs"][0]["latency_depth"], 8);
    // A latency that nothing keeps to ends the job, with fio's error number.
    for (words, option) in [
        ("--max_latency=0,1,0 --rw=write", "max_latency"),
        ("--latency_target=1 --latency_window=1s", "latency_target"),
    ] {
        for engine in ["psync", "io_uring"] {
            let job = format!("--name=k --ioengine={engine} --rw=randread --bs=64k --size=640k {words}");
            let output = try_in(place.path(), false, "report", &job);
            assert_eq!(output.status.code(), Some(3), "{job}");
            let report: pagelab_load::JobReport = serde_json::from_slice(&output.stdout).expect("a report");
            let failure = report.workers[0].failure.as_ref().expect("a failure");
            assert_eq!(failure.errno, 110, "{job}");
            assert!(failure.message.contains(option) && failure.message.contains("1000 ns"), "{}", failure.message);
        }
    }
    let enough = try_in(place.path(), false, "report", "--name=k --rw=read --size=64k --max_latency=100s");
    assert!(enough.status.success());
}

#[test]
fn histograms_have_the_columns_of_fio() {
    let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
    let job = format!(
        "--name=j {PACED} --rw=randrw --runtime=1 --write_hist_log=h --log_hist_msec=100 --log_hist_coarseness=3"
    );
    let lines = |fio: bool| -> Vec<Vec<u64>> {
        let place = places[usize::from(fio)].path();
        json_in(place, fio, &job);
        let text = std::fs::read_to_string(place.join("h_clat_hist.1.log")).expect("a log");
        text.lines().map(|line| line.split(", ").map(|word| word.parse().expect("a number")).collect()).collect()
    };
    let (theirs, ours) = (lines(true), lines(false));
    for log in [&theirs, &ours] {
        assert!(log.iter().all(|line| line.len() == 3 + 1856 / 8 && line[1] < 2 && line[2] == 4096), "{log:?}");
        assert!(log.windows(2).all(|pair| pair[0][0] <= pair[1][0]));
        assert!(!log.is_empty());
    }
    let report = try_in(places[0].path(), false, "report", &job.replace("write_hist_log=h", "write_hist_log=g"));
    let report: pagelab_load::JobReport = serde_json::from_slice(&report.stdout).expect("a report");
    let text = std::fs::read_to_string(places[0].path().join("g_clat_hist.1.log")).expect("a log");
    let counted: u64 =
        text.lines().flat_map(|line| line.split(", ").skip(3)).map(|n| n.parse::<u64>().expect("a number")).sum();
    assert!((1..=report.operations).contains(&counted), "{counted} of {}", report.operations);
}
