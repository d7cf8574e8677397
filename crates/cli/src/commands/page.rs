//! Writing an HTML page.

use std::path::Path;

use pagelab_analysis::compare::Comparison;
use pagelab_output::OutputFile;
use pagelab_page::{Page, PageError};

use crate::failure::Failure;

/// Whether there will be a page: asked before hours of runs are made for it.
pub(super) fn can_be_written() -> Result<(), Failure> {
    pagelab_page::is_built().map_err(|error| Failure::host(anyhow::anyhow!(error)))
}

/// Writes a page of comparisons into a file.
pub(super) fn write_comparisons(file: &Path, comparisons: &[Comparison]) -> Result<(), Failure> {
    write(file, of_comparisons(comparisons))
}

/// A page of comparisons.
pub(super) fn of_comparisons(comparisons: &[Comparison]) -> Result<Page<'_>, PageError> {
    let first = comparisons.first();
    let title = first.map_or_else(String::new, |one| format!("{} against {}", one.test.label, one.base.label));
    Page::new(title, comparisons)
}

/// Writes a page into a file.
pub(super) fn write(file: &Path, page: Result<Page<'_>, PageError>) -> Result<(), Failure> {
    let html = page.and_then(|page| page.html()).map_err(|error| match error {
        PageError::Recording(error) => Failure::input(error),
        other => Failure::host(anyhow::anyhow!(other)),
    })?;
    Ok(OutputFile::write(file, html.as_bytes())?)
}
