//! What the measured time of a run was spent on, and in which ways into the kernel.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{self, BudgetView, Place};
use pagelab_vocab::budget::IDLE;

pub(crate) use pagelab_vocab::budget::is_among as is_of;

use crate::error::Result;

/// The wall account of a run (`pagelab_views::view::budget`), scaled to its measured time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// Active components, and `idle`, with their time, ns.
    components: BTreeMap<String, f64>,
    /// States that are not known, or not what they were spent on, with the reason.
    missing: BTreeMap<String, String>,
    /// Where the time of each component was spent; none where that was not looked at.
    places: Option<Vec<PlaceTime>>,
}

/// Time of a component in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceTime {
    /// Component of the account.
    pub component: String,
    /// How the kernel was entered; `None` where that is not known, and in the program.
    pub entry: Option<String>,
    /// Function; of a wait several, innermost first, with ` < ` between them.
    pub function: Option<String>,
    /// File name of the module; `None` for the kernel's.
    pub module: Option<String>,
    /// Time, ns.
    pub ns: f64,
}

/// Part of the time of components of which no place is known, from which on nothing is said of their places.
const MOST_UNPLACED: f64 = 0.5;
/// Unless it is no more than this part of all time: a side on which little was spent there has few samples to tell it by.
const LITTLE: f64 = 0.02;

impl Account {
    /// An account with these components, ns.
    pub fn of_components(components: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self { components: components.into_iter().collect(), ..Self::default() }
    }

    /// That of a view, for a run whose measured time is `window_ns`; `None` if states of tasks were not recorded.
    pub(crate) fn of_view(view: &BudgetView, window_ns: f64) -> Option<Self> {
        // Sums cover whole intervals, the measured time need not.
        let scale = window_ns / view.window_ns.filter(|ns| *ns > 0)? as f64;
        let active = view.components.iter().filter(|row| row.active);
        let components = active.map(|row| Some((row.component.to_owned(), row.wall_ns? as f64 * scale)));
        let idle = view.idle_ns.map(|ns| Some((IDLE.to_owned(), ns as f64 * scale)));
        let missing = view.missing.iter().map(|missing| (missing.part.to_owned(), missing.reason.clone()));
        Some(Self {
            components: components.chain(idle).collect::<Option<_>>()?,
            missing: missing.collect(),
            places: None,
        })
    }

    /// The same with the places of its components.
    pub(crate) fn with_places(self, places: &[Place]) -> Self {
        let time_of = |place: &Place| PlaceTime {
            component: place.component.to_owned(),
            entry: place.entry.clone(),
            function: place.function.clone(),
            module: place.module.clone(),
            ns: place.share * self.components.get(place.component).copied().unwrap_or_default(),
        };
        let places = places.iter().map(time_of).collect();
        self.placed(places)
    }

    /// The same with these times.
    pub fn placed(self, places: Vec<PlaceTime>) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Time of the components named, and of all below a name that ends in a dot, ns; `None` if a part of the account that holds
    /// one of them is missing.
    pub fn time_ns(&self, names: &[&str]) -> Option<f64> {
        let is_missing = |name: &&str| name.split('.').next().is_some_and(|state| self.missing.contains_key(state));
        if names.iter().any(is_missing) {
            return None;
        }
        Some(self.components.iter().filter(|(name, _)| is_of(name, names)).map(|(_, ns)| ns).sum())
    }

    /// Where the time was spent; empty where that is not known.
    pub fn places(&self) -> &[PlaceTime] {
        self.places.as_deref().unwrap_or_default()
    }

    /// The same of the places chosen; `None` also where of most of the time it is not known whether it is chosen.
    pub(crate) fn time_in(&self, names: &[&str], is_chosen: impl Fn(&PlaceTime) -> Option<bool>) -> Option<f64> {
        let whole = self.time_ns(names)?;
        let (mut known, mut chosen) = (0.0, 0.0);
        for place in self.places.as_ref()?.iter().filter(|place| is_of(&place.component, names)) {
            let Some(is_chosen) = is_chosen(place) else { continue };
            known += place.ns;
            chosen += if is_chosen { place.ns } else { 0.0 };
        }
        let unplaced = whole - known;
        let all: f64 = self.components.values().sum();
        (unplaced <= MOST_UNPLACED * whole || unplaced <= LITTLE * all).then_some(chosen)
    }

    /// Why a component is not known, if a part of the account is missing.
    pub fn reason(&self) -> Option<&str> {
        self.missing.values().next().map(String::as_str)
    }
}

/// Reads the account of a lone run.
pub(super) fn load(recording: &Recording, run: &RunData) -> Result<Option<Account>> {
    let all = Selection { top: Some(0), ..Selection::default() };
    let view = budget::collect(recording, &all)?.data;
    let places = budget::places(recording, &all)?;
    Ok(Account::of_view(&view, run.window.seconds() * 1e9).map(|account| account.with_places(&places)))
}
