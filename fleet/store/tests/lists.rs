//! What a list says of recordings and days in every state, and what it reads for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use pagelab_store::list::{DayState, Listed, State, list};
use pagelab_store::upload::Upload;
use pagelab_store::{Patience, Place};
use serde_json::json;

mod faulty;
use faulty::Faulty;

const NO_PATIENCE: Patience = Patience { total: Duration::ZERO, longest_pause: Duration::ZERO };

async fn put(store: &InMemory, name: &str, text: &str) {
    let path = object_store::path::Path::parse(format!("fleet/{name}")).expect("a name that a store allows");
    store.put(&path, PutPayload::from(text.to_owned())).await.expect("put");
}

fn place(store: &Arc<InMemory>) -> Place {
    Place::in_store(store.clone(), "fleet", NO_PATIENCE).expect("a place")
}

fn state<'a>(listed: &'a Listed, name: &str) -> &'a State {
    let found = listed.recordings.iter().find(|recording| recording.name == name);
    &found.unwrap_or_else(|| panic!("{name} is listed")).facts.state
}

fn manifest(complete: bool) -> serde_json::Value {
    json!({
        "format": 1, "host": "a\u{1b}[2Jb", "boot_id": "b", "complete": complete, "label": "night",
        "clock": { "start_ns": 1, "realtime_at_start_ns": 1_772_323_200_000_000_000_i64 },
    })
}

#[tokio::test]
async fn every_state_of_a_recording_is_told() {
    let tmp = tempfile::tempdir().expect("a folder");
    let store = Arc::new(InMemory::new());
    put(&store, "whole/manifest.json", &manifest(true).to_string()).await;
    put(&store, "whole/faults/part-0000.parquet", "0123456789").await;
    let mut gave_up = manifest(false);
    gave_up["incomplete_reason"] = json!("7 rows of faults were given up");
    put(&store, "gave-up/manifest.json", &gave_up.to_string()).await;
    put(&store, "died/manifest.json", &manifest(false).to_string()).await;
    put(&store, "cut/manifest.json", &manifest(true).to_string()[..40]).await;
    put(&store, "empty/manifest.json", "").await;
    put(&store, "list/manifest.json", "[1]").await;
    put(&store, "newer/manifest.json", r#"{"format": 4, "pagelab_version": "9.1"}"#).await;
    put(&store, "parts-only/faults/part-0000.parquet", "x").await;
    put(&store, ".ssh/manifest.json", "x").await;
    put(&store, "notes.txt", "x").await;
    // As uploads leave them: one while its recording is made, one that was broken off after the claim.
    let made = tmp.path().join("made");
    std::fs::create_dir_all(&made).expect("made");
    std::fs::write(made.join("manifest.json"), manifest(false).to_string()).expect("written");
    let there = Place::in_store(store.clone(), "fleet/made", NO_PATIENCE).expect("a place");
    Upload::new(&made, there).expect("a recording").pass(false).await.expect("copied");
    let half = tmp.path().join("half");
    std::fs::create_dir_all(half.join("faults")).expect("made");
    std::fs::write(half.join("manifest.json"), manifest(true).to_string()).expect("written");
    std::fs::write(half.join("faults/part-0000.parquet"), "x").expect("written");
    let faulty = Arc::new(Faulty::new(store.clone(), 2));
    let there = Place::in_store(faulty, "fleet/half", NO_PATIENCE).expect("a place");
    Upload::new(&half, there).expect("a recording").pass(true).await.expect_err("broken off");

    let listed = list(&place(&store), 1000, None).await.expect("listed");
    assert_eq!(*state(&listed, "whole"), State::Complete);
    assert_eq!(*state(&listed, "gave-up"), State::NotComplete("7 rows of faults were given up".to_owned()));
    assert!(matches!(state(&listed, "died"), State::NotComplete(reason) if reason.contains("clean end")));
    assert!(matches!(state(&listed, "cut"), State::Unreadable(reason) if reason.contains("EOF")));
    assert!(matches!(state(&listed, "empty"), State::Unreadable(_)));
    assert!(matches!(state(&listed, "list"), State::Unreadable(reason) if reason.contains("no manifest")));
    assert!(matches!(state(&listed, "newer"), State::NewerFormat(words) if words.contains("format 4, of pagelab 9.1")));
    assert_eq!(*state(&listed, "parts-only"), State::NoManifest);
    assert_eq!(*state(&listed, "made"), State::BeingMade);
    assert_eq!(*state(&listed, "half"), State::HalfUploaded);
    assert_eq!((listed.recordings.len(), listed.other_objects, listed.is_cut), (10, 2, false));
    let whole = listed.recordings.last().expect("the last by name");
    assert_eq!(
        (whole.name.as_str(), whole.objects, whole.facts.begin_ns),
        ("whole", 2, Some(1_772_323_200_000_000_000))
    );
    assert_eq!(whole.bytes, 10 + manifest(true).to_string().len() as u64);
    assert_eq!(whole.facts.host.as_deref(), Some("a?[2Jb"), "a terminal is not at the mercy of a host's name");
}

#[tokio::test]
async fn manifests_are_read_once_and_again_when_they_changed() {
    let tmp = tempfile::tempdir().expect("a folder");
    let cache = tmp.path().join("pagelab/lists/x");
    let store = Arc::new(InMemory::new());
    for run in 0..20 {
        put(&store, &format!("run={run}/manifest.json"), &manifest(true).to_string()).await;
    }
    put(&store, "cut/manifest.json", "{").await;
    let read = async || list(&place(&store), 1000, Some(&cache)).await.expect("listed");
    let first = read().await;
    assert_eq!((first.recordings.len(), first.manifests_read), (21, 21));
    // What could not be read is tried again.
    let second = read().await;
    assert_eq!(second.manifests_read, 1);
    assert_eq!(second.recordings, first.recordings);
    put(&store, "run=7/manifest.json", &manifest(false).to_string()).await;
    let third = read().await;
    assert_eq!(third.manifests_read, 2);
    assert!(matches!(state(&third, "run=7"), State::NotComplete(_)));
    std::fs::write(&cache, "damaged").expect("written");
    assert_eq!(read().await.manifests_read, 21);
    // That of another place is not this one's.
    let other = Place::in_store(store.clone(), "fleet/run=1", NO_PATIENCE).expect("a place");
    assert_eq!(list(&other, 1000, Some(&cache)).await.expect("listed").manifests_read, 1);
}

#[tokio::test]
async fn a_list_is_bounded_and_says_so() {
    let store = Arc::new(InMemory::new());
    for run in 0..10 {
        put(&store, &format!("run={run}/manifest.json"), &manifest(true).to_string()).await;
    }
    let all = list(&place(&store), 10, None).await.expect("listed");
    assert_eq!((all.recordings.len(), all.is_cut), (10, false));
    let some = list(&place(&store), 9, None).await.expect("listed");
    assert_eq!((some.recordings.len(), some.is_cut), (9, true));
}

#[tokio::test]
async fn every_state_of_a_day_is_told() {
    let tmp = tempfile::tempdir().expect("a folder");
    let fleet = tmp.path().join("fleet");
    let store = Arc::new(InMemory::new());
    for date in 1..=5 {
        let folder = fleet.join(format!("day=2026-03-0{date}"));
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("runs.parquet"), "runs").expect("written");
    }
    let copied = Upload::new(&fleet, place(&store)).expect("a fleet").pass(true).await.expect("copied");
    assert_eq!(copied.days_replaced, 5);
    put(&store, "day=2026-03-02/runs.parquet", "longer").await;
    put(&store, "day=2026-03-03/runs.parquet", "snur").await;
    put(&store, "day=2026-03-04/complete.json", "{").await;
    store.delete(&object_store::path::Path::from("fleet/day=2026-03-05/complete.json")).await.expect("deleted");
    let listed = list(&place(&store), 1000, None).await.expect("listed");
    let states: Vec<&DayState> = listed.days.iter().map(|day| &day.state).collect();
    let table = || "runs.parquet".to_owned();
    assert_eq!(states[..3], [&DayState::Complete, &DayState::HalfReplaced(table()), &DayState::NotVerified(table())]);
    assert!(matches!(states[3], DayState::Unreadable(_)) && *states[4] == DayState::NoDocument, "{states:?}");
    assert_eq!(listed.days[0].tables, ["runs"]);
    assert_eq!((listed.days[0].bytes > 4, listed.other_objects), (true, 0));
    assert!(Path::new(&listed.days[0].name).starts_with("day=2026-03-01"));
}
