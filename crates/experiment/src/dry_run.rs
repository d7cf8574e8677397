//! What an experiment would do, without doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use pagelab_host::settings;
use pagelab_recording::set::{PlannedRun, RunState};
use pagelab_vocab::terminal::shell_line;
use serde::Serialize;

use crate::error::ExperimentError;
use crate::execute::{RunOptions, absolute, whole_order};
use crate::plan::{Boot, Filled, LabPlan, Plan, Surroundings, Work};
use crate::random::fresh_seed;
use crate::set::Set;

/// Seconds that recording adds to a run: loading the probes, reading every setting twice, closing the recording.
const RECORDING_S: f64 = 0.7;

/// What would be done.
#[derive(Debug, Clone, Serialize)]
pub struct DryRun {
    /// Title of the plan.
    pub title: String,
    /// The set's directory.
    pub set: PathBuf,
    /// Seed; if neither plan nor command line has one, each start draws another.
    pub seed: u64,
    /// Whether the seed was drawn for this dry run only.
    pub seed_drawn: bool,
    /// The variant that the others are compared with.
    pub base: String,
    /// Directory that everything runs in.
    pub workdir: PathBuf,
    /// The VM that everything runs in; null for this host.
    pub lab: Option<LabPlan>,
    /// The variants.
    pub variants: Vec<DryVariant>,
    /// Steps before each run, in order.
    pub before: Vec<String>,
    /// Step after each run.
    pub after: Option<String>,
    /// Names of the variants in each round that is still to be made; the warm-up first.
    pub order: Vec<DryRound>,
    /// How long it may take.
    pub estimate: Estimate,
    /// What deserves a word.
    pub notes: Vec<String>,
}

/// One variant.
#[derive(Debug, Clone, Serialize)]
pub struct DryVariant {
    /// Its name.
    pub name: String,
    /// The command line, as a user would type it.
    pub command: String,
    /// Settings of host and process.
    pub settings: Vec<DrySetting>,
    /// What its VM would boot with; null without one. Variants that have it in common share one VM.
    pub boot: Option<Boot>,
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
pub struct DrySetting {
    /// Its key.
    pub key: String,
    /// The value now; null for settings of the process that is yet to be started, or if it cannot be read.
    pub current: Option<String>,
    /// The value that it would get.
    pub planned: String,
    /// Drawn as a harmless difference.
    pub decoy: bool,
}

/// One round.
#[derive(Debug, Clone, Serialize)]
pub struct DryRound {
    /// Number; 0 for warm-up.
    pub round: u64,
    /// Variants in order.
    pub variants: Vec<String>,
}

/// How long it may take.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    /// Runs still to be made.
    pub runs: usize,
    /// Seconds for all of them; null if nothing is known about one run.
    pub seconds: Option<f64>,
    /// The basis of the figure.
    pub basis: String,
}

/// Says what running the plan with these options would do. Looks at the host and changes nothing.
pub fn dry_run(plan: &Plan, options: &RunOptions) -> Result<DryRun, ExperimentError> {
    let dir = absolute(&options.set)?;
    let started = if options.resume { Some(Set::open(&dir)?) } else { None };
    let known_seed = options.seed.or(plan.seed);
    let seed = started.as_ref().map_or_else(|| known_seed.unwrap_or_else(fresh_seed), |set| set.json().seed);
    let filled = match &started {
        Some(set) => set.filled()?,
        None => plan.fill(&Surroundings { root: options.root.clone(), set: dir.clone(), seed })?,
    };
    let order = rounds(plan, started.as_ref(), seed, options.add_runs);
    let runs = order.iter().map(|round| round.variants.len()).sum();
    Ok(DryRun {
        title: plan.title.clone(),
        set: dir,
        seed,
        seed_drawn: started.is_none() && known_seed.is_none(),
        base: plan.base.clone(),
        workdir: filled.workdir.clone(),
        lab: plan.lab.clone(),
        variants: variants(&filled, options),
        before: before(plan),
        after: plan.cleanup.as_ref().map(|argv| line(argv)),
        order,
        estimate: estimate(&filled, started.as_ref(), runs),
        notes: filled.notes.clone(),
    })
}

fn line(argv: &[String]) -> String {
    shell_line(argv)
}

fn before(plan: &Plan) -> Vec<String> {
    plan.prepare.iter().map(|argv| line(argv)).chain(plan.between.iter().map(|step| step.word().to_owned())).collect()
}

fn variants(filled: &Filled, options: &RunOptions) -> Vec<DryVariant> {
    let decoys: BTreeSet<&str> = filled.decoys.iter().map(|decoy| decoy.key.as_str()).collect();
    let in_lab = filled.variants.iter().any(|variant| variant.boot.is_some());
    let setting = |(key, planned): (&String, &String), current: Option<String>| DrySetting {
        key: key.clone(),
        current,
        planned: planned.clone(),
        decoy: decoys.contains(key.as_str()),
    };
    let all = |host: &BTreeMap<String, String>, process: &BTreeMap<String, String>| -> Vec<DrySetting> {
        // The settings of a VM before it boots are unknown.
        let read = |key: &str| settings::read(&options.root, key).ok().filter(|_| !in_lab);
        let host = host.iter().map(|pair| setting(pair, read(pair.0)));
        host.chain(process.iter().map(|pair| setting(pair, None))).collect()
    };
    let variants = filled.variants.iter();
    variants
        .map(|variant| DryVariant {
            name: variant.name.clone(),
            command: variant.work.line(),
            settings: all(&variant.host, &variant.process),
            boot: variant.boot.clone(),
        })
        .collect()
}

fn rounds(plan: &Plan, started: Option<&Set>, seed: u64, add_runs: usize) -> Vec<DryRound> {
    let mut out: Vec<DryRound> = Vec::new();
    let mut add = |round: u64, variant: String| match out.last_mut() {
        Some(last) if last.round == round => last.variants.push(variant),
        _ => out.push(DryRound { round, variants: vec![variant] }),
    };
    let to_do = |run: &&PlannedRun| matches!(run.state, RunState::Planned | RunState::Running);
    let (mut known, mut rounds) = (0, plan.runs);
    if let Some(set) = started {
        set.runs().iter().filter(to_do).for_each(|run| add(run.round, run.variant.clone()));
        known = set.runs().len();
        rounds = set.runs().iter().map(|run| run.round).max().unwrap_or(0) as usize + add_runs;
    }
    for slot in whole_order(plan, seed, rounds).iter().skip(known) {
        if let Some(variant) = plan.variants.get(slot.variant) {
            add(slot.round, variant.name.clone());
        }
    }
    out
}

fn estimate(filled: &Filled, started: Option<&Set>, runs: usize) -> Estimate {
    let took: Vec<u64> =
        started.into_iter().flat_map(|set| set.details().values()).filter_map(|run| run.took_ms).collect();
    if !took.is_empty() {
        let mean = took.iter().sum::<u64>() as f64 / took.len() as f64 / 1000.0;
        let basis = format!("the {} runs made so far took {mean:.1} s each", took.len());
        return Estimate { runs, seconds: Some(mean * runs as f64), basis };
    }
    let times: Vec<Option<f64>> = filled.variants.iter().map(|variant| runtime_s(&variant.work)).collect();
    let known: Option<Vec<f64>> = times.into_iter().collect();
    match known.filter(|times| !times.is_empty()) {
        Some(times) => {
            let mean = times.iter().sum::<f64>() / times.len() as f64 + RECORDING_S;
            let basis = format!("the jobs' runtime, and {RECORDING_S} s a run for recording");
            Estimate { runs, seconds: Some(mean * runs as f64), basis }
        }
        None => Estimate { runs, seconds: None, basis: "nothing says how long one run takes".to_owned() },
    }
}

/// How long a job runs, if its options say so: jobs that wait for each other one after the other, others at once.
fn runtime_s(work: &Work) -> Option<f64> {
    let Work::Job { workload, .. } = work else { return None };
    let mut total = 0.0;
    let mut longest: f64 = 0.0;
    for job in &workload.jobs {
        if job.stonewall {
            total += longest;
            longest = 0.0;
        }
        if !job.options.time_based {
            return None;
        }
        longest = longest.max((job.options.runtime.0 + job.options.ramp_time.0) as f64 / 1e9);
    }
    Some(total + longest)
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "set        {}", self.set.display())?;
        let drawn = if self.seed_drawn { " (drawn now; the next start draws another)" } else { "" };
        writeln!(f, "seed       {}{drawn}", self.seed)?;
        writeln!(f, "directory  {}", self.workdir.display())?;
        if let Some(lab) = &self.lab {
            let boots: BTreeSet<&Boot> = self.variants.iter().filter_map(|variant| variant.boot.as_ref()).collect();
            writeln!(
                f,
                "lab        {} VM{}, each with {}",
                boots.len(),
                if boots.len() == 1 { "" } else { "s" },
                lab.words()
            )?;
        }
        for variant in &self.variants {
            let base = if variant.name == self.base { " (base)" } else { "" };
            writeln!(f, "\nvariant {}{base}", variant.name)?;
            if let Some(boot) = &variant.boot {
                writeln!(f, "  boots    {}", boot.words())?;
            }
            writeln!(f, "  runs     {}", variant.command)?;
            for setting in &variant.settings {
                let current = setting.current.as_deref().unwrap_or("-");
                let decoy = if setting.decoy { "  (harmless difference)" } else { "" };
                writeln!(f, "  {}: {current} -> {}{decoy}", setting.key, setting.planned)?;
            }
        }
        if !self.before.is_empty() {
            writeln!(f, "\nbefore each run: {}", self.before.join("; "))?;
        }
        if let Some(after) = &self.after {
            writeln!(f, "after each run: {after}")?;
        }
        writeln!(f, "\norder")?;
        for round in &self.order {
            let name = if round.round == 0 { "warm-up".to_owned() } else { format!("round {}", round.round) };
            writeln!(f, "  {name:<10} {}", round.variants.join("  "))?;
        }
        let Estimate { runs, seconds, basis } = &self.estimate;
        match seconds {
            Some(seconds) => writeln!(f, "\n{runs} runs, about {seconds:.0} s: {basis}")?,
            None => writeln!(f, "\n{runs} runs; the time is not known: {basis}")?,
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(f, "nothing was changed")
    }
}
