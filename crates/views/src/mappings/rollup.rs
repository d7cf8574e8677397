//! Classes of mappings as tables.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::rollup::RollupRows;
use pagelab_recording::tables::{
    RollupHugetlbRefusalsColumns, RollupHugetlbRefusalsRow, RollupMappingClassesColumns, RollupMappingClassesRow,
    RollupMappingsColumns, RollupMappingsRow,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ClassKey, ClassProfile, Example, MappingProfile, Order, RefusedHugetlb, SlotStats, is_page_size};

/// The word of a kind of memory or of an advice in the table: the one that it has in every document.
fn word_of(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

fn of_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}

/// The tables of a profile; without one, which a recording without mappings has not, they have no rows.
///
/// # Errors
/// As [`RollupRows::of`].
pub(crate) fn rows(profile: Option<&MappingProfile>) -> pagelab_recording::Result<Vec<RollupRows>> {
    let (mut whole, mut classes) = (RollupMappingsColumns::default(), RollupMappingClassesColumns::default());
    let mut refusals = RollupHugetlbRefusalsColumns::default();
    if let Some(profile) = profile {
        whole.push(&RollupMappingsRow {
            huge_bytes: profile.huge_bytes,
            page_bytes: profile.page_bytes,
            faults: profile.faults,
            window_faults: profile.window_faults,
            unattributed: profile.unattributed,
            classes_folded: profile.classes_folded,
        });
        profile.classes.iter().for_each(|class| push_class(&mut classes, class));
        for refused in &profile.refused_hugetlb {
            refusals.push(&RollupHugetlbRefusalsRow {
                page_bytes: refused.page_bytes,
                errno: refused.errno,
                count: refused.count,
                asked_bytes: refused.bytes,
                smallest_bytes: refused.smallest_bytes,
                largest_bytes: refused.largest_bytes,
                first_ts: refused.first_ts,
                last_ts: refused.last_ts,
                comm: refused.comm.as_deref(),
            });
        }
    }
    Ok(vec![RollupRows::of(whole)?, RollupRows::of(classes)?, RollupRows::of(refusals)?])
}

fn push_class(columns: &mut RollupMappingClassesColumns, class: &ClassProfile) {
    let (misalignments, misalignment_mappings): (Vec<u64>, Vec<u64>) = class.misalignment.iter().unzip();
    // Errors are positive numbers.
    let failed = class.failed.iter().map(|(errno, calls)| (u64::from(errno.unsigned_abs()), *calls));
    let (failed_errnos, failed_calls): (Vec<u64>, Vec<u64>) = failed.unzip();
    let (whole, partial) = (&class.whole, &class.partial);
    let example = class.example.as_ref();
    columns.push(&RollupMappingClassesRow {
        kind: &word_of(&class.key.kind),
        path: class.key.path.as_deref(),
        size_bytes: class.key.size_bytes,
        comm: class.key.comm.as_deref(),
        advice: &word_of(&class.key.advice),
        mappings: class.mappings,
        mapped_bytes: class.bytes,
        prior: class.prior,
        address_asked: class.address_asked,
        after_refusal: class.after_refusal,
        eligible_slots: class.eligible_slots,
        slots_if_aligned: class.slots_if_aligned,
        misalignments: &misalignments,
        misalignment_mappings: &misalignment_mappings,
        misalignment_others: class.misalignment_others,
        faults: class.faults,
        window_faults: class.window_faults,
        protection_faults: class.protection_faults,
        ascending: class.order.ascending,
        descending: class.order.descending,
        other: class.order.other,
        step_pages: class.order.step_pages,
        whole_touched: whole.touched,
        whole_few: whole.few,
        whole_many: whole.many,
        whole_faults: whole.faults,
        whole_window_faults: whole.window_faults,
        whole_window_faults_in_many: whole.window_faults_in_many,
        whole_by_pages: &whole.by_pages,
        partial_touched: partial.touched,
        partial_few: partial.few,
        partial_many: partial.many,
        partial_faults: partial.faults,
        partial_window_faults: partial.window_faults,
        partial_window_faults_in_many: partial.window_faults_in_many,
        partial_by_pages: &partial.by_pages,
        failed_errnos: &failed_errnos,
        failed_calls: &failed_calls,
        example_mm_id: example.map(|example| example.mm_id),
        example_mapping_id: example.and_then(|example| example.mapping_id),
        example_start: example.map(|example| example.start),
        example_len: example.map(|example| example.len),
        example_mapped_ts: example.map(|example| example.mapped_ts),
        example_ended_ts: example.and_then(|example| example.ended_ts),
        example_faults: example.map(|example| example.faults),
    });
}

/// The profile of a recording; `None` if it has no rollup that can be used.
pub(super) fn read(recording: &Recording) -> Option<MappingProfile> {
    let mut profile = None;
    let (mut classes, mut refused) = (Vec::new(), Vec::new());
    let whole = recording.for_each_of_rollup::<RollupMappingsRow>(|row| {
        profile = Some(MappingProfile {
            huge_bytes: row.huge_bytes,
            page_bytes: row.page_bytes,
            classes: Vec::new(),
            faults: row.faults,
            window_faults: row.window_faults,
            unattributed: row.unattributed,
            refused_hugetlb: Vec::new(),
            classes_folded: row.classes_folded,
        });
    }) && recording.for_each_of_rollup::<RollupMappingClassesRow<'_>>(|row| classes.push(class_of(&row)))
        && recording.for_each_of_rollup::<RollupHugetlbRefusalsRow<'_>>(|row| {
            refused.push(RefusedHugetlb {
                page_bytes: row.page_bytes,
                errno: row.errno,
                count: row.count,
                bytes: row.asked_bytes,
                smallest_bytes: row.smallest_bytes,
                largest_bytes: row.largest_bytes,
                first_ts: row.first_ts,
                last_ts: row.last_ts,
                comm: row.comm.map(str::to_owned),
            });
        });
    // A class that cannot be read leaves the whole to the events.
    let classes: Vec<ClassProfile> = classes.into_iter().collect::<Option<_>>()?;
    let is_sound = |profile: &MappingProfile| [&profile.huge_bytes, &profile.page_bytes].into_iter().all(is_page_size);
    let profile = profile.filter(|profile| whole && is_sound(profile))?;
    Some(MappingProfile { classes, refused_hugetlb: refused, ..profile })
}

fn class_of(row: &RollupMappingClassesRow<'_>) -> Option<ClassProfile> {
    let key = ClassKey {
        kind: of_word(row.kind)?,
        path: row.path.map(str::to_owned),
        size_bytes: row.size_bytes,
        comm: row.comm.map(str::to_owned),
        advice: of_word(row.advice)?,
    };
    let misalignment = row.misalignments.iter().copied().zip(row.misalignment_mappings.iter().copied());
    let failed = row.failed_errnos.iter().zip(row.failed_calls);
    let failed: Option<BTreeMap<i32, u64>> =
        failed.map(|(errno, calls)| Some((i32::try_from(*errno).ok()?, *calls))).collect();
    let whole = SlotStats {
        touched: row.whole_touched,
        few: row.whole_few,
        many: row.whole_many,
        faults: row.whole_faults,
        window_faults: row.whole_window_faults,
        window_faults_in_many: row.whole_window_faults_in_many,
        by_pages: row.whole_by_pages.try_into().ok()?,
    };
    let partial = SlotStats {
        touched: row.partial_touched,
        few: row.partial_few,
        many: row.partial_many,
        faults: row.partial_faults,
        window_faults: row.partial_window_faults,
        window_faults_in_many: row.partial_window_faults_in_many,
        by_pages: row.partial_by_pages.try_into().ok()?,
    };
    let RollupMappingClassesRow { ascending, descending, other, step_pages, .. } = *row;
    Some(ClassProfile {
        key,
        mappings: row.mappings,
        bytes: row.mapped_bytes,
        prior: row.prior,
        address_asked: row.address_asked,
        after_refusal: row.after_refusal,
        eligible_slots: row.eligible_slots,
        slots_if_aligned: row.slots_if_aligned,
        misalignment: misalignment.collect(),
        misalignment_others: row.misalignment_others,
        faults: row.faults,
        window_faults: row.window_faults,
        protection_faults: row.protection_faults,
        order: Order { ascending, descending, other, step_pages },
        whole,
        partial,
        failed: failed?,
        example: example_of(row),
    })
}

fn example_of(row: &RollupMappingClassesRow<'_>) -> Option<Example> {
    Some(Example {
        mm_id: row.example_mm_id?,
        mapping_id: row.example_mapping_id,
        start: row.example_start?,
        len: row.example_len?,
        mapped_ts: row.example_mapped_ts?,
        ended_ts: row.example_ended_ts,
        faults: row.example_faults?,
    })
}
