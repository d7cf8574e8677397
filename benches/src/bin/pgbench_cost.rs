//! What `pagelab record` with its default streams costs PostgreSQL under pgbench, in interleaved pairs.
//!
//! Each run starts a server as it comes on a cluster of its own, lets pgbench make transactions for 10 s (two clients, TPC-B-like, scale 10) and
//! stops the server: once as it is, once under `pagelab record` with each of the sets of streams, in an order drawn for each
//! round. The ratio of the transactions per second is what recording costs; the figure is the median with a bootstrap
//! interval. On a disk transactions wait for it, and recording runs while they do; with the cluster in `/dev/shm` nothing
//! waits, two CPUs make half a million calls a second, and all that recording takes is seen.
//!
//! Usage: pgbench_cost [ROUNDS] [OBSERVE[/OBSERVE...]] [DIR] [SEED]
//! As root; OBSERVE as for `pagelab record --observe`; the cluster is made in DIR (`/var/tmp`).
//! To see which stream costs what: pgbench_cost 10 default/metrics,settings/tasks,faults,maps/cpu/counters

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use pagelab_analysis::stats::{Bootstrap, bootstrap_median};
use pagelab_benches::slices::directory_bytes;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

const SECONDS: &str = "10";
const AS_POSTGRES: [&str; 4] = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"];
/// `$1` the server's programs, `$2` the directory, `$3` seconds.
const RUN: &str = r#"
"$1/postgres" -D "$2/cluster" -k "$2" -c listen_addresses= >"$2/server.log" 2>&1 &
server=$!
until "$1/pg_isready" -q -h "$2"; do sleep 0.05; done
"$1/pgbench" -h "$2" -c 2 -j 2 -T "$3" postgres
status=$?
kill -INT $server
wait $server
exit $status
"#;

struct Bench {
    programs: PathBuf,
    dir: PathBuf,
    pagelab: PathBuf,
}

/// Transactions per second, and what the recording says of its own cost.
struct Run {
    tps: f64,
    cost: Value,
}

fn checked(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

/// A command to be run as a user who may run a server.
fn as_postgres(before: &[&str]) -> Command {
    let words: Vec<&str> = before.iter().chain(&AS_POSTGRES).copied().collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

impl Bench {
    fn new(place: &Path) -> Result<Self> {
        let versions =
            fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed; try: make setup-test")?;
        let programs =
            versions.flatten().map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file());
        let programs = programs.context("no /usr/lib/postgresql/*/bin/initdb; try: make setup-test")?;
        let dir = place.join(format!("pagelab-pgbench-{}", std::process::id()));
        fs::create_dir_all(dir.join("cluster"))?;
        checked(Command::new("chown").arg("-R").arg("postgres:").arg(&dir))?;
        let pagelab = std::env::current_exe()?.parent().context("a directory")?.join("pagelab");
        let bench = Self { programs, dir, pagelab };
        checked(
            as_postgres(&[])
                .arg(bench.programs.join("initdb"))
                .arg("--no-sync")
                .arg("-D")
                .arg(bench.dir.join("cluster")),
        )?;
        bench.script(&RUN.replace("-c 2 -j 2 -T \"$3\"", "-i -s 10 -q"), &[])?;
        Ok(bench)
    }

    fn script(&self, script: &str, before: &[&str]) -> Result<String> {
        let mut command = as_postgres(before);
        command.args(["sh", "-c", script, "sh"]).arg(&self.programs).arg(&self.dir).arg(SECONDS).current_dir("/");
        Ok(String::from_utf8_lossy(&checked(&mut command)?.stdout).into_owned())
    }

    /// Runs pgbench once, recorded with these streams if any.
    fn run(&self, observe: Option<&str>) -> Result<Run> {
        let Some(observe) = observe else {
            return Ok(Run { tps: tps_of(&self.script(RUN, &[])?)?, cost: Value::Null });
        };
        let out = std::env::temp_dir().join(format!("pagelab-pgbench-{}", std::process::id()));
        let (pagelab, out_word) = (self.pagelab.to_str().context("path")?, out.to_str().context("path")?);
        let before = [pagelab, "record", "--observe", observe, "-o", out_word, "--"];
        let tps = tps_of(&self.script(RUN, &before)?)?;
        let cost = cost_of(&out)?;
        fs::remove_dir_all(&out)?;
        Ok(Run { tps, cost })
    }
}

/// Transactions per second, as pgbench prints them.
fn tps_of(printed: &str) -> Result<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("tps = ")).context("pgbench prints its tps")?;
    Ok(line.split_whitespace().next().context("a number")?.parse()?)
}

/// What the manifest says of the recorder, and bytes per call where calls were recorded.
fn cost_of(recording: &Path) -> Result<Value> {
    let manifest: Value = serde_json::from_slice(&fs::read(recording.join("manifest.json"))?)?;
    let mut probes = manifest["probes"].as_array().into_iter().flatten();
    let calls = probes.find(|probe| probe["name"] == "syscalls").and_then(|probe| probe["events_seen"].as_u64());
    let per_call = calls.map(|calls| directory_bytes(&recording.join("syscalls")) as f64 / calls as f64);
    Ok(json!({"self_cost": manifest["self_cost"], "calls": calls, "bytes_per_call": per_call}))
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(20), |text| text.parse()).context("ROUNDS: needed a number")?;
    let sets = args.next().unwrap_or_else(|| "default".to_owned());
    let sets: Vec<&str> = sets.split('/').collect();
    let place = args.next().map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse()).context("SEED: needed a number")?;
    let bench = Bench::new(&place)?;
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
        println!("{}", json!({"observe": observe, "dir": place, "rounds": rounds, "nothing_over_recorded": figure}));
    }
    Ok(())
}
