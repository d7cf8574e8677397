//! The order of runs: randomised complete blocks.
//!
//! A round runs every variant once. Rounds come in squares: for an even number of variants k of them, arranged so that
//! each variant stands once at each position and follows each other variant equally often (E. J. Williams,
//! "Experimental designs balanced for the estimation of residual effects of treatments", 1949); for an odd number a
//! square and its mirror image do that together. Which variant plays which part in a square, and the order of its
//! rounds, are drawn from the seed. A machine that slows down over the afternoon, or a run that leaves something behind
//! for the next one, thus affects every variant alike.
//!
//! Squares are drawn one after the other, so the order of a longer experiment begins with that of a shorter one of the
//! same seed. Wherever it is cut off, the counts of variants at a position differ by one at most.

use serde::{Deserialize, Serialize};

use crate::random::{Draw, Purpose};

/// One place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Round, from 1; 0 for warm-up.
    pub round: u64,
    /// Position in the round, from 1.
    pub position: u64,
    /// Which variant, from 0 in the order of the plan.
    pub variant: usize,
}

/// The order of `rounds` rounds of `variants` variants.
pub fn order(seed: u64, variants: usize, rounds: usize) -> Vec<Slot> {
    drawn(Draw::new(seed, Purpose::Order), variants, rounds)
}

fn drawn(mut draw: Draw, variants: usize, rounds: usize) -> Vec<Slot> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    while rows.len() < rounds && variants > 0 {
        let mut parts: Vec<usize> = (0..variants).collect();
        draw.shuffle(&mut parts);
        rows.extend(square(&mut draw, &parts, false));
        if variants % 2 == 1 {
            rows.extend(square(&mut draw, &parts, true));
        }
    }
    rows.truncate(rounds);
    rows.iter().zip(1..).flat_map(|(row, round)| slots(row, round)).collect()
}

/// Warm-up: `runs` times every variant, in orders that are balanced too.
pub fn warmup(seed: u64, variants: usize, runs: usize) -> Vec<Slot> {
    let mut slots = drawn(Draw::new(seed, Purpose::Warmup), variants, runs);
    for slot in &mut slots {
        slot.round = 0;
    }
    slots
}

fn slots(row: &[usize], round: u64) -> impl Iterator<Item = Slot> + '_ {
    row.iter().zip(1..).map(move |(variant, position)| Slot { round, position, variant: *variant })
}

/// A Latin square of Williams: its first row goes 0, 1, k-1, 2, k-2, ..., each further row is the one before plus 1.
fn square(draw: &mut Draw, parts: &[usize], mirrored: bool) -> Vec<Vec<usize>> {
    let variants = parts.len();
    let first: Vec<usize> = (0..variants)
        .map(|place| if place % 2 == 1 { place.div_ceil(2) } else { (variants - place / 2) % variants })
        .collect();
    let mut rows: Vec<Vec<usize>> = (0..variants)
        .map(|shift| {
            let row = first.iter().filter_map(|part| parts.get((part + shift) % variants).copied());
            if mirrored { row.rev().collect() } else { row.collect() }
        })
        .collect();
    draw.shuffle(&mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn positions(slots: &[Slot], variants: usize) -> Vec<Vec<u32>> {
        let mut counts = vec![vec![0; variants]; variants];
        for slot in slots {
            counts[slot.variant][slot.position as usize - 1] += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn every_round_runs_every_variant_once(seed: u64, variants in 1usize..8, rounds in 0usize..40) {
            let slots = order(seed, variants, rounds);
            prop_assert_eq!(slots.len(), variants * rounds);
            for (index, round) in slots.chunks(variants).enumerate() {
                let seen: BTreeSet<usize> = round.iter().map(|slot| slot.variant).collect();
                prop_assert_eq!(seen.len(), variants);
                prop_assert!(round.iter().all(|slot| slot.round == index as u64 + 1));
                prop_assert!(round.iter().zip(1..).all(|(slot, position)| slot.position == position));
            }
        }

        #[test]
        fn positions_are_balanced_wherever_it_is_cut_off(seed: u64, variants in 2usize..7, rounds in 1usize..30) {
            let counts = positions(&order(seed, variants, rounds), variants);
            for of_variant in &counts {
                let (least, most) = (of_variant.iter().min().unwrap(), of_variant.iter().max().unwrap());
                prop_assert!(most - least <= 1, "{:?}", counts);
                prop_assert!(rounds % variants != 0 || most == least, "{:?}", counts);
            }
        }

        #[test]
        fn followers_are_balanced_over_whole_designs(seed: u64, variants in 2usize..8, designs in 1usize..4) {
            let rows = if variants % 2 == 0 { variants } else { 2 * variants };
            let slots = order(seed, variants, rows * designs);
            let mut follows: BTreeMap<(usize, usize), u32> = BTreeMap::new();
            for round in slots.chunks(variants) {
                for pair in round.windows(2) {
                    *follows.entry((pair[0].variant, pair[1].variant)).or_default() += 1;
                }
            }
            prop_assert_eq!(follows.len(), variants * (variants - 1));
            let counts: BTreeSet<u32> = follows.values().copied().collect();
            prop_assert_eq!(counts.len(), 1);
        }

        #[test]
        fn one_seed_gives_one_order_and_longer_ones_begin_with_it(seed: u64, variants in 2usize..6, rounds in 1usize..20) {
            let short = order(seed, variants, rounds);
            prop_assert_eq!(&short, &order(seed, variants, rounds));
            let long = order(seed, variants, rounds + 7);
            prop_assert_eq!(&long[..short.len()], &short[..]);
        }
    }

    #[test]
    fn seeds_give_different_orders_and_both_starts() {
        let orders: BTreeSet<Vec<usize>> =
            (0..64).map(|seed| order(seed, 2, 12).iter().map(|slot| slot.variant).collect()).collect();
        // Six coins decide: 64 orders are possible, and 64 draws with replacement miss about a third of them.
        assert!(orders.len() > 25, "{}", orders.len());
        let starts: BTreeSet<usize> = (0..32).map(|seed| order(seed, 2, 1)[0].variant).collect();
        assert_eq!(starts.len(), 2);
    }

    #[test]
    fn an_order_does_not_change_between_versions() {
        // Sets that were started must resume in the order they were promised.
        let variants: Vec<usize> = order(7, 2, 6).iter().map(|slot| slot.variant).collect();
        assert_eq!(variants, GOLDEN_7_2_6);
    }

    const GOLDEN_7_2_6: [usize; 12] = [0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1];

    #[test]
    fn warm_up_is_round_zero() {
        let slots = warmup(3, 3, 2);
        assert_eq!(slots.len(), 6);
        assert!(slots.iter().all(|slot| slot.round == 0));
        assert_eq!(positions(&slots, 3).iter().flatten().sum::<u32>(), 6);
    }
}
