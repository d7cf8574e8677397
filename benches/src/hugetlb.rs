//! The round of EXPERIMENTS 2 (256 MiB, a byte every 4 KiB written and read back) by the bare C program, and the pool it needs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Bytes of the mapping.
pub const BYTES: usize = 256 << 20;
/// Distance of the bytes that are written and read.
pub const STEP: usize = 4096;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// The pool of 2 MiB pages, grown by some; as large as before when dropped.
#[derive(Debug)]
pub struct Pool {
    before: u64,
}

impl Pool {
    /// Grows the pool by `pages`.
    pub fn grown_by(pages: u64) -> Result<Self> {
        let before: u64 = std::fs::read_to_string(POOL).context(POOL)?.trim().parse()?;
        let pool = Self { before };
        std::fs::write(POOL, (before + pages).to_string()).context(POOL)?;
        let got: u64 = std::fs::read_to_string(POOL)?.trim().parse()?;
        ensure!(got == before + pages, "the pool has {got} pages, needed {}; free some memory", before + pages);
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(POOL, self.before.to_string()) {
            eprintln!("{POOL} is not {} again: {error}", self.before);
        }
    }
}

/// The cost of one round, ns: wall time and CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// mmap.
    pub map_ns: u64,
    /// A byte every 4 KiB written: the faults.
    pub write_ns: u64,
    /// Read back.
    pub read_ns: u64,
    /// munmap.
    pub unmap_ns: u64,
    /// CPU time of it all, which other programs on the machine disturb less.
    pub cpu_ns: u64,
}

impl Round {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.map_ns + self.write_ns + self.read_ns + self.unmap_ns
    }
}

/// The C program, compiled into a folder.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Compiles it.
    pub fn compile(folder: &Path) -> Result<Self> {
        let path = folder.join("hugetlb_touch");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hugetlb_touch.c");
        let built = Command::new("cc").args(["-O2", "-o"]).arg(&path).arg(source).status().context("cc")?;
        ensure!(built.success(), "cc failed");
        Ok(Self { path })
    }

    /// Starts it; `pages` is `huge` or `base`.
    pub fn start(&self, pages: &str) -> Result<Running> {
        let mut child = Command::new(&self.path).arg(pages).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Running { child, stdin: Some(stdin), stdout })
    }

    /// One round in a process of its own.
    pub fn once(&self, pages: &str) -> Result<Round> {
        self.start(pages)?.round()
    }
}

/// The program, waiting for the next round.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Runs one round.
    pub fn round(&mut self) -> Result<Round> {
        self.stdin.as_mut().context("ended")?.write_all(b"\n")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [map_ns, write_ns, read_ns, unmap_ns, cpu_ns] = numbers[..] else {
            anyhow::bail!("the C program said {line:?}")
        };
        Ok(Round { map_ns, write_ns, read_ns, unmap_ns, cpu_ns })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        _ = self.child.wait();
    }
}
