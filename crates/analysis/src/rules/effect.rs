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
//! Everything else that changed in the same resource is in it, so it is bounded: by a profile where there is one, by
//! the most that this number of events can cost (`vocab::causes`), by the time the device took. The part beyond that
//! bound is credited to no cause. Causes that cost the same resource share it by those bounds ([`share_out`]).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::About;
use super::chain::Chain;
use super::evidence::{RunEvidence, SideEvidence};
use super::finding::Effect;
use super::quantity::OWN_CODE;
use super::scene::{MATERIAL_SHARE, Scene};
use crate::stats::{NORMAL, critical_value, mean, quantile_of_sorted};
use pagelab_vocab::causes::cause;
use pagelab_vocab::units::duration_of_three;

const RESAMPLES: usize = 2000;
const SEED: u64 = 1;
/// Resamples in which the slow side is not slower say that the change itself is uncertain; with more than this share
/// of them no interval is given.
const MAX_USELESS: f64 = 0.05;

/// A value from the evidence of one run; null where that lacks it.
pub(crate) type OfRun<'a, T> = Box<dyn Fn(&RunEvidence) -> Option<T> + 'a>;

/// The cost of a cause in a run.
pub(crate) struct Cost<'a> {
    /// How it is computed, in words.
    pub method: &'a str,
    /// The resource that causes share: `kernel` or `waiting`.
    pub resource: &'a str,
    /// Cost in a run, ns; it may include other costs.
    pub of_run: OfRun<'a, f64>,
    /// Least and most that the cause's events in a run can cost, ns.
    pub bounds: Option<OfRun<'a, [f64; 2]>>,
    /// Samples it was computed from, on the slow side; null where it was not sampled.
    pub samples: Option<f64>,
    /// The time of the account's components in which the cause shows, where a cost that was not sampled can be held to it.
    pub account: Option<Sampled<'a>>,
}

/// Time that was sampled.
pub(crate) struct Sampled<'a> {
    /// Time in a run, ns.
    of_run: OfRun<'a, f64>,
    /// Samples that it was computed from, on the slow side.
    samples: f64,
}

/// Cost and time of each run, per unit of work.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    cost: f64,
    /// The time in which the loss is: see [`Scene::lossy_ns`].
    time: f64,
    /// All time.
    whole: f64,
    least: f64,
    most: f64,
    /// [`Cost::account`]; 0 where there is none.
    account: f64,
}

/// Means over the runs of a side; 0 of a side without runs.
#[derive(Debug, Clone, Copy)]
struct Means {
    cost: f64,
    time: f64,
    most: f64,
    account: f64,
}

impl Means {
    /// Thousands of resamples ask for it: without the double precision of `stats::mean`, which some ten runs do not need.
    fn of<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Self {
        let (mut runs, mut sums) = (0_u32, Self { cost: 0.0, time: 0.0, most: 0.0, account: 0.0 });
        for pair in pairs {
            runs += 1;
            sums.cost += pair.cost;
            sums.time += pair.time;
            sums.most += pair.most;
            sums.account += pair.account;
        }
        let mean = |sum: f64| {
            let mean = sum / f64::from(runs.max(1));
            if mean.is_finite() { mean } else { f64::INFINITY }
        };
        Self { cost: mean(sums.cost), time: mean(sums.time), most: mean(sums.most), account: mean(sums.account) }
    }
}

/// Cost and time by which the sides differ. The cost is no more than the slow side's events can have caused.
#[derive(Debug, Clone, Copy)]
struct Difference {
    cost: f64,
    time: f64,
    most: f64,
    account: f64,
}

impl Difference {
    fn of(slow: Means, fast: Means) -> Self {
        Self {
            cost: slow.cost - fast.cost,
            time: slow.time - fast.time,
            most: slow.most,
            account: slow.account - fast.account,
        }
    }

    fn attributed(&self) -> f64 {
        self.cost.min(self.most)
    }
}

/// The effect of a cost, by difference of the sides or, for a lone recording, as a share of all its time.
pub(crate) fn effect(scene: &Scene<'_>, cost: &Cost<'_>) -> Option<Effect> {
    if !scene.evidence.per_operation() {
        return None;
    }
    let pairs = |side: &SideEvidence| -> Vec<Pair> {
        let pair = |run: &RunEvidence| {
            let per_work = |amount: f64| scene.evidence.per_work(run, amount);
            // What cannot be bounded bounds nothing: a mean with it is infinite.
            let [least, most] = cost.bounds.as_ref().and_then(|bounds| bounds(run)).unwrap_or([f64::INFINITY; 2]);
            Some(Pair {
                cost: per_work((cost.of_run)(run)?)?,
                time: per_work(scene.lossy_ns(run)?)?,
                whole: per_work(run.window_ns)?,
                least: per_work(least)?,
                most: per_work(most)?,
                account: match &cost.account {
                    Some(account) => per_work((account.of_run)(run)?)?,
                    None => 0.0,
                },
            })
        };
        side.runs.iter().filter_map(pair).collect()
    };
    let slow = pairs(scene.slow);
    let fast = scene.fast.map(pairs).unwrap_or_default();
    if slow.is_empty() || (scene.fast.is_some() && fast.is_empty()) {
        return None;
    }
    let found = Difference::of(Means::of(slow.iter()), Means::of(fast.iter()));
    if found.time <= 0.0 || !found.cost.is_finite() {
        return None;
    }
    Some(Effect {
        share: found.attributed() / found.time,
        share_ci95: resample(&slow, &fast),
        attributed_ns: found.attributed(),
        change_ns: found.time,
        per: scene.evidence.per().to_owned(),
        of: match (scene.fast, scene.rise()) {
            (None, _) => "time",
            (Some(_), None) => "change",
            (Some(_), Some(_)) => "components",
        }
        .to_owned(),
        method: cost.method.to_owned(),
        resource: cost.resource.to_owned(),
        slow_ns: mean(&slow.iter().map(|pair| pair.whole).collect::<Vec<_>>()).ok(),
        resource_ns: Some(found.cost),
        least_share: least_share(cost, &slow, &found),
        most_ns: Some(found.most).filter(|most| most.is_finite()),
    })
}

/// The share that is sure whatever an event cost, or whichever way the samples fell. Where the account tells the time of the
/// components in which the cause shows, no event's cost need be guessed.
fn least_share(cost: &Cost<'_>, slow: &[Pair], found: &Difference) -> Option<f64> {
    let sampled = |time: f64, samples: f64| Some(time / found.time * (1.0 - sampling_error(samples)?));
    if let Some(samples) = cost.samples {
        return sampled(found.attributed(), samples);
    }
    let by_events = mean(&slow.iter().map(|pair| pair.least / found.time).collect::<Vec<_>>()).ok()?;
    let by_account =
        cost.account.as_ref().and_then(|account| sampled(found.account.min(found.attributed()), account.samples));
    Some(by_account.map_or(by_events, |by_account| by_events.max(by_account)))
}

/// How far a share of c samples may be off: they are good to sqrt(c).
fn sampling_error(samples: f64) -> Option<f64> {
    Some(critical_value(f64::INFINITY, 0.95).ok()? / samples.max(1.0).sqrt())
}

/// The 95 % interval, over resamples of both sides, of the share of the lost time that the cost is.
fn resample(slow: &[Pair], fast: &[Pair]) -> Option<[f64; 2]> {
    if slow.len() < 3 || (fast.len() < 3 && !fast.is_empty()) {
        return None;
    }
    let mut generator = ChaCha8Rng::seed_from_u64(SEED);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let slow = Means::of(drawn(slow, &mut generator));
        let difference = Difference::of(slow, Means::of(drawn(fast, &mut generator)));
        if difference.time > 0.0 {
            ratios.push(difference.attributed() / difference.time);
        }
    }
    if (ratios.len() as f64) < RESAMPLES as f64 * (1.0 - MAX_USELESS) {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let fewest = if fast.is_empty() { slow.len() } else { slow.len().min(fast.len()) };
    let tail = expanded_tail(fewest)?;
    Some([quantile_of_sorted(&ratios, tail).ok()?, quantile_of_sorted(&ratios, 1.0 - tail).ok()?])
}

/// The tail of a percentile interval of 95 % from `n` runs. Resamples of few runs vary less than the runs' mean does, by
/// sqrt((n - 1) / n), and their quantiles are normal where t would be due: at n = 4 the plain interval holds the truth in
/// 85 of 100 cases. T. Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69 (2015),
/// section 4.3.
fn expanded_tail(n: usize) -> Option<f64> {
    let n = n as f64;
    let spreads = (n / (n - 1.0)).sqrt() * critical_value(n - 1.0, 0.95).ok()?;
    Some(NORMAL.two_sided_p(spreads) / 2.0)
}

/// As many of the pairs as there are, by chance.
fn drawn<'a>(pairs: &'a [Pair], generator: &mut ChaCha8Rng) -> impl Iterator<Item = &'a Pair> {
    let n = pairs.len() as u64;
    // Multiply and shift: bias below n / 2^32.
    let index = move |random: u32| ((u64::from(random) * n) >> 32) as usize;
    (0..n).filter_map(move |_| pairs.get(index(generator.next_u32())))
}

/// No page fault is served in less: entry, exit and the walk alone take this long on the fastest machines.
const LEAST_FAULT_NS: f64 = 50.0;

/// Samples of a run from which a profile is believed. Few of them need be in the kernel: a run that is hardly ever found
/// there spends little time in faults.
const LEAST_SAMPLES: f64 = 50.0;

/// What the faults of one sort cost, `events` of them in the window of a run. With a profile it is the kernel time
/// sampled under the entry of faults, on both sides: other faults are in both, and what takes the place of these on the
/// other side is taken off; without one it is all time in the kernel, and no more
/// than that number of faults can cost: it also holds everything else that the kernel did.
pub(crate) fn faults<'a>(
    scene: &'a Scene<'_>,
    about: &About,
    events: impl Fn(&RunEvidence) -> Option<f64> + Clone + 'a,
) -> Cost<'a> {
    let sides = [Some(scene.slow), scene.fast];
    let told = |run: &RunEvidence| run.kernel_samples.is_some_and(|samples| samples.all >= LEAST_SAMPLES);
    let profiled = sides.into_iter().flatten().all(|side| side.runs.iter().all(told));
    let kernel = kernel_time(scene);
    if profiled {
        let of_run = move |run: &RunEvidence| {
            let samples = run.kernel_samples?;
            Some(kernel(run)? * samples.in_faults / samples.kernel.max(1.0))
        };
        let samples = scene.slow.values(|run| Some(run.kernel_samples?.in_faults)).iter().sum();
        let method = "kernel time sampled under the entry of faults";
        return Cost {
            method,
            resource: KERNEL,
            of_run: Box::new(of_run),
            bounds: None,
            samples: Some(samples),
            account: None,
        };
    }
    let event = cause(about.cause).map(|def| def.event);
    let (busy, page_bytes) = (busy_cpus(scene), scene.page_bytes());
    let bounds = move |run: &RunEvidence| {
        let (events, event) = (events(run)? / busy, event?);
        Some([events * event.least_ns? as f64, events * event.most(page_bytes)?])
    };
    Cost {
        method: "time in the kernel, where the extra faults are served",
        resource: KERNEL,
        of_run: Box::new(kernel),
        bounds: Some(Box::new(bounds)),
        samples: None,
        account: by_account(scene, about),
    }
}

/// The time of the components in which the cause shows, where every run tells it: also a profile of few samples a run says what part
/// of the time on CPUs that is.
fn by_account<'a>(scene: &Scene<'a>, about: &About) -> Option<Sampled<'a>> {
    let of_run = account_time(scene, about)?;
    let samples = scene.slow.values(|run| Some(run.kernel_samples?.in_faults)).iter().sum();
    Some(Sampled { of_run, samples })
}

/// The time of the components in which the cause shows, where every run tells it.
fn account_time<'a>(scene: &Scene<'a>, about: &About) -> Option<OfRun<'a, f64>> {
    let components = cause(about.cause)?.components;
    let of_run = move |run: &RunEvidence| run.account.as_ref()?.time_ns(components);
    let sides = [Some(scene.slow), scene.fast];
    let is_told = sides.into_iter().flatten().all(|side| side.runs.iter().all(|run| of_run(run).is_some()));
    is_told.then(|| Box::new(of_run) as OfRun<'a, f64>)
}

/// [`Cost::method`] of time that the account tells.
pub(crate) const COMPONENTS: &str = "the components of the account in which it shows";

/// [`Effect::resource`] of causes that cost time in the kernel.
const KERNEL: &str = "kernel";
/// [`Effect::resource`] of causes whose time is that of components of the account. What they may claim together is settled by
/// component (`compare::claims`), not here.
pub(crate) const ACCOUNT: &str = "account";
/// [`Effect::resource`] of causes that cost waiting.
const WAITING: &str = "waiting";

/// The cost of the reads of `device`: the time of the components in which the cause shows; where that is not known, the time off the
/// CPU, and no more than the device took for them. Time off the CPU also holds what a program waits for in a pipe.
pub(crate) fn reads<'a>(scene: &Scene<'a>, about: &About, device: &'a str) -> Cost<'a> {
    if let Some(of_run) = account_time(scene, about) {
        return Cost { method: COMPONENTS, resource: ACCOUNT, of_run, bounds: None, samples: None, account: None };
    }
    let of_run = move |run: &RunEvidence| {
        let waited = waiting_time(run)?;
        Some(match run.events("disk.read_ns", Some(device)) {
            Some(read) => waited.min(read),
            None => waited,
        })
    };
    Cost {
        method: "time off the CPU, waiting for reads",
        resource: WAITING,
        of_run: Box::new(of_run),
        bounds: None,
        samples: None,
        account: None,
    }
}

/// How many CPUs worked at once on the slow side, at least 1.
fn busy_cpus(scene: &Scene<'_>) -> f64 {
    let busy = |run: &RunEvidence| run.concurrency().or_else(|| Some(run.cpu_ns()? / run.window_ns));
    scene.slow.median(busy).unwrap_or(1.0).max(1.0)
}

/// Time in the kernel, spread over the CPUs that worked at once: what faults cost. `None` for a run whose faults alone
/// would take longer than the time it reports: then it is the time of another process than the one that faulted.
fn kernel_time(scene: &Scene<'_>) -> impl Fn(&RunEvidence) -> Option<f64> + use<> {
    let busy = busy_cpus(scene);
    move |run| {
        let faults = run.profile.as_ref().map_or(0, |profile| profile.window_faults);
        let kernel = run.kernel_ns().filter(|ns| *ns >= LEAST_FAULT_NS * faults as f64)?;
        Some(kernel / busy)
    }
}

/// Time in which the program was not on a CPU: the cost of waiting. For a load, its workers' measured time less their
/// time on CPUs, divided by how many were at work at once. For a command, the time it took less its time on CPUs, given
/// only where no more than one CPU was busy at a time: the waits of one thread hide behind the work of another
/// otherwise.
pub(crate) fn waiting_time(run: &RunEvidence) -> Option<f64> {
    let cpu = run.cpu_ns()?;
    if let (Some(workers), Some(at_once)) = (run.workers, run.concurrency()) {
        return Some((workers.runtime_ns - cpu) / at_once);
    }
    (run.whole_life && cpu <= run.window_ns * 1.1).then_some(run.window_ns - cpu)
}

/// Least share of the lost time: a cause that cannot explain that much (upper end of its interval) is refuted, and one
/// that may explain less (lower end) is no mechanism.
pub(crate) const MATERIAL_TIME: f64 = 0.05;

/// Share of a resource's rise that may be more than the cause's events can cost before something else is said to have
/// risen too.
const OTHER_WORK: f64 = 0.10;

/// Adds the effect to a chain: a cause that explains next to nothing of the lost time is refuted. One is less certain
/// if it may explain next to nothing, if its faults lie outside the measured time, or if other work rose as well.
/// Returns the effect, unless it is not the cause's.
pub(crate) fn material_link(
    scene: &Scene<'_>,
    effect: Option<Effect>,
    window_share: Option<f64>,
    chain: &mut Chain,
) -> Option<Effect> {
    if let Some(share) = window_share.filter(|share| *share < MATERIAL_SHARE) {
        chain.doubt(format!(
            "only {:.1} % of the faults in the measured time are of this kind: what the pages cost later (TLB misses) was not measured",
            share * 100.0
        ));
        return None;
    }
    let Some(effect) = effect else {
        chain.doubt("the time that it costs (needs time in the kernel and operations of every run) is not known");
        return None;
    };
    let most = effect.share_ci95.map_or(effect.share, |[_, high]| high);
    let what = match scene.fast {
        Some(_) => "the lost time",
        None => "the time",
    };
    chain.refuter(
        Some(most < MATERIAL_TIME),
        format!("it explains at most {:.1} % of {what}: {}", most * 100.0, sentence(&effect)),
        format!("too small to matter: it explains {:.0} % of {what}", effect.share * 100.0),
        "",
    );
    if scene.fast.is_some() {
        match effect.share_ci95 {
            Some(_) => chain.doubts(too_little(&effect)),
            None => chain.doubt("how sure its share of the lost time is: at least 3 runs a side are needed"),
        }
        chain.doubts(other_work(&effect));
    }
    Some(effect)
}

/// The same for a cause that takes huge pages away. Its faults may cost next to nothing while the program's own code takes most of the
/// loss: small pages of memory that is used for long cost misses of the TLB from then on.
pub(crate) fn huge_pages_link(
    scene: &Scene<'_>,
    effect: Option<Effect>,
    window_share: Option<f64>,
    chain: &mut Chain,
) -> Option<Effect> {
    match effect {
        Some(effect) if effect.most_share() < MATERIAL_TIME && costs_later(scene, &effect) => {
            chain.doubt(format!(
                "what the pages cost later: {}, where misses of the TLB show, which were not counted",
                OWN_CODE.sentence(scene)
            ));
            None
        }
        effect => material_link(scene, effect, window_share, chain),
    }
}

fn costs_later(scene: &Scene<'_>, effect: &Effect) -> bool {
    let own = |side: &SideEvidence| OWN_CODE.quantity.median(scene, side);
    let rise = own(scene.slow).zip(scene.fast.and_then(own)).map_or(0.0, |(slow, fast)| slow - fast);
    OWN_CODE.is_seen(scene) == Some(true) && rise >= effect.change_ns / 2.0
}

/// Why the share of a cause may be next to nothing, if so.
pub(crate) fn too_little(effect: &Effect) -> Option<String> {
    let [low, _] = effect.share_ci95?;
    let low = effect.least_share.map_or(low, |least| low.min(least));
    (low < MATERIAL_TIME).then(|| {
        format!(
            "whether it matters: it may explain as little as {:.1} % of the lost time, at least {:.0} % are needed",
            low.max(0.0) * 100.0,
            MATERIAL_TIME * 100.0
        )
    })
}

/// The part of the resource's rise beyond the cost of the cause's events.
fn other_work(effect: &Effect) -> Option<String> {
    let (rise, most) = (effect.resource_ns?, effect.most_ns?);
    (rise - most > OTHER_WORK * rise).then(|| {
        format!(
            "what else the kernel did: its time rose by {} per {}, and the events of this cause can cost {} at most, so \
             other work rose as well",
            duration_of_three(rise),
            effect.per,
            duration_of_three(most)
        )
    })
}

/// Makes the effects of several causes add up. Those of one resource together get no more than it rose by, in proportion
/// to what their events can cost; all together no more than the loss.
pub(crate) fn share_out(effects: &mut [&mut Effect]) {
    for resource in [KERNEL, WAITING] {
        let mut of_it: Vec<&mut Effect> =
            effects.iter_mut().filter(|effect| effect.resource == resource).map(|effect| &mut **effect).collect();
        let rise = of_it.iter().filter_map(|effect| effect.resource_ns).fold(0.0, f64::max);
        let sum: f64 = of_it.iter().map(|effect| effect.attributed_ns).sum();
        if of_it.len() < 2 || sum <= rise {
            continue;
        }
        let weight = |effect: &Effect| effect.most_ns.unwrap_or(effect.attributed_ns).max(0.0);
        let weights: f64 = of_it.iter().map(|effect| weight(effect)).sum();
        for effect in &mut of_it {
            let part = rise * weight(effect) / weights / effect.attributed_ns;
            effect.scale(if part.is_finite() { part.min(1.0) } else { 0.0 });
        }
    }
    let estimated: Vec<&mut Effect> =
        effects.iter_mut().filter(|effect| effect.resource != ACCOUNT).map(|effect| &mut **effect).collect();
    let sum: f64 = estimated.iter().map(|effect| effect.share).sum();
    if sum > 1.0 {
        for effect in estimated {
            effect.scale(1.0 / sum);
        }
    }
}

/// The effect in a sentence.
pub(crate) fn sentence(effect: &Effect) -> String {
    let interval = effect.share_ci95.map_or_else(String::new, |[low, high]| {
        format!(" (95 % interval {:.0} to {:.0} %)", low * 100.0, high * 100.0)
    });
    format!(
        "{} of {} per {}, {:.0} %{interval}, is accounted for by {}",
        duration_of_three(effect.attributed_ns),
        match effect.of.as_str() {
            "change" => format!("the {} lost", duration_of_three(effect.change_ns)),
            "components" => format!("the {} by which components rose", duration_of_three(effect.change_ns)),
            _ => duration_of_three(effect.change_ns),
        },
        effect.per,
        effect.share * 100.0,
        effect.method
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_their_unit() {
        assert_eq!(duration_of_three(12.34), "12.3 ns");
        assert_eq!(duration_of_three(1234.0), "1.23 us");
        assert_eq!(duration_of_three(-250_000_000.0), "-250 ms");
        assert_eq!(duration_of_three(2.5e9), "2.50 s");
    }

    #[test]
    fn resampling_brackets_the_ratio_and_repeats() {
        let pair = |i: i32, cost: f64, time: f64| {
            let (cost, time) = (cost + f64::from(i), time + f64::from(i % 3));
            Pair { cost, time, whole: time, least: f64::INFINITY, most: f64::INFINITY, account: 0.0 }
        };
        let side = |cost: f64, time: f64| -> Vec<Pair> { (0..6).map(|i| pair(i, cost, time)).collect() };
        let (slow, fast) = (side(80.0, 200.0), side(20.0, 100.0));
        let [low, high] = resample(&slow, &fast).expect("six runs a side");
        assert!(low < 0.6 && 0.6 < high && high - low < 0.2, "{low} {high}");
        assert_eq!(resample(&slow, &fast), Some([low, high]));
        assert_eq!(resample(&slow[..2], &fast), None, "two runs have no interval");
        assert_eq!(resample(&fast, &fast), None, "no change has no share");
    }
}
