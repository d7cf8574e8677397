//! The counters of a pool, and their transitions.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Counters of a pool in pages, as sysfs has them: `nr` includes surplus pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) nr: i64,
    pub(crate) free: i64,
    pub(crate) resv: i64,
    pub(crate) surplus: i64,
}

impl Counters {
    /// With a change [nr, free, resv, surplus] added.
    pub(crate) fn plus(self, change: [i64; 4]) -> Self {
        let [nr, free, resv, surplus] = change;
        Counters { nr: self.nr + nr, free: self.free + free, resv: self.resv + resv, surplus: self.surplus + surplus }
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "nr {}, free {}, resv {}, surplus {}", self.nr, self.free, self.resv, self.surplus)
    }
}

/// The counters after one step of a case, in pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What had been done.
    pub after: String,
    /// `nr_hugepages`, surplus pages included.
    pub nr_pages: i64,
    /// `free_hugepages`.
    pub free_pages: i64,
    /// `resv_hugepages`: promised to mappings, and still among the free ones.
    pub resv_pages: i64,
    /// `surplus_hugepages`: beyond the pool's own, as overcommit lets it grow.
    pub surplus_pages: i64,
}

impl Step {
    pub(crate) fn new(after: &str, seen: Counters) -> Self {
        let Counters { nr, free, resv, surplus } = seen;
        Step { after: after.to_owned(), nr_pages: nr, free_pages: free, resv_pages: resv, surplus_pages: surplus }
    }
}

/// A pool of pages of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    /// Bytes of a page.
    pub(crate) page: usize,
}

/// The pool of 2 MiB pages.
pub(crate) const HUGE: Pool = Pool { page: 2 << 20 };
/// The pool of 1 GiB pages.
pub(crate) const GIGANTIC: Pool = Pool { page: 1 << 30 };

/// How long the counters may take to settle, unless [`SETTLE_MS`] says otherwise: the kernel may free pages from a work queue.
const SETTLE: Duration = Duration::from_secs(2);

/// The variable by which tests shorten that, in milliseconds: the counters of a kernel that is broken on purpose never settle.
const SETTLE_MS: &str = "PAGELAB_CONFORMANCE_SETTLE_MS";

fn time_to_settle() -> Duration {
    let given = std::env::var(SETTLE_MS).ok().and_then(|text| text.parse().ok());
    given.map_or(SETTLE, Duration::from_millis)
}

impl Pool {
    /// Reads the counters.
    pub(crate) fn read(self) -> Result<Counters, String> {
        let pool = pagelab_residency::Pool::read(Path::new("/"), self.page).map_err(|error| error.to_string())?;
        // Pages of a pool never reach the sign bit.
        let [nr, free, resv, surplus] =
            [pool.total_pages, pool.free_pages, pool.reserved_pages, pool.surplus_pages].map(u64::cast_signed);
        Ok(Counters { nr, free, resv, surplus })
    }

    /// Reads the counters until they are as expected, or the time to settle is over: the last reading.
    pub(crate) fn settled(self, expected: Counters) -> Result<Counters, String> {
        let deadline = Instant::now() + time_to_settle();
        loop {
            let seen = self.read()?;
            if seen == expected || Instant::now() >= deadline {
                return Ok(seen);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
