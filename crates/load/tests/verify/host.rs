//! Verifying on real file systems: loop-mounted ext4 and xfs, tmpfs of huge pages, hugetlbfs.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::engines::{METHODS, flips_are_found};
use crate::{detected, run_in, verified};

fn tool(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A mounted file system, unmounted when dropped.
struct Mount {
    at: tempfile::TempDir,
    _image: Option<tempfile::TempDir>,
}

impl Mount {
    /// `options` as mount(8) takes them.
    fn new(options: &[&str], image: Option<(&str, u64)>) -> Self {
        let directory = image.map(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"));
        let mut source = "none".to_owned();
        if let (Some((kind, bytes)), Some(directory)) = (image, &directory) {
            let file: PathBuf = directory.path().join("image");
            std::fs::File::create(&file).and_then(|file| file.set_len(bytes)).expect("an image");
            source = file.display().to_string();
            let force = if kind == "ext4" { "-F" } else { "-f" };
            tool(&format!("mkfs.{kind}"), &["-q", force, &source]);
        }
        let at = tempfile::tempdir().expect("a directory");
        let place = at.path().display().to_string();
        tool("mount", &[options, &[&source, &place]].concat());
        Self { at, _image: directory }
    }

    fn path(&self) -> &Path {
        self.at.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.at.path()).status();
    }
}

/// The 2 MiB pool with this many pages; as it was when dropped.
struct Pool(String);

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

impl Pool {
    fn of(pages: u64) -> Self {
        let pool = Self(std::fs::read_to_string(POOL).expect("hugetlb"));
        std::fs::write(POOL, pages.to_string()).expect("set");
        let got = std::fs::read_to_string(POOL).expect("read");
        assert_eq!(got.trim(), pages.to_string(), "this host has {pages} huge pages to give");
        pool
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        std::fs::write(POOL, &self.0).expect("put back");
    }
}

const FILE_ENGINES: [&str; 8] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "io_uring", "libaio", "mmap"];

fn four_writers(place: &Path) {
    for more in ["--offset_increment=2m", "", "--loops=2"] {
        let job = format!("--filename=w --rw=randwrite --bs=4k --size=2m --numjobs=4 --verify=crc32c {more}");
        let (status, report) = run_in(place, &job);
        let mismatches: u64 = report.workers.iter().map(pagelab_load::report::WorkerReport::mismatches).sum();
        assert_eq!((status, mismatches), (0, 0), "{job}: {:?}", report.workers[0].failure);
    }
}

#[test]
#[ignore = "mounts a file system on a loop device"]
fn loop_ext4_is_verified() {
    let mount = Mount::new(&["-o", "loop"], Some(("ext4", 64 << 20)));
    flips_are_found(mount.path(), FILE_ENGINES.into_iter(), "");
    flips_are_found(mount.path(), ["psync", "io_uring", "libaio"].into_iter(), "--direct=1");
    four_writers(mount.path());
}

#[test]
#[ignore = "mounts a file system on a loop device"]
fn loop_xfs_is_verified() {
    let mount = Mount::new(&["-o", "loop"], Some(("xfs", 512 << 20)));
    flips_are_found(mount.path(), FILE_ENGINES.into_iter(), "");
    flips_are_found(mount.path(), ["psync", "io_uring", "libaio"].into_iter(), "--direct=1");
    four_writers(mount.path());
}

/// What was flushed is verified from the medium, also where it was written and is read through a mapping: the disk counts it. With
/// invalidate=0 it comes from the page cache, as the job wants it; and so does what nobody flushed, as in fio, because pages that are to
/// be written cannot be dropped.
#[test]
#[ignore = "mounts a file system on a loop device"]
fn loop_what_is_verified_comes_from_the_medium() {
    let mount = Mount::new(&["-o", "loop"], Some(("ext4", 64 << 20)));
    for engine in ["psync", "mmap", "mmap --map_granularity=64k", "mmap --map_populate=1"] {
        for (how, from_disk) in
            [("--invalidate=1 --end_fsync=1", true), ("--invalidate=0 --end_fsync=1", false), ("--invalidate=1", false)]
        {
            let job = format!("--filename=f --ioengine={engine} --rw=randwrite --bs=4k --size=2m --verify=md5 {how}");
            let (status, report) = run_in(mount.path(), &job);
            assert_eq!((status, report.disks.len()), (0, 1), "{job}: {:?}", report.disks);
            let pages = report.disks[0].read_ios + report.disks[0].read_merges;
            // Random advice keeps the kernel from reading ahead; populating a mapping reads many pages at a time.
            let least = if engine.contains("populate") { 8 } else { 500 };
            assert_eq!(pages >= least, from_disk, "{job}: {:?}", report.disks);
            std::fs::remove_file(mount.path().join("f")).expect("remove");
        }
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_tmpfs_of_huge_pages_is_verified() {
    let mount = Mount::new(&["-t", "tmpfs", "-o", "huge=always,size=64m"], None);
    flips_are_found(mount.path(), FILE_ENGINES.into_iter(), "");
    four_writers(mount.path());
}

/// Changes one bit of a file that takes no write(2).
fn flip_mapped(path: &Path, at: usize, bytes: usize) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the file");
    // SAFETY: a new shared mapping of a file of `bytes` bytes, changed within its length and unmapped again.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(start, libc::MAP_FAILED);
        *start.cast::<u8>().add(at) ^= 0x08;
        libc::munmap(start, bytes);
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_hugetlbfs_is_verified() {
    let _pool = Pool::of(8);
    let mount = Mount::new(&["-t", "hugetlbfs", "-o", "pagesize=2M"], None);
    for method in METHODS {
        for rw in ["write", "randwrite"] {
            // What is written apart from the file goes elsewhere: hugetlbfs takes no write(2).
            let place = tempfile::tempdir().expect("tempdir");
            let file = mount.path().join("f");
            let job =
                format!("--filename={} --ioengine=mmap --rw={rw} --bs=4k --size=8m --verify={method}", file.display());
            assert_eq!(verified(place.path(), &job), 2048, "{job}");
            assert_eq!(verified(place.path(), &format!("{job} --verify_only=1 --map_granularity=2m")), 2048, "{job}");
            flip_mapped(&file, 700 * 4096 + 13, 8 << 20);
            detected(place.path(), &format!("{job} --verify_only=1"), 700 * 4096);
            std::fs::remove_file(&file).expect("remove");
        }
    }
    let place = tempfile::tempdir().expect("tempdir");
    let file = mount.path().join("w");
    let job = format!(
        "--filename={} --ioengine=mmap --rw=randwrite --bs=4k --size=2m --numjobs=4 --offset_increment=2m --verify=crc32c",
        file.display()
    );
    assert_eq!(verified(place.path(), &job), 2048);
    std::fs::remove_file(&file).expect("remove");
    for more in ["", "--map_granularity=2m", "--map_share=shared"] {
        let job = format!("--ioengine=anon --hugetlb=2m --rw=randwrite --bs=4k --size=8m --verify=sha256 {more}");
        assert_eq!(verified(place.path(), &job), 2048, "{job}");
    }
}
