//! `show DIR faults`: where the page faults were, by class of mapping, mapping, instruction and task.

pub(crate) mod count;
pub(crate) mod ends;
pub(crate) mod join;
pub(crate) mod rollup;

use pagelab_recording::Recording;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::mappings::{ClassProfile, MappingProfile, Order, ProfileOptions};
use crate::read::{self, PathText, Tasks};
use crate::selection::{Selection, cut};
use crate::stacks::functions_at;
use count::FaultScale;
pub use ends::{EndsView, OneCollapse, OneEnd};
use join::{Join, Joined, Mappings, Place, places};

/// Mappings of one class: alike in kind, path, size and advice.
#[derive(Debug, Serialize)]
pub struct ClassRow {
    /// Kind, path, size, name and advice in words.
    pub class: String,
    /// Kind of memory in a word.
    pub kind: &'static str,
    /// Path of the file, if it is one.
    pub path: Option<String>,
    /// Lengths from this power of two to the next.
    pub size_bytes: u64,
    /// Mappings.
    pub mappings: u64,
    /// Bytes of these mappings.
    pub mapped_bytes: u64,
    /// Faults, those on present pages included.
    pub faults: u64,
    /// Of those, faults on a page that was present.
    pub protection_faults: u64,
    /// Order of first touches in a word; null if there are too few faults to tell.
    pub order: Option<&'static str>,
    /// Commonest distance between faults, pages; null if there is none.
    pub step_pages: Option<i64>,
    /// Faults that found no page, per base page mapped.
    pub faults_per_page: Option<f64>,
    /// Faults that found no page, per slot touched.
    pub faults_per_slot: Option<f64>,
    /// Slots touched that lay whole in one memory area, so that a huge page was possible.
    pub whole_slots: u64,
    /// Of those, the ones filled page by page.
    pub whole_slots_by_page: u64,
    /// Slots touched that did not.
    pub partial_slots: u64,
}

/// One mapping with the faults on it.
#[derive(Debug, Serialize)]
pub struct OneMapping {
    /// The mapping, unique in the recording.
    pub mapping_id: u32,
    /// Where it begins, hexadecimal.
    pub addr: Option<String>,
    /// Its length, bytes.
    pub len_bytes: Option<u64>,
    /// Its kind if it has no path.
    pub kind: Option<&'static str>,
    /// Path of the file.
    #[serde(flatten)]
    pub path: PathText,
    /// Process that made it.
    pub pid: Option<i32>,
    /// Name of that task when it made it.
    pub comm: Option<String>,
    /// When it was made, on the recording's clock.
    pub mapped_ns: Option<i64>,
    /// Page faults.
    pub faults: u64,
    /// Of those, faults on a page that was present.
    pub protection_faults: u64,
    /// Order of first touches in a word; null if there are too few faults to tell.
    pub order: Option<&'static str>,
    /// First touches of a page by the step from the one before: a little up, a little down, elsewhere.
    pub ascending_steps: u64,
    /// See `ascending_steps`.
    pub descending_steps: u64,
    /// See `ascending_steps`.
    pub other_steps: u64,
    /// Faults that found no page, per base page mapped.
    pub faults_per_page: Option<f64>,
    /// Faults that found no page, per slot touched.
    pub faults_per_slot: Option<f64>,
    /// Slots of the huge page size that were touched.
    pub slots: u64,
}

/// Mappings by the order in which their pages were first touched.
#[derive(Debug, Serialize)]
pub struct OneOrder {
    /// Null: too few faults to tell.
    pub order: Option<&'static str>,
    /// Mappings touched in this order.
    pub mappings: u64,
    /// Faults on them.
    pub faults: u64,
}

/// The code that took faults.
#[derive(Debug, Serialize)]
pub struct OneIp {
    /// Address, hexadecimal: of several the one with most faults.
    pub ip: String,
    /// Addresses at which processes have this code.
    pub addresses: u64,
    /// Path of the module, or `[kernel]`.
    #[serde(flatten)]
    pub module: PathText,
    /// Offset in the module's file, hexadecimal.
    pub module_offset: Option<String>,
    /// Function; null unless a stack of the recording went through this instruction.
    pub symbol: Option<String>,
    /// Page faults.
    pub faults: u64,
}

/// One task with its faults.
#[derive(Debug, Serialize)]
pub struct OneTask {
    /// The task, unique in the recording.
    pub task_id: u32,
    /// Process id; null if the task is not known.
    pub pid: Option<i32>,
    /// Thread id; null if the task is not known.
    pub tid: Option<i32>,
    /// Name of the task; null if it is not known.
    pub comm: Option<String>,
    /// Page faults.
    pub faults: u64,
}

/// Page faults by class of mapping, mapping, order, instruction and task.
#[derive(Debug, Serialize)]
pub struct FaultsView {
    /// Faults recorded.
    pub faults_in_recording: u64,
    /// Faults selected; the rest is about these.
    pub faults: u64,
    /// Null where the error code is not that of x86.
    pub user: Option<u64>,
    /// Taken in kernel mode; null if only user mode was recorded.
    pub kernel: Option<u64>,
    /// Faults by writes; null unless every error code is known.
    pub write: Option<u64>,
    /// Faults by instruction fetches; null unless every error code is known.
    pub instruction: Option<u64>,
    /// On present pages; null unless every error code is known.
    pub protection: Option<u64>,
    /// Null unless it is known of every fault, or all major ones were reported.
    pub major: Option<u64>,
    /// How they ended; null if that was not recorded.
    pub ends: Option<EndsView>,
    /// Huge pages made of small ones afterwards, by result.
    pub collapses: Vec<OneCollapse>,
    /// Null if no mappings were recorded.
    pub unattributed: Option<u64>,
    /// Base page size, bytes.
    pub page_bytes: u64,
    /// Huge page size, bytes.
    pub slot_bytes: u64,
    /// Null if they cannot be made; a note says why.
    pub classes: Option<Vec<ClassRow>>,
    /// Rows before the list was cut; null without a list.
    pub classes_total: Option<usize>,
    /// Mappings, ranked.
    pub mappings: Vec<OneMapping>,
    /// Rows before the list was cut.
    pub mappings_total: usize,
    /// Mappings by order of first touches.
    pub orders: Vec<OneOrder>,
    /// Instructions, most faults first.
    pub instructions: Vec<OneIp>,
    /// Rows before the list was cut.
    pub instructions_total: usize,
    /// Tasks, most faults first.
    pub tasks: Vec<OneTask>,
    /// Rows before the list was cut.
    pub tasks_total: usize,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<FaultsView>> {
    let sort = selection.sort_by(&["faults", "per_page", "per_slot", "bytes"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let mappings = Mappings::load(recording, &mut notes)?;
    let profile_options = ProfileOptions::of_recording(recording, &mut notes)?;
    let scale = FaultScale::of(recording, profile_options.huge_bytes);
    let join = Join { selection, tasks: &tasks, mappings: &mappings, scale };
    let mut joined = join.run(recording, &mut notes)?;
    let ends = EndsView::of(recording, std::mem::take(&mut joined.ends), &mut notes);
    let collapses = ends::collapses(recording, selection, &tasks, &mut notes)?;
    read::lost(recording, Stream::Faults, &mut notes)?;
    if joined.in_recording == 0 {
        absence::none_recorded(recording, Stream::Faults, "faults", &mut notes)?;
    } else if joined.faults == 0 {
        notes.push(format!("none of the {} faults is selected", joined.in_recording));
    }
    let classes = classes(recording, selection, &profile_options, &mut notes)?;
    let mut data = document(recording, &join, &joined, classes, sort, &mut notes)?;
    data.major = data.major.or(ends.as_ref().map(|ends| ends.major));
    (data.ends, data.collapses) = (ends, collapses);
    Ok(Answer::new("faults", recording, notes, data))
}

/// The classes of mappings. They are made over all tasks: whether a slot could be huge depends on all of them.
fn classes(
    recording: &Recording,
    selection: &Selection,
    profile_options: &ProfileOptions,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<ClassRow>>> {
    if selection.by_task() {
        notes.push("classes of mappings are made over all tasks: leave out --pid and --comm to see them".to_owned());
        return Ok(None);
    }
    if recording.span().is_part() {
        notes.push(
            "classes of mappings are made over all of the time: leave out --from and --to to see them".to_owned(),
        );
        return Ok(None);
    }
    let profile = match MappingProfile::load(recording.dir(), profile_options) {
        Ok(Some(profile)) => profile,
        Ok(None) => return Ok(None),
        Err(crate::ViewError::Recording(error)) if error.is_damage() => {
            notes.push(format!("no classes of mappings: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let wanted = |class: &&ClassProfile| selection.wants_path(class.key.path.as_deref().map(str::as_bytes));
    Ok(Some(profile.classes.iter().filter(wanted).map(|class| class_of(class, profile.page_bytes)).collect()))
}

fn class_of(class: &ClassProfile, page_bytes: u64) -> ClassRow {
    let slots = class.whole.touched + class.partial.touched;
    ClassRow {
        class: class.key.to_string(),
        kind: class.key.kind.word(),
        path: class.key.path.clone(),
        size_bytes: class.key.size_bytes,
        mappings: class.mappings,
        mapped_bytes: class.bytes,
        faults: class.faults + class.protection_faults,
        protection_faults: class.protection_faults,
        order: class.order.word(),
        step_pages: class.order.step_pages,
        faults_per_page: ratio(class.faults, class.bytes / page_bytes),
        faults_per_slot: ratio(class.whole.faults + class.partial.faults, slots),
        whole_slots: class.whole.touched,
        whole_slots_by_page: class.whole.many,
        partial_slots: class.partial.touched,
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn document(
    recording: &Recording,
    join: &Join<'_>,
    joined: &Joined,
    classes: Option<Vec<ClassRow>>,
    sort: &str,
    notes: &mut Vec<String>,
) -> Result<FaultsView> {
    let limit = join.selection.limit(true);
    let x86 = |count: u64| join.scale.x86.then_some(count);
    let user_mode_only = note_unknown(recording, joined, notes);
    let coded = |count: u64| (join.scale.x86 && joined.codes.known == joined.faults).then_some(count);
    let mut mappings: Vec<OneMapping> = joined.mappings.keys().map(|id| mapping_of(*id, join, joined)).collect();
    let key = |row: &OneMapping| match sort {
        "per_page" => row.faults_per_page,
        "per_slot" => row.faults_per_slot,
        "bytes" => row.len_bytes.map(|len| len as f64),
        _ => Some(row.faults as f64),
    };
    mappings.sort_by(|a, b| {
        read::falling(key(a), key(b)).then(b.faults.cmp(&a.faults)).then(a.mapping_id.cmp(&b.mapping_id))
    });
    let orders = orders(&mappings);
    let (mappings, mappings_total) = cut(mappings, limit);
    let classes = classes.map(|mut classes| {
        // What took no fault has no rank among faults.
        classes.retain(|class| class.faults > 0 || sort != "faults");
        let key = |row: &ClassRow| match sort {
            "per_page" => row.faults_per_page,
            "per_slot" => row.faults_per_slot,
            "bytes" => Some(row.mapped_bytes as f64),
            _ => Some(row.faults as f64),
        };
        classes.sort_by(|a, b| read::falling(key(a), key(b)).then(b.faults.cmp(&a.faults)).then(a.class.cmp(&b.class)));
        cut(classes, limit)
    });
    let (classes, classes_total) = classes.map_or((None, None), |(rows, total)| (Some(rows), Some(total)));
    let (instructions, instructions_total) = cut(instructions(recording, joined, join.mappings, notes)?, limit);
    let (tasks, tasks_total) = cut(tasks(joined, join.tasks), limit);
    Ok(FaultsView {
        faults_in_recording: joined.in_recording,
        faults: joined.faults,
        user: x86(joined.codes.user),
        kernel: x86(joined.faults - joined.codes.user).filter(|_| !user_mode_only),
        write: coded(joined.codes.write),
        instruction: coded(joined.codes.instruction),
        protection: coded(joined.codes.protection),
        major: known_of_all(joined.major, joined.major_known, joined.faults),
        ends: None,
        collapses: Vec::new(),
        unattributed: joined.attributed.then_some(joined.unattributed),
        page_bytes: join.scale.page_bytes,
        slot_bytes: join.scale.slot_bytes,
        classes,
        classes_total,
        mappings,
        mappings_total,
        orders,
        instructions,
        instructions_total,
        tasks,
        tasks_total,
    })
}

/// Says what the probe could not see; whether that is all that happens in kernel mode.
fn note_unknown(recording: &Recording, joined: &Joined, notes: &mut Vec<String>) -> bool {
    let unknown = joined.faults - joined.codes.known;
    if unknown > 0 {
        notes.push(format!(
            "{unknown} of {} faults have no error code (recorded through perf events, not BPF): not known whether they wrote, \
             fetched instructions or found the page there",
            joined.faults
        ));
    }
    let probe = recording.manifest().probes.iter().find(|probe| probe.name == "faults");
    let user_mode_only = probe.is_some_and(|probe| probe.extra.contains_key("user_mode_only"));
    if user_mode_only {
        notes.push(
            "faults of user mode only: those that the kernel takes on the program's memory were not to be seen; needed: \
             kernel.perf_event_paranoid at most 1, CAP_PERFMON, or root"
                .to_owned(),
        );
    }
    user_mode_only
}

fn orders(mappings: &[OneMapping]) -> Vec<OneOrder> {
    let mut orders: Vec<OneOrder> = Vec::new();
    for mapping in mappings {
        let at = orders.iter().position(|one| one.order == mapping.order).unwrap_or_else(|| {
            orders.push(OneOrder { order: mapping.order, mappings: 0, faults: 0 });
            orders.len() - 1
        });
        if let Some(one) = orders.get_mut(at) {
            one.mappings += 1;
            one.faults += mapping.faults;
        }
    }
    orders.sort_by_key(|one| (std::cmp::Reverse(one.faults), one.order));
    orders
}

fn mapping_of(id: u32, join: &Join<'_>, joined: &Joined) -> OneMapping {
    let on = joined.mappings.get(&id).cloned().unwrap_or_default();
    let made = join.mappings.get(id);
    let maker = made.and_then(|made| join.tasks.get(made.task_id).map(|task| (task, made.ts)));
    let pages = made.and_then(|made| made.len).map(|len| len.div_ceil(join.scale.page_bytes));
    OneMapping {
        mapping_id: id,
        addr: made.map(|made| format!("{:#x}", made.start)),
        len_bytes: made.and_then(|made| made.len),
        kind: made.filter(|made| made.path.is_none()).map(|made| made.kind),
        path: PathText::of(made.and_then(|made| made.path.as_deref())),
        pid: maker.map(|(task, _)| task.pid),
        comm: maker.and_then(|(task, ts)| task.comm_at(ts)).map(str::to_owned),
        mapped_ns: made.map(|made| made.ts),
        faults: on.faults,
        protection_faults: on.protection_faults,
        order: Order::word(&on.order),
        ascending_steps: on.order.ascending,
        descending_steps: on.order.descending,
        other_steps: on.order.other,
        faults_per_page: pages.and_then(|pages| ratio(on.missing(), pages)),
        faults_per_slot: ratio(on.missing(), on.slots),
        slots: on.slots,
    }
}

fn instructions(
    recording: &Recording,
    joined: &Joined,
    mappings: &Mappings,
    notes: &mut Vec<String>,
) -> Result<Vec<OneIp>> {
    let mut found: Vec<_> = places(joined, mappings).into_iter().collect();
    found.sort_by(|(a_place, a), (b_place, b)| b.faults.cmp(&a.faults).then(a_place.cmp(b_place)));
    let in_module = |place: &Place| place.module.as_deref().map(<[u8]>::to_vec).zip(place.offset);
    let wanted = found.iter().filter_map(|(place, _)| in_module(place)).collect();
    let symbols = functions_at(recording, &wanted, notes)?;
    let rows = found.into_iter().map(|(place, at)| OneIp {
        ip: format!("{:#x}", at.ip),
        addresses: at.ips,
        symbol: in_module(&place).and_then(|place| symbols.get(&place).cloned()),
        module: PathText::of(place.module.as_deref()),
        module_offset: place.offset.map(|offset| format!("{offset:#x}")),
        faults: at.faults,
    });
    Ok(rows.collect())
}

fn tasks(joined: &Joined, tasks: &Tasks) -> Vec<OneTask> {
    let mut rows: Vec<OneTask> = joined
        .tasks
        .iter()
        .map(|(id, faults)| {
            let task = tasks.get(*id);
            OneTask {
                task_id: *id,
                pid: task.map(|task| task.pid),
                tid: task.map(|task| task.tid),
                comm: task.and_then(|task| task.comm()).map(str::to_owned),
                faults: *faults,
            }
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.faults), row.task_id));
    rows
}

/// A count that some faults say nothing about is no count of all.
fn known_of_all(count: u64, known: u64, all: u64) -> Option<u64> {
    (all > 0 && known == all).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_some_faults_lack_is_null() {
        assert_eq!(known_of_all(2, 3, 3), Some(2));
        assert_eq!(known_of_all(2, 2, 3), None);
        assert_eq!(known_of_all(0, 0, 0), None);
    }
}
