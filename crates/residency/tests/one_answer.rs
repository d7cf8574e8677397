//! A glance (what recordings keep) and a close look (what `doctor --pid` shows) at the same process give the same answers, and those
//! are the kernel's.
//!
//! Each had a policy of its own once, and they disagreed: over files that end inside a huge page of a `within_size` mount, over which of
//! two obstacles to name, over mounts of another namespace, PR_THP_DISABLE_EXCEPT_ADVISED, files of disks, pages of zeros. A child sets
//! these situations up in a mount namespace of its own; smaps is the witness of what the kernel gave.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use pagelab_residency::stat::{self, Stat};
use pagelab_residency::{Asked, Glance, Glancer, HUGE_2M_BYTES, Mapping, Reason, process};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of Linux 6.18.
const EXCEPT_ADVISED: libc::c_ulong = 2;
const SLOT: usize = HUGE_2M_BYTES;
const CHILD: &str = "PAGELAB_RESIDENCY_SITUATIONS";
const NAME: &str = "a_glance_and_a_close_look_agree_with_each_other_and_with_the_kernel";

/// Reasons that only a close look can give: they take frames, free memory, counters or control groups.
const CLOSE_ONLY: [&str; 13] = [
    "unknown",
    "earlier_base_entries",
    "khugepaged_limit",
    "file_in_base_pages",
    "copied_after_fork",
    "entries_split",
    "part_given_back",
    "moved",
    "swapped",
    "merged",
    "cgroup_limit",
    "fragmented",
    "defrag_setting",
];

#[test]
fn a_glance_and_a_close_look_agree_with_each_other_and_with_the_kernel() {
    if std::env::var_os(CHILD).is_some() {
        return situations();
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not looked at: mounting a tmpfs takes root");
    }
    let scene = Scene::start();
    let pid = scene.child.id();
    let close = process(pid).expect("a child of this process");
    let glances = Glancer::new(Path::new("/")).expect("this host has smaps").look(pid).expect("it lives");
    let mut compared = 0;
    for glance in &glances {
        let mapping = close.mappings.iter().find(|one| one.start == glance.vma.start).expect("both list all mappings");
        assert_eq!(glance.asked, mapping.asked, "{glance:?}");
        assert_eq!(glance.vma.path_text(), mapping.path);
        let Some(held) = mapping.held.filter(|_| !glance.vma.is_hugetlb()) else { continue };
        assert_eq!(
            (glance.held.base_bytes, glance.held.huge_2m_bytes),
            (held.base_bytes, held.huge_2m_bytes),
            "{glance:?}"
        );
        compared += u32::from(same_reason(glance, mapping));
    }
    assert!(compared >= 5, "{compared} mappings have a reason");
    for (name, address, expected) in &scene.said {
        let glance = glances.iter().find(|one| one.vma.start == *address).expect("a mapping of the scene");
        let (asked, reason) = (glance.asked.map(Asked::word), glance.reason.as_ref().map(Reason::word));
        let found = format!("{} {} {}", asked.unwrap_or("-"), reason.unwrap_or("-"), glance.vma.huge_bytes() >> 20);
        assert_eq!(found, *expected, "{name}: {glance:?}");
        assert_eq!(glance.held.huge_2m_bytes, glance.vma.huge_bytes(), "{name}: smaps and the page tables");
    }
    let read_only = &scene.said.iter().find(|(name, ..)| name == "read only").expect("a situation").1;
    let glance = glances.iter().find(|one| one.vma.start == *read_only).expect("a mapping of the scene");
    assert_eq!(
        (glance.held.zero_page_bytes, glance.vma.resident_bytes),
        (3 << 12, 0),
        "zeros are no memory of its own"
    );
}

/// Compares the reasons, if both gave one.
fn same_reason(glance: &Glance, mapping: &Mapping) -> bool {
    let most = mapping.short.iter().map(|short| short.base_bytes).max().unwrap_or_default();
    let close: Vec<&str> =
        mapping.short.iter().filter(|short| short.base_bytes == most).map(|short| short.reason.word()).collect();
    let (Some(reason), false) = (glance.reason.as_ref().map(Reason::word), close.is_empty()) else { return false };
    let agree = close.contains(&reason) || reason == "unknown" && close.iter().all(|word| CLOSE_ONLY.contains(word));
    assert!(agree, "a glance says {reason}, a close look {close:?}: {glance:?}");
    true
}

/// A child that has set the situations up and waits.
struct Scene {
    child: Child,
    /// Name, address and what is expected: asked, reason, MiB in huge pages.
    said: Vec<(String, u64, String)>,
    _output: Lines<BufReader<ChildStdout>>,
}

impl Scene {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args([NAME, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let mut child = command.spawn().expect("run");
        let mut said = Vec::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
        for line in output.by_ref() {
            let line = line.expect("text");
            if line == "ready" {
                break;
            }
            if let [_, name, address, expected] = *line.split('|').collect::<Vec<_>>() {
                said.push((name.to_owned(), address.parse().expect("an address"), expected.to_owned()));
            }
        }
        let scene = Self { child, said, _output: output };
        assert!(!scene.said.is_empty(), "the child set nothing up");
        scene.stop();
        scene
    }

    /// Stops the child, so that nothing changes while it is looked at.
    fn stop(&self) {
        let pid = self.child.id();
        // SAFETY: a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGSTOP) }, 0);
        let state = || Stat::of(&stat::read(&Path::new("/proc").join(pid.to_string()))?)?.state();
        while state() != Some('T') {
            std::thread::yield_now();
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the child: sets everything up, says where it lies, and waits.
fn situations() {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("a namespace of its own");
    let place = tempfile::tempdir().expect("tempdir");
    let always = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").expect("THP").contains("[always]");
    files_on_tmpfs(place.path());
    other_memory(always);
    // From here on only advised memory gets huge pages.
    // SAFETY: a flag of the process.
    if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0) } == 0 && always {
        let plain = map(None, 2 * SLOT, 0, libc::MAP_PRIVATE);
        write(plain, 2 * SLOT);
        say("except advised", plain, "always disabled_except_advised 0");
    }
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Tells the parent where memory lies, and what is to be said of it.
fn say(name: &str, address: usize, expected: &str) {
    println!("|{name}|{address}|{expected}");
}

/// A tmpfs of its own with these options.
fn tmpfs(place: &Path, name: &str, options: &str) -> PathBuf {
    let point = place.join(name);
    fs::create_dir(&point).expect("mkdir");
    let options = std::ffi::CString::new(options).expect("text");
    mount("none", &point, "tmpfs", MountFlags::empty(), Some(options.as_c_str())).expect("tmpfs");
    point
}

/// A file of this length. Its name has two blanks in a row.
fn file_of(folder: &Path, bytes: usize) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(folder.join("a  file"));
    let file = file.expect("a file");
    file.set_len(bytes as u64).expect("length");
    file
}

/// Files on tmpfs by the options of the mount.
fn files_on_tmpfs(place: &Path) {
    let within = file_of(&tmpfs(place, "within", "huge=within_size"), 3 << 20);
    say("within_size", shared(&within, 2 * SLOT, 0, 3 << 20), "mount beyond_file_size 2");
    let whole = file_of(&tmpfs(place, "always", "huge=always"), 3 << 20);
    say("always", shared(&whole, 2 * SLOT, 0, 3 << 20), "mount - 4");

    // Two obstacles at once, and then only the first: it stays when the second is gone.
    let never = tmpfs(place, "never", "huge=never");
    let file = file_of(&never, 2 * SLOT);
    say("misaligned and never", advised(&file, 2 * SLOT, 1 << 20), "madvise not_aligned 0");
    say("never", advised(&file, 2 * SLOT, 0), "madvise file_system_never 0");
    let point = tmpfs(place, "remounted", "huge=never");
    let file = file_of(&point, 2 * SLOT);
    let huge = std::ffi::CString::new("huge=always").expect("text");
    mount_remount(&point, MountFlags::empty(), huge.as_c_str()).expect("remount");
    say("misaligned", shared(&file, 2 * SLOT, 1 << 20, 2 * SLOT), "mount not_aligned 0");

    let copied = file_of(&tmpfs(place, "copied", "huge=always"), SLOT);
    shared(&copied, SLOT, 0, SLOT);
    let private = map(Some(&copied), SLOT, 0, libc::MAP_PRIVATE);
    write(private, 1);
    say("copied", private, "mount copied_on_write 0");
}

/// Memory of other kinds. `always`: anonymous memory gets huge pages without advice.
fn other_memory(always: bool) {
    let zeros = File::options().read(true).write(true).open("/dev/zero").expect("/dev/zero");
    let anonymous = map(Some(&zeros), SLOT, 0, libc::MAP_PRIVATE);
    write(anonymous, SLOT);
    if always {
        say("private /dev/zero", anonymous, "always - 2");
    }
    let read_only = map(None, SLOT, 0, libc::MAP_PRIVATE);
    advise(read_only, SLOT, libc::MADV_NOHUGEPAGE);
    for page in 0..3 {
        // SAFETY: inside the mapping, which is readable.
        unsafe { ((read_only + page * 4096) as *const u8).read_volatile() };
    }
    say("read only", read_only, "- - 0");
    let small = map(None, 2 * SLOT, 0, libc::MAP_PRIVATE);
    advise(small, 2 * SLOT, libc::MADV_HUGEPAGE);
    say("untouched", small, "madvise not_touched 0");

    // A file of a disk: smaps calls it not eligible, and counts its huge pages all the same.
    let disk = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    (&disk).write_all(&vec![1; 2 * SLOT]).expect("write");
    let mapped = map(Some(&disk), 2 * SLOT, 0, libc::MAP_SHARED);
    advise(mapped, 2 * SLOT, libc::MADV_HUGEPAGE);
    // SAFETY: inside the mapping, which is readable.
    (0..2 * SLOT).step_by(4096).for_each(|at| unsafe { _ = ((mapped + at) as *const u8).read_volatile() });

    // The first segment of a namespace has the number 0, and so has its inode.
    // SAFETY: a segment of this namespace, which goes with it.
    let segment = unsafe { libc::shmat(libc::shmget(0, SLOT, 0o1600), std::ptr::null(), 0) };
    write(segment as usize, SLOT);
}

/// A mapping of `bytes` at a multiple of 2 MiB, or `shift` beyond one, without neighbours.
fn map(file: Option<&File>, bytes: usize, shift: usize, sharing: libc::c_int) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let free = unsafe { libc::mmap(std::ptr::null_mut(), bytes + 4 * SLOT, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(free, libc::MAP_FAILED);
    let address = (free as usize + SLOT).next_multiple_of(SLOT) + shift;
    let (fd, kind) = file.map_or((-1, libc::MAP_ANONYMOUS), |file| (file.as_fd().as_raw_fd(), 0));
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, sharing | kind | libc::MAP_FIXED);
    // SAFETY: over a part of the reservation just made.
    let mapped = unsafe { libc::mmap(address as *mut _, bytes, protection, flags, fd, 0) };
    assert_eq!(mapped as usize, address, "{}", std::io::Error::last_os_error());
    address
}

/// A shared mapping of a file, of which the first `touched` bytes are written.
fn shared(file: &File, bytes: usize, shift: usize, touched: usize) -> usize {
    let address = map(Some(file), bytes, shift, libc::MAP_SHARED);
    write(address, touched);
    address
}

fn advised(file: &File, bytes: usize, shift: usize) -> usize {
    let address = map(Some(file), bytes, shift, libc::MAP_SHARED);
    advise(address, bytes, libc::MADV_HUGEPAGE);
    write(address, bytes);
    address
}

fn advise(address: usize, bytes: usize, advice: libc::c_int) {
    // SAFETY: a mapping of this test's, to which nobody holds references.
    assert_eq!(unsafe { libc::madvise(address as *mut _, bytes, advice) }, 0);
}

fn write(address: usize, bytes: usize) {
    // SAFETY: inside a mapping that is writable.
    (0..bytes).step_by(4096).for_each(|at| unsafe { ((address + at) as *mut u8).write_volatile(1) });
}
