//! Writing cache lines back to persistent memory, for maps made with MAP_SYNC.

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

/// Writes the cache lines of `bytes` at `address` back; `None` on processors for which this crate knows no instruction. The range is
/// mapped.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::unnecessary_wraps)] // Other processors answer None.
pub(crate) fn write_back(address: usize, bytes: usize) -> Option<WriteBack> {
    let how = best();
    write_back_by(how, address, bytes);
    Some(how)
}

/// See the other.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn write_back(_address: usize, _bytes: usize) -> Option<WriteBack> {
    None
}

/// The best instruction that the processor has: CPUID leaf 7, EBX bits 24 (clwb) and 23 (clflushopt); clflush is in every x86-64.
#[cfg(target_arch = "x86_64")]
fn best() -> WriteBack {
    let (highest, _) = std::arch::x86_64::__get_cpuid_max(0);
    let features = if highest >= 7 { std::arch::x86_64::__cpuid_count(7, 0).ebx } else { 0 };
    if features & 1 << 24 != 0 {
        WriteBack::Clwb
    } else if features & 1 << 23 != 0 {
        WriteBack::Clflushopt
    } else {
        WriteBack::Clflush
    }
}

#[cfg(target_arch = "x86_64")]
fn write_back_by(how: WriteBack, address: usize, bytes: usize) {
    use std::arch::asm;
    // CPUID leaf 1, EBX bits 8 to 15: the line in units of 8 bytes.
    let line = ((std::arch::x86_64::__cpuid(1).ebx >> 8 & 0xff) as usize * 8).max(16);
    let mut at = address & !(line - 1);
    let end = address + bytes;
    while at < end {
        // SAFETY: the address is mapped, as the caller says, and the instruction is one that the processor has; none of them
        // changes what memory holds.
        unsafe {
            match how {
                WriteBack::Clwb => asm!("clwb [{0}]", in(reg) at, options(nostack, preserves_flags)),
                WriteBack::Clflushopt => asm!("clflushopt [{0}]", in(reg) at, options(nostack, preserves_flags)),
                WriteBack::Clflush => asm!("clflush [{0}]", in(reg) at, options(nostack, preserves_flags)),
            }
        }
        at += line;
    }
    // SAFETY: a fence.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

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
        assert_eq!(write_back(data.as_ptr() as usize + 3, data.len() - 3), Some(expected));
        for how in [WriteBack::Clflush, expected] {
            write_back_by(how, data.as_ptr() as usize, data.len());
        }
        assert_eq!(data, copy);
    }
}
