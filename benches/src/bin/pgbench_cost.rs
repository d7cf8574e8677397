//! What `pagelab record` with its default streams costs PostgreSQL under pgbench, in interleaved pairs.
//!
//! Each run starts a server as it comes on a cluster of its own, lets pgbench make transactions for some seconds (10; two clients, TPC-B-like, scale 10) and
//! stops the server: once as it is, once under `pagelab record` with each of the sets of streams, in an order drawn for each
//! round. The ratio of the transactions per second is what recording costs; the figure is the median with a bootstrap
//! interval. On a disk transactions wait for it, and recording runs while they do; with the cluster in `/dev/shm` nothing
//! waits, two CPUs make half a million calls a second, and all that recording takes is seen.
//!
//! Usage: pgbench_cost [ROUNDS] [OBSERVE[/OBSERVE...]] [DIR] [SEED] [SECONDS]
//! As root; OBSERVE as for `pagelab record --observe`; the cluster is made in DIR (`/var/tmp`).
//! To see which stream costs what: pgbench_cost 10 default/metrics,settings/tasks,faults,maps/cpu/counters

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pagelab_analysis::stats::{Bootstrap, bootstrap_median};
use pagelab_benches::postgres::Cluster;
use pagelab_benches::slices::directory_bytes;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

struct Bench {
    cluster: Cluster,
    pagelab: PathBuf,
    seconds: u64,
}

/// Transactions per second, and what the recording says of its own cost.
struct Run {
    tps: f64,
    cost: Value,
}

impl Bench {
    fn new(place: &Path, seconds: u64) -> Result<Self> {
        let pagelab = std::env::current_exe()?.parent().context("a directory")?.join("pagelab");
        Ok(Self { cluster: Cluster::new(place)?, pagelab, seconds })
    }

    /// Runs pgbench once, recorded with these streams if any.
    fn run(&self, observe: Option<&str>) -> Result<Run> {
        let Some(observe) = observe else {
            return Ok(Run { tps: self.cluster.tps(self.seconds, &[])?, cost: Value::Null });
        };
        let out = std::env::temp_dir().join(format!("pagelab-pgbench-{}", std::process::id()));
        let (pagelab, out_word) = (self.pagelab.to_str().context("path")?, out.to_str().context("path")?);
        let before = [pagelab, "record", "--observe", observe, "-o", out_word, "--"];
        let tps = self.cluster.tps(self.seconds, &before)?;
        let cost = cost_of(&out)?;
        fs::remove_dir_all(&out)?;
        Ok(Run { tps, cost })
    }
}

/// What the manifest says of the recorder, and bytes per call where calls were recorded.
fn cost_of(recording: &Path) -> Result<Value> {
    let manifest: Value = serde_json::from_slice(&fs::read(recording.join("manifest.json"))?)?;
    let mut probes = manifest["probes"].as_array().into_iter().flatten();
    let calls = probes.find(|probe| probe["name"] == "syscalls").and_then(|probe| probe["events_seen"].as_u64());
    let per_call = calls.map(|calls| directory_bytes(&recording.join("syscalls")) as f64 / calls as f64);
    Ok(json!({"self_cost": manifest["self_cost"], "calls": calls, "bytes_per_call": per_call}))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(20), |text| text.parse()).context("ROUNDS: needed a number")?;
    let sets = args.next().unwrap_or_else(|| "default".to_owned());
    let sets: Vec<&str> = sets.split('/').collect();
    let place = args.next().map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse()).context("SEED: needed a number")?;
    let seconds: u64 = args.next().map_or(Ok(10), |text| text.parse()).context("SECONDS: needed a number")?;
    let bench = Bench::new(&place, seconds)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ratios = vec![Vec::with_capacity(rounds); sets.len()];
    for _ in 0..rounds {
        let mut order: Vec<Option<usize>> = std::iter::once(None).chain((0..sets.len()).map(Some)).collect();
        order.shuffle(&mut rng);
        let (mut nothing, mut recorded) = (f64::NAN, vec![f64::NAN; sets.len()]);
        for which in order {
            let run = bench.run(which.map(|at| sets[at]))?;
            let place = which.map_or(&mut nothing, |at| &mut recorded[at]);
            *place = run.tps;
            println!("{}", json!({"observe": which.map(|at| sets[at]), "tps": run.tps, "recorder": run.cost}));
        }
        for (ratios, tps) in ratios.iter_mut().zip(recorded) {
            ratios.push(nothing / tps);
        }
    }
    for (observe, ratios) in sets.iter().zip(&ratios) {
        let found = bootstrap_median(ratios, &Bootstrap { seed, ..Bootstrap::default() })?;
        let figure = json!({"median": found.estimate, "low": found.low, "high": found.high});
        println!(
            "{}",
            json!({"observe": observe, "dir": place, "rounds": rounds, "seconds": seconds, "nothing_over_recorded": figure})
        );
    }
    Ok(())
}
