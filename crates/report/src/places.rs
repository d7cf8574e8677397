//! Where in programs and kernel the largest differences are, in a line for each component.

use pagelab_analysis::compare::{Comparison, ComponentPlaces, PlaceChange, Verdict};

use crate::paragraph::wrap;
use crate::style::Style;
use crate::table::clean;
use crate::waterfall::signed;

/// Begins the first line; the others are as far to the right.
const HEAD: &str = "Where: ";

/// The lines, with so many places each at most; empty without an account. Of places that did not move for sure nothing is said, unless
/// the primary differs and no component does for sure.
pub(crate) fn places(comparison: &Comparison, style: &Style, most: usize) -> String {
    let components = comparison.budget.as_ref().map_or(&[][..], |budget| &budget.places);
    let verdict = comparison.primary.as_ref().map(|primary| primary.verdict);
    let differs = matches!(verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Different));
    let lines = components.iter().filter_map(|one| line(one, most, differs));
    let indent = " ".repeat(HEAD.len());
    let mut out = String::new();
    for line in lines {
        let head = if out.is_empty() { HEAD } else { &indent };
        out.push_str(&wrap(&line, style.width, head, &indent));
    }
    out
}

/// A component's places that moved for sure; none without one. Of a component that did not, all, where that is to be said.
fn line(of: &ComponentPlaces, most: usize, also_unsure: bool) -> Option<String> {
    if !of.is_sure && !also_unsure {
        return None;
    }
    let told_of = of.places.iter().filter(|place| place.is_sure || !of.is_sure);
    let listed: Vec<String> = told_of.take(most).map(told).collect();
    let doubt = if of.is_sure { "" } else { " (not for sure: its interval holds 0)" };
    (!listed.is_empty()).then(|| format!("{} {}{doubt}: {}", of.component, signed(of.difference_ns), listed.join(", ")))
}

fn told(place: &PlaceChange) -> String {
    let name = clean(&place.name);
    place.share.map_or_else(|| name.clone(), |share| format!("{name} {:.0} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, module: Option<&str>, entry: Option<&str>, share: f64, is_sure: bool) -> PlaceChange {
        let name = match (module, entry) {
            (Some(module), _) => format!("{module} {function}"),
            (None, entry) => format!("{function} ({})", entry.unwrap_or_default()),
        };
        PlaceChange {
            name,
            function: Some(function.to_owned()),
            module: module.map(str::to_owned),
            entry: entry.map(str::to_owned),
            base_ns: 0.0,
            test_ns: 1e6 * share,
            difference_ns: 1e6 * share,
            difference_ci95: None,
            share: Some(share),
            is_sure,
        }
    }

    fn component(name: &str, places: Vec<PlaceChange>) -> ComponentPlaces {
        ComponentPlaces {
            component: name.to_owned(),
            difference_ns: 1e6,
            is_sure: true,
            places_total: places.len(),
            places,
        }
    }

    #[test]
    fn each_component_has_its_line_and_what_is_not_sure_is_not_told() {
        let user = vec![
            place("walFindFrame", Some("libsqlite3.so.0"), None, 0.61, true),
            place("memcpy", Some("libc.so.6"), None, 0.2, true),
            place("main", Some("a.out"), None, 0.1, false),
        ];
        let wait = vec![place("jbd2_log_wait_commit < ext4_sync_file", None, Some("fsync"), 0.9, true)];
        let none = || vec![place("x", None, Some("read"), 0.5, false)];
        let components =
            [component("run.user", user), component("off.flush", wait), component("run.file.read", none())];
        let text: String = components.iter().filter_map(|one| line(one, 2, false)).collect::<Vec<_>>().join("\n");
        let needed = "run.user +1ms: libsqlite3.so.0 walFindFrame 61 %, libc.so.6 memcpy 20 %\n\
                      off.flush +1ms: jbd2_log_wait_commit < ext4_sync_file (fsync) 90 %";
        assert_eq!(text, needed);
        let unsure = ComponentPlaces { is_sure: false, ..component("off.flush", none()) };
        assert_eq!(line(&unsure, 2, false), None, "without a difference of the primary");
        let needed = "off.flush +1ms (not for sure: its interval holds 0): x (read) 50 %";
        assert_eq!(line(&unsure, 2, true).as_deref(), Some(needed));
        assert_eq!(line(&component("off.flush", none()), 2, true), None, "the component is sure, the place is not");
    }
}
