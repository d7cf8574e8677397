//! What a process did with a file.

use super::{Classifier, Operation, Shares};
use crate::calls::Call;

/// Powers of two that sizes are counted by.
const SIZES: usize = 64;

/// Reads or writes.
#[derive(Debug, Clone)]
pub struct Direction {
    /// Calls, also those that failed or moved nothing.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that moved data.
    pub moved: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time in the calls, ns.
    pub ns: u64,
    /// Calls that moved data by the size moved: entry n counts sizes from 2^n to twice that.
    pub sizes: [u64; SIZES],
    /// Their order in the file. Calls without an offset (pipes, sockets) are not in it.
    pub shares: Shares,
}

impl Default for Direction {
    fn default() -> Self {
        Self { calls: 0, errors: 0, moved: 0, bytes: 0, ns: 0, sizes: [0; SIZES], shares: Shares::default() }
    }
}

impl Direction {
    /// Mean size of the calls that moved data.
    pub fn mean_bytes(&self) -> Option<f64> {
        (self.moved > 0).then(|| self.bytes as f64 / self.moved as f64)
    }

    /// Sizes that occur, as the power of two and the count.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.sizes.iter().enumerate().filter(|(_, count)| **count > 0).map(|(power, count)| (1 << power, *count))
    }
}

/// Reads and writes of one file.
#[derive(Debug, Clone, Default)]
pub struct FileUse {
    /// Successful opens.
    pub opens: u64,
    /// Reads.
    pub reads: Direction,
    /// Writes.
    pub writes: Direction,
    /// Calls that copied from one descriptor to another (`sendfile`, `copy_file_range`, `splice`), counted for the one that
    /// is their first argument.
    pub copies: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Times of the first and last operation with an offset.
    pub times: Option<(i64, i64)>,
    /// Least offset, and the furthest end.
    pub range: Option<(u64, u64)>,
}

impl FileUse {
    /// Counts a read or write.
    pub fn moved(&mut self, call: &Call<'_>, write: bool, classifier: &mut Classifier) {
        let direction = if write { &mut self.writes } else { &mut self.reads };
        direction.calls += 1;
        direction.errors += u64::from(call.errno().is_some());
        direction.ns += call.dur.and_then(|dur| u64::try_from(dur).ok()).unwrap_or(0);
        let Some(bytes) = call.ret.and_then(|ret| u64::try_from(ret).ok()).filter(|bytes| *bytes > 0) else { return };
        direction.moved += 1;
        direction.bytes = direction.bytes.saturating_add(bytes);
        if let Some(size) = direction.sizes.get_mut(bytes.ilog2() as usize) {
            *size += 1;
        }
        let (Some(offset), Some(file)) = (call.offset, call.file_id) else { return };
        let operation = Operation { file, task: call.task_id, write, offset, bytes };
        direction.shares.add(classifier.operation(&operation));
        let (first, last) = self.times.unwrap_or((call.ts, call.ts));
        self.times = Some((first.min(call.ts), last.max(call.ts)));
        let end = offset.saturating_add(bytes);
        let (low, high) = self.range.unwrap_or((offset, end));
        self.range = Some((low.min(offset), high.max(end)));
    }

    /// Counts a copy.
    pub fn copied(&mut self, call: &Call<'_>) {
        self.copies += 1;
        let bytes = call.ret.and_then(|ret| u64::try_from(ret).ok()).unwrap_or(0);
        self.copied_bytes = self.copied_bytes.saturating_add(bytes);
    }

    /// Bytes moved in both directions.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes.saturating_add(self.writes.bytes).saturating_add(self.copied_bytes)
    }
}
