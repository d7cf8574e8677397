//! `pagelab-fleet ls`: the recordings and days of a place as a table or as JSON.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use clap::Args;
use pagelab_store::list::{Listed, MOST_OBJECTS, Recording, State, list};
use pagelab_store::mirror::CacheKind;
use pagelab_store::{Place, StoreError};

use crate::{Waiting, cache_folder};

/// A begin that lies farther ahead of this host's clock is named: one of the two clocks is wrong.
const AHEAD_NS: i64 = 300_000_000_000;

/// Options of `ls`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// What to list
    #[arg(value_name = "URL")]
    url: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Stop after this many objects
    #[arg(long, value_name = "N", default_value_t = MOST_OBJECTS)]
    objects: usize,
    #[command(flatten)]
    waiting: Waiting,
}

/// Lists the place.
pub(crate) async fn run(args: &ListArgs) -> anyhow::Result<()> {
    let place = Place::open(&args.url, args.waiting.patience())?;
    // Without a cache every manifest is read.
    let cache = cache_folder(&args.url, CacheKind::Lists, "a cache").ok();
    let listed = list(&place, args.objects, cache.as_deref()).await?;
    if listed.recordings.is_empty() && listed.days.is_empty() && !listed.is_cut {
        return Err(StoreError::NoRecording { place: args.url.clone() }.into());
    }
    if listed.is_cut {
        eprintln!(
            "pagelab-fleet: {}: the list ends after {} objects and there are more, so the last recording may have more bytes than it \
             says; name a longer prefix, or type --objects {}",
            args.url,
            args.objects,
            args.objects.saturating_mul(10)
        );
    }
    let mut out = io::stdout().lock();
    let written = if args.json {
        serde_json::to_writer_pretty(&mut out, &listed).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        write_table(&mut out, &listed, now_ns())
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write the list"),
        _ => Ok(()),
    }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn write_table(out: &mut impl Write, listed: &Listed, now_ns: i64) -> io::Result<()> {
    let mut rows = vec![["BYTES", "BEGIN (UTC)", "HOST", "NAME", "STATE"].map(str::to_owned)];
    for recording in &listed.recordings {
        let begin = recording.facts.begin_ns.map_or_else(|| "-".to_owned(), utc);
        let state = state(recording, now_ns);
        let name = if recording.name.is_empty() { "." } else { &recording.name };
        let host = recording.facts.host.clone().unwrap_or_else(|| "-".to_owned());
        rows.push([recording.bytes.to_string(), begin, host, name.to_owned(), state]);
    }
    for day in &listed.days {
        let state = format!("{}; {}", day.state.words(), day.tables.join(", "));
        rows.push([day.bytes.to_string(), "-".to_owned(), "-".to_owned(), day.name.clone(), state]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3].map(width);
    for [bytes, begin, host, name, state] in &rows {
        let [first, second, third, fourth] = widths;
        writeln!(out, "{bytes:>first$}  {begin:second$}  {host:third$}  {name:fourth$}  {state}")?;
    }
    let bytes: u64 = listed.recordings.iter().map(|one| one.bytes).chain(listed.days.iter().map(|day| day.bytes)).sum();
    let others = match listed.other_objects {
        0 => String::new(),
        objects => format!("; {objects} other objects"),
    };
    writeln!(out, "{} recordings, {} days, {bytes} bytes{others}", listed.recordings.len(), listed.days.len())
}

/// What a recording is, and what is odd about its times.
fn state(recording: &Recording, now_ns: i64) -> String {
    let mut words = vec![recording.facts.state.words()];
    let ahead_ns = recording.facts.begin_ns.map(|begin| begin.saturating_sub(now_ns));
    if let Some(ahead_ns) = ahead_ns.filter(|ahead| *ahead > AHEAD_NS) {
        let minutes = ahead_ns / 60_000_000_000;
        words.push(format!("begins in {minutes} min by this host's clock: one of the two clocks is wrong"));
    }
    // Whether it is still being copied shows in its newest object.
    if recording.facts.state != State::Complete
        && let Some(change) = recording.last_change_ns
    {
        words.push(format!("newest object {}", utc(change)));
    }
    words.join("; ")
}

fn utc(ns: i64) -> String {
    DateTime::<Utc>::from_timestamp_nanos(ns).format("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use pagelab_store::list::Facts;

    use super::*;

    #[test]
    fn a_begin_in_the_future_is_named_and_nothing_else_about_it() {
        let now = 1_772_323_200_000_000_000;
        let recording = |begin_ns: i64| Recording {
            name: "r".to_owned(),
            facts: Facts { state: State::Complete, host: Some("h".to_owned()), label: None, begin_ns: Some(begin_ns) },
            objects: 1,
            bytes: 10,
            last_change_ns: None,
        };
        let text = |begin_ns: i64| {
            let mut out = Vec::new();
            let listed = Listed { recordings: vec![recording(begin_ns)], ..Listed::default() };
            write_table(&mut out, &listed, now).expect("written");
            String::from_utf8(out).expect("text")
        };
        assert!(!text(now + AHEAD_NS).contains("clock"), "{}", text(now + AHEAD_NS));
        let ahead = text(now + 7_200_000_000_000);
        assert!(ahead.contains("begins in 120 min") && ahead.contains("2026-03-01 02:00:00"), "{ahead}");
        // Clocks may say anything.
        assert!(text(i64::MAX).contains("clock") && text(i64::MIN).contains("1677"));
    }
}
