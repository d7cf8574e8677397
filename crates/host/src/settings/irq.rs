//! `irq.*`: which processors interrupts may go to.

use super::Collector;
use crate::files::{names, under};

pub(super) fn read(out: &mut Collector) {
    out.declared("irq.default_affinity");
    for irq in names(&under(out.root, "/proc/irq")) {
        if irq.bytes().all(|byte| byte.is_ascii_digit()) {
            out.declared(&format!("irq.{irq}.affinity"));
            out.declared(&format!("irq.{irq}.effective_affinity"));
        }
    }
}
