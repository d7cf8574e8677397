//! Faults by what the processor and the probe say of them, and their rollup.

use pagelab_recording::Recording;
use pagelab_recording::tables::RollupFaultsRow;
use pagelab_vocab::abi::{FAULT_INSTRUCTION, FAULT_PROTECTION, FAULT_USER, FAULT_WRITE};

/// Addresses from here up are the kernel's.
pub(crate) const KERNEL_HALF: u64 = 1 << 63;

/// What the processor and the probe say of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultKind {
    /// The error code, where it is known.
    pub code: Option<u32>,
    /// Whether it needed I/O, where that is known.
    pub major: Option<bool>,
    /// Whether the instruction is the kernel's.
    pub kernel_ip: bool,
    /// Whether it lies in the measured time.
    pub measured: bool,
}

impl FaultKind {
    /// The same as one number, which is quicker to look up.
    pub(crate) fn packed(self) -> u64 {
        let code = self.code.map_or(0, |code| u64::from(code) | 1 << 32);
        let major = self.major.map_or(0, |major| 1 << 33 | u64::from(major) << 34);
        code | major | u64::from(self.kernel_ip) << 35 | u64::from(self.measured) << 36
    }

    pub(crate) fn of_packed(packed: u64) -> Self {
        let has = |bit: u32| packed >> bit & 1 == 1;
        Self {
            code: has(32).then_some(packed as u32),
            major: has(33).then(|| has(34)),
            kernel_ip: has(35),
            measured: has(36),
        }
    }
}

/// How the processor described faults. Known on x86 only.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Codes {
    /// Faults whose error code is known.
    pub known: u64,
    /// From user mode; without an error code the instruction's address tells the mode.
    pub user: u64,
    /// Of writes.
    pub write: u64,
    /// Of instruction fetches.
    pub instruction: u64,
    /// On pages that were there.
    pub protection: u64,
}

impl Codes {
    /// Adds faults of which the same is said.
    pub(crate) fn add(&mut self, kind: FaultKind, faults: u64) {
        let Some(code) = kind.code else {
            self.user += if kind.kernel_ip { 0 } else { faults };
            return;
        };
        let if_has = |bit| if code & bit == 0 { 0 } else { faults };
        self.known += faults;
        self.user += if_has(FAULT_USER);
        self.write += if_has(FAULT_WRITE);
        self.instruction += if_has(FAULT_INSTRUCTION);
        self.protection += if_has(FAULT_PROTECTION);
    }
}

/// Calls `each` with every kind of fault and its number; false if the recording has no rollup that can be used.
pub(crate) fn each_kind(recording: &Recording, mut each: impl FnMut(FaultKind, u64)) -> bool {
    recording.for_each_of_rollup::<RollupFaultsRow>(|row| {
        let RollupFaultsRow { error_code, major, kernel_ip, measured, faults } = row;
        each(FaultKind { code: error_code, major, kernel_ip, measured }, faults);
    })
}

/// Begin and end of the measured time, if the manifest names both.
pub(crate) fn measured_of(recording: &Recording) -> Option<(i64, i64)> {
    recording.manifest().measured.as_ref()?.span_ns()
}
