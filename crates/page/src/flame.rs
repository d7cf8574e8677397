//! The stacks of both sides in one tree: a flame graph that shows what grew and what shrank.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// A function in its stack, with what both sides spent in it and in what it called, per run.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Frame {
    name: String,
    /// ns per run.
    base: f64,
    /// ns per run.
    test: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Frame>,
}

/// Frames below this part of the larger side's whole are left out: they would be thinner than a pixel.
const LEAST: f64 = 1.0 / 1500.0;
/// Frames of a picture at most: of more the thinnest are left out.
const MOST_FRAMES: usize = 20_000;
/// Letters of a name at most: those of templates run to thousands.
const MOST_LETTERS: usize = 200;
/// Stacks are drawn this deep.
const DEPTH: usize = 128;

#[derive(Default)]
struct Node {
    sums: [f64; 2],
    children: BTreeMap<String, Node>,
}

/// The tree of the folded stacks of both sides; `runs`: how many runs each is of. None without stacks.
pub(crate) fn tree(stacks: [&BTreeMap<String, u64>; 2], runs: [usize; 2]) -> Option<Frame> {
    let mut root = Node::default();
    for (side, (stacks, runs)) in stacks.into_iter().zip(runs).enumerate() {
        for (stack, weight) in stacks {
            let weight = *weight as f64 / runs.max(1) as f64;
            let mut node = &mut root;
            node.add(side, weight);
            for name in stack.split(';').take(DEPTH) {
                node = node.children.entry(name.to_owned()).or_default();
                node.add(side, weight);
            }
        }
    }
    let whole = root.sums[0].max(root.sums[1]);
    let mut least = whole * LEAST;
    while root.count(least) > MOST_FRAMES {
        least *= 2.0;
    }
    (whole > 0.0).then(|| root.frame("all".to_owned(), least))
}

impl Node {
    fn add(&mut self, side: usize, weight: f64) {
        if let Some(sum) = self.sums.get_mut(side) {
            *sum += weight;
        }
    }

    fn is_seen(&self, least: f64) -> bool {
        self.sums[0].max(self.sums[1]) >= least
    }

    /// Frames of at least this size.
    fn count(&self, least: f64) -> usize {
        1 + self.children.values().filter(|node| node.is_seen(least)).map(|node| node.count(least)).sum::<usize>()
    }

    fn frame(self, name: String, least: f64) -> Frame {
        let [base, test] = self.sums;
        let seen = self.children.into_iter().filter(|(_, node)| node.is_seen(least));
        let children = seen.map(|(name, node)| node.frame(name.chars().take(MOST_LETTERS).collect(), least));
        Frame { name, base, test, children: children.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_holds_what_both_sides_spent_in_it_per_run() {
        let stacks = |pairs: &[(&str, u64)]| pairs.iter().map(|(stack, ns)| ((*stack).to_owned(), *ns)).collect();
        let base: BTreeMap<String, u64> = stacks(&[("main;read", 200), ("main;spin", 800)]);
        let test: BTreeMap<String, u64> = stacks(&[("main;fault;clear", 500), ("main;spin", 400)]);
        let root = tree([&base, &test], [2, 1]).expect("stacks");
        assert_eq!((root.base, root.test), (500.0, 900.0));
        let main = &root.children[0];
        let of =
            |name: &str| main.children.iter().find(|child| child.name == name).map(|child| (child.base, child.test));
        assert_eq!(of("fault"), Some((0.0, 500.0)), "what only the test side has");
        assert_eq!(of("read"), Some((100.0, 0.0)), "what only the base has");
        assert_eq!(of("spin"), Some((400.0, 400.0)));
        let sum: f64 = main.children.iter().map(|child| child.test).sum();
        assert!((sum - main.test).abs() < 1e-9, "children sum to their parent");
        assert!(tree([&BTreeMap::new(), &BTreeMap::new()], [1, 1]).is_none());
    }
}
