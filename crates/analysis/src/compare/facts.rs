//! Facts in addition to the test: each side's command, how its values spread, and how small a difference this number of
//! runs can show.

use std::collections::BTreeSet;

use pagelab_vocab::terminal::shell_word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Comparison, RunEntry};
use crate::stats::{StudentT, median};
use pagelab_views::run::RunData;

/// Share of repetitions in which a difference of the size named would be found.
const CHANCE: f64 = 0.8;

/// Size of a difference that people ask for, as a ratio.
const FIVE_PCT: f64 = 1.05;

/// More runs than this are not proposed.
const RUNS_AT_MOST: f64 = 100_000.0;

/// Facts about the sides of a comparison that no test rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Facts {
    /// The base.
    pub base: SideFacts,
    /// The test side.
    pub test: SideFacts,
    /// The difference that this number of runs with this spread can show; null without an interval of the ratio.
    pub power: Option<Power>,
    /// Why the sides are perhaps not what the user takes them for: runs of several variants or commands in one.
    pub cautions: Vec<String>,
}

/// Facts about one side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct SideFacts {
    /// What its runs ran, each command line once, as a shell would take it.
    pub commands: Vec<String>,
    /// Variants of its runs, each once.
    pub variants: Vec<String>,
    /// Runs that count and have a value of the primary metric.
    pub n: usize,
    /// Mean of the primary metric, in its unit.
    pub mean: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// Standard deviation; null for fewer than two runs.
    pub sd: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// What an experiment of this size can show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Power {
    /// The smallest difference, in per cent of the base, that this number of runs would find in `chance` of all repetitions.
    pub detectable_pct: f64,
    /// That share, 0 to 1.
    pub chance: f64,
    /// Runs of each side that would find 5 per cent so often; null beyond 100,000.
    pub runs_for_5_pct: Option<u64>,
}

/// The facts of a comparison whose metrics are settled.
pub(super) fn facts(comparison: &Comparison, base: &[&RunData], test: &[&RunData]) -> Facts {
    let base_facts = side(&comparison.base.runs, base);
    let test_facts = side(&comparison.test.runs, test);
    let mut cautions: Vec<String> = [("base", &base_facts), ("test", &test_facts)]
        .into_iter()
        .flat_map(|(name, side)| cautions(name, side))
        .collect();
    let both_one = base_facts.commands.len() == 1 && test_facts.commands.len() == 1;
    if both_one && base_facts.commands != test_facts.commands && !is_one_experiment(base, test) {
        cautions.push("the sides ran different commands, in runs that no experiment made together".to_owned());
    }
    Facts { power: power(comparison), cautions, base: base_facts, test: test_facts }
}

/// Misreadings of one side to warn of.
fn cautions(name: &str, side: &SideFacts) -> Vec<String> {
    let mut out = Vec::new();
    if side.variants.len() > 1 {
        let (count, names) = (side.variants.len(), side.variants.join(", "));
        out.push(format!(
            "the {name} side mixes {count} variants: {names}; to compare them with one another: pagelab compare SET; to take one: SET/variant={}",
            side.variants.first().map_or("", String::as_str)
        ));
    }
    if side.commands.len() > 1 && side.variants.len() <= 1 {
        out.push(format!("the {name} side mixes runs of {} different commands", side.commands.len()));
    }
    out
}

/// Whether all runs have a round: an experiment made them together, and the commands are what it compares.
fn is_one_experiment(base: &[&RunData], test: &[&RunData]) -> bool {
    base.iter().chain(test).all(|run| run.manifest.round.is_some())
}

fn side(entries: &[RunEntry], runs: &[&RunData]) -> SideFacts {
    let counted = entries.iter().filter(|entry| entry.excluded.is_none());
    let values: Vec<f64> = counted.filter_map(|entry| entry.primary).filter(|value| value.is_finite()).collect();
    let summary = crate::stats::Summary::of(&values).ok();
    let distinct = |texts: Vec<String>| -> Vec<String> {
        let mut seen = BTreeSet::new();
        texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
    };
    SideFacts {
        commands: distinct(runs.iter().filter_map(|run| command(run)).collect()),
        variants: distinct(runs.iter().filter_map(|run| run.manifest.variant.clone()).collect()),
        n: values.len(),
        mean: summary.map(|summary| summary.mean()),
        median: median(&values).ok(),
        sd: summary.and_then(|summary| summary.sd()),
        min: values.iter().copied().reduce(f64::min),
        max: values.iter().copied().reduce(f64::max),
    }
}

/// A run's command line, as a user would type it; none for a target that was found running.
pub(crate) fn command(run: &RunData) -> Option<String> {
    if let Some(argv) = &run.manifest.command {
        return Some(match argv.as_slice() {
            [shell, option, line] if option == "-c" && is_shell(shell) => line.clone(),
            words => words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "),
        });
    }
    let sources = run.manifest.job.as_ref()?.get("sources")?.as_array()?;
    let names: Vec<String> = sources.iter().filter_map(Value::as_str).map(shell_word).collect();
    Some(format!("pagelab run {}", names.join(" ")))
}

fn is_shell(program: &str) -> bool {
    matches!(program, "sh" | "/bin/sh")
}

/// The half width of the ratio's interval on logs is t(0.975) standard errors. A difference is found in `CHANCE` of all
/// repetitions if it is t(0.975) + t(`CHANCE`) standard errors large, and the standard error falls with the root of the
/// number of runs (Cohen 1988, chapter 2, with t for the normal distribution).
fn power(comparison: &Comparison) -> Option<Power> {
    let primary = comparison.primary.as_ref()?;
    let power = power_of(primary.ratio_ci95?, primary.result.df?, comparison.base.n.min(comparison.test.n))?;
    // The exact number where the test has one.
    let five = primary.nothing_shown.runs_needed.iter().find(|needed| (needed.change_pct - 5.0).abs() < 1e-9);
    Some(Power { runs_for_5_pct: five.map_or(power.runs_for_5_pct, |five| five.runs), ..power })
}

/// The power of an interval of the ratio with its degrees of freedom, from the number of runs of each side.
fn power_of([low, high]: [f64; 2], df: f64, runs: usize) -> Option<Power> {
    if !(low > 0.0 && high > low) {
        return None;
    }
    let t = StudentT::new(df).ok()?;
    let (two_sided, one_sided) = (t.inverse_cdf(0.975).ok()?, t.inverse_cdf(CHANCE).ok()?);
    let error = (high / low).ln() / 2.0 / two_sided;
    let found = error * (two_sided + one_sided);
    let needed = (runs as f64 * (found / FIVE_PCT.ln()).powi(2)).ceil().max(2.0);
    Some(Power {
        detectable_pct: 100.0 * found.exp_m1(),
        chance: CHANCE,
        runs_for_5_pct: (needed <= RUNS_AT_MOST).then_some(needed as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::power_of;

    /// The textbook's figures for a standard error of 1 %: 1.96 + 0.84 of them, and for 5 % (ratio 1.05) a third of the runs.
    #[test]
    fn power_follows_the_interval() {
        let interval = [(-0.0196_f64).exp(), 0.0196_f64.exp()];
        let power = power_of(interval, 1e6, 10).expect("an interval");
        assert!((power.detectable_pct - 2.84).abs() < 0.01, "{power:?}");
        assert_eq!(power.runs_for_5_pct, Some(4));
        let wide = power_of([0.29, 1.77], 9.0, 10).expect("an interval");
        assert!(wide.detectable_pct > 100.0 && wide.runs_for_5_pct.expect("many") > 2000, "{wide:?}");
        assert_eq!(power_of([0.0, 1.0], 9.0, 10), None);
    }
}
