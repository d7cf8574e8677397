//! Writing cache lines back to persistent memory, for maps made with MAP_SYNC.

use std::sync::OnceLock;

/// The instruction that wrote cache lines back. All of them are followed by a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// `clwb`: the line stays in the cache.
    Clwb,
    /// `clflushopt`: the line leaves the cache; lines in any order.
    Clflushopt,
    /// `clflush`: the line leaves the cache; one after the other.
    Clflush,
}

/// The means of this processor to write cache lines back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLines {
    how: WriteBack,
    line_bytes: usize,
}

impl CacheLines {
    /// `None` on processors for which this crate knows no instruction. CPUID is asked once: in a guest it costs microseconds.
    #[must_use]
    pub fn of_this_processor() -> Option<Self> {
        static FOUND: OnceLock<Option<CacheLines>> = OnceLock::new();
        *FOUND.get_or_init(best)
    }

    /// The instruction.
    #[must_use]
    pub fn how(self) -> WriteBack {
        self.how
    }

    /// Begins to write the lines back that `bytes` from `address` lie in. They have reached the memory after [`CacheLines::fence`].
    ///
    /// # Safety
    /// The range is mapped, and stays so until this returns.
    #[inline]
    pub unsafe fn write_back(self, address: usize, bytes: usize) {
        let end = address + bytes;
        let mut at = address & !(self.line_bytes - 1);
        while at < end {
            // SAFETY: the address lies in a line of the range, which is mapped, as the caller says.
            unsafe { write_line_back(self.how, at) };
            at += self.line_bytes;
        }
    }

    /// Waits until lines written back and non-temporal stores, all of this thread, have reached the memory.
    #[inline]
    pub fn fence(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a fence; every x86-64 has it.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// The best instruction that the processor has, and the length of its lines: CPUID leaf 7, EBX bits 24 (clwb) and 23 (clflushopt);
/// clflush is in every x86-64. Leaf 1, EBX bits 8 to 15 are the line in units of 8 bytes.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::unnecessary_wraps)] // Other processors answer None.
fn best() -> Option<CacheLines> {
    use std::arch::x86_64::{__cpuid, __cpuid_count, __get_cpuid_max};
    let (highest, _) = __get_cpuid_max(0);
    let features = if highest >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let how = if features & 1 << 24 != 0 {
        WriteBack::Clwb
    } else if features & 1 << 23 != 0 {
        WriteBack::Clflushopt
    } else {
        WriteBack::Clflush
    };
    Some(CacheLines { how, line_bytes: ((__cpuid(1).ebx >> 8 & 0xff) as usize * 8).max(16) })
}

/// See the other.
#[cfg(not(target_arch = "x86_64"))]
fn best() -> Option<CacheLines> {
    None
}

/// Writes one line back.
///
/// # Safety
/// The address is mapped, and the processor has the instruction.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn write_line_back(how: WriteBack, at: usize) {
    use std::arch::asm;
    // SAFETY: the caller's promise; none of the three changes what memory holds.
    unsafe {
        match how {
            WriteBack::Clwb => asm!("clwb [{0}]", in(reg) at, options(nostack, preserves_flags)),
            WriteBack::Clflushopt => asm!("clflushopt [{0}]", in(reg) at, options(nostack, preserves_flags)),
            WriteBack::Clflush => asm!("clflush [{0}]", in(reg) at, options(nostack, preserves_flags)),
        }
    }
}

/// See the other; nobody has a [`CacheLines`] here.
///
/// # Safety
/// As of the other.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn write_line_back(_how: WriteBack, _at: usize) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// What /proc/cpuinfo says, which reads the same CPUID, is what is chosen; and nothing changes what memory holds.
    #[test]
    fn the_best_instruction_is_used_and_harmless() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").expect("cpuinfo");
        let has = |flag: &str| cpuinfo.split_ascii_whitespace().any(|word| word == flag);
        let expected = match (has("clwb"), has("clflushopt")) {
            (true, _) => WriteBack::Clwb,
            (false, true) => WriteBack::Clflushopt,
            (false, false) => WriteBack::Clflush,
        };
        let data: Vec<u8> = (0..10_000_u32).map(|k| k as u8).collect();
        let copy = data.clone();
        let best = CacheLines::of_this_processor().expect("an x86-64");
        assert_eq!(best.how(), expected);
        for lines in [CacheLines { how: WriteBack::Clflush, ..best }, best] {
            // SAFETY: the whole vector is mapped.
            unsafe { lines.write_back(data.as_ptr() as usize + 3, data.len() - 3) };
            lines.fence();
        }
        assert_eq!(data, copy);
    }
}
