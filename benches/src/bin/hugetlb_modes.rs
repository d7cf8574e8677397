//! Looks for the two modes of EXPERIMENTS 2: single runs of the same program (256 MiB, a byte every 4 KiB written, read back) took 21 to
//! 23 % or 53 to 55 % of the time on 4 KiB pages, and the author left open why.
//!
//! Each run is a process of its own, as there. Three suspects are made to act, one at a time, and the runs are interleaved:
//!
//! - `standing`: none; the pool stays and its pages have been used before;
//! - `just_grown`: the pool is given back and grown before each run, so that the pages come fresh from the kernel's free memory;
//! - `cold_caches`: 1 GiB of other memory is read before each run, so that nothing of the pool is in the caches;
//! - `base`, `base_cold_caches`: the same on 4 KiB pages, which the percentages are of.
//!
//! Percentages are of CPU time, which other programs on the machine disturb less; the raw lines have both.
//!
//! Then 50 rounds in one process, huge and base, for the first against the rest. Prints one line of JSON for each run and, at last,
//! for each condition the sorted percentages and the widest gap between neighbours: two modes are a gap that is wide against both sides.
//!
//! Usage: hugetlb_modes [RUNS]      (as root; needs cc; changes the pool of 2 MiB pages and puts it back)

use std::path::Path;

use anyhow::{Context as _, Result};
use pagelab_benches::hugetlb::{BYTES, Pool, Program, Round};
use serde_json::{Value, json};

const PAGES: u64 = (BYTES >> 21) as u64;

/// What runs, on which pages, with which suspect at work.
const CONDITIONS: [&str; 5] = ["base", "standing", "just_grown", "cold_caches", "base_cold_caches"];

/// Reads 1 GiB that has nothing to do with the runs.
fn cool(other: &[u64]) -> u64 {
    std::hint::black_box(other).iter().step_by(8).fold(0, |sum, word| sum.wrapping_add(*word))
}

fn run(condition: &str, program: &Program, other: &[u64], standing: &mut Option<Pool>) -> Result<Round> {
    if condition == "just_grown" {
        // Given back first: a pool that is larger than needed would hand out its old pages.
        *standing = None;
        let _fresh = Pool::grown_by(PAGES)?;
        return program.once("huge");
    }
    if condition.ends_with("cold_caches") {
        std::hint::black_box(cool(other));
    }
    if condition.starts_with("base") {
        return program.once("base");
    }
    if standing.is_none() {
        *standing = Some(Pool::grown_by(PAGES)?);
        // Used once, which is what standing means.
        program.once("huge")?;
    }
    program.once("huge")
}

fn as_json(round: Round) -> Value {
    json!({"total": round.total_ns(), "map": round.map_ns, "write": round.write_ns, "read": round.read_ns, "cpu": round.cpu_ns,
           "unmap": round.unmap_ns})
}

/// Sorted percentages, and the widest gap between neighbours with what lies on both sides of it.
fn modes(mut percents: Vec<f64>) -> Value {
    percents.sort_by(f64::total_cmp);
    let median = percents.get(percents.len() / 2).copied();
    let widest = percents
        .windows(2)
        .enumerate()
        .filter_map(|(index, pair)| Some((pair.last()? - pair.first()?, index + 1)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let gap = widest.map(|(width, below)| {
        json!({"points": width, "runs_below": below, "runs_above": percents.len() - below,
               "from": percents.get(below - 1), "to": percents.get(below)})
    });
    json!({"median_pct": median, "widest_gap": gap, "pct": percents})
}

fn single_runs(runs: usize, program: &Program) -> Result<()> {
    let other = vec![1_u64; (1 << 30) / 8];
    let mut totals: Vec<Vec<f64>> = vec![Vec::new(); CONDITIONS.len()];
    let mut standing = None;
    for index in 0..runs {
        let mut line = serde_json::Map::new();
        for turn in 0..CONDITIONS.len() {
            // Another one begins each time, so that no condition always follows the same.
            let which = (turn + index) % CONDITIONS.len();
            let (Some(condition), Some(totals)) = (CONDITIONS.get(which), totals.get_mut(which)) else { continue };
            let round = run(condition, program, &other, &mut standing)?;
            totals.push(round.cpu_ns as f64);
            line.insert((*condition).to_owned(), as_json(round));
        }
        println!("{}", json!({"run": index, "ns": line}));
    }
    let [base, standing, grown, cold, base_cold] = totals.as_slice() else { return Ok(()) };
    let percent = |huge: &[f64], base: &[f64]| -> Vec<f64> {
        huge.iter().zip(base).map(|(huge, base)| 100.0 * huge / base).collect()
    };
    let own = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        times.iter().map(|time| 100.0 * time / median).collect::<Vec<f64>>()
    };
    println!(
        "{}",
        json!({"percent_of_base": {"standing": modes(percent(standing, base)), "just_grown": modes(percent(grown, base)),
                                   "cold_caches": modes(percent(cold, base_cold))},
               "percent_of_own_median": {"base": modes(own(base)), "standing": modes(own(standing)),
                                         "just_grown": modes(own(grown)), "cold_caches": modes(own(cold)),
                                         "base_cold_caches": modes(own(base_cold))}})
    );
    Ok(())
}

fn rounds_in_one_process(program: &Program) -> Result<()> {
    let _pool = Pool::grown_by(PAGES)?;
    let (mut huge, mut base) = (program.start("huge")?, program.start("base")?);
    let mut percents = Vec::new();
    for _ in 0..50 {
        let (base, huge) = (base.round()?, huge.round()?);
        percents.push(100.0 * huge.cpu_ns as f64 / base.cpu_ns as f64);
    }
    println!("{}", json!({"rounds_in_one_process_pct": percents}));
    Ok(())
}

fn main() -> Result<()> {
    let runs: usize = std::env::args().nth(1).map_or(Ok(40), |text| text.parse()).context("RUNS: needed a number")?;
    let folder = Path::new("/dev/shm").join(format!("pagelab-hugetlb-modes-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = Program::compile(&folder)
        .and_then(|program| single_runs(runs, &program).and_then(|()| rounds_in_one_process(&program)));
    std::fs::remove_dir_all(&folder)?;
    outcome
}
