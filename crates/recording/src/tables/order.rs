//! Putting nearly sorted rows in order, at a cost that follows the disorder.
//!
//! Rows come from per-CPU buffers in batches, so a second's worth is sorted but for windows of a few hundred rows
//! around the seams. Sorting a permutation of the whole and gathering every column through it would cost more than
//! encoding the part.

/// The windows of `times` that are out of order: where each begins, and the order of its rows (numbers count from
/// there; equal times keep their order). Rows outside of windows stay where they are.
pub(crate) fn disorder(times: &[i64]) -> Vec<(usize, Vec<u32>)> {
    if times.is_sorted() {
        return Vec::new();
    }
    // The largest time so far never falls, so it can be searched for where a late row belongs.
    let mut largest = Vec::with_capacity(times.len());
    let mut windows: Vec<(usize, usize)> = Vec::new();
    for (i, t) in times.iter().enumerate() {
        let before = largest.last().copied().unwrap_or(*t);
        largest.push(before.max(*t));
        if *t >= before {
            continue;
        }
        // Consecutive late rows mostly belong to the window that is open.
        let mut start = match windows.last() {
            Some((at, end)) if *end == i && largest[*at] <= *t => *at,
            _ => largest.partition_point(|m| m <= t),
        };
        while let Some((at, _)) = windows.pop_if(|(_, end)| *end > start) {
            start = start.min(at);
        }
        windows.push((start, i + 1));
    }
    windows
        .into_iter()
        .map(|(start, end)| {
            let mut order: Vec<u32> = (0..(end - start) as u32).collect();
            order.sort_by_key(|i| times[start + *i as usize]);
            (start, order)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(times: &[i64]) -> Vec<(i64, usize)> {
        let mut rows: Vec<(i64, usize)> = times.iter().copied().zip(0..).collect();
        for (at, order) in disorder(times) {
            let window: Vec<_> = order.iter().map(|i| rows[at + *i as usize]).collect();
            rows[at..at + window.len()].copy_from_slice(&window);
        }
        rows
    }

    proptest! {
        #[test]
        fn windows_sort_like_a_stable_sort(times in prop::collection::vec(0..50_i64, 0..200)) {
            let mut wanted: Vec<(i64, usize)> = times.iter().copied().zip(0..).collect();
            wanted.sort_by_key(|r| r.0);
            prop_assert_eq!(sorted(&times), wanted);
        }
    }

    #[test]
    fn windows_are_as_small_as_the_disorder() {
        // Two CPUs flush 128 rows each in turn: every window is one pair of batches.
        let mut times = Vec::new();
        for pair in 0..50 {
            for cpu in 0..2 {
                times.extend((0..128).map(|i| pair * 1000 + i * 4 + cpu));
            }
        }
        let windows = disorder(&times);
        assert_eq!(windows.len(), 50);
        assert!(windows.iter().all(|(_, order)| order.len() <= 256));
    }
}
