//! Recordings into a store and back: whole, while they are made, over failures, and past names that lead elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use pagelab_store::mirror::{Mirrored, mirror as mirror_selected};
use pagelab_store::select::Selection;
use pagelab_store::upload::Upload;
use pagelab_store::{Patience, Place, StoreError};
use serde_json::json;

mod faulty;
use faulty::Faulty;

const NO_PATIENCE: Patience = Patience { total: Duration::ZERO, longest_pause: Duration::ZERO };
const SOME: Patience = Patience { total: Duration::from_secs(20), longest_pause: Duration::from_millis(5) };

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

fn manifest(folder: &Path, start_ns: u64, complete: bool) {
    let text =
        json!({ "format": 1, "host": "a", "boot_id": "b", "clock": { "start_ns": start_ns }, "complete": complete });
    write(&folder.join("manifest.json"), &text.to_string());
}

/// A recording of two tables, in two parts each.
fn recording(folder: &Path, start_ns: u64, complete: bool) {
    for (table, part) in [("loss", 0), ("loss", 1), ("faults", 0), ("faults", 1)] {
        write(&folder.join(format!("{table}/part-{part:04}.parquet")), &format!("{table} {part} of {start_ns}"));
    }
    manifest(folder, start_ns, complete);
}

/// Every file below, but for those whose names begin with a dot.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("readable").map(|entry| entry.expect("readable")) {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(folder).expect("below").to_owned();
                found.insert(relative, fs::read_to_string(path).expect("text"));
            }
        }
    }
    found
}

/// Everything.
async fn mirror(place: &Place, folder: &Path) -> Result<Mirrored, StoreError> {
    mirror_selected(place, folder, &Selection::default()).await
}

fn place(store: &Arc<InMemory>, patience: Patience) -> Place {
    Place::in_store(store.clone(), "fleet/r", patience).expect("a place")
}

#[tokio::test]
async fn what_is_copied_there_and_back_is_the_same() {
    let tmp = tempfile::tempdir().expect("a folder");
    let set = tmp.path().join("set");
    for run in 1..4 {
        recording(&set.join(format!("variant=a/run=00{run}")), run, true);
    }
    write(&set.join("set.json"), "{}");
    write(&set.join("notes.txt"), "no file of a recording");
    let store = Arc::new(InMemory::new());
    let mut upload = Upload::new(&set, place(&store, NO_PATIENCE)).expect("a set");
    let passed = upload.pass(true).await.expect("copied");
    assert_eq!((passed.recordings, passed.complete, passed.copied), (3, 3, 16));
    // The same again changes nothing, also in a process of its own.
    assert_eq!(upload.pass(true).await.expect("nothing to copy").copied, 0);
    let mut again = Upload::new(&set, place(&store, NO_PATIENCE)).expect("a set");
    assert_eq!(again.pass(true).await.expect("nothing to copy").copied, 0);

    let copy = tmp.path().join("copy");
    let mirrored = mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!((mirrored.recordings, mirrored.copied, mirrored.unchanged), (3, 16, 0));
    let mut wanted = files(&set);
    wanted.remove(Path::new("notes.txt"));
    assert_eq!(files(&copy), wanted);
    let again = mirror(&place(&store, NO_PATIENCE), &copy).await.expect("nothing to copy");
    assert_eq!((again.copied, again.unchanged, again.removed), (0, 16, 0));
}

#[tokio::test]
async fn a_recording_that_is_made_is_one_at_every_instant() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (dir, copy) = (tmp.path().join("r"), tmp.path().join("copy"));
    recording(&dir, 7, false);
    let store = Arc::new(InMemory::new());
    let mut upload = Upload::new(&dir, place(&store, NO_PATIENCE)).expect("a recording");
    assert_eq!(upload.pass(false).await.expect("copied").copied, 4, "its parts, and the manifest with its end");
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    let begun: serde_json::Value = serde_json::from_str(&files(&copy)[Path::new("manifest.json")]).expect("JSON");
    assert_eq!((&begun["complete"], &begun["clock"]["start_ns"]), (&json!(false), &json!(7)));

    // Its compaction: one new part under an old name, the other one gone. In between nothing is copied.
    write(&dir.join("compaction.json"), "{}");
    write(&dir.join("faults/compact-0000.tmp"), "faults");
    assert_eq!(upload.pass(false).await.expect("it waits").copied, 0);
    fs::remove_file(dir.join("faults/part-0001.parquet")).expect("removed");
    fs::rename(dir.join("faults/compact-0000.tmp"), dir.join("faults/part-0000.parquet")).expect("renamed");
    fs::remove_file(dir.join("compaction.json")).expect("removed");
    manifest(&dir, 7, true);
    let passed = upload.pass(true).await.expect("copied");
    assert_eq!((passed.complete, passed.copied, passed.removed), (1, 2, 1));
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!(files(&copy), files(&dir), "and the mirror follows");
}

#[tokio::test]
async fn a_recording_that_gave_rows_up_has_each_row_once_after_its_compaction() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (dir, copy) = (tmp.path().join("r"), tmp.path().join("copy"));
    recording(&dir, 8, false);
    let store = Arc::new(InMemory::new());
    let mut upload = Upload::new(&dir, place(&store, NO_PATIENCE)).expect("a recording");
    upload.pass(false).await.expect("copied");
    // It reached its end and says that it is not complete.
    write(&dir.join("faults/part-0000.parquet"), "both parts");
    fs::remove_file(dir.join("faults/part-0001.parquet")).expect("removed");
    assert_eq!(upload.pass(true).await.expect("copied").removed, 1);
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!(files(&copy), files(&dir));
}

#[tokio::test]
async fn parts_that_a_recorder_moved_to_the_store_stay_there() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (dir, copy) = (tmp.path().join("r"), tmp.path().join("copy"));
    recording(&dir, 9, false);
    let store = Arc::new(InMemory::new());
    let mut upload = Upload::new(&dir, place(&store, NO_PATIENCE)).expect("a recording");
    upload.pass(false).await.expect("copied");
    let wanted = files(&dir);
    fs::remove_file(dir.join("faults/part-0000.parquet")).expect("removed");
    let manifest = json!({
        "format": 1, "host": "a", "boot_id": "b", "clock": { "start_ns": 9 }, "complete": false,
        "incomplete_reason": "parts are in the store only", "parts_moved": { "complete": true, "incomplete_reason": null },
    });
    write(&dir.join("manifest.json"), &manifest.to_string());
    let passed = upload.pass(true).await.expect("copied");
    assert_eq!((passed.complete, passed.removed), (1, 0));
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    let mut there = files(&copy);
    let text = there.remove(Path::new("manifest.json")).expect("a manifest");
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&told["complete"], told.get("incomplete_reason"), told.get("parts_moved")), (&json!(true), None, None));
    let mut wanted = wanted;
    wanted.remove(Path::new("manifest.json"));
    assert_eq!(there, wanted, "every part is there");
    assert_eq!(upload.pass(true).await.expect("nothing to copy").copied, 0);
}

#[tokio::test]
async fn manifests_that_cannot_be_understood_are_not_overwritten() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path().join("r");
    recording(&dir, 1, true);
    let newer = json!({ "format": 7, "host": "a", "boot_id": "b", "clock": { "start_ns": 1 } }).to_string();
    for (there, words) in [("{\"format\": 1, \"ho", "cannot be read"), (newer.as_str(), "is of format 7")] {
        let store = Arc::new(InMemory::new());
        let object = object_store::path::Path::from("fleet/r/manifest.json");
        store.put(&object, PutPayload::from(there.to_owned())).await.expect("put");
        let mut upload = Upload::new(&dir, place(&store, NO_PATIENCE)).expect("a recording");
        let error = upload.pass(true).await.expect_err("refused").to_string();
        assert!(error.contains(words) && error.contains("nothing was overwritten"), "{error}");
        let kept = store.get(&object).await.expect("there").bytes().await.expect("read");
        assert_eq!(kept, there.as_bytes());
        assert_eq!(
            mirror(&place(&store, NO_PATIENCE), &tmp.path().join("copy")).await.map(|done| done.copied).ok(),
            Some(1)
        );
        fs::remove_dir_all(tmp.path().join("copy")).expect("removed");
    }
    write(&dir.join("manifest.json"), "{\"format\": 1, \"ho");
    let store = Arc::new(InMemory::new());
    let error = Upload::new(&dir, place(&store, NO_PATIENCE)).expect("a folder").pass(true).await.expect_err("refused");
    assert!(error.to_string().contains("r/manifest.json: EOF"), "{error}");
}

#[tokio::test]
async fn a_copy_that_was_changed_is_copied_again() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (dir, copy) = (tmp.path().join("r"), tmp.path().join("copy"));
    recording(&dir, 1, true);
    let store = Arc::new(InMemory::new());
    Upload::new(&dir, place(&store, NO_PATIENCE)).expect("a recording").pass(true).await.expect("copied");
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    // As long as it was; and one that the store never had.
    let length = fs::read_to_string(copy.join("faults/part-0000.parquet")).expect("text").len();
    fs::remove_file(copy.join("faults/part-0000.parquet")).expect("removed");
    write(&copy.join("faults/part-0000.parquet"), &"x".repeat(length));
    write(&copy.join("faults/part-0007.parquet"), "stray");
    let again = mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!((again.copied, again.unchanged, again.removed), (1, 4, 1));
    assert_eq!(files(&copy), files(&dir));
}

#[tokio::test]
async fn another_recording_is_never_overwritten() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (mine, other) = (tmp.path().join("mine"), tmp.path().join("other"));
    recording(&mine, 1, true);
    recording(&other, 2, true);
    let store = Arc::new(InMemory::new());
    Upload::new(&mine, place(&store, NO_PATIENCE)).expect("a recording").pass(true).await.expect("copied");
    let error =
        Upload::new(&other, place(&store, NO_PATIENCE)).expect("a recording").pass(true).await.expect_err("refused");
    assert!(matches!(error, StoreError::Taken { .. }), "{error}");
    assert!(error.to_string().contains("nothing was overwritten"));
    let copy = tmp.path().join("copy");
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!(files(&copy), files(&mine));
}

#[tokio::test]
async fn a_store_that_fails_now_and_then_gets_everything() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path().join("r");
    recording(&dir, 3, true);
    let store = Arc::new(InMemory::new());
    let faulty = Arc::new(Faulty::new(store.clone(), 3));
    let far = Place::in_store(faulty.clone(), "fleet/r", SOME).expect("a place");
    Upload::new(&dir, far.clone()).expect("a recording").pass(true).await.expect("copied in the end");
    let copy = tmp.path().join("copy");
    mirror(&far, &copy).await.expect("copied in the end");
    assert_eq!(files(&copy), files(&dir));
    assert!(faulty.failures() > 3, "it did fail");
}

#[tokio::test]
async fn a_store_that_is_away_ends_in_words_and_is_gone_on_with() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path().join("r");
    recording(&dir, 4, true);
    let store = Arc::new(InMemory::new());
    // Every failure ends a process of the uploader; each of those that follow it goes on, after two requests that say whose place it is.
    let faulty = Arc::new(Faulty::new(store.clone(), 4));
    let far = || Place::in_store(faulty.clone(), "fleet/r", NO_PATIENCE).expect("a place");
    let mut ended = 0;
    let passed = loop {
        match Upload::new(&dir, far()).expect("a recording").pass(true).await {
            Ok(passed) => break passed,
            Err(error) => {
                assert!(matches!(error, StoreError::Away { .. }), "{error}");
                ended += 1;
                assert!(ended < 50, "it gets no further");
            }
        }
    };
    assert!(ended > 2 && passed.copied < 5, "{ended} ended; the last one copied {}", passed.copied);
    let copy = tmp.path().join("copy");
    mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!(files(&copy), files(&dir));
}

#[tokio::test]
async fn objects_of_others_are_left_alone() {
    let tmp = tempfile::tempdir().expect("a folder");
    let store = Arc::new(InMemory::new());
    let put = async |name: &str| {
        let path = object_store::path::Path::parse(name).expect("a name that a store allows");
        store.put(&path, PutPayload::from_static(b"x")).await.expect("put");
    };
    for name in ["fleet/r/manifest.json", "fleet/r/.ssh/authorized_keys", "fleet/r/a/b.sh", "fleet/other/manifest.json"]
    {
        put(name).await;
    }
    let copy = tmp.path().join("deep/copy");
    let mirrored = mirror(&place(&store, NO_PATIENCE), &copy).await.expect("copied");
    assert_eq!((mirrored.copied, mirrored.left_out.len()), (1, 2), "{mirrored:?}");
    assert_eq!(files(&copy).into_keys().collect::<Vec<_>>(), [PathBuf::from("manifest.json")]);

    // What is gone from the store is removed, and nothing else: a folder that is no copy is refused.
    store.delete(&object_store::path::Path::from("fleet/r/manifest.json")).await.expect("deleted");
    let nothing = mirror(&place(&store, NO_PATIENCE), &copy).await.expect_err("no recording");
    assert!(nothing.to_string().contains("no recording"), "{nothing}");
    let own = tmp.path().join("own");
    write(&own.join("thesis.txt"), "mine");
    let error = mirror(&place(&store, NO_PATIENCE), &own).await.expect_err("refused");
    assert!(error.to_string().contains("no copy of a store"), "{error}");
    assert_eq!(files(&own).len(), 1);
}

#[test]
fn what_must_be_mended_is_not_waited_for() {
    let error = Place::open("s3://bucket", SOME).and_then(|_| Place::open("ftp://x/y", SOME));
    assert!(matches!(error, Err(StoreError::Url { .. })), "{error:?}");
    let _: &dyn ObjectStore = &InMemory::new();
}
