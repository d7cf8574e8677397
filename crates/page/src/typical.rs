//! Which run of a side is drawn where a picture can only be of one.

use std::path::PathBuf;

use pagelab_analysis::compare::SideRuns;

/// The run whose primary metric is the side's median, the lower one of an even number; without a primary metric the first that
/// counts.
pub(crate) fn typical(side: &SideRuns) -> Option<PathBuf> {
    let counted = || side.runs.iter().filter(|run| run.excluded.is_none());
    let mut ranked: Vec<(f64, &str)> = counted().filter_map(|run| Some((run.primary?, run.dir.as_str()))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = ranked.get(ranked.len().saturating_sub(1) / 2).map(|(_, dir)| *dir);
    median.or_else(|| counted().map(|run| run.dir.as_str()).next()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(primaries: &[Option<f64>], left_out: usize) -> SideRuns {
        let run = |(place, primary): (usize, &Option<f64>)| {
            let excluded = (place == left_out).then(|| json!({"reason": "failed", "code": 1, "signal": null}));
            json!({"dir": place.to_string(), "run": place, "round": null, "excluded": excluded, "primary": primary, "notes": []})
        };
        let runs: Vec<_> = primaries.iter().enumerate().map(run).collect();
        serde_json::from_value(json!({"label": "base", "n": runs.len(), "runs": runs})).unwrap()
    }

    #[test]
    fn the_run_in_the_middle_is_drawn() {
        let of = |primaries: &[Option<f64>], left_out| {
            typical(&side(primaries, left_out)).map(|dir| dir.display().to_string())
        };
        assert_eq!(of(&[Some(9.0), Some(1.0), Some(5.0)], 9).as_deref(), Some("2"));
        assert_eq!(of(&[Some(9.0), Some(1.0), Some(5.0)], 2).as_deref(), Some("1"), "what does not count is not drawn");
        assert_eq!(of(&[None, None], 0).as_deref(), Some("1"), "without a metric the first that counts");
        assert_eq!(of(&[], 0), None);
    }
}
