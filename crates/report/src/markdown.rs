//! A comparison as Markdown, for a pull request or the summary of a build.

use std::fmt::Write as _;

use pagelab_analysis::compare::{Comparison, ComponentChange, LimitState, MetricComparison, Verdict};
use pagelab_analysis::rules::{Finding, lost_time};
use pagelab_vocab::units::{quantity, short_duration, significant};

use crate::finding::share_of_loss;
use crate::sides::ratio_text;
use crate::table::clean;
use crate::verdict::setting_values;

/// Rows of each table at most.
const ROWS: usize = 8;

/// The verdict, the limits, the causes with their evidence folded in, where the time went, and what else differs.
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = headline(comparison);
    out.push_str(&checks(comparison));
    for one in &comparison.findings {
        out.push_str(&finding(one));
    }
    if let Some(rest) = &comparison.unknown {
        let parts: Vec<String> = rest.components.iter().take(3).map(|one| format!("`{}`", one.component)).collect();
        let place = if parts.is_empty() { String::new() } else { format!(", in {}", parts.join(", ")) };
        let _ =
            writeln!(out, "{:.0} % of {} is claimed by no cause{place}.\n", rest.share * 100.0, lost_time(&rest.of));
    }
    out.push_str(&components(comparison));
    out.push_str(&metrics(comparison));
    out.push_str(&settings(comparison));
    out.push_str(&notes(comparison));
    out
}

fn headline(comparison: &Comparison) -> String {
    let runs = format!("{} base and {} test runs", comparison.base.n, comparison.test.n);
    let Some(primary) = &comparison.primary else {
        return format!("### No primary metric: nothing was decided\n\n{runs}.\n\n");
    };
    let verdict = match primary.verdict {
        Verdict::Worse => "Worse",
        Verdict::Better => "Better",
        Verdict::Different => "Different",
        Verdict::NoDifference => "No difference shown",
        Verdict::NotTested => "Not tested",
    };
    let show = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| quantity(value, &primary.unit));
    let ratio = primary.ratio.map_or_else(String::new, |ratio| ratio_text(ratio, primary.ratio_ci95));
    let p = primary.p.map_or_else(String::new, |p| format!(", p = {}", significant(p, 2)));
    format!(
        "### {verdict}: {}\n\n{} on base, {} on test{ratio}{p}; {runs}.\n\n",
        code(&primary.metric),
        show(primary.base_mean),
        show(primary.test_mean)
    )
}

fn checks(comparison: &Comparison) -> String {
    let limits = &comparison.limits;
    if limits.is_empty() {
        return String::new();
    }
    let mut out = String::from("| limit | let pass | loss | 95 % interval | |\n|---|---:|---:|---:|---|\n");
    for one in limits {
        let loss = one.loss_pct.map_or_else(|| "unknown".to_owned(), |loss| format!("{loss:+.1} %"));
        let interval = one.loss_ci95_pct.map_or_else(String::new, |[low, high]| format!("{low:+.1} to {high:+.1} %"));
        let state = match one.state {
            LimitState::Kept => "kept".to_owned(),
            LimitState::Broken => "**broken**".to_owned(),
            LimitState::NotDecided if one.is_bad() => "**worse**, perhaps beyond it".to_owned(),
            LimitState::NotDecided => "not decided: more runs would".to_owned(),
            LimitState::NotTested => {
                format!("**not tested**: {}", cell(one.note.as_deref().unwrap_or("its ratio has no interval")))
            }
        };
        let _ = writeln!(out, "| {} | {} % | {loss} | {interval} | {state} |", code(&one.metric), one.limit_pct);
    }
    if comparison.failures.test.bad() > 0 {
        let failures = &comparison.failures;
        let _ = write!(out, "\n{} of {} test runs failed", failures.test.bad(), failures.test.runs);
        let _ = writeln!(out, ", {} of {} base runs.", failures.base.bad(), failures.base.runs);
    }
    out.push('\n');
    out
}

fn finding(finding: &Finding) -> String {
    let mut out = format!("#### {} ({})\n\n{}.\n\n", code(&finding.cause), finding.called(), cell(&finding.summary));
    if let Some(effect) = &finding.effect {
        let _ = writeln!(out, "It takes {}.\n", share_of_loss(effect));
    }
    if let Some(follow_up) = &finding.follow_up {
        let _ = writeln!(out, "Toggled: {}: {}.\n", follow_up.state.replace('_', " "), cell(&follow_up.reason));
    }
    if let Some(fix) = finding.fixes.first() {
        let _ = writeln!(out, "{}:\n\n```sh\n{}\n```\n", cell(&fix.text), clean(&fix.command).replace("```", ""));
    }
    out.push_str("<details><summary>Evidence</summary>\n\n");
    for link in &finding.evidence {
        let _ = writeln!(out, "- {}", cell(link));
    }
    for unseen in &finding.not_looked_at {
        let _ = writeln!(out, "- not looked at: {}", cell(unseen));
    }
    out.push_str("\n</details>\n\n");
    out
}

fn components(comparison: &Comparison) -> String {
    let Some(budget) = &comparison.budget else { return String::new() };
    let moved: Vec<&ComponentChange> =
        budget.components.iter().filter(|one| one.difference_ns.is_some_and(|ns| ns != 0.0)).take(ROWS).collect();
    if moved.is_empty() {
        return String::new();
    }
    let mut out =
        format!("| time per {} | base | test | difference | 95 % interval |\n|---|---:|---:|---:|---:|\n", budget.per);
    let show = |ns: Option<f64>| ns.map_or_else(|| "unknown".to_owned(), short_duration);
    for one in moved {
        let interval = one
            .difference_ci95
            .map_or_else(String::new, |[low, high]| format!("{} to {}", short_duration(low), short_duration(high)));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {interval} |",
            code(&one.component),
            show(one.base_ns),
            show(one.test_ns),
            show(one.difference_ns)
        );
    }
    out.push('\n');
    out
}

fn metrics(comparison: &Comparison) -> String {
    let differing: Vec<&MetricComparison> =
        comparison.significant().filter(|metric| metric.follows_speed != Some(true)).take(ROWS).collect();
    if differing.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<details><summary>Metrics that differ</summary>\n\n| metric | base | test | ratio | q |\n|---|---:|---:|---:|---:|\n",
    );
    for metric in differing {
        let name = metric.instance.as_ref().map_or_else(|| metric.name.clone(), |i| format!("{}[{i}]", metric.name));
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, &metric.unit));
        let number = |value: Option<f64>, figures| value.map_or_else(|| "-".to_owned(), |v| significant(v, figures));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            code(&name),
            show(metric.base.mean),
            show(metric.test.mean),
            number(metric.ratio, 3),
            number(metric.q, 2)
        );
    }
    out.push_str("\n</details>\n\n");
    out
}

fn settings(comparison: &Comparison) -> String {
    if comparison.settings.is_empty() {
        return String::new();
    }
    let mut out =
        String::from("<details><summary>Settings that differ</summary>\n\n| setting | base | test |\n|---|---|---|\n");
    for diff in comparison.settings.iter().take(ROWS) {
        let [base, test] = setting_values(diff);
        let _ = writeln!(out, "| {} | {} | {} |", code(&diff.key), code(&base), code(&test));
    }
    let more = comparison.settings.len().saturating_sub(ROWS);
    if more > 0 {
        let _ = writeln!(out, "\n{more} less relevant ones are not listed.");
    }
    out.push_str("\n</details>\n\n");
    out
}

fn notes(comparison: &Comparison) -> String {
    let cautions = comparison.stability.iter().flat_map(|stability| &stability.notes);
    cautions.chain(&comparison.notes).fold(String::new(), |mut out, note| {
        let _ = writeln!(out, "> {}\n", cell(note));
        out
    })
}

/// Text of one line that Markdown takes as it is: names come from recordings.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for one in clean(&text.replace(['\n', '\r'], " ")).chars() {
        match one {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '[' | ']' | '`' | '\\' | '#' | '!' | '@' => {
                out.push('\\');
                out.push(one);
            }
            other => out.push(other),
        }
    }
    out
}

/// A name, in a span of code that it cannot end.
fn code(text: &str) -> String {
    let text = clean(&text.replace(['\n', '\r'], " ")).replace('`', "'").replace('|', "\\|");
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recording_says_stays_text() {
        assert_eq!(cell("a <b>x</b> | [y](z) `q` @me"), "a &lt;b>x&lt;/b> \\| \\[y\\](z) \\`q\\` \\@me");
        assert_eq!(code("a`|b\nc"), "`a'\\|b c`");
    }
}
