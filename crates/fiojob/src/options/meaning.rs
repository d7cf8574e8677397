//! What several options say together.

use super::JobOptions;
use crate::chances::Distribution;
use crate::engines;
use crate::model::{Caps, Direction, Lengths};
use crate::value::{Choice as _, LogName, Percent};
use crate::verify::VerifyMethod;
use crate::words::ContinueOnError;
use crate::zones::{Stride, ZoneMode};

impl JobOptions {
    /// What the job's engine can do; nothing for one that the language does not know.
    pub fn caps(&self) -> Caps {
        engines::find(&self.ioengine.0).map_or(Caps::NONE, |engine| engine.caps)
    }

    /// Share of reads in percent: 100 or 0 for pure patterns.
    pub fn read_percent(&self) -> u8 {
        let pattern = self.rw.0;
        if !pattern.is_mixed() {
            return if pattern.reads() { 100 } else { 0 };
        }
        match (self.rwmixread, self.rwmixwrite) {
            (Some(read), _) => read.0,
            (None, Some(write)) => 100 - write.0,
            (None, None) => 50,
        }
    }

    /// Whether the page cache is to be bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct || self.atomic || self.buffered == Some(false)
    }

    /// The lengths of this direction's operations. Sizes beyond 32 bits, which validation refuses, are cut.
    pub fn lengths(&self, direction: Direction) -> Lengths {
        let cut = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let split = self.bssplit.of(direction);
        let range = *self.bsrange.of(direction);
        let (low, high) = if split.0.is_empty() {
            let bs = self.bs.of(direction).0;
            range.map_or((bs, bs), |range| (range.low_bytes, range.high_bytes))
        } else {
            let sizes = split.0.iter().map(|share| share.bytes);
            (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0))
        };
        Lengths {
            min_bytes: cut(low),
            max_bytes: cut(high),
            split: split.0.iter().map(|share| (cut(share.bytes), share.percent)).collect(),
            unaligned: self.bs_unaligned,
        }
    }

    /// The zones of a job on `files` files; `None` where it has none. As in fio, zones are those of one open file.
    pub fn stride(&self, files: usize) -> Option<Stride> {
        let size_bytes = self.zonesize.0;
        if self.zonemode == ZoneMode::None || size_bytes == 0 || (files > 1 && self.openfiles != 1) {
            return None;
        }
        let range_bytes = if self.zonerange.0 > 0 { self.zonerange.0 } else { size_bytes };
        Some(Stride { size_bytes, range_bytes, skip_bytes: self.zoneskip.0 })
    }

    /// After how many writes each flush on the way is asked for, by option and in fio's order; 0: never.
    pub fn flushes(&self) -> [(&'static str, u64); 3] {
        [("fsync", self.fsync), ("fdatasync", self.fdatasync), ("sync_file_range", self.sync_file_range.after_writes())]
    }

    /// Whether contents are verified. As in fio trims leave none: a job that only trims verifies nothing.
    pub fn verifies(&self) -> bool {
        self.verify.0 != VerifyMethod::None && (self.rw.0.reads() || self.rw.0.writes())
    }

    /// Whether the job changes the files that it names: `verify_only` only reads them.
    pub fn changes_files(&self) -> bool {
        let caps = self.caps();
        if caps.contains(Caps::WHOLE_FILES) {
            return caps.contains(Caps::DELETES);
        }
        (self.rw.0.writes() || self.rw.0.trims() || caps.contains(Caps::ALLOCATES)) && !self.verify_only
    }

    /// Whether all that the job does is to verify what was written before it.
    pub fn only_verifies(&self) -> bool {
        self.verifies() && self.verify.0 != VerifyMethod::Null && !self.changes_files() && !self.create_only
    }

    /// The distance of headers in a block, bytes, by fio's rules: `verify_interval`, cut to what divides every length of writes.
    pub fn verify_interval_bytes(&self) -> u32 {
        let [reads, writes] = [Direction::Read, Direction::Write].map(|direction| self.lengths(direction));
        let mut interval = u32::try_from(self.verify_interval.0).unwrap_or(u32::MAX);
        if interval == 0 && !writes.fixed() {
            interval = writes.min_bytes;
        }
        if interval > writes.min_bytes {
            interval = writes.min_bytes;
        } else if self.rw.0.reads() && interval > reads.min_bytes {
            interval = reads.min_bytes;
        }
        // fio looks at the least and the greatest length only, and then writes headers beyond the end of those between.
        let lengths = || writes.split.iter().map(|part| part.0).chain([writes.min_bytes, writes.max_bytes]);
        if interval == 0 || lengths().any(|length| !length.is_multiple_of(interval)) {
            interval = lengths().fold(0, gcd);
        }
        interval.max(1)
    }

    /// Whether random blocks come all alike.
    pub fn distribution_is_even(&self) -> bool {
        self.random_distribution == Distribution::Random
    }

    /// Whether some rate is limited.
    pub fn is_rated(&self) -> bool {
        [self.rate.read, self.rate.write, self.rate_iops.read, self.rate_iops.write]
            .iter()
            .flatten()
            .any(|rate| *rate > 0)
    }

    /// Whether every write gets its buffer filled anew.
    pub fn refills(&self) -> bool {
        let some = |percent: Option<Percent>| percent.is_some_and(|percent| percent.0 > 0);
        let compressed = self.buffer_compress_percentage.is_some_and(|percent| (1..100).contains(&percent.0));
        // As in fio a pattern is put back before each write where reads overwrite it, and else need not be.
        let patterned = !self.buffer_pattern.0.is_empty();
        let anew = if patterned { self.rw.0.is_mixed() || compressed } else { self.refill_buffers || compressed };
        self.rw.0.writes() && (anew || some(self.dedupe_percentage))
    }

    /// Errors of operations in this direction that `ignore_error` lists.
    fn ignored_errors(&self, direction: Direction) -> &[i32] {
        match direction {
            Direction::Read => &self.ignore_error.read,
            // As in fio, which has no list for trims.
            Direction::Write | Direction::Trim => &self.ignore_error.write,
        }
    }

    /// Whether errors of operations in this direction are counted: the job is to go on after some of them.
    pub fn counts_errors_of(&self, direction: Direction) -> bool {
        let all = match self.continue_on_error {
            ContinueOnError::All | ContinueOnError::Io => true,
            ContinueOnError::Read => direction == Direction::Read,
            ContinueOnError::Write => direction != Direction::Read,
            ContinueOnError::None | ContinueOnError::Verify => false,
        };
        all || !self.ignored_errors(direction).is_empty()
    }

    /// Whether a job goes on after this error of an operation in this direction. As in fio `continue_on_error` alone means errors of
    /// the medium: after a full file system, say, a job goes on only if `ignore_error` lists ENOSPC.
    pub fn goes_on_after(&self, direction: Direction, errno: i32) -> bool {
        /// EIO and EILSEQ of `asm-generic/errno.h`.
        const OF_THE_MEDIUM: [i32; 2] = [5, 84];
        let listed = self.ignored_errors(direction);
        let listed = if listed.is_empty() { &OF_THE_MEDIUM } else { listed };
        self.counts_errors_of(direction) && listed.contains(&errno)
    }

    /// Whether each write gets its buffer stamped (`scramble_buffers`): where contents are random and filled once.
    pub fn stamps(&self) -> bool {
        let compressed = self.buffer_compress_percentage.is_some_and(|percent| percent.0 > 0);
        self.rw.0.writes()
            && self.scramble_buffers
            && !self.zero_buffers
            && self.buffer_pattern.0.is_empty()
            && !compressed
            && !self.refills()
    }

    /// The word of `continue_on_error`, for the output.
    pub fn continues(&self) -> bool {
        self.continue_on_error.word() != "none"
            || !self.ignore_error.read.is_empty()
            || !self.ignore_error.write.is_empty()
            || !self.ignore_error.verify.is_empty()
    }

    /// Whether what operations take is held against something while the job runs.
    pub fn watches_latency(&self) -> bool {
        self.latency_target.0 > 0 || self.max_latency.all().into_iter().any(|most| most.0 > 0)
    }

    /// Whether the job writes logs of samples.
    pub fn logs_samples(&self) -> bool {
        [&self.write_lat_log, &self.write_bw_log, &self.write_iops_log, &self.write_hist_log]
            .iter()
            .any(|name| **name != LogName::None)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use crate::Direction;

    #[test]
    fn a_job_goes_on_after_errors_of_the_directions_that_it_names() {
        let goes_on = |words: &str, errno: i32| {
            let words: Vec<String> =
                format!("--name=j --size=1m --rw=rw {words}").split(' ').map(str::to_owned).collect();
            let options = crate::parse_args(&words).expect("valid").jobs[0].options.clone();
            [Direction::Read, Direction::Write, Direction::Trim]
                .map(|direction| options.goes_on_after(direction, errno))
        };
        for (words, expected) in [
            ("--continue_on_error=none", [false; 3]),
            ("--continue_on_error=verify", [false; 3]),
            ("--continue_on_error=read", [true, false, false]),
            ("--continue_on_error=write", [false, true, true]),
            ("--continue_on_error=io", [true; 3]),
            ("--continue_on_error=all", [true; 3]),
            ("--ignore_error=EIO", [true, false, false]),
            ("--ignore_error=,EIO", [false, true, true]),
            ("--ignore_error=ENOSPC,ENOSPC", [false; 3]),
        ] {
            assert_eq!(goes_on(words, libc::EIO), expected, "{words}");
        }
        // As fio 3.33: a full file system is no error of the medium, and ends the job unless it is listed.
        for (words, expected) in [
            ("--continue_on_error=all", [false; 3]),
            ("--continue_on_error=write --ignore_error=,ENOSPC", [false, true, true]),
            ("--ignore_error=ENOSPC", [true, false, false]),
        ] {
            assert_eq!(goes_on(words, libc::ENOSPC), expected, "{words}");
        }
        assert_eq!(goes_on("--continue_on_error=all --ignore_error=,ENOSPC", libc::EIO), [true, false, false]);
    }

    #[test]
    fn intervals_follow_fios_rules() {
        let interval = |words: &str| {
            let words: Vec<String> = format!("--name=j --size=1m {words}").split(' ').map(str::to_owned).collect();
            crate::parse_args(&words).expect("valid").jobs[0].options.verify_interval_bytes()
        };
        for (words, bytes) in [
            ("--rw=write --bs=4k", 4096),
            ("--rw=write --bs=4k --verify_interval=512", 512),
            ("--rw=write --bs=4k --verify_interval=8k", 4096),
            ("--rw=write --bs=4k --verify_interval=1000", 4096),
            ("--rw=write --bsrange=1k-4k", 1024),
            ("--rw=write --bssplit=4k/50:6k/50", 2048),
            ("--rw=write --bssplit=4k/50:6k/30:5k/20", 1024),
            ("--rw=rw --bs=2k,4k --verify_interval=3k", 2048),
        ] {
            assert_eq!(interval(words), bytes, "{words}");
        }
    }
}
