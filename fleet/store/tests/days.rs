//! Days of compacted fleets into a store and back: replaced in one step as far as a store permits, and known to be half-replaced where not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use pagelab_store::mirror::{Mirrored, mirror};
use pagelab_store::select::Selection;
use pagelab_store::upload::{Passed, Upload};
use pagelab_store::{Patience, Place, StoreError};

mod faulty;
use faulty::Faulty;

const NO_PATIENCE: Patience = Patience { total: Duration::ZERO, longest_pause: Duration::ZERO };
const TABLES: [&str; 3] = ["runs", "metrics", "settings"];

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    // As a compaction does it: another file under the same name.
    fs::remove_file(path).ok();
    fs::write(path, text).expect("written");
}

/// A day whose tables say which compaction made them.
fn day(fleet: &Path, date: &str, compaction: &str) {
    for table in TABLES {
        write(&fleet.join(format!("day={date}/{table}.parquet")), &format!("{table} of {date}, {compaction}"));
    }
}

/// The tables of a folder by name, `complete.json` left out.
fn tables(fleet: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for day in fs::read_dir(fleet).expect("readable").map(|entry| entry.expect("readable")) {
        let name = day.file_name().into_string().expect("text");
        for file in fs::read_dir(day.path()).into_iter().flatten().map(|entry| entry.expect("readable")) {
            let file_name = file.file_name().into_string().expect("text");
            if file_name.ends_with(".parquet") {
                found.insert(format!("{name}/{file_name}"), fs::read_to_string(file.path()).expect("text"));
            }
        }
    }
    found
}

fn place(store: &Arc<InMemory>) -> Place {
    Place::in_store(store.clone(), "fleet", NO_PATIENCE).expect("a place")
}

async fn upload(fleet: &Path, place: Place) -> Result<Passed, StoreError> {
    Upload::new(fleet, place)?.pass(true).await
}

async fn copy(store: &Arc<InMemory>, to: &Path) -> Mirrored {
    mirror(&place(store), to, &Selection::default()).await.expect("copied")
}

#[tokio::test]
async fn days_are_copied_there_and_back_and_only_what_changed_again() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (fleet, to) = (tmp.path().join("fleet"), tmp.path().join("copy"));
    day(&fleet, "2026-03-01", "first");
    day(&fleet, "2026-03-02", "first");
    write(&fleet.join(".new-day=2026-03-03/runs.parquet"), "a compaction that was broken off");
    let store = Arc::new(InMemory::new());
    let passed = upload(&fleet, place(&store)).await.expect("copied");
    assert_eq!((passed.days, passed.days_replaced, passed.copied), (2, 2, 8));
    let copied = copy(&store, &to).await;
    assert_eq!((copied.days, copied.copied, copied.days_half_replaced.len()), (2, 8, 0));
    assert_eq!(tables(&to).len(), 6);

    // One table of one day has changed: it and its document are copied, here and there.
    write(&fleet.join("day=2026-03-02/metrics.parquet"), "metrics of 2026-03-02, again");
    let passed = upload(&fleet, place(&store)).await.expect("copied");
    assert_eq!((passed.days_replaced, passed.copied), (1, 2));
    let again = copy(&store, &to).await;
    assert_eq!((again.copied, again.unchanged), (2, 6));
    assert_eq!(tables(&to)["day=2026-03-02/metrics.parquet"], "metrics of 2026-03-02, again");

    // From another folder with the same content nothing but what it takes to know that.
    assert_eq!(upload(&to, place(&store)).await.expect("nothing to copy").copied, 0);
    // A table that is no longer there goes from the store as well.
    fs::remove_file(fleet.join("day=2026-03-01/settings.parquet")).expect("removed");
    assert_eq!(upload(&fleet, place(&store)).await.expect("copied").removed, 1);
    copy(&store, &to).await;
    assert!(!tables(&to).contains_key("day=2026-03-01/settings.parquet"));
}

#[tokio::test]
async fn a_day_that_is_half_replaced_is_known_wherever_it_stopped() {
    for fails_at in 1.. {
        let tmp = tempfile::tempdir().expect("a folder");
        let (fleet, to) = (tmp.path().join("fleet"), tmp.path().join("copy"));
        day(&fleet, "2026-03-01", "first");
        let store = Arc::new(InMemory::new());
        upload(&fleet, place(&store)).await.expect("copied");
        // As long as the first ones.
        day(&fleet, "2026-03-01", "other");
        let faulty = Arc::new(Faulty::new(store.clone(), fails_at));
        let far = Place::in_store(faulty, "fleet", NO_PATIENCE).expect("a place");
        let is_whole = upload(&fleet, far).await.is_ok();
        let copied = copy(&store, &to).await;
        let (old, new) = ("first", "other");
        let found = tables(&to);
        let of = |word: &str| found.values().filter(|text| text.ends_with(word)).count();
        assert_eq!(of(old) + of(new), 3);
        let is_told = !copied.days_half_replaced.is_empty();
        assert_eq!(is_told, of(new) != 0 && !is_whole, "request {fails_at} failed: {found:?}");
        // The next upload mends it, and the next copy is whole.
        upload(&fleet, place(&store)).await.expect("copied");
        let mended = copy(&store, &to).await;
        assert!(mended.days_half_replaced.is_empty());
        assert_eq!(tables(&to), tables(&fleet));
        if is_whole {
            assert!(fails_at > 6, "some request of each table and of the document failed");
            return;
        }
    }
}

#[tokio::test]
async fn a_question_copies_the_days_and_tables_that_it_needs() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (fleet, to) = (tmp.path().join("fleet"), tmp.path().join("copy"));
    for date in ["2026-02-28", "2026-03-01", "2026-03-02"] {
        day(&fleet, date, "first");
    }
    write(&fleet.join("r/manifest.json"), r#"{"format": 1, "complete": true}"#);
    write(&fleet.join("r/faults/part-0000.parquet"), "faults");
    let store = Arc::new(InMemory::new());
    upload(&fleet, place(&store)).await.expect("copied");
    let march = Selection {
        tables: Some(["metrics".to_owned()].into()),
        days: Some("2026-03-01..".parse().expect("days")),
        may_be_empty: false,
    };
    let copied = mirror(&place(&store), &to, &march).await.expect("copied");
    assert_eq!((copied.days, copied.recordings, copied.copied), (2, 0, 4), "{copied:?}");
    let names: Vec<_> = tables(&to).into_keys().collect();
    assert_eq!(names, ["day=2026-03-01/metrics.parquet", "day=2026-03-02/metrics.parquet"]);

    // Everything is copied; then a day changes and a question about another table is asked: no file is left that is old.
    copy(&store, &to).await;
    day(&fleet, "2026-03-02", "second");
    upload(&fleet, place(&store)).await.expect("copied");
    let copied = mirror(&place(&store), &to, &march).await.expect("copied");
    assert_eq!((copied.copied, copied.removed), (2, 2));
    assert!(!tables(&to).contains_key("day=2026-03-02/runs.parquet"), "it would be of the first compaction");
    assert!(tables(&to).contains_key("day=2026-03-01/runs.parquet"), "it is what the store has");

    let none = Selection { days: Some("2027-01-01..".parse().expect("days")), ..Selection::default() };
    let said = mirror(&place(&store), &to, &none).await.expect_err("nothing").to_string();
    assert!(said.contains("found 3 days, 2026-02-28 to 2026-03-02"), "{said}");
    let empty = Place::in_store(store.clone(), "fleet/r", NO_PATIENCE).expect("a place");
    let said = mirror(&empty, &tmp.path().join("r"), &none).await.expect_err("nothing").to_string();
    assert!(said.contains("found 1 recordings") && said.contains("pagelab fleet compact"), "{said}");
    let nothing = Place::in_store(store.clone(), "nothing", NO_PATIENCE).expect("a place");
    let working = Selection { may_be_empty: true, ..none };
    assert_eq!(mirror(&nothing, &tmp.path().join("w"), &working).await.expect("an empty folder"), Mirrored::default());
}

#[tokio::test]
async fn documents_that_cannot_be_understood_are_not_overwritten() {
    let tmp = tempfile::tempdir().expect("a folder");
    let fleet = tmp.path().join("fleet");
    day(&fleet, "2026-03-01", "first");
    for (there, words) in [(r#"{"format": 9}"#, "found format 9"), (r#"{"for"#, "no such document")] {
        let store = Arc::new(InMemory::new());
        let object = object_store::path::Path::from("fleet/day=2026-03-01/complete.json");
        store.put(&object, PutPayload::from_static(there.as_bytes())).await.expect("put");
        let error = upload(&fleet, place(&store)).await.expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(store.get(&object).await.expect("there").bytes().await.expect("read"), there.as_bytes());
    }
    // A document beside the tables that does not speak of them: they are of a compaction that was broken off, or of two.
    write(
        &fleet.join("day=2026-03-01/complete.json"),
        r#"{"format":1,"files":{"runs.parquet":{"bytes":1,"sha256":"0"}}}"#,
    );
    let store = Arc::new(InMemory::new());
    let error = upload(&fleet, place(&store)).await.expect_err("refused").to_string();
    assert!(error.contains("the day is not whole") && error.contains("nothing was copied"), "{error}");
    assert!(place(&store).url().starts_with("store:"));
    let none = mirror(&place(&store), &tmp.path().join("copy"), &Selection::default()).await;
    assert!(matches!(none, Err(StoreError::NoRecording { .. })), "{none:?}");
}

#[tokio::test]
async fn a_working_copy_goes_back_unless_somebody_else_was_faster() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (fleet, mine, other) = (tmp.path().join("fleet"), tmp.path().join("mine"), tmp.path().join("other"));
    let date = "2026-03-01";
    day(&fleet, date, "first");
    let store = Arc::new(InMemory::new());
    upload(&fleet, place(&store)).await.expect("copied");
    copy(&store, &mine).await;
    copy(&store, &other).await;
    // A compaction writes tables and leaves the document as it was copied.
    write(&mine.join("day=2026-03-01/settings.parquet"), "settings, mine");
    day(&mine, "2026-03-02", "mine");
    let done = Upload::of_working_copy(&mine, place(&store)).expect("a copy").pass(true).await.expect("copied");
    assert_eq!((done.days, done.days_replaced, done.copied), (2, 2, 6));
    day(&other, date, "other");
    let error = Upload::of_working_copy(&other, place(&store)).expect("a copy").pass(true).await.expect_err("refused");
    assert!(error.to_string().contains("somebody else"), "{error}");
    let to = tmp.path().join("copy");
    copy(&store, &to).await;
    assert_eq!(tables(&to), tables(&mine));
    // One that was made of another place is none of this.
    let elsewhere = Place::in_store(store.clone(), "elsewhere", NO_PATIENCE).expect("a place");
    assert!(Upload::of_working_copy(&mine, elsewhere).expect_err("refused").to_string().contains("is a copy of"));
}

#[tokio::test]
async fn a_broken_off_upload_of_a_working_copy_is_finished_before_it_is_copied_over() {
    let tmp = tempfile::tempdir().expect("a folder");
    let (fleet, mine) = (tmp.path().join("fleet"), tmp.path().join("mine"));
    day(&fleet, "2026-03-01", "first");
    let store = Arc::new(InMemory::new());
    upload(&fleet, place(&store)).await.expect("copied");
    copy(&store, &mine).await;
    day(&mine, "2026-03-01", "mine");
    // The first table is there, the second is not.
    let faulty = Arc::new(Faulty::new(store.clone(), 4));
    let far = Place::in_store(faulty, "fleet", NO_PATIENCE).expect("a place");
    Upload::of_working_copy(&mine, far).expect("a copy").pass(true).await.expect_err("broken off");
    let wanted = tables(&mine);
    let done = Upload::of_working_copy(&mine, place(&store)).expect("a copy").finish_days().await.expect("copied");
    assert_eq!((done.days, done.days_replaced), (1, 1));
    let copied = copy(&store, &mine).await;
    assert!(copied.days_half_replaced.is_empty());
    assert_eq!(tables(&mine), wanted);
    let done = Upload::of_working_copy(&mine, place(&store)).expect("a copy").finish_days().await.expect("nothing");
    assert_eq!((done.days, done.copied), (0, 0));
}
