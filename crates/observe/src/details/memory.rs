//! Where the kernel maps all memory, found without its help: the address is chosen at boot, and not every kernel tells it.
//!
//! A page of our own is filled with words that nobody else has, and the kernel is asked for the number of its frame
//! (pagemap). The program tries the places where the map may begin until it meets these words at that frame. Then it walks our
//! own page table to the page: only if that leads to the same frame are page tables read at all.

use std::fs::File;
use std::os::unix::fs::FileExt;

use libbpf_rs::ProgramInput;

use super::skeleton::DetailsSkel;

/// `STEPS_MAX` of `bpf/details.bpf.c`: GiB that one run of the program looks at.
const STEPS: u64 = 512;
/// No machine has its top table farther up: 64 TiB.
const STEPS_MAX: u64 = 1 << 16;
/// The kernel may move the page between the question and the look.
const ATTEMPTS: u32 = 3;
const PAGE_BYTES: usize = 4096;
/// Bits of an entry of /proc/PID/pagemap that hold the frame, and the one that says that there is one.
const FRAME_MASK: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// Words at the beginning of a page.
#[repr(C, align(4096))]
struct Marked([u64; PAGE_BYTES / 8]);

/// Finds it and tells the programs.
///
/// # Errors
/// The reason in words; page tables are then not read.
pub(super) fn find(skel: &mut DetailsSkel<'static>) -> Result<(), String> {
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        match attempt(skel) {
            Ok(base) => {
                let bss = skel.maps.bss_data.as_deref_mut().ok_or("the program's variables cannot be reached")?;
                bss.memory_base = base;
                return Ok(());
            }
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

fn attempt(skel: &mut DetailsSkel<'static>) -> Result<u64, String> {
    let mut page = Box::new(Marked([0; PAGE_BYTES / 8]));
    // Its own address is where no other page has these words, and the clock tells it from an older copy.
    let words = [
        std::ptr::from_ref(&*page) as u64 ^ 0x7061_6765_6c61_6200,
        rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_nsec as u64 ^ !0,
    ];
    page.0[..2].copy_from_slice(&words);
    let page = std::hint::black_box(page);
    let addr = std::ptr::from_ref(&*page) as u64;
    let frame = frame_of(addr)?;
    let bss = skel.maps.bss_data.as_deref_mut().ok_or("the program's variables cannot be reached")?;
    (bss.wanted_frame, bss.wanted_words, bss.wanted_addr, bss.found_base) = (frame, words, addr, 0);
    for first in (0..STEPS_MAX).step_by(STEPS as usize) {
        if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
            bss.first_step = first;
        }
        let run = skel.progs.find_memory.test_run(ProgramInput::default());
        run.map_err(|error| format!("the program that finds memory cannot run: {error:#}"))?;
        let Some(bss) = skel.maps.bss_data.as_deref() else { break };
        if bss.found_base == 0 {
            continue;
        }
        if (bss.found_frame, bss.found_level) != (frame, 1) {
            return Err(format!(
                "the page table of pagelab itself leads to frame {:#x} (level {}) for a page of frame {frame:#x}; needed: the \
                 same, as on x86-64 without encrypted memory",
                bss.found_frame, bss.found_level
            ));
        }
        drop(page);
        return Ok(bss.found_base);
    }
    Err("found nowhere in 64 TiB the kernel's map of all memory; needed: one in steps of 1 GiB, as on x86-64"
        .to_owned())
}

/// The frame of the page at an address of this process.
fn frame_of(addr: u64) -> Result<u64, String> {
    let mut entry = [0; size_of::<u64>()];
    let at = addr / PAGE_BYTES as u64 * entry.len() as u64;
    let read = File::open("/proc/self/pagemap").and_then(|file| file.read_exact_at(&mut entry, at));
    read.map_err(|error| format!("/proc/self/pagemap: {error}"))?;
    let entry = u64::from_ne_bytes(entry);
    match entry & FRAME_MASK {
        frame if entry & PRESENT != 0 && frame != 0 => Ok(frame),
        _ => {
            Err("/proc/self/pagemap gives no frame numbers; needed: CAP_SYS_ADMIN; try: sudo pagelab record ..."
                .to_owned())
        }
    }
}
