//! The two sides of a comparison: their commands, how their values spread, and the difference this number of runs can
//! show.

use pagelab_analysis::compare::{Comparison, Facts, Primary, RunEntry, SideFacts, Verdict};
use pagelab_vocab::units::{quantity, significant};

use crate::paragraph::wrap;
use crate::style::Style;
use crate::table::{Table, clean, left, right};

/// From this width on the table has the smallest and the largest value.
const WIDE: usize = 80;
/// Letters of a side's name in the table.
const NAME_AT_MOST: usize = 20;

/// What each side ran, a row of numbers for each, and what a reader must beware of.
pub(crate) fn sides(comparison: &Comparison, style: &Style) -> String {
    let Some(facts) = &comparison.facts else {
        let sides = format!("base: {}; test: {}", clean(&comparison.base.label), clean(&comparison.test.label));
        return wrap(&sides, style.width, "", "  ");
    };
    let mut out = commands(comparison, facts, style);
    if let Some(primary) = &comparison.primary {
        out.push_str(&spread(comparison, facts, &primary.unit, style));
        out.push_str(&against_the_means(primary, facts, style));
    }
    out.push_str(&power(comparison, facts, style));
    for caution in &facts.cautions {
        out.push_str(&wrap(&clean(caution), style.width, "CAUTION: ", "  "));
    }
    out
}

/// `base (good)`, or `base` where the label says no more.
fn name(side: &str, label: &str) -> String {
    if label == side || label.is_empty() { side.to_owned() } else { format!("{side} ({})", clean(label)) }
}

/// The commands of both sides: one line where they are the same.
fn commands(comparison: &Comparison, facts: &Facts, style: &Style) -> String {
    let (base, test) = (&facts.base.commands, &facts.test.commands);
    let line = |name: &str, commands: &[String]| {
        let shown = commands.iter().map(|command| clean(command)).collect::<Vec<_>>().join("; ");
        wrap(&shown, style.width, &format!("{name}: "), "    ")
    };
    let names = [name("base", &comparison.base.label), name("test", &comparison.test.label)];
    if base.is_empty() && test.is_empty() {
        return wrap(&names.join("; "), style.width, "", "  ");
    }
    if base == test {
        return line(&format!("{} and {}", names[0], names[1]), base);
    }
    line(&names[0], base) + &line(&names[1], test)
}

fn spread(comparison: &Comparison, facts: &Facts, unit: &str, style: &Style) -> String {
    let wide = style.width >= WIDE;
    let mut columns =
        vec![left("side").at_most(NAME_AT_MOST), right("runs"), right("mean"), right("median"), right("sd")];
    if wide {
        columns.extend([right("lowest"), right("highest")]);
    }
    let mut table = Table::new(columns).ruled().wide(style.width);
    for (side, label, facts) in
        [("base", &comparison.base.label, &facts.base), ("test", &comparison.test.label, &facts.test)]
    {
        let SideFacts { mean, median, sd, min, max, .. } = facts;
        let show = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, unit));
        let mut row = vec![name(side, label), facts.n.to_string(), show(mean), show(median), show(sd)];
        if wide {
            row.extend([show(min), show(max)]);
        }
        table.row(row);
    }
    table.render()
}

/// A ratio of geometric means may point the other way than the means that stand above it.
fn against_the_means(primary: &Primary, facts: &Facts, style: &Style) -> String {
    let means = facts.base.mean.zip(facts.test.mean).filter(|(base, test)| *base > 0.0 && *test > 0.0);
    let (Some(ratio), Some((base, test))) = (primary.ratio, means) else { return String::new() };
    let differ = (test / base / ratio - 1.0).abs() > 0.01;
    if !differ || (ratio - 1.0) * (test - base) >= 0.0 {
        return String::new();
    }
    let text = "The ratio is one of geometric means and points the other way than the means: a few runs lie far from the rest; see them with --each-run.";
    wrap(text, style.width, "", "  ")
}

/// How large a difference must be to be found with this number of runs; said where none was.
pub(crate) fn power(comparison: &Comparison, facts: &Facts, style: &Style) -> String {
    let verdict = comparison.primary.as_ref().map(|primary| primary.verdict);
    let text = match (verdict, &facts.power) {
        (Some(Verdict::NoDifference), Some(power)) => {
            // Twice as much, or half of it: per cent would no longer say what is meant.
            let size = if power.detectable_pct < 100.0 {
                format!("difference of {} %", significant(power.detectable_pct, 2))
            } else {
                format!("factor of {}", significant(rounded(1.0 + power.detectable_pct / 100.0), 2))
            };
            let cases = significant(100.0 * power.chance, 2);
            let found = format!("With so many runs a {size} or more is found in {cases} % of all cases");
            format!("{found}{}.", runs_needed(comparison))
        }
        (Some(Verdict::NotTested), _) if comparison.base.n < 2 || comparison.test.n < 2 => {
            "One run of a side cannot be tested: make 5 or more of each, interleaved: pagelab compare -n 5 -- ..."
                .to_owned()
        }
        _ => return String::new(),
    };
    wrap(&text, style.width, "", "  ")
}

/// `; 4 runs of each side find 10 % so often, 12 find 5 % and 70 find 2 %`, without the changes that are found already.
fn runs_needed(comparison: &Comparison) -> String {
    let made = comparison.base.n.min(comparison.test.n) as u64;
    let needed = comparison.primary.iter().flat_map(|primary| &primary.nothing_shown.runs_needed);
    let mut parts: Vec<String> = Vec::new();
    for one in needed.rev().filter(|one| one.runs.is_none_or(|runs| runs > made)) {
        let change = significant(one.change_pct, 2);
        let sides = if parts.is_empty() { " runs of each side" } else { "" };
        parts.push(match one.runs {
            Some(runs) => format!("{}{sides} find {change} %", rounded(runs as f64)),
            None => format!("more than 100,000{sides} would find {change} %"),
        });
    }
    let (last, rest) = match parts.split_last() {
        None => return String::new(),
        Some((last, [])) => return format!("; {last} so often"),
        Some(split) => split,
    };
    format!("; {} and {last} so often", rest.join(", "))
}

/// Rounded up to two figures.
fn rounded(value: f64) -> f64 {
    let step = 10_f64.powf((value.log10().floor() - 1.0).max(0.0));
    (value / step).ceil() * step
}

/// `, ratio 0.72 (95 % interval 0.29 to 1.77)`, with as many digits as the interval leaves meaning.
pub(crate) fn ratio_text(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let Some([low, high]) = interval else { return format!(", ratio {}", significant(ratio, 3)) };
    let half = (high - low).abs() / 2.0;
    let decimals = if half > 0.0 { 1.0 - half.log10().floor() } else { 4.0 };
    // An end near 0 keeps two figures, however far the other one is.
    let figures = |value: f64| if value > 0.0 { 1.0 - value.log10().floor() } else { 0.0 };
    let show = |value: f64| {
        let decimals = decimals.max(figures(value)).clamp(0.0, 6.0) as usize;
        format!("{value:.decimals$}")
    };
    format!(", ratio {} (95 % interval {} to {})", show(ratio), show(low), show(high))
}

/// The primary metric of every run, in the order of rounds.
pub fn each_run(comparison: &Comparison, style: &Style) -> String {
    let Some(primary) = &comparison.primary else {
        return "\nNo primary metric, so there is no value of each run.\n".to_owned();
    };
    let mut table = Table::new([right("round"), left("side"), right("run"), right(""), left("not counted because")])
        .ruled()
        .wide(style.width);
    let base = comparison.base.runs.iter().map(|run| ("base", run));
    let mut runs: Vec<(&str, &RunEntry)> = base.chain(comparison.test.runs.iter().map(|run| ("test", run))).collect();
    runs.sort_by_key(|(side, run)| (run.round, *side, run.run));
    for (side, run) in runs {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let value = run.primary.map_or_else(|| "-".to_owned(), |value| quantity(value, &primary.unit));
        let excluded = run.excluded.as_ref().map_or_else(String::new, ToString::to_string);
        table.row([number(run.round), side.to_owned(), number(run.run), value, excluded]);
    }
    format!("\n{} of each run:\n{}", clean(&primary.metric), table.render())
}

#[cfg(test)]
mod tests {
    use super::ratio_text;

    #[test]
    fn a_ratio_has_the_digits_that_its_interval_leaves() {
        assert_eq!(ratio_text(0.71699, Some([0.2899, 1.7731])), ", ratio 0.72 (95 % interval 0.29 to 1.77)");
        assert_eq!(ratio_text(2.006_41, Some([2.0049, 2.0081])), ", ratio 2.0064 (95 % interval 2.0049 to 2.0081)");
        assert_eq!(ratio_text(38.2, Some([0.88, 1639.4])), ", ratio 38 (95 % interval 0.88 to 1639)");
        assert_eq!(ratio_text(7.2, None), ", ratio 7.2");
    }
}
