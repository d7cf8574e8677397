//! Where the difference of two sides is, component by component: the way from the base's time to the test side's.

use std::fmt::Write as _;

use pagelab_analysis::compare::{BudgetComparison, ComponentChange};
use pagelab_vocab::units::short_duration;

use crate::paragraph::wrap;
use crate::style::{Glyphs, Style};
use crate::table::{Table, left, right};

/// Steps shown; the others are one line.
const STEPS: usize = 8;
/// Columns of the picture.
const COLUMNS: usize = 28;

/// The picture; empty without an account.
pub(crate) fn waterfall(budget: Option<&BudgetComparison>, style: &Style) -> String {
    waterfall_of(budget, style, STEPS)
}

/// With so many steps at most.
pub(crate) fn waterfall_of(budget: Option<&BudgetComparison>, style: &Style, steps: usize) -> String {
    let Some(budget) = budget else { return String::new() };
    let mut out = wrap(&headline(budget), style.width, "", "");
    let scale = Scale::of(budget, style.glyphs, steps);
    let mut table = Table::new([left(""), right("time"), right("95 % interval"), right("share"), left("")]).ruled();
    table = table.wide(style.width);
    let plain =
        |name: &str, ns: f64, bar: String| [name.to_owned(), short_duration(ns), String::new(), String::new(), bar];
    table.row(plain("base", budget.base_ns, scale.bar(0.0, budget.base_ns, Bar::Whole)));
    let mut at = budget.base_ns;
    let (shown, others) = budget.components.split_at(budget.components.len().min(steps));
    for change in shown {
        table.row(step(change, &mut at, &scale));
    }
    let rest = budget.test_ns - at;
    if !others.is_empty() {
        let name = format!("{} others", others.len());
        table.row([name, signed(rest), String::new(), String::new(), scale.bar(at, at + rest, Bar::of(rest))]);
    }
    table.row(plain("test", budget.test_ns, scale.bar(0.0, budget.test_ns, Bar::Whole)));
    out.push_str(&table.render());
    for missing in &budget.missing {
        let line =
            format!("not known: {} on {} ({} runs): {}", missing.part, missing.side, missing.runs, missing.reason);
        out.push_str(&wrap(&line, style.width, "  ", "    "));
    }
    out.push('\n');
    out
}

fn headline(budget: &BudgetComparison) -> String {
    let mut out = format!(
        "Where the time of {} {} went: {} on base, {} on test, {}",
        if budget.per == "operation" { "an" } else { "a" },
        budget.per,
        short_duration(budget.base_ns),
        short_duration(budget.test_ns),
        signed(budget.difference_ns),
    );
    if let Some([low, high]) = budget.difference_ci95 {
        let _ = write!(out, " (95 % interval {} to {})", signed(low), signed(high));
    }
    out.push('.');
    if budget.intervals_from == "sampling" {
        out.push_str(" One run a side: intervals hold the error of sampling, not how much runs vary.");
    }
    if budget.is_lower_bound {
        out.push_str(" A part is missing, so this is a lower bound.");
    }
    out
}

pub(crate) fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", short_duration(ns.abs()))
}

/// What a bar shows.
#[derive(Debug, Clone, Copy)]
enum Bar {
    /// A side's time.
    Whole,
    /// Time that the test side has more.
    More,
    /// Time that it has less.
    Less,
}

impl Bar {
    fn of(difference: f64) -> Self {
        if difference < 0.0 { Self::Less } else { Self::More }
    }

    fn glyph(self, glyphs: Glyphs) -> char {
        match (self, glyphs) {
            (Self::Whole, Glyphs::Braille) => '█',
            (Self::More, Glyphs::Braille) => '▓',
            (Self::Less, Glyphs::Braille) => '░',
            (Self::Whole, Glyphs::Ascii) => '#',
            (Self::More, Glyphs::Ascii) => '+',
            (Self::Less, Glyphs::Ascii) => '-',
        }
    }
}

fn step(change: &ComponentChange, at: &mut f64, scale: &Scale) -> [String; 5] {
    let Some(ns) = change.difference_ns else {
        let none = "-".to_owned();
        return [change.component.clone(), none.clone(), none.clone(), none, String::new()];
    };
    let bar = scale.bar(*at, *at + ns, Bar::of(ns));
    *at += ns;
    let interval = change
        .difference_ci95
        .map_or_else(|| "-".to_owned(), |[low, high]| format!("{} to {}", signed(low), signed(high)));
    let share = change.share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    [change.component.clone(), signed(ns), interval, share, bar]
}

/// Where on the line a time lies.
struct Scale {
    most: f64,
    glyphs: Glyphs,
}

impl Scale {
    fn of(budget: &BudgetComparison, glyphs: Glyphs, steps: usize) -> Self {
        let (mut at, mut most) = (budget.base_ns, budget.base_ns.max(budget.test_ns));
        for change in budget.components.iter().take(steps) {
            at += change.difference_ns.unwrap_or(0.0);
            most = most.max(at);
        }
        Self { most: most.max(1e-9), glyphs }
    }

    /// A bar from one time to another, in either order; a difference too small to be seen is a line. What lies before it is no
    /// blank, at which tables break lines.
    fn bar(&self, from: f64, to: f64, bar: Bar) -> String {
        let column = |ns: f64| ((ns / self.most * COLUMNS as f64).round().max(0.0) as usize).min(COLUMNS);
        let (from, to) = (column(from.min(to)), column(from.max(to)));
        let (before, line) = match self.glyphs {
            Glyphs::Braille => ("·", "│"),
            Glyphs::Ascii => (".", "|"),
        };
        if from == to {
            return format!("{}{line}", before.repeat(from));
        }
        format!("{}{}", before.repeat(from), bar.glyph(self.glyphs).to_string().repeat(to - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(component: &str, difference: f64) -> ComponentChange {
        ComponentChange {
            component: component.to_owned(),
            state: "run".to_owned(),
            about: String::new(),
            base_ns: Some(1000.0),
            test_ns: Some(1000.0 + difference),
            difference_ns: Some(difference),
            difference_ci95: Some([difference - 10.0, difference + 10.0]),
            share: Some(difference / 3000.0),
            p: None,
            q: None,
            significant: None,
        }
    }

    fn budget(components: Vec<ComponentChange>) -> BudgetComparison {
        BudgetComparison {
            per: "operation".to_owned(),
            runs: [5, 5],
            base_ns: 10_000.0,
            test_ns: 13_000.0,
            difference_ns: 3000.0,
            difference_ci95: Some([2900.0, 3100.0]),
            intervals_from: "runs".to_owned(),
            components,
            mechanisms: Vec::new(),
            places: Vec::new(),
            missing: Vec::new(),
            is_lower_bound: false,
            samples_per_second: [None; 2],
        }
    }

    #[test]
    fn steps_lead_from_base_to_test() {
        let many = (0..9).map(|i| change(&format!("run.other{i}"), 100.0));
        let components = [change("run.memory.clear", 2500.0), change("idle", -400.0)].into_iter().chain(many);
        let text = waterfall(Some(&budget(components.collect())), &Style { width: 120, ..Style::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("10us on base, 13us on test, +3us (95 % interval +2.9us to +3.1us)"), "{text}");
        let line = |name: &str| *lines.iter().find(|line| line.trim_start().starts_with(name)).expect("a step");
        assert!(line("run.memory.clear").contains("+2.5us") && line("run.memory.clear").contains("83 %"), "{text}");
        assert!(line("idle").contains("-400ns") && line("idle").contains(".-"), "{text}");
        assert!(line("3 others").contains("+300ns"), "what the steps leave over: {text}");
        let columns = |line: &str| line.chars().filter(|c| *c == '#').count();
        assert!((columns(line("base")) * 13).abs_diff(columns(line("test")) * 10) <= 13, "{text}");
        assert_eq!(waterfall(None, &Style::default()), "");
    }
}
