//! What the kernel makes of settings that hold for the whole host.

use std::ffi::c_int;
use std::fs;

use pagelab_residency::thp::chosen_word;
use pagelab_residency::{HUGE_2M_BYTES, PageSize, inspect};

const ALL: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled";

/// A setting that has its old word again when this is dropped.
struct Setting(&'static str, String);

impl Setting {
    fn set(path: &'static str, word: &str) -> Self {
        let text = fs::read_to_string(path).expect("a setting");
        let old = Self(path, chosen_word(&text).expect("a word in brackets").to_owned());
        fs::write(path, word).expect("root");
        old
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.0, &self.1) {
            eprintln!("{} is not {:?} again: {error}", self.0, self.1);
        }
    }
}

/// Memfd follows the word of the size, a System V segment the word for all sizes.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_segments_do_not_follow_the_setting_of_a_size() {
    for (all, size, of_memfd, of_segment) in
        [("never", "always", None, Some("shmem_never")), ("always", "never", Some("shmem_never"), None)]
    {
        let _settings = (Setting::set(ALL, all), Setting::set(SIZE, size));
        assert_eq!(reason(memfd()), of_memfd, "memfd, {all} and 2M {size}");
        assert_eq!(reason(segment()), of_segment, "segment, {all} and 2M {size}");
    }
}

/// Why the 2 MiB at an address are not one huge page; none if they are.
fn reason(address: usize) -> Option<&'static str> {
    // SAFETY: inside a mapping that is writable.
    (0..HUGE_2M_BYTES).step_by(4096).for_each(|at| unsafe { ((address + at) as *mut u8).write_volatile(1) });
    let got = inspect(address, HUGE_2M_BYTES, PageSize::Huge2M).expect("look");
    let reason = got.slots.first().expect("a slot").reason.as_ref().map(pagelab_residency::Reason::word);
    assert_eq!(got.total().expect("told").huge_2m_bytes == HUGE_2M_BYTES as u64, reason.is_none(), "{got}");
    reason
}

/// Addresses for 2 MiB at a multiple of 2 MiB.
fn place() -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let free = unsafe { libc::mmap(std::ptr::null_mut(), 3 * HUGE_2M_BYTES, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(free, libc::MAP_FAILED);
    (free as usize).next_multiple_of(HUGE_2M_BYTES)
}

fn memfd() -> usize {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: a file of this test's own, mapped over addresses that nobody uses.
    unsafe {
        let file = libc::memfd_create(c"huge".as_ptr(), 0);
        assert_eq!(libc::ftruncate(file, HUGE_2M_BYTES as libc::off_t), 0);
        libc::mmap(place() as *mut _, HUGE_2M_BYTES, protection, flags, file, 0) as usize
    }
}

fn segment() -> usize {
    // SAFETY: a segment of this test's own, attached over addresses that nobody uses; it goes with the process.
    unsafe {
        let id: c_int = libc::shmget(libc::IPC_PRIVATE, HUGE_2M_BYTES, 0o1600);
        let address = libc::shmat(id, place() as *const _, libc::SHM_REMAP);
        assert_eq!(libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()), 0);
        address as usize
    }
}
