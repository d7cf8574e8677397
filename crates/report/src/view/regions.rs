//! Page sizes of memory as text.

use pagelab_views::mappings::bytes;
use pagelab_views::view::regions::{RegionsView, Size};

use super::more;
use super::table::{Table, left, or_dash, paragraph, percent, right, seconds};

/// Bytes in pages of a size, `-` for none.
fn in_pages(sizes: &[Size], wanted: impl Fn(u64) -> bool) -> String {
    let sum: u64 =
        sizes.iter().filter(|size| wanted(size.page_size_bytes)).map(|size| size.bytes).fold(0, u64::saturating_add);
    if sum == 0 { "-".to_owned() } else { bytes(sum) }
}

pub(super) fn text(data: &RegionsView, start: i64) -> String {
    let mut out = String::new();
    if data.regions.is_empty() {
        return out;
    }
    out.push('\n');
    let whole: u64 = data.sizes.iter().map(|size| size.bytes).fold(0, u64::saturating_add);
    let parts = data.sizes.iter().map(|size| {
        format!("{} ({}%) in pages of {}", bytes(size.bytes), percent(size.bytes, whole), bytes(size.page_size_bytes))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    paragraph(&format!("at the last look at each address space: {parts}"), &mut out);
    if data.source.as_deref() == Some("smaps") {
        paragraph("from smaps, which does not see the huge pages of DAX files", &mut out);
    }
    if !data.shortfalls.is_empty() {
        out.push_str("\nLESS THAN ASKED FOR\n");
        let mut table = Table::new([right("BYTES"), right("REGIONS"), left("ASKED"), left("REASON")]);
        for row in &data.shortfalls {
            table.row([bytes(row.bytes), row.regions.to_string(), row.asked.clone(), row.reason.clone()]);
        }
        table.write(2, &mut out);
    }
    out.push_str("\nBY ADDRESS SPACE\n");
    let small = |size: u64| size < 1 << 20;
    let middle = |size: u64| (1 << 20..1 << 30).contains(&size);
    let giant = |size: u64| size >= 1 << 30;
    let mut table = Table::new([
        right("PID"),
        left("COMM").at_most(16),
        right("LOOKED AT"),
        right("SMALL"),
        right("2M"),
        right("1G"),
    ]);
    for space in &data.address_spaces {
        table.row([
            or_dash(space.pid),
            or_dash(space.comm.clone()),
            seconds(space.ts.saturating_sub(start)),
            in_pages(&space.sizes, small),
            in_pages(&space.sizes, middle),
            in_pages(&space.sizes, giant),
        ]);
    }
    table.write(2, &mut out);
    out.push_str(&more(data.address_spaces.len(), data.address_spaces_total));
    out.push_str("\nBY REGION\n");
    regions_text(data, &mut out);
    out
}

fn regions_text(data: &RegionsView, out: &mut String) {
    let mut table = Table::new([
        right("PID"),
        right("LENGTH"),
        right("SMALL"),
        right("2M"),
        right("1G"),
        left("ASKED"),
        left("REASON").at_most(20),
        left("REGION"),
    ]);
    for row in &data.regions {
        table.row([
            or_dash(row.pid),
            bytes(row.len_bytes),
            in_pages(&row.sizes, |size| size < 1 << 20),
            in_pages(&row.sizes, |size| (1 << 20..1 << 30).contains(&size)),
            in_pages(&row.sizes, |size| size >= 1 << 30),
            or_dash(row.asked.clone()),
            or_dash(row.reason.clone()),
            format!("{} {}", row.path.path.as_deref().unwrap_or("[anonymous]"), row.start),
        ]);
    }
    table.write(2, out);
    out.push_str(&more(data.regions.len(), data.regions_total));
}
