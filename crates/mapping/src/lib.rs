//! Mapping of files and memory that knows about huge pages: ask for a page size, learn what the kernel gave, copy without SIGBUS.
//!
//! `mmap` hands out addresses and says nothing else: not whether a 2 MiB page lies behind them, not why it does not, and the day the
//! file is truncated the process dies. This crate
//!
//! - reserves addresses that are aligned for the page size, congruent with the offset in the file, and lays files and memory over
//!   them ([`Reservation`], [`Map::options`]);
//! - tells for each 2 MiB what the page tables hold, and why it is less than asked for, as far as that can be seen ([`Map::got`];
//!   [`inspect`] does so for memory that others mapped, [`process`] for all memory of a process that runs);
//! - copies in and out with checks of bounds, without system calls ([`Map::read_at`], [`Map::write_at`]), and turns SIGBUS into an
//!   error;
//! - brings pages in, collapses them into huge ones, makes writes durable by the means that the mapping needs ([`Map::prefault`],
//!   [`Map::collapse`], [`Map::flush`]).
//!
//! ```
//! use pagelab_mapping::{Map, MapError, PageSize};
//!
//! let map = Map::options().page_size(PageSize::Huge2M).anonymous(8 << 20)?;
//! map.write_at(12_345, b"written")?;
//! let mut back = [0; 7];
//! map.read_at(12_345, &mut back)?;
//! assert_eq!(&back, b"written");
//!
//! // Asked is not got. The first 2 MiB are touched, the rest is not:
//! let got = map.got()?;
//! let [first, second, ..] = got.slots.as_slice() else { panic!("four slots") };
//! assert!(first.held.is_some_and(|held| held.present_bytes() > 0));
//! assert_eq!(second.reason.as_ref().map(|reason| reason.word()), Some("not_touched"));
//! print!("{got}");
//!
//! // Outside is an error, as everything else is:
//! assert!(matches!(map.read_at(8 << 20, &mut back), Err(MapError::OutOfBounds { .. })));
//! # Ok::<(), MapError>(())
//! ```
//!
//! A file that shrinks under its map:
//!
//! ```
//! use pagelab_mapping::{Map, MapError};
//! # let path = std::env::temp_dir().join(format!("pagelab-mapping-doc-{}", std::process::id()));
//! let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
//! # std::fs::remove_file(&path)?;
//! file.set_len(1 << 20)?;
//! let map = Map::options().file(&file, 0, 1 << 20)?;
//! file.set_len(4096)?;
//! let mut block = [0; 512];
//! assert!(map.read_at(0, &mut block).is_ok());
//! let error = map.read_at(8192, &mut block).unwrap_err();
//! assert!(error.to_string().contains("the file was truncated: it has 4096 bytes now"), "{error}");
//! // The file grows again, and so does what can be read:
//! file.set_len(1 << 20)?;
//! assert!(map.read_at(8192, &mut block).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What makes copies fast, and what does not
//!
//! Reading blocks at random is bound by misses of the cache and, on 4 KiB entries, of the TLB. A file on tmpfs as it is
//! mounted everywhere has pages of 4 KiB. Aligned and collapsed ([`Map::collapse`]) it is read in 4 KiB blocks 3 times
//! as fast as by pread and 1.5 times as fast as through a map of memmap2, which the kernel puts anywhere
//! (`benches/results`, `mapping_rivals`).
//!
//! Where every file has huge pages from the start (tmpfs with `huge=always`), Linux 6.18 aligns any large map. Between
//! two maps that both have 2 MiB entries no way of copying one block is faster than another (`memcpy` takes as long as
//! loading the lines alone): [`Map::read_at`] is plain `memcpy` between two checks, as fast as memmap2 there and twice
//! as fast as pread. Only knowing the next block helps further: [`Map::expect_read`].
//!
//! # SIGBUS
//!
//! The first map installs a handler. It looks after the maps of this library, and after memory that others
//! mapped for as long as a [`Watch`] of it lives, and hands on what is not theirs to the handler that
//! was there before. A program that installs one of its own later has to do the same for this one (sigaction gives it the old one).
//!
//! # Looking at memory
//!
//! [`pagelab_residency`] reports the page sizes of memory and their reasons; the parts of it that a user of maps needs
//! are exported here, too. Its manual says what is visible, and to whom.

mod bus;
mod cache_lines;
mod error;
mod map;
mod options;
mod reservation;
mod watch;

pub use cache_lines::{CacheLines, WriteBack};
pub use error::MapError;
pub use map::{Advice, Flushed, Map};
pub use options::MapOptions;
pub use pagelab_residency::{
    Asked, FolioBytes, Got, GroupLimit, HUGE_1G_BYTES, HUGE_2M_BYTES, Held, LookOptions, Mapping, PageSize, Pool,
    PoolBytes, ProcessMemory, Reason, ResidencyError, Short, Slot, Source, Switch, Told, ZeroFilled, base_page_bytes,
    buddyinfo, inspect, process, process_with,
};
pub use reservation::{Access, Backing, Reservation, Sharing};
pub use watch::Watch;
