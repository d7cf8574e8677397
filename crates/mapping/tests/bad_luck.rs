//! Bad input and bad luck: each is an error that names the finding and the need, and nothing is left behind.
//!
//! Tests that change what the host gives (the hugetlb pool) begin with `host_` and run alone.

mod common;

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Pool, descriptors, mappings};
use pagelab_mapping::{Advice, Flushed, Map, MapError, PageSize};

fn file_of(bytes: u64) -> std::fs::File {
    let file = tempfile::tempfile().expect("tempfile");
    file.set_len(bytes).expect("length");
    file
}

#[test]
fn what_is_written_is_read_back_and_reaches_the_file() {
    let mut file = file_of(3 << 20);
    // An offset that is a multiple of nothing.
    let map = Map::options().page_size(PageSize::Huge2M).file(&file, 12_345, 1 << 20).expect("map");
    map.write_at(700_000, b"into the file").expect("write");
    let mut back = [0; 13];
    map.read_at(700_000, &mut back).expect("read");
    assert_eq!(&back, b"into the file");
    assert_eq!(map.flush(700_000, 13).expect("flush"), Flushed::Msync);
    let mut all = Vec::new();
    file.read_to_end(&mut all).expect("read");
    assert_eq!(&all[712_345..712_358], b"into the file");
    let private = Map::options().private().file(&file, 0, 1 << 20).expect("map");
    private.write_at(712_345, b"stays").expect("write");
    assert_eq!(private.flush(0, 1 << 20).expect("flush"), Flushed::Nothing);
    map.read_at(700_000, &mut back).expect("read");
    assert_eq!(&back, b"into the file", "a private map's writes are nobody else's");
}

#[test]
fn blocks_outside_are_errors() {
    let map = Map::options().anonymous(10_000).expect("map");
    let mut block = [0; 100];
    for offset in [9_901, 10_000, 10_001, usize::MAX, usize::MAX - 50] {
        let expected = MapError::OutOfBounds { offset, bytes: 100, map_bytes: 10_000 };
        assert_eq!(map.read_at(offset, &mut block), Err(expected.clone()));
        assert_eq!(map.write_at(offset, &block), Err(expected.clone()));
        assert_eq!(map.flush(offset, 100), Err(expected.clone()));
        assert_eq!(map.prefault(offset, 100), Err(expected.clone()));
        assert_eq!(map.collapse(offset, 100), Err(expected.clone()));
        assert_eq!(map.check(offset, 100), Err(expected.clone()));
        assert_eq!(map.advise(offset, 100, Advice::Random), Err(expected));
        map.expect_read(offset);
    }
    assert_eq!(map.read_at(9_900, &mut block), Ok(()));
    assert_eq!(map.read_at(10_000, &mut []), Ok(()), "nothing at the end is inside");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let file = file_of(1 << 20);
    let options = Map::options;
    assert!(matches!(options().anonymous(0), Err(MapError::Length { .. })));
    assert!(matches!(options().anonymous(usize::MAX), Err(MapError::Length { .. })));
    assert!(matches!(options().memfd(usize::MAX), Err(MapError::Length { .. })));
    assert!(matches!(options().file(&file, u64::MAX, 1), Err(MapError::Length { .. })));
    assert!(matches!(options().file(&file, 0, 0), Err(MapError::Length { .. })));
    assert!(matches!(options().page_size(PageSize::Huge1G).anonymous(1), Err(MapError::Contradiction { .. })));
    assert!(matches!(options().page_size(PageSize::Base).hugetlb(1), Err(MapError::Contradiction { .. })));
    assert!(matches!(options().sync().anonymous(1), Err(MapError::Contradiction { .. })));
    assert!(matches!(options().sync().private().file(&file, 0, 1), Err(MapError::Contradiction { .. })));
    assert!(matches!(options().shifted(5).anonymous(1), Err(MapError::Unaligned { .. })));
    assert!(matches!(options().shifted(4096).hugetlb(1), Err(MapError::Unaligned { .. })));
    let short = options().file(&file, 4096, 1 << 20).expect_err("too short");
    assert_eq!(short, MapError::FileTooShort { found_bytes: 1 << 20, needed_bytes: (1 << 20) + 4096 });
    let read_only = options().read_only().file(&file, 0, 4096).expect("map");
    assert_eq!(read_only.write_at(0, b"x"), Err(MapError::ReadOnly));
    let refused = options().sync().file(&file, 0, 4096).expect_err("no DAX here");
    assert_eq!(refused, MapError::SyncUnsupported);
}

#[test]
fn a_truncated_file_is_an_error_and_comes_back_when_it_grows() {
    let mut file = file_of(0);
    file.write_all(&vec![7_u8; 64 << 10]).expect("write");
    let map = Map::options().file(&file, 4096, 60 << 10).expect("map");
    file.set_len(20 << 10).expect("truncate");
    let mut block = [0; 8192];
    assert_eq!(map.read_at(0, &mut block), Ok(()));
    // The block begins in the last page that is there; the first that is not is named.
    let Err(MapError::NoPage { offset, why }) = map.read_at(12 << 10, &mut block) else { panic!("truncated") };
    assert_eq!(offset, 16 << 10);
    assert!(why.contains("has 20480 bytes now") && why.contains("truncate -s 65536"), "{why}");
    assert_eq!(map.read_at(0, &mut block), Ok(()), "what is there can still be read");
    assert!(matches!(map.write_at(40 << 10, &block), Err(MapError::NoPage { offset: 40960, .. })));
    assert!(matches!(map.prefault(0, 60 << 10), Err(MapError::NoPage { offset: 16384, .. })));
    file.set_len(64 << 10).expect("grow");
    assert_eq!(map.read_at(40 << 10, &mut block), Ok(()));
    assert_eq!(block, [0; 8192], "the file's new pages, which the refused write never reached");
    map.write_at(40 << 10, &[9; 4096]).expect("write");
    let second = Map::options().file(&file, 0, 64 << 10).expect("map");
    second.read_at(44 << 10, &mut block).expect("read");
    assert_eq!(block[..4096], [9; 4096], "the map is the file's again");
}

#[test]
fn code_that_copies_by_itself_can_ask_afterwards() {
    let file = file_of(8192);
    let map = Map::options().file(&file, 0, 8192).expect("map");
    file.set_len(0).expect("truncate");
    // SAFETY: inside the map.
    assert_eq!(unsafe { map.as_ptr().add(5000).read_volatile() }, 0);
    assert_eq!(map.check(0, 4096), Ok(()));
    // SAFETY: as above.
    assert_eq!(unsafe { map.as_ptr().add(5000).read_volatile() }, 0);
    assert!(matches!(map.check(0, 8192), Err(MapError::NoPage { offset: 4096, .. })));
    assert_eq!(map.check(0, 8192), Ok(()), "told once");
}

/// Threads read a file that another thread truncates and extends all the time. Every block that is read without an error
/// is the file's: it holds the byte that was written there, or the zeros of a file that was extended.
#[test]
fn threads_that_share_a_map_are_told_the_truth() {
    const BYTES: usize = 1 << 20;
    let file = file_of(BYTES as u64);
    let map = Map::options().file(&file, 0, BYTES).expect("map");
    let first_half = vec![1_u8; BYTES / 2];
    map.write_at(0, &first_half).expect("write");
    let (stop, reads, errors) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for seed in 1..4_usize {
            let (map, stop, reads, errors) = (&map, &stop, &reads, &errors);
            scope.spawn(move || {
                let mut block = [0; 4096];
                let mut position = seed;
                while !stop.load(Ordering::Relaxed) {
                    position = position.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let offset = (position >> 33) % (BYTES / 4096) * 4096;
                    match map.read_at(offset, &mut block) {
                        Ok(()) if offset < BYTES / 2 => assert_eq!(block, [1; 4096], "never truncated"),
                        Ok(()) => reads.store(true, Ordering::Relaxed),
                        Err(MapError::NoPage { offset, .. }) => {
                            assert!(offset >= BYTES / 2, "{offset} was there all the time");
                            errors.store(true, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for round in 0..400 {
            file.set_len(if round % 2 == 0 { BYTES as u64 / 2 } else { BYTES as u64 }).expect("length");
            std::thread::yield_now();
        }
        while !(reads.load(Ordering::Relaxed) && errors.load(Ordering::Relaxed)) {
            file.set_len(BYTES as u64 / 2).expect("length");
            std::thread::sleep(std::time::Duration::from_millis(1));
            file.set_len(BYTES as u64).expect("length");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nothing_is_left_behind() {
    let file = file_of(1 << 20);
    let once = || {
        let map = Map::options().page_size(PageSize::Huge2M).memfd(4 << 20).expect("map");
        map.write_at(0, b"x").expect("write");
        drop(Map::options().file(&file, 0, 1 << 20).expect("map"));
        for refused in [
            Map::options().sync().file(&file, 0, 4096),
            Map::options().page_size(PageSize::Huge1G).hugetlb(1 << 50),
            Map::options().file(&file, 0, 2 << 20),
            Map::options().shared().anonymous(1 << 46),
        ] {
            assert!(refused.is_err(), "{refused:?}");
        }
    };
    // Descriptors and mappings of other tests come and go: ask in a process of our own.
    if !common::alone("nothing_is_left_behind") {
        return;
    }
    once();
    let before = (descriptors(), mappings());
    (0..50).for_each(|_| once());
    assert_eq!((descriptors(), mappings()), before);
}

/// A mapping that this library knows nothing of.
fn foreign_map(file: &std::fs::File, bytes: usize) -> *const u8 {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped.cast_const().cast()
}

static OTHERS: AtomicBool = AtomicBool::new(false);

extern "C" fn of_another(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    OTHERS.store(true, Ordering::Relaxed);
    // SAFETY: the page at the fault's address belongs to the test.
    unsafe {
        let page = ((*info).si_addr() as usize & !4095) as *mut libc::c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(page, 4096, libc::PROT_READ, flags, -1, 0);
    }
}

#[test]
fn a_handler_that_was_there_before_gets_what_is_not_ours() {
    // One handler to a process.
    if !common::alone("a_handler_that_was_there_before_gets_what_is_not_ours") {
        return;
    }
    // SAFETY: a valid action, whose handler maps memory where the test reads.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = of_another as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
    let file = file_of(8192);
    let map = Map::options().file(&file, 0, 8192).expect("map");
    let others = foreign_map(&file, 8192);
    file.set_len(0).expect("truncate");
    assert!(matches!(map.read_at(0, &mut [0; 16]), Err(MapError::NoPage { .. })));
    assert!(!OTHERS.load(Ordering::Relaxed), "ours is not handed on");
    // SAFETY: mapped above; the handler puts a page there.
    assert_eq!(unsafe { others.read_volatile() }, 0);
    assert!(OTHERS.load(Ordering::Relaxed));
}

#[test]
fn without_another_handler_a_foreign_sigbus_ends_the_process_as_ever() {
    use std::os::unix::process::ExitStatusExt as _;
    const NAME: &str = "without_another_handler_a_foreign_sigbus_ends_the_process_as_ever";
    if !common::is_child() {
        let status = common::child(NAME).status().expect("run");
        assert_eq!(status.signal(), Some(libc::SIGBUS));
        return;
    }
    let file = file_of(4096);
    let map = Map::options().file(&file, 0, 4096).expect("map");
    let others = foreign_map(&file, 4096);
    file.set_len(0).expect("truncate");
    assert!(matches!(map.read_at(0, &mut [0; 16]), Err(MapError::NoPage { .. })));
    // SAFETY: mapped by the test; nobody looks after it.
    unsafe { others.read_volatile() };
    std::process::exit(0);
}

#[test]
fn the_limit_of_locked_memory_is_said() {
    const NAME: &str = "the_limit_of_locked_memory_is_said";
    if common::is_child() {
        let error = Map::options().lock().anonymous(1 << 20).expect_err("over the limit");
        assert_eq!(error, MapError::MemlockLimit { limit_bytes: 65_536, needed_bytes: 1 << 20 });
        assert!(error.to_string().ends_with("type: ulimit -l 1024"), "{error}");
        Map::options().lock().anonymous(32 << 10).expect("within the limit");
        // The report needs no privilege: sizes from the page tables, and a reason.
        let map = Map::options().page_size(PageSize::Huge2M).anonymous(2 << 20).expect("map");
        map.write_at(0, b"x").expect("write");
        let got = map.got().expect("got");
        assert!(got.total().expect("told").present_bytes() >= 4096, "{got}");
        return;
    }
    let mut command: Command = common::child(NAME);
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
            let refused = libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) != 0
                || libc::prctl(libc::PR_CAPBSET_DROP, 14, 0, 0, 0) != 0 // CAP_IPC_LOCK
                || libc::prctl(libc::PR_CAPBSET_DROP, 21, 0, 0, 0) != 0; // CAP_SYS_ADMIN
            if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let output = command.output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_page_size_that_is_not_there_is_said() {
    let sizes: Vec<_> = std::fs::read_dir("/sys/kernel/mm/hugepages").expect("pools").flatten().collect();
    assert!(!sizes.is_empty());
    let error = pagelab_mapping::Pool::read(std::path::Path::new("/"), 8 << 20).expect_err("no such pages on x86-64");
    let pagelab_mapping::ResidencyError::NoSuchPageSize { needed_bytes, found } = error else { panic!("{error}") };
    assert_eq!(needed_bytes, 8 << 20);
    assert!(found.contains("2048 KiB"), "{found}");
}

#[test]
#[ignore = "changes the hugetlb pool"]
fn host_a_pool_that_is_too_small_is_said() {
    let _pool = Pool::of(2);
    let error = Map::options().page_size(PageSize::Huge2M).hugetlb(8 << 20).expect_err("two pages are not four");
    assert_eq!(
        error,
        MapError::PoolTooSmall { page_bytes: 2 << 20, available_pages: 2, needed_pages: 4, total_pages: 2 }
    );
    assert!(error.to_string().ends_with("echo 4 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "{error}");
    let error = Map::options().page_size(PageSize::Huge1G).hugetlb(1 << 30).expect_err("none of 1 GiB");
    assert!(matches!(error, MapError::PoolTooSmall { .. } | MapError::NoSuchPageSize { .. }), "{error}");
    let map = Map::options().page_size(PageSize::Huge2M).fall_back().hugetlb(8 << 20).expect("ordinary memory");
    map.write_at(0, b"x").expect("write");
    let got = map.got().expect("got");
    assert_eq!(got.slots.len(), 4);
}
