//! SIGBUS as an error of one copy instead of the end of the process.
//!
//! The kernel sends SIGBUS when a mapped address has no page to show: the file was truncated, its medium failed, a hugetlb pool ran
//! dry, memory was poisoned. The handler looks the address up among the ranges of this library, notes which page failed, and puts
//! anonymous memory under it so that the interrupted copy can end; the copy then finds the note, reports an error, and lays the
//! map's own backing there again, so that a later access tells the truth.
//!
//! What the handler reads are atomics in memory that is never freed (a chain of blocks of slots), or that lives as long as the map
//! (its bits); `mmap` is its only system call, which is async-signal-safe on Linux, for it takes no user-space lock. Addresses of
//! others go to the handler that was installed before. A program that installs a SIGBUS handler after its first map takes over.
//!
//! Memory that others mapped is registered too ([`Watch`](crate::Watch)); nothing puts its own backing there again, so that its slot
//! has no bits, only the first address that failed.
//!
//! How copies of several threads find out: a watch counts failures and repairs in one word. A copy whose word is settled (as many
//! repairs as failures) and the same before and after has met no replaced page, whoever's fault it was.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// Slots of one block of the registry.
const BLOCK_SLOTS: usize = 256;

/// What the handler knows of one range. All zero: nobody's. One cache line: every copy reads one or two of the numbers.
#[repr(align(64))]
pub(crate) struct Slot {
    taken: AtomicBool,
    low: AtomicUsize,
    high: AtomicUsize,
    /// What is replaced at once, a power of two: hugetlb mappings can be cut nowhere else.
    unit_bytes: AtomicUsize,
    /// One bit for each unit that has been replaced; null for ranges whose pages stay replaced.
    bits: AtomicPtr<AtomicU64>,
    /// Pages replaced.
    failures: AtomicU64,
    /// Failures that copies have reported and whose pages are the map's own again.
    settled: AtomicU64,
    /// Whether the hardware lost a page: its contents must not come back as zeros.
    poisoned: AtomicBool,
    /// The first address that failed; 0 for none (nobody maps page 0).
    failed: AtomicUsize,
}

// Another number would make it two.
const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    const fn empty() -> Self {
        Self {
            taken: AtomicBool::new(false),
            low: AtomicUsize::new(0),
            high: AtomicUsize::new(0),
            unit_bytes: AtomicUsize::new(0),
            bits: AtomicPtr::new(ptr::null_mut()),
            failures: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            poisoned: AtomicBool::new(false),
            failed: AtomicUsize::new(0),
        }
    }

    /// The first address of the range that had no page; 0 for none.
    #[inline]
    pub(crate) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    /// Makes the handler forget the range. Nobody may be accessing it any more, so that no handler is at work on it.
    pub(crate) fn give_back(&self) {
        self.high.store(0, Ordering::Release);
        self.low.store(0, Ordering::Release);
        self.bits.store(ptr::null_mut(), Ordering::Release);
        self.taken.store(false, Ordering::Release);
    }
}

struct Block {
    slots: [Slot; BLOCK_SLOTS],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn empty() -> Self {
        Self { slots: [const { Slot::empty() }; BLOCK_SLOTS], next: AtomicPtr::new(ptr::null_mut()) }
    }
}

static FIRST: Block = Block::empty();

/// Goes through the chain of blocks. Blocks are never freed.
fn blocks() -> impl Iterator<Item = &'static Block> {
    let mut next: *const Block = &raw const FIRST;
    std::iter::from_fn(move || {
        // SAFETY: null, the static, or a block that was leaked before its address was published.
        let block: &'static Block = unsafe { next.as_ref() }?;
        next = block.next.load(Ordering::Acquire);
        Some(block)
    })
}

/// Makes the handler look after `bytes` from `low`, both multiples of `unit_bytes`, a power of two. `bits` are one for each unit,
/// and live until the slot is given back; or null.
pub(crate) fn register(low: usize, bytes: usize, unit_bytes: usize, bits: *mut AtomicU64) -> &'static Slot {
    INSTALL.call_once(install);
    let slot = take_slot();
    slot.failures.store(0, Ordering::Relaxed);
    slot.settled.store(0, Ordering::Relaxed);
    slot.poisoned.store(false, Ordering::Relaxed);
    slot.failed.store(0, Ordering::Relaxed);
    slot.unit_bytes.store(unit_bytes, Ordering::Relaxed);
    slot.bits.store(bits, Ordering::Relaxed);
    slot.low.store(low, Ordering::Relaxed);
    // Last: a slot is alive once its end is above its beginning.
    slot.high.store(low + bytes, Ordering::Release);
    slot
}

/// The handler's view of one map, as long as it lives.
#[derive(Debug)]
pub(crate) struct MapWatch {
    slot: &'static Slot,
    bits: Box<[AtomicU64]>,
    unit_bytes: usize,
    low: usize,
    units: usize,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({:#x}..{:#x})", self.low.load(Ordering::Relaxed), self.high.load(Ordering::Relaxed))
    }
}

/// What a copy remembers while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before(u64);

impl MapWatch {
    /// Watches `bytes` from `low`, both multiples of `unit_bytes`, a power of two.
    pub(crate) fn new(low: usize, bytes: usize, unit_bytes: usize) -> Self {
        let units = bytes.div_ceil(unit_bytes);
        // Zeroed by the kernel and untouched until needed: one bit for 4 KiB.
        let bits: Box<[u64]> = vec![0_u64; units.div_ceil(64)].into_boxed_slice();
        // SAFETY: AtomicU64 has the size, alignment and bit patterns of u64.
        let bits: Box<[AtomicU64]> = unsafe { Box::from_raw(Box::into_raw(bits) as *mut [AtomicU64]) };
        let slot = register(low, bytes, unit_bytes, bits.as_ptr().cast_mut());
        Self { slot, bits, unit_bytes, low, units }
    }

    /// Before a copy: `None` if pages that were replaced have not been put right yet.
    #[inline]
    pub(crate) fn before(&self) -> Option<Before> {
        let failures = self.slot.failures.load(Ordering::Acquire);
        (failures == self.slot.settled.load(Ordering::Acquire)).then_some(Before(failures))
    }

    /// After a copy: whether no page of the map was replaced meanwhile.
    #[inline]
    pub(crate) fn whole_since(&self, before: Before) -> bool {
        // The copy is done by this thread, and so is the handler's work for it: the compiler is all that could reorder.
        compiler_fence(Ordering::SeqCst);
        self.slot.failures.load(Ordering::Acquire) == before.0
    }

    /// The first replaced unit that `bytes` at address `from` touch, as an address.
    pub(crate) fn replaced_in(&self, from: usize, bytes: usize) -> Option<usize> {
        let first = from.checked_sub(self.low)? / self.unit_bytes;
        let end = (from + bytes - self.low).div_ceil(self.unit_bytes);
        (first..end.min(self.units)).find(|unit| self.bit(*unit)).map(|unit| self.low + unit * self.unit_bytes)
    }

    /// Lays the map's own backing over every replaced unit by `put_back(address, bytes)`; where it fails the unit stays replaced,
    /// and copies that touch it go on failing. The caller lets no other thread in here meanwhile.
    pub(crate) fn settle(&self, mut put_back: impl FnMut(usize, usize) -> bool) {
        let failures = self.slot.failures.load(Ordering::Acquire);
        let mut lost = false;
        for (index, word) in self.bits.iter().enumerate() {
            let mut left = word.load(Ordering::Acquire);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let address = self.low + (index * 64 + bit as usize) * self.unit_bytes;
                // Cleared first: a failure right after the page was put back sets it again.
                word.fetch_and(!(1 << bit), Ordering::AcqRel);
                if !put_back(address, self.unit_bytes) {
                    word.fetch_or(1 << bit, Ordering::AcqRel);
                    lost = true;
                }
            }
        }
        // While a unit is lost no copy takes the short way.
        self.slot.settled.store(if lost { u64::MAX } else { failures }, Ordering::Release);
    }

    /// Whether the hardware lost a page of the map (its memory failed).
    pub(crate) fn poisoned(&self) -> bool {
        self.slot.poisoned.load(Ordering::Relaxed)
    }

    fn bit(&self, unit: usize) -> bool {
        self.bits.get(unit / 64).is_some_and(|word| word.load(Ordering::Acquire) & (1 << (unit % 64)) != 0)
    }
}

impl Drop for MapWatch {
    fn drop(&mut self) {
        self.slot.give_back();
    }
}

/// A free slot, in a new block if there is none.
fn take_slot() -> &'static Slot {
    loop {
        let mut last = &FIRST;
        for block in blocks() {
            last = block;
            for slot in &block.slots {
                let free = !slot.taken.load(Ordering::Relaxed);
                if free && slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return slot;
                }
            }
        }
        let fresh = Box::into_raw(Box::new(Block::empty()));
        if last.next.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above and published to nobody, since another thread was faster.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

static INSTALL: Once = Once::new();

struct Previous(UnsafeCell<libc::sigaction>);

// SAFETY: written once, under INSTALL and before the handler that reads it is in place.
unsafe impl Sync for Previous {}

// SAFETY: a zeroed sigaction is a valid one: the default action.
static PREVIOUS: Previous = Previous(UnsafeCell::new(unsafe { std::mem::zeroed() }));

fn install() {
    // SAFETY: the old action is written where only the handler reads it, which is installed afterwards. The new one has
    // the signature that SA_SIGINFO asks for. It runs on the alternative stack, since the previous handler may be
    // Rust's, which reports stack overflows.
    unsafe {
        libc::sigaction(libc::SIGBUS, ptr::null(), PREVIOUS.0.get());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_bus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler installed with SA_SIGINFO; si_addr is meaningful for codes above zero,
    // which only the kernel can send.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code > 0 && replaced(address, matches!(code, libc::BUS_MCEERR_AR | libc::BUS_MCEERR_AO)) {
        return;
    }
    hand_on(signal, info, context);
}

/// Not ours: what would have happened without this library.
fn hand_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: written before this handler was installed, never after. The function pointers are those that the program itself gave
    // to the kernel with these flags. `signal` and `raise` are async-signal-safe.
    unsafe {
        let previous = &*PREVIOUS.0.get();
        match previous.sa_sigaction {
            libc::SIG_IGN if (*info).si_code <= 0 => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
                // A fault comes again when the instruction does; a signal that was sent has to be sent again.
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Puts memory under `address` if it lies in a watched range.
pub(crate) fn replaced(address: usize, poisoned: bool) -> bool {
    for slot in blocks().flat_map(|block| &block.slots) {
        let high = slot.high.load(Ordering::Acquire);
        let low = slot.low.load(Ordering::Acquire);
        if !(low..high).contains(&address) {
            continue;
        }
        let unit_bytes = slot.unit_bytes.load(Ordering::Relaxed).max(1);
        let unit = (address - low) / unit_bytes;
        let bits = slot.bits.load(Ordering::Acquire);
        // Noted before the page is there: a thread that sees the page must be able to see the note.
        if !bits.is_null() {
            // SAFETY: the bits live as long as the map, in which a thread is copying; `unit` is below their number.
            unsafe { &*bits.add(unit / 64) }.fetch_or(1 << (unit % 64), Ordering::AcqRel);
        }
        _ = slot.failed.compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed);
        slot.poisoned.fetch_or(poisoned, Ordering::AcqRel);
        slot.failures.fetch_add(1, Ordering::AcqRel);
        return lay_memory(low + unit * unit_bytes, unit_bytes);
    }
    false
}

fn lay_memory(address: usize, bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: errno belongs to the interrupted code and is put back; only a unit of a watched range is replaced, which holds no Rust
    // object.
    unsafe {
        let errno = *libc::__errno_location();
        let mapped = libc::mmap(address as *mut libc::c_void, bytes, protection, flags, -1, 0);
        *libc::__errno_location() = errno;
        mapped != libc::MAP_FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_beyond_the_first_block_and_used_again() {
        let watches: Vec<MapWatch> = (0..2 * BLOCK_SLOTS).map(|_| MapWatch::new(0, 4096, 4096)).collect();
        let chain = blocks().count();
        assert!(chain >= 2);
        drop(watches);
        let again: Vec<MapWatch> = (0..2 * BLOCK_SLOTS).map(|_| MapWatch::new(0, 4096, 4096)).collect();
        assert!(blocks().count() <= chain + 1, "freed slots are used again");
        drop(again);
    }

    #[test]
    fn failures_are_seen_until_settled() {
        let watch = MapWatch::new(1 << 20, 1 << 20, 4096);
        let before = watch.before().expect("settled");
        watch.slot.failures.fetch_add(1, Ordering::AcqRel);
        watch.bits[0].fetch_or(0b100, Ordering::AcqRel);
        assert!(!watch.whole_since(before) && watch.before().is_none());
        let third = (1 << 20) + 2 * 4096;
        assert_eq!(watch.replaced_in(third + 4000, 10), Some(third));
        assert_eq!(watch.replaced_in(1 << 20, 8192), None);
        watch.settle(|_, _| false);
        assert_eq!(watch.replaced_in(third, 1), Some(third), "what cannot be put back stays lost");
        assert!(watch.before().is_none());
        let mut put_back = Vec::new();
        watch.settle(|address, bytes| {
            put_back.push((address, bytes));
            true
        });
        assert_eq!(put_back, [(third, 4096)]);
        assert_eq!((watch.replaced_in(third, 1), watch.before().is_some()), (None, true));
    }
}
