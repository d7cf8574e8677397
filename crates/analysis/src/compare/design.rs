//! How the runs were laid out. The method of testing follows from this, never from a p value.

use std::collections::BTreeMap;

use crate::stats::Design;
use pagelab_views::run::RunData;

/// The design of two sets of runs, with the reason in words.
///
/// Blocks need all of: every run has a round; every round of a host holds one run of either side; and a host's rounds do
/// not overlap in time where the clocks are known. Two experiments that were made one after the other have rounds of equal numbers,
/// but those are no blocks: what pairing cancels (drift of the machine) is not shared by runs an hour apart.
///
/// Excluded runs count too: the design is the planned one. Rounds that lost a run are left out of the test later.
pub fn design(base: &[&RunData], test: &[&RunData]) -> (Design, String) {
    match blocks(base, test) {
        Ok(rounds) => {
            let timeless = if base.iter().chain(test).any(|run| lifetime(run).is_none()) {
                "; when they were made is not known, so their numbers are believed"
            } else {
                ""
            };
            (Design::Blocks, format!("{rounds} rounds with one run of either side each{timeless}"))
        }
        Err(why) => (Design::Unpaired, format!("unpaired: {why}")),
    }
}

#[derive(Default)]
struct Round {
    runs: [u32; 2],
    /// First begin and last end, ns since the epoch.
    time: Option<(i64, i64)>,
}

fn blocks(base: &[&RunData], test: &[&RunData]) -> Result<usize, String> {
    let mut rounds: BTreeMap<Block<'_>, Round> = BTreeMap::new();
    for (side, runs) in [base, test].into_iter().enumerate() {
        for run in runs {
            let block = block_of(run).ok_or("runs were not interleaved; drift is not cancelled")?;
            let round = rounds.entry(block).or_default();
            if let Some(count) = round.runs.get_mut(side) {
                *count += 1;
            }
            if let Some((from, to)) = lifetime(run) {
                let (first, last) = round.time.unwrap_or((from, to));
                round.time = Some((first.min(from), last.max(to)));
            }
        }
    }
    if let Some(((_, number), _)) = rounds.iter().find(|(_, round)| round.runs != [1, 1]) {
        return Err(format!("round {number} does not hold one run of either side"));
    }
    let mut times: Vec<(Option<&str>, i64, i64)> =
        rounds.iter().filter_map(|((host, _), round)| round.time.map(|(from, to)| (*host, from, to))).collect();
    times.sort_unstable();
    let overlap = |pair: &[(Option<&str>, i64, i64)]| matches!(pair, [(first, _, end), (second, start, _)] if first == second && start < end);
    if times.windows(2).any(overlap) {
        return Err("rounds of the two sides were not made together".to_owned());
    }
    if rounds.len() < 2 { Err("fewer than 2 rounds".to_owned()) } else { Ok(rounds.len()) }
}

/// A block: the rounds of several hosts have equal numbers and nothing else in common.
pub(super) type Block<'a> = (Option<&'a str>, u64);

/// The block that a run belongs to.
pub(super) fn block_of(run: &RunData) -> Option<Block<'_>> {
    Some((run.manifest.host.as_deref(), run.manifest.round?))
}

pub(super) fn lifetime(run: &RunData) -> Option<(i64, i64)> {
    let clock = &run.manifest.clock;
    let from = clock.realtime_at_start_ns?;
    Some((from, clock.realtime_at_end_ns.unwrap_or(from)))
}
