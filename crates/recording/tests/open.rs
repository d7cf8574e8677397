//! The errors of a reader and a writer for unsuitable directories.

use crate::common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use common::{push_interval, scratch};
use pagelab_recording::set::{self, PlannedRun, RunState, SetJson};
use pagelab_recording::{Error, Manifest, Probe, ProbeState, Recording, RecordingWriter, WriterOptions, check};

fn create(dir: &Path) -> pagelab_recording::Result<RecordingWriter> {
    RecordingWriter::create(dir, Manifest::default(), WriterOptions::default())
}

#[test]
fn outputs_that_are_in_the_way() {
    let tmp = scratch();
    let empty = tmp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    create(&empty).unwrap();
    // Now it holds a recording.
    let error = create(&empty).unwrap_err();
    assert!(matches!(error, Error::OutputNotEmpty { entries: 2, .. }), "{error}");
    assert!(error.to_string().contains("rm -r"), "{error}");
    let file = tmp.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(create(&file).unwrap_err(), Error::OutputNotDirectory { .. }));
    assert!(matches!(create(&file.join("below")).unwrap_err(), Error::Io { .. }));
}

#[test]
fn directories_and_files_are_private() {
    let tmp = scratch();
    let dir = tmp.path().join("a/b/rec");
    let mut w = create(&dir).unwrap();
    push_interval(&mut w, 0);
    w.flush(0).unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("faults")), 0o700);
    assert_eq!(mode(&dir.join("faults/part-0000.parquet")), 0o600);
    assert_eq!(mode(&dir.join("manifest.json")), 0o600);
    w.close(|_| ()).unwrap();
    assert_eq!(mode(&dir.join("faults/part-0000.parquet")), 0o600);
    assert_eq!(mode(&dir.join("manifest.json")), 0o600);
}

/// What others can put into the directory while it is recorded would be read as if it were recorded.
#[test]
fn directories_that_others_can_write_are_refused() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    fs::create_dir(&dir).unwrap();
    for mode in [0o757, 0o777, 0o1777, 0o1775] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        let error = create(&dir).unwrap_err();
        assert!(matches!(error, Error::Output(pagelab_output::Error::WritableByOthers { .. })), "{mode:o}: {error}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{mode:o}");
    }
}

/// Another user's directory, and a link that another user put where a group may write; tests need root, as all of `make test` does.
#[test]
fn directories_and_links_of_others_are_refused() {
    const NOBODY: u32 = 65534;
    let tmp = scratch();
    let [theirs, shared, own] = ["theirs", "shared", "own"].map(|name| tmp.path().join(name));
    for (dir, mode) in [(&theirs, 0o755), (&shared, 0o775), (&own, 0o700)] {
        fs::create_dir(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    }
    chown(&theirs, Some(NOBODY), None).expect("needed root: sudo make test");
    let error = create(&theirs).unwrap_err();
    let is_said = matches!(error, Error::Output(pagelab_output::Error::ForeignOwner { owner: NOBODY, .. }));
    assert!(is_said, "{error}");
    symlink(&own, shared.join("link")).unwrap();
    lchown(shared.join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    for through in [shared.join("link"), shared.join("link/rec")] {
        let error = create(&through).unwrap_err();
        let is_said = matches!(error, Error::Output(pagelab_output::Error::ForeignLink { owner: NOBODY, .. }));
        assert!(is_said, "{error}");
    }
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "nothing was made behind it");
}

#[test]
fn directories_that_are_no_recording() {
    let tmp = scratch();
    assert!(matches!(Recording::open(tmp.path()), Err(Error::NotARecording { .. })));
    let manifest = tmp.path().join("manifest.json");
    for (text, wanted) in [
        ("{", "EOF while parsing"),
        (r#"{"complete": true}"#, "format is null"),
        (r#"{"format": 0}"#, "format is 0"),
        (r#"{"format": "one"}"#, "format is \"one\""),
        (r#"{"format": 1, "run": "three"}"#, "expected u64"),
    ] {
        fs::write(&manifest, text).unwrap();
        let error = Recording::open(tmp.path()).unwrap_err();
        assert!(matches!(error, Error::BadJson { .. }), "{error}");
        assert!(error.to_string().contains(wanted) && error.to_string().contains("manifest.json"), "{error}");
    }
}

#[test]
fn a_newer_format_is_refused_whatever_else_it_says() {
    let tmp = scratch();
    fs::write(tmp.path().join("manifest.json"), r#"{"format": 2, "run": {"number": 1}, "pagelab_version": "9.1"}"#)
        .unwrap();
    for error in [Recording::open(tmp.path()).unwrap_err(), check(tmp.path()).unwrap_err()] {
        assert!(matches!(error, Error::NewerFormat { found: 2, .. }), "{error}");
        assert!(error.to_string().contains("format 2 is newer than format 1") && error.to_string().contains("9.1"));
    }
}

#[test]
fn manifests_keep_what_they_do_not_know() {
    let tmp = scratch();
    let text = r#"{"format": 1, "novelty": {"a": [1, 2]}, "clock": {"id": "CLOCK_MONOTONIC", "drift": 3}}"#;
    fs::write(tmp.path().join("manifest.json"), text).unwrap();
    let manifest = Manifest::load(tmp.path()).unwrap();
    assert_eq!(manifest.extra["novelty"]["a"][1], 2);
    assert_eq!(manifest.clock.extra["drift"], 3);
    assert_eq!((manifest.run, manifest.complete, manifest.self_cost.cpu_ns), (None, false, None));
    let value = serde_json::to_value(&manifest).unwrap();
    assert_eq!(value["novelty"]["a"][0], 1);
}

#[test]
fn every_key_of_the_contract_is_written() {
    let mut manifest = Manifest::default();
    manifest.probes.push(Probe { name: "faults".to_owned(), state: ProbeState::Active, ..Probe::default() });
    let value = serde_json::to_value(&manifest).unwrap();
    let keys = "format pagelab_version label variant run round position host kernel arch page_size_bytes cpus virt \
                boot_id clock command job exit complete self_cost probes";
    for key in keys.split_whitespace() {
        assert!(value.get(key).is_some(), "{key}");
    }
    for key in ["id", "start_ns", "realtime_at_start_ns", "realtime_at_end_ns"] {
        assert!(value["clock"].get(key).is_some(), "{key}");
    }
    for key in ["cpu_ns", "bpf_ns", "max_rss_bytes", "bytes_written"] {
        assert!(value["self_cost"].get(key).is_some(), "{key}");
    }
    for key in ["name", "state", "rung", "reason", "fix", "events_seen", "events_lost"] {
        assert!(value["probes"][0].get(key).is_some(), "{key}");
    }
    assert_eq!(value["probes"][0]["state"], "active");
}

#[test]
fn columns_are_selected_by_name() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    let mut w = create(&dir).unwrap();
    push_interval(&mut w, 0);
    w.close(|_| ()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    let batch = recording.read("faults", Some(&["addr", "dur", "ts"])).unwrap().next().unwrap().unwrap();
    let schema = batch.schema();
    let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["addr", "dur", "ts"]);
    assert_eq!(batch.column(1).null_count(), batch.num_rows());
    let error = recording.read("faults", Some(&["address"])).unwrap_err().to_string();
    assert!(error.contains("no column address") && error.contains("error_code"), "{error}");
    let error = recording.read("fault", None).unwrap_err().to_string();
    assert!(error.contains("no table fault") && error.contains("dax_faults"), "{error}");
    assert_eq!(recording.read("offcpu", None).unwrap().count(), 0);
    assert!(recording.tables().unwrap().iter().any(|t| t.name == "loss"));
}

#[test]
fn sets_are_found_by_path_and_the_manifest_wins() {
    let tmp = scratch();
    let set_dir = tmp.path().join("set/host=box");
    for (variant, run, in_manifest) in [("good", 2, None), ("good", 10, None), ("bad", 1, Some("really-good"))] {
        let dir = set::run_dir(&set_dir, variant, run);
        let manifest = Manifest { variant: in_manifest.map(str::to_owned), ..Manifest::default() };
        RecordingWriter::create(&dir, manifest, WriterOptions::default()).unwrap().close(|_| ()).unwrap();
    }
    assert!(set_dir.join("variant=good/run=002/manifest.json").exists());
    let found = set::discover(&[tmp.path()]).unwrap();
    let got: Vec<_> =
        found.iter().map(|r| (r.host.as_deref(), r.variant.as_deref().unwrap(), r.run.unwrap())).collect();
    assert_eq!(got, [(Some("box"), "good", 2), (Some("box"), "good", 10), (Some("box"), "really-good", 1)]);
    // A recording named itself and within its set is one recording.
    assert_eq!(set::discover(&[tmp.path(), &found[0].dir]).unwrap().len(), 3);
    assert!(matches!(set::discover(&[tmp.path().join("nowhere")]), Err(Error::NotARecording { .. })));
    let empty = tmp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(set::discover(&[empty]), Err(Error::NotARecording { .. })));
    // What a set has set aside is no run of it.
    for aside in [set::WARMUP, set::ABORTED] {
        let dir = set::run_dir(&set_dir.join(aside), "good", 2);
        RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).unwrap().close(|_| ()).unwrap();
    }
    assert_eq!(set::discover(&[&set_dir]).unwrap().len(), 5, "a folder like any other");
    fs::write(set_dir.join(set::SET_JSON), "{}").unwrap();
    assert_eq!(set::discover(&[&set_dir]).unwrap().len(), 3);
    assert_eq!(set::discover(&[set_dir.join(set::WARMUP)]).unwrap().len(), 1);
}

#[test]
fn set_documents_survive_a_round() {
    let tmp = scratch();
    let states = [
        RunState::Planned,
        RunState::Running,
        RunState::Done,
        RunState::Failed { reason: "exit status 7".to_owned() },
        RunState::Excluded { reason: "loss > 0.1 %".to_owned() },
    ];
    let order = (1..).zip(states).map(|(run, state)| PlannedRun {
        variant: "good".to_owned(),
        run,
        round: run,
        position: 1,
        dir: set::run_dir(Path::new(""), "good", run),
        state,
    });
    let plan = serde_json::json!({"runs": 5, "title": "t"});
    let set = SetJson { format: 1, plan, seed: 42, order: order.collect(), ..SetJson::default() };
    set.save(tmp.path()).unwrap();
    assert_eq!(SetJson::load(tmp.path()).unwrap(), set);
    let value: serde_json::Value = serde_json::from_slice(&fs::read(tmp.path().join("set.json")).unwrap()).unwrap();
    assert_eq!(value["order"][3]["state"], "failed");
    assert_eq!(value["order"][3]["reason"], "exit status 7");
}
