//! Rows that could not be written are counted under the stream that their view asks about, whatever table they are of. A disk that
//! filled up took all times off a CPU, which were counted under the name of their table, and `show sched` said that sched had run and
//! seen none.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use pagelab_recording::tables::{self, LossRow};
use pagelab_recording::{
    FileStorage, Manifest, Probe, ProbeState, Recording, RecordingWriter, Storage, StorageFile, WriterOptions,
};
use pagelab_views::selection::Selection;
use pagelab_views::view::document;
use pagelab_vocab::streams::{Stream, counted_as};

/// A file system without room for the parts of one table.
#[derive(Debug)]
struct Without(&'static str);

impl Storage for Without {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        FileStorage.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        if folder == Some(self.0) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()));
        }
        FileStorage.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        FileStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        FileStorage.remove_file(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        FileStorage.sync_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        FileStorage.sync_dir(path)
    }
}

const ROWS: u64 = 3;

/// Pushes rows of the named table.
fn push(table: &str, writer: &mut RecordingWriter) {
    macro_rules! rows_of {
        ($($name:ident: $row:ident),+) => {
            match table {
                $( stringify!($name) => (0..ROWS).for_each(|_| writer.push(&tables::$row::default())), )+
                other => panic!("no rows of {other} in this test"),
            }
        };
    }
    rows_of!(
        tasks: TasksRow, faults: FaultsRow, mappings: MappingsRow, dax_faults: DaxFaultsRow, syscalls: SyscallsRow,
        files: FilesRow, offcpu: OffcpuRow, waits: WaitsRow, wait_stacks: WaitStacksRow, samples: SamplesRow,
        stacks: StacksRow, frames: FramesRow, counters: CountersRow, metrics: MetricsRow, marks: MarksRow,
        settings: SettingsRow, jobs: JobsRow, latency: LatencyRow, block_ios: BlockIosRow, region_pages: RegionPagesRow,
        khugepaged: KhugepagedRow
    );
}

/// The view that shows a table, and what its rows are counted as.
fn view_of(table: &str) -> &'static str {
    match Stream::of_table(table) {
        Some(Stream::Tasks) => "tasks",
        Some(Stream::Faults) => "faults",
        Some(Stream::Maps) => "maps",
        Some(Stream::Dax) => "dax",
        Some(Stream::Syscalls) => "syscalls",
        Some(Stream::Waits) => "budget",
        Some(Stream::Sched) => "sched",
        Some(Stream::Cpu) => "profile",
        Some(Stream::Counters) => "counters",
        Some(Stream::Metrics | Stream::Speed) => "metrics",
        Some(Stream::Settings) => "settings",
        Some(Stream::Block) => "block",
        Some(Stream::Regions) => "regions",
        None if table == "latency" => "latency",
        None => "loss",
    }
}

/// A recording that has no room for the rows of a table, which its probe saw.
fn recorded_without(table: &'static str, dir: &Path) -> Recording {
    let probes = Stream::all().map(|stream| Probe {
        name: stream.name().to_owned(),
        state: ProbeState::Active,
        ..Probe::default()
    });
    let manifest = Manifest { probes: probes.collect(), ..Manifest::default() };
    let options = WriterOptions { max_pending_bytes: 0, ..WriterOptions::default() };
    let mut writer = RecordingWriter::create_with(dir, manifest, options, std::sync::Arc::new(Without(table))).unwrap();
    push(table, &mut writer);
    let counted = counted_as(table);
    if counted.is_seen {
        writer.push(&LossRow { stream: counted.stream, seen: ROWS, ..LossRow::default() });
    }
    assert!(writer.close(|_| ()).is_err(), "{table}: there is no room");
    Recording::open(dir).unwrap()
}

#[test]
fn rows_that_are_lost_are_found_under_the_stream_that_shows_them() {
    let mut streams = BTreeSet::new();
    for table in tables::all().iter().filter(|table| table.rollup.is_none() && table.name != "loss") {
        let table = table.name;
        let folder = tempfile::tempdir().unwrap();
        let recording = recorded_without(table, &folder.path().join("rec"));
        assert_eq!(recording.rows(table).unwrap(), 0, "{table}");
        let (mut seen, mut lost, mut names) = (0, 0, BTreeSet::new());
        recording
            .for_each::<LossRow>(|row| {
                let name = row.stream.to_owned();
                let shown =
                    Stream::of_table(table).map_or(name == table, |stream| stream.losses().any(|one| one == name));
                assert!(shown, "{table}: counted under {name}");
                (seen, lost) = (seen + row.seen, lost + row.lost);
                names.insert(name);
            })
            .unwrap();
        assert_eq!((seen, lost), (ROWS, ROWS), "{table}: seen = kept + lost + filtered, and none is kept");
        let view = view_of(table);
        let shown = document(view, &recording, &Selection::default()).unwrap();
        let text = shown.to_string();
        for name in &names {
            assert!(!text.contains(&format!("{name} ran and saw none")), "{table}: show {view}: {text}");
        }
        streams.extend(names);
        let told = if view == "loss" { format!("\"lost\":{ROWS}") } else { format!("{ROWS} ") };
        assert!(text.contains(&told) && text.contains("lost"), "{table}: show {view} says nothing of the loss: {text}");
        if view != "loss"
            && table == Stream::of_table(table).and_then(Stream::table).unwrap_or("latency")
            && view != "budget"
        {
            let none = text.contains("are in the recording") || view == "metrics";
            assert!(none, "{table}: show {view} does not say why it is empty: {text}");
        }
    }
    assert!(streams.contains("sched") && !streams.contains("offcpu"), "{streams:?}");
}

/// What a part of `loss` reports is reported again where that part itself finds no room.
#[test]
fn counts_that_could_not_be_written_are_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("rec");
    let hurdle = std::sync::Arc::new(Hurdle::default());
    let options = WriterOptions { max_pending_bytes: 0, ..WriterOptions::default() };
    let mut writer = RecordingWriter::create_with(&dir, Manifest::default(), options, hurdle.clone()).unwrap();
    hurdle.0.store(true, std::sync::atomic::Ordering::Relaxed);
    for at in 0..4 {
        push("syscalls", &mut writer);
        writer.push(&LossRow {
            ts: at,
            stream: "syscalls",
            cpu: Some(at as u32),
            seen: ROWS + 1,
            filtered: 1,
            lost: 0,
        });
        assert!(writer.flush(at).is_err());
    }
    hurdle.0.store(false, std::sync::atomic::Ordering::Relaxed);
    push("syscalls", &mut writer);
    writer.push(&LossRow { ts: 5, stream: "syscalls", cpu: None, seen: ROWS, ..LossRow::default() });
    writer.close(|_| ()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    let mut sums = [0; 3];
    recording
        .for_each::<LossRow>(|row| {
            assert_eq!(row.stream, "syscalls");
            sums = [sums[0] + row.seen, sums[1] + row.lost, sums[2] + row.filtered];
        })
        .unwrap();
    let kept = recording.rows("syscalls").unwrap();
    assert_eq!((kept, sums), (ROWS, [5 * ROWS + 4, 4 * ROWS, 4]));
    assert_eq!(sums[0], kept + sums[1] + sums[2]);
}

/// A file system that is full for a while.
#[derive(Debug, Default)]
struct Hurdle(std::sync::atomic::AtomicBool);

impl Storage for Hurdle {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        FileStorage.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        if self.0.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()));
        }
        FileStorage.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        FileStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        FileStorage.remove_file(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        FileStorage.sync_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        FileStorage.sync_dir(path)
    }
}
