//! `hugepages conformance`: what the kernel promises about huge pages, put to the test.

use std::fmt::Write as _;
use std::time::Duration;

use pagelab_conformance::{CaseResult, ConformanceError, Options, Report, Verdict, run as run_suite, tap};

use crate::failure::{BAD, Failure};
use crate::print;

/// Arguments of `hugepages conformance`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Makes a pool of huge pages for the time it runs and puts everything back. docs/conformance.md lists the cases. The \
                  exit status is 1 if a case fails."
)]
pub(super) struct Args {
    /// Cases or topics to run [default: all].
    only: Vec<String>,
    /// Time limit of one case, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    /// Print results in the Test Anything Protocol (TAP).
    #[arg(long, conflicts_with = "json")]
    tap: bool,
    /// Print one JSON document on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs the suite.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let options = Options { only: args.only.clone(), limit: Duration::from_secs(args.limit), ..Options::default() };
    let shows = !args.tap && !args.json;
    let report = run_suite(&options, &mut |case| {
        if shows {
            // A reader that has gone is noticed at the end.
            let _ = print::text(&line(case));
        }
    });
    let report = report.map_err(|error| match error {
        ConformanceError::NoSuchCase { .. } => Failure::input(error),
        _ => Failure::host(error),
    })?;
    match (args.json, args.tap) {
        (true, _) => print::json(&report)?,
        (_, true) => print::text(&tap(&report))?,
        _ => print::text(&summary(&report))?,
    }
    Ok(if report.failed() { BAD } else { 0 })
}

fn line(case: &CaseResult) -> String {
    let reason = case.reason.as_ref().map(|reason| format!("\n    {reason}")).unwrap_or_default();
    format!("{:<12} {}{reason}\n", case.verdict.word(), case.name)
}

fn summary(report: &Report) -> String {
    let of = |verdict: Verdict| format!("{} {}", report.count(verdict), verdict.word());
    let all = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive, Verdict::Skip].map(of).join(", ");
    let mut text = format!("{} cases on Linux {}: {all}\n", report.cases.len(), report.kernel);
    for left in &report.not_put_back {
        let _ = writeln!(text, "not put back: {left}");
    }
    text
}
