//! System V segments on pages of the pool, for a program that does not ask for them.
//!
//! `shmget` is replaced by a library of 60 lines (shim/shmget.c) that adds SHM_HUGETLB and writes down what the kernel said. The
//! library is part of this program; it lies in a memfd while the program runs, so that no file is left anywhere, and is named to
//! the loader (`LD_PRELOAD`) by its place below this process in /proc. Records come back through a second memfd.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use pagelab_vocab::settings::format_size;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;

use super::program::{Kind, Program};
use crate::hugetlb::HugetlbError;

/// The library; empty if there was no compiler for it.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shmget.so"));

/// Most records that are read: a program that makes more segments has made its point.
const MOST_RECORDS: usize = 100_000;

/// The segments that a program asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Segments {
    /// New segments that were given pages of the pool.
    pub on_pool: u64,
    /// Bytes of those, as the program asked.
    pub on_pool_bytes: u64,
    /// New segments that the pool was asked for and refused; the program got them on ordinary pages.
    pub refused: u64,
    /// Bytes of those.
    pub refused_bytes: u64,
    /// Why the last one was refused; none if none was.
    pub refused_why: Option<String>,
    /// New segments that are smaller than a page of the pool, which was not asked for them.
    pub small: u64,
}

/// The library and the place for its records, as long as the program runs.
pub(super) struct Preload {
    library: OwnedFd,
    records: File,
    page_bytes: u64,
}

fn refused(why: String, instead: &str) -> HugetlbError {
    HugetlbError::Part { part: "shared memory", why, instead: instead.to_owned() }
}

impl Preload {
    /// Lays the library out for a program.
    ///
    /// # Errors
    /// A program whose `shmget` cannot be replaced; no library in this build; no memfd.
    pub(super) fn new(program: &Program, page_bytes: u64) -> Result<Self, HugetlbError> {
        let file = program.file.display();
        let thp = "use --shm=thp, which needs no library";
        match &program.kind {
            Kind::Static => {
                return Err(refused(format!("{file} has its shmget linked in, needed one of a shared C library"), thp));
            }
            _ if program.is_setuid => {
                return Err(refused(
                    format!("{file} changes its user: the loader then preloads no library of ours"),
                    "run it as the user that it changes to, or use --shm=thp",
                ));
            }
            _ if LIBRARY.is_empty() => {
                let why = "found a pagelab that was built without a C compiler, needed one with the library for shmget";
                return Err(refused(why.to_owned(), thp));
            }
            _ => {}
        }
        let lay_out = || -> io::Result<Self> {
            let mut library = File::from(memfd_create("pagelab-shmget.so", MemfdFlags::CLOEXEC)?);
            library.write_all(LIBRARY)?;
            let records = File::from(memfd_create("pagelab-shmget-records", MemfdFlags::CLOEXEC)?);
            Ok(Preload { library: library.into(), records, page_bytes })
        };
        lay_out().map_err(|error| HugetlbError::unreadable("memfd_create", &error))
    }

    /// The variables that it adds to the program's environment.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 2] {
        let place = |fd: i32| format!("/proc/{}/fd/{fd}", std::process::id());
        let mut libraries = OsString::from(place(self.library.as_raw_fd()));
        if let Some(present) = std::env::var_os("LD_PRELOAD").filter(|present| !present.is_empty()) {
            libraries.push(":");
            libraries.push(present);
        }
        let how = format!("{} {}", self.page_bytes.trailing_zeros(), place(self.records.as_raw_fd()));
        [("LD_PRELOAD", libraries), ("PAGELAB_SHM", how.into())]
    }

    /// What the program asked for, after its end.
    pub(super) fn segments(mut self) -> io::Result<Segments> {
        let mut bytes = Vec::new();
        self.records.rewind()?;
        let most = u64::try_from(MOST_RECORDS * Record::BYTES).unwrap_or(u64::MAX);
        (&mut self.records).take(most).read_to_end(&mut bytes)?;
        let mut found = Segments::default();
        bytes.as_chunks::<{ Record::BYTES }>().0.iter().map(Record::read).for_each(|record| found.add(&record));
        Ok(found)
    }

    /// What else should be known of it.
    pub(super) fn note(&self) -> String {
        format!(
            "new segments of {} and more were asked for with SHM_HUGETLB, by a preloaded shmget; a program that attaches them at an \
             address of its own choice needs a multiple of the page size there",
            format_size(self.page_bytes)
        )
    }
}

/// One call of the program's, as shim/shmget.c writes it.
struct Record {
    bytes: u64,
    outcome: i64,
}

impl Record {
    /// Process id, bytes and outcome, of 8 bytes each in the machine's order.
    const BYTES: usize = 24;

    fn read(raw: &[u8; Record::BYTES]) -> Self {
        let [_, bytes, outcome] = [0, 8, 16].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(raw.get(at..at + 8).unwrap_or(&[0; 8]));
            word
        });
        Record { bytes: u64::from_ne_bytes(bytes), outcome: i64::from_ne_bytes(outcome) }
    }
}

impl Segments {
    fn add(&mut self, record: &Record) {
        match record.outcome {
            0 => {
                self.on_pool += 1;
                self.on_pool_bytes = self.on_pool_bytes.saturating_add(record.bytes);
            }
            outcome if outcome > 0 => {
                self.refused += 1;
                self.refused_bytes = self.refused_bytes.saturating_add(record.bytes);
                self.refused_why = Some(why(i32::try_from(outcome).unwrap_or(i32::MAX)));
            }
            _ => self.small += 1,
        }
    }
}

/// What shmget's refusal means, with what to type.
fn why(errno: i32) -> String {
    match errno {
        libc::ENOMEM => "the pool has too few free pages; type: sudo pagelab hugepages set SIZE N".to_owned(),
        libc::EPERM => "needed root (CAP_IPC_LOCK) or a user of the group vm.hugetlb_shm_group; type: sudo sysctl \
                        vm.hugetlb_shm_group=$(id -g)"
            .to_owned(),
        other => crate::settings::plain(&io::Error::from_raw_os_error(other)),
    }
}

impl std::fmt::Display for Segments {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} segments ({} bytes) on the pool", self.on_pool, self.on_pool_bytes)?;
        if self.refused > 0 {
            let why = self.refused_why.as_deref().unwrap_or("unknown");
            write!(out, ", {} ({} bytes) refused: {why}", self.refused, self.refused_bytes)?;
        }
        if self.small > 0 {
            write!(out, ", {} smaller than a page of it", self.small)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_by_their_outcome() {
        let mut found = Segments::default();
        for (bytes, outcome) in [(4 << 20, 0), (2 << 20, 0), (6 << 20, i64::from(libc::ENOMEM)), (4096, -1)] {
            let words: Vec<u8> = [7_u64.to_ne_bytes(), u64::to_ne_bytes(bytes), i64::to_ne_bytes(outcome)]
                .into_iter()
                .flatten()
                .collect();
            found.add(&Record::read(&words.try_into().expect("24 bytes")));
        }
        assert_eq!((found.on_pool, found.on_pool_bytes), (2, 6 << 20));
        assert_eq!((found.refused, found.refused_bytes, found.small), (1, 6 << 20, 1));
        let text = found.to_string();
        assert!(text.contains("2 segments (6291456 bytes)") && text.contains("type: sudo pagelab"), "{text}");
    }

    #[test]
    fn programs_without_a_shmget_to_replace_are_refused_by_name() {
        let program = |kind, is_setuid| Program { file: "/bin/x".into(), kind, is_setuid };
        let error = |program: &Program| Preload::new(program, 2 << 20).err().expect("refused").to_string();
        let text = error(&program(Kind::Static, false));
        assert!(text.starts_with("shared memory on huge pages: refused") && text.contains("linked in"), "{text}");
        assert!(error(&program(Kind::Glibc(2, 36), true)).contains("changes its user"));
        let preload = Preload::new(&program(Kind::Glibc(2, 36), false), 1 << 30).expect("built with the library");
        let [(_, libraries), (_, how)] = preload.environment();
        assert!(libraries.to_string_lossy().starts_with(&format!("/proc/{}/fd/", std::process::id())));
        assert!(how.to_string_lossy().starts_with("30 /proc/"), "{how:?}");
    }
}
