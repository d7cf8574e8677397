//! How often a whole comparison finds something where there is nothing, at the level of the statistics alone: families
//! of 300 metrics that are correlated the way metrics of one host are, n = 5 to 10 runs a side, no difference at all.

#[path = "reference/normal_draws.rs"]
mod normal_draws;

use normal_draws::Draws;
use pagelab_analysis::stats::{
    Count, Design, MetricSamples, Observation, Outcome, TestResult, clopper_pearson, settle_family, test_metric,
};

const METRICS: usize = 300;
const ALPHA: f64 = 0.05;

/// What the simulated runs are like.
#[derive(Clone, Copy)]
struct World {
    design: Design,
    /// Share of the metrics that are counters of rare events, which come in bursts of this size on average.
    rare: f64,
    burst: f64,
}

/// Draws one experiment: per run a few hidden causes (load, temperature, memory layout), each metric a mixture of one of
/// them with noise of its own, some of them log-normal, some read in coarse steps, some rare and bursty.
fn experiment(draws: &mut Draws, world: World) -> Vec<TestResult> {
    let n = 5 + (draws.uniform() * 6.0) as usize;
    let runs = 2 * n;
    let causes: Vec<Vec<f64>> = (0..8).map(|_| (0..runs).map(|_| draws.normal()).collect()).collect();
    let drift: Vec<f64> = (0..n).map(|_| draws.normal()).collect();
    (0..METRICS)
        .map(|metric| {
            let share = draws.uniform();
            let rare = draws.uniform() < world.rare;
            let values: Vec<Observation> = (0..runs)
                .map(|run| {
                    let cause = causes.get(metric % causes.len()).and_then(|c| c.get(run)).copied().unwrap_or(0.0);
                    let round = run % n;
                    let noise = share * cause + (1.0 - share * share).sqrt() * draws.normal();
                    let z = noise + if world.design == Design::Blocks { drift[round] } else { 0.0 };
                    observation(draws, metric, round, z, rare.then_some(world.burst))
                })
                .collect();
            let (base, test) = values.split_at(n);
            test_metric(&MetricSamples { base, test, design: world.design, resolution: None })
        })
        .collect()
}

fn observation(draws: &mut Draws, metric: usize, round: usize, z: f64, burst: Option<f64>) -> Observation {
    let round = Some(round as u32);
    if let Some(burst) = burst {
        // Poisson bursts of geometric size: variance over mean about 2 * burst - 1.
        let mean = 0.3 + (metric % 7) as f64 * 0.3;
        let mut events = 0;
        for _ in 0..poisson(draws, mean / burst) {
            events += 1;
            while draws.uniform() > 1.0 / burst {
                events += 1;
            }
        }
        let exposure = 3.0 + 0.01 * z;
        let count = Some(Count { events, exposure });
        return Observation { value: events as f64 / exposure, round, count };
    }
    let value = match metric % 5 {
        0 => (0.5 * z).exp(),
        1 => (100.0 + 2.0 * z).round(),
        2 => z,
        _ => 1000.0 + z,
    };
    Observation { value, round, count: None }
}

/// Knuth's method, for small means.
fn poisson(draws: &mut Draws, mean: f64) -> u64 {
    let (limit, mut product, mut count) = ((-mean).exp(), draws.uniform(), 0);
    while product > limit {
        product *= draws.uniform();
        count += 1;
    }
    count
}

/// Shares of experiments with any significant metric, with the false discovery rate held and without.
fn shares(world: World, seed: u64, experiments: u64) -> (u64, u64) {
    let mut draws = Draws::new(seed);
    let (mut held, mut raw) = (0, 0);
    for _ in 0..experiments {
        let mut results = experiment(&mut draws, world);
        let size = settle_family(&mut results, ALPHA);
        assert!(size > METRICS / 2, "{size} tested");
        assert!(results.iter().all(|r| r.significant.is_some() == (r.outcome == Outcome::Tested)));
        held += u64::from(results.iter().any(|r| r.significant == Some(true)));
        raw += u64::from(results.iter().any(|r| r.p.is_some_and(|p| p <= ALPHA)));
    }
    (held, raw)
}

fn assert_held(world: World, seed: u64) {
    const EXPERIMENTS: u64 = 250;
    let (held, raw) = shares(world, seed, EXPERIMENTS);
    let interval = clopper_pearson(held, EXPERIMENTS, 0.99).expect("a share");
    println!(
        "any significant: {held} of {EXPERIMENTS}, {:.3} to {:.3}; uncorrected {raw}",
        interval.low, interval.high
    );
    assert!(interval.low <= ALPHA, "{held} of {EXPERIMENTS} experiments without a difference found one");
    assert!(raw > EXPERIMENTS * 9 / 10, "the simulation has something to find: {raw}");
}

#[test]
fn unpaired_families_hold_their_rate() {
    assert_held(World { design: Design::Unpaired, rare: 0.0, burst: 1.0 }, 3);
}

#[test]
fn families_in_blocks_hold_their_rate() {
    assert_held(World { design: Design::Blocks, rare: 0.0, burst: 1.0 }, 4);
}

/// A third of the metrics are rare events that arrive singly, as the exact test assumes.
#[test]
fn rare_events_hold_their_rate() {
    assert_held(World { design: Design::Unpaired, rare: 0.33, burst: 1.0 }, 5);
}

/// The same in bursts of 4: the exact test alone would find something in most experiments.
#[test]
fn bursts_hold_their_rate() {
    assert_held(World { design: Design::Unpaired, rare: 0.33, burst: 4.0 }, 6);
    let mut draws = Draws::new(7);
    let fooled = (0..100)
        .filter(|_| {
            let mut results = experiment(&mut draws, World { design: Design::Unpaired, rare: 0.33, burst: 4.0 });
            for result in &mut results {
                result.p = result.exact_p.or(result.p);
            }
            settle_family(&mut results, ALPHA);
            results.iter().any(|r| r.significant == Some(true))
        })
        .count();
    assert!(fooled > 50, "the exact test alone is fooled in {fooled} of 100");
}

/// One real difference among 300 metrics is found: the rate is not held by finding nothing.
#[test]
fn a_real_difference_is_found() {
    let mut draws = Draws::new(8);
    let found = (0..50)
        .filter(|_| {
            let mut results = experiment(&mut draws, World { design: Design::Unpaired, rare: 0.1, burst: 2.0 });
            let side = |draws: &mut Draws, factor: f64| -> Vec<Observation> {
                (0..8).map(|_| Observation::of(factor * (0.05 * draws.normal()).exp())).collect()
            };
            let (base, test) = (side(&mut draws, 1.0), side(&mut draws, 2.0));
            let real = MetricSamples { base: &base, test: &test, design: Design::Unpaired, resolution: None };
            results.push(test_metric(&real));
            settle_family(&mut results, ALPHA);
            results.last().is_some_and(|r| r.significant == Some(true))
        })
        .count();
    assert!(found == 50, "{found} of 50");
}
