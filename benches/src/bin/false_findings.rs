//! How often `compare` finds something between runs that are all alike.
//!
//! SET is an experiment whose variants do the same (tools/false-findings makes one): at least 40 runs. They are split at
//! random into two halves, without replacement, again and again; each split is compared as two sets of runs that know
//! nothing of each other. Counted are the splits with any significant metric, with any finding, and with a primary p
//! below alpha.
//!
//! The splits share their runs, so an interval over splits would be too narrow. The bootstrap is over runs: each
//! replicate draws as many runs as there are, with replacement, keeps the distinct ones (about 63 %; two copies of one run
//! would be no independent measurements of it) and splits those a quarter as often. Fewer runs and fewer splits make the
//! shares vary more, so the intervals are on the wide side.
//!
//! The interval of the first share must end below 7.5 %, else the exit status is 1.
//!
//! Usage: false_findings SET [SPLITS] [REPLICATES] [SEED]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use pagelab_analysis::compare::{CompareOptions, DesignChoice, compare_runs, load_side};
use pagelab_views::run::RunData;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

/// How many splits showed what.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    metric: usize,
    finding: usize,
    primary: usize,
}

impl Found {
    fn shares(self, splits: usize) -> [f64; 3] {
        [self.metric, self.finding, self.primary].map(|count| count as f64 / splits as f64)
    }
}

/// What a false discovery rate of 5 % leaves room for.
const BOUND: f64 = 0.075;

const WORDS: [&str; 3] = ["any_significant_metric", "any_finding", "primary_p_below_alpha"];

/// Splits `runs` into halves `splits` times. Names the metrics that were found in `names`.
fn split(runs: &[&RunData], splits: usize, seed: u64, names: &mut Vec<String>) -> Result<Found> {
    let options = CompareOptions { design: DesignChoice::Unpaired, ..CompareOptions::default() };
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let mut order = runs.to_vec();
    let half = runs.len() / 2;
    let mut found = Found::default();
    for _ in 0..splits {
        order.shuffle(&mut draws);
        let document = compare_runs(&order[..half], &order[half..2 * half], &options)?;
        let significant: Vec<String> = document.significant().map(|metric| metric.name.clone()).collect();
        found.metric += usize::from(!significant.is_empty());
        found.finding += usize::from(!document.findings.is_empty());
        let p = document.primary.as_ref().and_then(|primary| primary.p);
        found.primary += usize::from(p.context("the runs have a primary metric")? < options.alpha);
        names.extend(significant);
        names.extend(document.findings.iter().map(|finding| finding.cause.clone()));
    }
    Ok(found)
}

/// The shares of every replicate, on all CPUs.
fn replicates(runs: &[&RunData], count: usize, splits: usize, seed: u64) -> Result<Vec<[f64; 3]>> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<[f64; 3]>> {
        let mut shares = Vec::new();
        loop {
            let replicate = next.fetch_add(1, Ordering::Relaxed);
            if replicate >= count {
                return Ok(shares);
            }
            let mut draws = ChaCha8Rng::seed_from_u64(seed ^ (replicate as u64 + 1) << 20);
            let mut drawn: Vec<usize> = (0..runs.len()).map(|_| draws.random_range(0..runs.len())).collect();
            drawn.sort_unstable();
            drawn.dedup();
            let drawn: Vec<&RunData> = drawn.into_iter().map(|i| runs[i]).collect();
            shares.push(split(&drawn, splits, draws.random(), &mut Vec::new())?.shares(splits));
        }
    };
    std::thread::scope(|scope| {
        let started: Vec<_> =
            (0..std::thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::with_capacity(count);
        for thread in started {
            all.extend(thread.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??);
        }
        Ok(all)
    })
}

fn main() -> Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    let set = PathBuf::from(args.next().context("needed: SET")?);
    let mut number = |name: &str, default: usize| -> Result<usize> {
        args.next().map_or(Ok(default), |text| text.parse()).with_context(|| format!("{name}: needed a number"))
    };
    let (splits, count, seed) = (number("SPLITS", 400)?, number("REPLICATES", 200)?, number("SEED", 1)? as u64);
    let loaded = load_side("base", &[set])?;
    let runs: Vec<&RunData> = loaded.iter().filter(|run| run.excluded.is_none()).collect();
    ensure!(runs.len() >= 40, "found {} runs, needed at least 40", runs.len());
    let mut names = Vec::new();
    let shares = split(&runs, splits, seed, &mut names)?.shares(splits);
    let drawn = replicates(&runs, count, (splits / 4).max(1), seed)?;
    let mut result = json!({"runs": runs.len(), "excluded": loaded.len() - runs.len(), "splits": splits,
                            "replicates": count, "seed": seed});
    for (k, word) in WORDS.iter().enumerate() {
        let mut of: Vec<f64> = drawn.iter().map(|shares| shares[k]).collect();
        of.sort_by(f64::total_cmp);
        let at = |quantile: f64| of.get(((of.len() as f64 - 1.0) * quantile).round() as usize).copied();
        result[word] = json!({"share": shares[k], "low": at(0.025), "high": at(0.975)});
    }
    names.sort_unstable();
    let mut counted: Vec<(usize, &str)> =
        names.chunk_by(|one, next| one == next).map(|same| (same.len(), same[0].as_str())).collect();
    counted.sort_unstable_by(|one, other| other.cmp(one));
    result["found"] = json!(counted.iter().take(10).map(|(n, name)| format!("{name}: {n}")).collect::<Vec<_>>());
    println!("{}", serde_json::to_string_pretty(&result)?);
    let upper_end = result[WORDS[0]]["high"].as_f64().unwrap_or(0.0);
    Ok(if upper_end <= BOUND { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
