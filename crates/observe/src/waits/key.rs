//! What a wait is told from others by (`enum wait_key` of `bpf/waits.h`), in words.

use pagelab_vocab::waits::{Holder, Waker};

use super::skeleton::types::{wait_holder, wait_key, wait_waker};
use crate::bpf::OffCpu;
use crate::syscalls::Shapes;

const STATE_IDLE: u32 = 0x80;
const NOLOAD: u32 = 0x400;
const UNINTERRUPTIBLE: u32 = 2;

/// The key of a wait as the programs make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct WaitKey(pub u32);

impl WaitKey {
    /// The scheduler's state, as `ps` shows it.
    pub(super) fn state(self) -> &'static str {
        let state = match self.0 >> wait_key::WAIT_STATE_SHIFT.0 & 0xff {
            STATE_IDLE => UNINTERRUPTIBLE | NOLOAD,
            state => state,
        };
        OffCpu::letter_of(state)
    }

    /// The kernel counted it as waiting for I/O.
    pub(super) fn is_io(self) -> bool {
        self.0 & wait_key::WAIT_IO.0 != 0
    }

    /// The call that it was in, or `page_fault`; none for threads of the kernel, and on the way back from an interrupt.
    pub(super) fn call(self, calls: &Shapes) -> Option<&'static str> {
        match self.0 & 0xffff {
            0 => None,
            fault if fault == wait_key::WAIT_IN_FAULT.0 => Some(pagelab_vocab::waits::PAGE_FAULT),
            number => Some(calls.get(number - 1).name).filter(|name| !name.is_empty()),
        }
    }

    /// In which context it was ended; none if that was not seen, or it has not ended.
    pub(super) fn waker(self) -> Option<Waker> {
        match wait_waker((self.0 & wait_key::WAIT_WAKER_MASK.0) >> wait_key::WAIT_WAKER_SHIFT.0) {
            wait_waker::WOKEN_BY_OWN => Some(Waker::Own),
            wait_waker::WOKEN_BY_FOREIGN => Some(Waker::Foreign),
            wait_waker::WOKEN_BY_SOFTIRQ => Some(Waker::Softirq),
            wait_waker::WOKEN_BY_IRQ => Some(Waker::Irq),
            wait_waker::WOKEN_BY_TIMER => Some(Waker::Timer),
            _ => None,
        }
    }
}

/// The holders, in the order of the programs' sums.
pub(super) const HOLDERS: [Holder; wait_holder::WAIT_HOLDERS.0 as usize] =
    [Holder::Own, Holder::Foreign, Holder::Nobody, Holder::Throttled, Holder::Wakeup];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::CallFilter;

    #[test]
    fn a_key_is_said_in_words() {
        let calls = Shapes::of(&CallFilter::default());
        let key = |call: u32, state: u32, more: u32| WaitKey(1 << 31 | more | state << 16 | call);
        let waker = |waker: u32| waker << wait_key::WAIT_WAKER_SHIFT.0;
        // fsync is call 74 of x86-64.
        let fsync = key(75, 2, wait_key::WAIT_IO.0 | waker(wait_waker::WOKEN_BY_IRQ.0));
        assert_eq!((fsync.call(&calls), fsync.state(), fsync.is_io()), (Some("fsync"), "D", true));
        assert_eq!(fsync.waker(), Some(Waker::Irq));
        let fault = key(0xffff, 2, waker(wait_waker::WOKEN_BY_OWN.0));
        assert_eq!((fault.call(&calls), fault.is_io(), fault.waker()), (Some("page_fault"), false, Some(Waker::Own)));
        let idle = key(0, STATE_IDLE, 0);
        assert_eq!((idle.call(&calls), idle.state(), idle.waker()), (None, "I", None));
        assert_eq!(key(500, 1, 0).call(&calls), None, "a call that has no name");
    }

    #[test]
    fn holders_are_in_the_order_of_the_programs() {
        for (holder, number) in [
            (Holder::Own, wait_holder::HELD_BY_OWN),
            (Holder::Foreign, wait_holder::HELD_BY_FOREIGN),
            (Holder::Nobody, wait_holder::HELD_BY_NOBODY),
            (Holder::Throttled, wait_holder::HELD_BY_THROTTLING),
            (Holder::Wakeup, wait_holder::HELD_BY_WAKEUP),
        ] {
            assert_eq!(HOLDERS[number.0 as usize], holder);
        }
    }
}
