//! `show DIR regions`: the page sizes that memory really had, and why they are not those requested.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{RegionPagesRow, TasksRow};
use pagelab_vocab::streams::Stream;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read::{self, PathText, Tasks};
use crate::selection::{Selection, cut};

/// Memory in pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Size {
    /// Size of the pages, bytes.
    pub page_size_bytes: u64,
    /// Memory in them, bytes.
    pub bytes: u64,
}

/// One address space.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Space {
    /// The address space, unique in the recording.
    pub mm_id: u32,
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// When it was looked at last.
    pub ts: i64,
    /// Memory present, bytes.
    pub bytes: u64,
    /// The same by page size.
    pub sizes: Vec<Size>,
}

/// One region of an address space.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RegionRow {
    /// The address space, unique in the recording.
    pub mm_id: u32,
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// First address, hexadecimal.
    pub start: String,
    /// First address behind it, hexadecimal.
    pub end: String,
    /// Its length, bytes.
    pub len_bytes: u64,
    /// Path of the file.
    #[serde(flatten)]
    pub path: PathText,
    /// What is in memory.
    pub bytes: u64,
    /// What is in memory, by page size.
    pub sizes: Vec<Size>,
    /// Page size that was asked for; null if none was.
    pub asked: Option<String>,
    /// Why it has not got it; null if it has.
    pub reason: Option<String>,
}

/// Memory that is in smaller pages than were asked for, or not there at all.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shortfall {
    /// The request.
    pub asked: String,
    /// Why there is less.
    pub reason: String,
    /// Regions.
    pub regions: u64,
    /// Their memory that is in smaller pages or missing, bytes.
    pub bytes: u64,
}

/// Page sizes that memory had at the last look, one row per region.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RegionsView {
    /// All memory present, by page size.
    pub sizes: Vec<Size>,
    /// `pagemap_scan` or `smaps`, which does not see the huge pages of DAX files.
    pub source: Option<String>,
    /// Where there is less than asked for, by reason.
    pub shortfalls: Vec<Shortfall>,
    /// Sums of address spaces, the largest first.
    pub address_spaces: Vec<Space>,
    /// Rows before the list was cut.
    pub address_spaces_total: usize,
    /// Regions, ranked.
    pub regions: Vec<RegionRow>,
    /// Rows before the list was cut.
    pub regions_total: usize,
}

/// A region by address space and place.
type Key = (u32, u64, u64);

/// Its sizes as found.
#[derive(Debug, Default)]
struct Found {
    path: Option<Vec<u8>>,
    sizes: BTreeMap<u64, u64>,
    asked: Option<String>,
    /// With the bytes that it applies to.
    reason: Option<(String, u64)>,
}

/// The last looks: when each was made, and the regions it found.
#[derive(Debug, Default)]
struct Looks {
    times: BTreeMap<u32, i64>,
    regions: BTreeMap<Key, Found>,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<RegionsView>> {
    let sort = selection.sort_by(&["bytes", "small", "address"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let owners = owners(recording, &mut notes)?;
    let looks = load(recording, &mut notes)?;
    read::lost(recording, Stream::Regions, &mut notes)?;
    if looks.times.is_empty() {
        absence::none_recorded(recording, Stream::Regions, "page sizes", &mut notes)?;
    }
    let own = recording.manifest().extra.get("regions");
    if let Some(unseen) = own.and_then(|own| own.get("address_spaces_not_seen")).and_then(Value::as_u64)
        && unseen > 0
    {
        notes.push(format!("{unseen} address spaces were gone before they could be looked at"));
    }
    let wanted = |mm_id: u32, ts: i64| match owners.get(&mm_id) {
        Some(owner) => tasks.wants(selection, *owner, ts),
        None => !selection.by_task(),
    };
    let mut rows: Vec<(RegionRow, u64)> = Vec::new();
    let mut shortfalls: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for (key, found) in &looks.regions {
        let ts = looks.times.get(&key.0).copied().unwrap_or_default();
        if !wanted(key.0, ts) || !selection.wants_path(found.path.as_deref()) {
            continue;
        }
        if let (Some(asked), Some((reason, small))) = (&found.asked, &found.reason) {
            let sum = shortfalls.entry((asked.clone(), reason.clone())).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(*small));
        }
        let owner = owners.get(&key.0).and_then(|owner| tasks.get(*owner));
        let name = owner.and_then(|task| task.comm_at(ts));
        rows.push((region_row(*key, found, owner.map(|task| task.pid), name), small_bytes(found)));
    }
    let spaces = spaces(&rows, &looks);
    let sizes = summed(rows.iter().flat_map(|(row, _)| row.sizes.iter().copied()));
    match sort {
        "address" => {}
        "small" => rows.sort_by_key(|(_, small)| std::cmp::Reverse(*small)),
        _ => rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.bytes)),
    }
    let (address_spaces, address_spaces_total) = cut(spaces, selection.limit(true));
    let (regions, regions_total) = cut(rows.into_iter().map(|(row, _)| row).collect(), selection.limit(true));
    let data = RegionsView {
        sizes,
        source: own.and_then(|own| own.get("source")).and_then(Value::as_str).map(str::to_owned),
        shortfalls: shortfalls
            .into_iter()
            .map(|((asked, reason), (regions, bytes))| Shortfall { asked, reason, regions, bytes })
            .collect(),
        address_spaces,
        address_spaces_total,
        regions,
        regions_total,
    };
    Ok(Answer::new("regions", recording, notes, data))
}

/// The task that each address space is shown under: the first that had it.
fn owners(recording: &Recording, notes: &mut Vec<String>) -> Result<BTreeMap<u32, u32>> {
    let mut owners = BTreeMap::new();
    read::each_in_time::<TasksRow>(recording, notes, |row| {
        if let Some(mm_id) = row.mm_id {
            owners.entry(mm_id).or_insert(row.task_id);
        }
    })?;
    Ok(owners)
}

fn load(recording: &Recording, notes: &mut Vec<String>) -> Result<Looks> {
    let mut looks = Looks::default();
    read::each_in_time::<RegionPagesRow>(recording, notes, |row| {
        let time = looks.times.entry(row.mm_id).or_insert(row.ts);
        if *time < row.ts {
            *time = row.ts;
            // A later look at the same memory.
            looks.regions.retain(|(mm_id, ..), _| *mm_id != row.mm_id);
        }
        let found = looks.regions.entry((row.mm_id, row.start, row.end)).or_default();
        found.path = row.path.map(<[u8]>::to_vec);
        found.asked = row.asked.map(str::to_owned);
        if row.bytes > 0 {
            let bytes = found.sizes.entry(row.page_size_bytes).or_default();
            *bytes = bytes.saturating_add(row.bytes);
        }
        if let Some(reason) = row.reason {
            found.reason = Some((reason.to_owned(), row.bytes));
        }
    })?;
    Ok(looks)
}

/// Bytes in the smallest pages.
fn small_bytes(found: &Found) -> u64 {
    found.sizes.range(..1 << 20).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

fn summed(sizes: impl Iterator<Item = Size>) -> Vec<Size> {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for size in sizes {
        let bytes = sums.entry(size.page_size_bytes).or_default();
        *bytes = bytes.saturating_add(size.bytes);
    }
    sums.into_iter().map(|(page_size_bytes, bytes)| Size { page_size_bytes, bytes }).collect()
}

fn region_row((mm_id, start, end): Key, found: &Found, pid: Option<i32>, comm: Option<&str>) -> RegionRow {
    RegionRow {
        mm_id,
        pid,
        comm: comm.map(str::to_owned),
        start: format!("{start:#x}"),
        end: format!("{end:#x}"),
        len_bytes: end.saturating_sub(start),
        path: PathText::of(found.path.as_deref()),
        bytes: found.sizes.values().copied().fold(0, u64::saturating_add),
        sizes: found.sizes.iter().map(|(size, bytes)| Size { page_size_bytes: *size, bytes: *bytes }).collect(),
        asked: found.asked.clone(),
        reason: found.reason.as_ref().map(|(reason, _)| reason.clone()),
    }
}

/// The sums of each address space, the largest first.
fn spaces(rows: &[(RegionRow, u64)], looks: &Looks) -> Vec<Space> {
    let mut spaces: Vec<Space> = Vec::new();
    // The rows are still in the order of address spaces.
    for same in rows.chunk_by(|(one, _), (next, _)| one.mm_id == next.mm_id) {
        let Some((first, _)) = same.first() else { continue };
        let sizes = summed(same.iter().flat_map(|(row, _)| row.sizes.iter().copied()));
        spaces.push(Space {
            mm_id: first.mm_id,
            pid: first.pid,
            comm: first.comm.clone(),
            ts: looks.times.get(&first.mm_id).copied().unwrap_or_default(),
            bytes: sizes.iter().map(|size| size.bytes).fold(0, u64::saturating_add),
            sizes,
        });
    }
    spaces.sort_by_key(|space| std::cmp::Reverse(space.bytes));
    spaces
}
