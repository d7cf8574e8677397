//! `read_iolog`: logs of operations, read to be done again.
//!
//! Logs are those of `write_iolog`, fio's and pagelab's, in fio's versions 2 and 3. What is in a log overrules what the job says about
//! files, directions, sizes and amounts; it is read once, before files are made ready, so that everything else sees the job that the
//! log makes of it: what is written is checked, buffers are long enough. A line that is not understood is an error with its number,
//! where fio passes over it.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagelab_fiojob::words::{Modifier, Pattern};
use pagelab_fiojob::{Direction, JobOptions, JobSpec, Operation, Workload};

use crate::error::LoadError;

/// The action of a log's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A read or write.
    Operation(Operation),
    /// A flush, of data only or of everything.
    Flush {
        /// Data only.
        data_only: bool,
    },
    /// The file is closed.
    Close,
    /// Nothing but its time: files are opened when they are first used.
    Open,
    /// Nothing is done until this long after the start, ns.
    WaitUntil(u64),
}

/// An entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its file, by place in the log's list.
    pub file: usize,
    /// Time since the entry before it, ns; scaled.
    pub delay_ns: u64,
    /// The action.
    pub act: Act,
}

/// A log that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// Its files, in order of their first use.
    pub files: Vec<PathBuf>,
    /// How far each file is used, bytes.
    pub ends: Vec<u64>,
    /// Its entries, in order.
    pub entries: Vec<Entry>,
    /// Longest operation, by direction; 0 where there is none.
    pub longest: [u32; Direction::COUNT],
    /// Trims in the log, which are passed over, as in fio.
    pub trims: u64,
}

/// The logs of a workload's workers, by job and by the worker's number within it.
pub type Replays = BTreeMap<(usize, u32), Arc<Replay>>;

/// Reads the logs that jobs replay; gives the jobs that they make, and the logs.
///
/// # Errors
/// A log cannot be read, or a line of it not understood.
pub fn read(workload: &Workload) -> Result<(Workload, Replays), LoadError> {
    let (mut workload, mut replays) = (workload.clone(), Replays::new());
    for index in 0..workload.jobs.len() {
        let Some(job) = workload.jobs.get_mut(index) else { continue };
        let Some(names) = job.options.read_iolog.clone() else { continue };
        // As in fio: workers take turns with the logs of a list.
        let names: Vec<&str> = names.split(':').filter(|name| !name.is_empty()).collect();
        let mut read: BTreeMap<&str, Arc<Replay>> = BTreeMap::new();
        for clone in 0..u32::try_from(job.options.numjobs).unwrap_or(u32::MAX) {
            let Some(name) = names.get(clone as usize % names.len().max(1)) else { continue };
            if !read.contains_key(name) {
                read.insert(name, Arc::new(open(job, Path::new(name))?));
            }
            if let Some(replay) = read.get(name) {
                replays.insert((index, clone), replay.clone());
            }
        }
        for (name, replay) in &read {
            if replay.trims > 0 {
                workload
                    .warnings
                    .push(format!("job '{}': {} trims in {name} are passed over, as fio does", job.name, replay.trims));
            }
        }
        rewrite(&mut job.options, read.values().map(Arc::as_ref));
    }
    Ok((workload, replays))
}

/// Makes the job that its logs say.
fn rewrite<'a>(o: &mut JobOptions, replays: impl Iterator<Item = &'a Replay>) {
    let mut longest = [0_u32; Direction::COUNT];
    for replay in replays {
        longest.iter_mut().zip(replay.longest).for_each(|(most, own)| *most = own.max(*most));
    }
    let [reads, writes, _] = longest.map(|bytes| bytes > 0);
    o.rw.0 = match (reads, writes) {
        (true, true) => Pattern::ReadWrite,
        (false, true) => Pattern::Write,
        _ => Pattern::Read,
    };
    o.rw.1 = Modifier::None;
    (o.bsrange, o.bssplit) = Default::default();
    o.bs.read.0 = u64::from(longest[0]).max(1);
    o.bs.write.0 = u64::from(longest[1]).max(1);
    (o.loops, o.time_based) = (1, false);
    (o.io_size, o.number_ios, o.write_iolog) = (None, None, None);
}

fn open(job: &JobSpec, path: &Path) -> Result<Replay, LoadError> {
    use std::io::Read as _;

    let failed = |reason: String| LoadError::Target { job: job.name.clone(), reason };
    let file = std::fs::File::open(path).map_err(|error| failed(format!("read_iolog={}: {error}", path.display())))?;
    let mut lines = std::io::BufReader::new(file);
    let at = |line: u64, reason: String| failed(format!("{}:{line}: {reason}", path.display()));
    let mut text = Vec::new();
    let mut next = move |text: &mut Vec<u8>| -> std::io::Result<bool> {
        text.clear();
        Ok(lines.by_ref().take(MAX_LINE).read_until(b'\n', text)? > 0)
    };
    next(&mut text).map_err(|error| at(1, error.to_string()))?;
    let version = match text.trim_ascii() {
        b"fio version 2 iolog" => 2,
        b"fio version 3 iolog" => 3,
        _ => return Err(at(1, "it does not begin with 'fio version 2 iolog' or 'fio version 3 iolog'".to_owned())),
    };
    let mut reader = Reader { options: &job.options, version, last: 0, replay: Replay::default() };
    let mut line = 1;
    while next(&mut text).map_err(|error| at(line + 1, error.to_string()))? {
        line += 1;
        let words = String::from_utf8_lossy(&text);
        reader.line(&words).map_err(|reason| at(line, format!("'{}': {reason}", words.trim_end().escape_debug())))?;
    }
    if reader.replay.entries.iter().all(|entry| !matches!(entry.act, Act::Operation(_) | Act::WaitUntil(_))) {
        return Err(failed(format!("{} holds no operation", path.display())));
    }
    Ok(reader.replay)
}

/// Longest line: two names of a path's greatest length and numbers.
const MAX_LINE: u64 = 16 << 10;

/// Largest operation, as for blocks.
const MAX_BYTES: u32 = 1 << 30;

struct Reader<'a> {
    options: &'a JobOptions,
    version: u32,
    /// The time of the entry before, us.
    last: u64,
    replay: Replay,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
        let mut delay_us = 0;
        if self.version == 3 && !words.is_empty() {
            let at: u64 = words.remove(0).parse().map_err(|_| "it does not begin with a time".to_owned())?;
            // As in fio: nothing is waited for before the first entry whose time is not 0.
            if self.last > 0 && !self.options.replay_no_stall {
                delay_us = at.saturating_sub(self.last);
            }
            self.last = at;
        }
        let scale = self.options.replay_time_scale.max(1);
        let delay_ns = u64::try_from(u128::from(delay_us) * 1000 * 100 / u128::from(scale))
            .map_err(|_| "it is too late".to_owned())?;
        match words.as_slice() {
            [] => Ok(()),
            [name, act] => self.file_act(name, act, delay_ns),
            [name, act, offset, bytes] => {
                let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is not a number"));
                self.operation(name, act, number(offset)?, number(bytes)?, delay_ns)
            }
            _ => Err("needed: FILE ACT, or FILE ACT OFFSET BYTES".to_owned()),
        }
    }

    fn file_act(&mut self, name: &str, act: &str, delay_ns: u64) -> Result<(), String> {
        let act = match act {
            "add" => {
                self.file(name, true)?;
                return Ok(());
            }
            "open" => Act::Open,
            "close" => Act::Close,
            _ => return Err(format!("'{act}' is not add, open or close")),
        };
        let file = self.file(name, false)?;
        self.replay.entries.push(Entry { file, delay_ns, act });
        Ok(())
    }

    fn operation(&mut self, name: &str, act: &str, offset: u64, bytes: u64, delay_ns: u64) -> Result<(), String> {
        let direction = match act {
            "read" => Direction::Read,
            "write" => Direction::Write,
            "trim" => {
                self.replay.trims += 1;
                return Ok(());
            }
            "sync" | "datasync" => {
                let file = self.file(name, false)?;
                let act = Act::Flush { data_only: act == "datasync" };
                self.replay.entries.push(Entry { file, delay_ns, act });
                return Ok(());
            }
            "wait" if self.version == 2 => {
                if !self.options.replay_no_stall {
                    let until = offset.checked_mul(1_000_000).ok_or("it is too late")?;
                    self.replay.entries.push(Entry { file: 0, delay_ns, act: Act::WaitUntil(until) });
                }
                return Ok(());
            }
            "wait" => return Err("waits are those of version 2".to_owned()),
            _ => return Err(format!("'{act}' is not read, write, trim, sync, datasync or wait")),
        };
        let file = self.file(name, false)?;
        let bytes = u32::try_from(bytes).ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes));
        let bytes = bytes.ok_or_else(|| format!("an operation has 1 to {MAX_BYTES} bytes"))?;
        let mut offset = offset / self.options.replay_scale.max(1);
        if self.options.replay_align.0 > 0 {
            offset -= offset % self.options.replay_align.0;
        }
        let end = offset.checked_add(u64::from(bytes)).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or("it is beyond what a file can have")?;
        if let Some(most) = self.replay.ends.get_mut(file) {
            *most = end.max(*most);
        }
        let longest = &mut self.replay.longest[direction as usize];
        *longest = bytes.max(*longest);
        let act = Act::Operation(Operation { direction, offset, bytes });
        self.replay.entries.push(Entry { file, delay_ns, act });
        Ok(())
    }

    /// The place of a file in the list; new ones have to be added first.
    fn file(&mut self, name: &str, add: bool) -> Result<usize, String> {
        let path = Path::new(self.options.replay_redirect.as_deref().unwrap_or(name));
        if let Some(place) = self.replay.files.iter().position(|known| known == path) {
            return Ok(place);
        }
        if !add {
            return Err("no line before it adds this file".to_owned());
        }
        self.replay.files.push(path.to_path_buf());
        self.replay.ends.push(0);
        Ok(self.replay.files.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(options: &JobOptions, version: u32, lines: &[&str]) -> Result<Replay, String> {
        let mut reader = Reader { options, version, last: 0, replay: Replay::default() };
        lines.iter().try_for_each(|line| reader.line(line))?;
        Ok(reader.replay)
    }

    #[test]
    fn entries_have_their_distances_and_places() {
        let options = JobOptions { replay_scale: 2, replay_time_scale: 50, ..JobOptions::default() };
        let lines =
            ["0 f add", "10 f open", "20 f read 8192 4096", "30 f datasync 0 0", "50 f write 4096 512", "60 f close"];
        let replay = read_all(&options, 3, &lines).expect("valid");
        let delays: Vec<u64> = replay.entries.iter().map(|entry| entry.delay_ns).collect();
        assert_eq!(delays, [0, 20_000, 20_000, 40_000, 20_000]);
        let operation = |direction, offset, bytes| Act::Operation(Operation { direction, offset, bytes });
        assert_eq!(replay.entries[1].act, operation(Direction::Read, 4096, 4096));
        assert_eq!(replay.entries[3].act, operation(Direction::Write, 2048, 512));
        assert_eq!((replay.ends, replay.longest), (vec![8192], [4096, 512, 0]));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (version, line, words) in [
            (3, "1 f read 0 4096", "adds this file"),
            (3, "f read 0 4096", "a time"),
            (2, "f what 0 4096", "'what'"),
            (2, "f read x 4096", "'x'"),
            (2, "f read 0 0", "1 to"),
            (2, "f read 18446744073709551615 4096", "beyond"),
            (3, "1 f wait 0 0", "version 2"),
            (2, "f read 0", "needed"),
        ] {
            let lines = if words == "adds this file" {
                vec![line]
            } else {
                vec![if version == 3 { "0 f add" } else { "f add" }, line]
            };
            let reason = read_all(&JobOptions::default(), version, &lines).expect_err(line);
            assert!(reason.contains(words), "{line}: {reason}");
        }
    }
}
