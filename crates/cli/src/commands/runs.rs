//! Making the runs of a plan, for every command that does.

use pagelab_experiment::{LabRunner, LocalRunner, Outcome, Plan, RunOptions, Runner};
use pagelab_session::owner::HandOver;

use crate::failure::Failure;
use crate::progress::Bar;
use crate::say;
use crate::verdict;

/// Makes the runs of a plan, on this host or in VMs, with a progress bar on a terminal.
pub(crate) fn make_runs(plan: &Plan, options: &RunOptions) -> Result<Outcome, Failure> {
    let runner: Box<dyn Runner> = if plan.lab.is_some() {
        let say = Box::new(|line: &str| say!("pagelab: {line}"));
        Box::new(LabRunner::new(plan, &options.set, say).map_err(Failure::host)?)
    } else {
        Box::new(LocalRunner::new().map_err(Failure::host)?)
    };
    // What root makes for somebody who called sudo is theirs.
    let _given = HandOver::of(&options.set);
    pagelab_experiment::run(plan, options, &*runner, &mut Bar::new()).map_err(verdict::plan_failure)
}
