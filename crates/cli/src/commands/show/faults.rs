//! `show DIR faults`: where the page faults were, by class of mapping, mapping, instruction and task.

use pagelab_recording::Recording;
use pagelab_recording::tables::SettingsRow;
use pagelab_views::mappings::{ClassProfile, MappingProfile, Order, ProfileOptions, bytes};
use serde::Serialize;

use super::View;
use super::ends::{self, EndsDocument, OneCollapse};
use super::join::{Join, Joined, Mappings, Place, places};
use super::options::{Options, cut, more};
use super::read::{self, PathText, Tasks};
use super::stacks::functions_at;
use super::table::{Table, figure, left, or_dash, paragraph, percent, right};
use crate::failure::Failure;

#[derive(Debug, Serialize)]
struct ClassRow {
    /// Kind, path, size, name and advice in words.
    class: String,
    kind: &'static str,
    path: Option<String>,
    /// Lengths from this power of two to the next.
    size_bytes: u64,
    mappings: u64,
    mapped_bytes: u64,
    faults: u64,
    protection_faults: u64,
    order: Option<&'static str>,
    step_pages: Option<i64>,
    faults_per_page: Option<f64>,
    faults_per_slot: Option<f64>,
    /// Slots touched that lay whole in one memory area, so that a huge page was possible.
    whole_slots: u64,
    /// Of those, the ones filled page by page.
    whole_slots_by_page: u64,
    /// Slots touched that did not.
    partial_slots: u64,
}

#[derive(Debug, Serialize)]
struct OneMapping {
    mapping_id: u32,
    addr: Option<String>,
    len_bytes: Option<u64>,
    /// What it is if it has no path.
    kind: Option<&'static str>,
    #[serde(flatten)]
    path: PathText,
    pid: Option<i32>,
    comm: Option<String>,
    mapped_ns: Option<i64>,
    faults: u64,
    protection_faults: u64,
    order: Option<&'static str>,
    /// First touches of a page by the step from the one before: a little up, a little down, elsewhere.
    ascending_steps: u64,
    descending_steps: u64,
    other_steps: u64,
    faults_per_page: Option<f64>,
    faults_per_slot: Option<f64>,
    slots: u64,
}

/// Mappings by the order in which their pages were first touched.
#[derive(Debug, Serialize)]
struct OneOrder {
    /// Null: too few faults to tell.
    order: Option<&'static str>,
    mappings: u64,
    faults: u64,
}

#[derive(Debug, Serialize)]
struct OneIp {
    ip: String,
    /// Addresses at which processes have this code.
    addresses: u64,
    #[serde(flatten)]
    module: PathText,
    module_offset: Option<String>,
    /// Function; null unless a stack of the recording went through this instruction.
    symbol: Option<String>,
    faults: u64,
}

#[derive(Debug, Serialize)]
struct OneTask {
    task_id: u32,
    pid: Option<i32>,
    tid: Option<i32>,
    comm: Option<String>,
    faults: u64,
}

#[derive(Debug, Serialize)]
struct Document {
    faults_in_recording: u64,
    faults: u64,
    /// Null where the error code is not that of x86.
    user: Option<u64>,
    kernel: Option<u64>,
    write: Option<u64>,
    instruction: Option<u64>,
    protection: Option<u64>,
    /// Null unless it is known of every fault, or all major ones were told.
    major: Option<u64>,
    /// How they ended; null if that was not recorded.
    ends: Option<EndsDocument>,
    /// Huge pages made of small ones afterwards, by result.
    collapses: Vec<OneCollapse>,
    /// Null if no mappings were recorded.
    unattributed: Option<u64>,
    page_bytes: u64,
    slot_bytes: u64,
    /// Null if they cannot be made; a note says why.
    classes: Option<Vec<ClassRow>>,
    classes_total: Option<usize>,
    mappings: Vec<OneMapping>,
    mappings_total: usize,
    orders: Vec<OneOrder>,
    instructions: Vec<OneIp>,
    instructions_total: usize,
    tasks: Vec<OneTask>,
    tasks_total: usize,
}

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["faults", "per_page", "per_slot", "bytes"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let mappings = Mappings::load(recording, &mut notes)?;
    let profile_options = profile_options(recording, &mut notes)?;
    let manifest = recording.manifest();
    let page_bytes = manifest.page_size_bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096);
    let join = Join {
        options,
        tasks: &tasks,
        mappings: &mappings,
        page_bytes,
        slot_bytes: profile_options.huge_bytes.max(page_bytes),
        x86: manifest.arch.as_deref().is_none_or(|arch| matches!(arch, "x86_64" | "i686")),
    };
    let mut joined = join.run(recording, &mut notes)?;
    let ends = EndsDocument::of(recording, std::mem::take(&mut joined.ends), &mut notes);
    let collapses = ends::collapses(recording, options, &tasks, &mut notes)?;
    if joined.in_recording == 0 {
        notes.push("no faults were recorded".to_owned());
    } else if joined.faults == 0 {
        notes.push(format!("none of the {} faults is selected", joined.in_recording));
    }
    let classes = classes(recording, options, &profile_options, &mut notes)?;
    let mut data = collect(recording, &join, &joined, classes, sort, &mut notes)?;
    data.major = data.major.or(ends.as_ref().map(|ends| ends.major));
    (data.ends, data.collapses) = (ends, collapses);
    View::new("faults", recording, &notes, &data, &text(&data))
}

fn profile_options(recording: &Recording, notes: &mut Vec<String>) -> Result<ProfileOptions, Failure> {
    let mut settings: Vec<(String, String)> = Vec::new();
    read::each::<SettingsRow>(recording, notes, |row| {
        if let Some(value) = row.value
            && row.at == "start"
            && (row.key == "thp.hpage_pmd_size" || row.key.starts_with("mount."))
        {
            settings.push((row.key.to_owned(), value.to_owned()));
        }
    })?;
    Ok(ProfileOptions::from_settings(settings.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
}

/// The classes of mappings. They are made over all tasks: whether a slot could be huge depends on all of them.
fn classes(
    recording: &Recording,
    options: &Options,
    profile_options: &ProfileOptions,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<ClassRow>>, Failure> {
    if options.by_task() {
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
        Err(pagelab_views::ViewError::Recording(error)) if error.is_damage() => {
            notes.push(format!("no classes of mappings: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(read::analysis(error)),
    };
    let wanted = |class: &&ClassProfile| options.wants_path(class.key.path.as_deref().map(str::as_bytes));
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

fn collect(
    recording: &Recording,
    join: &Join<'_>,
    joined: &Joined,
    classes: Option<Vec<ClassRow>>,
    sort: &str,
    notes: &mut Vec<String>,
) -> Result<Document, Failure> {
    let limit = join.options.limit(true);
    let x86 = |count: u64| join.x86.then_some(count);
    let user_mode_only = note_unknown(recording, joined, notes);
    let coded = |count: u64| (join.x86 && joined.codes_known == joined.faults).then_some(count);
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
    Ok(Document {
        faults_in_recording: joined.in_recording,
        faults: joined.faults,
        user: x86(joined.codes.user),
        kernel: x86(joined.faults - joined.codes.user).filter(|_| !user_mode_only),
        write: coded(joined.codes.write),
        instruction: coded(joined.codes.instruction),
        protection: coded(joined.codes.protection),
        major: (joined.faults > 0 && joined.major_known == joined.faults).then_some(joined.major),
        ends: None,
        collapses: Vec::new(),
        unattributed: joined.attributed.then_some(joined.unattributed),
        page_bytes: join.page_bytes,
        slot_bytes: join.slot_bytes,
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
    let unknown = joined.faults - joined.codes_known;
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
    let pages = made.and_then(|made| made.len).map(|len| len.div_ceil(join.page_bytes));
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
) -> Result<Vec<OneIp>, Failure> {
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

fn text(data: &Document) -> String {
    if data.faults == 0 {
        return String::new();
    }
    let mut out = String::from("\n");
    let part = data.faults < data.faults_in_recording;
    let of = if part { format!(" of the {} recorded", data.faults_in_recording) } else { String::new() };
    let said = format!(
        "{} faults{of}: user {}, kernel {}; write {}, instruction fetch {}, page already present {}; needed I/O (major) {}; \
         on no known mapping {}",
        data.faults,
        or_dash(data.user),
        or_dash(data.kernel),
        or_dash(data.write),
        or_dash(data.instruction),
        or_dash(data.protection),
        or_dash(data.major),
        or_dash(data.unattributed),
    );
    paragraph(&said, &mut out);
    paragraph(&format!("a page is {}, a slot {}", bytes(data.page_bytes), bytes(data.slot_bytes)), &mut out);
    if let Some(ends) = &data.ends {
        ends.text(&mut out);
    }
    ends::collapses_text(&data.collapses, &mut out);
    classes_text(data, &mut out);
    mappings_text(data, &mut out);
    orders_text(data, &mut out);
    instructions_text(data, &mut out);
    tasks_text(data, &mut out);
    out
}

fn classes_text(data: &Document, out: &mut String) {
    let (Some(classes), Some(total)) = (&data.classes, data.classes_total) else { return };
    out.push_str("\nBY CLASS OF MAPPING (HUGE_OK: slots touched in which a huge page was possible, of all touched)\n");
    let mut table = Table::new([
        right("FAULTS"),
        right("%"),
        right("MAPPINGS"),
        right("PER_PAGE"),
        right("PER_SLOT"),
        right("HUGE_OK"),
        left("ORDER"),
        left("CLASS"),
    ]);
    for row in classes {
        table.row([
            row.faults.to_string(),
            percent(row.faults, data.faults),
            row.mappings.to_string(),
            or_dash(row.faults_per_page.map(figure)),
            or_dash(row.faults_per_slot.map(figure)),
            format!("{}/{}", row.whole_slots, row.whole_slots + row.partial_slots),
            or_dash(row.order),
            row.class.clone(),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(classes.len(), total));
}

fn mappings_text(data: &Document, out: &mut String) {
    out.push_str("\nBY MAPPING\n");
    let mut table = Table::new([
        right("FAULTS"),
        right("%"),
        right("SIZE"),
        right("PER_PAGE"),
        right("PER_SLOT"),
        left("ORDER"),
        right("PID"),
        left("MAPPING"),
    ]);
    for row in &data.mappings {
        let name = row.path.path.as_deref().or(row.kind).unwrap_or("-");
        table.row([
            row.faults.to_string(),
            percent(row.faults, data.faults),
            or_dash(row.len_bytes.map(bytes)),
            or_dash(row.faults_per_page.map(figure)),
            or_dash(row.faults_per_slot.map(figure)),
            or_dash(row.order),
            or_dash(row.pid),
            format!("{name} {}", row.addr.as_deref().unwrap_or_default()),
        ]);
    }
    if let Some(count) = data.unattributed.filter(|count| *count > 0) {
        let blank = || "-".to_owned();
        let name = "on no known mapping".to_owned();
        table.row([count.to_string(), percent(count, data.faults), blank(), blank(), blank(), blank(), blank(), name]);
    }
    table.write(2, out);
    out.push_str(&more(data.mappings.len(), data.mappings_total));
}

fn orders_text(data: &Document, out: &mut String) {
    if data.orders.is_empty() {
        return;
    }
    out.push_str("\nBY ORDER OF THE FIRST TOUCHES\n");
    let mut table = Table::new([right("FAULTS"), right("%"), right("MAPPINGS"), left("ORDER")]);
    for row in &data.orders {
        table.row([
            row.faults.to_string(),
            percent(row.faults, data.faults),
            row.mappings.to_string(),
            row.order.unwrap_or("too few to tell").to_owned(),
        ]);
    }
    table.write(2, out);
}

fn instructions_text(data: &Document, out: &mut String) {
    out.push_str("\nBY INSTRUCTION\n");
    let mut table =
        Table::new([right("FAULTS"), right("%"), right("IP"), right("PLACES"), left("FUNCTION, MODULE+OFFSET")]);
    for row in &data.instructions {
        let module = row.module.path.as_deref().unwrap_or("-");
        let offset = row.module_offset.as_deref().map_or_else(String::new, |offset| format!("+{offset}"));
        table.row([
            row.faults.to_string(),
            percent(row.faults, data.faults),
            row.ip.clone(),
            row.addresses.to_string(),
            row.symbol.as_ref().map_or_else(String::new, |symbol| format!("{symbol} ")) + &format!("{module}{offset}"),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.instructions.len(), data.instructions_total));
}

fn tasks_text(data: &Document, out: &mut String) {
    out.push_str("\nBY TASK\n");
    let mut table = Table::new([right("FAULTS"), right("%"), right("PID"), right("TID"), left("NAME")]);
    for row in &data.tasks {
        table.row([
            row.faults.to_string(),
            percent(row.faults, data.faults),
            or_dash(row.pid),
            or_dash(row.tid),
            or_dash(row.comm.as_ref()),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.tasks.len(), data.tasks_total));
}
