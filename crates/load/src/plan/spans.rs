//! Which bytes of its files a worker works on.

use pagelab_fiojob::value::Extent;
use pagelab_fiojob::{Caps, Direction, JobSpec};

use crate::error::LoadError;
use crate::offsets::varied::FileSpan;
use crate::random::{SplitMix64, derive_seed};
use crate::replay::Replay;

/// The regions of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spans {
    /// One for each file.
    pub files: Vec<FileSpan>,
    /// Bytes of a pass over all of them.
    pub pass_bytes: u64,
    /// What is done otherwise than the job says.
    pub warnings: Vec<String>,
    /// Why the worker fails without having begun; its files are not made.
    pub unfit: Option<String>,
}

/// The planner's facts about a file before the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Its length, if it exists or an earlier job will have made it.
    pub bytes: Option<u64>,
    /// Its length is a device's or of no consequence: it ends where it ends.
    pub endless: bool,
    /// Room for it to grow, for `fill_device`.
    pub room: Option<u64>,
}

/// The least length of an operation that the job does.
pub(crate) fn least_block(job: &JobSpec) -> u64 {
    let pattern = job.options.rw.0;
    let least = |direction| u64::from(job.options.lengths(direction).min_bytes).max(1);
    Direction::ALL.into_iter().filter(|direction| pattern.does(*direction)).map(least).min().unwrap_or(1)
}

/// The unit to which fio rounds sizes and offsets: the least length of any direction, used or not.
fn rounding_unit(job: &JobSpec) -> u64 {
    let least = Direction::ALL.map(|direction| u64::from(job.options.lengths(direction).min_bytes));
    least.into_iter().min().unwrap_or(1).max(1)
}

/// The regions that a log works on.
pub(crate) fn of_log(replay: &Replay) -> Spans {
    let span = |end: &u64| FileSpan::fixed(0, *end, u64::MAX);
    let files: Vec<FileSpan> = replay.ends.iter().map(span).collect();
    let pass_bytes = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.region_bytes));
    Spans { files, pass_bytes, warnings: Vec::new(), unfit: None }
}

/// The regions of a log that is not read, which lies on `count` files: `bytes` of each, as many as any log could need.
pub(crate) fn of_unread_log(count: usize, bytes: u64) -> Spans {
    let span = FileSpan::fixed(0, bytes, u64::MAX);
    let pass_bytes = bytes.saturating_mul(count as u64);
    Spans { files: vec![span; count], pass_bytes, warnings: Vec::new(), unfit: None }
}

/// A block of each of `count` files, whose operations are of the whole file.
pub(crate) fn of_whole_files(job: &JobSpec, count: usize) -> Spans {
    let block = least_block(job);
    let span = FileSpan::fixed(0, block, block);
    let per_file = match (job.options.filesize, job.options.size) {
        (Some(range), _) => range.high_bytes,
        (None, Some(Extent::Bytes(size))) => size / count.max(1) as u64,
        _ => block,
    };
    let mut warnings = Vec::new();
    if per_file > block {
        warnings.push(format!(
            "job '{}': ioengine={} counts one operation for each file; fio counts one for each block of {block} bytes that the file would have, and times the one",
            job.name, job.options.ioengine.0
        ));
    }
    Spans { files: vec![span; count], pass_bytes: block.saturating_mul(count as u64), warnings, unfit: None }
}

/// The regions of worker `clone` on files whose present sizes `known` gives.
///
/// # Errors
/// A size that is not given and cannot be found out; a region that holds no block or does not fit.
pub(crate) fn of_worker(job: &JobSpec, clone: u32, known: &[Known], seed: u64) -> Result<Spans, LoadError> {
    let o = &job.options;
    let unit = rounding_unit(job);
    let target = |reason: String| LoadError::Target { job: job.name.clone(), reason };
    let count = known.len().max(1) as u64;
    let size = match o.size {
        Some(Extent::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let share = size.map_or(0, |size| size / count);
    let mut larger = size.map_or(0, |size| (size - share * count) / unit);
    let mut draw = SplitMix64::new(derive_seed(seed, 0xF11E));
    let (mut warnings, mut files) = (Vec::new(), Vec::with_capacity(known.len()));
    let mut total = 0_u64;
    for file in known {
        let filesize = drawn_size(job, file, unit, &mut draw);
        // What is appended begins where the file ends now, and percentages are of what is there now, not of what will be.
        let start = start(job, clone, file.bytes, &mut warnings)?;
        let mut bytes = match (filesize, size, file.bytes) {
            (Some(bytes), _, _) => behind_start(job, file, start, bytes)?,
            (None, Some(_), _) => {
                let more = u64::from(larger > 0) * unit;
                larger = larger.saturating_sub(1);
                share + more
            }
            (None, None, _) if o.fill_device => file.room.unwrap_or(0).saturating_add(file.bytes.unwrap_or(0)),
            (None, None, Some(there)) if there > 0 => there
                .checked_sub(start)
                .ok_or_else(|| target(format!("offset {start} is beyond the end of the file, {there}")))?,
            (None, None, _) if matches!(o.size, Some(Extent::Percent(_))) => {
                return Err(target("size is a percentage of a file that does not exist yet; give bytes".to_owned()));
            }
            (None, None, _) if file.endless => return Err(target("the device has no end; give size=".to_owned())),
            (None, None, _) => return Err(target("the file does not exist yet; give size=".to_owned())),
        };
        if let Some(Extent::Percent(percent @ 0..=99)) = o.size {
            bytes = part(percent, start, bytes, unit);
        }
        if let Some(there) = beyond_device(file, start, bytes) {
            if clone == 0 {
                warnings.push(shorter(job, start, there, bytes));
            }
            bytes = there;
        }
        let end = start
            .checked_add(bytes)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or_else(|| target(format!("offset {start} + size {bytes} is beyond what a file can have")))?;
        let file_bytes = match (file.endless, file.bytes) {
            (true, Some(device)) => device,
            // As in fio, where there is no file it is as long as its share of the size, or has no end.
            (true, None) => size.map_or(u64::MAX, |_| end.max(share)),
            (false, there) => end.max(there.unwrap_or(0)),
        };
        let mut span = FileSpan::fixed(start, bytes, file_bytes);
        if !file.endless {
            span.start_again = self::start(job, clone, Some(file_bytes), &mut Vec::new())?;
        }
        files.push(span);
        total = total.saturating_add(bytes);
    }
    let pass_bytes = size.map_or(total, |size| size.min(total));
    let mut spans = Spans { unfit: unfit(job, &files, size), files, pass_bytes, warnings };
    if spans.unfit.is_none() {
        spans.warnings.extend(check_room(job, clone, &spans.files, pass_bytes)?);
    }
    Ok(spans)
}

/// What a percentage of a file's size leaves of the `bytes` behind `start`, in whole units.
fn part(percent: u64, start: u64, bytes: u64, unit: u64) -> u64 {
    let asked = Extent::Percent(percent).resolve(Some(bytes + start)).unwrap_or(0).min(bytes);
    asked - asked % unit
}

/// Why a worker has nothing to do at all. As in fio: where the bytes of all files together, or the part of them that a percentage of
/// `io_size` leaves, are less than a block, the job fails without having made its files, and the others go on.
fn unfit(job: &JobSpec, files: &[FileSpan], size: Option<u64>) -> Option<String> {
    let o = &job.options;
    if o.caps().contains(Caps::ANONYMOUS) || (size.is_none() && o.filesize.is_none()) {
        return None;
    }
    let share = |file: &FileSpan| match o.io_size {
        Some(Extent::Percent(percent)) => Extent::Percent(percent).resolve(Some(file.region_bytes)).unwrap_or(0),
        _ => file.region_bytes,
    };
    let all = files.iter().map(share).fold(0, u64::saturating_add);
    // fio takes the bytes of files that have none to be those of the job's size: such a job begins, and finds nothing to do.
    let bytes = match size {
        Some(size) if all > 0 => size.min(all),
        Some(size) => size,
        None => all,
    };
    let unit = rounding_unit(job);
    (bytes < unit).then(|| format!("its files have {bytes} bytes for it together, and a block has {unit}"))
}

/// Whether one of a worker's files has room for a block. As in fio a worker with none that has does nothing, and the others go on:
/// gives a warning.
fn check_room(job: &JobSpec, clone: u32, files: &[FileSpan], pass_bytes: u64) -> Result<Option<String>, LoadError> {
    let (name, least) = (&job.name, least_block(job));
    let room = files.iter().map(|file| file.region_bytes).max().unwrap_or(0).min(pass_bytes);
    if room >= least {
        return Ok(None);
    }
    let sized = matches!(job.options.size, Some(Extent::Bytes(size)) if size >= least);
    let several = files.len() > 1 || job.options.filesize.is_some();
    let why = match room {
        0 if sized && !job.options.caps().contains(Caps::ANONYMOUS) => {
            "none of its files has a byte to work on".to_owned()
        }
        1.. if several => format!("none of its files holds a block of {least} bytes, the largest has {room}"),
        _ => {
            let reason = format!("the region has {room} bytes and holds no block of {least}");
            return Err(LoadError::Target { job: name.clone(), reason });
        }
    };
    Ok(Some(format!("job '{name}': worker {clone} does nothing, as in fio: {why}")))
}

fn shorter(job: &JobSpec, start: u64, there: u64, bytes: u64) -> String {
    let name = &job.name;
    format!(
        "job '{name}': from {start} on the device has {there} bytes, and not {bytes}: the job works on these (size=100% says so)"
    )
}

/// The bytes that a device has from `start` on, if `bytes` are more: as in fio, the job works on what is there.
fn beyond_device(file: &Known, start: u64, bytes: u64) -> Option<u64> {
    let device = file.bytes.filter(|device| file.endless && start < *device)?;
    if start.saturating_add(bytes) > device { Some(device - start) } else { None }
}

/// Bytes behind `start` of a file of the size that was `drawn`. As in fio the least that may be drawn has to reach that far.
fn behind_start(job: &JobSpec, file: &Known, start: u64, drawn: u64) -> Result<u64, LoadError> {
    let least = least_size(job, file).unwrap_or(drawn);
    if start > least {
        let reason = format!("offset {start} is beyond filesize {least}");
        return Err(LoadError::Target { job: job.name.clone(), reason });
    }
    Ok(drawn.saturating_sub(start))
}

/// The size that a file has, if `filesize` allows it.
fn allowed_size(job: &JobSpec, file: &Known) -> Option<u64> {
    let range = job.options.filesize?;
    file.bytes.filter(|there| (range.low_bytes..=range.high_bytes).contains(there))
}

/// The least size that `filesize` may give a file, or the one that it has and may keep.
fn least_size(job: &JobSpec, file: &Known) -> Option<u64> {
    allowed_size(job, file).or(job.options.filesize.map(|range| range.low_bytes))
}

/// The size that `filesize` gives a file: the one that it has, if that is in the range, else one that is drawn.
fn drawn_size(job: &JobSpec, file: &Known, unit: u64, draw: &mut SplitMix64) -> Option<u64> {
    let range = job.options.filesize?;
    Some(allowed_size(job, file).unwrap_or_else(|| {
        let drawn = range.low_bytes + draw.below(range.high_bytes - range.low_bytes);
        if range.low_bytes == range.high_bytes { drawn } else { drawn - drawn % unit }
    }))
}

/// Where a worker's region starts in a file of `there` bytes. As in fio a file that does not exist yet has none.
fn start(job: &JobSpec, clone: u32, there: Option<u64>, warnings: &mut Vec<String>) -> Result<u64, LoadError> {
    let o = &job.options;
    let target = |reason: String| LoadError::Target { job: job.name.clone(), reason };
    if o.file_append {
        return Ok(there.unwrap_or(0));
    }
    let mut bytes = |name: &str, extent: Option<Extent>| match extent {
        None => (0, false),
        Some(Extent::Bytes(bytes)) => (bytes, false),
        Some(percent) => {
            if there.is_none() {
                let name = format!("job '{}': {name}", job.name);
                warnings.push(format!(
                    "{name} is a percentage of a file that does not exist yet: it is 0, as in fio; give bytes"
                ));
            }
            (percent.resolve(there).unwrap_or(0), true)
        }
    };
    let (offset, by_percent) = bytes("offset", o.offset);
    let (increment, increment_by_percent) = bytes("offset_increment", o.offset_increment);
    let start = increment
        .checked_mul(u64::from(clone))
        .and_then(|shift| shift.checked_add(offset))
        .filter(|start| i64::try_from(*start).is_ok())
        .ok_or_else(|| {
            target(format!("offset {offset} + {clone} x offset_increment {increment} is beyond what a file can have"))
        })?;
    let align = if o.offset_align.0 > 0 { o.offset_align.0 } else { rounding_unit(job) };
    // As in fio: only values from percentages are rounded.
    Ok(if by_percent || increment_by_percent { start.next_multiple_of(align) } else { start })
}
