//! Which recordings there are, which of them the fleet has, and in which day the others belong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pagelab_recording::set::folders;
use pagelab_recording::{Manifest, Recording};

use super::{Compacted, LeftOut};
use crate::error::Result;
use crate::rollup::{Day, FleetFolder, RunsRow, Text};

/// How far the clock of a host may be ahead before it is said.
const AHEAD_NS: i64 = 300 * 1_000_000_000;

/// A recording that is to be added.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub dir: PathBuf,
    pub recording_id: Text,
    pub host: Option<Text>,
    pub start_ns: i64,
}

/// The runs that the fleet has.
pub(super) struct Known {
    /// By id: whether the recording was whole.
    runs: BTreeMap<Text, bool>,
    /// Those that count, by host and time.
    by_host: BTreeMap<Text, BTreeMap<i64, Text>>,
}

impl Known {
    pub(super) fn load(fleet: &FleetFolder) -> Result<Self> {
        let mut known = Self { runs: BTreeMap::new(), by_host: BTreeMap::new() };
        let days = fleet.days()?;
        let (Some(first), Some(last)) = (days.first(), days.last()) else { return Ok(known) };
        for row in fleet.read::<RunsRow>(*first..=*last, &[])?.rows {
            let Some(id) = row.recording_id else { continue };
            if let (Some(host), Some(start_ns), None) = (row.host, row.start_ns, row.excluded) {
                known.by_host.entry(host).or_default().insert(start_ns, id.clone());
            }
            known.runs.insert(id, row.complete == Some(true));
        }
        Ok(known)
    }

    /// The runs of a host that count, by time.
    pub(super) fn of_host(&self, host: &str) -> BTreeMap<i64, Text> {
        self.by_host.get(host).cloned().unwrap_or_default()
    }
}

/// The recordings that the fleet has not, by day; of each day by host and time.
pub(super) fn by_day(
    sources: &[PathBuf],
    known: &Known,
    now_ns: i64,
    done: &mut Compacted,
) -> Result<BTreeMap<Day, Vec<Candidate>>> {
    let mut days: BTreeMap<Day, Vec<Candidate>> = BTreeMap::new();
    let mut seen: BTreeMap<Text, PathBuf> = BTreeMap::new();
    let mut ahead: BTreeSet<Text> = BTreeSet::new();
    for dir in folders(sources)? {
        done.found += 1;
        let (candidate, is_complete) = match candidate(&dir) {
            Ok(found) => found,
            Err(reason) => {
                done.left_out.push(LeftOut { dir, reason });
                continue;
            }
        };
        if let Some(first) = seen.insert(candidate.recording_id.clone(), dir.clone()) {
            let reason = format!("the same recording as {}", first.display());
            done.left_out.push(LeftOut { dir, reason });
            continue;
        }
        match known.runs.get(&candidate.recording_id) {
            Some(was_complete) if *was_complete || !is_complete => done.unchanged += 1,
            _ => {
                if candidate.start_ns > now_ns.saturating_add(AHEAD_NS) {
                    ahead.extend(candidate.host.clone());
                }
                days.entry(Day::of_ns(candidate.start_ns)).or_default().push(candidate);
            }
        }
    }
    for candidates in days.values_mut() {
        candidates.sort_by(|a, b| (&a.host, a.start_ns, &a.dir).cmp(&(&b.host, b.start_ns, &b.dir)));
    }
    if !ahead.is_empty() {
        let hosts: Vec<&str> = ahead.iter().take(5).map(AsRef::as_ref).collect();
        done.notes.push(format!(
            "recordings of {} hosts begin in the future ({}): their clocks are ahead, and days and changes of settings are by these clocks",
            ahead.len(),
            hosts.join(", ")
        ));
    }
    Ok(days)
}

/// What the manifest says of a recording, or why it can be in no day.
fn candidate(dir: &Path) -> Result<(Candidate, bool), String> {
    let recording = Recording::open(dir).map_err(|error| error.to_string())?;
    let manifest = recording.manifest();
    let clock = &manifest.clock;
    let Some(start_ns) = clock.realtime_at_start_ns else {
        return Err("its manifest lacks clock.realtime_at_start_ns: the day is not known".to_owned());
    };
    if start_ns < 0 {
        return Err(format!("found clock.realtime_at_start_ns {start_ns}; needed: a time from 1970 on"));
    }
    let host = manifest.host.as_deref().filter(|host| !host.is_empty());
    let candidate = Candidate {
        dir: dir.to_owned(),
        recording_id: id_of(manifest, start_ns),
        host: host.map(Text::from),
        start_ns,
    };
    Ok((candidate, manifest.complete))
}

/// The id of a recording, the same wherever a copy of it lies: no two recordings of a boot begin in the same nanosecond.
fn id_of(manifest: &Manifest, start_ns: i64) -> Text {
    let host = manifest.host.as_deref().unwrap_or("-");
    let boot: String = manifest.boot_id.as_deref().unwrap_or("-").chars().take(8).collect();
    Text::from(format!("{host}.{boot}.{start_ns:x}.{:x}", manifest.clock.start_ns))
}
