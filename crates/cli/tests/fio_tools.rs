//! The JSON of `run` through the tools that people use on fio's: fio-plot, and fio's own converter of latency buckets.
//! Each tool gets fio's file and pagelab's for the same job, neither changed, and makes of both the same in keys, units
//! and lengths.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{pagelab, run, scratch};
use serde_json::Value;

/// A job, and in how many clones it runs.
struct Job {
    rw: &'static str,
    numjobs: u64,
}

const BLOCK_BYTES: f64 = 4096.0;

impl Job {
    fn options(&self, dir: &Path) -> Vec<String> {
        let file = dir.join("data");
        let mut words: Vec<String> = ["--ioengine=psync", "--bs=4k", "--size=64m", "--iodepth=1", "--group_reporting"]
            .map(str::to_owned)
            .to_vec();
        words.insert(0, format!("--name={}", self.rw));
        words.extend([format!("--rw={}", self.rw), format!("--numjobs={}", self.numjobs)]);
        words.push(format!("--filename={}", file.display()));
        words
    }

    /// The job's JSON by fio and by pagelab, each in a directory of its own.
    fn both(&self, dir: &Path) -> [PathBuf; 2] {
        let places = ["fio", "pagelab"].map(|who| dir.join(who));
        for place in &places {
            fs::create_dir_all(place).expect("scratch");
        }
        let name = format!("{}-1-{}.json", self.rw, self.numjobs);
        let fio = run(Command::new("fio").args(self.options(&places[0])).arg("--output-format=json+"), 0);
        let mut command = pagelab();
        // As fio's users write it: the layout behind the job.
        command.args(["run", "-o"]).arg(dir.join(format!("{name}.rec"))).args(self.options(&places[1]));
        let ours = run(command.arg("--output-format=json+"), 0);
        for (place, output) in places.iter().zip([fio, ours]) {
            fs::write(place.join(&name), output.stdout).expect("scratch");
        }
        places
    }
}

/// The place where `make setup-test` puts fio-plot.
fn fio_plot(program: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let path = target.join("fio-plot/bin").join(program);
    assert!(path.is_file(), "{} is not there; type: make setup-test", path.display());
    path
}

/// The structure of a value: names and kinds, lengths of lists, no numbers.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(list) => list.iter().map(shape).collect(),
        Value::Number(_) => "number".into(),
        other => other.clone(),
    }
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"))
}

#[test]
fn fio_plot_reads_it_like_fios() {
    let dir = scratch();
    for job in [Job { rw: "randread", numjobs: 1 }, Job { rw: "randread", numjobs: 2 }, Job { rw: "write", numjobs: 1 }]
    {
        let places = job.both(dir.path());
        let rows = places.clone().map(|place| {
            let mut command = Command::new(fio_plot("python"));
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fio_tools.py"));
            let output = run(command.arg(&place).arg(job.rw), 0);
            serde_json::from_slice::<Value>(&output.stdout).expect("rows")
        });
        let strip = |rows: &Value| {
            let mut shape = shape(rows);
            // Who wrote it, and how many latency buckets are in use, are the run's own.
            shape.as_array_mut().into_iter().flatten().for_each(|row| row["fio_version"] = Value::Null);
            shape
        };
        assert_eq!(strip(&rows[1]), strip(&rows[0]), "{} {}", job.rw, job.numjobs);
        for rows in &rows {
            for row in rows.as_array().expect("a list") {
                let (iops, bw_kib, lat_ns) = (number(row, "iops"), number(row, "bw"), number(row, "lat"));
                assert!((bw_kib * 1024.0 / (iops * BLOCK_BYTES) - 1.0).abs() < 0.01, "bw is KiB per second: {row}");
                let numjobs = row["numjobs"].as_str().and_then(|text| text.parse::<f64>().ok()).expect("numjobs");
                let busy = lat_ns * iops / numjobs / 1e9;
                assert!(busy > 0.3 && busy < 1.3, "lat is ns: each clone is busy {busy} of its time: {row}");
                for unit in ["latency_ns", "latency_us", "latency_ms"] {
                    assert!(row[unit][0].as_object().is_some_and(|bins| !bins.is_empty()), "{unit}: {row}");
                }
            }
        }
    }
    for (place, picture) in ["fio", "pagelab"].iter().flat_map(|place| [(place, "-H"), (place, "-l")]) {
        let image = dir.path().join(format!("{place}{picture}.png"));
        let mut command = Command::new(fio_plot("fio-plot"));
        command.env("MPLBACKEND", "Agg").env("MPLCONFIGDIR", dir.path()).arg("-i").arg(dir.path().join(place));
        run(command.args(["-T", "t", "-r", "randread", picture, "-d", "1", "-n", "1", "-o"]).arg(&image), 0);
        assert!(fs::metadata(&image).is_ok_and(|meta| meta.len() > 10_000), "{place} {picture}: a picture");
    }
}

/// fio_jsonplus_clat2csv, from fio's own package: columns and sums per column.
#[test]
fn fios_latency_converter_takes_it() {
    let dir = scratch();
    let job = Job { rw: "randrw", numjobs: 1 };
    let places = job.both(dir.path());
    let columns = places.map(|place| {
        let (json, csv) = (place.join("randrw-1-1.json"), place.join("out.csv"));
        run(Command::new("fio_jsonplus_clat2csv").arg(&json).arg(&csv), 0);
        let validated = run(Command::new("fio_jsonplus_clat2csv").arg(&json).arg(&csv).arg("--validate"), 0);
        assert!(String::from_utf8_lossy(&validated.stdout).contains("validated"), "{validated:?}");
        let text = fs::read_to_string(place.join("out_job0.csv")).expect("written by the tool");
        let document: Value = serde_json::from_slice(&fs::read(json).expect("written above")).expect("JSON");
        (sums(&text), document)
    });
    let names = |columns: &BTreeMap<String, u64>| columns.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&columns[1].0), names(&columns[0].0));
    for (sums, document) in &columns {
        for side in ["read", "write"] {
            let operations = document["jobs"][0][side]["total_ios"].as_u64();
            // Of the three latencies fio gives the buckets of clat alone, unless lat_percentiles asks for lat's.
            assert_eq!(sums.get(&format!("{side}_clat_ns_count")).copied(), operations, "{side}");
        }
    }
}

/// The sum of each column of counts that holds anything.
fn sums(csv: &str) -> BTreeMap<String, u64> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a head").split(',').map(str::trim).collect();
    let mut sums = BTreeMap::new();
    for line in lines {
        for (name, cell) in names.iter().zip(line.split(',')).filter(|(name, _)| name.ends_with("_count")) {
            if let Ok(count) = cell.trim().parse::<u64>() {
                *sums.entry((*name).to_owned()).or_insert(0) += count;
            }
        }
    }
    sums
}
