//! Which mappings of a comparison are drawn: the one that the first finding speaks about, on either side.

use std::path::PathBuf;

use pagelab_views::faultmap::{FaultMap, of_dir};

use crate::compare::{Comparison, SideRuns};
use crate::error::Result;
use crate::rules::SideName;

/// A picture of each side of a comparison: of the mapping that the first finding speaks about, and of one like it on the
/// other side, in runs of the same place in their lists. Without a finding the classes with most faults are shown.
pub fn of_comparison(comparison: &Comparison) -> Result<[Option<FaultMap>; 2]> {
    let subject = comparison.findings.iter().find_map(|finding| finding.mapping.as_ref());
    let number = subject.map_or(0, |subject| subject.run);
    let class = subject.map(|subject| &subject.class);
    let of = |side: &SideRuns, name: SideName| -> Result<Option<FaultMap>> {
        let number = if subject.is_none_or(|subject| subject.side == name) {
            number
        } else {
            number.min(side.n.saturating_sub(1))
        };
        match dir_of(side, number) {
            Some(dir) => Ok(of_dir(&dir, class)?),
            None => Ok(None),
        }
    };
    Ok([of(&comparison.base, SideName::Base)?, of(&comparison.test, SideName::Test)?])
}

/// Directory of the side's run at that place among those that count.
fn dir_of(side: &SideRuns, number: usize) -> Option<PathBuf> {
    let counted = side.runs.iter().filter(|run| run.excluded.is_none());
    counted.skip(number).map(|run| PathBuf::from(&run.dir)).next()
}
