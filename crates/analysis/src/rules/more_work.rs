//! Whether a program does more work of every kind. What rises with that is a part of the loss and no cause of it.

use super::quantity::{Quantity, Sign, rises};
use super::scene::Scene;

/// From here on the program does more of something.
const MORE: f64 = 1.1;

/// Share of the loss from which a cause is no mere part of more work. In programs that did more of everything it was 66 % at most.
pub(crate) const MOST_SHARE: f64 = 0.70;

pub(crate) const READS: Sign = rises("read calls", "", Quantity::Events(&["target.io.syscr"]), MORE);
pub(crate) const WRITES: Sign = rises("write calls", "", Quantity::Events(&["target.io.syscw"]), MORE);
pub(crate) const FAULTS: Sign = rises("page faults", "", Quantity::Events(&["faults.count"]), MORE);
pub(crate) const PROCESSES: Sign = rises("processes that were forked", "", Quantity::Forks, MORE);
pub(crate) const THREADS: Sign = rises("threads that were started", "", Quantity::Threads, MORE);
pub(crate) const PROGRAMS: Sign = rises("programs that were started", "", Quantity::Execs, MORE);

/// Why a cause that explains `share` of the loss may be no more than a part of more work, of which `others` are signs.
pub(crate) fn doubt(scene: &Scene<'_>, others: &[Sign], share: f64) -> Option<String> {
    if share >= MOST_SHARE {
        return None;
    }
    let other = others.iter().find(|other| other.is_seen(scene) == Some(true))?;
    Some(format!(
        "whether it is a part of more work of every kind: it explains {:.0} % of the lost time, no setting that can bring it about differs, and {}",
        share * 100.0,
        other.sentence(scene)
    ))
}

/// The condition in words.
pub(crate) fn condition(others: &[Sign]) -> String {
    let whats: Vec<&str> = others.iter().map(|other| other.what).collect();
    format!(
        "it explains at least {:.0} % of the loss, or other work is as it was: {}",
        MOST_SHARE * 100.0,
        whats.join(", ")
    )
}
