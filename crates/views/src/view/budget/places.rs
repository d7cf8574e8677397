//! Where the time of each component was spent: the function that samples found innermost, and of waits the functions that put the
//! task to sleep, with the way into the kernel.
//!
//! A component says what the time was spent on, a place who spent it: `run.user` is in `sqlite3VdbeExec` of libsqlite3.so, `off.journal` in
//! `jbd2_log_wait_commit < jbd2_log_do_checkpoint` below `mkdir`. The places of a component sum to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::SamplesRow;
use pagelab_vocab::budget::USER;
use pagelab_vocab::errands::errand_of_stack;
use pagelab_vocab::mechanisms::{self, plain_name};
use pagelab_vocab::samples::ReturnedFrom;
use pagelab_vocab::waits::{HELD_BY_OTHERS, only_sleeps};

use super::measured_states;
use super::off_stacks::{OffSource, off_stacks};
use super::shares::{Untold, Weight, component_of_kernel};
use crate::error::Result;
use crate::read::{self, Tasks};
use crate::selection::Selection;
use crate::stacks::Stacks;

/// Functions of a wait that are named: who put the task to sleep, and for whom.
const OF_A_WAIT: usize = 2;

/// A place, and its part of a component's time.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Component of the account.
    pub component: &'static str,
    /// Function; of a wait several, innermost first, with ` < ` between them. Behind them stands the one that does it all for a purpose
    /// of its own, such as `ovl_copy_up_flags`, and of a lock that no recorded task had [`HELD_BY_OTHERS`]. Of a module without symbols:
    /// none.
    pub function: Option<String>,
    /// File name of the module; null for the kernel's.
    pub module: Option<String>,
    /// How the kernel was entered: the name of the call, `page_fault`, `interrupt`, `thread`; null in the program.
    pub entry: Option<String>,
    /// Part of the component's time, from 0 to 1.
    pub share: f64,
    /// Samples that tell it; null for waits.
    pub samples: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    component: &'static str,
    function: Option<String>,
    module: Option<String>,
    entry: Option<String>,
}

type Sums = BTreeMap<Key, Weight>;

/// The places of all active components but those of READY, which no stack tells.
pub fn places(whole: &Recording, selection: &Selection) -> Result<Vec<Place>> {
    // What is to be said of the tables is said by the account.
    let mut notes = Vec::new();
    let tasks = Tasks::load(whole, selection, &mut notes)?;
    let (recording, _) = measured_states(whole, selection, &tasks, &mut notes)?;
    let mut found = shared_out(of_run(&recording, selection, &tasks, &mut notes)?, true);
    found.extend(shared_out(of_waits(whole, selection, &mut notes)?, false));
    Ok(found)
}

fn of_run(recording: &Recording, selection: &Selection, tasks: &Tasks, notes: &mut Vec<String>) -> Result<Sums> {
    // By the stacks of kernel and program, and what the sample returned from.
    let mut by_stack = HashMap::<(Option<u64>, Option<u64>, Option<ReturnedFrom>), Weight>::new();
    read::each::<SamplesRow<'_>>(recording, notes, |row| {
        if tasks.wants(selection, row.task_id, row.ts) {
            let returned_from = row.returned_from.and_then(ReturnedFrom::of_word);
            by_stack.entry((row.kstack_id, row.ustack_id, returned_from)).or_default().add(1, row.weight);
        }
    })?;
    let ids = by_stack.keys().flat_map(|(kernel, user, _)| [*kernel, *user]);
    let wanted: HashSet<u64> = ids.flatten().collect();
    let stacks = Stacks::load(recording, &wanted, notes)?;
    let untold = Untold::of(selection);
    let mut sums = Sums::new();
    for ((kstack_id, ustack_id, returned_from), Weight { samples, weight }) in by_stack {
        let named = kstack_id.map(|id| stacks.functions(id).unwrap_or_default());
        let functions = named.as_ref().map(|names| untold.without(names).collect::<Vec<&str>>());
        let left = || returned_from.map(|from| from.functions().to_vec());
        let key = if let Some(functions) = functions.or_else(left) {
            Key {
                component: component_of_kernel(&functions),
                function: mechanisms::telling_function(&functions)
                    .map(|name| for_errand(vec![plain_name(name)], &functions)),
                module: None,
                entry: Some(mechanisms::entry_of_stack(functions.iter().copied())),
            }
        } else {
            let (function, module) = ustack_id.and_then(|id| stacks.innermost(id)).unwrap_or_default();
            Key { component: USER, function, module, entry: None }
        };
        sums.entry(key).or_default().add(samples, weight);
    }
    Ok(sums)
}

fn of_waits(recording: &Recording, selection: &Selection, notes: &mut Vec<String>) -> Result<Sums> {
    let Some(source) = OffSource::of(recording)?.into_iter().next() else { return Ok(Sums::new()) };
    let waits = off_stacks(recording, source, selection, notes)?;
    let wanted: HashSet<u64> = waits.iter().filter_map(|wait| wait.kstack_id).collect();
    let stacks = Stacks::load(recording, &wanted, notes)?;
    let mut sums = Sums::new();
    for wait in waits.into_iter().filter(|wait| wait.active) {
        let functions = wait.kstack_id.and_then(|id| stacks.functions(id)).unwrap_or_default();
        let plain = || functions.iter().map(|name| plain_name(name));
        let telling: Vec<&str> = plain().skip_while(|name| only_sleeps(name)).take(OF_A_WAIT).collect();
        let entry = || (!functions.is_empty()).then(|| mechanisms::entry_of_stack(plain()));
        let key = Key {
            component: wait.component,
            function: (!telling.is_empty())
                .then(|| held(for_errand(telling, &plain().collect::<Vec<_>>()), wait.held_by_others)),
            module: None,
            entry: wait.call.or_else(entry),
        };
        sums.entry(key).or_default().add(0, wait.ns);
    }
    Ok(sums)
}

/// A wait for a lock, and that others had it, where they did.
fn held(named: String, by_others: bool) -> String {
    if by_others { format!("{named} < {HELD_BY_OTHERS}") } else { named }
}

/// Functions that are named, and the one behind them that tells what purpose they have, if one does.
fn for_errand<'a>(mut named: Vec<&'a str>, functions: &[&'a str]) -> String {
    let errand = errand_of_stack(functions.iter().map(|name| plain_name(name)));
    named.extend(errand.filter(|errand| !named.contains(errand)));
    named.join(" < ")
}

/// Each place with its part of its component.
fn shared_out(sums: Sums, is_sampled: bool) -> Vec<Place> {
    let mut wholes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (key, sum) in &sums {
        let whole = wholes.entry(key.component).or_default();
        *whole = whole.saturating_add(sum.weight);
    }
    let place = |(key, sum): (Key, Weight)| {
        let Key { component, function, module, entry } = key;
        let share = sum.weight as f64 / wholes[component].max(1) as f64;
        Place { component, function, module, entry, share, samples: is_sampled.then_some(sum.samples) }
    };
    sums.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(component: &'static str, function: &str) -> Key {
        Key { component, function: Some(function.to_owned()), module: None, entry: None }
    }

    #[test]
    fn a_place_names_what_it_is_done_for() {
        let stack = ["schedule", "submit_bio_wait", "blkdev_issue_flush", "ext4_sync_file", "ovl_copy_up_flags.part.0"];
        let named = || vec!["submit_bio_wait", "blkdev_issue_flush"];
        assert_eq!(for_errand(named(), &stack), "submit_bio_wait < blkdev_issue_flush < ovl_copy_up_flags");
        assert_eq!(for_errand(vec!["ovl_copy_up_flags"], &stack), "ovl_copy_up_flags", "once");
        assert_eq!(for_errand(named(), &stack[..4]), "submit_bio_wait < blkdev_issue_flush");
    }

    #[test]
    fn places_of_a_component_sum_to_it() {
        let sums = [(key("run.user", "a"), 300), (key("run.user", "b"), 100), (key("run.memory.clear", "c"), 7)];
        let weighed = sums.map(|(key, weight)| (key, Weight { samples: 1, weight }));
        let found = shared_out(weighed.into_iter().collect(), true);
        let shares: Vec<(Option<&str>, f64)> = found.iter().map(|one| (one.function.as_deref(), one.share)).collect();
        assert_eq!(shares, [(Some("c"), 1.0), (Some("a"), 0.75), (Some("b"), 0.25)]);
    }
}
