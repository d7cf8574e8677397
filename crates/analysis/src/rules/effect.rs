//! How much of the lost time a cause accounts for.
//!
//! The time of one unit of work is the measured time over its operations. A cause's cost is a time too (time in the
//! kernel for faults, time off the CPU for waits), taken per unit of work from the same runs. The share is
//!
//! ```text
//! (cost of the slow side - cost of the fast side) / (time of the slow side - time of the fast side),
//! ```
//!
//! means over runs, with a percentile interval from resampling the runs of each side (B. Efron, "Bootstrap methods",
//! Annals of Statistics 7 (1979)); one fixed seed, so a document is the same each time it is made. Where several CPUs
//! worked at once, time on CPUs is divided by how many did on the slow side.
//!
//! It is an attribution, not a proof: everything else that changed in the same time is in it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::chain::Chain;
use super::evidence::{RunEvidence, SideEvidence};
use super::finding::Effect;
use super::scene::{MATERIAL_SHARE, Scene};
use crate::stats::{mean, quantile_of_sorted};

const RESAMPLES: usize = 2000;
const SEED: u64 = 1;
/// Resamples in which the slow side is not slower say that the change itself is uncertain; with more than this share
/// of them no interval is given.
const MAX_USELESS: f64 = 0.05;

/// Cost and time of each run, per unit of work.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    cost: f64,
    time: f64,
}

/// The effect of a cost, by difference of the sides or, for a lone recording, as a share of all its time.
pub(crate) fn effect(scene: &Scene<'_>, method: &str, cost: impl Fn(&RunEvidence) -> Option<f64>) -> Option<Effect> {
    if !scene.evidence.per_operation() {
        return None;
    }
    let pairs = |side: &SideEvidence| -> Vec<Pair> {
        let pair = |run: &RunEvidence| {
            Some(Pair {
                cost: scene.evidence.per_work(run, cost(run)?)?,
                time: scene.evidence.per_work(run, run.window_ns)?,
            })
        };
        side.runs.iter().filter_map(pair).collect()
    };
    let slow = pairs(scene.slow);
    let fast = scene.fast.map(pairs).unwrap_or_default();
    if slow.is_empty() || (scene.fast.is_some() && fast.is_empty()) {
        return None;
    }
    let difference = |pick: fn(&Pair) -> f64, slow: &[Pair], fast: &[Pair]| {
        let side = |pairs: &[Pair]| mean(&pairs.iter().map(pick).collect::<Vec<_>>()).unwrap_or(0.0);
        side(slow) - side(fast)
    };
    let cost_of = |slow: &[Pair], fast: &[Pair]| difference(|pair| pair.cost, slow, fast);
    let time_of = |slow: &[Pair], fast: &[Pair]| difference(|pair| pair.time, slow, fast);
    let (cost_ns, change_ns) = (cost_of(&slow, &fast), time_of(&slow, &fast));
    if change_ns <= 0.0 || !cost_ns.is_finite() {
        return None;
    }
    let ratios = resample(&slow, &fast, |slow, fast| (cost_of(slow, fast), time_of(slow, fast)));
    Some(Effect {
        share: cost_ns / change_ns,
        share_ci95: ratios,
        attributed_ns: cost_ns,
        change_ns,
        per: scene.evidence.per().to_owned(),
        of: if scene.fast.is_some() { "change" } else { "time" }.to_owned(),
        method: method.to_owned(),
    })
}

/// The 95 % interval of the ratio over resamples of both sides.
fn resample(slow: &[Pair], fast: &[Pair], of: impl Fn(&[Pair], &[Pair]) -> (f64, f64)) -> Option<[f64; 2]> {
    if slow.len() < 3 || (fast.len() < 3 && !fast.is_empty()) {
        return None;
    }
    let mut generator = ChaCha8Rng::seed_from_u64(SEED);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let (cost, time) = of(&draw(slow, &mut generator), &draw(fast, &mut generator));
        if time > 0.0 {
            ratios.push(cost / time);
        }
    }
    if (ratios.len() as f64) < RESAMPLES as f64 * (1.0 - MAX_USELESS) {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    Some([quantile_of_sorted(&ratios, 0.025).ok()?, quantile_of_sorted(&ratios, 0.975).ok()?])
}

fn draw(pairs: &[Pair], generator: &mut ChaCha8Rng) -> Vec<Pair> {
    let n = pairs.len() as u64;
    // Multiply and shift: bias below n / 2^32.
    let index = |random: u32| ((u64::from(random) * n) >> 32) as usize;
    (0..n).filter_map(|_| pairs.get(index(generator.next_u32())).copied()).collect()
}

/// No page fault is served in less: entry, exit and the walk alone take this long on the fastest machines.
const LEAST_FAULT_NS: f64 = 50.0;

/// Time in the kernel, spread over the CPUs that worked at once: what faults cost. `None` for a run whose faults alone
/// would take longer than the time it reports: then it is the time of another process than the one that faulted.
pub(crate) fn kernel_time(scene: &Scene<'_>) -> impl Fn(&RunEvidence) -> Option<f64> {
    let busy = |run: &RunEvidence| run.concurrency().or_else(|| Some(run.cpu_ns()? / run.window_ns));
    let busy = scene.slow.median(busy).unwrap_or(1.0).max(1.0);
    move |run| {
        let faults = run.profile.as_ref().map_or(0, |profile| profile.window_faults);
        let kernel = run.kernel_ns().filter(|ns| *ns >= LEAST_FAULT_NS * faults as f64)?;
        Some(kernel / busy)
    }
}

/// Time in which the program was not on a CPU: what waiting costs. Of a load, its workers' measured time less their
/// time on CPUs, divided by how many were at work at once. Of a command, the time it took less its time on CPUs, told
/// only where no more than one CPU was busy at a time: the waits of one thread hide behind the work of another
/// otherwise.
pub(crate) fn waiting_time(run: &RunEvidence) -> Option<f64> {
    let cpu = run.cpu_ns()?;
    if let (Some(workers), Some(at_once)) = (run.workers, run.concurrency()) {
        return Some((workers.runtime_ns - cpu) / at_once);
    }
    (run.whole_life && cpu <= run.window_ns * 1.1).then_some(run.window_ns - cpu)
}

/// Least share of the lost time that a cause must be able to explain (upper end of its interval).
const MATERIAL_TIME: f64 = 0.05;

/// Adds what the effect says to a chain: a cause that explains next to nothing of the lost time is refuted, one whose
/// faults lie outside the measured time or whose time is not known is less certain.
pub(crate) fn material_link(scene: &Scene<'_>, effect: Option<&Effect>, window_share: Option<f64>, chain: &mut Chain) {
    let in_window = window_share.is_none_or(|share| share >= MATERIAL_SHARE);
    if !in_window {
        let share = window_share.unwrap_or(0.0) * 100.0;
        chain.supports(
            Some(false),
            "",
            format!("only {share:.1} % of the faults in the measured time are of this kind: what the pages cost later (TLB misses) was not measured"),
            "",
        );
        return;
    }
    let Some(effect) = effect else {
        chain.supports(None, "", "", "the time that it costs (needs time in the kernel and operations of every run)");
        return;
    };
    let most = effect.share_ci95.map_or(effect.share, |[_, high]| high);
    let what = match scene.fast {
        Some(_) => "the lost time",
        None => "the time",
    };
    chain.refuter(
        Some(most < MATERIAL_TIME),
        format!("it explains at most {:.1} % of {what}: {}", most * 100.0, sentence(effect)),
        format!("too small to matter: it explains {:.0} % of {what}", effect.share * 100.0),
        "",
    );
    if most >= MATERIAL_TIME {
        chain.say(sentence(effect));
    }
}

/// The effect in a sentence.
pub(crate) fn sentence(effect: &Effect) -> String {
    let interval = effect.share_ci95.map_or_else(String::new, |[low, high]| {
        format!(" (95 % interval {:.0} to {:.0} %)", low * 100.0, high * 100.0)
    });
    format!(
        "{} of {} per {}, {:.0} %{interval}, is accounted for by {}",
        nanoseconds(effect.attributed_ns),
        match effect.of.as_str() {
            "change" => format!("the {} lost", nanoseconds(effect.change_ns)),
            _ => nanoseconds(effect.change_ns),
        },
        effect.per,
        effect.share * 100.0,
        effect.method
    )
}

/// A time for people.
pub(crate) fn nanoseconds(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size >= 1e9 => (ns / 1e9, "s"),
        size if size >= 1e6 => (ns / 1e6, "ms"),
        size if size >= 1e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    let digits = if value.abs() >= 100.0 { 0 } else { usize::from(value.abs() < 10.0) + 1 };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_their_unit() {
        assert_eq!(nanoseconds(12.34), "12.3 ns");
        assert_eq!(nanoseconds(1234.0), "1.23 us");
        assert_eq!(nanoseconds(-250_000_000.0), "-250 ms");
        assert_eq!(nanoseconds(2.5e9), "2.50 s");
    }

    #[test]
    fn resampling_brackets_the_ratio_and_repeats() {
        let side = |cost: f64, time: f64| -> Vec<Pair> {
            (0..6).map(|i| Pair { cost: cost + f64::from(i), time: time + f64::from(i % 3) }).collect()
        };
        let of = |slow: &[Pair], fast: &[Pair]| {
            let sum = |p: &[Pair], f: fn(&Pair) -> f64| p.iter().map(f).sum::<f64>() / p.len() as f64;
            (sum(slow, |p| p.cost) - sum(fast, |p| p.cost), sum(slow, |p| p.time) - sum(fast, |p| p.time))
        };
        let (slow, fast) = (side(80.0, 200.0), side(20.0, 100.0));
        let [low, high] = resample(&slow, &fast, of).expect("six runs a side");
        assert!(low < 0.6 && 0.6 < high && high - low < 0.2, "{low} {high}");
        assert_eq!(resample(&slow, &fast, of), Some([low, high]));
        assert_eq!(resample(&slow[..2], &fast, of), None, "two runs have no interval");
        assert_eq!(resample(&fast, &fast, of), None, "no change has no share");
    }
}
