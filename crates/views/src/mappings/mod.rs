//! What a run's mappings and faults come to: classes of mappings, and for each how many faults it took, in which
//! order, and whether its 2 MiB slots were filled by huge pages or page by page.
//!
//! A *slot* is an aligned piece of the address space of the huge page's size. A slot is *whole* if, when it was first
//! touched, it lay in one memory area: only then could the kernel put a huge page there. One or two faults in a whole
//! slot say that it did; up to 512 (at 4 KiB and 2 MiB) say that it did not. Slots are judged by memory areas and not
//! by calls: neighbouring anonymous mappings merge, and then the slot across their border is whole.
//!
//! [`MappingProfile::load`] reads the calls into memory, streams the faults, and keeps state only for address space
//! that exists.

mod class;
mod events;
mod ledger;
mod profile;
pub(crate) mod rollup;
mod space;
mod tracker;

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, Int64Type, UInt32Type, UInt64Type};
use pagelab_recording::Recording;
use pagelab_recording::space::PageSizes;
pub use pagelab_recording::space::Ranges;
use pagelab_recording::tables::SettingsRow;
use pagelab_vocab::abi::FAULT_PROTECTION;

pub use class::{ClassKey, MemoryKind, ThpAdvice, size_class_of};
pub use events::ranges_of;
pub use pagelab_vocab::units::bytes;
pub use profile::{ClassProfile, Example, MappingProfile, Order, RefusedHugetlb, SlotStats, few_pages, many_pages};

use crate::error::Result;
use crate::kinds::measured_of;
use crate::read;
use crate::run::RunData;
use events::Events;
use ledger::Scale;
use tracker::Tracker;

/// Bytes of a base page where the recording was made.
pub fn page_bytes_of(recording: &Recording) -> u64 {
    recording.manifest().page_size_bytes.filter(is_page_size).unwrap_or(4096)
}

/// What the recording does not say itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    /// The huge page size, `thp.hpage_pmd_size`.
    pub huge_bytes: u64,
    /// Mount points of hugetlbfs: mappings of files below them are hugetlb memory.
    pub hugetlbfs: Vec<String>,
    /// The measured time: start and end, ns on the recording's clock.
    pub window: (i64, i64),
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self { huge_bytes: 2 << 20, hugetlbfs: Vec::new(), window: (i64::MIN, i64::MAX) }
    }
}

impl ProfileOptions {
    /// What a run's own settings and its measured time give.
    pub fn of_run(run: &RunData) -> Self {
        let start = run.settings.start.iter();
        let settings = start.filter_map(|(key, found)| Some((key.as_str(), found.value.as_deref()?)));
        Self { window: (run.window.start_ns, run.window.end_ns), ..Self::from_settings(settings) }
    }

    /// What a recording's own settings and the measured time of its manifest give. All time counts as measured if the
    /// manifest names none. What is damaged is left out and noted.
    pub fn of_recording(recording: &Recording, notes: &mut Vec<String>) -> Result<Self> {
        let mut settings: BTreeMap<String, Option<String>> = BTreeMap::new();
        read::each::<SettingsRow<'_>>(recording, notes, |row| {
            if row.at != "end" {
                settings.insert(row.key.to_owned(), row.value.map(str::to_owned));
            }
        })?;
        let settings = settings.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)));
        let options = Self::from_settings(settings);
        Ok(Self { window: measured_of(recording).unwrap_or(options.window), ..options })
    }

    /// Whether a profile of the recording that was made with other options is the one that these would give: they are the same, or
    /// all faults lie in the measured time of both.
    fn give_as(&self, other: &Self, recording: &Recording) -> bool {
        if (self.huge_bytes, &self.hugetlbfs) != (other.huge_bytes, &other.hugetlbfs) {
            return false;
        }
        if self.window == other.window {
            return true;
        }
        // Where a footer cannot be read, the walk over the faults says what is damaged.
        let Ok(Some((first, last))) = recording.times("faults") else { return false };
        [self.window, other.window].iter().all(|window| window.0 <= first && last <= window.1)
    }

    /// What settings, as keys and values, give: the size of huge pages and the mounts of hugetlbfs. All time counts as
    /// measured.
    pub fn from_settings<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut options = Self::default();
        for (key, value) in settings {
            if key == "thp.hpage_pmd_size" {
                options.huge_bytes = value.parse().ok().filter(is_page_size).unwrap_or(options.huge_bytes);
            } else if let Some(mount) = key.strip_prefix("mount.").and_then(|key| key.strip_suffix(".fs"))
                && value == "hugetlbfs"
            {
                options.hugetlbfs.push(mount.trim_end_matches('/').to_owned());
            }
        }
        options
    }
}

/// Whether pages of a size exist: up to 16 GiB, the largest that any architecture has.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as Option::filter wants it")]
fn is_page_size(bytes: &u64) -> bool {
    bytes.is_power_of_two() && *bytes <= 1 << 34
}

impl MappingProfile {
    /// The profile of the recording in `dir`, from its rollup where that was made with options that give the same. `None` if it has
    /// no mappings or no faults recorded: nothing is known then, which is not the same as no faults.
    pub fn load(dir: &Path, options: &ProfileOptions) -> Result<Option<Self>> {
        let recording = Recording::open(dir)?;
        if recording.parts("mappings")?.is_empty() || recording.parts("faults")?.is_empty() {
            return Ok(None);
        }
        let of_rollup = ProfileOptions::of_recording(&recording, &mut Vec::new())?;
        if let Some(profile) = rollup::read(&recording)
            && options.give_as(&of_rollup, &recording)
        {
            return Ok(Some(profile));
        }
        let mut walk = Walk::new(&recording, options)?;
        for batch in recording.read_ahead("faults", Some(&["ts", "mm_id", "addr", "error_code"]))? {
            // A damaged part is left out and the next one follows; `pagelab check` names it.
            let Ok(batch) = batch else { continue };
            walk.batch(&batch);
        }
        Ok(Some(walk.finish()))
    }
}

/// Merges the three tables in the order of time.
pub(crate) struct Walk {
    events: Events,
    next_map: usize,
    next_task: usize,
    /// The time of the next of both, ns.
    next_ts: i64,
    tracker: Tracker,
    /// Begin and end of the measured time.
    window: (i64, i64),
    /// Whether the error code is that of x86.
    x86: bool,
}

impl Walk {
    /// Reads mappings and tasks; the faults come batch by batch.
    pub(crate) fn new(recording: &Recording, options: &ProfileOptions) -> Result<Self> {
        let page = page_bytes_of(recording);
        let slot = if options.huge_bytes.is_power_of_two() { options.huge_bytes.max(page) } else { 2 << 20 };
        let sizes = options.hugetlbfs.iter().fold(PageSizes::of(recording), |sizes, path| sizes.with_hugetlbfs(path));
        Ok(Self {
            events: events::load(recording, &sizes)?,
            next_map: 0,
            next_task: 0,
            // Looked up at the first fault.
            next_ts: i64::MIN,
            tracker: Tracker::new(Scale { page, slot }),
            window: options.window,
            x86: recording.manifest().has_x86_fault_codes(),
        })
    }

    /// Takes the next faults, in order of time.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) {
        let (Some(ts), Some(mm), Some(addr)) = (
            column::<Int64Type>(batch, "ts"),
            column::<UInt32Type>(batch, "mm_id"),
            column::<UInt64Type>(batch, "addr"),
        ) else {
            return;
        };
        let error = column::<UInt32Type>(batch, "error_code");
        for (row, ((ts, mm), addr)) in ts.values().iter().zip(mm.values()).zip(addr.values()).enumerate() {
            // Faults are a thousand times as many as changes.
            if self.next_ts <= *ts {
                self.advance(*ts);
            }
            let code = error.filter(|column| column.is_valid(row)).map_or(0, |column| column.value(row));
            let protection = self.x86 && code & FAULT_PROTECTION != 0;
            let in_window = self.window.0 <= *ts && *ts <= self.window.1;
            self.tracker.fault(*mm, *addr, protection, in_window);
        }
    }

    /// Applies every change up to `ts`. Tasks go first: a mapping made by exec belongs to the address space that the
    /// task has after it.
    fn advance(&mut self, ts: i64) {
        loop {
            let task = self.events.tasks.get(self.next_task).filter(|event| event.ts <= ts);
            let map = self.events.maps.get(self.next_map).filter(|event| event.ts <= ts);
            match (task, map) {
                (Some(task), map) if map.is_none_or(|map| task.ts <= map.ts) => {
                    self.tracker.task(task);
                    self.next_task += 1;
                }
                (_, Some(map)) => {
                    self.tracker.change(map.ts, map.task_id, map.mm_id, &map.change);
                    self.next_map += 1;
                }
                _ => break,
            }
        }
        let task = self.events.tasks.get(self.next_task).map_or(i64::MAX, |event| event.ts);
        let map = self.events.maps.get(self.next_map).map_or(i64::MAX, |event| event.ts);
        self.next_ts = task.min(map);
    }

    /// The profile, when all faults were taken.
    pub(crate) fn finish(mut self) -> MappingProfile {
        self.advance(i64::MAX);
        self.tracker.finish(&self.events.names).into_profile()
    }
}

fn column<'a, T: ArrowPrimitiveType>(batch: &'a RecordBatch, name: &str) -> Option<&'a PrimitiveArray<T>> {
    batch.column_by_name(name)?.as_primitive_opt::<T>()
}
