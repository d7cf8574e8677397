//! Levels of the hugetlb pools, sample by sample: a mean says nothing about whether a pool ever ran dry.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::MetricsRow;
use pagelab_vocab::settings::parse_size;

use crate::error::Result;

/// Extremes of one pool over a recording, in pages of its size.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PoolLevels {
    /// Least number of pages that nobody used or had been promised (free less reserved).
    pub least_available: f64,
    /// The same at the first sample.
    pub first_available: f64,
    /// Largest number of pages in the pool, surplus included.
    pub most_pages: f64,
    /// Largest number of surplus pages.
    pub most_surplus: f64,
}

#[derive(Debug, Default)]
struct Reading {
    free: Option<f64>,
    reserved: Option<f64>,
    levels: Option<PoolLevels>,
    pages: f64,
    surplus: f64,
}

impl Reading {
    /// Takes the sample that is complete now into the extremes.
    fn settle(&mut self) {
        let (Some(free), Some(reserved)) = (self.free, self.reserved) else { return };
        let available = (free - reserved).max(0.0);
        let levels = self.levels.get_or_insert(PoolLevels {
            least_available: available,
            first_available: available,
            most_pages: 0.0,
            most_surplus: 0.0,
        });
        levels.least_available = levels.least_available.min(available);
        levels.most_pages = levels.most_pages.max(self.pages);
        levels.most_surplus = levels.most_surplus.max(self.surplus);
    }
}

/// Reads the levels of every pool; empty if they were not sampled.
pub(super) fn load(recording: &Recording) -> Result<BTreeMap<u64, PoolLevels>> {
    let mut readings: BTreeMap<u64, Reading> = BTreeMap::new();
    let mut now = None;
    recording.for_each::<MetricsRow>(|row| {
        let Some(field) = row.name.strip_prefix("hugetlb.") else { return };
        let (Some(bytes), Some(value)) = (row.instance.and_then(parse_size), row.value) else { return };
        if now != Some(row.ts) {
            readings.values_mut().for_each(Reading::settle);
            now = Some(row.ts);
        }
        let reading = readings.entry(bytes).or_default();
        match field {
            "free_pages" => reading.free = Some(value),
            "resv_pages" => reading.reserved = Some(value),
            "nr_pages" => reading.pages = value,
            "surplus_pages" => reading.surplus = value,
            _ => {}
        }
    })?;
    readings.values_mut().for_each(Reading::settle);
    Ok(readings.into_iter().filter_map(|(bytes, reading)| Some((bytes, reading.levels?))).collect())
}
