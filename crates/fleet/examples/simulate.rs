//! Writes a simulated fleet: `cargo run --release -p pagelab-fleet --example simulate -- DIR HOSTS DAYS [SEED]`.
//!
//! Sixty of a thousand hosts have transparent huge pages switched off and are 8 % slower by it. Prints what was written, how long
//! it took, and the most memory that the process had.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use pagelab_fleet::rollup::{FleetFolder, WriteOptions};
use pagelab_fleet::simulate::{Fleet, FleetPlan, PlantedCause, Slowdown};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "simulate: needed: DIR HOSTS DAYS [SEED]";
    let directory = PathBuf::from(arguments.next().ok_or(usage)?);
    let hosts: u32 = arguments.next().ok_or(usage)?.parse()?;
    let days: u32 = arguments.next().ok_or(usage)?.parse()?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let slowdown = Slowdown { metric: "run.elapsed_ns".to_owned(), component: "run.fault.entry".to_owned(), pct: 8.0 };
    let cause = PlantedCause {
        key: "thp.enabled".to_owned(),
        value: "never".to_owned(),
        usual: "always".to_owned(),
        hosts: hosts * 6 / 100,
        from_day: 0,
        slowdowns: vec![slowdown],
    };
    let fleet = Fleet::of(FleetPlan { causes: vec![cause], ..FleetPlan::new(seed, hosts, days) })?;
    let begun = Instant::now();
    let written = fleet.write(&FleetFolder::create(&directory)?, &WriteOptions::default())?;
    println!("{written:?}");
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not known"));
    Ok(())
}
