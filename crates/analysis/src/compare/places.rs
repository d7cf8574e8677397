//! Where in programs and kernel the largest differences are: functions and waits, by component.
//!
//! A place's time in a run is the component's time in the wall account times the place's share of it; its difference is told as that
//! of the component is, between runs or between rounds. What is listed moved the way its component did.

use std::collections::BTreeSet;

use pagelab_views::view::budget::Place;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::{ComponentChange, Difference, OfRun};
use crate::stats::Design;

/// Components that are looked into.
const COMPONENTS: usize = 3;
/// Part of the whole difference from which on a component that does not differ for sure is looked into.
const MOST: f64 = 0.5;
/// Places that are listed of each.
const LISTED: usize = 5;

/// The places of a component.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ComponentPlaces {
    /// Its name in the vocabulary.
    pub component: String,
    /// Test less base of the component, ns per unit of work.
    pub difference_ns: f64,
    /// The component's interval leaves 0 out. Else it is most of the difference, and no component differs for sure.
    #[serde(default)]
    pub is_sure: bool,
    /// Places that moved the same way, the largest difference first, five at most.
    pub places: Vec<PlaceChange>,
    /// Places of the component in all.
    pub places_total: usize,
}

/// A place on both sides, per unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PlaceChange {
    /// What it is called: `libsqlite3.so.0 walFindFrame`, `jbd2_log_wait_commit < jbd2_complete_transaction (fsync)`.
    #[serde(default)]
    pub name: String,
    /// Function; of a wait several, innermost first, with ` < ` between them; null where there is no symbol.
    pub function: Option<String>,
    /// File name of the module; null for the kernel's.
    pub module: Option<String>,
    /// How the kernel was entered: the name of the call, `page_fault`, `interrupt`, `thread`; null in the program.
    pub entry: Option<String>,
    /// Mean of the base, ns.
    pub base_ns: f64,
    /// Mean of the test side, ns.
    pub test_ns: f64,
    /// Test less base, ns.
    pub difference_ns: f64,
    /// Its 95 % interval.
    pub difference_ci95: Option<[f64; 2]>,
    /// Share of the component's difference.
    pub share: Option<f64>,
    /// The interval leaves 0 out.
    pub is_sure: bool,
}

/// Function, module and entry of a place.
type Key<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// What a place is called.
fn name_of((function, module, entry): Key<'_>) -> String {
    match (module, entry) {
        (Some(module), _) => format!("{module} {}", function.unwrap_or("(no symbol)")),
        (None, Some(entry)) => format!("{} ({entry})", function.unwrap_or("kernel")),
        (None, None) => function.unwrap_or("(unknown code)").to_owned(),
    }
}

fn key_of(place: &Place) -> Key<'_> {
    (place.function.as_deref(), place.module.as_deref(), place.entry.as_deref())
}

/// The places of the components that differ most, of those whose interval leaves 0 out. Where none does, those of the largest, if it is
/// most of the whole difference: few runs that vary much show a ratio for sure before they show a time.
pub(super) fn of_largest(
    base: &[OfRun],
    test: &[OfRun],
    design: Design,
    components: &[ComponentChange],
    whole_ns: f64,
) -> Vec<ComponentPlaces> {
    let differs = |change: &&ComponentChange| is_sure(change.difference_ci95);
    let largest = components.iter().filter(differs).take(COMPONENTS);
    let found: Vec<ComponentPlaces> = largest.filter_map(|change| of_component(base, test, design, change)).collect();
    if !found.is_empty() {
        return found;
    }
    let first = components.first().filter(|first| first.difference_ns.is_some_and(|ns| ns / whole_ns >= MOST));
    first.and_then(|change| of_component(base, test, design, change)).into_iter().collect()
}

fn of_component(base: &[OfRun], test: &[OfRun], design: Design, change: &ComponentChange) -> Option<ComponentPlaces> {
    let difference_ns = change.difference_ns?;
    let all = base.iter().chain(test).flat_map(OfRun::places);
    let found: BTreeSet<Key<'_>> = all.filter(|place| place.component == change.component).map(key_of).collect();
    let places_total = found.len();
    let mut places: Vec<PlaceChange> = found
        .into_iter()
        .map(|key| place_change(base, test, design, &change.component, key, difference_ns))
        .filter(|place| place.difference_ns * difference_ns > 0.0)
        .collect();
    places.sort_by(|a, b| b.difference_ns.abs().total_cmp(&a.difference_ns.abs()).then_with(|| a.name.cmp(&b.name)));
    places.truncate(LISTED);
    (!places.is_empty()).then(|| ComponentPlaces {
        component: change.component.clone(),
        difference_ns,
        is_sure: is_sure(change.difference_ci95),
        places,
        places_total,
    })
}

fn place_change(
    base: &[OfRun],
    test: &[OfRun],
    design: Design,
    component: &str,
    key: Key<'_>,
    whole_ns: f64,
) -> PlaceChange {
    let of = |run: &OfRun| {
        let found = run.places().iter().find(|place| place.component == component && key_of(place) == key);
        found.map_or((0.0, 0.0), |place| run.part_of(component, place.share, place.samples))
    };
    let difference = Difference::of(base, test, design, of);
    let (function, module, entry) = key;
    PlaceChange {
        name: name_of(key),
        function: function.map(str::to_owned),
        module: module.map(str::to_owned),
        entry: entry.map(str::to_owned),
        base_ns: difference.base,
        test_ns: difference.test,
        difference_ns: difference.estimate,
        difference_ci95: difference.interval,
        share: (whole_ns != 0.0).then(|| difference.estimate / whole_ns),
        is_sure: is_sure(difference.interval),
    }
}

fn is_sure(interval: Option<[f64; 2]>) -> bool {
    interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_called_by_what_is_known_of_it() {
        assert_eq!(name_of((Some("walFindFrame"), Some("libsqlite3.so.0"), None)), "libsqlite3.so.0 walFindFrame");
        assert_eq!(name_of((None, Some("libsqlite3.so.0"), None)), "libsqlite3.so.0 (no symbol)");
        assert_eq!(name_of((Some("jbd2_log_wait_commit"), None, Some("fsync"))), "jbd2_log_wait_commit (fsync)");
        assert_eq!(name_of((None, None, Some("fsync"))), "kernel (fsync)");
        assert_eq!(name_of((Some("main"), None, None)), "main");
        assert_eq!(name_of((None, None, None)), "(unknown code)");
    }
}
