//! How much worse the test side may be: what `compare --check` lets pass.
//!
//! A limit is a loss in per cent of the base, named before the runs are looked at. It is compared with the 95 % interval of the
//! loss: a limit that the whole interval exceeds is broken, one that the whole interval keeps is kept, and between them nothing
//! is decided, which more runs would. So a gate does not break on noise, and does not call noise a pass.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pagelab_views::metrics::values;

use super::{Comparison, MetricComparison, Primary};
use crate::stats::{Change, Outcome, Side};

/// A loss that is let pass: `PCT` for the primary metric, `METRIC=PCT` for another.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The metric, with its instance in brackets where it has several; `None`: the primary one.
    metric: Option<String>,
    /// In per cent of the base's mean.
    pct: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (metric, number) = match text.rsplit_once('=') {
            Some((metric, number)) => (Some(metric.trim()), number),
            None => (None, text),
        };
        let pct = number.trim().trim_end_matches('%').parse().ok();
        match pct.filter(|pct: &f64| (0.0..=1e6).contains(pct)) {
            Some(_) if metric == Some("") => {
                Err(format!("found `{text}`, needed a metric before the =: run.elapsed_ns=5"))
            }
            Some(pct) => Ok(Self { metric: metric.map(str::to_owned), pct }),
            None => Err(format!("found `{text}`, needed a loss in per cent from 0 on: 5, or target.faults=10")),
        }
    }
}

/// What became of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitState {
    /// The loss is smaller, at the far end of its interval as well.
    Kept,
    /// The loss is larger, at the near end of its interval as well.
    Broken,
    /// The limit lies within the interval.
    NotDecided,
    /// There is no interval, or neither way of the metric is better.
    NotTested,
}

/// A limit and the loss.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LimitAnswer {
    /// The metric, with its instance in brackets where it has several.
    pub metric: String,
    /// The loss that is let pass, per cent of the base.
    pub limit_pct: f64,
    /// By how much the test side is worse, per cent of the base; negative where it is better.
    pub loss_pct: Option<f64>,
    /// Its 95 % interval.
    pub loss_ci95_pct: Option<[f64; 2]>,
    /// What follows.
    pub state: LimitState,
    /// Why nothing was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl LimitAnswer {
    /// Whether a gate closes. Where the limit lies within what the runs leave open it does if the metric is shown to be worse.
    pub fn is_bad(&self) -> bool {
        match self.state {
            LimitState::Broken | LimitState::NotTested => true,
            LimitState::NotDecided => self.loss_ci95_pct.is_some_and(|[near, _]| near > 0.0),
            LimitState::Kept => false,
        }
    }
}

impl fmt::Display for LimitAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (metric, pct) = (&self.metric, self.limit_pct);
        let Some(([low, high], loss)) = self.loss_ci95_pct.zip(self.loss_pct) else {
            let why = self.note.as_deref().unwrap_or("its ratio has no interval");
            return write!(f, "{metric}: nothing was tested against the limit of {pct} %: {why}");
        };
        let said = match self.state {
            LimitState::Kept => "keeps the limit of",
            LimitState::Broken => "breaks the limit of",
            LimitState::NotDecided => "may or may not break, which more runs would tell, the limit of",
            LimitState::NotTested => "was not tested against the limit of",
        };
        let (size, word) = if loss < 0.0 { (-loss, "better") } else { (loss, "worse") };
        write!(f, "{metric} is {size:.1} % {word} (loss within {low:.1} to {high:.1} %) and {said} {pct} %")
    }
}

/// The ratio of sides of which each has one value in all of its runs: they have no interval, and need none.
fn exact(outcome: Outcome, ratio: Option<f64>, base: &Side, test: &Side) -> Option<f64> {
    let (before, after) = base.mean.zip(test.mean)?;
    let are_constant = base.n > 1 && test.n > 1 && base.sd == Some(0.0) && test.sd == Some(0.0);
    match outcome {
        Outcome::Tested => None,
        Outcome::DeterministicDifference if before == 0.0 => Some(f64::MAX),
        Outcome::DeterministicDifference => ratio,
        Outcome::NotTested => (are_constant && before.total_cmp(&after).is_eq()).then_some(1.0),
    }
}

/// What a limit is compared with.
struct Loss<'a> {
    metric: String,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    direction: &'a str,
    note: Option<String>,
}

impl<'a> Loss<'a> {
    fn of_primary(primary: &'a Primary) -> Self {
        let result = &primary.result;
        let is_equal = result.change == Some(Change::Equal) && result.outcome == Outcome::NotTested;
        let exact = exact(result.outcome, primary.ratio, &result.base, &result.test).or(is_equal.then_some(1.0));
        Self {
            metric: primary.metric.clone(),
            ratio: primary.ratio.or(exact),
            interval: primary.ratio_ci95.or(exact.map(|ratio| [ratio, ratio])),
            direction: &primary.direction,
            note: primary.result.note.clone(),
        }
    }

    fn of_metric(metric: &'a MetricComparison) -> Self {
        let exact = exact(metric.outcome, metric.ratio, &metric.base, &metric.test);
        Self {
            metric: shown(metric),
            ratio: metric.ratio.or(exact),
            interval: metric.ratio_ci95.or(exact.map(|ratio| [ratio, ratio])),
            direction: &metric.direction,
            note: metric.note.clone(),
        }
    }

    fn answer(self, limit_pct: f64) -> LimitAnswer {
        // Per cent of the base by which a ratio of test to base is worse.
        let sign = match self.direction {
            "lower" => Some(100.0),
            "higher" => Some(-100.0),
            _ => None,
        };
        let loss = |ratio: f64| sign.map(|sign| sign * (ratio - 1.0));
        let ends = self.interval.and_then(|[low, high]| Some((loss(low)?, loss(high)?)));
        let interval = ends.map(|(a, b)| [a.min(b), a.max(b)]);
        let state = match interval {
            Some([near, _]) if near > limit_pct => LimitState::Broken,
            Some([_, far]) if far <= limit_pct => LimitState::Kept,
            Some(_) => LimitState::NotDecided,
            None => LimitState::NotTested,
        };
        let note = (state == LimitState::NotTested).then(|| match sign {
            None => "neither way of this metric is better".to_owned(),
            Some(_) => self.note.unwrap_or_else(|| "its ratio has no interval".to_owned()),
        });
        LimitAnswer {
            metric: self.metric,
            limit_pct,
            loss_pct: self.ratio.and_then(loss),
            loss_ci95_pct: interval,
            state,
            note,
        }
    }
}

fn shown(metric: &MetricComparison) -> String {
    metric.instance.as_ref().map_or_else(|| metric.name.clone(), |instance| format!("{}[{instance}]", metric.name))
}

impl Comparison {
    /// What becomes of each limit. One without a metric is of the primary metric.
    ///
    /// # Errors
    /// A metric that is not compared, or that has several instances.
    pub fn keeps(&self, limits: &[Limit]) -> Result<Vec<LimitAnswer>, String> {
        limits.iter().map(|limit| self.keeps_one(limit)).collect()
    }

    fn keeps_one(&self, limit: &Limit) -> Result<LimitAnswer, String> {
        let primary = self.primary.as_ref();
        let Some(name) = &limit.metric else {
            let primary = primary.ok_or("found no primary metric; name the metric of the limit: --limit METRIC=PCT")?;
            return Ok(Loss::of_primary(primary).answer(limit.pct));
        };
        // A number of the command's own may be called as `--value` calls it.
        let printed = values::metric_of(name);
        let is_named = |metric: &str| metric == name || metric == printed;
        if let Some(primary) = primary.filter(|primary| is_named(&primary.metric)) {
            return Ok(Loss::of_primary(primary).answer(limit.pct));
        }
        let named: Vec<&MetricComparison> =
            self.metrics.iter().filter(|metric| is_named(&metric.name) || shown(metric) == *name).collect();
        match named.as_slice() {
            [one] => Ok(Loss::of_metric(one).answer(limit.pct)),
            [] => Err(format!("found no metric {name} in these runs; --json lists those that are compared")),
            several => {
                let names: Vec<String> = several.iter().take(4).map(|one| shown(one)).collect();
                Err(format!("found {} of {name}; needed one of them: {}", several.len(), names.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(direction: &str, interval: [f64; 2], limit_pct: f64) -> LimitState {
        let ratio = Some(interval[0].midpoint(interval[1]));
        Loss { metric: "m".to_owned(), ratio, interval: Some(interval), direction, note: None }.answer(limit_pct).state
    }

    #[test]
    fn a_limit_is_decided_by_the_whole_interval() {
        assert_eq!(state("lower", [1.06, 1.08], 5.0), LimitState::Broken);
        assert_eq!(state("lower", [1.01, 1.04], 5.0), LimitState::Kept);
        assert_eq!(state("lower", [1.04, 1.08], 5.0), LimitState::NotDecided);
        assert_eq!(state("lower", [0.5, 0.6], 0.0), LimitState::Kept);
        // Throughput: a ratio of 0.75 is a loss of 25 %.
        assert_eq!(state("higher", [0.7, 0.8], 10.0), LimitState::Broken);
        assert_eq!(state("higher", [0.93, 0.97], 10.0), LimitState::Kept);
        assert_eq!(state("higher", [1.2, 1.3], 0.0), LimitState::Kept);
        assert_eq!(state("neutral", [1.2, 1.3], 0.0), LimitState::NotTested);
    }

    #[test]
    fn sides_that_each_have_one_value_need_no_interval() {
        let side = |mean: f64| Side { n: 4, mean: Some(mean), sd: Some(0.0) };
        assert_eq!(exact(Outcome::NotTested, None, &side(0.0), &side(0.0)), Some(1.0), "no fault on either side");
        assert_eq!(exact(Outcome::DeterministicDifference, Some(0.5), &side(1000.0), &side(500.0)), Some(0.5));
        let from_none = exact(Outcome::DeterministicDifference, None, &side(0.0), &side(3.0));
        assert!(from_none.is_some_and(|ratio| ratio > 1e9), "from none to some breaks any limit");
        assert_eq!(exact(Outcome::NotTested, None, &Side { n: 1, ..side(1.0) }, &side(1.0)), None, "one run");
        assert_eq!(exact(Outcome::Tested, Some(1.1), &side(1.0), &side(1.1)), None);
    }

    #[test]
    fn what_is_not_decided_is_bad_where_it_is_worse() {
        let of = |interval| LimitAnswer {
            metric: "m".to_owned(),
            limit_pct: 5.0,
            loss_pct: Some(6.0),
            loss_ci95_pct: Some(interval),
            state: LimitState::NotDecided,
            note: None,
        };
        assert!(of([4.0, 115.0]).is_bad() && !of([-4.0, 9.0]).is_bad());
    }

    #[test]
    fn what_is_no_limit_is_told() {
        assert_eq!("5".parse(), Ok(Limit { metric: None, pct: 5.0 }));
        assert_eq!("5%".parse(), Ok(Limit { metric: None, pct: 5.0 }));
        assert_eq!("a.b[x=y]=2.5".parse(), Ok(Limit { metric: Some("a.b[x=y]".to_owned()), pct: 2.5 }));
        for wrong in ["", "five", "-1", "nan", "inf", "=5", "a="] {
            assert!(wrong.parse::<Limit>().unwrap_err().contains("needed"), "{wrong}");
        }
    }
}
