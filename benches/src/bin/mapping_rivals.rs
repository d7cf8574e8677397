//! The library `mapping` against pread, memmap2 and a bare C program, in interleaved pairs, by the method of DESIGN section 8: the
//! figure is the median of the paired ratios with a bootstrap interval, and a bound is held against its low end.
//!
//! Blocks of 4 KiB are read at random offsets of a cached file on tmpfs, 1 GiB or FILE_MIB; each block comes once per
//! round in an order shuffled beforehand, into one buffer that all sides share. Each side sums the first word of each
//! block, and the sums have to be equal. Since the machine may be shared, ratios are of CPU time. The page sizes of
//! each side are reported with the figures.
//!
//! The bounds are for tmpfs as it is mounted everywhere, without `huge=`: its files have pages of 4 KiB until the owner
//! of an aligned mapping asks the kernel to collapse them, which the library does (`collapse`) and memmap2 does not.
//! `over-pread` compares with pread on a file that was not collapsed, `over-pread-collapsed` with the library's own
//! file.
//!
//! On tmpfs with `huge=always` (cases `huge-...`) every file has 2 MiB pages from the start, and Linux 6.18 aligns any map of it: both
//! maps are equal machines then, and what is left is knowing the next block (`huge-expected-...`) and lying right
//! (`huge-aligned-over-shifted`).
//!
//! Usage: mapping_rivals [PAIRS] [CASE]      (as root; needs cc; FILE_MIB in the environment)

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use pagelab_analysis::stats::{Bootstrap, Interval, bootstrap_median};
use pagelab_benches::hugetlb::{BYTES, Pool, Program, STEP};
use pagelab_benches::{now_ns, own_cpu_ns};
use pagelab_mapping::{Map, PageSize, inspect};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};

const BLOCK: usize = 4096;
/// Blocks that one side of a pair reads.
const READS: usize = 1 << 16;

/// A file on a tmpfs that this process alone sees.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new(options: &std::ffi::CStr) -> Result<Self> {
        let folder = std::env::temp_dir();
        let (root, here) = (c"/", std::ffi::CString::new(folder.as_os_str().as_encoded_bytes())?);
        // SAFETY: all pointers are C strings or null, as mount(2) takes them. Nobody else sees the mount, and it goes with the process.
        let failed = unsafe {
            let null = std::ptr::null();
            libc::unshare(libc::CLONE_NEWNS) != 0
                || libc::mount(null, root.as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) != 0
                || libc::mount(c"tmpfs".as_ptr(), here.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) != 0
        };
        ensure!(!failed, "mounting tmpfs: {}; needed root", std::io::Error::last_os_error());
        Ok(Self { folder })
    }

    fn file(&self, name: &str, bytes: usize) -> Result<File> {
        let path = self.folder.join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let mut chunk = vec![0_u8; 1 << 20];
        for at in (0..bytes).step_by(chunk.len()) {
            for (index, block) in chunk.chunks_exact_mut(BLOCK).enumerate() {
                block[..8].copy_from_slice(&((at + index * BLOCK) as u64).to_ne_bytes());
            }
            file.write_all_at(&chunk, at as u64)?;
        }
        Ok(file)
    }
}

/// Reads the blocks of an order, one after the other, into a buffer, and sums their first words.
type Read<'a> = Box<dyn Fn(&[usize], &mut [u8]) -> Result<u64> + 'a>;

/// One way to read a block.
struct Side<'a> {
    name: &'static str,
    read: Read<'a>,
    pages: Value,
}

fn first_word(buffer: &[u8]) -> u64 {
    std::hint::black_box(buffer).first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Bytes of each page size that lie under a map.
fn pages_at(address: usize, bytes: usize) -> Result<Value> {
    let total = inspect(address, bytes, PageSize::Huge2M)?.total().context("unknown page sizes")?;
    Ok(json!({"base_bytes": total.base_bytes, "huge_2m_bytes": total.huge_2m_bytes}))
}

fn of_map<'a>(name: &'static str, map: &'a Map) -> Result<Side<'a>> {
    let read = move |order: &[usize], buffer: &mut [u8]| {
        let mut sum = 0_u64;
        for offset in order {
            map.read_at(*offset, buffer)?;
            sum = sum.wrapping_add(first_word(buffer));
        }
        Ok(sum)
    };
    Ok(Side { name, read: Box::new(read), pages: pages_at(map.address(), map.len_bytes())? })
}

fn of_map_with_expectation<'a>(name: &'static str, map: &'a Map) -> Result<Side<'a>> {
    let read = move |order: &[usize], buffer: &mut [u8]| {
        let mut sum = 0_u64;
        for (offset, next) in order.iter().zip(order.iter().skip(1).chain(order.first())) {
            map.expect_read(*next);
            map.read_at(*offset, buffer)?;
            sum = sum.wrapping_add(first_word(buffer));
        }
        Ok(sum)
    };
    Ok(Side { name, read: Box::new(read), pages: pages_at(map.address(), map.len_bytes())? })
}

fn of_file(file: &File) -> Side<'_> {
    let read = move |order: &[usize], buffer: &mut [u8]| {
        let mut sum = 0_u64;
        for offset in order {
            file.read_exact_at(buffer, *offset as u64)?;
            sum = sum.wrapping_add(first_word(buffer));
        }
        Ok(sum)
    };
    Side { name: "pread", read: Box::new(read), pages: Value::Null }
}

fn of_memmap2(map: &memmap2::Mmap) -> Result<Side<'_>> {
    let read = move |order: &[usize], buffer: &mut [u8]| {
        let whole: &[u8] = map;
        let mut sum = 0_u64;
        for offset in order {
            buffer.copy_from_slice(&whole[*offset..*offset + BLOCK]);
            sum = sum.wrapping_add(first_word(buffer));
        }
        Ok(sum)
    };
    // Touched once: a map that nobody has read has no pages.
    (read)(&(0..map.len()).step_by(BLOCK).collect::<Vec<_>>(), &mut [0; BLOCK])?;
    Ok(Side { name: "memmap2", read: Box::new(read), pages: pages_at(map.as_ptr() as usize, map.len())? })
}

/// CPU time and time of one side, ns, and the sum that shows it has read.
fn timed(side: &Side<'_>, order: &[usize], buffer: &mut [u8]) -> Result<(f64, f64, u64)> {
    let (cpu, wall) = (own_cpu_ns(), now_ns());
    let sum = (side.read)(order, buffer)?;
    Ok(((own_cpu_ns() - cpu) as f64, (now_ns() - wall) as f64, sum))
}

fn interval(ratios: &[f64], bound: Option<f64>) -> Result<Value> {
    let Interval { estimate, low, high, .. } = bootstrap_median(ratios, &Bootstrap::default())?;
    Ok(json!({"median": estimate, "low": low, "high": high, "bound": bound,
              "holds": bound.map(|bound| low >= bound)}))
}

/// How many times faster `ours` is than `theirs`.
fn compare(case: &str, ours: &Side<'_>, theirs: &Side<'_>, bound: Option<f64>, bench: &mut Bench) -> Result<Value> {
    let (mut ratios, mut wall_ratios, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..bench.pairs {
        let start = pair * READS % bench.order.len();
        let order: Vec<usize> = bench.order.iter().cycle().skip(start).take(READS).copied().collect();
        let (a, b) = if pair % 2 == 0 {
            let a = timed(ours, &order, &mut bench.buffer)?;
            (a, timed(theirs, &order, &mut bench.buffer)?)
        } else {
            let b = timed(theirs, &order, &mut bench.buffer)?;
            (timed(ours, &order, &mut bench.buffer)?, b)
        };
        ensure!(a.2 == b.2, "the sides have not read the same: {} and {}", a.2, b.2);
        ratios.push(b.0 / a.0);
        wall_ratios.push(b.1 / a.1);
        pairs.push(json!([a.0 / READS as f64, b.0 / READS as f64]));
    }
    Ok(json!({"case": case, "file_mib": (bench.order.len() * BLOCK) >> 20, "pairs": bench.pairs, "ours": ours.name,
              "theirs": theirs.name, "ours_has": ours.pages, "theirs_has": theirs.pages,
              "times_faster": interval(&ratios, bound)?, "times_faster_by_wall_clock": interval(&wall_ratios, None)?,
              "cpu_ns_per_read_ours_theirs": pairs}))
}

struct Bench {
    pairs: usize,
    only: Option<String>,
    order: Vec<usize>,
    buffer: Vec<u8>,
}

impl Bench {
    fn wants(&self, case: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == case)
    }
}

/// A tmpfs without huge pages of its own.
fn reads_of_small_pages(bench: &mut Bench, bytes: usize) -> Result<()> {
    let scratch = Scratch::new(c"huge=never,size=8g")?;
    let (untouched, file) = (scratch.file("untouched", bytes)?, scratch.file("file", bytes)?);
    // First, where the kernel puts a map in a process that has no aligned one yet: its neighbour would lie right by chance.
    // SAFETY: the file is this process's own, and nobody changes it.
    let rival = unsafe { memmap2::Mmap::map(&file)? };
    let map = Map::options().page_size(PageSize::Huge2M).read_only().prefault().file(&file, 0, bytes)?;
    map.collapse(0, bytes)?;
    map.prefault(0, bytes)?;
    let (ours, expecting) = (of_map("read_at", &map)?, of_map_with_expectation("expect_read + read_at", &map)?);
    let (pread, pread_collapsed, plain) = (of_file(&untouched), of_file(&file), of_memmap2(&rival)?);
    for (case, ours, theirs, bound) in [
        ("over-pread", &ours, &pread, Some(2.5)),
        ("over-pread-collapsed", &ours, &pread_collapsed, None),
        ("over-memmap2", &ours, &plain, Some(1.3)),
        ("expected-over-memmap2", &expecting, &plain, None),
    ] {
        if bench.wants(case) {
            println!("{}", compare(case, ours, theirs, bound, bench)?);
        }
    }
    Ok(())
}

/// A tmpfs whose files have huge pages.
fn reads_of_huge_pages(bench: &mut Bench, bytes: usize) -> Result<()> {
    let scratch = Scratch::new(c"huge=always,size=8g")?;
    let file = scratch.file("file", bytes)?;
    let map = Map::options().page_size(PageSize::Huge2M).read_only().prefault().file(&file, 0, bytes)?;
    let shifted =
        Map::options().page_size(PageSize::Huge2M).read_only().shifted(4096).prefault().file(&file, 0, bytes)?;
    // SAFETY: the file is this process's own, and nobody changes it.
    let rival = unsafe { memmap2::Mmap::map(&file)? };
    let (ours, expecting) = (of_map("read_at", &map)?, of_map_with_expectation("expect_read + read_at", &map)?);
    let misplaced = of_map("read_at, 4 KiB off", &shifted)?;
    let (pread, plain) = (of_file(&file), of_memmap2(&rival)?);
    for (case, ours, theirs, bound) in [
        ("huge-over-pread", &ours, &pread, None),
        ("huge-expected-over-pread", &expecting, &pread, None),
        ("huge-over-memmap2", &ours, &plain, None),
        ("huge-expected-over-memmap2", &expecting, &plain, None),
        ("huge-aligned-over-shifted", &ours, &misplaced, None),
    ] {
        if bench.wants(case) {
            println!("{}", compare(case, ours, theirs, bound, bench)?);
        }
    }
    Ok(())
}

/// The round of EXPERIMENTS 2 through the library, ns of CPU time.
fn round_by_library() -> Result<u64> {
    let begin = own_cpu_ns();
    let map = Map::options().page_size(PageSize::Huge2M).hugetlb(BYTES)?;
    for at in (0..BYTES).step_by(STEP) {
        map.write_at(at, &[1])?;
    }
    let mut sum = 0;
    for at in (0..BYTES).step_by(STEP) {
        let mut byte = [0];
        map.read_at(at, &mut byte)?;
        sum += usize::from(byte[0]);
    }
    drop(map);
    let end = own_cpu_ns();
    ensure!(sum == BYTES / STEP, "read back {sum} of {}", BYTES / STEP);
    Ok(end - begin)
}

fn hugetlb(bench: &Bench) -> Result<()> {
    let folder = Path::new("/dev/shm").join(format!("pagelab-mapping-rivals-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let compiled = Program::compile(&folder);
    let outcome = compiled.and_then(|program| {
        let _pool = Pool::grown_by((BYTES >> 21) as u64)?;
        let mut c = program.start("huge")?;
        // The first round of each meets pages that nobody has touched since the pool grew.
        c.round()?;
        round_by_library()?;
        let (mut ratios, mut pairs) = (Vec::new(), Vec::new());
        for pair in 0..bench.pairs {
            let (ours, theirs) = if pair % 2 == 0 {
                let ours = round_by_library()?;
                (ours, c.round()?.cpu_ns)
            } else {
                let theirs = c.round()?.cpu_ns;
                (round_by_library()?, theirs)
            };
            ratios.push(theirs as f64 / ours as f64);
            pairs.push(json!([ours, theirs]));
        }
        println!(
            "{}",
            json!({"case": "hugetlb-256-mib", "pairs": bench.pairs, "ours": "library", "theirs": "C",
                   "times_faster": interval(&ratios, Some(0.97))?, "cpu_ns_per_round_ours_theirs": pairs})
        );
        Ok(())
    });
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let pairs: usize = args.next().map_or(Ok(45), |text| text.parse()).context("PAIRS: needed a number")?;
    let only = args.next();
    let mib: usize =
        std::env::var("FILE_MIB").map_or(Ok(1024), |text| text.parse()).context("FILE_MIB: needed a number")?;
    let mut order: Vec<usize> = (0..mib << 20).step_by(BLOCK).collect();
    order.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
    let mut bench = Bench { pairs, only, order, buffer: vec![0; BLOCK] };
    if bench.wants("hugetlb-256-mib") {
        hugetlb(&bench)?;
    }
    reads_of_small_pages(&mut bench, mib << 20)?;
    reads_of_huge_pages(&mut bench, mib << 20)
}
