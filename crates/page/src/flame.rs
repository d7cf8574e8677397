//! Stacks of both sides in one tree: a flame graph that shows what grew and what shrank.

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

/// Adds the folded stacks of a run to those of others.
pub(crate) fn add_stacks(sums: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (stack, weight) in more {
        let sum = sums.entry(stack).or_default();
        *sum = sum.saturating_add(weight);
    }
}

/// The tree of the folded stacks of both sides; `runs`: how many runs each is of. None without stacks.
pub(crate) fn tree(stacks: [&BTreeMap<String, u64>; 2], runs: [usize; 2]) -> Option<Frame> {
    grouped(stacks, runs, |_| false)
}

/// The same with the outermost frames in two groups, those that are apart last. Which frames are too thin to be kept is told in
/// each group by itself, so that one that is long does not push the frames of the other out.
pub(crate) fn grouped(
    stacks: [&BTreeMap<String, u64>; 2],
    runs: [usize; 2],
    is_apart: impl Fn(&str) -> bool,
) -> Option<Frame> {
    let mut groups = [Node::default(), Node::default()];
    for (side, (stacks, runs)) in stacks.into_iter().zip(runs).enumerate() {
        for (stack, weight) in stacks {
            let weight = *weight as f64 / runs.max(1) as f64;
            let outermost = stack.split(';').next().unwrap_or_default();
            let mut node = &mut groups[usize::from(is_apart(outermost))];
            node.add(side, weight);
            for name in stack.split(';').take(DEPTH) {
                node = node.children.entry(name.to_owned()).or_default();
                node.add(side, weight);
            }
        }
    }
    let [base, test] = [0, 1].map(|side| groups.iter().map(|group| group.sums[side]).sum::<f64>());
    if base.max(test) <= 0.0 {
        return None;
    }
    let filled = groups.iter().filter(|group| !group.children.is_empty()).count();
    let of_groups = groups.into_iter().flat_map(|group| {
        let least = group.least(MOST_FRAMES / filled.max(1));
        group.frame(String::new(), least).children
    });
    Some(Frame { name: "all".to_owned(), base, test, children: of_groups.collect() })
}

impl Frame {
    /// The function.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it called.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        self.children.iter()
    }
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

    /// What a frame must have to be kept if at most `most` are, ns per run.
    fn least(&self, most: usize) -> f64 {
        let whole = self.sums[0].max(self.sums[1]);
        // A frame without time is kept nowhere.
        let mut least = (whole * LEAST).max(f64::MIN_POSITIVE);
        while self.count(least) > most {
            least *= 2.0;
        }
        least
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

    #[test]
    fn a_long_group_leaves_short_frames_of_the_other() {
        let stacks: BTreeMap<String, u64> =
            [("idle;wait", 90_000_000), ("read;a", 900), ("read;b", 100), ("idle;tick", 10)]
                .map(|(stack, ns)| (stack.to_owned(), ns))
                .into();
        let names = |root: &Frame| -> Vec<Vec<String>> {
            let below = |frame: &Frame| frame.children().map(|child| child.name().to_owned()).collect();
            root.children().map(below).collect()
        };
        let apart = grouped([&BTreeMap::new(), &stacks], [0, 1], |name| name == "idle").expect("stacks");
        assert_eq!(apart.children().map(Frame::name).collect::<Vec<_>>(), ["read", "idle"], "those apart are last");
        assert_eq!(names(&apart), [vec!["a", "b"], vec!["wait"]]);
        assert!(
            (apart.test - 90_001_010.0).abs() < 1e-6,
            "what is too thin to be drawn is in the sums: {}",
            apart.test
        );
        let together = tree([&BTreeMap::new(), &stacks], [0, 1]).expect("stacks");
        assert_eq!(together.children().map(Frame::name).collect::<Vec<_>>(), ["idle"]);
    }
}
