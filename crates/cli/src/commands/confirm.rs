//! `--confirm` of `compare` and `experiment`: follow-up rounds that toggle what the findings blame.

use std::path::{Path, PathBuf};

use pagelab_analysis::compare::Comparison;
use pagelab_experiment::{ConfirmOptions, Plan, Subject};
use pagelab_vocab::terminal::{escape, shell_line};

use super::runs::make_runs;
use crate::failure::Failure;
use crate::say;

/// Whether and how long findings are confirmed.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfirmArgs {
    /// Toggle the setting of each finding in follow-up rounds, and say `confirmed`, `refuted` or `not decided`.
    #[arg(long)]
    confirm: bool,
    /// Time for the follow-up rounds, seconds.
    #[arg(long, default_value_t = 300.0, value_name = "S", requires = "confirm")]
    confirm_seconds: f64,
    /// Folder of the follow-up rounds [default: the set's name, or pagelab, with .confirm].
    #[arg(long, value_name = "DIR", requires = "confirm")]
    confirm_output: Option<PathBuf>,
    /// Also run commands of recordings that this user did not make on this host.
    #[arg(long, requires = "confirm")]
    run_recorded: bool,
}

impl ConfirmArgs {
    /// Whether it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.confirm
    }

    /// Confirms the findings of a comparison of recordings, or of the set `set`, if that was asked for.
    pub(crate) fn confirm(
        &self,
        comparison: &mut Comparison,
        set: Option<&Path>,
        alpha: f64,
        best_effort: bool,
    ) -> Result<(), Failure> {
        if !self.confirm {
            return Ok(());
        }
        let subject = match set {
            Some(set) => Subject::of_set(set, comparison),
            None => Subject::of_recordings(comparison),
        };
        self.make_rounds(comparison, &subject, set, alpha, best_effort)
    }

    /// Confirms the findings of an experiment, if that was asked for.
    pub(crate) fn confirm_plan(
        &self,
        comparison: &mut Comparison,
        plan: &Plan,
        set: &Path,
        alpha: f64,
        best_effort: bool,
    ) -> Result<(), Failure> {
        if !self.confirm {
            return Ok(());
        }
        let subject = Subject::of_plan(plan, &comparison.base.label, &comparison.test.label);
        self.make_rounds(comparison, &subject, Some(set), alpha, best_effort)
    }

    fn make_rounds(
        &self,
        comparison: &mut Comparison,
        subject: &Result<Subject, String>,
        set: Option<&Path>,
        alpha: f64,
        best_effort: bool,
    ) -> Result<(), Failure> {
        if !(self.confirm_seconds.is_finite() && self.confirm_seconds > 0.0) {
            let found = self.confirm_seconds;
            let needed = "needed a number of seconds above 0: --confirm-seconds 300";
            return Err(Failure::input(anyhow::anyhow!("--confirm-seconds: found {found}, {needed}")));
        }
        let dir = self.confirm_output.clone().unwrap_or_else(|| {
            let mut name = set.unwrap_or(Path::new("pagelab")).as_os_str().to_owned();
            name.push(".confirm");
            PathBuf::from(name)
        });
        let options = ConfirmOptions { seconds: self.confirm_seconds, dir: unused(&dir), alpha, best_effort };
        let foreign = subject.as_ref().ok().and_then(Subject::foreign).filter(|_| !self.run_recorded);
        pagelab_experiment::confirm(comparison, subject, &options, |plan, run| {
            say!("pagelab: {}: {} rounds of", plan.title, plan.runs);
            for line in work_lines(plan) {
                say!("pagelab:   {line}");
            }
            if let Some(why) = foreign {
                let needed = "needed your word that these commands may run as this user: --run-recorded";
                return Err(Failure::input(anyhow::anyhow!("--confirm: {why}; nothing was run; {needed}")));
            }
            make_runs(plan, run)
        })
    }
}

/// Everything that the rounds of a plan run, and under which settings.
fn work_lines(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for variant in &plan.variants {
        let settings = variant.settings.iter().map(|(key, setting)| format!("{key}={}", setting.value));
        let settings: Vec<String> = settings.collect();
        lines.push(escape(&format!("{}: {}, with {}", variant.name, variant.work.line(), settings.join(" "))));
    }
    let steps = [("before each run", &plan.prepare), ("after each run", &plan.cleanup)];
    lines.extend(
        steps.iter().filter_map(|(when, argv)| Some(escape(&format!("{when}: {}", shell_line(argv.as_ref()?))))),
    );
    if !plan.between.is_empty() {
        let words: Vec<&str> = plan.between.iter().map(|between| between.word()).collect();
        lines.push(format!("before each run, on the host: {}", words.join(", ")));
    }
    lines
}

/// The folder, or the first of it with a number behind that is not there yet.
fn unused(dir: &Path) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    std::iter::once(dir.to_owned())
        .chain((2..).map(numbered))
        .find(|dir| !dir.exists())
        .unwrap_or_else(|| dir.to_owned())
}
