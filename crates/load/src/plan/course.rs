//! How a worker moves: on a plain walk where that will do, else on a varied one.

use pagelab_fiojob::value::{Extent, Percent};
use pagelab_fiojob::words::{MapOrder, Modifier, RandomGenerator};
use pagelab_fiojob::{Caps, Direction, JobOptions, JobSpec, Lengths};

use super::spans::Spans;
use crate::error::LoadError;
use crate::offsets::{Course, Order, VariedCourse};

/// The plain course, and the varied one if the plain one will not do.
pub(super) fn of_worker(job: &JobSpec, spans: &Spans, seed: u64) -> Result<(Course, Option<VariedCourse>), LoadError> {
    let plain = plain(job, spans, seed)?;
    let varied = (!is_plain(job, spans)).then(|| varied(job, spans, seed));
    if varied.is_some() && job.options.map_order != MapOrder::Ascending {
        return Err(LoadError::Target {
            job: job.name.clone(),
            reason: "map_order orders plain walks only: leave out what looks at or changes single operations (write_iolog, write_lat_log, write_bw_log, write_iops_log, refill_buffers, buffer_compress_percentage, dedupe_percentage, rates of a mixed pattern), or map_order".to_owned(),
        });
    }
    Ok((plain, varied))
}

/// Bytes of the random maps of a worker that are not too many.
const MOST_MAP_BYTES: u64 = 8 << 30;

/// Whether the random maps of a worker's files fit into memory.
pub(super) fn check_map(job: &JobSpec, course: &VariedCourse) -> Result<(), LoadError> {
    let bytes = course.map_bytes();
    if bytes <= MOST_MAP_BYTES {
        return Ok(());
    }
    let gib = |bytes: u64| bytes >> 30;
    Err(LoadError::Target {
        job: job.name.clone(),
        reason: format!(
            "random blocks of several sizes, each once, need a map of {} GiB, and at most {} are taken: give a smaller size, larger blocks, or norandommap=1",
            gib(bytes),
            gib(MOST_MAP_BYTES)
        ),
    })
}

/// Longest operations of reads (or trims) and of writes; of pure patterns the one in use twice. With `bs_is_seq_rand` the sizes are
/// those of sequential and random blocks, and each direction may do both.
fn block_bytes(job: &JobSpec) -> [u32; 2] {
    let pattern = job.options.rw.0;
    let [read, write, trim] = Direction::ALL.map(|direction| job.options.lengths(direction).max_bytes);
    if job.options.bs_is_seq_rand {
        return [read.max(write); 2];
    }
    match (pattern.reads(), pattern.writes()) {
        _ if pattern.trims() => [trim, if pattern.writes() { write } else { trim }],
        (true, true) => [read, write],
        (true, false) => [read, read],
        _ => [write, write],
    }
}

/// Whether each block comes once per pass, in a random pattern.
fn once(job: &JobSpec) -> bool {
    let o = &job.options;
    o.distribution_is_even() && (o.random_generator == RandomGenerator::Lfsr || !(o.norandommap || is_aligned(job)))
}

/// Starts of random blocks lie closer or further than blocks are long.
fn is_aligned(job: &JobSpec) -> bool {
    let o = &job.options;
    let differs = |align: u64, direction| align != 0 && align != u64::from(o.lengths(direction).min_bytes);
    o.rw.0.is_random() && Direction::ALL.into_iter().any(|direction| differs(o.blockalign.of(direction).0, direction))
}

fn is_plain(job: &JobSpec, spans: &Spans) -> bool {
    let o = &job.options;
    let [only] = spans.files.as_slice() else { return false };
    let blocks = block_bytes(job);
    let is_even = blocks.iter().all(|bytes| only.region_bytes.is_multiple_of(u64::from((*bytes).max(1))));
    // Where the file goes on behind the region, fio lets the last block reach over the region's end.
    let ends_with_block = only.file_bytes <= only.start + only.region_bytes || is_even;
    let lengths = Direction::ALL.map(|direction| o.lengths(direction));
    let fixed = lengths.iter().all(Lengths::fixed);
    // Random blocks of more than one length, also of directions that the job does not do, are taken in a map.
    let mapped = o.rw.0.is_random() && once(job) && lengths.iter().any(|other| *other != lengths[0]);
    let all_random = o.percentage_random.all().into_iter().flatten().all(|share| share.0 == 100);
    let paced_apart = o.rw.0.is_mixed() && o.is_rated();
    // Random writes without coverage go on to io_size in one pass, and with engines that do not end it at its size through all loops:
    // what is verified then is what is left of them.
    let runs_over = o.rw.0.is_random()
        && o.rw.0.writes()
        && o.norandommap
        && (matches!(o.io_size, Some(Extent::Bytes(bytes)) if bytes > spans.pass_bytes)
            || o.verifies() && o.loops > 1 && !ends_at_size(job));
    // A pass of both directions that does not end at its size is longer than the region.
    let mixes_on = o.rw.0.is_mixed() && !ends_at_size(job) && o.io_size.is_some();
    // A file that ends within a block is closed, and flushed for that, before the pass ends.
    let closes = o.fsync_on_close && !is_even;
    let moves = only.start_again != only.start && (o.loops > 1 || o.io_size.is_some());
    spans.pass_bytes == only.region_bytes
        && spans.pass_bytes > 0
        && !o.rw.0.trims()
        && o.stride(1).is_none()
        && !o.watches_latency()
        && fixed
        && !mapped
        && ends_with_block
        && all_random
        && !paced_apart
        && !runs_over
        && !mixes_on
        && !closes
        && !moves
        && !o.bs_is_seq_rand
        && !is_aligned(job)
        && o.distribution_is_even()
        && o.rw.1 == Modifier::None
        && o.write_iolog.is_none()
        && !o.logs_samples()
        && !o.refills()
}

/// The plain course; for others what engines need to know of a worker's first file.
pub(super) fn plain(job: &JobSpec, spans: &Spans, seed: u64) -> Result<Course, LoadError> {
    let o = &job.options;
    let first = spans.files.first().copied().ok_or_else(|| LoadError::Protocol("a worker without files".to_owned()))?;
    let block_bytes = block_bytes(job);
    let piece = o.map_granularity.0;
    let order = if o.rw.0.is_random() {
        if once(job) { Order::Permuted } else { Order::Drawn }
    } else if o.map_order == MapOrder::Ascending {
        Order::Sequential
    } else {
        let block = u64::from(block_bytes[0].max(1));
        let blocks = if piece == 0 { first.region_bytes / block } else { piece / block };
        Order::Pieces { blocks: blocks.max(1), order: o.map_order, stride: (o.map_stride.0 / block).max(1) }
    };
    let touch = u32::try_from(o.map_touch.0).map_err(|_| LoadError::Protocol("map_touch above 4 GiB".to_owned()))?;
    let transfer_bytes = if touch == 0 { block_bytes } else { block_bytes.map(|bytes| bytes.min(touch)) };
    let read_percent = o.read_percent();
    Ok(Course {
        start: first.start,
        region_bytes: first.region_bytes,
        block_bytes,
        transfer_bytes,
        read_percent,
        order,
        seed,
    })
}

/// Whether the engine's passes are over when as many bytes were given as the job's size has. fio 3.33 counts for that what is queued, and
/// nothing that completes at once: with such engines a pass goes on in files that are longer, as far as all passes together go. Its
/// vsync gathers operations before it calls.
pub(crate) fn ends_passes_at_size(options: &JobOptions) -> bool {
    !options.caps().contains(Caps::SYNCHRONOUS) || options.caps().contains(Caps::GATHERS)
}

fn ends_at_size(job: &JobSpec) -> bool {
    let o = &job.options;
    ends_passes_at_size(o) || o.rw.0.trims()
}

fn varied(job: &JobSpec, spans: &Spans, seed: u64) -> VariedCourse {
    let o = &job.options;
    let lengths = Direction::ALL.map(|direction| o.lengths(direction));
    let align = |set: u64, least: u32| if set == 0 { least } else { u32::try_from(set).unwrap_or(u32::MAX) };
    let share = |percent: Option<Percent>| percent.map_or(100, |percent| percent.0);
    // A law of chance keeps no map, either.
    let runs_over = o.rw.0.is_random() && o.rw.0.writes() && (o.norandommap || !o.distribution_is_even());
    let pass_bytes = match o.io_size {
        Some(Extent::Bytes(bytes)) if runs_over => spans.pass_bytes.max(bytes),
        _ => spans.pass_bytes,
    };
    let open_files = usize::try_from(o.openfiles).unwrap_or(usize::MAX);
    VariedCourse {
        files: spans.files.clone(),
        service: o.file_service_type.clone(),
        open_files: if open_files == 0 { spans.files.len() } else { open_files },
        pass_bytes,
        ends_at_size: ends_at_size(job),
        read_percent: o.read_percent(),
        align_bytes: Direction::ALL
            .map(|direction| align(o.blockalign.of(direction).0, o.lengths(direction).min_bytes)),
        trims: o.rw.0.trims(),
        writes: o.rw.0.writes(),
        stride: o.stride(spans.files.len()),
        lengths,
        lengths_by_order: o.bs_is_seq_rand,
        touch_bytes: u32::try_from(o.map_touch.0).unwrap_or(u32::MAX),
        random: o.rw.0.is_random(),
        random_percent: o.percentage_random.all().map(|percent| share(*percent)),
        modifier: o.rw.1,
        sequencer: o.rw_sequencer,
        distribution: o.random_distribution.clone(),
        once: once(job),
        by_sequence: o.random_generator == RandomGenerator::Lfsr,
        endless: o.time_based,
        seed,
    }
}
