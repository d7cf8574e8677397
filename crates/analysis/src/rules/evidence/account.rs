//! What the measured time of a run was spent on.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view::budget::{self, BudgetView};
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
}

impl Account {
    /// An account with these components, ns.
    pub fn of_components(components: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self { components: components.into_iter().collect(), missing: BTreeMap::new() }
    }

    /// That of a view, for a run whose measured time is `window_ns`; `None` if states of tasks were not recorded.
    pub(crate) fn of_view(view: &BudgetView, window_ns: f64) -> Option<Self> {
        // Sums cover whole intervals, the measured time need not.
        let scale = window_ns / view.window_ns.filter(|ns| *ns > 0)? as f64;
        let active = view.components.iter().filter(|row| row.active);
        let components = active.map(|row| Some((row.component.to_owned(), row.wall_ns? as f64 * scale)));
        let idle = view.idle_ns.map(|ns| Some((IDLE.to_owned(), ns as f64 * scale)));
        let missing = view.missing.iter().map(|missing| (missing.part.to_owned(), missing.reason.clone()));
        Some(Self { components: components.chain(idle).collect::<Option<_>>()?, missing: missing.collect() })
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

    /// Why a component is not known, if a part of the account is missing.
    pub fn reason(&self) -> Option<&str> {
        self.missing.values().next().map(String::as_str)
    }
}

/// Reads the account of a lone run.
pub(super) fn load(recording: &Recording, run: &RunData) -> Result<Option<Account>> {
    let all = Selection { top: Some(0), ..Selection::default() };
    let view = budget::collect(recording, &all)?.data;
    Ok(Account::of_view(&view, run.window.seconds() * 1e9))
}
