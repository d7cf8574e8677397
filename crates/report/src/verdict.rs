//! The verdict of a comparison as text.

use std::fmt::Write as _;

use pagelab_analysis::compare::{Comparison, ComparisonMethod, MetricComparison, Primary, Verdict};
use pagelab_analysis::rules::{Considered, RuleOutcome};
use pagelab_analysis::settings_diff::{PartDiff, SettingDiff};
use pagelab_vocab::units::{quantity, significant};

use crate::changes::largest_changes;
pub use crate::explanation::explanation;
use crate::finding::{finding, recorder, unexplained, unknown};
use crate::latency::latency;
use crate::paragraph::wrap;
use crate::places::places;
pub use crate::sides::each_run;
use crate::sides::{ratio_text, sides};
use crate::style::Style;
use crate::table::{Table, clean, left, right};
use crate::waterfall::waterfall;

/// Metrics listed at most.
const METRICS: usize = 10;
/// Settings listed at most.
const SETTINGS: usize = 12;

/// The verdict: is there a difference, why, and what mends it; then the metrics and settings that differ.
pub fn comparison(comparison: &Comparison, style: &Style) -> String {
    let mut out = cautions(comparison, style);
    out.push_str(&headline(comparison, style));
    out.push('\n');
    for one in &comparison.findings {
        out.push_str(&finding(one, true, style));
        out.push('\n');
    }
    if comparison.findings.is_empty() {
        out.push_str(&no_cause(comparison, style));
        out.push('\n');
    }
    if let Some(share) = &comparison.recorder {
        out.push_str(&wrap(&recorder(share), style.width, "", "  "));
    }
    out.push_str(&match &comparison.unknown {
        Some(rest) => unknown(rest, style.width),
        None => unexplained(comparison.unexplained.as_ref(), style.width),
    });
    out.push_str(&waterfall(comparison.budget.as_ref(), style));
    out.push_str(&places(comparison, style, usize::MAX));
    out.push_str(&largest_changes(&comparison.largest_changes, style));
    out.push_str(&metrics(comparison, style));
    out.push_str(&latency(&comparison.latency, style));
    out.push_str(&settings(comparison, style));
    for note in &comparison.notes {
        out.push_str(&wrap(note, style.width, "note: ", "      "));
    }
    out
}

/// Drift, outliers and modes of a side: they bear on every number that follows.
fn cautions(comparison: &Comparison, style: &Style) -> String {
    let notes = comparison.stability.iter().flat_map(|stability| &stability.notes);
    notes.map(|note| wrap(&clean(note), style.width, "CAUTION: ", "  ")).collect()
}

fn headline(comparison: &Comparison, style: &Style) -> String {
    let runs = format!("{} base and {} test runs", comparison.base.n, comparison.test.n);
    let text = match &comparison.primary {
        None => no_primary(comparison, &runs),
        Some(primary) => judged(primary, comparison.method, &runs, comparison.alpha),
    };
    let mut out = wrap(&text, style.width, "", "");
    if style.colour {
        out = format!("{}\n", style.heading(out.trim_end()));
    }
    out.push_str(&sides(comparison, style));
    if comparison.exploratory {
        out.push_str(&wrap(
            "Exploratory: runs were added after looking at a result, so the p values are smaller than they should be.",
            style.width,
            "",
            "",
        ));
    }
    out
}

/// That no metric decides, and why.
pub(crate) fn no_primary(comparison: &Comparison, runs: &str) -> String {
    let reason =
        comparison.no_primary.as_deref().map_or_else(String::new, |reason| format!(" Reason: {}.", clean(reason)));
    format!("No primary metric: nothing was decided ({runs}).{reason}")
}

pub(crate) fn judged(primary: &Primary, method: ComparisonMethod, runs: &str, alpha: f64) -> String {
    let verdict = match primary.verdict {
        Verdict::Worse => "Test is worse",
        Verdict::Better => "Test is better",
        Verdict::Different => "Test is different",
        Verdict::NoDifference => "No difference was shown",
        Verdict::NotTested => "Not tested",
    };
    let within = primary.nothing_shown.equivalent_within_pct;
    let equivalent = within.map_or_else(String::new, |pct| format!(", equivalent within {} %", significant(pct, 2)));
    let show = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| quantity(value, &primary.unit));
    let ratio = primary.ratio.map_or_else(String::new, |ratio| ratio_text(ratio, primary.ratio_ci95));
    let p = primary.p.map_or_else(String::new, |p| format!(", p = {}", significant(p, 2)));
    let by_design = match method {
        ComparisonMethod::PairedBlocks => "compared within rounds",
        ComparisonMethod::Welch => "Welch's test",
    };
    let method = primary.result.adjusted.as_ref().map_or_else(
        || by_design.to_owned(),
        |adjusted| {
            let without =
                adjusted.unadjusted_p.map_or_else(String::new, |p| format!("; p = {} without", significant(p, 2)));
            let explained = significant(100.0 * adjusted.explained, 2);
            format!("compared at equal speed of the machine, which explains {explained} % of the variance{without}")
        },
    );
    format!(
        "{verdict}{equivalent}: {}, mean {} on base, {} on test{ratio}{p} ({runs}, {method}, alpha {alpha}).",
        primary.metric,
        show(primary.base_mean),
        show(primary.test_mean)
    )
}

fn no_cause(comparison: &Comparison, style: &Style) -> String {
    let said = no_cause_in_a_line(comparison);
    let was_looked_for = is_shown(comparison) || is_untested(comparison);
    let considered = if was_looked_for { considered(&comparison.considered, style) } else { String::new() };
    format!("{said}\n{considered}")
}

/// Why there is no cause, or that there is none.
pub(crate) fn no_cause_in_a_line(comparison: &Comparison) -> String {
    comparison.no_cause.clone().unwrap_or_else(|| "No cause was found.".to_owned())
}

fn is_shown(comparison: &Comparison) -> bool {
    let verdict = comparison.primary.as_ref().map(|primary| primary.verdict);
    matches!(verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Different))
}

fn is_untested(comparison: &Comparison) -> bool {
    comparison.considered.iter().any(|one| one.outcome == RuleOutcome::NotTested)
}

/// Causes that are given a line of their own.
const CONSIDERED: usize = 6;

/// The rules with their outcomes. Rules whose reasons are the same share a line; beyond the first lines the causes are named only.
pub(crate) fn considered(considered: &[Considered], style: &Style) -> String {
    let mut lines: Vec<(RuleOutcome, String, Vec<&str>)> = Vec::new();
    for one in considered {
        let reasons = one.reasons.join("; ");
        match lines.iter_mut().find(|(outcome, said, _)| *outcome == one.outcome && *said == reasons) {
            Some((_, _, causes)) => causes.push(&one.cause),
            None => lines.push((one.outcome, reasons, vec![&one.cause])),
        }
    }
    let mut out = String::new();
    for (outcome, reasons, causes) in lines.iter().take(CONSIDERED) {
        let text = format!("{} ({outcome}): {reasons}", causes.join(", "));
        out.push_str(&wrap(&text, style.width, "  - ", "    "));
    }
    let more: Vec<&str> = lines.iter().skip(CONSIDERED).flat_map(|(_, _, causes)| causes).copied().collect();
    if !more.is_empty() {
        let text = format!("and {} more, whose reasons are in the JSON (--json): {}", more.len(), more.join(", "));
        out.push_str(&wrap(&text, style.width, "  - ", "    "));
    }
    out
}

fn metrics(comparison: &Comparison, style: &Style) -> String {
    let differing: Vec<&MetricComparison> = comparison.significant().collect();
    let tested: usize =
        comparison.families.iter().filter(|family| family.name == "metrics").map(|family| family.size).sum();
    if tested == 0 {
        return "Too few runs to test any other metric.\n".to_owned();
    }
    if differing.is_empty() {
        return format!("No other metric differs, of {tested} tested.\n");
    }
    let mut table = Table::new([left("metric"), right("base"), right("test"), right("ratio"), right("q")])
        .ruled()
        .wide(style.width);
    let (following, telling): (Vec<&MetricComparison>, Vec<&MetricComparison>) =
        differing.iter().copied().partition(|metric| metric.follows_speed == Some(true));
    if telling.is_empty() {
        return format!("{} of {tested} metrics differ, all of them only as the speed does.\n", differing.len());
    }
    for metric in telling.iter().take(METRICS) {
        let name = metric.instance.as_ref().map_or_else(|| metric.name.clone(), |i| format!("{}[{i}]", metric.name));
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, &metric.unit));
        let number = |value: Option<f64>, figures| value.map_or_else(|| "-".to_owned(), |v| significant(v, figures));
        table.row([name, show(metric.base.mean), show(metric.test.mean), number(metric.ratio, 3), number(metric.q, 2)]);
    }
    let mut out = format!("{} of {tested} metrics differ", differing.len());
    if !following.is_empty() {
        let _ = write!(out, ", {} of them only as the speed does", following.len());
    }
    let _ = writeln!(
        out,
        "{}",
        if telling.len() > METRICS { format!("; the {METRICS} most certain others:") } else { ":".to_owned() }
    );
    out.push_str(&table.render());
    out
}

/// The values of both sides on one line each; of a list, the members that differ.
pub(crate) fn setting_values(diff: &SettingDiff) -> [String; 2] {
    let absent = || "(not there)".to_owned();
    if diff.parts.is_empty() {
        return [&diff.base, &diff.test].map(|value| value.clone().unwrap_or_else(absent).replace('\n', " "));
    }
    let of = |side: fn(&PartDiff) -> &Option<String>| {
        let parts: Vec<&str> = diff.parts.iter().filter_map(|part| side(part).as_deref()).collect();
        if parts.is_empty() { absent() } else { parts.join(" ") }
    };
    [of(|part| &part.base), of(|part| &part.test)]
}

fn settings(comparison: &Comparison, style: &Style) -> String {
    if comparison.settings.is_empty() {
        return "\nNo setting differs.\n".to_owned();
    }
    let named = |key: &str| {
        comparison.findings.iter().any(|one| one.setting.as_ref().is_some_and(|setting| setting.key == key))
    };
    let mut table = Table::new([left("setting"), left("base"), left("test"), left("named")]).ruled().wide(style.width);
    for diff in comparison.settings.iter().take(SETTINGS) {
        let [base, test] = setting_values(diff);
        table.row([
            diff.key.clone(),
            base,
            test,
            if named(&diff.key) {
                "a cause".to_owned()
            } else {
                diff.follows_from().map_or_else(String::new, |from| format!("follows {from}"))
            },
        ]);
    }
    let more = comparison.settings.len().saturating_sub(SETTINGS);
    let rest = if more > 0 { format!("; {more} less relevant ones are not listed") } else { String::new() };
    let mut text = format!("\n{} settings differ{rest}:\n{}", comparison.settings.len(), table.render());
    let following = comparison.settings_following.len();
    if following > 0 {
        let _ = writeln!(
            text,
            "{following} build options and knobs of little weight differ because the kernels do: settings_following of the JSON"
        );
    }
    text
}
