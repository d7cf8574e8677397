//! The view of reads and writes as text.

use pagelab_views::iopattern::Pattern;
use pagelab_views::view::io::{IoView, OneDirection, Size};

use pagelab_vocab::units::short_duration;

use super::more;
use super::table::{Table, left, or_dash, percent, right, width};
use crate::{Style, io_map, quantity};

/// The whole body.
pub(super) fn text(data: &IoView) -> String {
    let mut out = String::new();
    if !data.files.is_empty() {
        files(data, &mut out);
        patterns(data, &mut out);
        sizes(data, &mut out);
    }
    if let Some(map) = &data.heatmap {
        out.push('\n');
        out.push_str(&io_map(&map.name, &map.grid, &Style { width: width(), ..Style::default() }));
    }
    mapped(data, &mut out);
    submitted(data, &mut out);
    out
}

fn short(bytes: f64) -> String {
    quantity(bytes, "bytes").replace(' ', "")
}

fn files(data: &IoView, out: &mut String) {
    out.push_str("\nBY PROCESS AND FILE\n");
    let mut table = Table::new([
        right("PID"),
        right("OPENS"),
        right("READS"),
        right("BYTES"),
        right("MEAN"),
        right("WRITES"),
        right("BYTES"),
        right("MEAN"),
        right("TIME"),
        left("FILE"),
    ]);
    for row in &data.files {
        let time = (row.reads.time_ns + row.writes.time_ns) as f64;
        let copied = match row.copies {
            0 => String::new(),
            n => format!(" ({n} copies of {})", short(row.copied_bytes as f64)),
        };
        table.row([
            or_dash(row.pid),
            row.opens.to_string(),
            row.reads.calls.to_string(),
            short(row.reads.bytes as f64),
            or_dash(row.reads.mean_bytes.map(short)),
            row.writes.calls.to_string(),
            short(row.writes.bytes as f64),
            or_dash(row.writes.mean_bytes.map(short)),
            short_duration(time),
            format!("{}{copied}", row.name),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.files.len(), data.files_total));
}

fn patterns(data: &IoView, out: &mut String) {
    let mut table = Table::new([
        right("PID"),
        left("WAY"),
        left("PATTERN"),
        right("SEQ%"),
        right("STRIDE%"),
        right("DESC%"),
        right("SAME%"),
        right("RANDOM%"),
        right("STREAMS"),
        left("FILE"),
    ]);
    let mut any = false;
    for row in &data.files {
        for (way, direction) in [("read", &row.reads), ("write", &row.writes)] {
            let OneDirection { kinds, pattern, .. } = direction;
            let all = kinds.operations();
            if all == 0 {
                continue;
            }
            any = true;
            table.row([
                or_dash(row.pid),
                way.to_owned(),
                pattern.map_or("-", Pattern::word).to_owned(),
                percent(kinds.sequential, all),
                percent(kinds.strided, all),
                percent(kinds.descending, all),
                percent(kinds.repeated, all),
                percent(kinds.random, all),
                kinds.streams.to_string(),
                row.name.clone(),
            ]);
        }
    }
    if any {
        out.push_str("\nORDER IN THE FILE\n");
        table.write(2, out);
    }
}

fn sizes(data: &IoView, out: &mut String) {
    let mut powers: Vec<u64> = data.sizes_read.iter().chain(&data.sizes_written).map(|size| size.from_bytes).collect();
    powers.sort_unstable();
    powers.dedup();
    if powers.is_empty() {
        return;
    }
    out.push_str("\nSIZES (each from its power of two to below the next)\n");
    let of = |sizes: &[Size], power| sizes.iter().find(|size| size.from_bytes == power).map_or(0, |size| size.calls);
    let sum = |sizes: &[Size]| sizes.iter().map(|size| size.calls).sum::<u64>();
    let (reads, writes) = (sum(&data.sizes_read), sum(&data.sizes_written));
    let mut table = Table::new([right("FROM"), right("READS"), right("%"), right("WRITES"), right("%")]);
    for power in powers {
        let (read, written) = (of(&data.sizes_read, power), of(&data.sizes_written, power));
        table.row([
            short(power as f64),
            read.to_string(),
            percent(read, reads),
            written.to_string(),
            percent(written, writes),
        ]);
    }
    table.write(2, out);
}

fn mapped(data: &IoView, out: &mut String) {
    let (Some(rows), Some(total)) = (&data.mapped, data.mapped_total) else { return };
    if rows.is_empty() {
        return;
    }
    out.push_str("\nTHROUGH MAPPINGS (faults only: a page that is there is read and written unseen)\n");
    let mut table = Table::new([right("PID"), right("MAPPINGS"), right("FAULTS"), left("FILE")]);
    for row in rows {
        let path = row.path.path.clone().unwrap_or_default();
        table.row([or_dash(row.pid), row.mappings.to_string(), row.faults.to_string(), path]);
    }
    table.write(2, out);
    out.push_str(&more(rows.len(), total));
}

fn submitted(data: &IoView, out: &mut String) {
    if data.submitted.is_empty() {
        return;
    }
    out.push_str("\nSUBMITTED, ITSELF UNSEEN\n");
    let mut table = Table::new([left("CALL"), right("CALLS"), right("OPERATIONS")]);
    for row in &data.submitted {
        table.row([row.name.clone(), row.calls.to_string(), row.operations.to_string()]);
    }
    table.write(2, out);
}
