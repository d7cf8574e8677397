//! `show DIR budget`: where the time of the tasks went, as an account that closes.
//!
//! The *task account* holds what each task did, from its beginning to its end, summed over the tasks: it sums to their lives. The
//! *wall account* holds the time of the recording: a moment in which `a` tasks are active counts for each by 1/a, and one in
//! which none is, is idle; it sums to the time recorded. With the stream `sched` every switch is known and it is exact. Without,
//! tasks that are active at the same time are told by sums of about a second: exact for one task, and else as exact as the mixture
//! of a second is the same throughout.
//!
//! Of a load the account is of the time that it measured, in whole intervals of the sums: files that were laid out before, and the
//! ramp, are not what an operation costs.
//!
//! States are summed up in the kernel and exact; what RUN was spent on is told by samples of the profile, what waits were for by
//! stacks at their ends. [`OneComponent::error_ns`] is the standard error that this gives.
//!
//! Without a PMU samples come by an interrupt of the timer: one that falls due while the kernel runs with interrupts off is taken
//! where it switches them on. So the way out of a fault or a call is sampled in the program, at the instruction that comes next.
//! Such samples are known by their registers (`samples.returned_from`) and are given back to the kernel: of planted faults they are
//! 7 % in a VM of 2 CPUs (`benches/views/mixtures.py`).

mod exact;
mod off_stacks;
mod places;
mod shares;
mod states;

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_vocab::absence::Absence;
use pagelab_vocab::budget::{self, Component, State, component_of, ready_by};
use pagelab_vocab::streams::Stream;
use pagelab_vocab::waits::PAGE_FAULT;
use schemars::JsonSchema;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::kinds::each_kind;
use crate::read::{self, Tasks};
use crate::selection::{Selection, cut};
use crate::window::measured_part;
use exact::Exact;
use shares::{OffShares, RunShares, Untold};
use states::{Doing, States, intervals_within};

pub use off_stacks::{OffSource, OffStack, off_stacks, why_no_off_stacks};
pub use places::{Place, places};

/// A part of the account.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OneComponent {
    /// Its name in the vocabulary: `run.user`, `off.flush`.
    pub component: &'static str,
    /// `run`, `ready` or `off`.
    pub state: &'static str,
    /// Whether the time was spent for the tasks' work, or taken from it by the system; waiting for others is not.
    pub active: bool,
    /// What the time was spent on.
    pub about: &'static str,
    /// Task account, ns.
    pub ns: u64,
    /// The same in percent of the tasks' lives; of RUN where the lives are not known.
    pub pct: f64,
    /// Wall account, ns; null for what is not active, and where it is not known.
    pub wall_ns: Option<u64>,
    /// The same in percent of the time recorded.
    pub wall_pct: Option<f64>,
    /// Wall account as sums of a second tell it, ns; null where it is no other than `wall_ns`.
    pub wall_by_sums_ns: Option<u64>,
    /// Wall account by operations, ns; null where operations are not known.
    pub wall_ns_per_operation: Option<f64>,
    /// Samples or stacks that tell it; null where it was not sampled but summed up.
    pub samples: Option<u64>,
    /// Standard error of `ns` from sampling; 0 where it was not sampled.
    pub error_ns: u64,
}

/// Time in the kernel by the way in.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KernelPart {
    /// The way in: the name of a call, `page_fault`, `interrupt`, or `thread`.
    pub entry: String,
    /// What was done there; `other` where no anchor tells.
    pub mechanism: &'static str,
    /// Samples.
    pub samples: u64,
    /// Task account, ns; null where the time on CPUs is not known.
    pub ns: Option<u64>,
    /// Percent of the time on CPUs.
    pub run_pct: f64,
}

/// What page faults took.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct FaultCost {
    /// Faults that the kernel counted for the tasks, minor and major.
    pub faults: u64,
    /// Time on CPUs below the entry of faults, ns, as samples tell it.
    pub ns: u64,
    /// The same for each fault, ns.
    pub ns_per_fault: f64,
    /// Standard error of `ns` from sampling.
    pub error_ns: u64,
}

/// Time in the kernel that no anchor tells.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unmatched {
    /// The innermost function.
    pub function: String,
    /// Samples.
    pub samples: u64,
    /// Percent of the samples in the kernel.
    pub kernel_pct: f64,
}

/// A part of the account that is not known.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Missing {
    /// `run`, `ready` or `off`; `run` also where its time is known and not what it was spent on.
    pub part: &'static str,
    /// Why.
    pub reason: String,
}

/// Where the time went.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BudgetView {
    /// The time of the account: of a load, whole intervals of the time that it measured, else the time recorded. Null where states
    /// were not recorded.
    pub window_ns: Option<u64>,
    /// What that is: `measured` (by the load), `recorded`, or `selected` (`--from`, `--to`).
    pub window_of: &'static str,
    /// Tasks in the account.
    pub tasks: usize,
    /// Sum of their lives within the time recorded: of the three states. Null where one is not known.
    pub lives_ns: Option<u64>,
    /// On a CPU.
    pub run_ns: Option<u64>,
    /// Without a CPU although they could run.
    pub ready_ns: Option<u64>,
    /// Off the CPU until woken.
    pub off_ns: Option<u64>,
    /// Wall account: no task was active.
    pub idle_ns: Option<u64>,
    /// Where the wall account comes from: `switches` (the stream `sched`) or `sums`; null where there is none.
    pub wall_from: Option<&'static str>,
    /// `idle_ns` as sums of a second tell it; null where it is no other.
    pub idle_by_sums_ns: Option<u64>,
    /// What the kernel itself counted as time on a CPU (sum_exec_runtime).
    pub kernel_run_ns: Option<u64>,
    /// What the kernel itself counted as waiting for a CPU (schedstat).
    pub kernel_ready_ns: Option<u64>,
    /// Operations in the time of the account; null where they are not known.
    pub operations: Option<f64>,
    /// Samples of the profile.
    pub samples: u64,
    /// Stacks of waits.
    pub wait_stacks: u64,
    /// Samples in the kernel that no anchor tells, in percent of those in the kernel.
    pub kernel_unmatched_pct: Option<f64>,
    /// Components, longest first.
    pub components: Vec<OneComponent>,
    /// Rows before the list was cut.
    pub components_total: usize,
    /// The kernel by the way in, longest first.
    pub kernel: Vec<KernelPart>,
    /// Rows before the list was cut.
    pub kernel_total: usize,
    /// What page faults took; null where the time on CPUs, the samples or the count are not known, and where they were not recorded for a part
    /// of the time.
    pub faults: Option<FaultCost>,
    /// What no anchor tells, longest first.
    pub unmatched: Vec<Unmatched>,
    /// Rows before the list was cut.
    pub unmatched_total: usize,
    /// What is not known.
    pub missing: Vec<Missing>,
}

/// Time of a component.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    ns: f64,
    wall_ns: f64,
    /// The same as sums tell it.
    summed_ns: f64,
    samples: Option<u64>,
    variance: f64,
}

type Parts = BTreeMap<&'static str, Part>;

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<BudgetView>> {
    let sort = selection.sort_by(&["time", "wall", "component"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let whole = recording;
    let (recording, states) = &measured_states(whole, selection, &tasks, &mut notes)?;
    if let Some([from_ns, to_ns]) = states.window().filter(|_| states.is_part() && !whole.span().is_part()) {
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        notes.push(format!("{seconds:.1} s of the time that the load measured; all that was recorded: --from 0"));
    }
    let run = RunShares::load(recording, selection, &tasks, &mut notes)?;
    let off = OffShares::load(recording, selection, &tasks, &mut notes)?;
    let exact = Exact::load(whole, &tasks, states, &Untold::of(selection), &mut notes)?;
    let loss = read::lost(recording, Stream::Waits, &mut notes)?;
    read::lost(recording, Stream::Cpu, &mut notes)?;
    if states.rows > 0 && states.selected == 0 {
        notes.push(format!("none of the {} rows of waits is selected", states.rows));
    }
    let has_states = states.selected > 0;
    let faults = faults_of(whole, &tasks, states);
    let account = Account { states, run: &run, off: &off, exact: exact.as_ref(), faults, has_states, sort };
    let missing = missing(recording, &account, loss);
    Ok(Answer::new("budget", whole, notes, account.view(whole, selection, missing)))
}

/// The recording within the time that counts, and the states in it: of a load the time that it measured, in intervals of the sums.
fn measured_states(
    whole: &Recording,
    selection: &Selection,
    tasks: &Tasks,
    notes: &mut Vec<String>,
) -> Result<(Recording, States)> {
    let part = measured_part(whole).map(|part| intervals_within(whole, part.span())).transpose()?.flatten();
    let recording = part.map_or_else(|| whole.clone(), |span| whole.clone().within(span));
    let states = States::load(&recording, selection, tasks, notes)?;
    Ok((recording, states))
}

/// How much of the time that the load measured the account holds; none if it is of something else.
fn share_of_measured(whole: &Recording, states: &States) -> Option<f64> {
    let (begin_ns, end_ns) = whole.manifest().measured.as_ref()?.span_ns()?;
    let [from_ns, to_ns] =
        states.window().filter(|_| states.is_part() && !whole.span().is_part() && end_ns > begin_ns)?;
    Some((to_ns.min(end_ns) - from_ns.max(begin_ns)) as f64 / (end_ns - begin_ns) as f64)
}

/// Operations in the time of the account: as many of those that were measured as it holds of that time.
fn operations_within(whole: &Recording, states: &States) -> Option<f64> {
    let operations = whole.manifest().measured.as_ref()?.operations_done()?;
    let is_known = !whole.span().is_part();
    is_known.then(|| operations * share_of_measured(whole, states).unwrap_or(1.0))
}

/// What the account is made of.
struct Account<'a> {
    states: &'a States,
    run: &'a RunShares,
    off: &'a OffShares,
    exact: Option<&'a Exact>,
    /// Page faults of the tasks.
    faults: Option<u64>,
    has_states: bool,
    sort: &'static str,
}

/// The shares of what a state was spent on; those of one state sum to 1.
type Split = Vec<(&'static str, f64, Option<u64>)>;

fn is_run(doing: &Doing) -> bool {
    matches!(doing, Doing::Run(_))
}

impl Account<'_> {
    fn stolen(&self) -> f64 {
        let run_ns = self.states.ns_of(is_run) as f64;
        let counted_ns = self.states.kernel_run_ns as f64;
        if run_ns == 0.0 || counted_ns == 0.0 { 0.0 } else { (run_ns - counted_ns).max(0.0) / run_ns }
    }

    fn split(&self, doing: &Doing) -> Split {
        match doing {
            Doing::Run(comm) => {
                let (stolen, of) = (self.stolen(), self.run.of(comm.as_deref()));
                let mut split: Split = vec![(budget::STOLEN, stolen, None)];
                if of.all.samples == 0 {
                    split.push((budget::UNSAMPLED, 1.0 - stolen, None));
                    return split;
                }
                let all = of.all.weight.max(1) as f64;
                split.extend(of.components.iter().map(|(component, part)| {
                    (*component, (1.0 - stolen) * part.weight as f64 / all, Some(part.samples))
                }));
                split
            }
            Doing::Ready(holder) => vec![(ready_by(*holder), 1.0, None)],
            Doing::Off(kind) => {
                let parts = self.off.of(kind);
                let all: f64 = parts.iter().map(|(_, part)| part.weight as f64).sum();
                parts
                    .iter()
                    .map(|(name, part)| (*name, part.weight as f64 / all.max(1.0), Some(part.samples)))
                    .collect()
            }
        }
    }

    /// The wall account by sums, before it is split into components, and the time in which no task was active.
    fn summed(&self) -> (BTreeMap<&Doing, f64>, f64) {
        let (mut wall, mut idle_ns) = (BTreeMap::new(), 0.0);
        for interval in &self.states.intervals {
            let active = || interval.spent.iter().filter(|(doing, _)| doing.is_active());
            let active_ns: u64 = active().map(|(_, ns)| *ns).sum();
            if active_ns == 0 {
                idle_ns += interval.ns() as f64;
                continue;
            }
            idle_ns += interval.ns().min(interval.idle_ns) as f64;
            let busy_ns = interval.ns().saturating_sub(interval.idle_ns) as f64;
            for (doing, ns) in active() {
                *wall.entry(doing).or_default() += busy_ns * *ns as f64 / active_ns as f64;
            }
        }
        (wall, idle_ns)
    }

    /// The same by every switch, as far as it tells what a task did. Who had the CPU of a task that was ready is known by sums
    /// alone, and so is what a wait without a stack was for: their time is split as the sums are.
    fn switched<'b>(exact: &Exact, summed: &BTreeMap<&'b Doing, f64>) -> BTreeMap<&'b Doing, f64> {
        let of = |is_of: fn(&Doing) -> bool| -> f64 {
            summed.iter().filter(|(doing, _)| is_of(doing)).map(|(_, ns)| ns).sum()
        };
        let ready_ns = of(|doing| matches!(doing, Doing::Ready(_)));
        let off_ns = of(|doing| matches!(doing, Doing::Off(_)));
        let exactly = |(doing, ns): (&&'b Doing, &f64)| {
            let ns = match doing {
                Doing::Run(comm) => exact.run_ns.get(comm).copied().unwrap_or(0.0),
                Doing::Ready(_) => ns * exact.ready_ns / ready_ns,
                Doing::Off(_) => ns * exact.off_untold_ns / off_ns,
            };
            (*doing, ns)
        };
        summed.iter().filter(|(_, ns)| **ns > 0.0).map(exactly).collect()
    }

    /// Both accounts, and the time in which no task was active, by sums.
    fn parts(&self) -> (Parts, f64) {
        let mut parts = Parts::new();
        let (summed, idle_ns) = self.summed();
        let switched = self.exact.map(|exact| Self::switched(exact, &summed));
        let wall = switched.as_ref().unwrap_or(&summed);
        for (doing, spent) in &self.states.spent {
            let split = self.split(doing);
            let [wall_ns, summed_ns] = [wall, &summed].map(|of| of.get(doing).copied().unwrap_or(0.0));
            let sampled = || split.iter().filter_map(|(_, share, samples)| Some((share, (*samples)?)));
            let samples: u64 = sampled().map(|(_, samples)| samples).sum();
            let sampled_ns = spent.ns as f64 * sampled().map(|(share, _)| share).sum::<f64>();
            for (component, share, of) in &split {
                let part = parts.entry(component).or_default();
                let ns = spent.ns as f64 * share;
                part.ns += ns;
                part.wall_ns += wall_ns * share;
                part.summed_ns += summed_ns * share;
                if let Some(of) = of {
                    part.samples = Some(part.samples.unwrap_or(0) + of);
                    // A share of n independent samples: variance p (1 - p) / n.
                    part.variance += (ns * (sampled_ns - ns)).max(0.0) / samples.max(1) as f64;
                }
            }
        }
        for (component, ns) in self.exact.iter().flat_map(|exact| &exact.off_ns) {
            parts.entry(component).or_default().wall_ns += ns;
        }
        (parts, idle_ns)
    }

    /// Without states: the shares of samples, of a time that is not known.
    fn of_samples(&self) -> Parts {
        let mut weights: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        for (component, part) in self.run.each().flat_map(|of| &of.components) {
            let (samples, weight) = weights.entry(component).or_default();
            *samples += part.samples;
            *weight += part.weight;
        }
        let part = |(samples, weight): (u64, u64)| {
            let (ns, all) = (weight as f64, self.run.all.weight as f64);
            let variance = ns * (all - ns) / self.run.all.samples.max(1) as f64;
            Part { ns, samples: Some(samples), variance, ..Part::default() }
        };
        weights.into_iter().map(|(component, weight)| (component, part(weight))).collect()
    }

    fn view(&self, recording: &Recording, selection: &Selection, missing: Vec<Missing>) -> BudgetView {
        let limit = selection.limit(true);
        let operations = operations_within(recording, self.states);
        let known = |ns: u64| self.has_states.then_some(ns);
        let run_ns = self.states.ns_of(is_run);
        let ready_ns = self.states.ns_of(|doing| matches!(doing, Doing::Ready(_)));
        let off_ns = self.states.ns_of(|doing| matches!(doing, Doing::Off(_)));
        let window_ns = self.states.intervals.iter().map(states::Interval::ns).sum::<u64>();
        let (parts, summed_idle_ns) = if self.has_states { self.parts() } else { (self.of_samples(), 0.0) };
        let idle_ns = self.exact.map_or(summed_idle_ns, |exact| exact.idle_ns);
        let lives_ns = run_ns + ready_ns + off_ns;
        let scale = Scale {
            whole: if self.has_states { lives_ns as f64 } else { self.run.all.weight as f64 },
            window: known(window_ns).filter(|_| !selection.by_task()).map(|ns| ns as f64),
            has_sums_beside: self.exact.is_some(),
            operations: operations.filter(|_| !selection.by_task()),
        };
        let (components, components_total) = cut(components(&parts, scale, self.sort), limit);
        let kernel = self.kernel();
        let faults = self.fault_cost(&kernel);
        let (kernel, kernel_total) = cut(kernel, limit);
        let (unmatched, unmatched_total) = cut(self.unmatched(), limit);
        BudgetView {
            window_ns: known(window_ns),
            window_of: match (recording.span().is_part(), self.states.is_part()) {
                (true, _) => "selected",
                (false, true) => "measured",
                (false, false) => "recorded",
            },
            tasks: self.states.tasks.len(),
            lives_ns: known(lives_ns),
            run_ns: known(run_ns),
            ready_ns: known(ready_ns),
            off_ns: known(off_ns),
            idle_ns: scale.window.map(|_| idle_ns as u64),
            wall_from: scale.window.map(|_| if self.exact.is_some() { "switches" } else { "sums" }),
            idle_by_sums_ns: scale.window.filter(|_| scale.has_sums_beside).map(|_| summed_idle_ns as u64),
            kernel_run_ns: known(self.states.kernel_run_ns),
            kernel_ready_ns: known(self.states.kernel_ready_ns),
            operations,
            samples: self.run.all.samples,
            wait_stacks: self.off.all.samples,
            kernel_unmatched_pct: self.unmatched_pct(),
            components,
            components_total,
            kernel,
            kernel_total,
            faults,
            unmatched,
            unmatched_total,
            missing,
        }
    }

    fn unmatched_pct(&self) -> Option<f64> {
        let all = self.run.kernel.weight;
        let unmatched: u64 = self.run.unmatched.values().map(|part| part.weight).sum();
        (all > 0).then(|| 100.0 * unmatched as f64 / all as f64)
    }

    /// The kernel by the way in: time on CPUs of the tasks of each name times the shares of its samples, or without states the
    /// samples' weight.
    fn kernel(&self) -> Vec<KernelPart> {
        let mut parts: BTreeMap<&(String, &'static str), (u64, f64)> = BTreeMap::new();
        for (entry, part) in self.run.each().flat_map(|of| &of.entries) {
            parts.entry(entry).or_default().0 += part.samples;
            if !self.has_states {
                parts.entry(entry).or_default().1 += part.weight as f64;
            }
        }
        let unstolen = 1.0 - self.stolen();
        for (doing, spent) in &self.states.spent {
            let Doing::Run(comm) = doing else { continue };
            let of = self.run.of(comm.as_deref());
            for (entry, part) in &of.entries {
                let share = part.weight as f64 / of.all.weight.max(1) as f64;
                parts.entry(entry).or_default().1 += spent.ns as f64 * unstolen * share;
            }
        }
        let run_ns =
            if self.has_states { self.states.ns_of(is_run) as f64 * unstolen } else { self.run.all.weight as f64 };
        let one = |((entry, mechanism), (samples, ns)): (&(String, &'static str), (u64, f64))| KernelPart {
            entry: entry.clone(),
            mechanism,
            samples,
            ns: self.has_states.then_some(ns as u64),
            run_pct: 100.0 * ns / run_ns.max(1.0),
        };
        let mut rows: Vec<KernelPart> = parts.into_iter().map(one).collect();
        rows.sort_by(|a, b| b.run_pct.total_cmp(&a.run_pct));
        rows
    }

    fn fault_cost(&self, kernel: &[KernelPart]) -> Option<FaultCost> {
        let faults = self.faults.filter(|faults| *faults > 0 && self.has_states && self.run.all.samples > 0)?;
        let under = || kernel.iter().filter(|part| part.entry == PAGE_FAULT);
        let ns: u64 = under().filter_map(|part| part.ns).sum();
        let (run_ns, samples) = (self.states.ns_of(is_run) as f64, self.run.all.samples as f64);
        let error_ns = (ns as f64 * (run_ns - ns as f64).max(0.0) / samples).sqrt() as u64;
        Some(FaultCost { faults, ns, ns_per_fault: ns as f64 / faults as f64, error_ns })
    }

    fn unmatched(&self) -> Vec<Unmatched> {
        let all = self.run.kernel.weight.max(1) as f64;
        let one = |(function, part): (&String, &shares::Weight)| Unmatched {
            function: function.clone(),
            samples: part.samples,
            kernel_pct: 100.0 * part.weight as f64 / all,
        };
        let mut rows: Vec<Unmatched> = self.run.unmatched.iter().map(one).collect();
        rows.sort_by(|a, b| b.kernel_pct.total_cmp(&a.kernel_pct));
        rows
    }
}

/// What times are divided by.
#[derive(Clone, Copy)]
struct Scale {
    whole: f64,
    window: Option<f64>,
    /// The wall account is by switches, and there is another by sums.
    has_sums_beside: bool,
    operations: Option<f64>,
}

fn components(parts: &Parts, scale: Scale, sort: &str) -> Vec<OneComponent> {
    let of = |ns: f64, whole: f64| if whole == 0.0 { 0.0 } else { 100.0 * ns / whole };
    let row = |(component, part): (&Component, &Part)| {
        let wall_ns = scale.window.filter(|_| component.is_active).map(|_| part.wall_ns);
        OneComponent {
            component: component.name,
            state: component.state.word(),
            active: component.is_active,
            about: component.about,
            ns: part.ns.round() as u64,
            pct: of(part.ns, scale.whole),
            wall_ns: wall_ns.map(|ns| ns.round() as u64),
            wall_pct: wall_ns.zip(scale.window).map(|(ns, window)| of(ns, window)),
            wall_by_sums_ns: wall_ns.filter(|_| scale.has_sums_beside).map(|_| part.summed_ns.round() as u64),
            wall_ns_per_operation: wall_ns.zip(scale.operations).map(|(ns, operations)| ns / operations),
            samples: part.samples,
            error_ns: part.variance.sqrt() as u64,
        }
    };
    let known = parts.iter().filter_map(|(name, part)| Some((component_of(name)?, part)));
    let mut rows: Vec<OneComponent> = known.map(row).filter(|row| row.ns > 0).collect();
    let key = |row: &OneComponent| match sort {
        "wall" => row.wall_ns.unwrap_or(0),
        "component" => 0,
        _ => row.ns,
    };
    rows.sort_by(|a, b| key(b).cmp(&key(a)).then(a.component.cmp(b.component)));
    rows
}

/// Page faults of the tasks in the account: as the kernel counted them, and in a part of the time as they were recorded. None if
/// that is not known.
fn faults_of(whole: &Recording, tasks: &Tasks, states: &States) -> Option<u64> {
    if !states.is_part() {
        let of = |task_id: &u32| {
            let used = tasks.get(*task_id)?.used()?;
            Some(used.minor_faults? + used.major_faults?)
        };
        return states.tasks.keys().map(of).sum();
    }
    let share = share_of_measured(whole, states)?;
    let mut faults = 0;
    let has_rollup = each_kind(whole, |kind, count| faults += if kind.measured { count } else { 0 });
    (has_rollup && faults > 0).then_some((faults as f64 * share) as u64)
}

/// What is not known, and why.
fn missing(recording: &Recording, account: &Account<'_>, [seen, lost]: [u64; 2]) -> Vec<Missing> {
    let mut missing = Vec::new();
    if account.has_states && lost > 0 {
        let reason = format!("{lost} of {seen} events of waits were lost: the times are too short by those");
        missing.extend([State::Ready, State::Off].map(|state| Missing { part: state.word(), reason: reason.clone() }));
    }
    if !account.has_states {
        let reason = why_not(recording, Stream::Waits, "waits");
        missing.extend(
            [State::Run, State::Ready, State::Off].map(|state| Missing { part: state.word(), reason: reason.clone() }),
        );
    }
    if account.run.all.samples == 0 {
        missing.push(Missing { part: State::Run.word(), reason: why_not(recording, Stream::Cpu, "samples") });
    } else if account.run.lacks_names {
        let reason = "the kernel's functions have no names; they are read from /proc/kallsyms, as root".to_owned();
        missing.push(Missing { part: State::Run.word(), reason });
    }
    missing
}

/// Why a stream has no rows of the selected tasks. `what` is what rows are called, in the plural.
fn why_not(recording: &Recording, stream: Stream, what: &str) -> String {
    match absence::absence(recording, stream, what, &mut Vec::new()) {
        Ok(absence @ (Absence::NotRecorded { .. } | Absence::NotPermitted { .. })) => {
            absence::sentence(recording, &absence)
        }
        _ => match read::loss_of(recording, stream, &mut Vec::new()) {
            Ok([seen, lost]) if lost > 0 => format!("{stream} was recorded, and lost {lost} of {seen} events"),
            _ => format!("{stream} was recorded and has no rows of the selected tasks"),
        },
    }
}
