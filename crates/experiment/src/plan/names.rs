//! Names for variants that say nothing about them.

use std::collections::BTreeSet;

use super::Plan;
use crate::random::{Draw, Purpose};

/// Vowels and consonants in turn, so that names can be spoken.
const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
const VOWELS: &[u8] = b"aeiou";

pub(super) fn rename(plan: &mut Plan, seed: u64) {
    let mut draw = Draw::new(seed, Purpose::Names);
    let mut taken: BTreeSet<String> = plan.variants.iter().map(|variant| variant.name.clone()).collect();
    for variant in &mut plan.variants {
        let name = loop {
            let name = name(&mut draw);
            if taken.insert(name.clone()) {
                break name;
            }
        };
        if plan.base == variant.name {
            plan.base.clone_from(&name);
        }
        variant.name = name;
    }
}

fn name(draw: &mut Draw) -> String {
    let letters = (0..6).map(|place| {
        let letters = if place % 2 == 0 { CONSONANTS } else { VOWELS };
        char::from(letters.get(draw.below(letters.len())).copied().unwrap_or(b'x'))
    });
    letters.collect()
}
