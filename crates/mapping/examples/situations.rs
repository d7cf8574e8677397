//! Plays one situation in which the kernel gives, or does not give, huge pages, and says what the library saw, as one line of JSON:
//! for each 2 MiB the page size, the reason, and how many page faults touching it should have taken. An outside program can hold
//! that against what it sees itself: `/proc/PID/pagemap` and `/proc/kpageflags`, or a recording:
//!
//!     pagelab record -o DIR --observe faults -- situations thp_advised
//!
//! Usage: situations NAME [--hold]        situations --list
//!
//! `--hold` keeps everything as it is until standard input ends. What a situation needs of the host (a hugetlb pool, a control
//! group, THP set to never) its user provides; tmpfs is mounted where nobody else sees it, which takes root.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use pagelab_mapping::{Advice, Got, Map, MapError, PageSize, Slot, base_page_bytes};

const SLOT: usize = 2 << 20;
/// Length of most maps.
const BYTES: usize = 4 * SLOT;

/// What a situation leaves behind for the line that is printed.
struct Played {
    map: Map,
    /// Faults that touching each slot should have taken, computed from the slot; `None` where it cannot be known beforehand.
    faults: Vec<Option<u64>>,
    /// What went wrong on purpose.
    error: Option<MapError>,
    /// A process that shares the memory.
    child: Option<libc::pid_t>,
}

impl Played {
    fn new(map: Map, faults: &[u64]) -> Self {
        Self { map, faults: faults.iter().copied().map(Some).collect(), error: None, child: None }
    }
}

type Play = fn() -> Result<Played, MapError>;

const SITUATIONS: &[(&str, Play)] = &[
    ("thp_advised", || anonymous(PageSize::Huge2M, &[1; 4])),
    ("thp_any_if_always", || anonymous(PageSize::Any, &[1; 4])),
    ("thp_any_if_madvise", || anonymous(PageSize::Any, &[512; 4])),
    ("thp_advised_against", || anonymous(PageSize::Base, &[512; 4])),
    ("thp_off_for_process", || {
        thp_off();
        anonymous(PageSize::Huge2M, &[512; 4])
    }),
    ("thp_advised_if_never", || anonymous(PageSize::Huge2M, &[512; 4])),
    ("untouched", || Ok(Played::new(huge().anonymous(BYTES)?, &[0; 4]))),
    ("shifted", || {
        let map = huge().shifted(4096).anonymous(BYTES)?;
        touch(&map, 0, BYTES)?;
        Ok(Played::new(map, &[511, 1, 1, 1, 1]))
    }),
    ("too_small", || {
        let map = huge().anonymous(SLOT / 2)?;
        touch(&map, 0, SLOT / 2)?;
        Ok(Played::new(map, &[256]))
    }),
    ("pool", || hugetlb(&[1; 4])),
    ("pool_empty", || {
        thp_off();
        let map = huge().fall_back().hugetlb(BYTES)?;
        touch(&map, 0, BYTES)?;
        Ok(Played::new(map, &[512; 4]))
    }),
    ("pool_limited_by_cgroup", pool_limited_by_cgroup),
    ("memory_limited_by_cgroup", memory_limited_by_cgroup),
    ("earlier_entry", earlier_entry),
    ("collapse", collapse),
    ("split_by_munmap", || {
        let played = anonymous(PageSize::Huge2M, &[1; 4])?;
        let hole = played.map.address() + SLOT + SLOT / 2;
        // SAFETY: a page of the map, to which nobody has a reference and which is not read from here on.
        unsafe { libc::munmap(hole as *mut libc::c_void, base_page_bytes()) };
        Ok(played)
    }),
    ("split_by_mprotect", || {
        let played = anonymous(PageSize::Huge2M, &[1; 4])?;
        let page = played.map.address() + SLOT + SLOT / 2;
        // SAFETY: a page of the map, which is not written from here on.
        unsafe { libc::mprotect(page as *mut libc::c_void, base_page_bytes(), libc::PROT_READ) };
        Ok(played)
    }),
    ("split_by_advice", || {
        let played = anonymous(PageSize::Huge2M, &[1; 4])?;
        played.map.advise(SLOT, SLOT / 2, Advice::DontDump)?;
        Ok(played)
    }),
    ("entries_split", || {
        let played = anonymous(PageSize::Huge2M, &[1; 4])?;
        let page = (played.map.address() + SLOT + SLOT / 2) as *mut libc::c_void;
        // SAFETY: a page of the map, which is not written meanwhile.
        unsafe {
            libc::mprotect(page, base_page_bytes(), libc::PROT_READ);
            libc::mprotect(page, base_page_bytes(), libc::PROT_READ | libc::PROT_WRITE);
        }
        Ok(played)
    }),
    ("fork_and_write", fork_and_write),
    ("tmpfs_never", || tmpfs(c"huge=never", PageSize::Huge2M, &[512; 4])),
    ("tmpfs_always", || tmpfs(c"huge=always", PageSize::Any, &[1; 4])),
    ("tmpfs_within_size", || tmpfs(c"huge=within_size", PageSize::Any, &[1; 4])),
    ("tmpfs_advise", || tmpfs(c"huge=advise", PageSize::Huge2M, &[1; 4])),
    ("tmpfs_advise_unadvised", || tmpfs(c"huge=advise", PageSize::Any, &[512; 4])),
    ("tmpfs_shifted", tmpfs_shifted),
    ("tmpfs_private_write", tmpfs_private_write),
    ("tmpfs_written_before", tmpfs_written_before),
    ("tmpfs_file_ends", tmpfs_file_ends),
];

fn huge() -> pagelab_mapping::MapOptions {
    Map::options().page_size(PageSize::Huge2M)
}

/// Writes to every base page.
fn touch(map: &Map, offset: usize, bytes: usize) -> Result<(), MapError> {
    (offset..offset + bytes).step_by(base_page_bytes()).try_for_each(|at| map.write_at(at, &[1]))
}

fn anonymous(page_size: PageSize, faults: &[u64]) -> Result<Played, MapError> {
    let map = Map::options().page_size(page_size).anonymous(BYTES)?;
    touch(&map, 0, BYTES)?;
    Ok(Played::new(map, faults))
}

fn hugetlb(faults: &[u64]) -> Result<Played, MapError> {
    let map = huge().hugetlb(BYTES)?;
    touch(&map, 0, BYTES)?;
    Ok(Played::new(map, faults))
}

fn thp_off() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// The pool has enough, the group may use 4 MiB: the third slot is refused when it is touched.
fn pool_limited_by_cgroup() -> Result<Played, MapError> {
    let map = huge().hugetlb(BYTES)?;
    let error = touch(&map, 0, BYTES).err();
    // The refused slot faults for each try; how often is nobody's promise.
    Ok(Played { map, faults: vec![Some(1), Some(1), None, Some(0)], error, child: None })
}

/// One page of each slot of more than the group may hold in huge pages.
fn memory_limited_by_cgroup() -> Result<Played, MapError> {
    const SLOTS: usize = 16;
    let map = huge().anonymous(SLOTS * SLOT)?;
    (0..SLOTS).try_for_each(|slot| map.write_at(slot * SLOT, &[1]))?;
    Ok(Played::new(map, &[1; SLOTS]))
}

fn earlier_entry() -> Result<Played, MapError> {
    let map = huge().anonymous(BYTES)?;
    map.advise(0, BYTES, Advice::NoHugePage)?;
    map.write_at(SLOT, &[1])?;
    map.write_at(3 * SLOT + 5, &[1])?;
    map.advise(0, BYTES, Advice::HugePage)?;
    touch(&map, 0, BYTES)?;
    Ok(Played::new(map, &[1, 512, 1, 512]))
}

fn collapse() -> Result<Played, MapError> {
    let map = huge().anonymous(BYTES)?;
    map.advise(0, BYTES, Advice::NoHugePage)?;
    touch(&map, 0, BYTES)?;
    map.advise(0, BYTES, Advice::HugePage)?;
    map.collapse(SLOT, 2 * SLOT)?;
    Ok(Played::new(map, &[512; 4]))
}

/// The child shares the memory and waits until this process has ended.
fn fork_and_write() -> Result<Played, MapError> {
    let mut played = anonymous(PageSize::Huge2M, &[1, 2, 1, 1])?;
    // SAFETY: one thread; the child only waits, and ends with its parent.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
        child
    };
    played.map.write_at(SLOT + SLOT / 2, &[2])?;
    played.child = Some(child);
    Ok(played)
}

fn system(what: &'static str) -> MapError {
    MapError::System { what, errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL) }
}

fn mount_tmpfs(flags: libc::c_ulong, options: &CStr) -> Result<(), MapError> {
    let tmpfs = c"tmpfs".as_ptr();
    // SAFETY: all pointers are C strings.
    match unsafe { libc::mount(tmpfs, c"/tmp".as_ptr(), tmpfs, flags, options.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(system("mounting tmpfs")),
    }
}

/// A file of `bytes` on a tmpfs that this process alone sees, and that goes with it.
fn file_on_tmpfs(options: &CStr, bytes: usize) -> Result<File, MapError> {
    // SAFETY: all pointers are C strings or null, as mount(2) takes them.
    unsafe {
        let null = std::ptr::null();
        if libc::unshare(libc::CLONE_NEWNS) != 0
            || libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) != 0
        {
            return Err(system("unshare(CLONE_NEWNS), which takes root"));
        }
    }
    mount_tmpfs(0, options)?;
    let file = File::options().read(true).write(true).create(true).truncate(true).open("/tmp/situation");
    let file = file.map_err(|_| system("making a file"))?;
    file.set_len(bytes as u64).map_err(|_| system("giving the file its length"))?;
    Ok(file)
}

fn tmpfs(options: &CStr, page_size: PageSize, faults: &[u64]) -> Result<Played, MapError> {
    let file = file_on_tmpfs(options, BYTES)?;
    let map = Map::options().page_size(page_size).file(&file, 0, BYTES)?;
    touch(&map, 0, BYTES)?;
    Ok(Played::new(map, faults))
}

/// The file has huge pages, the map does not. A fault enters a large folio as a whole only where it fits into one page table
/// (finish_fault in the kernel's mm/memory.c), which a huge page that is 4 KiB off never does: page by page.
fn tmpfs_shifted() -> Result<Played, MapError> {
    let file = file_on_tmpfs(c"huge=always", BYTES)?;
    let map = huge().shifted(4096).file(&file, 0, BYTES)?;
    touch(&map, 0, BYTES)?;
    Ok(Played::new(map, &[511, 512, 512, 512, 1]))
}

/// Written pages of a private map are copies.
fn tmpfs_private_write() -> Result<Played, MapError> {
    let file = file_on_tmpfs(c"huge=always", BYTES)?;
    // It stays until the other one has its addresses, which would get this one's faults otherwise.
    let shared = Map::options().file(&file, 0, BYTES)?;
    touch(&shared, 0, BYTES)?;
    let map = huge().private().file(&file, 0, BYTES)?;
    touch(&map, SLOT, SLOT)?;
    Ok(Played::new(map, &[0, 512, 0, 0]))
}

/// The second slot of the file came into memory while the mount said never.
fn tmpfs_written_before() -> Result<Played, MapError> {
    let file = file_on_tmpfs(c"huge=never", BYTES)?;
    let before = Map::options().file(&file, 0, BYTES)?;
    touch(&before, SLOT, SLOT)?;
    mount_tmpfs(libc::MS_REMOUNT, c"huge=always")?;
    let map = Map::options().file(&file, 0, BYTES)?;
    touch(&map, 0, BYTES)?;
    Ok(Played::new(map, &[1, 512, 1, 1]))
}

/// The file ends in the middle of the last slot.
fn tmpfs_file_ends() -> Result<Played, MapError> {
    let file = file_on_tmpfs(c"huge=within_size", BYTES)?;
    let map = Map::options().file(&file, 0, BYTES)?;
    file.set_len((BYTES - SLOT / 2) as u64).map_err(|_| system("truncating the file"))?;
    touch(&map, 0, BYTES - SLOT / 2)?;
    Ok(Played::new(map, &[1, 1, 1, 256]))
}

fn line(name: &str, played: &Played, got: &Got) -> String {
    let slots: Vec<String> =
        got.slots.iter().zip(&played.faults).map(|(slot, faults)| of_slot(slot, *faults)).collect();
    let error = played.error.as_ref().map_or("null".to_owned(), |error| format!("{:?}", error.to_string()));
    format!(
        "{{\"situation\":\"{name}\",\"pid\":{},\"address\":{},\"bytes\":{},\"slots\":[{}],\"error\":{error}}}",
        std::process::id(),
        got.address,
        got.bytes,
        slots.join(",")
    )
}

fn of_slot(slot: &Slot, faults: Option<u64>) -> String {
    let held = slot.held.unwrap_or_default();
    format!(
        "{{\"address\":{},\"bytes\":{},\"got\":{},\"base_bytes\":{},\"huge_2m_bytes\":{},\"reason\":{},\"faults\":{}}}",
        slot.address,
        slot.bytes,
        slot.page_size().map_or("null".to_owned(), |size| format!("\"{}\"", size.word())),
        held.base_bytes,
        held.huge_2m_bytes,
        slot.reason.as_ref().map_or("null".to_owned(), |reason| format!("\"{}\"", reason.word())),
        faults.map_or("null".to_owned(), |faults| faults.to_string())
    )
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().map_or("", String::as_str);
    if name == "--list" {
        for (name, _) in SITUATIONS {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    let Some((_, play)) = SITUATIONS.iter().find(|(known, _)| *known == name) else {
        eprintln!("situations: found {name:?}, needed a name of situations --list");
        return ExitCode::from(2);
    };
    let outcome = play().and_then(|played| {
        let got = played.map.got_for(PageSize::Huge2M)?;
        println!("{}", line(name, &played, &got));
        _ = std::io::stdout().flush();
        if words.iter().any(|word| word == "--hold") {
            _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        if let Some(child) = played.child {
            // SAFETY: the process that this one forked, not yet reaped.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("situations {name}: {error}");
            ExitCode::from(3)
        }
    }
}
