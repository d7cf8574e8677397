//! The page sizes that memory had, and what was asked for and not got: the view `regions` without its single regions.

use pagelab_recording::Recording;
use pagelab_views::Result;
use pagelab_views::selection::Selection;
use pagelab_views::view::regions::{self, Shortfall, Size, Space};
use schemars::JsonSchema;
use serde::Serialize;

/// Memory by page size.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PageSizes {
    source: Option<String>,
    sizes: Vec<Size>,
    shortfalls: Vec<Shortfall>,
    address_spaces: Vec<Space>,
    address_spaces_total: usize,
}

impl PageSizes {
    /// Reads a recording; none where page sizes were not recorded.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(recording: &Recording, notes: &mut Vec<String>) -> Result<Option<Self>> {
        if recording.parts("region_pages")?.is_empty() {
            return Ok(None);
        }
        let answer = regions::collect(recording, &Selection::default())?;
        notes.extend(answer.notes);
        let data = answer.data;
        Ok((!data.sizes.is_empty()).then_some(Self {
            source: data.source,
            sizes: data.sizes,
            shortfalls: data.shortfalls,
            address_spaces: data.address_spaces,
            address_spaces_total: data.address_spaces_total,
        }))
    }
}
