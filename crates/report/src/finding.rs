//! One finding as text.

use std::fmt::Write as _;

use pagelab_analysis::compare::{RecorderShare, Unknown, UnknownComponent, UnknownPlace};
use pagelab_analysis::rules::{Effect, Finding, Fix, Number, Unexplained, lost_time, record_in_full};
use pagelab_views::mappings::bytes;
use pagelab_vocab::units::quantity;

use crate::paragraph::{LABEL, labelled, list, wrap};
use crate::style::Style;
use crate::table::clean;

/// Everything that a finding says: the parts in the order in which a reader asks for them.
pub(crate) fn finding(finding: &Finding, compared: bool, style: &Style) -> String {
    let width = style.width;
    let mut out =
        format!("{}\n", style.heading(&format!("{}. {}  [{}]", finding.rank, finding.cause, finding.called())));
    out.push_str(&wrap(&format!("{}.", finding.summary), width, "  ", "  "));
    if compared {
        out.push_str(&labelled("Record", &record_in_full(finding.confidence, &finding.cause), width));
    }
    out.push_str(&changed(&finding.numbers, compared, width));
    if let Some(effect) = &finding.effect {
        out.push_str(&labelled("Share", &share(effect), width));
    }
    if let Some(mapping) = &finding.mapping {
        out.push_str(&labelled("Mapping", &mapping.description, width));
        let range = format!("for example {:#x} to {:#x} ({})", mapping.start, mapping.end, bytes(mapping.len_bytes));
        out.push_str(&labelled("", &range, width));
    }
    if let Some(setting) = &finding.setting {
        let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        let text = if compared {
            format!("{}: {} on base, {} on test", setting.key, show(&setting.base), show(&setting.test))
        } else {
            format!("{} = {}", setting.key, show(&setting.test))
        };
        out.push_str(&labelled("Setting", &text, width));
        for other in &finding.together_with {
            let text = format!("with {}: {} on base, {} on test", other.key, show(&other.base), show(&other.test));
            out.push_str(&labelled("", &text, width));
        }
    }
    if let Some(follow_up) = &finding.follow_up {
        let kept = follow_up.set.as_ref().map_or_else(String::new, |set| format!(" (the rounds are in {set})"));
        let state = follow_up.state.replace('_', " ");
        out.push_str(&labelled("Toggled", &format!("{state}: {}{kept}", follow_up.reason), width));
    }
    out.push_str(&list("Evidence", &finding.evidence, true, width));
    out.push_str(&list("Ruled out", &finding.refuted, false, width));
    out.push_str(&list("Unknown", &finding.not_looked_at, false, width));
    out.push_str(&fixes(&finding.fixes, width));
    out
}

/// What the findings leave of the loss; empty if that is nothing worth a line.
pub(crate) fn unexplained(unexplained: Option<&Unexplained>, width: usize) -> String {
    let Some(rest) = unexplained.filter(|rest| rest.share >= WORTH_A_LINE) else { return String::new() };
    let text = format!(
        "Unexplained: {:.0} % of the lost time ({} per {}). No rule accounts for it.",
        rest.share * 100.0,
        quantity(rest.ns, "ns"),
        rest.per
    );
    format!("{}\n", wrap(&text, width, "", "  "))
}

/// The recorder's own part of the loss.
pub(crate) fn recorder(recorder: &RecorderShare) -> String {
    format!(
        "Recorder: {:.0} % of {} ({} per {}) is pagelab's own time; fewer streams take less: --observe.",
        recorder.share * 100.0,
        lost_time(&recorder.of),
        quantity(recorder.ns, "ns"),
        recorder.per
    )
}

/// What no cause claims, with where it is and what is known of its places.
pub(crate) fn unknown(unknown: &Unknown, width: usize) -> String {
    let component =
        |one: &UnknownComponent| format!("{} ({}, {:.0} %)", one.component, quantity(one.ns, "ns"), one.share * 100.0);
    let where_it_is = match unknown.components.as_slice() {
        [] => "spread over many components".to_owned(),
        some => format!("in {}", some.iter().map(component).collect::<Vec<_>>().join(", ")),
    };
    let lost = lost_time(&unknown.of);
    let text = format!(
        "Unknown: {:.0} % of {lost} ({} per {}) is claimed by no cause; it is {where_it_is}. What tells more: \
         pagelab record {}",
        unknown.share * 100.0,
        quantity(unknown.ns, "ns"),
        unknown.per,
        unknown.record
    );
    let places: String = unknown.places.iter().map(|place| known_place(place, width)).collect();
    format!("{}{places}\n", wrap(&text, width, "", "  "))
}

/// What is known of a place of the unknown part.
pub(crate) fn known_place(place: &UnknownPlace, width: usize) -> String {
    let text = format!(
        "{} {:.0} %, {}: {}; brought about by {}; governed by {}; next: {}.",
        place.component,
        100.0 * place.share,
        clean(&place.place),
        place.what,
        place.brought_about_by,
        place.settings.join(", "),
        place.next
    );
    wrap(&text, width, "  ", "    ")
}

/// Less of the loss than this is within what the shares themselves are unsure of.
const WORTH_A_LINE: f64 = 0.05;

/// The part of the loss that a cause takes, in words. Where other parts fell, that is more than all of it.
pub(crate) fn share_of_loss(effect: &Effect) -> String {
    let what = lost_time(&effect.of);
    let percent = effect.share * 100.0;
    match effect.share {
        share if share <= 0.0 => format!("a part of {what} that is not known: other parts of its time fell"),
        share if share > 1.0 => format!("all of {what} ({percent:.0} %: other parts fell)"),
        _ => format!("{percent:.0} % of {what}"),
    }
}

fn share(effect: &Effect) -> String {
    let interval = effect.share_ci95.map_or_else(String::new, |[low, high]| {
        format!(" (95 % interval {:.0} to {:.0} %)", low * 100.0, high * 100.0)
    });
    format!("{}{interval}", share_of_loss(effect))
}

/// The figures, both sides next to each other.
fn changed(numbers: &[Number], compared: bool, width: usize) -> String {
    let mut out = String::new();
    let known = numbers.iter().filter(|number| number.test.is_some() || number.base.is_some());
    for (place, number) in known.enumerate() {
        let show =
            |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| quantity(value, &number.unit));
        let text = if compared {
            format!("{}: {} on base, {} on test", number.name, show(number.base), show(number.test))
        } else {
            format!("{}: {}", number.name, show(number.test))
        };
        out.push_str(&labelled(if place == 0 { "Figures" } else { "" }, &text, width));
    }
    out
}

/// Remedies; commands stand on lines of their own, unbroken, so that they can be copied.
fn fixes(fixes: &[Fix], width: usize) -> String {
    let mut out = String::new();
    for (place, fix) in fixes.iter().enumerate() {
        let label = if place == 0 { "Fix" } else { "" };
        let first = format!("  {label:<LABEL$}{}. ", place + 1);
        let rest = " ".repeat(first.chars().count());
        out.push_str(&wrap(&format!("{} ({})", fix.text, fix.reach.word()), width, &first, &rest));
        let _ = writeln!(out, "{rest}{}", fix.command);
    }
    out
}

#[cfg(test)]
mod tests {
    use pagelab_analysis::rules::Reach;

    use super::*;

    #[test]
    fn the_first_remedy_alone_has_the_label() {
        let one = |reach, text: &str, command: &str| Fix { reach, text: text.to_owned(), command: command.to_owned() };
        let both =
            [one(Reach::Mapping, "for these mappings", "madvise(...)"), one(Reach::System, "for all", "echo always")];
        let text = fixes(&both, 80);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  Fix") && lines[0].contains("1. for these mappings"), "{text}");
        assert_eq!(text.matches("Fix").count(), 1, "{text}");
        assert!(lines[2].trim_start().starts_with("2. for all"), "{text}");
        assert_eq!((lines[1].trim(), lines[3].trim()), ("madvise(...)", "echo always"));
    }
}
