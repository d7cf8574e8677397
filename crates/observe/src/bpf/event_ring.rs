//! The consumer's side of the kernel's ring buffer (`BPF_MAP_TYPE_RINGBUF`), through which rare events come.
//!
//! libbpf maps the data twice, back to back, so that a record that wraps around the end of the ring is contiguous. That
//! counts twice as memory of the process, as soon as it is mapped. Here it is mapped once, and such a record is copied
//! into one piece.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::MapCore;
use pagelab_vocab::remedies::{self, Place};

use super::BpfError;
use super::mapping::Mapping;

/// Bytes before each record: its length and flags, and a number for the kernel's own use.
const HEAD_BYTES: usize = 8;
/// The record is still being written.
const BUSY: u32 = 1 << 31;
/// The record was given up.
const DISCARDED: u32 = 1 << 30;

/// A ring, mapped into this process.
pub(crate) struct EventRing {
    /// The page that holds where the consumer is, which alone may be written.
    consumer: Mapping,
    /// The page that holds where the producer is, and the data behind it.
    producer: Mapping,
    /// Size of the data, a power of two.
    bytes: usize,
    /// A record that went over the end.
    torn: Vec<u8>,
}

impl EventRing {
    /// Maps a ring.
    ///
    /// # Errors
    /// The kernel does not map it.
    pub(crate) fn of(map: &impl MapCore) -> Result<Self, BpfError> {
        Self::map(map.as_fd(), map.max_entries() as usize).map_err(|error| BpfError::Refused {
            step: "mapping the ring buffer",
            reason: error.to_string(),
            needed: remedies::needed(
                error.raw_os_error(),
                Place::Mmap,
                "the BPF ring buffer (Linux 5.8), and memory for it",
            ),
        })
    }

    fn map(map: BorrowedFd<'_>, bytes: usize) -> std::io::Result<Self> {
        let page = rustix::param::page_size();
        let consumer = Mapping::new(map, page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let producer = Mapping::new(map, page + bytes, libc::PROT_READ, page)?;
        Ok(Self { consumer, producer, bytes, torn: Vec::new() })
    }

    /// Hands over every record that is whole, oldest first, up to one that is still being written, and frees their room.
    pub(crate) fn consume(&mut self, mut sink: impl FnMut(&[u8])) {
        let Self { consumer, producer, bytes, torn } = self;
        let (consumed, produced) = (consumer.word(0), producer.word(0));
        // SAFETY: the data begins behind the first page, inside the mapping.
        let data = unsafe { producer.base().add(rustix::param::page_size()) };
        let mut at = consumed.load(Ordering::Relaxed);
        while at < produced.load(Ordering::Acquire) {
            let offset = at as usize & (*bytes - 1);
            // SAFETY: a head is inside the data, whole and aligned, because every record takes a multiple of eight bytes; the
            // kernel writes it concurrently, which is why it is only ever accessed as an atomic.
            let head = unsafe { AtomicU32::from_ptr(data.add(offset).cast()) }.load(Ordering::Acquire);
            if head & BUSY != 0 {
                return;
            }
            let len = (head & !DISCARDED) as usize;
            if head & DISCARDED == 0 {
                let begin = (offset + HEAD_BYTES) & (*bytes - 1);
                let first = len.min(*bytes - begin);
                // SAFETY: begin + first <= bytes, and the kernel does not write to a record that is whole and not consumed.
                let older = unsafe { std::slice::from_raw_parts(data.add(begin), first) };
                if first == len {
                    sink(older);
                } else {
                    // SAFETY: as above; a record is shorter than the ring, so its rest ends before it begins.
                    let newer = unsafe { std::slice::from_raw_parts(data, len - first) };
                    torn.clear();
                    torn.extend_from_slice(older);
                    torn.extend_from_slice(newer);
                    sink(torn);
                }
            }
            at += (HEAD_BYTES + len).next_multiple_of(8) as u64;
            consumed.store(at, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    const DATA_BYTES: usize = 4096;

    /// A file laid out as the kernel lays out a ring, and the producer's part in it.
    struct Producer {
        file: File,
        at: u64,
    }

    impl Producer {
        fn new() -> Self {
            let file = tempfile::tempfile().expect("a file");
            file.set_len((2 * rustix::param::page_size() + DATA_BYTES) as u64).expect("room");
            Self { file, at: 0 }
        }

        /// Writes bytes at a position, over the end of the ring if need be.
        fn put(&self, at: u64, bytes: &[u8]) {
            let page = rustix::param::page_size() as u64;
            for (at, byte) in (at..).zip(bytes) {
                self.file.write_at(&[*byte], 2 * page + at % DATA_BYTES as u64).expect("written");
            }
        }

        fn record(&mut self, flags: u32, bytes: &[u8]) {
            self.put(self.at, &(bytes.len() as u32 | flags).to_le_bytes());
            self.put(self.at + HEAD_BYTES as u64, bytes);
            self.at += (HEAD_BYTES + bytes.len()).next_multiple_of(8) as u64;
            let page = rustix::param::page_size() as u64;
            self.file.write_at(&self.at.to_le_bytes(), page).expect("written");
        }
    }

    fn consumed(ring: &mut EventRing) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        ring.consume(|bytes| all.push(bytes.to_vec()));
        all
    }

    #[test]
    fn records_come_whole_and_in_order_also_over_the_end_of_the_ring() {
        let mut producer = Producer::new();
        let mut ring = EventRing::map(producer.file.as_fd(), DATA_BYTES).expect("a mapping");
        // Lengths of which no multiple is the ring's, so that in time every way of going over the end is met.
        for round in 0..500_usize {
            let records: Vec<Vec<u8>> = [29, 0, 300 + round % 7, 8]
                .iter()
                .map(|len| (0..*len).map(|i| (i * 7 + round) as u8).collect())
                .collect();
            for record in &records {
                producer.record(0, record);
            }
            assert_eq!(consumed(&mut ring), records, "round {round}");
            let position = producer.at;
            assert_eq!(ring.consumer.word(0).load(Ordering::Relaxed), position, "their room is free");
        }
        assert!(producer.at > 20 * DATA_BYTES as u64);
    }

    #[test]
    fn records_given_up_are_left_out_and_one_that_is_being_written_ends_the_round() {
        let mut producer = Producer::new();
        let mut ring = EventRing::map(producer.file.as_fd(), DATA_BYTES).expect("a mapping");
        producer.record(0, b"first");
        producer.record(DISCARDED, b"given up");
        producer.record(0, b"third");
        let busy_at = producer.at;
        producer.record(BUSY, b"fourth");
        producer.record(0, b"fifth");
        assert_eq!(consumed(&mut ring), [b"first", b"third"]);
        assert!(consumed(&mut ring).is_empty());
        producer.put(busy_at, &6_u32.to_le_bytes());
        assert_eq!(consumed(&mut ring), [b"fourth".as_slice(), b"fifth"]);
    }
}
