//! What drift, outliers and modes of a side come to in words, with what to do about them.

use std::fmt::Write as _;

use super::stability::{Drift, Outliers, Separators, SideStability, Stability, TwoModes};
use crate::stats::Design;
use pagelab_vocab::units::{quantity, significant};

/// Outliers named at most; the JSON has all.
const NAMED: usize = 3;
/// Warm-up runs proposed at most.
const WARM_UP_AT_MOST: usize = 10;

/// The notes of a comparison whose primary metric has this unit.
pub(super) fn notes(found: &Stability, design: Design, unit: &str) -> Vec<String> {
    let sides = [("base", &found.base), ("test", &found.test)];
    let mut out: Vec<String> = sides.iter().filter_map(|(name, side)| of_drift(name, &side.drift, design)).collect();
    if out.len() < sides.len() {
        out.extend(of_both(&found.both, design));
    }
    for (name, side) in sides {
        out.extend(of_outliers(name, &side.outliers, side.n, unit));
        out.extend(of_modes(name, side, unit));
    }
    if !out.is_empty() {
        out.push("leave no run out by hand: a choice made after looking makes p smaller than it should be".to_owned());
    }
    out
}

/// What cancels a drift, or what would.
fn against_drift(design: Design) -> &'static str {
    match design {
        Design::Blocks => {
            "the sides were interleaved, so what drifts on both alike cancels within rounds; if the first runs differ, \
             discard some with --warmup"
        }
        Design::Unpaired => {
            "runs that are not interleaved take this for a difference: interleave them with pagelab compare -n or pagelab \
             experiment; if the first runs differ, discard some with --warmup"
        }
    }
}

fn of_drift(name: &str, drift: &Drift, design: Design) -> Option<String> {
    let (Some(true), Some(tau), Some(p)) = (drift.found, drift.tau, drift.p) else { return None };
    let goes = if tau > 0.0 { "rise" } else { "fall" };
    let by = drift.change_pct.map_or_else(String::new, |change| {
        format!(" by about {} % from the first to the last", significant(change.abs(), 2))
    });
    Some(format!(
        "the {name} runs drift: they {goes}{by} (Kendall's tau {}, p = {}); {}",
        significant(tau, 2),
        significant(p, 2),
        against_drift(design)
    ))
}

fn of_both(drift: &Drift, design: Design) -> Option<String> {
    let (Some(true), Some(tau), Some(p)) = (drift.found, drift.tau, drift.p) else { return None };
    let goes = if tau > 0.0 { "rise" } else { "fall" };
    Some(format!(
        "the runs of both sides drift: they {goes} from the first to the last (Kendall's tau {}, p = {}); {}",
        significant(tau, 2),
        significant(p, 2),
        against_drift(design)
    ))
}

fn of_outliers(name: &str, found: &Outliers, n: usize, unit: &str) -> Option<String> {
    let first = found.runs.first().filter(|_| found.found == Some(true))?;
    let one = |run: &super::stability::OutlyingRun| {
        format!(
            "{} in {}, {} standard deviations of the others away",
            quantity(run.value, unit),
            run.dir,
            significant(run.deviations.abs(), 2)
        )
    };
    let listed: Vec<String> = found.runs.iter().take(NAMED).map(one).collect();
    let count = found.runs.len();
    let lie = if count == 1 { "1 is an outlier".to_owned() } else { format!("{count} are outliers") };
    Some(format!(
        "of {n} {name} runs {lie}: {} (p = {}); one such run widens the interval and can hide a difference: look at what \
         happened in it, and make more runs",
        listed.join("; "),
        significant(first.p, 2)
    ))
}

fn of_modes(name: &str, side: &SideStability, unit: &str) -> Option<String> {
    let TwoModes { found: Some(true), p: Some(p), lower: Some(lower), upper: Some(upper), separators, .. } =
        &side.modes
    else {
        return None;
    };
    let mut text = format!(
        "the {name} runs have two modes: {} near {} and {} near {} (p = {})",
        lower.n,
        quantity(lower.mean, unit),
        upper.n,
        quantity(upper.mean, unit),
        significant(*p, 2)
    );
    let first =
        [("lower", lower), ("higher", upper)].into_iter().find(|(_, mode)| mode.place.as_deref() == Some("first"));
    if let Some((which, mode)) = first {
        let _ = write!(text, "; the {which} ones are the {} first", mode.n);
    }
    if let Some(separators) = separators {
        text.push_str(&separated_by(separators));
    }
    text.push_str(match first {
        Some(_) => "; a mean of two modes says little: ",
        None => "; a mean of two modes says little: find what sets the mode and hold it fixed",
    });
    if let Some((_, mode)) = first {
        let _ = write!(text, "discard the first runs with --warmup {}", mode.n.min(WARM_UP_AT_MOST));
    }
    Some(text)
}

fn separated_by(found: &Separators) -> String {
    let settings: Vec<String> = found.settings.iter().take(NAMED).map(|setting| setting.key.clone()).collect();
    let name = |metric: &super::separators::SeparatingMetric| match &metric.instance {
        Some(instance) => format!("{}[{instance}]", metric.name),
        None => metric.name.clone(),
    };
    let metrics: Vec<String> = found.metrics.iter().take(NAMED).map(name).collect();
    let mut text = String::new();
    if !settings.is_empty() {
        let _ = write!(text, "; settings that differ between them: {}", settings.join(", "));
    }
    if metrics.is_empty() {
        let _ = write!(text, "; none of {} recorded metrics splits the runs so", found.looked_at);
    } else {
        let _ = write!(
            text,
            "; {} of {} recorded metrics split the runs in the same way ({} would by chance), most clearly {}",
            found.separating,
            found.looked_at,
            significant(found.by_chance, 2),
            metrics.join(", ")
        );
    }
    text
}
