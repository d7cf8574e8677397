//! `show DIR regions`: the page sizes that memory really had, and why it is not what was asked for.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{RegionPagesRow, TasksRow};
use pagelab_views::mappings::bytes;
use serde::Serialize;
use serde_json::Value;

use super::View;
use super::options::{Options, cut, more};
use super::read::{self, PathText, Tasks};
use super::table::{Table, left, or_dash, paragraph, percent, right, seconds};
use crate::failure::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Size {
    page_size_bytes: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Space {
    mm_id: u32,
    pid: Option<i32>,
    comm: Option<String>,
    /// When it was looked at last.
    ts: i64,
    bytes: u64,
    sizes: Vec<Size>,
}

#[derive(Debug, Serialize)]
struct RegionRow {
    mm_id: u32,
    pid: Option<i32>,
    comm: Option<String>,
    start: String,
    end: String,
    len_bytes: u64,
    #[serde(flatten)]
    path: PathText,
    /// What is in memory.
    bytes: u64,
    sizes: Vec<Size>,
    asked: Option<String>,
    reason: Option<String>,
}

/// Memory that is in smaller pages than were asked for, or not there at all.
#[derive(Debug, Serialize)]
struct Shortfall {
    asked: String,
    reason: String,
    regions: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Document {
    sizes: Vec<Size>,
    /// `pagemap_scan` or `smaps`, which does not see the huge pages of DAX files.
    source: Option<String>,
    shortfalls: Vec<Shortfall>,
    address_spaces: Vec<Space>,
    address_spaces_total: usize,
    regions: Vec<RegionRow>,
    regions_total: usize,
}

/// A region by address space and place.
type Key = (u32, u64, u64);

/// What was found of it.
#[derive(Debug, Default)]
struct Found {
    path: Option<Vec<u8>>,
    sizes: BTreeMap<u64, u64>,
    asked: Option<String>,
    /// With the bytes that it speaks of.
    reason: Option<(String, u64)>,
}

/// The last looks: when each was, and what was there.
#[derive(Debug, Default)]
struct Looks {
    times: BTreeMap<u32, i64>,
    regions: BTreeMap<Key, Found>,
}

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["bytes", "small", "address"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let owners = owners(recording, &mut notes)?;
    let looks = load(recording, &mut notes)?;
    if looks.times.is_empty() {
        notes.push("no page sizes were recorded: pagelab record --observe default,regions records them".to_owned());
    }
    let own = recording.manifest().extra.get("regions");
    if let Some(unseen) = own.and_then(|own| own.get("address_spaces_not_seen")).and_then(Value::as_u64)
        && unseen > 0
    {
        notes.push(format!("{unseen} address spaces were gone before they could be looked at"));
    }
    let wanted = |mm_id: u32, ts: i64| match owners.get(&mm_id) {
        Some(owner) => tasks.wants(options, *owner, ts),
        None => !options.by_task(),
    };
    let mut rows: Vec<(RegionRow, u64)> = Vec::new();
    let mut shortfalls: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for (key, found) in &looks.regions {
        let ts = looks.times.get(&key.0).copied().unwrap_or_default();
        if !wanted(key.0, ts) || !options.wants_path(found.path.as_deref()) {
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
    let (address_spaces, address_spaces_total) = cut(spaces, options.limit(true));
    let (regions, regions_total) = cut(rows.into_iter().map(|(row, _)| row).collect(), options.limit(true));
    let data = Document {
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
    let start = recording.manifest().clock.start_ns;
    View::new("regions", recording, &notes, &data, &text(&data, start))
}

/// The task that each address space is shown under: the first that had it.
fn owners(recording: &Recording, notes: &mut Vec<String>) -> Result<BTreeMap<u32, u32>, Failure> {
    let mut owners = BTreeMap::new();
    read::each_in_time::<TasksRow>(recording, notes, |row| {
        if let Some(mm_id) = row.mm_id {
            owners.entry(mm_id).or_insert(row.task_id);
        }
    })?;
    Ok(owners)
}

fn load(recording: &Recording, notes: &mut Vec<String>) -> Result<Looks, Failure> {
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
            *found.sizes.entry(row.page_size_bytes).or_default() += row.bytes;
        }
        if let Some(reason) = row.reason {
            found.reason = Some((reason.to_owned(), row.bytes));
        }
    })?;
    Ok(looks)
}

/// Bytes in the smallest pages.
fn small_bytes(found: &Found) -> u64 {
    found.sizes.range(..1 << 20).map(|(_, bytes)| bytes).sum()
}

fn summed(sizes: impl Iterator<Item = Size>) -> Vec<Size> {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for size in sizes {
        *sums.entry(size.page_size_bytes).or_default() += size.bytes;
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
        bytes: found.sizes.values().sum(),
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
            bytes: sizes.iter().map(|size| size.bytes).sum(),
            sizes,
        });
    }
    spaces.sort_by_key(|space| std::cmp::Reverse(space.bytes));
    spaces
}

/// Bytes in pages of a size, `-` for none.
fn in_pages(sizes: &[Size], wanted: impl Fn(u64) -> bool) -> String {
    let sum: u64 = sizes.iter().filter(|size| wanted(size.page_size_bytes)).map(|size| size.bytes).sum();
    if sum == 0 { "-".to_owned() } else { bytes(sum) }
}

fn text(data: &Document, start: i64) -> String {
    let mut out = String::new();
    if data.regions.is_empty() {
        return out;
    }
    out.push('\n');
    let whole: u64 = data.sizes.iter().map(|size| size.bytes).sum();
    let parts = data.sizes.iter().map(|size| {
        format!("{} ({}%) in pages of {}", bytes(size.bytes), percent(size.bytes, whole), bytes(size.page_size_bytes))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    paragraph(&format!("at the last look at each address space: {parts}"), &mut out);
    if data.source.as_deref() == Some("smaps") {
        paragraph("from smaps, which does not see the huge pages of DAX files", &mut out);
    }
    if !data.shortfalls.is_empty() {
        out.push_str("\nLESS THAN ASKED FOR\n");
        let mut table = Table::new([right("BYTES"), right("REGIONS"), left("ASKED"), left("REASON")]);
        for row in &data.shortfalls {
            table.row([bytes(row.bytes), row.regions.to_string(), row.asked.clone(), row.reason.clone()]);
        }
        table.write(2, &mut out);
    }
    out.push_str("\nBY ADDRESS SPACE\n");
    let small = |size: u64| size < 1 << 20;
    let middle = |size: u64| (1 << 20..1 << 30).contains(&size);
    let giant = |size: u64| size >= 1 << 30;
    let mut table = Table::new([
        right("PID"),
        left("COMM").at_most(16),
        right("LOOKED AT"),
        right("SMALL"),
        right("2M"),
        right("1G"),
    ]);
    for space in &data.address_spaces {
        table.row([
            or_dash(space.pid),
            or_dash(space.comm.clone()),
            seconds(space.ts.saturating_sub(start)),
            in_pages(&space.sizes, small),
            in_pages(&space.sizes, middle),
            in_pages(&space.sizes, giant),
        ]);
    }
    table.write(2, &mut out);
    out.push_str(&more(data.address_spaces.len(), data.address_spaces_total));
    out.push_str("\nBY REGION\n");
    regions_text(data, &mut out);
    out
}

fn regions_text(data: &Document, out: &mut String) {
    let mut table = Table::new([
        right("PID"),
        right("LENGTH"),
        right("SMALL"),
        right("2M"),
        right("1G"),
        left("ASKED"),
        left("REASON").at_most(20),
        left("REGION"),
    ]);
    for row in &data.regions {
        table.row([
            or_dash(row.pid),
            bytes(row.len_bytes),
            in_pages(&row.sizes, |size| size < 1 << 20),
            in_pages(&row.sizes, |size| (1 << 20..1 << 30).contains(&size)),
            in_pages(&row.sizes, |size| size >= 1 << 30),
            or_dash(row.asked.clone()),
            or_dash(row.reason.clone()),
            format!("{} {}", row.path.path.as_deref().unwrap_or("[anonymous]"), row.start),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.regions.len(), data.regions_total));
}
