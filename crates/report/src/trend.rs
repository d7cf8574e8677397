//! A history as text: its chart, its changes, its levels.

use std::fmt::Write as _;

use pagelab_analysis::compare::Verdict;
use pagelab_analysis::trend::{ChangePoint, Drift, Scale, Shape, Trend};
use pagelab_vocab::units::{quantity, significant};

use crate::canvas::Canvas;
use crate::paragraph::wrap;
use crate::style::{Glyphs, Style};
use crate::table::{Table, clean, left, right};

/// Letters of a point's name in tables and below the chart.
const NAME_AT_MOST: usize = 32;

/// What was found in a history, its chart, and the tables of its changes and levels.
pub fn trend(trend: &Trend, style: &Style) -> String {
    let mut out = wrap(&headline(trend), style.width, "", "");
    if style.colour {
        out = format!("{}\n", style.heading(out.trim_end()));
    }
    out.push_str(&chart(trend, style));
    out.push_str(&change_points(trend, style));
    for drift in &trend.drifts {
        out.push_str(&wrap(&drift_text(trend, drift), style.width, "", "  "));
    }
    out.push_str(&levels(trend, style));
    out.push_str(&wrap(&strength(trend), style.width, "", ""));
    if let Some(newest) = &trend.newest {
        let size = newest.pct.map_or_else(|| "far".to_owned(), percent);
        let text = format!(
            "The newest {} off the last level by {size}{}: too few to tell a change from outliers; record more points.",
            if newest.points == 1 { "point is".to_owned() } else { format!("{} points are", newest.points) },
            word(newest.verdict).map_or_else(String::new, |word| format!(" ({word})")),
        );
        out.push_str(&wrap(&text, style.width, "CAUTION: ", "  "));
    }
    for note in &trend.notes {
        out.push_str(&wrap(note, style.width, "note: ", "      "));
    }
    out
}

fn headline(trend: &Trend) -> String {
    let metric = &trend.metric;
    let points = format!("{} points, alpha {}", trend.n, trend.alpha);
    if let Some(why) = &trend.not_tested {
        return format!("Not tested: {metric}: {why}.");
    }
    let steps = trend.change_points.len();
    if steps == 0 && trend.drifts.is_empty() {
        return format!("No change shown: {metric} ({points}).");
    }
    let count = |n: usize, one: &str| match n {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        _ => format!("{n} {one}s"),
    };
    let drifts = trend.drifts.iter().filter(|drift| drift.shape == Shape::Drift).count();
    let mut found = vec![count(steps, "change point"), count(drifts, "drift")];
    if drifts < trend.drifts.len() {
        found.push(count(trend.drifts.len() - drifts, "change of unclear shape"));
    }
    let last = match trend.verdict {
        Verdict::Worse => "The last change is for the worse",
        Verdict::Better => "The last change is for the better",
        Verdict::Different | Verdict::NoDifference | Verdict::NotTested => "The level changed",
    };
    format!("{last}: {metric}, {} ({points}).", found.join(", "))
}

fn word(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Better => Some("better"),
        Verdict::Worse => Some("worse"),
        Verdict::Different | Verdict::NoDifference | Verdict::NotTested => None,
    }
}

fn percent(pct: f64) -> String {
    format!("{}{} %", if pct > 0.0 { "+" } else { "" }, significant(pct, 3))
}

fn interval(ends: Option<[f64; 2]>) -> String {
    ends.map_or_else(|| "-".to_owned(), |[low, high]| format!("{} to {}", percent(low), percent(high)))
}

fn p_text(p: f64, is_least: bool) -> String {
    if is_least { format!("<= {}", significant(p, 2)) } else { significant(p, 2) }
}

/// The name of a point: its directory without the folder of all points, of a long one the end.
fn name(trend: &Trend, at: usize) -> String {
    name_within(trend, at, NAME_AT_MOST)
}

fn name_within(trend: &Trend, at: usize, at_most: usize) -> String {
    let folder = folder(trend).len();
    let own = trend.points.get(at).and_then(|point| point.dir.get(folder..));
    let name = own.map_or_else(|| "?".to_owned(), clean);
    let letters = name.chars().count();
    if letters <= at_most {
        return name;
    }
    let end: String = name.chars().skip(letters + 3 - at_most).collect();
    format!("...{end}")
}

/// What the directories of all points begin with, up to a slash.
fn folder(trend: &Trend) -> &str {
    let Some(first) = trend.points.first().map(|point| point.dir.trim_end_matches('/')) else { return "" };
    let is_common = |folder: &str| trend.points.iter().all(|point| point.dir.trim_end_matches('/').starts_with(folder));
    let slashes = first.rmatch_indices('/').map(|(at, _)| at + 1);
    slashes.filter_map(|at| first.get(..at)).find(|folder| is_common(folder)).unwrap_or("")
}

fn change_points(trend: &Trend, style: &Style) -> String {
    if trend.change_points.is_empty() {
        return String::new();
    }
    let columns = [
        right(""),
        left("last before"),
        left("first after"),
        right("change"),
        right("95 % interval"),
        right("p"),
        left(""),
    ];
    let mut table = Table::new(columns).ruled().wide(style.width);
    for (number, change) in (1..).zip(&trend.change_points) {
        let ChangePoint { before, after, pct, pct_ci95, p, p_is_least, verdict, .. } = change;
        table.row([
            format!("{number}"),
            name(trend, *before),
            name(trend, *after),
            pct.map_or_else(|| "-".to_owned(), percent),
            interval(*pct_ci95),
            p_text(*p, *p_is_least),
            word(*verdict).unwrap_or("different").to_owned(),
        ]);
    }
    let mut out = table.render();
    for (number, change) in (1..).zip(&trend.change_points) {
        if let Some([first, last]) = change.after_ci95.filter(|[first, last]| first < last) {
            let text = format!(
                "The place of {number} is sure to this: the new level begins at one of {} to {} (95 %).",
                name(trend, first),
                name(trend, last)
            );
            out.push_str(&wrap(&text, style.width, "", "  "));
        }
    }
    out
}

fn drift_text(trend: &Trend, drift: &Drift) -> String {
    let (first, last) = (name(trend, drift.first), name(trend, drift.last));
    let size = drift.pct.map_or_else(|| "an unknown share".to_owned(), percent);
    let sure = format!("95 % interval {}, p {}", interval(drift.pct_ci95), p_text(drift.p, drift.p_is_least));
    let way = word(drift.verdict).map_or_else(String::new, |word| format!(", for the {word}"));
    match drift.step_at {
        Some(at) => format!(
            "From {first} to {last} the level changed, by a slow drift or a step: by {size} along a line ({sure}){way}; if it is a step, it is between {} and {}. More points tell.",
            name(trend, at.saturating_sub(1)),
            name(trend, at)
        ),
        None => format!("From {first} to {last} it drifts by {size} in all ({sure}){way}; no step is shown in it."),
    }
}

fn levels(trend: &Trend, style: &Style) -> String {
    if trend.levels.len() < 2 {
        return String::new();
    }
    let columns = [left("from"), left("to"), right("points"), right("level"), left("")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    for level in &trend.levels {
        let shape = match level.shape {
            Shape::Level => "",
            Shape::Drift => "drifts",
            Shape::Undecided => "drift or step",
        };
        table.row([
            name(trend, level.first),
            name(trend, level.last),
            level.n.to_string(),
            quantity(level.level, &trend.unit),
            shape.to_owned(),
        ]);
    }
    table.render()
}

/// How large a step must be to be found.
fn strength(trend: &Trend) -> String {
    let (Some(noise), Some(detectable)) = (trend.noise, trend.detectable) else { return String::new() };
    let show = |size: f64| match trend.scale {
        Scale::Log => format!("{} %", significant(size, 2)),
        Scale::Linear => quantity(size, &trend.unit),
    };
    format!(
        "Points spread by {} about their level; a single step of about {} in the middle of such a history is found in 80 % of all cases.",
        show(noise),
        show(detectable)
    )
}

/// Characters of a chart.
struct Marks {
    level: char,
    change: char,
    bar: char,
    corner: char,
    line: char,
}

impl Marks {
    fn of(glyphs: Glyphs) -> Self {
        match glyphs {
            Glyphs::Braille => {
                Self { level: '\u{2500}', change: '\u{2506}', bar: '\u{2502}', corner: '\u{2514}', line: '\u{2500}' }
            }
            Glyphs::Ascii => Self { level: '-', change: ':', bar: '|', corner: '+', line: '-' },
        }
    }
}

/// The points in their order, the levels as lines, the change points as numbered verticals.
fn chart(trend: &Trend, style: &Style) -> String {
    let values: Vec<f64> = trend.points.iter().filter_map(|point| point.value).collect();
    let (Some(low), Some(high)) = (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
    else {
        return String::new();
    };
    let rows = style.height.max(4);
    let labels = [high, f64::midpoint(low, high), low].map(|value| quantity(value, &trend.unit));
    let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let columns = style.width.saturating_sub(margin + 3).clamp(20, trend.points.len().max(5) * 4);
    let marks = Marks::of(style.glyphs);
    let canvas = drawn(trend, [low, high], (columns, rows), style.glyphs, &marks);
    let mut out = String::new();
    for row in 0..rows {
        let label = match row {
            0 => &labels[0],
            _ if row == rows / 2 => &labels[1],
            _ if row + 1 == rows => &labels[2],
            _ => "",
        };
        let text = format!("{label:>margin$} {}{}", marks.bar, canvas.row(row));
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out.push_str(&axis(trend, margin, columns, &marks));
    let outliers = trend.points.iter().filter(|point| point.outlier).count();
    let mut legend = vec!["o a point".to_owned()];
    if !trend.levels.is_empty() {
        legend.push(format!("{} a level", marks.level));
    }
    if !trend.change_points.is_empty() {
        legend.push(format!("{} a change point", marks.change));
    }
    if outliers > 0 {
        legend.push("x an outlier".to_owned());
    }
    let folder = folder(trend);
    if !folder.is_empty() {
        legend.push(format!("names are of folders in {folder}"));
    }
    out.push_str(&wrap(&format!("({})", legend.join(", ")), style.width, "  ", "  "));
    out
}

fn drawn(
    trend: &Trend,
    [low, high]: [f64; 2],
    (columns, rows): (usize, usize),
    glyphs: Glyphs,
    marks: &Marks,
) -> Canvas {
    let mut canvas = Canvas::new(columns, rows, glyphs);
    let n = trend.points.len().max(1) as f64;
    let across = |at: f64| (at + 0.5) / n;
    // Equal values lie in the middle.
    let up = |value: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    for change in &trend.change_points {
        for row in 0..rows {
            canvas.letter(
                across(f64::midpoint(change.before as f64, change.after as f64)),
                (row as f64 + 0.5) / rows as f64,
                marks.change,
            );
        }
    }
    for level in &trend.levels {
        let [begin, end] = level.line.unwrap_or([level.level, level.level]);
        let (first, last) = (across(level.first as f64 - 0.4), across(level.last as f64 + 0.4));
        for column in 0..columns {
            let x = (column as f64 + 0.5) / columns as f64;
            if x >= first && x <= last {
                canvas.letter(x, up(begin + (end - begin) * (x - first) / (last - first)), marks.level);
            }
        }
    }
    for (at, point) in trend.points.iter().enumerate() {
        if let Some(value) = point.value {
            canvas.letter(across(at as f64), up(value), if point.outlier { 'x' } else { 'o' });
        }
    }
    canvas
}

/// The line below the chart with the numbers of the change points, and the names of the first and last point.
fn axis(trend: &Trend, margin: usize, columns: usize, marks: &Marks) -> String {
    let mut line: Vec<char> = vec![marks.line; columns];
    let n = trend.points.len().max(1) as f64;
    for (number, change) in (1..).zip(&trend.change_points) {
        let at = (f64::midpoint(change.before as f64, change.after as f64) + 0.5) / n;
        let column = ((at * columns as f64) as usize).min(columns.saturating_sub(1));
        for (place, digit) in number.to_string().chars().enumerate() {
            if let Some(mark) = line.get_mut(column + place) {
                *mark = digit;
            }
        }
    }
    let line: String = line.into_iter().collect();
    let at_most = NAME_AT_MOST.min(columns.saturating_sub(2) / 2).max(4);
    let (first, last) =
        (name_within(trend, 0, at_most), name_within(trend, trend.points.len().saturating_sub(1), at_most));
    let used = first.chars().count() + last.chars().count();
    let gap = " ".repeat(columns.saturating_sub(used).max(2));
    format!("{:>margin$} {}{line}\n{:>margin$}  {first}{gap}{last}\n", "", marks.corner, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_analysis::compare::PrimaryChoice;
    use pagelab_analysis::trend::{DetectOptions, of_values};

    /// Points that go up and down by 1 %, and to `ratio` from the sixteenth on.
    fn history(n: usize, of: impl Fn(usize) -> f64) -> Trend {
        let wobble = [0.3, -0.7, 1.0, -0.2, -1.0, 0.6, 0.1];
        let values: Vec<f64> = (0..n).map(|i| 1e9 * of(i) * (1.0 + 0.01 * wobble[i * 3 % 7])).collect();
        let mut trend = of_values(&values, &PrimaryChoice::of("run.elapsed_ns"), "ns", &DetectOptions::default());
        for (at, point) in trend.points.iter_mut().enumerate() {
            point.dir = format!("/srv/benchmarks/of/the/file/server/nights/{at:02}");
        }
        trend
    }

    fn flat(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_step_is_drawn_and_named() {
        let found = history(40, |i| if i < 16 { 1.0 } else { 1.2 });
        for (width, glyphs) in [(40, Glyphs::Ascii), (80, Glyphs::Braille), (120, Glyphs::Ascii)] {
            let text = trend(&found, &Style { width, glyphs, ..Style::default() });
            let picture: Vec<&str> = text.lines().take_while(|line| !line.contains("a point")).collect();
            assert!(picture.iter().all(|line| line.chars().count() <= width), "{text}");
            let said = flat(&text);
            for part in ["for the worse: run.elapsed_ns, 1 change point", "a change point", "+20"] {
                assert!(said.contains(part), "no {part:?} in:\n{text}");
            }
        }
        let text = trend(&found, &Style { width: 120, ..Style::default() });
        assert!(text.contains("  15  ") && text.contains("  16  ") && text.contains("server/nights/)"), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with(' ') && line.contains("+---") && line.contains("-1-")),
            "{text}"
        );
    }

    #[test]
    fn drifts_nothing_and_too_little_are_said() {
        let style = Style::default();
        let drift = flat(&trend(&history(60, |i| 1.0 + 0.004 * i as f64), &style));
        assert!(drift.contains("no change point, 1 drift") && drift.contains("it drifts by +2"), "{drift}");
        let nothing = flat(&trend(&history(40, |_| 1.0), &style));
        assert!(
            nothing.contains("No change shown: run.elapsed_ns (40 points") && nothing.contains("80 %"),
            "{nothing}"
        );
        let few = flat(&trend(&history(4, |_| 1.0), &style));
        assert!(few.contains("Not tested") && few.contains("at least 10"), "{few}");
        let newest = flat(&trend(&history(40, |i| if i < 39 { 1.0 } else { 1.5 }), &style));
        assert!(
            newest.contains("CAUTION: The newest point is off the last level by +5") && newest.contains("(worse)"),
            "{newest}"
        );
    }

    #[test]
    fn names_cannot_draw() {
        let mut found = history(20, |_| 1.0);
        found.points[0].dir = "\x1b[2Jx".to_owned();
        found.notes.push("\x1b[2J".to_owned());
        assert!(!trend(&found, &Style::default()).contains('\x1b'));
    }
}
