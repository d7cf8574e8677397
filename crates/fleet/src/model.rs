//! One metric under two labels, with hosts as random effect.
//!
//! Runs of a host share its hardware, its neighbours, its disk and its layout of memory. A test that takes all runs as
//! independent counts each host as often as it ran, and finds differences between groups of hosts that are alike. Here a
//! host is the unit, however often it ran. `tests/false_findings.rs` holds both to 1,000 simulated fleets without a cause.
//!
//! # Which design
//! It is told from the data, never from a p value:
//!
//! * *within*: hosts have runs under both labels, such as before and after an upgrade. Each such host is its own control.
//! * *between*: hosts have one label each, such as two instance types.
//!
//! Of a mixture the hosts with both labels are compared within themselves if there are at least [`LEAST_HOSTS_WITHIN`] of
//! them, because nothing that distinguishes hosts can then be mistaken for the label. With fewer, the hosts that have one
//! label are compared with one another if there are at least [`LEAST_HOSTS`] on either side; else those with both if they
//! are [`LEAST_HOSTS`]. The hosts that the chosen design does not use are left out and counted.
//!
//! # The tests
//! Each host's runs become one mean, on the scale of logarithms where all values are positive.
//!
//! * between: Welch's test of the hosts' means. Hosts with few runs have less certain means, so that the means of one side
//!   have unequal variances. Their sample variance over k is still an unbiased estimate of the variance of their plain mean, and
//!   unequal variances make the t test cautious, not liberal, at levels of up to 8 % (N. K. Bakirov and G. J. Székely,
//!   "Student's t-test for Gaussian scale mixtures", Zapiski POMI 328, 2005; R. Ibragimov and U. K. Müller, "t-statistic based
//!   correlation and heterogeneity robust inference", JBES 28, 2010, and for two groups "Inference with few heterogeneous
//!   clusters", Review of Economics and Statistics 98, 2016).
//!   Satterthwaite's degrees of freedom come from the spread of the few hosts of an uneven comparison, which is by chance too
//!   small at times: of 3 hosts against 37 alike, Welch's test finds 7.6 % at nominal 5 % and 2.0 % at 0.25 % (simulated,
//!   200,000 draws), and the smallest p of many metrics decides. Where one side has fewer than [`FEW_HOSTS`] hosts and the other
//!   at least twice as many, the degrees of freedom are therefore those of the smaller side, k - 1, as Ibragimov and Müller
//!   have them. That errs on the cautious side: the same comparison then finds 2.0 % at 5 %.
//! * within: Student's one-sample test of the hosts' differences, with the same argument.
//!
//! Both hold for unbalanced runs, hosts with one run, hosts that react unequally to the label, and sides of unequal spread. A mixed
//! model by restricted maximum likelihood gives the same statistic where both sides have as many hosts and all hosts as many
//! runs. Where the numbers of runs differ much it is more powerful, since it trusts hosts with many runs more; but it rests on
//! one variance of hosts for both sides and one of runs for all hosts, and with few hosts its level depends on them.
//!
//! The plain mean of hosts answers "what is the label to a host". It does not follow the hosts that happen to run most.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_analysis::stats::{
    LEAST_DETERMINISTIC, Outcome, StudentT, Summary, TTest, benjamini_hochberg, fieller, fieller_paired, one_sample,
    welch, welch_of_summaries,
};
use pagelab_analysis::trend::Scale;
use pagelab_vocab::absence::Absence;
use serde::Serialize;

use crate::hosts::{
    HostLevel, LEAST_HOSTS, RunValue, ScaleChoice, VarianceComponents, back, levels_of, onto, rounding,
    variance_components,
};

/// Fewest hosts with both labels for which the others of a mixture are left out: from 6 on the quantile of t (2.57) is
/// less than a third above that of many hosts, which costs less than the spread between hosts does.
pub const LEAST_HOSTS_WITHIN: usize = 6;

/// Hosts of the smaller side below which an uneven comparison has the degrees of freedom of that side.
pub const FEW_HOSTS: usize = 10;

/// Level of all intervals.
const INTERVAL_LEVEL: f64 = 0.95;

/// How hosts and labels go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Hosts of one label are compared with hosts of the other.
    Between,
    /// Hosts with both labels are compared with themselves.
    Within,
}

/// The test that was made, and where it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Stable identifier.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// Papers.
    pub source: &'static str,
}

/// The test of [`Design::Between`].
pub const HOST_MEANS: Method = Method {
    name: "welch_of_host_means",
    about: "Welch's t test of the means of hosts: a host counts once, however often it ran.",
    source: "B. L. Welch, Biometrika 34 (1947); R. Ibragimov and U. K. Müller, Review of Economics and Statistics 98 (2016)",
};

/// The test of [`Design::Between`] where one side has few hosts and the other many more.
pub const FEW_HOST_MEANS: Method = Method {
    name: "t_of_few_host_means",
    about: "Welch's statistic of the means of hosts with the degrees of freedom of the side that has few: a host counts once, however \
            often it ran.",
    source: "R. Ibragimov and U. K. Müller, Review of Economics and Statistics 98 (2016)",
};

/// The test of [`Design::Within`].
pub const HOST_DIFFERENCES: Method = Method {
    name: "t_of_host_differences",
    about: "Student's t test of the differences between the labels within each host: a host counts once, and what distinguishes \
            hosts cancels.",
    source: "Student, Biometrika 6 (1908); R. Ibragimov and U. K. Müller, JBES 28 (2010)",
};

/// What a comparison is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelOptions {
    /// The design; told from the data if `None`.
    pub design: Option<Design>,
    /// The scale.
    pub scale: ScaleChoice,
}

/// One side of a comparison: its hosts and runs that the test uses.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SideFigures {
    /// Hosts.
    pub hosts: usize,
    /// Runs that have a value.
    pub runs: usize,
    /// Hosts with one run, whose means are the least certain.
    pub hosts_with_one_run: usize,
    /// Mean of the hosts' means in the metric's unit, the geometric one on a log scale; null without hosts.
    pub mean: Option<f64>,
}

/// The test that takes all runs as independent. It is shown for what it misleads to, and decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NaiveTest {
    /// Two-sided p of Welch's test of all runs.
    pub p: f64,
    /// Its degrees of freedom.
    pub df: f64,
    /// Its standard error over that of the test with hosts; below 1 it claims to know more than it does.
    pub error_ratio: Option<f64>,
}

/// A metric under two labels. A value that does not exist is null, and `notes` say why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetComparison {
    /// Whether there is a test.
    pub outcome: Outcome,
    /// How hosts and labels go together; null if no design has enough hosts.
    pub design: Option<Design>,
    /// The test; null if none was made.
    pub method: Option<Method>,
    /// Whether ratios or differences are tested.
    pub scale: Scale,
    /// The base.
    pub base: SideFigures,
    /// The test side.
    pub test: SideFigures,
    /// Hosts with runs under both labels, whether or not the design uses them.
    pub hosts_with_both: usize,
    /// Hosts with a value that the design does not use.
    pub hosts_left_out: usize,
    /// Runs without a value, of both sides.
    pub runs_without_value: usize,
    /// Test over base: of geometric means of hosts on a log scale, else of means.
    pub ratio: Option<f64>,
    /// Its 95 % interval; Fieller's on a linear scale, null where that is not bounded.
    pub ratio_ci95: Option<[f64; 2]>,
    /// Test less base in the metric's unit; on a linear scale only.
    pub difference: Option<f64>,
    /// Its 95 % interval.
    pub difference_ci95: Option<[f64; 2]>,
    /// Test statistic; positive where the test side is larger.
    pub t: Option<f64>,
    /// Degrees of freedom.
    pub df: Option<f64>,
    /// Two-sided p value.
    pub p: Option<f64>,
    /// Its value corrected for the family, see [`settle`].
    pub q: Option<f64>,
    /// The decision, see [`settle`].
    pub significant: Option<bool>,
    /// How much runs vary within hosts and between them, about the mean of their side.
    pub variance: VarianceComponents,
    /// Variance of the hosts' true differences, without what runs add: how unequally hosts react to the label. Within hosts only.
    pub variance_of_differences: Option<f64>,
    /// The test that takes all runs as independent.
    pub naive: Option<NaiveTest>,
    /// What a reader must know, and why a value is null.
    pub notes: Vec<String>,
}

impl FleetComparison {
    /// Test over base less 1, in per cent.
    pub fn pct(&self) -> Option<f64> {
        self.ratio.map(|ratio| 100.0 * (ratio - 1.0))
    }

    /// Its 95 % interval.
    pub fn pct_ci95(&self) -> Option<[f64; 2]> {
        self.ratio_ci95.map(|ends| ends.map(|ratio| 100.0 * (ratio - 1.0)))
    }
}

/// Compares runs under two labels, `base` and `test`.
///
/// # Example
/// ```
/// use pagelab_fleet::hosts::RunValue;
/// use pagelab_fleet::model::{ModelOptions, compare};
/// let hosts = ["a", "b", "c", "d"];
/// let side = |factor: f64| -> Vec<RunValue> {
///     let value = |at: usize| Some(factor * (100.0 + at as f64 * factor));
///     hosts.iter().enumerate().map(|(at, host)| RunValue { host, start_ns: None, value: value(at) }).collect()
/// };
/// let found = compare(&side(1.0), &side(1.1), &ModelOptions::default());
/// assert_eq!(found.method.unwrap().name, "t_of_host_differences");
/// assert!(found.p.unwrap() < 0.001 && (found.ratio.unwrap() - 1.1).abs() < 0.01);
/// ```
pub fn compare(base: &[RunValue], test: &[RunValue], options: &ModelOptions) -> FleetComparison {
    let scale = options.scale.scale_of(base.iter().chain(test).filter_map(RunValue::finite));
    let (base_levels, test_levels) = (levels_of(base, scale), levels_of(test, scale));
    let hosts = Hosts::of(&base_levels, &test_levels);
    let mut found = FleetComparison::empty(scale);
    found.hosts_with_both = hosts.both.len();
    found.runs_without_value = base.iter().chain(test).filter(|run| run.finite().is_none()).count();
    let design = match hosts.design(options.design) {
        Ok(design) => design,
        Err(why) => {
            found.base = side_figures(&base_levels, scale);
            found.test = side_figures(&test_levels, scale);
            found.notes.push(why);
            found.remark(base, test, options.scale);
            return found;
        }
    };
    found.design = Some(design);
    found.hosts_left_out = hosts.all() - hosts.used(design).count();
    let used: BTreeSet<&str> = hosts.used(design).collect();
    let is_used = |level: &HostLevel| used.contains(level.host);
    let sides = Sides {
        base: base_levels.into_iter().filter(is_used).collect(),
        test: test_levels.into_iter().filter(is_used).collect(),
        scale,
    };
    found.base = side_figures(&sides.base, scale);
    found.test = side_figures(&sides.test, scale);
    found.variance = variance_components(&[&sides.base, &sides.test]);
    let tested = match design {
        Design::Between => sides.between(&mut found),
        Design::Within => sides.within(&mut found),
    };
    found.add_naive(base, test, &used, tested.as_ref());
    found.remark(base, test, options.scale);
    found
}

/// Fills q and the decision of one family: all comparisons that were looked at, none left out. Returns the number tested.
///
/// q by Benjamini and Hochberg, see [`benjamini_hochberg`]; significant is q <= alpha. A metric that was named before looking
/// is a family of its own.
pub fn settle<'a>(comparisons: impl IntoIterator<Item = &'a mut FleetComparison>, alpha: f64) -> usize {
    let mut comparisons: Vec<&mut FleetComparison> = comparisons.into_iter().collect();
    let p: Vec<Option<f64>> = comparisons.iter().map(|one| one.p.filter(|_| one.outcome == Outcome::Tested)).collect();
    for (comparison, q) in comparisons.iter_mut().zip(benjamini_hochberg(&p)) {
        comparison.q = q;
        comparison.significant = q.map(|q| q <= alpha);
    }
    p.iter().flatten().count()
}

/// Which hosts have which labels.
struct Hosts<'a> {
    both: BTreeSet<&'a str>,
    base_only: BTreeSet<&'a str>,
    test_only: BTreeSet<&'a str>,
}

impl<'a> Hosts<'a> {
    fn of(base: &[HostLevel<'a>], test: &[HostLevel<'a>]) -> Self {
        let names = |levels: &[HostLevel<'a>]| -> BTreeSet<&'a str> { levels.iter().map(|level| level.host).collect() };
        let (base, test) = (names(base), names(test));
        Self {
            both: base.intersection(&test).copied().collect(),
            base_only: base.difference(&test).copied().collect(),
            test_only: test.difference(&base).copied().collect(),
        }
    }

    fn all(&self) -> usize {
        self.both.len() + self.base_only.len() + self.test_only.len()
    }

    fn used(&self, design: Design) -> impl Iterator<Item = &'a str> {
        let (one, other) = match design {
            Design::Within => (&self.both, None),
            Design::Between => (&self.base_only, Some(&self.test_only)),
        };
        one.iter().chain(other.into_iter().flatten()).copied()
    }

    /// The design, or why there is none.
    fn design(&self, asked: Option<Design>) -> Result<Design, String> {
        let both = self.both.len();
        let between = self.base_only.len().min(self.test_only.len()) >= LEAST_HOSTS;
        let possible = match asked {
            Some(Design::Within) => (both >= LEAST_HOSTS).then_some(Design::Within),
            Some(Design::Between) => between.then_some(Design::Between),
            None if both >= LEAST_HOSTS_WITHIN => Some(Design::Within),
            None if between => Some(Design::Between),
            None => (both >= LEAST_HOSTS).then_some(Design::Within),
        };
        let needed = match asked {
            Some(Design::Within) => format!("{LEAST_HOSTS} hosts with both"),
            Some(Design::Between) => format!("{LEAST_HOSTS} hosts with either label alone"),
            None => format!("{LEAST_HOSTS} hosts with either label alone, or {LEAST_HOSTS} with both"),
        };
        possible.ok_or_else(|| {
            let reason = format!(
                "{} hosts have runs of the base only, {} of the test side only, {both} of both; at least {needed} are \
                 needed: runs of few hosts do not say what other hosts would do, however many they are",
                self.base_only.len(),
                self.test_only.len()
            );
            Absence::not_tested(reason).to_string()
        })
    }
}

fn side_figures(levels: &[HostLevel], scale: Scale) -> SideFigures {
    let means: Vec<f64> = levels.iter().map(|level| level.level).collect();
    SideFigures {
        hosts: levels.len(),
        runs: levels.iter().map(|level| level.runs).sum(),
        hosts_with_one_run: levels.iter().filter(|level| level.runs == 1).count(),
        mean: Summary::of(&means).ok().map(|summary| back(scale, summary.mean())).filter(|mean| mean.is_finite()),
    }
}

/// The hosts that the design uses, each side in the order of names.
struct Sides<'a> {
    base: Vec<HostLevel<'a>>,
    test: Vec<HostLevel<'a>>,
    scale: Scale,
}

impl Sides<'_> {
    fn means(&self) -> (Vec<f64>, Vec<f64>) {
        let of = |levels: &[HostLevel]| levels.iter().map(|level| level.level).collect();
        (of(&self.base), of(&self.test))
    }

    /// Welch's test of the means of hosts.
    fn between(&self, found: &mut FleetComparison) -> Option<TTest> {
        let (base, test) = self.means();
        let (Ok(base), Ok(test)) = (Summary::of(&base), Summary::of(&test)) else { return None };
        let rounding = rounding(self.scale, [base.mean(), test.mean()].into_iter());
        let difference = test.mean_difference(&base);
        if is_constant(&base, rounding) && is_constant(&test, rounding) {
            found.set_constant(difference, rounding, base.n().min(test.n()), "all hosts of a side have one value");
            return None;
        }
        let tested = welch_of_summaries(&base, &test);
        let tested = tested.map_err(|why| found.not_tested(why.to_string())).ok()?;
        let (few, many) = (base.n().min(test.n()), base.n().max(test.n()));
        let (method, tested) = if few < FEW_HOSTS && many >= 2 * few {
            (FEW_HOST_MEANS, with_df(tested, (few - 1) as f64)?)
        } else {
            (HOST_MEANS, tested)
        };
        found.set(method, &tested);
        if self.scale == Scale::Linear {
            let ratio = fieller(&base, &test, INTERVAL_LEVEL).ok();
            found.set_fieller(ratio.map(|ratio| (ratio.ratio, ratio.interval.ok())));
        }
        Some(tested)
    }

    /// Student's test of the differences within hosts.
    fn within(&self, found: &mut FleetComparison) -> Option<TTest> {
        let (base, test) = self.means();
        let differences: Vec<f64> = base.iter().zip(&test).map(|(base, test)| test - base).collect();
        let summary = Summary::of(&differences).ok()?;
        found.variance_of_differences = self.variance_of_differences(&summary, found.variance.within_hosts);
        let rounding = rounding(self.scale, base.iter().chain(&test).copied());
        if is_constant(&summary, rounding) {
            found.set_constant(summary.mean(), rounding, summary.n(), "the labels differ by the same on every host");
            return None;
        }
        let tested = one_sample(&summary, 0.0);
        let tested = tested.map_err(|why| found.not_tested(why.to_string())).ok()?;
        found.set(HOST_DIFFERENCES, &tested);
        if self.scale == Scale::Linear {
            let ratio = fieller_paired(&base, &test, INTERVAL_LEVEL).ok();
            found.set_fieller(ratio.map(|ratio| (ratio.ratio, ratio.interval.ok())));
        }
        Some(tested)
    }

    /// The variance of the differences less the mean of what runs add to each: within (1 / n_base + 1 / n_test), at least 0.
    fn variance_of_differences(&self, differences: &Summary, within: Option<f64>) -> Option<f64> {
        let (sd, within) = (differences.sd()?, within?);
        let of_runs: f64 = self
            .base
            .iter()
            .zip(&self.test)
            .map(|(base, test)| within * (1.0 / base.runs as f64 + 1.0 / test.runs as f64))
            .sum();
        Some((sd * sd - of_runs / differences.n() as f64).max(0.0))
    }
}

/// The same statistic with other degrees of freedom.
fn with_df(tested: TTest, df: f64) -> Option<TTest> {
    let distribution = StudentT::new(df).ok()?;
    let (p, ln_p) = (distribution.two_sided_p(tested.t), distribution.ln_two_sided_p(tested.t));
    Some(TTest { df, p, ln_p, ..tested })
}

fn is_constant(summary: &Summary, rounding: f64) -> bool {
    summary.sd().is_none_or(|sd| sd <= rounding)
}

impl FleetComparison {
    fn empty(scale: Scale) -> Self {
        Self {
            outcome: Outcome::NotTested,
            design: None,
            method: None,
            scale,
            base: SideFigures::default(),
            test: SideFigures::default(),
            hosts_with_both: 0,
            hosts_left_out: 0,
            runs_without_value: 0,
            ratio: None,
            ratio_ci95: None,
            difference: None,
            difference_ci95: None,
            t: None,
            df: None,
            p: None,
            q: None,
            significant: None,
            variance: VarianceComponents::default(),
            variance_of_differences: None,
            naive: None,
            notes: Vec::new(),
        }
    }

    fn set(&mut self, method: Method, tested: &TTest) {
        self.outcome = Outcome::Tested;
        self.method = Some(method);
        (self.t, self.df, self.p) = (Some(tested.t), Some(tested.df), Some(tested.p));
        let interval = tested.interval(INTERVAL_LEVEL).ok();
        match self.scale {
            Scale::Log => {
                self.ratio = Some(tested.estimate.exp()).filter(|ratio| ratio.is_finite());
                let ends = interval.map(|ends| ends.map(f64::exp));
                self.ratio_ci95 = ends.filter(|ends| ends.iter().all(|end| end.is_finite()));
                if self.ratio_ci95.is_none() {
                    self.notes.push("ratio: its interval is not bounded".to_owned());
                }
            }
            Scale::Linear => {
                self.difference = Some(tested.estimate);
                self.difference_ci95 = interval;
            }
        }
    }

    fn set_fieller(&mut self, ratio: Option<(f64, Option<[f64; 2]>)>) {
        self.ratio = ratio.map(|(ratio, _)| ratio);
        self.ratio_ci95 = ratio.and_then(|(_, interval)| interval);
        if self.ratio_ci95.is_none() {
            self.notes.push("ratio: the interval of the base holds 0, so the ratio is not bounded".to_owned());
        }
    }

    /// Says why there is no test.
    fn not_tested(&mut self, reason: String) {
        self.notes.push(Absence::not_tested(reason).to_string());
    }

    /// Hosts do not differ from each other, so that no spread says what chance does.
    fn set_constant(&mut self, difference: f64, rounding: f64, hosts: usize, how: &str) {
        if difference.abs() <= rounding {
            self.not_tested(format!("{how}, and it is the same under both labels"));
            return;
        }
        match self.scale {
            Scale::Log => self.ratio = Some(difference.exp()).filter(|ratio| ratio.is_finite()),
            Scale::Linear => self.difference = Some(difference),
        }
        if hosts >= LEAST_DETERMINISTIC {
            self.outcome = Outcome::DeterministicDifference;
            self.notes.push(format!("no test: {how}, so that chance has no part in the difference"));
        } else {
            self.not_tested(format!(
                "{how}; {hosts} hosts may agree by chance, from {LEAST_DETERMINISTIC} on it is called a \
                 deterministic difference"
            ));
        }
    }

    /// Adds the test that takes all runs of the hosts used as independent.
    fn add_naive(&mut self, base: &[RunValue], test: &[RunValue], used: &BTreeSet<&str>, tested: Option<&TTest>) {
        let values = |runs: &[RunValue]| -> Vec<f64> {
            let used = runs.iter().filter(|run| used.contains(run.host));
            used.filter_map(RunValue::finite).map(|value| onto(self.scale, value)).collect()
        };
        let Ok(naive) = welch(&values(base), &values(test)) else { return };
        let error_ratio = tested.map(|tested| naive.se / tested.se).filter(|ratio| ratio.is_finite());
        self.naive = Some(NaiveTest { p: naive.p, df: naive.df, error_ratio });
    }

    /// Notes that hold for every outcome.
    fn remark(&mut self, base: &[RunValue], test: &[RunValue], asked: ScaleChoice) {
        if self.runs_without_value > 0 {
            self.notes.push(format!("{} runs without a value are left out", self.runs_without_value));
        }
        if self.hosts_left_out > 0 {
            let why = match self.design {
                Some(Design::Within) => "they have runs under one label only",
                _ => "they have runs under both labels, and are too few to be compared within themselves",
            };
            self.notes.push(format!("{} hosts are left out: {why}", self.hosts_left_out));
        }
        if self.scale == Scale::Linear && asked == ScaleChoice::FromData {
            let values = base.iter().chain(test).filter_map(RunValue::finite);
            let not_positive = values.filter(|value| *value <= 0.0).count();
            self.notes.push(format!("{not_positive} values are zero or negative: differences are tested, not ratios"));
        }
        if self.variance.between_hosts.is_none() && self.design.is_some() {
            self.notes.push("no host has two runs: how much runs vary within a host is not known".to_owned());
        }
        if let Some(note) = times_note(base, test) {
            self.notes.push(note);
        }
        if self.design == Some(Design::Between) {
            let caution = "hosts were not dealt to the labels by chance: whatever else distinguishes the two groups of hosts has \
                           the same difference";
            self.notes.push(caution.to_owned());
        }
    }
}

/// Says so if all runs of one side were made before all of the other, on all hosts.
fn times_note(base: &[RunValue], test: &[RunValue]) -> Option<String> {
    let ends = |runs: &[RunValue]| -> Option<(i64, i64)> {
        let times = || runs.iter().filter(|run| run.finite().is_some()).filter_map(|run| run.start_ns);
        Some((times().min()?, times().max()?))
    };
    let ((base_first, base_last), (test_first, test_last)) = (ends(base)?, ends(test)?);
    let order = if base_last < test_first {
        "before"
    } else if test_last < base_first {
        "after"
    } else {
        return None;
    };
    Some(format!(
        "all runs of the base were made {order} all of the test side: whatever else changed in the fleet between them has the same \
         difference"
    ))
}

/// Runs under each value of a label: what [`compare`] is given two of.
///
/// `runs` come with the value of the label that held for them; runs without one are in no group. Groups stand in the order
/// of values.
pub fn by_label<'a>(
    runs: impl IntoIterator<Item = (Option<&'a str>, RunValue<'a>)>,
) -> BTreeMap<&'a str, Vec<RunValue<'a>>> {
    let mut groups: BTreeMap<&str, Vec<RunValue>> = BTreeMap::new();
    for (label, run) in runs {
        if let Some(label) = label {
            groups.entry(label).or_default().push(run);
        }
    }
    groups
}
