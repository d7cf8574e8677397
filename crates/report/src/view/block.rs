//! Requests of the block layer as text.

use pagelab_views::mappings::bytes;
use pagelab_views::view::block::BlockView;

use super::more;
use super::table::{Table, figure, left, or_dash, paragraph, percent, right};
use pagelab_vocab::units::duration;

pub(super) fn text(data: &BlockView) -> String {
    let mut out = String::new();
    if data.requests == 0 {
        return out;
    }
    out.push('\n');
    let unfinished: u64 = data.groups.iter().map(|group| group.unfinished).sum();
    let failed: u64 = data.groups.iter().map(|group| group.failed).sum();
    let said = format!(
        "{} requests, {}; lost {}; failed {failed}; issued and not completed {unfinished}. Requests on all disks of the host; TASKS% were submitted by recorded tasks, most others write the page \
         cache back.",
        data.requests,
        bytes(data.bytes),
        or_dash(data.lost),
    );
    paragraph(&said, &mut out);
    out.push('\n');
    let mut table = Table::new([
        left("DEV").at_most(12),
        left("OP").at_most(14),
        right("COUNT"),
        right("BYTES"),
        right("PER SECOND"),
        right("MERGED%"),
        right("TASKS%"),
    ]);
    for group in &data.groups {
        table.row([
            group.title(),
            group.op.clone(),
            group.count.to_string(),
            bytes(group.bytes),
            or_dash(group.requests_per_second.map(figure)),
            percent(group.merged_requests, group.count),
            percent(group.by_tasks, group.count),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.groups.len(), data.groups_total));
    times_text(data, &mut out);
    sizes(data, &mut out);
    out
}

fn times_text(data: &BlockView, out: &mut String) {
    out.push_str("\nTIMES (Q: in the queue before the issue, D: in the device)\n");
    let mut table = Table::new([
        left("DEV").at_most(12),
        left("OP").at_most(14),
        right("Q MEAN"),
        right("Q P50"),
        right("Q P99"),
        right("D MEAN"),
        right("D P50"),
        right("D P99"),
        right("D MAX"),
    ]);
    let time = |ns: Option<f64>| or_dash(ns.map(|ns| duration(ns).replace(' ', "")));
    let whole = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
    for group in &data.groups {
        table.row([
            group.title(),
            group.op.clone(),
            time(group.queue.mean_ns),
            whole(group.queue.p50_ns),
            whole(group.queue.p99_ns),
            time(group.device_time.mean_ns),
            whole(group.device_time.p50_ns),
            whole(group.device_time.p99_ns),
            whole(group.device_time.max_ns),
        ]);
    }
    table.write(2, out);
}

/// The sizes, as bars that are relative to the commonest of their kind.
fn sizes(data: &BlockView, out: &mut String) {
    const BAR: u64 = 40;
    out.push_str("\nSIZES (from a power of two up to the next)\n");
    let mut table =
        Table::new([left("DEV").at_most(12), left("OP").at_most(12), right("FROM"), right("COUNT"), left("")]);
    for group in &data.groups {
        let most = group.sizes.iter().map(|size| size.count).max().unwrap_or(1);
        for size in &group.sizes {
            let stars = (size.count * BAR).div_ceil(most) as usize;
            table.row([
                group.title(),
                group.op.clone(),
                bytes(size.low_bytes).replace(' ', ""),
                size.count.to_string(),
                "*".repeat(stars),
            ]);
        }
    }
    table.write(2, out);
}
