//! Page faults as text.

use pagelab_views::mappings::bytes;
use pagelab_views::view::faults::{EndsView, FaultsView, OneCollapse};

use super::more;
use super::table::{Table, figure, left, or_dash, paragraph, percent, right};
use pagelab_vocab::units::duration;

pub(super) fn text(data: &FaultsView) -> String {
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
        ends_text(ends, &mut out);
    }
    collapses_text(&data.collapses, &mut out);
    classes_text(data, &mut out);
    mappings_text(data, &mut out);
    orders_text(data, &mut out);
    instructions_text(data, &mut out);
    tasks_text(data, &mut out);
    out
}

fn classes_text(data: &FaultsView, out: &mut String) {
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

fn mappings_text(data: &FaultsView, out: &mut String) {
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

fn orders_text(data: &FaultsView, out: &mut String) {
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

fn instructions_text(data: &FaultsView, out: &mut String) {
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

fn tasks_text(data: &FaultsView, out: &mut String) {
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

/// Appends it in words.
fn ends_text(data: &EndsView, out: &mut String) {
    out.push_str("\nHOW THEY ENDED\n");
    let minor = match data.minor_one_in {
        Some(n) => format!("and {} minor ones, which are one in {n}", data.minor),
        None => "and of the minor ones none (record with --fault-details N for one in N)".to_owned(),
    };
    let said = format!(
        "all {} major faults (I/O, or waiting and another attempt) {minor}; times are from entry to the end of the handling",
        data.major
    );
    paragraph(&said, out);
    if let Some(reason) = &data.got_unknown_because {
        paragraph(&format!("what was got is not known: {reason}"), out);
    }
    let mut table = Table::new([
        right("FAULTS"),
        right("%"),
        left("KIND"),
        left("GOT"),
        right("P50"),
        right("P99"),
        right("TOTAL"),
    ]);
    let time = |ns: Option<i64>| or_dash(ns.map(|ns| duration(ns as f64)));
    for row in &data.ends {
        table.row([
            row.faults.to_string(),
            percent(row.faults, if row.major { data.major } else { data.minor }),
            if row.major { "major" } else { "minor" }.to_owned(),
            row.got.clone().unwrap_or_else(|| "-".to_owned()),
            time(row.p50_ns),
            time(row.p99_ns),
            time(Some(row.total_ns)),
        ]);
    }
    table.write(2, out);
}

/// Appends it in words.
fn collapses_text(rows: &[OneCollapse], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    out.push_str("\nHUGE PAGES MADE OF SMALL ONES (khugepaged, MADV_COLLAPSE), BY RESULT\n");
    let mut table = Table::new([
        right("PIECES"),
        right("PAGES"),
        right("FILLED"),
        left("BY"),
        left("MEMORY"),
        left("DONE"),
        left("RESULT"),
    ]);
    for row in rows {
        table.row([
            row.count.to_string(),
            row.pages.to_string(),
            row.filled.to_string(),
            row.by_whom.clone(),
            row.kind.clone(),
            row.op.clone(),
            row.result.clone(),
        ]);
    }
    table.write(2, out);
}
