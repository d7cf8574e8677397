//! DAX entries that real extents would allow, compared with `filefrag` on the same file, block by block.

use std::path::Path;

use pagelab_host::doctor::path::{PathReport, SLOT_BYTES};

use super::answer;
use super::stage::{MIB, Mounted, cold, create, fallocate, run, write};

/// The unit in which filefrag is asked to count: the smallest block there is.
const UNIT: u64 = 1024;

/// Where a block lies, and whether it is unwritten or shared.
type Block = Option<(u64, bool, bool)>;

/// The blocks of a file by `filefrag -v -b1024`: `0: 0.. 2047: 34816.. 36863: 2048: last,unwritten,eof`.
fn blocks(path: &Path, size_bytes: u64) -> Vec<Block> {
    let text = run("filefrag", &["-v", "-b1024", path.to_str().expect("text")]);
    let mut blocks: Vec<Block> = vec![None; size_bytes.div_ceil(UNIT) as usize];
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        let [number, logical, physical, length, rest @ ..] = fields.as_slice() else { continue };
        if number.parse::<u64>().is_err() {
            continue;
        }
        let first =
            |range: &str| range.split("..").next().and_then(|first| first.trim().parse::<u64>().ok()).expect("a range");
        let flags = rest.last().copied().unwrap_or_default();
        let (logical, physical, length) = (first(logical), first(physical), length.parse::<u64>().expect("a length"));
        for block in 0..length {
            if let Some(place) = blocks.get_mut((logical + block) as usize) {
                *place = Some((physical + block, flags.contains("unwritten"), flags.contains("shared")));
            }
        }
    }
    blocks
}

/// Whether a slot can be one entry, from its blocks alone.
fn possible(slot: &[Block], start_bytes: u64) -> bool {
    let Some(Some((first, unwritten, _))) = slot.first() else { return false };
    slot.len() as u64 == SLOT_BYTES / UNIT
        && (first * UNIT + start_bytes).is_multiple_of(SLOT_BYTES)
        && (0..).zip(slot).all(|(index, block)| *block == Some((first + index, *unwritten, false)))
}

/// The words of our layout, one for each slot, after they were compared with filefrag's blocks. Where there are none, filefrag cannot
/// tell what a write would set aside: lab kernels decide that (crates/cli/tests/doctor_dax.rs).
fn compared(name: &str, path: &Path) -> Vec<&'static str> {
    let report: PathReport = answer(path);
    let start = report.device.as_ref().map_or(0, |device| device.partition_start_bytes);
    let ours: Vec<&'static str> = report
        .layout
        .as_ref()
        .expect("ext4 and xfs have a layout")
        .iter()
        .flat_map(|run| (0..run.count()).map(|_| run.reason.map_or("possible", |reason| reason.word())))
        .collect();
    let blocks = blocks(path, report.size_bytes);
    let slots: Vec<&[Block]> = blocks.chunks((SLOT_BYTES / UNIT) as usize).collect();
    assert_eq!(slots.len(), ours.len(), "{name}: {ours:?}");
    for (index, (slot, word)) in slots.iter().zip(&ours).enumerate() {
        if slot.iter().all(Option::is_none) {
            assert!(["hole", "possible", "partition_misaligned", "file_ends_inside"].contains(word), "{name}: {word}");
        } else {
            assert_ne!(*word, "hole", "{name}: slot {index}");
            assert_eq!(*word == "possible", possible(slot, start), "{name}: slot {index}: {ours:?}");
        }
    }
    println!("{name:<44} {ours:?}");
    ours
}

/// Files laid out in every way that matters; true for their words what must be true wherever the allocator put them.
fn layouts(name: &str, mounted: &Mounted) {
    let at = |file: &str| mounted.at(file);
    let all = |words: &[&str], allowed: &[&str]| {
        assert!(!words.is_empty() && words.iter().all(|word| allowed.contains(word)), "{words:?}, allowed {allowed:?}");
    };
    let placed = ["possible", "extent_misaligned", "partition_misaligned", "extent_short"];
    let aside = create(&at("set-aside"));
    fallocate(&aside, 0, 0, 16 * MIB);
    all(&compared(&format!("{name}: set aside"), &at("set-aside")), &placed);
    for slot in 0..8 {
        write(&aside, slot * 2 * MIB, MIB, MIB);
    }
    cold(&aside);
    all(&compared(&format!("{name}: half of each slot written"), &at("set-aside")), &["extents_mixed", "extent_short"]);
    let sparse = create(&at("sparse"));
    sparse.set_len(16 * MIB).expect("length");
    all(&compared(&format!("{name}: a hole"), &at("sparse")), &["hole", "possible"]);
    write(&sparse, 5 * MIB, 4096, 4096);
    cold(&sparse);
    assert_eq!(compared(&format!("{name}: one block in a hole"), &at("sparse"))[2], "part_hole");
    let punched = create(&at("punched"));
    write(&punched, 0, 16 * MIB, MIB);
    cold(&punched);
    for slot in 0..8 {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        fallocate(&punched, mode, slot * 2 * MIB + 65_536, 4096);
    }
    all(&compared(&format!("{name}: a hole in each slot"), &at("punched")), &["part_hole"]);
    let (one, other) = (create(&at("one")), create(&at("other")));
    for piece in 0..16 {
        fallocate(&one, 0, piece * MIB, MIB);
        fallocate(&other, 0, piece * MIB, MIB);
    }
    let words = compared(&format!("{name}: two files set aside by turns"), &at("one"));
    all(&words, &placed);
    // More extents than one request takes.
    let many = create(&at("many"));
    for block in 0..1400 {
        write(&many, block * 8192, 4096, 4096);
    }
    cold(&many);
    all(
        &compared(&format!("{name}: 1400 blocks with holes between"), &at("many")),
        &["part_hole", "extents_mixed", "extent_short", "file_ends_inside"],
    );
    let report = answer(&at("many"));
    let extents = report.extents.expect("FIEMAP");
    // Nothing twice, nothing left out; xfs with stripes sets the gaps aside, unwritten.
    assert!(extents.len() >= 1400, "{}", extents.len());
    assert!(extents.is_sorted_by(|a, b| a.end <= b.start) && extents.last().is_some_and(|extent| extent.last));
    let written: u64 = extents.iter().filter(|extent| !extent.unwritten).map(|extent| extent.end - extent.start).sum();
    assert_eq!(written, 1400 * 4096);
    let shifted = create(&at("shifted"));
    // The hole in front keeps the allocator from aligning the rest.
    write(&shifted, 4096, 12 * MIB, MIB);
    cold(&shifted);
    compared(&format!("{name}: begins with a hole of 4 KiB"), &at("shifted"));
}

#[test]
#[ignore = "needs root for loop devices; run by make test with --ignored --test-threads=1"]
fn host_layouts_are_what_filefrag_tells() {
    let ext4 = Mounted::image(&["mkfs.ext4", "-q", "-b", "4096", "-E", "stride=512,stripe_width=512"], &[], "rw");
    layouts("ext4, striped", &ext4);
    let report = answer(&ext4.at("set-aside"));
    let stripe = report.stripe.expect("root reads the superblock");
    assert_eq!((stripe.unit_bytes, stripe.width_bytes), (2 * MIB, 2 * MIB));
    let device = report.device.expect("a loop device");
    assert!(device.loop_file.is_some_and(|file| file.ends_with("/image")) && !device.is_partition);
    assert_eq!((report.file_system.name.as_str(), report.dax.active), ("ext4", Some(false)));
    drop(ext4);
    layouts("ext4, blocks of 1 KiB", &Mounted::image(&["mkfs.ext4", "-q", "-b", "1024"], &[], "rw"));
    let xfs = Mounted::image(&["mkfs.xfs", "-q", "-d", "su=2m,sw=1"], &[], "rw");
    layouts("xfs, striped", &xfs);
    let file = create(&xfs.at("original"));
    write(&file, 0, 8 * MIB, MIB);
    cold(&file);
    let (original, copy) = (xfs.at("original"), xfs.at("copy"));
    run("cp", &["--reflink=always", original.to_str().expect("text"), copy.to_str().expect("text")]);
    for path in [&original, &copy] {
        assert!(compared("xfs: reflinked", path).iter().all(|word| ["shared", "extent_short"].contains(word)));
    }
    let report = answer(&copy);
    assert_eq!(report.stripe.map(|stripe| stripe.unit_bytes), Some(2 * MIB));
    assert!(report.findings.iter().any(|finding| finding.id == "path.shared"));
    // The size hint for new extents, as xfs_io sets it.
    let hinted = xfs.at("hinted");
    run("xfs_io", &["-f", "-c", "extsize 2m", hinted.to_str().expect("text")]);
    assert_eq!(answer(&hinted).dax.extent_size_hint_bytes, Some(2 * MIB));
}

/// The customary start of a first partition, 2048 sectors, is 1 MiB: files that are right in it are wrong on the disk.
#[test]
#[ignore = "needs root for loop devices; run by make test with --ignored --test-threads=1"]
fn host_a_partition_at_1_mib_misaligns_all_files() {
    let mkfs = ["mkfs.ext4", "-q", "-b", "4096", "-E", "stride=512,stripe_width=512"];
    for (sector, expected) in [(2048, "partition_misaligned"), (4096, "possible")] {
        let mounted = Mounted::partition(&mkfs, sector);
        let file = create(&mounted.at("file"));
        fallocate(&file, 0, 0, 64 * MIB);
        let words = compared(&format!("partition at sector {sector}"), &mounted.at("file"));
        let count = words.iter().filter(|word| **word == expected).count();
        assert!(count * 2 > words.len(), "sector {sector}: {words:?}");
        let report = answer(&mounted.at("file"));
        let device = report.device.expect("a partition");
        assert_eq!((device.partition_start_bytes, device.is_partition), (sector * 512, true));
        let said = report.findings.iter().find(|finding| finding.id == "path.partition_misaligned");
        assert_eq!(said.is_some(), sector == 2048, "{:?}", report.findings);
        if let Some(said) = said {
            let fix = said.fix.as_ref().expect("a command");
            let name = device.name.as_ref().expect("a name");
            assert!(fix.contains("start=4096") && fix.contains(&format!("/dev/{name}")), "{fix}");
        }
    }
}
