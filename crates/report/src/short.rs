//! A comparison on one screen: the verdict, where the difference is, why, and what to do next. The whole is in [`crate::verdict`].

use std::fmt::Write as _;

use pagelab_analysis::compare::{Comparison, Unknown, Verdict};
use pagelab_analysis::rules::{Finding, lost_time, record_sentence};

use crate::finding::{known_place, recorder, share_of_loss};
use crate::paragraph::wrap;
use crate::places::places;
use crate::sides::power;
use crate::style::Style;
use crate::table::clean;
use crate::verdict::{judged, no_cause_in_a_line, no_primary, setting_values};
use crate::waterfall::waterfall_of;

/// Lines of the whole, commands that are longer than a line counted once.
const LINES: usize = 25;
/// Steps of the waterfall at most; as many as there is room for, and one at least.
const STEPS: usize = 6;
/// Places of a component.
const PLACES: usize = 2;
/// Cautions; the rest are counted.
const CAUTIONS: usize = 2;
/// Share of the loss from which on it is said what is known of the unknown part's first place.
const MUCH_UNKNOWN: f64 = 0.25;
/// Causes that are named; the first one with its fix.
const CAUSES: usize = 3;

/// The comparison in some 25 lines.
pub fn short(comparison: &Comparison, style: &Style) -> String {
    let mut head = headline(comparison, style);
    head.push_str(&cautions(comparison, style));
    let places = places(comparison, style, PLACES);
    let mut tail = why(comparison, style);
    tail.push_str(&next(comparison, style));
    let room = LINES.saturating_sub(head.lines().count() + places.lines().count() + tail.lines().count());
    head + &account(comparison, style, room) + &places + &tail
}

/// The account with as many steps as fit into so many lines.
fn account(comparison: &Comparison, style: &Style, room: usize) -> String {
    let mut drawn = waterfall_of(comparison.budget.as_ref(), style, STEPS);
    for steps in (1..STEPS).rev() {
        if drawn.lines().count() <= room {
            break;
        }
        drawn = waterfall_of(comparison.budget.as_ref(), style, steps);
    }
    drawn
}

fn headline(comparison: &Comparison, style: &Style) -> String {
    let runs = format!("{} base and {} test runs", comparison.base.n, comparison.test.n);
    let Some(primary) = &comparison.primary else {
        return wrap(&no_primary(comparison, &runs), style.width, "", "");
    };
    let text = wrap(&judged(primary, comparison.method, &runs, comparison.alpha), style.width, "", "");
    let mut out = format!("{}\n", style.heading(text.trim_end()));
    if let Some(facts) = &comparison.facts {
        out.push_str(&power(comparison, facts, style));
    }
    out
}

/// What bears on every number, the first ones.
fn cautions(comparison: &Comparison, style: &Style) -> String {
    let of_runs = comparison.stability.iter().flat_map(|stability| &stability.notes);
    let of_sides = comparison.facts.iter().flat_map(|facts| &facts.cautions);
    let all: Vec<&String> = of_runs.chain(of_sides).collect();
    let exploratory = comparison.exploratory.then_some("exploratory: runs were added after looking at a result");
    let first = exploratory.into_iter().chain(all.iter().map(|note| note.as_str())).take(CAUTIONS);
    let mut out: String = first.map(|note| wrap(&clean(note), style.width, "CAUTION: ", "  ")).collect();
    let more = all.len().saturating_sub(CAUTIONS);
    if more > 0 {
        let _ = writeln!(out, "{more} more cautions: -v");
    }
    for (name, side) in [("base", &comparison.base), ("test", &comparison.test)] {
        let Some(found) = side.exclusions(name) else { continue };
        let end = if found.command.is_some() { ":" } else { "." };
        let text = format!("{}; {}{end}", found.reasons, found.advice);
        out.push_str(&wrap(&text, style.width, "CAUTION: ", "  "));
        // On a line of its own, to be copied.
        if let Some(command) = &found.command {
            let _ = writeln!(out, "  {}", clean(command));
        }
    }
    out
}

fn why(comparison: &Comparison, style: &Style) -> String {
    let mut out = String::new();
    for (place, finding) in comparison.findings.iter().take(CAUSES).enumerate() {
        out.push_str(&cause(finding, place == 0, style));
    }
    let more = comparison.findings.len().saturating_sub(CAUSES);
    if more > 0 {
        let _ = writeln!(out, "{more} more causes: -v");
    }
    if comparison.findings.is_empty() {
        out.push_str(&wrap(&no_cause_in_a_line(comparison), style.width, "", "  "));
    }
    if let Some(share) = &comparison.recorder {
        out.push_str(&wrap(&recorder(share), style.width, "", "  "));
    }
    if let Some(rest) = &comparison.unknown {
        out.push_str(&wrap(&unknown(rest), style.width, "", "  "));
        if rest.share >= MUCH_UNKNOWN || comparison.findings.is_empty() {
            out.extend(rest.places.first().map(|place| known_place(place, style.width)));
        }
    }
    out
}

/// A cause: its share, and of the first one what happened, the setting and the narrowest fix.
fn cause(finding: &Finding, is_first: bool, style: &Style) -> String {
    let share = finding.effect.as_ref().map_or_else(String::new, |effect| format!(", {}", share_of_loss(effect)));
    let title = format!("{}. {} [{}]{share}", finding.rank, finding.cause, finding.called());
    if !is_first {
        return format!("{title}: {}\n", clean(&finding.title));
    }
    let mut out = format!("{}\n", style.heading(&title));
    // What moved, the summary's first part, stands in the headline.
    let happened = finding.summary.split_once(": ").map_or(finding.summary.as_str(), |(_, happened)| happened);
    out.push_str(&wrap(&format!("{happened}."), style.width, "   ", "   "));
    if let Some(follow_up) = &finding.follow_up {
        let state = follow_up.state.replace('_', " ");
        out.push_str(&wrap(&format!("Toggled: {state}: {}", follow_up.reason), style.width, "   ", "   "));
    } else {
        let record = record_sentence(finding.confidence, &finding.cause);
        out.push_str(&wrap(&record, style.width, "   ", "   "));
    }
    if let Some(fix) = finding.fixes.first() {
        out.push_str(&wrap(&format!("Fix ({}): {}", fix.reach.word(), fix.text), style.width, "   ", "   "));
        let _ = writeln!(out, "   {}", clean(&fix.command));
    }
    out
}

fn unknown(rest: &Unknown) -> String {
    let parts: Vec<&str> = rest.components.iter().take(3).map(|part| part.component.as_str()).collect();
    let place = if parts.is_empty() { String::new() } else { format!(", most of it {}", parts.join(", ")) };
    format!("Unknown: {:.0} % of {} is claimed by no cause{place}.", rest.share * 100.0, lost_time(&rest.of))
}

/// What else differs, and how to see it.
fn next(comparison: &Comparison, style: &Style) -> String {
    let metrics = comparison.significant().count();
    let settings = match comparison.settings.as_slice() {
        [] => "no setting".to_owned(),
        [one] => {
            let [base, test] = setting_values(one);
            format!("one setting ({}: {base} on base, {test} on test)", one.key)
        }
        more => format!("{} settings", more.len()),
    };
    let mut next = vec!["-v shows the evidence and all that differs", "--html FILE draws it"];
    let is_toggled = comparison.findings.iter().any(|one| one.follow_up.is_some());
    if comparison.findings.iter().any(|one| one.setting.is_some()) && !is_toggled {
        next.insert(0, "--confirm toggles the setting");
    }
    let is_shown = comparison.primary.as_ref().is_some_and(|primary| primary.verdict != Verdict::NotTested);
    let metrics = if is_shown { format!("{metrics} other metrics and ") } else { String::new() };
    let differ = if metrics.is_empty() && comparison.settings.len() < 2 { "differs" } else { "differ" };
    wrap(&format!("{metrics}{settings} {differ}. Next: {}.", next.join("; ")), style.width, "", "  ")
}
