//! A history of recordings: where the level of its metric changed, by how much, and how sure that is.
//!
//! A *point* is one place of the history (a night, a build): one or more runs of the same thing. Its value is the mean of its
//! runs, and the point is the unit of statistics: runs of one night share the night's machine, boot and layout, so that
//! more of them make a point more precise and not more numerous. [`Trend`] is the document of `trend --json`.
//!
//! # The method
//!
//! 1. *One level?* The statistic ([`fits`]) is the log likelihood ratio of the best step, line or stretch off the level,
//!    against one level; single wild points are replaced by the median of their neighbours first. The p value is the share of
//!    random orders of the points that reach it, so it holds for noise of any distribution, exactly, as long as any order is
//!    as likely as another. That is the permutation test of E-divisive means (D. S. Matteson and N. A. James, "A
//!    nonparametric approach for multiple change point analysis of multivariate data", JASA 109, 2014), which D. Daly,
//!    W. Brown, H. Ingo, J. O'Leary and D. Bradford ("The use of change point detection to identify software performance
//!    regressions in a continuous integration system", ICPE 2020) use at MongoDB, and Hunter (M. Fleming, P. Kolaczkowski and
//!    others, "Hunter: using change point detection to hunt for performance regressions", ICPE 2023) with a t test in its
//!    place. Theirs looks for one split at a time, in which two changes that undo each other hide.
//! 2. *Steps or a drift?* All of these methods cut a slow drift into a chain of steps. Here steps are believed only if they
//!    describe the points better than they describe histories in which the drift, a parabola, is true ([`detect`], after
//!    Cox). What fails that is a drift if the parabola is the better description, and else `undecided`: it changed, and
//!    step or drift cannot be told.
//! 3. *Where else?* The parts between steps are searched in the same way. A part of n of N points is tested at alpha n / N,
//!    so that the chance of any false change in the whole history stays below alpha: N. Meinshausen, "Hierarchical testing of
//!    variable importance", Biometrika 95 (2008). p values are given after that correction.
//! 4. *Each by itself.* Every change point must be shown once more by the points between its neighbours, which also place it.
//! 5. *Correlated noise.* If neighbours are correlated by more than chance (in differences, which do not know of levels, or in
//!    what the levels leave over), random orders are replaced by draws of an autoregression of first order.
//!
//! Sizes are ratios of geometric means of the levels (differences of means where a value is not positive), with t
//! intervals from the noise about all levels. They are estimated at the place that was chosen because the change looks
//! largest there: next to the limit of what can be found they are too large by some.
//!
//! What it finds in simulated histories, and its limits, are in `docs/trend.md`; `tests/trend.rs` makes the table there.

mod detect;
mod document;
mod fits;
mod levels;
mod make;
mod null;
mod points;
mod series;

pub use detect::DetectOptions;
pub use document::{ChangePoint, Correlation, Drift, Level, NewestPoints, Point, PointRun, Scale, Shape, Trend};
pub use make::{Order, TrendOptions, of_values, trend};
