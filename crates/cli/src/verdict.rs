//! What comparisons, explanations and experiments say in text, and the exit status of their errors.

use std::fmt::Write as _;
use std::path::Path;

use pagelab_analysis::compare::Comparison;
use pagelab_analysis::explain::Explanation;
use pagelab_experiment::{ExperimentError, Outcome};
use pagelab_vocab::terminal::shell_path;

use crate::failure::{BAD, Failure};
use crate::say;

/// A failed experiment: the plan's fault or the host's.
pub(crate) fn plan_failure(error: ExperimentError) -> Failure {
    if error.exit_status() == 3 { Failure::host(error) } else { Failure::input(error) }
}

/// The exit status of `compare --check`: bad if the test side is worse, if it fails more often, or if nothing could be
/// tested. Says why on stderr.
pub(crate) fn check(comparison: &Comparison) -> u8 {
    for limit in comparison.limits.iter().filter(|limit| !limit.is_bad()) {
        say!("pagelab: --check: {limit}");
    }
    match comparison.bad_answer() {
        Some(reason) => {
            say!("pagelab: --check: {reason}");
            BAD
        }
        None => 0,
    }
}

/// The verdict of a comparison: on one screen, or (`-v`) with the evidence, all that differs, and pictures of the faults.
pub(crate) fn comparison(comparison: &Comparison, is_whole: bool) -> String {
    if !is_whole {
        return pagelab_report::short(comparison, &style());
    }
    let mut text = pagelab_report::verdict::comparison(comparison, &style());
    match pagelab_report::pictures(comparison, &style()) {
        Ok(pictures) => text.push_str(&pictures),
        Err(error) => _ = writeln!(text, "no pictures of the faults: {error}"),
    }
    text
}

/// The value of every run.
pub(crate) fn each_run(comparison: &Comparison) -> String {
    pagelab_report::verdict::each_run(comparison, &style())
}

/// What an experiment found: runs and verdict.
pub(crate) fn experiment(outcome: &Outcome, plan: &Path, is_whole: bool) -> String {
    let mut text = String::new();
    for failed in &outcome.document.failed_runs {
        let _ = writeln!(text, "failed: {} run {}: {}", failed.variant, failed.run, failed.reason);
    }
    let all = outcome.document.comparison.iter().chain(&outcome.document.further_comparisons);
    for one in all {
        text.push_str(&comparison(one, is_whole));
    }
    if outcome.interrupted {
        let (plan, set) = (shell_path(plan), shell_path(&outcome.dir));
        let _ = writeln!(text, "broken off; go on with: pagelab experiment {plan} --resume -o {set}");
    }
    text
}

/// What one recording shows.
pub(crate) fn explanation(explanation: &Explanation) -> String {
    pagelab_report::verdict::explanation(explanation, &style())
}

/// What a history shows.
pub(crate) fn trend(trend: &pagelab_analysis::trend::Trend) -> String {
    pagelab_report::trend(trend, &style())
}

/// How to print on this standard output.
fn style() -> pagelab_report::Style {
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    pagelab_report::Style::detect(columns.filter(|columns| *columns > 0), terminal)
}
