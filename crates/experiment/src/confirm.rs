//! Follow-up rounds: the setting that a finding blames is toggled in runs of the slower side's work, and nothing else.
//!
//! The number of rounds is fixed before the first one, from the time that the runs of the comparison took and the time that the user
//! allows: a look at the result with the choice to go on would spoil it.

use std::path::{Path, PathBuf};

use pagelab_analysis::compare::Comparison;
use pagelab_analysis::rules::{Confidence, Finding, SettingSubject, SideName, follow_up, not_decided};
use pagelab_host::process::ProcessSettings;
use pagelab_host::seal::Sealer;
use pagelab_observe::streams::Stream;
use pagelab_recording::set::SetJson;
use pagelab_recording::{Manifest, ProbeState};
use pagelab_session::{COMMAND_SEAL, sealed_command};
use pagelab_vocab::settings;
use serde_json::Value;

use crate::document::Place;
use crate::plan::{Plan, PlannedSetting, PrimaryMetric, Variant, Work};
use crate::set::{PLAN_SEAL, sealed_plan};
use crate::{Outcome, RunOptions};

/// Fewest and most rounds.
const ROUNDS: std::ops::RangeInclusive<usize> = 4..=20;
/// What a run takes beside its own time: loading probes, writing the recording, settling.
const OVERHEAD_S: f64 = 1.5;
/// Findings that rounds are made for.
const FINDINGS: usize = 3;

/// What the two sides of a comparison ran, and how to run it again.
#[derive(Debug, Clone)]
pub struct Subject {
    plan: Plan,
    base: Variant,
    test: Variant,
    /// Why it is not known that this user wrote the commands here; none if it is.
    foreign: Option<String>,
}

impl Subject {
    /// Two variants of a plan.
    ///
    /// # Errors
    /// The plan has no variant of that name.
    pub fn of_plan(plan: &Plan, base: &str, test: &str) -> Result<Self, String> {
        let variant = |name: &str| {
            let found = plan.variants.iter().find(|variant| variant.name == name).cloned();
            found.ok_or_else(|| format!("the plan has no variant {name}"))
        };
        Ok(Self { base: variant(base)?, test: variant(test)?, plan: plan.clone(), foreign: None })
    }

    /// Why it is not known that this user recorded the commands on this host; none if it is. Recordings are copied and mailed:
    /// a command in one of them is data until somebody means it.
    pub fn foreign(&self) -> Option<&str> {
        self.foreign.as_deref()
    }

    /// The variants of a set that was made earlier, by the plan in its document.
    ///
    /// # Errors
    /// The document cannot be read, or holds no plan.
    pub fn of_set(dir: &Path, comparison: &Comparison) -> Result<Self, String> {
        let json = SetJson::load(dir).map_err(|error| error.to_string())?;
        let seal = json.extra.get(PLAN_SEAL).and_then(Value::as_str);
        let foreign = why_foreign(&dir.display().to_string(), PLAN_SEAL, &sealed_plan(&json.plan), seal);
        let mut plan: Plan =
            serde_json::from_value(json.plan).map_err(|error| format!("{}: no plan: {error}", dir.display()))?;
        plan.path = std::env::current_dir().unwrap_or_default().join("compare --confirm");
        let subject = Self::of_plan(&plan, &comparison.base.label, &comparison.test.label)?;
        Ok(Self { foreign, ..subject })
    }

    /// The commands of recordings, run in the current directory.
    ///
    /// # Errors
    /// A side has no command, or several.
    pub fn of_recordings(comparison: &Comparison) -> Result<Self, String> {
        let mut all_know_speed = true;
        let mut foreign = None;
        let mut command = |side: &str, runs: &pagelab_analysis::compare::SideRuns| -> Result<Vec<String>, String> {
            let mut commands: Vec<Vec<String>> = Vec::new();
            for run in &runs.runs {
                let manifest = Manifest::load(Path::new(&run.dir)).map_err(|error| error.to_string())?;
                let mut active = manifest.probes.iter().filter(|probe| probe.state == ProbeState::Active);
                all_know_speed &= active.any(|probe| probe.name == Stream::Speed.name());
                let command = manifest.command.filter(|command| !command.is_empty());
                let command = command.ok_or_else(|| format!("{}: no command was recorded", run.dir))?;
                let seal = manifest.extra.get(COMMAND_SEAL).and_then(Value::as_str);
                let why = || why_foreign(&run.dir, COMMAND_SEAL, &sealed_command(&command), seal);
                foreign = foreign.take().or_else(why);
                if !commands.contains(&command) {
                    commands.push(command);
                }
            }
            match commands.len() {
                1 => Ok(commands.remove(0)),
                0 => Err(format!("{side} has no runs")),
                several => Err(format!("the runs of {side} ran {several} different commands")),
            }
        };
        let here = std::env::current_dir().map_err(|error| error.to_string())?;
        let mut plan = Plan::parse(Path::new("compare --confirm"), &here, PLAIN).map_err(|error| error.to_string())?;
        let primary = comparison.primary.as_ref();
        plan.primary = primary.map(|primary| PrimaryMetric { metric: primary.metric.clone(), direction: None });
        let [base, test] = [command("base", &comparison.base)?, command("test", &comparison.test)?];
        if all_know_speed {
            // The rounds are to be compared as the recordings were.
            plan.observe = format!("{},{}", plan.observe, Stream::Speed);
        }
        for (variant, command) in plan.variants.iter_mut().zip([base, test]) {
            variant.work = Work::Command(command);
        }
        Ok(Self { foreign, ..Self::of_plan(&plan, "base", "test")? })
    }

    /// The plan of `rounds` rounds that toggle `setting`, the good value as base.
    fn toggle(&self, finding: &Finding, setting: &SettingSubject, rounds: usize) -> Result<Plan, String> {
        let (slow, values) = match finding.side {
            SideName::Test => (&self.test, [&setting.base, &setting.test]),
            SideName::Base => (&self.base, [&setting.test, &setting.base]),
        };
        let info = settings::setting(&setting.key).filter(|info| info.def.writable());
        if info.is_none() {
            return Err(format!("{} cannot be set in a plan", setting.key));
        }
        if self.plan.lab.is_none() {
            values.iter().copied().flatten().try_for_each(|value| can_be_given(&setting.key, value))?;
        }
        let side = |name: &str, value: &Option<String>| -> Result<Variant, String> {
            let value =
                value.clone().ok_or_else(|| format!("{} is not set on a side: its value is not known", setting.key))?;
            let place = Place { file: PathBuf::from("--confirm"), line: 0 };
            let mut variant = Variant { name: name.to_owned(), ..slow.clone() };
            variant.settings.insert(setting.key.clone(), PlannedSetting { value, at: place });
            Ok(variant)
        };
        let [good, bad] = values;
        let mut plan = self.plan.clone();
        plan.title = format!("{} toggled, to confirm {}", setting.key, finding.cause);
        plan.variants = vec![side("good", good)?, side("bad", bad)?];
        "good".clone_into(&mut plan.base);
        plan.runs = rounds;
        plan.warmup = 1;
        plan.decoys = None;
        plan.seed = None;
        Ok(plan)
    }
}

/// Why a text of `place` is not known to be this user's of this host.
fn why_foreign(place: &str, domain: &str, text: &[u8], seal: Option<&str>) -> Option<String> {
    let Some(seal) = seal else {
        return Some(format!("{place} does not say who recorded its commands (no {domain})"));
    };
    match Sealer::open() {
        Ok(sealer) if sealer.has_sealed(domain, text, seal) => None,
        Ok(_) => {
            Some(format!("{place} was recorded by another user or on another host, or its commands were changed since"))
        }
        Err(error) => Some(format!("this user's key, which would show who recorded {place}, cannot be read: {error}")),
    }
}

/// Whether a process can have the mount option to itself. Where nothing is mounted yet, `prepare` may do so.
fn can_be_given(key: &str, value: &str) -> Result<(), String> {
    let Ok(settings) = ProcessSettings::from_pairs([(key, value)]) else { return Ok(()) };
    match settings.prepare_mounts() {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// A plan of two commands; what they are is filled in.
const PLAIN: &str = "title = \"recordings\"\nruns = 4\nbase = \"base\"\n[variant.base]\ncommand = [\"true\"]\n\
                     [variant.test]\ncommand = [\"true\"]\n";

/// How follow-up rounds are made.
#[derive(Debug, Clone)]
pub struct ConfirmOptions {
    /// Time for all of them, seconds.
    pub seconds: f64,
    /// Folder that takes their sets.
    pub dir: PathBuf,
    /// Level of decisions.
    pub alpha: f64,
    /// Go on without streams that the host refuses.
    pub best_effort: bool,
}

/// Makes rounds for the first findings of a comparison and writes their outcome into them. `make` makes the runs of a plan.
///
/// # Errors
/// Those of `make`.
pub fn confirm<E>(
    comparison: &mut Comparison,
    subject: &Result<Subject, String>,
    options: &ConfirmOptions,
    mut make: impl FnMut(&Plan, &RunOptions) -> Result<Outcome, E>,
) -> Result<(), E> {
    let round_s = round_seconds(comparison);
    let is_open = |finding: &&mut Finding| finding.confidence != Confidence::Confirmed;
    let settable = comparison.findings.iter().filter(|one| one.setting.is_some()).take(FINDINGS).count().max(1);
    let mut made = 0;
    for finding in comparison.findings.iter_mut().filter(is_open) {
        let planned = match subject {
            Ok(subject) if made < FINDINGS => {
                plan_of(subject, finding, rounds(options.seconds / settable as f64, round_s))
            }
            Ok(_) => Err(format!("rounds are made for the first {FINDINGS} findings")),
            Err(reason) => Err(reason.clone()),
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(reason) => {
                finding.follow_up = Some(not_decided(&reason));
                continue;
            }
        };
        made += 1;
        let mut run = RunOptions::new(options.dir.join(format!("{made}-{}", finding.cause)));
        run.alpha = options.alpha;
        run.best_effort = options.best_effort;
        run.hide_output = true;
        let outcome = make(&plan, &run)?;
        match &outcome.document.comparison {
            Some(toggle) => follow_up(finding, toggle, &outcome.dir),
            None => finding.follow_up = Some(not_decided("the rounds were broken off")),
        }
    }
    comparison.findings.sort_by_key(|finding| std::cmp::Reverse(finding.confidence));
    for (place, finding) in comparison.findings.iter_mut().enumerate() {
        finding.rank = place + 1;
    }
    Ok(())
}

fn plan_of(subject: &Subject, finding: &Finding, rounds: Result<usize, String>) -> Result<Plan, String> {
    let setting = finding.setting.as_ref().filter(|setting| setting.differs);
    let setting = setting.ok_or("no setting that could be toggled is to blame")?;
    if !finding.together_with.is_empty() {
        return Err("several settings bring it about together; toggling one alone decides nothing".to_owned());
    }
    subject.toggle(finding, setting, rounds?)
}

/// Rounds that fit in the time.
fn rounds(seconds: f64, round_s: Option<f64>) -> Result<usize, String> {
    let round_s = round_s.ok_or("how long a run takes is not known")?;
    let fit = (seconds / round_s).floor() as usize;
    let (fewest, most) = (*ROUNDS.start(), *ROUNDS.end());
    if fit < fewest {
        // One round more warms up.
        let needed = round_s * (fewest + 1) as f64;
        return Err(format!(
            "found {seconds:.0} s for a finding and {round_s:.1} s a round, needed {needed:.0} s for {fewest} rounds; \
             give more with --confirm-seconds"
        ));
    }
    Ok(fit.saturating_sub(1).clamp(fewest, most))
}

/// How long a run of both sides takes, by the clocks of the first recordings.
fn round_seconds(comparison: &Comparison) -> Option<f64> {
    let of = |side: &pagelab_analysis::compare::SideRuns| -> Option<f64> {
        let run = side.runs.iter().find(|run| run.excluded.is_none())?;
        let clock = Manifest::load(Path::new(&run.dir)).ok()?.clock;
        let ns = clock.realtime_at_end_ns?.checked_sub(clock.realtime_at_start_ns?)?;
        Some(ns as f64 / 1e9 + OVERHEAD_S)
    };
    Some(of(&comparison.base)? + of(&comparison.test)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fit_in_the_time_or_the_needed_time_is_said() {
        assert_eq!(rounds(100.0, Some(10.0)), Ok(9));
        assert_eq!(rounds(1e6, Some(10.0)), Ok(20));
        let said = rounds(30.0, Some(10.0)).expect_err("three rounds are too few");
        assert!(said.contains("found 30 s") && said.contains("needed 50 s"), "{said}");
        assert!(rounds(30.0, None).is_err());
    }

    #[test]
    fn options_of_a_file_system_are_not_toggled() {
        let why = can_be_given("mount./proc.options", "rw,sync").expect_err("every process would see it");
        assert!(why.contains("sync"), "{why}");
        assert_eq!(can_be_given("mount./proc.options", "noatime"), Ok(()));
        assert_eq!(can_be_given("mount./not/yet.options", "noatime"), Ok(()), "`prepare` may mount it");
        assert_eq!(can_be_given("thp.enabled", "never"), Ok(()), "the guard sees to it");
    }

    #[test]
    fn the_plan_of_recordings_is_one() {
        let plan = Plan::parse(Path::new("compare --confirm"), Path::new("/"), PLAIN).expect("a plan");
        assert!(Subject::of_plan(&plan, "base", "test").is_ok());
        assert!(Subject::of_plan(&plan, "base", "other").is_err());
    }
}
