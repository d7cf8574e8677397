//! A plan whose sizes and granularities are drawn at random: what is recorded is what they imply, mapping by mapping and fault by
//! fault. Whoever counts one thing too many or too few in some corner of sizes is found here; the seed is in every message.

use crate::common;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use common::{json, pagelab, run, scratch};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// splitmix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014): enough to draw cases with.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from `least` to `most`, small ones as likely as large ones of each power of two.
    fn spread(&mut self, least: u64, most: u64) -> u64 {
        let highest = (most / least).ilog2() + 1;
        let power = least << (self.next() % u64::from(highest));
        (power + self.next() % power).clamp(least, most)
    }
}

/// What is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Anonymous,
    Shm,
    Tmpfs,
    Hugetlb,
}

#[derive(Debug)]
struct Case {
    memory: Memory,
    size: u64,
    granularity: u64,
    evict: bool,
}

impl Case {
    fn draw(random: &mut Random, memory: Memory) -> Self {
        // Sizes in pages, so that the last piece is as often shorter as not.
        let page = if memory == Memory::Hugetlb { 2 * MIB } else { 4 * KIB };
        let pages = random.spread(1, if memory == Memory::Hugetlb { 48 } else { 8192 });
        let least = pages.div_ceil(1500);
        let granularity = random.spread(least, pages.max(least));
        Self { memory, size: pages * page, granularity: granularity * page, evict: random.next().is_multiple_of(2) }
    }

    fn page(&self) -> u64 {
        if self.memory == Memory::Hugetlb { 2 * MIB } else { 4 * KIB }
    }

    fn job(&self, folder: &Path, number: usize) -> String {
        let engine = match self.memory {
            Memory::Anonymous => "ioengine=anon".to_owned(),
            Memory::Shm => "ioengine=shm".to_owned(),
            Memory::Tmpfs => format!("ioengine=mmap\nfilename={}/{number}.dat", folder.display()),
            Memory::Hugetlb => "ioengine=anon\nhugetlb=2m".to_owned(),
        };
        let lifetime = if self.evict { "map_lifetime=evict\nmap_resident=3\n" } else { "" };
        format!(
            "[case]\n{engine}\nrw=write\nbs=4k\nmap_touch=1\nsize={}\nmap_granularity={}\n{lifetime}",
            self.size, self.granularity
        )
    }

    /// Mappings and faults that size and granularity imply.
    fn implied(&self) -> (u64, u64) {
        (self.size.div_ceil(self.granularity), self.size / self.page())
    }
}

/// The pieces of a recording, told by their rights and by where they come from, and the faults on them.
const COUNTS: &str = "WITH pieces AS (SELECT run, variant, mapping_id, len FROM mappings \
    WHERE kind = 'call' AND ((op = 'mmap' AND (flags & 1048576) = 1048576 AND (prot & 3) = 3) OR op = 'shmat') AND ret >= 0), \
    hit AS (SELECT f.run, f.variant, count(*) AS n FROM faults f JOIN pieces p \
    ON f.mapping_id = p.mapping_id AND f.run = p.run AND f.variant = p.variant GROUP BY 1, 2) \
    SELECT p.variant, p.run, count(*) AS mappings, max(h.n) AS faults, sum(p.len) AS bytes \
    FROM pieces p LEFT JOIN hit h ON p.run = h.run AND p.variant = h.variant GROUP BY 1, 2 ORDER BY 1, 2";

#[test]
#[ignore = "host: takes 96 pages of 2 MiB for a pool and sets transparent huge pages while it runs"]
fn host_random_sizes_give_the_counts_that_they_imply() {
    let seed = std::env::var("PAGELAB_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64));
    println!("seed {seed}; the same once more: PAGELAB_TEST_SEED={seed}");
    let mut random = Random(seed);
    let each = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 12 } else { 1 };
    let kinds = [Memory::Anonymous, Memory::Shm, Memory::Tmpfs, Memory::Hugetlb];
    let cases: Vec<Case> = (0..each).flat_map(|_| kinds).map(|memory| Case::draw(&mut random, memory)).collect();

    let dir = scratch();
    // On tmpfs whatever TMPDIR is.
    let shared = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    let mut plan = format!(
        "runs = 2\nseed = {}\nobserve = \"tasks,maps,faults\"\ntimeout = \"60s\"\n\
         settings = {{ \"thp.enabled\" = \"never\", \"thp.shmem_enabled\" = \"never\", \"hugetlb.2M.nr_hugepages\" = 96 }}\n",
        seed % (1 << 53)
    );
    for (number, case) in cases.iter().enumerate() {
        fs::write(dir.path().join(format!("{number}.fio")), case.job(shared.path(), number)).expect("writable");
        let _ = write!(plan, "[variant.case-{number:02}]\njob = \"{number}.fio\"\n");
    }
    fs::write(dir.path().join("plan.toml"), plan).expect("writable");
    let set = dir.path().join("set");
    run(pagelab().arg("experiment").arg(dir.path().join("plan.toml")).arg("-o").arg(&set), 0);

    let rows = json(&run(pagelab().args(["query", "--json"]).arg(&set).arg(COUNTS), 0));
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 2 * cases.len(), "a row for each run; seed {seed}");
    for (number, case) in cases.iter().enumerate() {
        let name = format!("case-{number:02}");
        let (mappings, faults) = case.implied();
        for row in rows.iter().filter(|row| row["variant"] == name.as_str()) {
            let found = (row["mappings"].as_u64(), row["faults"].as_u64());
            assert_eq!(found, (Some(mappings), Some(faults)), "seed {seed}: {case:?}: {row}");
            assert_eq!(row["bytes"].as_u64(), Some(case.size), "seed {seed}: {case:?}: {row}");
        }
    }
}
