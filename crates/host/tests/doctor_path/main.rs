//! `doctor PATH` against the page tables: files made on purpose, the answer for each slot compared with mapping and
//! touching it.
//!
//! An answer counts as right only if the reason is the one that the file was made for and the page tables agree. Files come in
//! pairs where that can be: with the cause, and with the cause taken away, so that a reason is not right by accident.
//! Direct access needs a device that no ordinary machine has: its rule is held to literal extents beside the code, and here to the
//! extents of real files as `filefrag` tells them.

mod fixes;
mod layouts;
mod stage;
mod truth;

use std::fs::File;
use std::path::Path;

use pagelab_host::doctor::path::{PathError, PathOptions, PathReport, SlotRun, look};
use stage::{Changed, MIB, Mounted, cold, create, fallocate, read_in_small, write};
use truth::{Tally, Use};

const POSSIBLE: &str = "possible";
const SMALL: &str = "in_small_pages";
const TAIL: &str = "file_ends_inside";
const BASE: &str = "page_cache_base_pages";
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const SHMEM: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

fn answer(path: &Path) -> PathReport {
    look(path, &PathOptions::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file system whose page cache has large folios, or not: `whole` is what an advised slot that is not in memory is made for.
fn page_cache(tally: &mut Tally, name: &str, mounted: &Mounted, whole: &'static str) {
    let large = whole == POSSIBLE;
    let of = |reason: &'static str| if large { reason } else { BASE };
    let mut check = |what: &str, file: &str, advised, usage, expected: &[&'static str]| {
        tally.check(&format!("{name}: {what}"), &mounted.at(file), advised, usage, expected);
    };
    for usage in [Use::Read, Use::Write, Use::ReadWrite] {
        let written = create(&mounted.at("written"));
        write(&written, 0, 8 * MIB, MIB);
        cold(&written);
        check("written, not in memory", "written", true, usage, &[whole; 4]);
        let set_aside = create(&mounted.at("set-aside"));
        fallocate(&set_aside, 0, 0, 8 * MIB);
        check("unwritten extents", "set-aside", true, usage, &[whole; 4]);
        let sparse = create(&mounted.at("sparse"));
        sparse.set_len(8 * MIB).expect("length");
        check("a hole", "sparse", true, usage, &[whole; 4]);
    }
    let unadvised = create(&mounted.at("unadvised"));
    write(&unadvised, 0, 12 * MIB, MIB);
    cold(&unadvised);
    check("nobody asks", "unadvised", false, Use::Read, &[of("needs_advice"); 6]);
    cold(&unadvised);
    check("the same, asked", "unadvised", true, Use::Read, &[whole; 6]);
    let hot = create(&mounted.at("hot"));
    write(&hot, 0, 16 * MIB, 4096);
    check("written in blocks of 4 KiB, still in memory", "hot", true, Use::Read, &[of(SMALL); 8]);
    cold(&hot);
    check("the same, out of memory", "hot", true, Use::Read, &[whole; 8]);
    cold(&hot);
    read_in_small(&hot, [3, 4, 5].map(|slot| slot * 2 * MIB + 40_960).into_iter());
    let expected = [whole, whole, whole, of(SMALL), of(SMALL), of(SMALL), whole, whole];
    check("three slots of eight in memory by one block", "hot", true, Use::Read, &expected);
    let at_once = create(&mounted.at("at-once"));
    write(&at_once, 0, 8 * MIB, 4 * MIB);
    check("written in blocks of 4 MiB, still in memory", "at-once", false, Use::Read, &[whole; 4]);
    for (index, extra) in [1, 4095, 4096, 4097, MIB, 2 * MIB - 8192, 2 * MIB - 4097].into_iter().enumerate() {
        let file = create(&mounted.at("tail"));
        write(&file, 0, 2 * MIB + extra, MIB);
        cold(&file);
        check(&format!("the file ends inside ({index})"), "tail", true, Use::Read, &[whole, of(TAIL)]);
    }
    for file in laid_out(mounted) {
        // The page cache does not mind where on the device the bytes lie.
        for usage in [Use::Read, Use::Write] {
            cold(&File::open(mounted.at(file)).expect("opened"));
            check(file, file, true, usage, &[whole; 4]);
        }
    }
    let last_page = create(&mounted.at("last-page"));
    write(&last_page, 0, 4 * MIB - 4095, MIB);
    cold(&last_page);
    check("the file ends in the last page", "last-page", true, Use::Read, &[whole; 2]);
}

/// Files of 8 MiB whose bytes lie badly for direct access; their names say how.
fn laid_out(mounted: &Mounted) -> Vec<&'static str> {
    let punched = create(&mounted.at("punched"));
    write(&punched, 0, 8 * MIB, MIB);
    let (one, other) = (create(&mounted.at("fragmented")), create(&mounted.at("fragmented-too")));
    for piece in 0..8 {
        fallocate(&one, 0, piece * MIB, MIB);
        fallocate(&other, 0, piece * MIB, MIB);
    }
    let mixed = create(&mounted.at("half-written"));
    fallocate(&mixed, 0, 0, 8 * MIB);
    for slot in 0..4 {
        fallocate(&punched, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, slot * 2 * MIB, 65_536);
        write(&mixed, slot * 2 * MIB, MIB, MIB);
    }
    // A block in front that is not the file's keeps the rest from lying at a multiple of 2 MiB.
    write(&create(&mounted.at("misaligned")), 0, 8 * MIB, 12_288);
    let mut files = vec!["punched", "fragmented", "half-written", "misaligned"];
    let from = mounted.at("misaligned");
    let to = mounted.at("reflinked");
    let copied = std::process::Command::new("cp").arg("--reflink=always").args([&from, &to]).output();
    if copied.is_ok_and(|output| output.status.success()) {
        files.push("reflinked");
    }
    files
}

#[test]
#[ignore = "needs root for loop devices, hugetlb pools and settings; run by make test with --ignored --test-threads=1"]
fn host_slots_are_what_the_page_tables_say() {
    let mut tally = Tally::default();
    disks(&mut tally);
    overlays(&mut tally);
    for (huge, whole) in
        [("never", "tmpfs_huge_never"), ("always", POSSIBLE), ("within_size", POSSIBLE), ("advise", POSSIBLE)]
    {
        tmpfs(&mut tally, huge, whole);
    }
    tmpfs_beyond_the_mount(&mut tally);
    memfd(&mut tally);
    hugetlbfs(&mut tally);
    tally.print();
    assert!(tally.by_file.len() >= 24);
    for (reason, count) in &tally.by_reason {
        assert!(count.right + count.wrong >= 20, "{reason}: {count:?}: too few slots to tell");
        assert!(count.pct() >= 95.0, "{reason}: {count:?}");
    }
    assert!(tally.total().pct() >= 99.0, "{:?}", tally.total());
}

fn disks(tally: &mut Tally) {
    let ext4 = Mounted::image(&["mkfs.ext4", "-q", "-b", "4096"], &[], "rw");
    page_cache(tally, "ext4", &ext4, POSSIBLE);
    drop(ext4);
    let small_blocks = Mounted::image(&["mkfs.ext4", "-q", "-b", "1024"], &[], "rw");
    page_cache(tally, "ext4 with blocks of 1 KiB", &small_blocks, POSSIBLE);
    drop(small_blocks);
    let journal = Mounted::image(&["mkfs.ext4", "-q"], &[], "data=journal");
    page_cache(tally, "ext4 data=journal", &journal, BASE);
    drop(journal);
    let encrypt = Mounted::image(&["mkfs.ext4", "-q", "-O", "encrypt"], &[], "rw");
    page_cache(tally, "ext4 that can encrypt", &encrypt, BASE);
    drop(encrypt);
    let verity = Mounted::image(&["mkfs.ext4", "-q", "-O", "verity"], &[], "rw");
    page_cache(tally, "ext4 that can verify", &verity, BASE);
    drop(verity);
    let xfs = Mounted::image(&["mkfs.xfs", "-q"], &["--offset", "1048576"], "rw");
    page_cache(tally, "xfs 1 MiB into the image", &xfs, POSSIBLE);
    drop(xfs);
    let btrfs = Mounted::image(&["mkfs.btrfs", "-q"], &[], "rw");
    page_cache(tally, "btrfs", &btrfs, BASE);
}

/// Below an overlay the file that holds the bytes decides. Files are only read: writing copies them up.
fn overlays(tally: &mut Tally) {
    let top = Mounted::image(&["mkfs.xfs", "-q"], &[], "rw");
    let ext4 = Mounted::image(&["mkfs.ext4", "-q"], &[], "rw");
    let btrfs = Mounted::image(&["mkfs.btrfs", "-q"], &[], "rw");
    let tmpfs = Mounted::plain("tmpfs", "size=64m,huge=never");
    for (name, lower, expected) in
        [("ext4", &ext4, POSSIBLE), ("btrfs", &btrfs, BASE), ("tmpfs", &tmpfs, "tmpfs_huge_never")]
    {
        let file = create(&lower.at("below"));
        write(&file, 0, 8 * MIB, MIB);
        cold(&file);
        let upper = top.at(name);
        std::fs::create_dir(&upper).expect("mkdir");
        let over = Mounted::overlay(lower.path(), &upper);
        let report = tally.check(&format!("overlay over {name}"), &over.at("below"), true, Use::Read, &[expected; 4]);
        assert_eq!(report.file_system.name, "overlayfs");
        let real = report.real.as_ref().expect("the file below");
        assert_eq!(
            (real.path.as_str(), real.file_system.name.as_str()),
            (lower.at("below").to_str().expect("text"), name)
        );
        // Copied up, it is the upper file system's.
        let up = File::options().append(true).open(over.at("below")).expect("copied up");
        cold(&up);
        cold(&File::open(upper.join("over/below")).expect("upper"));
        let report =
            tally.check(&format!("overlay, copied up from {name}"), &over.at("below"), true, Use::Read, &[POSSIBLE; 4]);
        assert_eq!(report.real.expect("the file above").file_system.name, "xfs");
    }
}

fn tmpfs(tally: &mut Tally, huge: &str, whole: &'static str) {
    let mounted = Mounted::plain("tmpfs", &format!("size=200m,huge={huge}"));
    let none = huge == "never";
    let of = |reason: &'static str| if none { whole } else { reason };
    let unasked = if huge == "advise" { "needs_advice" } else { whole };
    let mut check = |what: &str, file: &str, advised, usage, expected: &[&'static str]| {
        tally.check(&format!("tmpfs huge={huge}: {what}"), &mounted.at(file), advised, usage, expected);
        std::fs::remove_file(mounted.at(file)).expect("removed");
    };
    let sparse = |name: &str, bytes: u64| {
        let file = create(&mounted.at(name));
        file.set_len(bytes).expect("length");
        file
    };
    for usage in [Use::Read, Use::Write, Use::ReadWrite] {
        sparse("sparse", 10 * MIB);
        check("a hole", "sparse", true, usage, &[whole; 5]);
        sparse("sparse", 10 * MIB);
        check("a hole, nobody asks", "sparse", false, usage, &[unasked; 5]);
    }
    let file = sparse("one-block", 16 * MIB);
    for slot in [1, 2, 6] {
        // The length is there already, so that a rule about it allows huge pages for this write too.
        write(&file, slot * 2 * MIB + 4096, 4096, 4096);
    }
    // A write brings what a fault without advice would bring: a huge page where the mount gives it unasked.
    let written = if matches!(huge, "always" | "within_size") { POSSIBLE } else { of(SMALL) };
    let expected = [whole, written, written, whole, whole, whole, written, whole];
    check("a block written in three slots", "one-block", true, Use::Read, &expected);
    let file = create(&mounted.at("grown"));
    write(&file, 0, 12 * MIB, 4096);
    let grown = if huge == "always" { POSSIBLE } else { of(SMALL) };
    check("grown by blocks of 4 KiB", "grown", true, Use::Read, &[grown; 6]);
    let file = create(&mounted.at("set-aside"));
    fallocate(&file, 0, 0, 8 * MIB);
    check("fallocate", "set-aside", true, Use::Read, &[written; 4]);
    for extra in [1, 4096, MIB] {
        sparse("tail", 2 * MIB + extra);
        check("the file ends inside", "tail", true, Use::Read, &[whole; 2]);
        sparse("tail", 2 * MIB + extra);
        let tail = if huge == "within_size" { TAIL } else { unasked };
        check("the file ends inside, nobody asks", "tail", false, Use::Read, &[unasked, tail]);
    }
}

/// What stands above a mount's `huge=`: room, and the whole host's setting.
fn tmpfs_beyond_the_mount(tally: &mut Tally) {
    let full = Mounted::plain("tmpfs", "size=21m,huge=always");
    create(&full.at("large")).set_len(64 * MIB).expect("length");
    let mut expected = vec![POSSIBLE; 10];
    expected.extend(["tmpfs_full"; 22]);
    tally.check("tmpfs with room for ten", &full.at("large"), true, Use::Read, &expected);
    let always = Mounted::plain("tmpfs", "size=100m,huge=always");
    create(&always.at("file")).set_len(40 * MIB).expect("length");
    let denied = Changed::to(SHMEM, "deny");
    tally.check("tmpfs huge=always under deny", &always.at("file"), true, Use::Read, &["shmem_denied"; 20]);
    drop(denied);
    create(&always.at("file")).set_len(40 * MIB).expect("length");
    tally.check("the same without deny", &always.at("file"), true, Use::Read, &[POSSIBLE; 20]);
    let never = Mounted::plain("tmpfs", "size=100m,huge=never");
    create(&never.at("file")).set_len(8 * MIB).expect("length");
    let forced = Changed::to(SHMEM, "force");
    tally.check("tmpfs huge=never under force", &never.at("file"), true, Use::Read, &[POSSIBLE; 4]);
    drop(forced);
}

/// A memfd lies on a tmpfs that is mounted nowhere; the whole host's setting is its `huge=`.
fn memfd(tally: &mut Tally) {
    for (setting, asked, unasked) in [
        ("never", "tmpfs_huge_never", "tmpfs_huge_never"),
        ("advise", POSSIBLE, "needs_advice"),
        ("within_size", POSSIBLE, POSSIBLE),
        ("always", POSSIBLE, POSSIBLE),
    ] {
        let _set = Changed::to(SHMEM, setting);
        for (advised, expected) in [(true, asked), (false, unasked)] {
            let fd = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
            File::from(fd.try_clone().expect("duplicate")).set_len(8 * MIB).expect("length");
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
            let name = format!("memfd, shmem_enabled={setting}");
            tally.check(&name, Path::new(&path), advised, Use::Write, &[expected; 4]);
        }
    }
}

fn hugetlbfs(tally: &mut Tally) {
    let before: u64 = std::fs::read_to_string(POOL).expect("pool").trim().parse().expect("a number");
    let _pool = Changed::to(POOL, &(before + 30).to_string());
    let granted: u64 = std::fs::read_to_string(POOL).expect("pool").trim().parse().expect("a number");
    assert_eq!(granted, before + 30, "the host has no room for 30 huge pages");
    let mounted = Mounted::plain("hugetlbfs", "pagesize=2M");
    let make =
        |mounted: &Mounted, name: &str, pages: u64| create(&mounted.at(name)).set_len(pages * 2 * MIB).expect("length");
    make(&mounted, "fits", 24);
    let report = tally.check("hugetlbfs, the pool has enough", &mounted.at("fits"), false, Use::Read, &[POSSIBLE; 24]);
    assert_eq!((report.file_system.name.as_str(), report.file_system.block_size_bytes), ("hugetlbfs", 2 << 20));
    // Its pages are the file's now. What is left is asked for anew each time: the host may have other users of the pool.
    make(&mounted, "large", 60);
    let room = answer(&mounted.at("large")).pool.expect("a pool");
    make(&mounted, "large", room.available_pages + 30);
    let too_few = vec!["pool_too_small"; room.available_pages as usize + 30];
    tally.check("hugetlbfs, the pool has too few", &mounted.at("large"), false, Use::Read, &too_few);
    tally.check("hugetlbfs, a file that has its pages", &mounted.at("fits"), false, Use::ReadWrite, &[POSSIBLE; 24]);
    make(&mounted, "small", 6);
    tally.check("hugetlbfs, just enough", &mounted.at("small"), false, Use::Write, &[POSSIBLE; 6]);
    for name in ["fits", "small", "large"] {
        std::fs::remove_file(mounted.at(name)).expect("removed");
    }
    make(&mounted, "again", 24);
    tally.check("hugetlbfs, enough again", &mounted.at("again"), false, Use::Read, &[POSSIBLE; 24]);
    std::fs::remove_file(mounted.at("again")).expect("removed");
    let bounded = Mounted::plain("hugetlbfs", "pagesize=2M,size=8m");
    make(&bounded, "large", 12);
    tally.check("hugetlbfs with size=8m", &bounded.at("large"), false, Use::Read, &["pool_too_small"; 12]);
    make(&bounded, "fits", 4);
    tally.check("hugetlbfs with size=8m, a file of 8 MiB", &bounded.at("fits"), false, Use::Read, &[POSSIBLE; 4]);
}

#[test]
fn bad_input_is_said_in_clear_words() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let options = PathOptions::default();
    assert!(matches!(look(&at("nothing"), &options), Err(PathError::Missing { .. })));
    create(&at("file"));
    assert!(matches!(look(&at("file/below"), &options), Err(PathError::Missing { .. })));
    stage::run("mkfifo", &[at("fifo").to_str().expect("text")]);
    for (path, kind) in
        [(folder.path(), "directory"), (at("fifo").as_path(), "fifo"), (Path::new("/dev/null"), "character device")]
    {
        let error = look(path, &options).expect_err(kind);
        assert!(matches!(&error, PathError::NotAFile { found, .. } if *found == kind), "{error}");
        assert!(error.to_string().contains("needed a regular file"), "{error}");
    }
    let empty = answer(&at("file"));
    assert_eq!((empty.possible_pct, empty.slots.len()), (None, 0));
    assert!(empty.findings.iter().any(|finding| finding.id == "path.empty"));
    let proc = answer(Path::new("/proc/self/status"));
    assert_eq!((proc.file_system.name.as_str(), proc.extents), ("proc", None));
    assert!(proc.not_known.iter().any(|missing| missing.what == "extents" && missing.reason.contains("FIEMAP")));
}

/// A sparse file of 1 TiB takes no longer than a small one: no work for each slot of a hole.
#[test]
fn a_tib_of_hole_is_one_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sparse");
    let file = create(&path);
    file.set_len(1 << 40).expect("length");
    write(&file, 512 << 30, 4096, 4096);
    let start = std::time::Instant::now();
    let report = answer(&path);
    println!("1 TiB sparse: {:?}, {} runs", start.elapsed(), report.slots.len());
    assert_eq!(report.slot_count, 1 << 19);
    assert!(report.slots.len() <= 3, "{:?}", report.slots);
    assert_eq!(report.slots.iter().map(SlotRun::count).sum::<u64>(), 1 << 19);
    // The number of steps counts; the bound is the promised one, far above the time it takes.
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
}

/// Looking leaves no trace: not in the file, not in its times, not in the page cache.
#[test]
fn looking_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    let file = create(&path);
    write(&file, 0, 8 * MIB, MIB);
    cold(&file);
    // A part of it is in memory: that part is mapped, and must not bring in its neighbours.
    read_in_small(&file, [0, 3 * MIB].into_iter());
    // An access time older than the last change would be renewed by a read.
    let old = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH);
    file.set_times(old).expect("times");
    let state = || {
        let metadata = std::fs::metadata(&path).expect("stat");
        let cached = answer(&path).cached_bytes;
        (metadata.accessed().expect("time"), metadata.modified().expect("time"), metadata.len(), cached)
    };
    let before = state();
    assert!(before.3.is_some_and(|bytes| (8192..8 * MIB).contains(&bytes)), "{before:?}");
    for _ in 0..3 {
        answer(&path);
    }
    assert_eq!(state(), before);
}

/// A user who may read a file and not write it learns less, is informed of that, and reads nothing of it from the
/// device.
#[test]
#[ignore = "needs root to become somebody else; run by make test with --ignored --test-threads=1"]
fn host_another_users_file_is_told_as_far_as_it_can_be() {
    const CHILD: &str = "PAGELAB_TEST_LOOKS_AT";
    if let Ok(path) = std::env::var(CHILD) {
        let report = answer(Path::new(&path));
        let why =
            |what: &str| report.not_known.iter().find(|missing| missing.what == what).map(|missing| &missing.reason);
        assert!(report.extents.is_some() && report.cached_bytes.is_none());
        assert!(
            why("cached_bytes").is_some_and(|reason| reason.contains("needed to own the file")),
            "{:?}",
            report.not_known
        );
        assert!(report.stripe.is_some() || why("stripe").is_some_and(|reason| reason.contains("right to read")));
        let denied = look(&Path::new(&path).with_file_name("denied"), &PathOptions::default());
        assert!(matches!(denied, Err(PathError::Denied { .. })), "{denied:?}");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let mode = |path: &Path, bits| {
        let bits = std::os::unix::fs::PermissionsExt::from_mode(bits);
        std::fs::set_permissions(path, bits).expect("mode");
    };
    mode(folder.path(), 0o755);
    for (name, bits) in [("file", 0o644), ("denied", 0o600)] {
        let file = create(&at(name));
        write(&file, 0, 8 * MIB, MIB);
        cold(&file);
        mode(&at(name), bits);
    }
    let program = at("program");
    std::fs::copy(std::env::current_exe().expect("own path"), &program).expect("copied");
    mode(&program, 0o755);
    let mut command = std::process::Command::new(&program);
    command.args(["--ignored", "--exact", "host_another_users_file_is_told_as_far_as_it_can_be"]);
    command.env(CHILD, at("file")).current_dir("/");
    let output = std::os::unix::process::CommandExt::uid(&mut command, 65_534).output().expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(answer(&at("file")).cached_bytes, Some(0), "looking has read the file");
}

/// The form of the JSON that others read.
#[test]
fn the_report_has_the_names_that_others_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    write(&create(&path), 0, 3 * MIB, MIB);
    let report = serde_json::to_value(answer(&path)).expect("JSON");
    println!("{report:#}");
    let slot = report["slots"][0].as_object().expect("a run");
    assert!(["start", "end", "possible", "reason"].iter().all(|name| slot.contains_key(*name)), "{slot:?}");
    assert_eq!(report["slots"].as_array().and_then(|runs| runs.last()).map(|run| &run["end"]), Some(&(3 * MIB).into()));
    for finding in report["findings"].as_array().expect("findings") {
        let names = ["id", "level", "found", "needed", "why", "fix"];
        assert!(names.iter().all(|name| finding.get(name).is_some()), "{finding}");
    }
}
