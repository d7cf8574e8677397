//! experiments/README.md: the experiments and their results.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::ReproduceError;
use crate::measured::Measured;
use crate::recipe::Recipe;

/// One experiment in the index.
#[derive(Debug, Clone)]
pub struct IndexLine {
    /// Its folder's name.
    pub name: String,
    /// Its subject.
    pub title: String,
    /// In a sentence.
    pub summary: String,
    /// What came out; none before it is carried out.
    pub measured: Option<Measured>,
}

impl IndexLine {
    /// Of an experiment.
    pub fn of(recipe: &Recipe) -> Self {
        Self {
            name: recipe.name.clone(),
            title: recipe.title.clone(),
            summary: recipe.summary.clone(),
            measured: Measured::load(&recipe.dir).ok(),
        }
    }
}

/// Writes the index.
pub fn index(file: &Path, lines: &[IndexLine]) -> Result<(), ReproduceError> {
    crate::write(file, text(lines))
}

fn text(lines: &[IndexLine]) -> String {
    let mut text = String::from(
        "<!-- Written by `pagelab reproduce --index`. -->\n\
         # Published experiments, carried out again\n\n\
         Each folder has a `reproduce.toml` (docs/reproduce.md), the figures that others published, and a page with published and\n\
         measured figures side by side. `make experiments` carries out all of them, `make experiments-check` computes every\n\
         figure once more from the recordings that are kept.\n\n\
         | experiment | what it shows | figures | expectations missed | took |\n|---|---|---|---|---|\n",
    );
    for line in lines {
        let (figures, missed, took) = match &line.measured {
            Some(measured) => {
                let missed: Vec<String> = measured.missed().map(|figure| format!("`{}`", figure.id)).collect();
                let missed = if missed.is_empty() { "none".to_owned() } else { missed.join(", ") };
                (measured.figure.len().to_string(), missed, format!("{:.0} s", measured.took_s()))
            }
            None => ("not carried out yet".to_owned(), String::new(), String::new()),
        };
        let _ = writeln!(
            text,
            "| [{}]({}/README.md) | {}: {} | {figures} | {missed} | {took} |",
            line.name, line.name, line.title, line.summary
        );
    }
    text
}
