//! Tests of the sampler: kernel text written out here, and the machine they run on.
#![allow(clippy::float_cmp, reason = "numbers of the kernel are whole and come out exactly or are wrong")]

mod hostile;
mod live;
mod processes;
mod rows;
mod texts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::file::Text;
use super::series::{Collector, Pass, SourceSeries, Store};
use super::source::{Parser, Tag};
use super::{Emit, Facts, Row, SampleStats, Sampler};

/// Name and instance of a series.
type Key = (String, Option<String>);

/// A directory that stands for `/`, removed at the end.
struct FakeRoot(PathBuf);

impl FakeRoot {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pagelab-metrics-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory takes a new one");
        Self(path)
    }

    fn with(self, file: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(file, text);
        self
    }

    /// Writes in place: a sampler that holds the file open sees the new text, as it would of a kernel file.
    fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory can be made");
        std::fs::write(path, text).expect("a file can be written");
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for FakeRoot {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The rows of one sample, as (name, instance) -> value.
struct Taken {
    rows: BTreeMap<Key, Option<f64>>,
    stats: SampleStats,
}

impl Taken {
    fn get(&self, name: &str, instance: Option<&str>) -> Option<f64> {
        self.rows.get(&(name.to_owned(), instance.map(str::to_owned))).copied().flatten()
    }

    /// True when the series ends in this sample.
    fn ends(&self, name: &str, instance: Option<&str>) -> bool {
        self.rows.get(&(name.to_owned(), instance.map(str::to_owned))) == Some(&None)
    }
}

fn take(sampler: &mut Sampler, ts_ns: i64, emit: Emit) -> Taken {
    let mut rows = BTreeMap::new();
    let mut count = 0;
    let stats = sampler.sample(ts_ns, emit, &mut |row: Row<'_>| {
        count += 1;
        let key = (row.name.to_string(), row.instance.map(ToString::to_string));
        let before = rows.insert(key.clone(), row.value);
        assert_eq!(before, None, "{key:?} came twice in one sample");
    });
    assert_eq!(stats.rows, count);
    Taken { rows, stats }
}

const FACTS: Facts = Facts { tick_ns: 1e7, page_size: 4096.0 };

/// A parser's results for `text`: values by name and instance, and the trouble it reports.
fn parsed(prefix: &'static str, parse: Parser, tag: &Tag, text: &[u8]) -> (BTreeMap<Key, f64>, Option<String>) {
    let (mut store, mut own) = (Store::default(), SourceSeries::default());
    let mut values = BTreeMap::new();
    let mut sink = |row: Row<'_>| {
        let value = row.value.expect("nothing ends in the first pass");
        values.insert((row.name.to_string(), row.instance.map(ToString::to_string)), value);
    };
    let mut out = Collector::begin(&FACTS, prefix, &mut store, &mut own, &mut sink, false);
    parse(text, tag, &mut out);
    let Pass { trouble, .. } = out.finish();
    (values, trouble)
}

/// [`parsed`] of text in which everything is understood.
fn understood(prefix: &'static str, parse: Parser, text: &[u8]) -> BTreeMap<Key, f64> {
    let (values, trouble) = parsed(prefix, parse, &Tag::default(), text);
    assert_eq!(trouble, None);
    values
}

/// The key of a series without instance.
fn key(name: &str) -> Key {
    (name.to_owned(), None)
}

/// The key of a series with one.
fn key_of(name: &str, instance: &str) -> Key {
    (name.to_owned(), Some(instance.to_owned()))
}

/// A buffer must not be larger than a file of the kernel just because the test reads it.
#[test]
fn text_longer_than_the_buffer_is_read_whole() {
    let long = "x".repeat(300_000);
    let root = FakeRoot::new().with("long", &long);
    let file = super::file::SampledFile::kept(&root.path().join("long")).expect("the file is there");
    let mut text = Text::new();
    for _ in 0..2 {
        file.read(&mut text).expect("a plain file can be read");
        assert!(text.bytes() == long.as_bytes());
    }
}
