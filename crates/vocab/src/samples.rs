//! The words of the table `samples`.

use crate::words::words;

words! {
    /// What the kernel had just returned to user space from: nothing had run there since. Samples that a timer takes fall due with
    /// interrupts off on the way out, too, and are taken where those are on again.
    ReturnedFrom {
        /// A page fault.
        Fault = "fault",
        /// A system call.
        Call = "call",
    }
}

impl ReturnedFrom {
    /// The kernel's stack a moment ago as far as it is known, innermost first.
    pub const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Fault => &["asm_exc_page_fault"],
            Self::Call => &["entry_SYSCALL_64_after_hwframe"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanisms::{entry_of_stack, of_stack};

    #[test]
    fn the_way_out_belongs_to_what_was_entered() {
        let told = |from: ReturnedFrom| {
            let functions = from.functions().iter().copied();
            (entry_of_stack(functions.clone()), of_stack(functions).map(|mechanism| mechanism.name))
        };
        assert_eq!(told(ReturnedFrom::Fault), ("page_fault".to_owned(), Some("fault.entry")));
        assert_eq!(told(ReturnedFrom::Call), ("other".to_owned(), Some("call.entry")));
    }
}
