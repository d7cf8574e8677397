//! Two values of a label: how fast, where the time goes, which settings differ.
//!
//! The metric that was named is tested alone. The components of the account of time are a family, the causes' components another
//! one, and so are all metrics, if they are asked for. A cause is *shown* here where the time of its components rose on the slower side
//! and a setting that bears it differs between the sides: an association among hosts, which a toggle on one host can confirm.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_analysis::compare::Verdict;
use pagelab_vocab::budget::{component_of, is_among};
use pagelab_vocab::causes::{CauseDef, causes};
use pagelab_vocab::metrics::Direction;
use serde::Serialize;

use super::asked::{Asked, MetricAsked, Question, Reading, direction_of};
use super::contrast::{RunOfSide, SettingContrast, contrasts};
use super::places::nearest_to;
use crate::error::{FleetError, Result};
use crate::hosts::{RunValue, ScaleChoice};
use crate::model::{FleetComparison, ModelOptions, compare, settle};
use crate::rollup::{ComponentsRow, Day, FleetSource, LabelsRow, MetricsRow, RunsRow, SettingsRow, Text, Where};

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DifferenceQuestion {
    /// Days and metric.
    pub question: Question,
    /// The label that divides runs.
    pub label: String,
    /// Its value of the base; with two values the one of more hosts if `None`.
    pub base: Option<String>,
    /// Its value of the test side; the other one if `None`.
    pub test: Option<String>,
    /// Compare all metrics, not only the one asked for.
    pub all_metrics: bool,
    /// False discovery rate of each family.
    pub alpha: f64,
}

/// A metric on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricDifference {
    /// The metric.
    pub metric: MetricAsked,
    /// Better or worse, or that no difference was shown.
    pub verdict: Verdict,
    /// The test.
    pub comparison: FleetComparison,
}

/// A component of the account of time on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentDifference {
    /// Its name in the vocabulary.
    pub component: String,
    /// What the time was spent on.
    pub about: &'static str,
    /// Its part of the difference of the whole; null where that is not shown.
    pub share: Option<f64>,
    /// The test, of ns.
    pub comparison: FleetComparison,
}

/// Where the difference is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    /// What the times are of: `operation`, or `second` where operations were not counted.
    pub per: &'static str,
    /// The account as a whole.
    pub whole: FleetComparison,
    /// Components, the largest difference first.
    pub components: Vec<ComponentDifference>,
    /// Runs without an account.
    pub runs_without: usize,
}

/// A cause whose components take more time on the slower side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseShown {
    /// Its name in the vocabulary.
    pub cause: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The components in which it shows.
    pub components: Vec<&'static str>,
    /// The time of these components, of ns, and its test.
    pub comparison: FleetComparison,
    /// Settings that can bring it about and differ between the sides.
    pub settings: Vec<SettingContrast>,
    /// `associated`: a setting that bears it differs as the label does; `shown`: only its time does.
    pub confidence: &'static str,
}

/// What differs between two values of a label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The label.
    pub label: String,
    /// Its value of the base.
    pub base: String,
    /// Its value of the test side.
    pub test: String,
    /// First and last day.
    pub days: [Day; 2],
    /// The metric asked for.
    pub primary: MetricDifference,
    /// All metrics, the most certain first; empty unless they were asked for.
    pub metrics: Vec<MetricDifference>,
    /// Where the difference is; null without an account of both sides.
    pub budget: Option<Budget>,
    /// Causes, most time first.
    pub causes: Vec<CauseShown>,
    /// Settings that differ between the sides, those that divide hosts most clearly first.
    pub settings: Vec<SettingContrast>,
    /// Of each side a recording that is like its side, if its place is known.
    pub examples: [Option<String>; 2],
    /// What was read.
    pub reading: Reading,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Compares the runs under two values of a label, with hosts as random effect.
///
/// # Errors
/// Days, a metric, a label or a value of it that the fleet has not, and files that cannot be read.
pub fn difference(fleet: &dyn FleetSource, question: &DifferenceQuestion) -> Result<Difference> {
    let mut asked = Asked::of(fleet, &question.question)?;
    let runs = asked.counted_runs()?;
    let sides = Sides::of(&mut asked, question, runs)?;
    let (metric, rows) = asked.metric(&question.question)?;
    let mut primary = sides.metric(metric, &rows, ScaleChoice::FromData);
    settle(std::iter::once(&mut primary.comparison), question.alpha);
    primary.judge();
    let metrics = if question.all_metrics { sides.all_metrics(&mut asked, question.alpha)? } else { Vec::new() };
    let accounts = Accounts::of(asked.read(&[])?, &sides);
    let changes: Vec<SettingsRow> = asked.read_from_the_first()?;
    let settings = contrasts(&changes, &sides.runs_of_sides());
    let budget = accounts.budget(&sides, question.alpha);
    let causes = budget.as_ref().map(|budget| accounts.causes(&sides, budget, &settings, question.alpha));
    let means = [primary.comparison.base.mean, primary.comparison.test.mean];
    let [base, test] = sides.parted(&rows);
    let examples = [nearest_to(means[0], &base, &sides.runs), nearest_to(means[1], &test, &sides.runs)];
    Ok(Difference {
        label: question.label.clone(),
        base: sides.base.clone(),
        test: sides.test.clone(),
        days: [*asked.days.start(), *asked.days.end()],
        primary,
        metrics,
        budget,
        causes: causes.unwrap_or_default(),
        settings,
        examples,
        notes: notes(&asked.reading),
        reading: asked.reading,
    })
}

fn notes(reading: &Reading) -> Vec<String> {
    let lacking = |(table, days): (&&str, &Vec<Day>)| {
        format!("{} days lack the table {table}: what it would say of them is not known", days.len())
    };
    reading.days_without.iter().map(lacking).collect()
}

impl MetricDifference {
    fn judge(&mut self) {
        let larger = self.comparison.t.is_some_and(|t| t > 0.0);
        self.verdict = match (self.comparison.significant, self.metric.direction()) {
            (None, _) => Verdict::NotTested,
            (Some(false), _) => Verdict::NoDifference,
            (Some(true), Direction::Neutral) => Verdict::Different,
            (Some(true), direction) if larger == (direction == Direction::HigherIsBetter) => Verdict::Better,
            (Some(true), _) => Verdict::Worse,
        };
    }
}

/// The runs of both sides.
struct Sides {
    base: String,
    test: String,
    runs: BTreeMap<Text, RunsRow>,
    /// Whether a run is of the test side, by id. Other runs are of no side.
    is_test: BTreeMap<Text, bool>,
}

impl Sides {
    fn of(asked: &mut Asked, question: &DifferenceQuestion, runs: BTreeMap<Text, RunsRow>) -> Result<Self> {
        let rows: Vec<LabelsRow> = asked.read(&[Where { column: "name", equals: Some(&question.label) }])?;
        let mut values: BTreeMap<Text, Text> = BTreeMap::new();
        for row in rows {
            if let (Some(id), Some(value)) = (row.recording_id, row.value)
                && runs.contains_key(&id)
            {
                values.insert(id, value);
            }
        }
        let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (id, value) in &values {
            let host = runs.get(id).and_then(|run| run.host.as_deref());
            hosts.entry(value).or_default().extend(host);
        }
        let (base, test) = if hosts.is_empty() {
            let names = asked.fleet.distinct::<LabelsRow>(asked.days.clone(), "name")?;
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            return Err(FleetError::BadLabel {
                label: question.label.clone(),
                found: "no run that has it".to_owned(),
                needed: format!("one of {}", names.join(", ")),
            });
        } else {
            chosen(question, &hosts)?
        };
        let is_test = values.iter().filter(|(_, value)| ***value == *base || ***value == *test);
        let is_test = is_test.map(|(id, value)| (id.clone(), **value == *test)).collect();
        Ok(Self { base, test, runs, is_test })
    }

    fn side(&self, id: Option<&Text>) -> Option<bool> {
        self.is_test.get(id?).copied()
    }

    /// Rows of a metric by side, with their values.
    fn parted<'a>(&self, rows: &'a [MetricsRow]) -> [Vec<(&'a MetricsRow, RunValue<'a>)>; 2] {
        let mut parted = [Vec::new(), Vec::new()];
        for row in rows {
            let (Some(is_test), Some(host)) = (self.side(row.recording_id.as_ref()), row.host.as_deref()) else {
                continue;
            };
            let value = RunValue { host, start_ns: row.start_ns, value: row.value };
            parted[usize::from(is_test)].push((row, value));
        }
        parted
    }

    fn metric(&self, metric: MetricAsked, rows: &[MetricsRow], scale: ScaleChoice) -> MetricDifference {
        let [base, test] = self.parted(rows).map(|side| side.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
        let comparison = compare(&base, &test, &ModelOptions { design: None, scale });
        MetricDifference { metric, verdict: Verdict::NotTested, comparison }
    }

    /// All metrics of these days as one family, those found different first. One metric at a time is held.
    fn all_metrics(&self, asked: &mut Asked, alpha: f64) -> Result<Vec<MetricDifference>> {
        let mut found = Vec::new();
        for name in asked.metric_names()? {
            let rows: Vec<MetricsRow> = asked.read(&[Where { column: "name", equals: Some(&name) }])?;
            let mut by_instance: BTreeMap<Option<Text>, Vec<MetricsRow>> = BTreeMap::new();
            for row in rows {
                by_instance.entry(row.instance.clone()).or_default().push(row);
            }
            for (instance, rows) in by_instance {
                let first = rows.first();
                let is_counter = first.and_then(|row| row.kind.as_deref()) == Some("counter");
                let unit = first.and_then(|row| row.unit.as_deref()).unwrap_or_default();
                let metric = MetricAsked {
                    name: name.as_ref().to_owned(),
                    instance: instance.map(|instance| instance.as_ref().to_owned()),
                    unit: format!("{unit}{}", if is_counter { "/s" } else { "" }),
                    direction: direction_of(first.and_then(|row| row.direction.as_deref())).name(),
                };
                found.push(self.metric(metric, &rows, ScaleChoice::FromData));
            }
        }
        settle(found.iter_mut().map(|one| &mut one.comparison), alpha);
        found.iter_mut().for_each(MetricDifference::judge);
        let p = |one: &MetricDifference| one.comparison.p.unwrap_or(f64::INFINITY);
        found.sort_by(|a, b| p(a).total_cmp(&p(b)).then_with(|| a.metric.full_name().cmp(&b.metric.full_name())));
        Ok(found)
    }

    fn runs_of_sides(&self) -> Vec<RunOfSide<'_>> {
        let of = |(id, is_test): (&Text, &bool)| {
            let run = self.runs.get(id)?;
            Some(RunOfSide { host: run.host.as_deref()?, start_ns: run.start_ns?, is_test: *is_test })
        };
        self.is_test.iter().filter_map(of).collect()
    }
}

/// The values of the label that are compared.
fn chosen(question: &DifferenceQuestion, hosts: &BTreeMap<&str, BTreeSet<&str>>) -> Result<(String, String)> {
    let mut by_hosts: Vec<(&str, usize)> = hosts.iter().map(|(value, hosts)| (*value, hosts.len())).collect();
    by_hosts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let found = by_hosts.iter().take(12).map(|(value, hosts)| format!("{value} ({hosts} hosts)")).collect::<Vec<_>>();
    let refused =
        |needed: String| FleetError::BadLabel { label: question.label.clone(), found: found.join(", "), needed };
    for value in [&question.base, &question.test].into_iter().flatten() {
        if !hosts.contains_key(value.as_str()) {
            return Err(refused(format!("a value that some run has, not {value:?}")));
        }
    }
    let others = |but: &str| by_hosts.iter().map(|(value, _)| *value).filter(|value| *value != but).collect::<Vec<_>>();
    let named = format!("two values: --label {}=BASE,TEST", question.label);
    let (base, test) = match (&question.base, &question.test) {
        (Some(base), Some(test)) => (base.clone(), test.clone()),
        (Some(base), None) => match others(base).as_slice() {
            [test] => (base.clone(), (*test).to_owned()),
            _ => return Err(refused(named)),
        },
        (None, _) => match by_hosts.as_slice() {
            [(base, _), (test, _)] => ((*base).to_owned(), (*test).to_owned()),
            _ => return Err(refused(named)),
        },
    };
    if base == test {
        return Err(refused("two values that differ".to_owned()));
    }
    Ok((base, test))
}

/// The accounts of the runs of both sides: of each run its components.
struct Accounts {
    /// By run: by component the time, none where a stream was missing.
    runs: BTreeMap<Text, BTreeMap<Text, Option<f64>>>,
    is_per_operation: bool,
}

impl Accounts {
    /// Per operation if every account tells that, else per second.
    fn of(rows: Vec<ComponentsRow>, sides: &Sides) -> Self {
        let rows: Vec<ComponentsRow> =
            rows.into_iter().filter(|row| sides.side(row.recording_id.as_ref()).is_some()).collect();
        let is_per_operation = rows.iter().any(|row| row.ns_per_operation.is_some())
            && rows.iter().all(|row| row.ns_per_operation.is_some() || row.ns_per_s.is_none());
        let mut runs: BTreeMap<Text, BTreeMap<Text, Option<f64>>> = BTreeMap::new();
        for row in rows {
            let (Some(id), Some(component)) = (row.recording_id, row.component) else { continue };
            let ns = if is_per_operation { row.ns_per_operation } else { row.ns_per_s };
            runs.entry(id).or_default().insert(component, ns.filter(|ns| ns.is_finite()));
        }
        Self { runs, is_per_operation }
    }

    /// The sum of the components chosen, of the runs of each side. A component that a run has no row of took no time; one that it could
    /// not tell, or whose state it could not, makes the sum unknown.
    fn compared(&self, sides: &Sides, is_chosen: impl Fn(&str) -> bool) -> FleetComparison {
        let mut parted: [Vec<RunValue>; 2] = [Vec::new(), Vec::new()];
        for (id, components) in &self.runs {
            let Some((is_test, run)) = sides.side(Some(id)).zip(sides.runs.get(id)) else { continue };
            let Some(host) = run.host.as_deref() else { continue };
            let chosen = || components.iter().filter(|(name, _)| is_chosen(name));
            let state_unknown =
                components.iter().any(|(name, ns)| ns.is_none() && !name.contains('.') && of_state(name, &is_chosen));
            let is_unknown = state_unknown || chosen().any(|(_, ns)| ns.is_none());
            let sum: f64 = chosen().filter_map(|(_, ns)| *ns).sum();
            parted[usize::from(is_test)].push(RunValue {
                host,
                start_ns: run.start_ns,
                value: (!is_unknown).then_some(sum),
            });
        }
        let [base, test] = &parted;
        compare(base, test, &ModelOptions { design: None, scale: ScaleChoice::Linear })
    }

    fn budget(&self, sides: &Sides, alpha: f64) -> Option<Budget> {
        if self.runs.is_empty() {
            return None;
        }
        let whole = self.compared(sides, |_| true);
        let names: BTreeSet<&str> = self.runs.values().flatten().map(|(name, _)| name.as_ref()).collect();
        let one = |name: &&str| ComponentDifference {
            component: (*name).to_owned(),
            about: component_of(name).map_or("", |component| component.about),
            share: None,
            comparison: self.compared(sides, |component| component == *name),
        };
        let mut components: Vec<ComponentDifference> = names.iter().map(one).collect();
        settle(components.iter_mut().map(|one| &mut one.comparison), alpha);
        let is_sure = whole.difference_ci95.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
        for one in &mut components {
            one.share =
                one.comparison.difference.zip(whole.difference).filter(|_| is_sure).map(|(part, all)| part / all);
        }
        let size = |one: &ComponentDifference| one.comparison.difference.map_or(0.0, f64::abs);
        components.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.component.cmp(&b.component)));
        let runs_without = sides.is_test.keys().filter(|id| !self.runs.contains_key(*id)).count();
        let per = if self.is_per_operation { "operation" } else { "second" };
        Some(Budget { per, whole, components, runs_without })
    }

    /// Causes whose components take more time on the slower side.
    fn causes(&self, sides: &Sides, budget: &Budget, settings: &[SettingContrast], alpha: f64) -> Vec<CauseShown> {
        let has = |def: &&CauseDef| budget.components.iter().any(|one| is_among(&one.component, def.components));
        let defs: Vec<&'static CauseDef> = causes().filter(has).collect();
        // Causes with the same components are one test.
        let mut tests: BTreeMap<&[&str], FleetComparison> = BTreeMap::new();
        for def in &defs {
            tests.entry(def.components).or_insert_with(|| self.compared(sides, |name| is_among(name, def.components)));
        }
        settle(tests.values_mut(), alpha);
        let slower_is_test = budget.whole.t.map(|t| t > 0.0);
        let mut shown: Vec<CauseShown> = Vec::new();
        for def in defs {
            let Some(comparison) = tests.get(def.components) else { continue };
            let rose = comparison.t.map(|t| t > 0.0) == slower_is_test;
            if comparison.significant != Some(true) || !rose {
                continue;
            }
            let bearing: Vec<SettingContrast> = settings.iter().filter(|one| def.bears(&one.key)).cloned().collect();
            let confidence = if bearing.is_empty() { "shown" } else { "associated" };
            let (cause, title, components) = (def.id, def.title, def.components.to_vec());
            shown.push(CauseShown {
                cause,
                title,
                components,
                comparison: comparison.clone(),
                settings: bearing,
                confidence,
            });
        }
        let size = |one: &CauseShown| one.comparison.difference.map_or(0.0, f64::abs);
        shown.sort_by(|a, b| {
            let ranked = |one: &CauseShown| one.confidence == "associated";
            ranked(b).cmp(&ranked(a)).then(size(b).total_cmp(&size(a))).then(a.cause.cmp(b.cause))
        });
        shown
    }
}

/// Whether any chosen component can be a part of this state: `run`, `ready` or `off`.
fn of_state(state: &str, is_chosen: &impl Fn(&str) -> bool) -> bool {
    pagelab_vocab::budget::COMPONENTS
        .iter()
        .any(|component| component.state.word() == state && is_chosen(component.name))
}
