//! The profile for people.

use std::fmt::Write as _;

use pagelab_views::view::profile::{Neighbours, ProfileView, Share};

use super::more;
use super::table::{Column, Table, figure, left, or_dash, paragraph, percent, right};

/// The body of the view.
pub(super) fn text(data: &ProfileView) -> String {
    if data.samples_selected == 0 {
        return String::new();
    }
    let mut out = String::from("\n");
    head(data, &mut out);
    symbols(data, &mut out);
    unnamed(data, &mut out);
    groups(data, &mut out);
    for (title, neighbours) in [("CALLERS OF", &data.callers), ("CALLED BY", &data.callees)] {
        if let Some(neighbours) = neighbours {
            list_neighbours(title, neighbours, &mut out);
        }
    }
    let lists = [
        ("MODULE", &data.modules, data.modules_total),
        ("NAME", &data.comms, data.comms_total),
        ("CPU", &data.cpus, data.cpus.len()),
    ];
    for (title, rows, total) in lists {
        let _ = writeln!(out, "\nBY {title}");
        let mut table = Table::new(columns(data, left(title)));
        for row in rows {
            table.row(cells(data, row.share, or_dash(row.name.as_ref())));
        }
        table.write(2, &mut out);
        out.push_str(&more(rows.len(), total));
    }
    out
}

fn head(data: &ProfileView, out: &mut String) {
    let events = data.events.join(", ");
    let quality = &data.quality;
    let lost = match (quality.lost, quality.seen) {
        (Some(lost), Some(seen)) => format!("{lost} lost of {seen} ({} %)", percent(lost, seen)),
        _ => "lost: not known".to_owned(),
    };
    let selected =
        if data.samples_selected == data.samples { String::new() } else { format!("{} of ", data.samples_selected) };
    paragraph(&format!("{selected}{} samples of {events}; {lost}.", data.samples), out);
    if quality.ustacks > 0 {
        let of = |count: u64| percent(count, quality.ustacks);
        let mut line = format!(
            "User stacks: {} % reach the thread's first function, {} % are cut off, {} % broken",
            of(quality.ustacks_to_entry),
            of(quality.ustacks_cut),
            of(quality.ustacks_broken)
        );
        if quality.ustacks_end_unknown > 0 {
            let _ = write!(line, ", {} % by frame pointers, which do not say", of(quality.ustacks_end_unknown));
        }
        line.push('.');
        paragraph(&line, out);
    }
    let unresolved = |pct: Option<f64>| or_dash(pct.map(|pct| format!("{pct:.1}")));
    let (frames, samples) = (quality.unresolved_frames_pct, quality.unresolved_samples_pct);
    let line = format!(
        "No symbol: {} % of frames, {} % of innermost ones (shown as [no symbol]).",
        unresolved(frames),
        unresolved(samples)
    );
    paragraph(&line, out);
}

fn per_operation(data: &ProfileView, value: Option<f64>) -> Option<String> {
    data.operations.map(|_| or_dash(value.map(figure)))
}

/// The columns of a list, with that of ns per operation where operations are known.
fn columns(data: &ProfileView, last: Column) -> Vec<Column> {
    let mut columns = vec![right("SAMPLES"), right("%")];
    columns.extend(data.operations.map(|_| right("NS_PER_OP")));
    columns.push(last);
    columns
}

fn cells(data: &ProfileView, share: Share, last: String) -> Vec<String> {
    let mut cells = vec![share.samples.to_string(), format!("{:.1}", share.pct)];
    cells.extend(per_operation(data, share.ns_per_operation));
    cells.push(last);
    cells
}

fn name(symbol: Option<&String>) -> String {
    symbol.cloned().unwrap_or_else(|| "[no symbol]".to_owned())
}

/// The last part of a path.
fn short(module: Option<&String>) -> String {
    or_dash(module.map(|path| path.rsplit('/').next().unwrap_or(path)))
}

fn symbols(data: &ProfileView, out: &mut String) {
    out.push_str("\nBY FUNCTION (SELF: in it; TOTAL: in it and in what it called)\n");
    let mut columns = vec![right("SELF"), right("SELF_%"), right("TOTAL"), right("TOTAL_%")];
    columns.extend(data.operations.map(|_| right("SELF_NS_PER_OP")));
    columns.extend([left("MODULE"), left("FUNCTION")]);
    let mut table = Table::new(columns);
    for row in &data.symbols {
        let mut cells = vec![
            row.own.samples.to_string(),
            format!("{:.1}", row.own.pct),
            row.total_samples.to_string(),
            format!("{:.1}", row.total_pct),
        ];
        cells.extend(per_operation(data, row.own.ns_per_operation));
        cells.extend([short(row.module.as_ref()), name(row.symbol.as_ref())]);
        table.row(cells);
    }
    table.write(2, out);
    out.push_str(&more(data.symbols.len(), data.symbols_total));
}

/// Why functions have no name, module by module; reasons are sentences and stand below.
fn unnamed(data: &ProfileView, out: &mut String) {
    if data.unnamed.is_empty() {
        return;
    }
    out.push_str("\nNO SYMBOL (SELF: innermost frames; TOTAL: samples with such a frame)\n");
    for row in &data.unnamed {
        let module =
            if row.kernel && row.module.is_none() { "[kernel]".to_owned() } else { or_dash(row.module.as_ref()) };
        let reasons =
            if row.reasons.is_empty() { "the recording does not say why".to_owned() } else { row.reasons.join("; ") };
        paragraph(&format!("{module}: SELF {}, TOTAL {}: {reasons}", row.samples, row.total_samples), out);
    }
    out.push_str(&more(data.unnamed.len(), data.unnamed_total));
}

fn groups(data: &ProfileView, out: &mut String) {
    if data.groups.is_empty() {
        return;
    }
    out.push_str("\nBY GROUP (SELF: in its functions; TOTAL: and in what they called)\n");
    let mut columns = vec![right("SELF"), right("SELF_%"), right("TOTAL"), right("TOTAL_%")];
    columns.extend(data.operations.map(|_| right("TOTAL_NS_PER_OP")));
    columns.extend([left("GROUP"), left("REGEX")]);
    let mut table = Table::new(columns);
    for row in &data.groups {
        let mut cells = vec![
            row.own.samples.to_string(),
            format!("{:.1}", row.own.pct),
            row.total_samples.to_string(),
            format!("{:.1}", row.total_pct),
        ];
        cells.extend(per_operation(data, row.total_ns_per_operation));
        cells.extend([row.group.clone(), row.regex.clone()]);
        table.row(cells);
    }
    table.write(2, out);
}

fn list_neighbours(title: &str, neighbours: &Neighbours, out: &mut String) {
    let _ = writeln!(out, "\n{title} {} ({} samples with it in their stack)", neighbours.of, neighbours.total_samples);
    let mut table = Table::new([right("SAMPLES"), right("%"), left("MODULE"), left("FUNCTION")]);
    for row in &neighbours.functions {
        let none = row.symbol.is_none() && row.module.is_none();
        let function = if none { "(none)".to_owned() } else { name(row.symbol.as_ref()) };
        table.row([row.samples.to_string(), format!("{:.1}", row.pct), short(row.module.as_ref()), function]);
    }
    table.write(2, out);
    out.push_str(&more(neighbours.functions.len(), neighbours.functions_total));
}

#[cfg(test)]
mod tests {
    use pagelab_views::view::profile::Neighbour;

    use super::*;

    #[test]
    fn only_a_neighbour_without_function_and_module_is_none() {
        let neighbour = |symbol: Option<&str>, module: Option<&str>| Neighbour {
            symbol: symbol.map(str::to_owned),
            module: module.map(str::to_owned),
            kernel: false,
            samples: 1,
            pct: 25.0,
        };
        let functions = vec![
            neighbour(Some("named"), None),
            neighbour(None, Some("/lib/stripped.so")),
            neighbour(Some("both"), Some("/bin/program")),
            neighbour(None, None),
        ];
        let mut text = String::new();
        list_neighbours(
            "CALLERS OF",
            &Neighbours { of: "f".to_owned(), total_samples: 4, functions, functions_total: 4 },
            &mut text,
        );
        let rows: Vec<&str> = text.lines().skip(3).collect();
        assert!(rows[0].contains("named") && rows[1].contains("stripped.so") && rows[2].contains("both"), "{text}");
        let none: Vec<bool> = rows.iter().map(|row| row.contains("(none)")).collect();
        assert_eq!(none, [false, false, false, true], "{text}");
    }
}
