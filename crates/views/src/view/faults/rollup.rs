//! The figures of `show DIR faults` as tables.

use pagelab_recording::Recording;
use pagelab_recording::rollup::RollupRows;
use pagelab_recording::tables::{
    RollupFaultEndsColumns, RollupFaultEndsRow, RollupFaultIpsColumns, RollupFaultIpsRow, RollupFaultMappingsColumns,
    RollupFaultMappingsRow, RollupFaultTasksColumns, RollupFaultTasksRow, RollupFaultsColumns, RollupFaultsRow,
};

use super::ends::EndFigures;
use super::join::{Joined, OnMapping};
use crate::kinds::{FaultKind, each_kind};
use crate::mappings::Order;

/// The tables of these figures.
///
/// # Errors
/// As [`RollupRows::of`].
pub(crate) fn rows(joined: &Joined, kinds: &[(FaultKind, u64)]) -> pagelab_recording::Result<Vec<RollupRows>> {
    let mut by_kind = RollupFaultsColumns::default();
    for (kind, faults) in kinds {
        let FaultKind { code, major, kernel_ip, measured } = *kind;
        by_kind.push(&RollupFaultsRow { error_code: code, major, kernel_ip, measured, faults: *faults });
    }
    let mut by_task = RollupFaultTasksColumns::default();
    for (task_id, faults) in sorted(&joined.tasks) {
        by_task.push(&RollupFaultTasksRow { task_id: *task_id, faults: *faults });
    }
    let mut by_mapping = RollupFaultMappingsColumns::default();
    let unknown = OnMapping { faults: joined.unattributed, ..OnMapping::default() };
    let unknown = Some((None, &unknown)).filter(|(_, on)| on.faults > 0);
    for (mapping_id, on) in unknown.into_iter().chain(sorted(&joined.mappings).map(|(id, on)| (Some(*id), on))) {
        by_mapping.push(&RollupFaultMappingsRow {
            mapping_id,
            faults: on.faults,
            protection_faults: on.protection_faults,
            slots: on.slots,
            ascending: on.order.ascending,
            descending: on.order.descending,
            other: on.order.other,
        });
    }
    let mut by_ip = RollupFaultIpsColumns::default();
    for ((mapping_id, ip), faults) in sorted(&joined.ips) {
        by_ip.push(&RollupFaultIpsRow { mapping_id: *mapping_id, ip: *ip, faults: *faults });
    }
    let mut by_end = RollupFaultEndsColumns::default();
    for ((major, got), all) in &joined.ends.0 {
        let EndFigures { faults, p50_ns, p99_ns, total_ns } = *all;
        by_end.push(&RollupFaultEndsRow { major: *major, got: got.as_deref(), faults, p50_ns, p99_ns, total_ns });
    }
    Ok(vec![
        RollupRows::of(by_kind)?,
        RollupRows::of(by_task)?,
        RollupRows::of(by_mapping)?,
        RollupRows::of(by_ip)?,
        RollupRows::of(by_end)?,
    ])
}

/// Entries in the order of their keys, so that the same faults give the same bytes.
fn sorted<K: Ord, V>(map: &std::collections::HashMap<K, V>) -> impl Iterator<Item = (&K, &V)> {
    let mut entries: Vec<(&K, &V)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries.into_iter()
}

/// The figures of all faults of a recording; `None` if it has no rollup that can be used.
pub(super) fn read(recording: &Recording) -> Option<Joined> {
    let mut joined = Joined { attributed: !recording.parts("mappings").ok()?.is_empty(), ..Joined::default() };
    if !each_kind(recording, |kind, faults| joined.add_kind(kind, faults)) {
        return None;
    }
    joined.in_recording = joined.faults;
    let whole = recording.for_each_of_rollup::<RollupFaultTasksRow>(|row| {
        joined.tasks.insert(row.task_id, row.faults);
    }) && recording.for_each_of_rollup::<RollupFaultMappingsRow>(|row| match row.mapping_id {
        None => joined.unattributed = row.faults,
        Some(id) => {
            let RollupFaultMappingsRow { ascending, descending, other, .. } = row;
            let order = Order { ascending, descending, other, step_pages: None };
            let (faults, protection_faults, slots) = (row.faults, row.protection_faults, row.slots);
            joined.mappings.insert(id, OnMapping { faults, protection_faults, slots, order });
        }
    }) && recording.for_each_of_rollup::<RollupFaultIpsRow>(|row| {
        joined.ips.insert((row.mapping_id, row.ip), row.faults);
    }) && recording.for_each_of_rollup::<RollupFaultEndsRow<'_>>(|row| {
        let RollupFaultEndsRow { faults, p50_ns, p99_ns, total_ns, .. } = row;
        let key = (row.major, row.got.map(str::to_owned));
        joined.ends.0.insert(key, EndFigures { faults, p50_ns, p99_ns, total_ns });
    });
    whole.then_some(joined)
}
