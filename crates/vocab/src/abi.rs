//! Numbers of the kernel's interface that rows carry: bits of `mmap`, `mremap` and `mprotect`, numbers of `madvise`, bits
//! of the x86 page fault error code, results of calls that are errors.
//!
//! They are not taken from `libc`: a recording may come from another machine than the one that reads it, and these are
//! the numbers of x86-64 and of the kernel's generic headers (include/uapi/asm-generic/mman-common.h, mman.h). Their names
//! as text are in [`crate::syscalls`].

/// Writes to the mapping are seen by others.
pub const MAP_SHARED: u32 = 0x01;
/// Writes to the mapping are copied first.
pub const MAP_PRIVATE: u32 = 0x02;
/// At the address asked for, in place of what is there.
pub const MAP_FIXED: u32 = 0x10;
/// Without a file.
pub const MAP_ANONYMOUS: u32 = 0x20;
/// A stack: it grows downwards by faults.
pub const MAP_GROWSDOWN: u32 = 0x100;
/// Locked in memory.
pub const MAP_LOCKED: u32 = 0x2000;
/// Without a reservation of memory or of swap.
pub const MAP_NORESERVE: u32 = 0x4000;
/// For a thread's stack; the kernel ignores it but for huge pages.
pub const MAP_STACK: u32 = 0x2_0000;
/// Of pages from a hugetlb pool.
pub const MAP_HUGETLB: u32 = 0x4_0000;
/// `MAP_HUGETLB`: from this bit on stands the logarithm of the page size; 0 is the host's default size.
pub const MAP_HUGE_SHIFT: u32 = 26;
/// `MAP_HUGETLB`: the bits of that logarithm, shifted down.
pub const MAP_HUGE_MASK: u32 = 0x3f;

/// `mremap` to exactly the address given, in place of what is there.
pub const MREMAP_FIXED: u32 = 2;
/// `mremap` that leaves the old range mapped, without its pages.
pub const MREMAP_DONTUNMAP: u32 = 4;

/// May be read.
pub const PROT_READ: u32 = 1;
/// May be written.
pub const PROT_WRITE: u32 = 2;
/// May be executed.
pub const PROT_EXEC: u32 = 4;

/// The pages are dropped and read anew.
pub const MADV_DONTNEED: i32 = 4;
/// The pages are dropped, of the file too.
pub const MADV_REMOVE: i32 = 9;
/// Huge pages are wanted.
pub const MADV_HUGEPAGE: i32 = 14;
/// Huge pages are not wanted.
pub const MADV_NOHUGEPAGE: i32 = 15;

/// x86 page fault: a page was there, and did not allow the access (arch/x86/include/asm/trap_pf.h).
pub const FAULT_PROTECTION: u32 = 1;
/// x86 page fault: of a write.
pub const FAULT_WRITE: u32 = 1 << 1;
/// x86 page fault: in user mode.
pub const FAULT_USER: u32 = 1 << 2;
/// x86 page fault: of an instruction fetch.
pub const FAULT_INSTRUCTION: u32 = 1 << 4;

/// No memory; of calls on a range also: some of it was not mapped.
pub const ENOMEM: i32 = 12;
/// Bad address: nothing is mapped there.
pub const EFAULT: i32 = 14;

/// The largest errno: results of calls from its negative up to -1 are errors (`MAX_ERRNO`, include/linux/err.h).
pub(crate) const MAX_ERRNO: i64 = 4095;

/// The errno that a call's result is; none if it is a value.
pub fn errno_of(ret: i64) -> Option<i32> {
    if !(-MAX_ERRNO..0).contains(&ret) {
        return None;
    }
    i32::try_from(-ret).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::Words;

    #[test]
    fn numbers_have_the_names_that_calls_are_decoded_with() {
        let map = |bit| Words::Map.decode(bit | MAP_PRIVATE);
        assert_eq!(Words::Map.decode(MAP_SHARED), "MAP_SHARED");
        let bits = [
            (MAP_FIXED, "FIXED"),
            (MAP_ANONYMOUS, "ANONYMOUS"),
            (MAP_GROWSDOWN, "GROWSDOWN"),
            (MAP_LOCKED, "LOCKED"),
            (MAP_NORESERVE, "NORESERVE"),
            (MAP_STACK, "STACK"),
            (MAP_HUGETLB, "HUGETLB"),
        ];
        for (bit, name) in bits {
            assert_eq!(map(bit), format!("MAP_PRIVATE|MAP_{name}"));
        }
        assert_eq!(map(MAP_HUGETLB | 21 << MAP_HUGE_SHIFT), "MAP_PRIVATE|MAP_HUGETLB|MAP_HUGE_2MB");
        assert_eq!(Words::Mremap.decode(MREMAP_FIXED | MREMAP_DONTUNMAP), "MREMAP_FIXED|MREMAP_DONTUNMAP");
        assert_eq!(Words::Prot.decode(PROT_READ | PROT_WRITE | PROT_EXEC), "PROT_READ|PROT_WRITE|PROT_EXEC");
        let advice = [
            (MADV_DONTNEED, "DONTNEED"),
            (MADV_REMOVE, "REMOVE"),
            (MADV_HUGEPAGE, "HUGEPAGE"),
            (MADV_NOHUGEPAGE, "NOHUGEPAGE"),
        ];
        for (number, name) in advice {
            assert_eq!(Words::Madvise.decode(number as u32), format!("MADV_{name}"));
        }
    }

    #[test]
    fn results_that_are_errors_are_told_from_addresses() {
        assert_eq!([errno_of(-12), errno_of(-4095), errno_of(-1)], [Some(12), Some(4095), Some(1)]);
        assert_eq!([errno_of(0), errno_of(-4096), errno_of(0x7f00_0000_0000)], [None, None, None]);
    }
}
