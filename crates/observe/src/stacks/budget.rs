//! Time for looking up names, which everything at the end of a recording waits for.

use std::collections::HashSet;
use std::time::Duration;

use super::hostile::Origin;

/// For all files together.
const ALL: Duration = Duration::from_mins(1);
/// For all files together that others may have written.
const OF_OTHERS: Duration = Duration::from_secs(10);
/// For one of these.
const ONE_OF_OTHERS: Duration = Duration::from_millis(2500);

/// A second signal came.
pub(super) const HURRY: &str = "budget: a second signal ended looking up names";
const NO_TIME: &str = "budget: names of other files took 60 s";
const NO_TIME_FOR_OTHERS: &str = "budget: names of other files that others than root can change took 10 s";
const FAILED: &str =
    "budget: another file of the same container, or of a process that ended early, could not be read in 2.5 s";

/// What is left of it.
pub(super) struct Budget<'a> {
    all: Duration,
    of_others: Duration,
    /// A container of which one file took too long, or ended the process that read it, has had its share.
    failed: HashSet<Origin>,
    hurry: &'a dyn Fn() -> bool,
}

impl<'a> Budget<'a> {
    /// Nothing was spent; `hurry` says that there is no time any more.
    pub(super) fn new(hurry: &'a dyn Fn() -> bool) -> Self {
        Self { all: ALL, of_others: OF_OTHERS, failed: HashSet::new(), hurry }
    }

    /// Whether looking up names is to end now.
    pub(super) fn is_over(&self) -> bool {
        (self.hurry)()
    }

    /// The time that a file may take.
    ///
    /// # Errors
    /// There is none, in words.
    pub(super) fn time_for(&self, origin: Origin) -> Result<Duration, &'static str> {
        let is_own = origin == Origin::Trusted;
        if self.is_over() {
            return Err(HURRY);
        }
        if self.all.is_zero() {
            return Err(NO_TIME);
        }
        if is_own {
            return Ok(self.all);
        }
        if self.of_others.is_zero() {
            return Err(NO_TIME_FOR_OTHERS);
        }
        if self.failed.contains(&origin) {
            return Err(FAILED);
        }
        Ok(ONE_OF_OTHERS.min(self.of_others).min(self.all))
    }

    /// A file took so long, and was done or not.
    pub(super) fn spend(&mut self, origin: Origin, took: Duration, is_done: bool) {
        self.all = self.all.saturating_sub(took);
        if origin == Origin::Trusted {
            return;
        }
        self.of_others = self.of_others.saturating_sub(took);
        // The users of this host share a namespace; one of them does not take the others' names.
        if !is_done && !origin.is_at_home() {
            self.failed.insert(origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_its_share_and_all_of_them_have_theirs() {
        let mut budget = Budget::new(&|| false);
        let [one, other] = [Origin::Namespace(1), Origin::Namespace(2)];
        assert_eq!(budget.time_for(one), Ok(ONE_OF_OTHERS));
        budget.spend(one, ONE_OF_OTHERS, false);
        assert_eq!((budget.time_for(one), budget.time_for(other)), (Err(FAILED), Ok(ONE_OF_OTHERS)));
        budget.spend(other, Duration::from_secs(7), true);
        assert_eq!(budget.time_for(other), Ok(Duration::from_millis(500)));
        budget.spend(other, Duration::from_secs(1), true);
        assert_eq!(budget.time_for(other), Err(NO_TIME_FOR_OTHERS));
        assert_eq!(budget.time_for(Origin::Trusted), Ok(Duration::from_millis(49_500)));
        budget.spend(Origin::Trusted, ALL, false);
        assert_eq!(budget.time_for(Origin::Trusted), Err(NO_TIME));
    }

    #[test]
    fn there_is_no_time_when_somebody_is_in_a_hurry() {
        let budget = Budget::new(&|| true);
        assert_eq!(budget.time_for(Origin::Trusted), Err(HURRY));
    }
}
