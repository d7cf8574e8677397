//! Published experiments, carried out again: steps that record, figures taken from their recordings, and a page that
//! shows published and measured side by side. The format is docs/reproduce.md.
//!
//! The way of an experiment:
//!
//! 1. [`Recipe::load`] reads `reproduce.toml` and `published.toml`; mistakes have file and line.
//! 2. [`reproduce`] makes the steps that are not kept ([`steps`]), takes each figure from recordings by SQL or from a
//!    document by a pointer ([`figures`]), and writes `measured.toml` and `README.md` ([`readme`]).
//! 3. [`check`] takes all figures once more from what is kept and compares them with what is written.
//!
//! SQL and the choice of the machine that a plan runs on are the command line's: it hands them in as [`Tools`].

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod dates;
mod error;
mod figures;
mod index;
mod join;
mod kept;
mod measured;
mod pointer;
mod published;
mod read;
mod readme;
mod recipe;
mod steps;
mod value;
mod view;

use std::fs;
use std::path::{Path, PathBuf};

use pagelab_experiment::{Plan, RunOptions};
use pagelab_output::{Folder, Sync};

pub use error::{Refused, ReproduceError, StepFailure};
pub use index::{IndexLine, index};
pub use measured::{MEASURED_TOML, Measured, MeasuredFigure, MeasuredStep, Taken};
pub use recipe::{Figure, Recipe, Step, Work as StepWork};
pub use value::Value;

/// The page that is written.
pub const README: &str = "README.md";

/// What the experiment's logic needs from its surroundings.
pub trait Tools {
    /// Makes the runs of a plan and compares them; `true` if the user ended it early.
    fn make_set(&mut self, plan: &Plan, options: &RunOptions) -> Result<bool, Refused>;

    /// The one value that a query gives over recordings; null is `None`. The error is a reason.
    fn query(&self, recordings: &[PathBuf], sql: &str) -> Result<Option<Value>, String>;

    /// Something that the user may want to see while it goes on.
    fn say(&mut self, line: &str);

    /// Whether the user asked to end.
    fn stopped(&self) -> bool;
}

/// Where and how an experiment is carried out.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// What is kept goes here.
    pub out: PathBuf,
    /// The program that commands of steps mean by `pagelab`.
    pub pagelab: PathBuf,
    /// Make steps anew that are kept.
    pub again: bool,
}

/// An experiment that has been carried out. If a step failed, or the user ended it, nothing was written.
#[derive(Debug)]
pub struct Reproduced {
    /// What `measured.toml` holds.
    pub measured: Measured,
    /// Steps that came to nothing.
    pub failed: Vec<StepFailure>,
    /// The user ended it early.
    pub interrupted: bool,
    /// Steps made in this call; the others were kept.
    pub made: usize,
}

/// Makes the steps that are not kept, takes the figures, writes `measured.toml` and `README.md`.
pub fn reproduce(
    recipe: &Recipe,
    options: &ReproduceOptions,
    tools: &mut dyn Tools,
) -> Result<Reproduced, ReproduceError> {
    // A mistake in the prose is found before an hour of runs, not after it.
    readme::page(recipe, &Measured::unmeasured(recipe), None)?;
    let done = steps::make(recipe, options, tools)?;
    let mut measured = figures::take(recipe, &options.out, tools);
    measured.step = done.steps;
    let outcome = Reproduced { measured, failed: done.failed, interrupted: done.interrupted, made: done.made };
    // Figures of an earlier day are worth more than gaps.
    if outcome.interrupted || !outcome.failed.is_empty() {
        return Ok(outcome);
    }
    let page = readme::page(recipe, &outcome.measured, Some(&options.out))?;
    write(&recipe.dir.join(MEASURED_TOML), outcome.measured.to_toml())?;
    write(&recipe.dir.join(README), &page.text)?;
    for (kept, beside) in &page.pictures {
        let picture = fs::read(kept).map_err(ReproduceError::io("read", kept))?;
        write(beside, &picture)?;
    }
    Ok(outcome)
}

/// What [`check`] found.
#[derive(Debug, Default)]
pub struct Checked {
    /// Figures recomputed and found as they are written.
    pub same: usize,
    /// What is not as it is written.
    pub differs: Vec<String>,
    /// Recordings and documents that figures need and that are not kept.
    pub not_kept: Vec<String>,
}

/// Takes every figure once more from what is kept and compares it with what is written. Makes and writes nothing.
pub fn check(recipe: &Recipe, out: &Path, tools: &dyn Tools) -> Result<Checked, ReproduceError> {
    let written = Measured::load(&recipe.dir)?;
    let mut checked = Checked::default();
    let found = figures::take(recipe, out, tools);
    for figure in &found.figure {
        match written.figure.iter().find(|other| other.id == figure.id) {
            None => checked.differs.push(format!("figure {}: found {}, written nothing", figure.id, figure.shown())),
            Some(other) => figure.compare(other, &mut checked),
        }
    }
    let gone = written.figure.iter().filter(|other| found.figure.iter().all(|figure| figure.id != other.id));
    checked.differs.extend(gone.map(|other| format!("figure {}: written, and reproduce.toml has none", other.id)));
    if checked.not_kept.is_empty() {
        let page = readme::page(recipe, &written, Some(out))?;
        let path = recipe.dir.join(README);
        let there = fs::read_to_string(&path).map_err(ReproduceError::io("read", &path))?;
        if let Some(line) = first_difference(&page.text, &there) {
            checked.differs.push(format!(
                "{}:{line}: is not what README.in.md and the figures give; change README.in.md, then: pagelab reproduce {}",
                path.display(),
                recipe.dir.display()
            ));
        }
        for (kept, beside) in &page.pictures {
            let read = |path: &PathBuf| fs::read(path).map_err(ReproduceError::io("read", path));
            if read(kept)? != read(beside)? {
                let (kept, beside) = (kept.display(), beside.display());
                checked.differs.push(format!(
                    "{beside}: is not the same as {kept}; type: pagelab reproduce {}",
                    recipe.dir.display()
                ));
            }
        }
    }
    checked.not_kept.sort();
    checked.not_kept.dedup();
    Ok(checked)
}

/// The first line, from 1, that differs.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one.lines().zip(other.lines()).take_while(|(left, right)| left == right).count();
    Some(same + 1)
}

/// Writes a file so that a reader meets the old one or the new one.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), ReproduceError> {
    let (folder, name) = Folder::parent_of(path)?;
    Ok(folder.write_atomic(&name, text.as_ref(), Sync::No)?)
}
