//! Writes the compacted tables of a simulated fleet: `simulate_fleet FOLDER HOSTS [DAYS] [RUNS] [METRICS]`.
//!
//! Three groups of hosts of two instance types, a setting that makes 6 % of the hosts 12 % slower, twelve that do nothing; RUNS runs
//! of each host on each day, METRICS metrics (each with a value of every run).

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use pagelab_fleet::rollup::{FleetFolder, WriteOptions};
use pagelab_fleet::simulate::{Fleet, FleetPlan, HarmlessSetting, HostGroup, MetricSeed, PlantedCause, Slowdown};
use pagelab_vocab::metrics::Direction;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let Some(folder) = words.next().map(PathBuf::from) else {
        bail!("found no folder; type: simulate_fleet FOLDER HOSTS [DAYS] [RUNS] [METRICS]");
    };
    let mut numbers = words.map(|word| {
        word.to_string_lossy().parse::<u32>().with_context(|| format!("found {}, needed a number", word.display()))
    });
    let mut next = |default: Option<u32>| numbers.next().unwrap_or_else(|| default.context("found no number of hosts"));
    let (hosts, days, runs, metrics) = (next(None)?, next(Some(4))?, next(Some(5))?, next(Some(100))?);
    let written =
        Fleet::of(plan(hosts, days, runs, metrics))?.write(&FleetFolder::create(&folder)?, &WriteOptions::default())?;
    println!("{written:?}");
    Ok(())
}

fn plan(hosts: u32, days: u32, runs: u32, metrics: u32) -> FleetPlan {
    let group = |name: &str, instance_type: &str, weight, slower_pct| HostGroup {
        name: name.to_owned(),
        instance_type: instance_type.to_owned(),
        weight,
        slower_pct,
    };
    let harmless = |at: u32| HarmlessSetting {
        key: format!("sysctl.net.harmless{at:02}"),
        values: vec![("0".to_owned(), 0.6), ("1".to_owned(), 0.4)],
        follows_group: false,
        changes_per_day: 0.0,
    };
    let slowdowns =
        vec![Slowdown { metric: "run.elapsed_ns".to_owned(), component: "run.fault.entry".to_owned(), pct: 12.0 }];
    let mut plan = FleetPlan::new(17, hosts, days);
    plan.runs_per_day = [runs, runs];
    plan.groups = vec![group("front", "m1", 0.5, 0.0), group("back", "m1", 0.3, 0.0), group("store", "m2", 0.2, 25.0)];
    plan.causes = vec![PlantedCause {
        key: "thp.enabled".to_owned(),
        value: "never".to_owned(),
        usual: "always".to_owned(),
        hosts: (hosts * 6).div_ceil(100).min(hosts),
        from_day: 0,
        slowdowns,
    }];
    plan.harmless = (0..12).map(harmless).collect();
    let more = (plan.metrics.len() as u32..metrics).map(|at| MetricSeed {
        name: format!("vmstat.simulated_{at:03}"),
        instance: None,
        unit: "count".to_owned(),
        direction: Direction::Neutral,
        mean: 1_000.0 + f64::from(at),
        sd: None,
        is_time_of_components: false,
    });
    plan.metrics.extend(more);
    plan
}
