//! Recordings whose files another engine reads.

use std::path::Path;

use pagelab_sql::placed::Places;

#[test]
fn files_here_are_objects_there() {
    let mut places = Places::default();
    places.add(Path::new("/cache/a"), "s3://bench/nightly/").expect("a place");
    places.add(Path::new("/cache/b"), "file:///shared/set").expect("a place");
    let object = |path: &str| {
        let found = places.object_of(Path::new(path));
        found.map(|(store, name)| (store.as_str().to_owned(), name))
    };
    let pair = |store: &str, name: &str| Some((store.to_owned(), name.to_owned()));
    let part = "run=1/faults/part-0000.parquet";
    assert_eq!(object(&format!("/cache/a/{part}")), pair("s3://bench/", &format!("nightly/{part}")));
    assert_eq!(object("/cache/b/x"), pair("file:///", "shared/set/x"));
    assert_eq!(object("/elsewhere/x"), None);
    assert!(places.add(Path::new("/x"), "nowhere").is_err());
}
