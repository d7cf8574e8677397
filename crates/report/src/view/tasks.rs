//! Tasks as text.

use pagelab_views::view::tasks::{TaskLine, TasksView};

use super::more;
use super::table::{Table, left, or_dash, paragraph, right, seconds};

/// Levels of the tree that are shown by indentation.
const DEEPEST: usize = 12;

pub(super) fn text(data: &TasksView, start: i64) -> String {
    let sums = &data.sums;
    if sums.tasks == 0 {
        return String::new();
    }
    let accounted = sums.ended_minor_faults + sums.ended_major_faults;
    let mut out = String::from("\n");
    let said = format!(
        "{} tasks, {} of them ended: {} faults recorded, {accounted} accounted by the kernel; {:.3} s of CPU time of all",
        sums.tasks,
        sums.tasks - sums.running,
        or_dash(sums.ended_faults_recorded),
        sums.cpu_ns as f64 / 1e9,
    );
    paragraph(&said, &mut out);
    let mut table = Table::new([
        right("PID/TID"),
        right("START_S"),
        right("LASTED_S"),
        right("CPU_S"),
        right("EXIT"),
        right("FAULTS"),
        right("MIN+MAJ"),
        right("DIFF"),
        left("TASK"),
    ]);
    for line in &data.tasks {
        let before = if line.present_at_start { "<" } else { "" };
        let accounted = line.minor_faults.zip(line.major_faults).map(|(minor, major)| minor.saturating_add(major));
        table.row([
            line.tid.to_string(),
            format!("{before}{}", seconds(line.first_seen_ns.saturating_sub(start))),
            or_dash(line.duration_ns.map(seconds)),
            or_dash(line.cpu_ns.map(|ns| seconds(ns as i64))),
            or_dash(line.exit.as_deref()),
            or_dash(line.faults_recorded),
            or_dash(accounted),
            or_dash(line.faults_difference),
            title(line, data.is_tree),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.tasks.len(), data.tasks_total));
    if data.tasks.iter().any(|line| line.present_at_start) {
        out.push_str("< it was there before recording began\n");
    }
    out
}

/// Name and executable; a thread is marked, because its process has the executable.
fn title(line: &TaskLine, tree: bool) -> String {
    let indent = if tree { "  ".repeat(line.depth.min(DEEPEST)) } else { String::new() };
    let name = line.comm.as_deref().unwrap_or("-");
    let thread = if line.tid == line.pid { String::new() } else { format!(" thread of {}", line.pid) };
    let exe = line.exe.exe.as_deref().map_or_else(String::new, |exe| format!(" {exe}"));
    format!("{indent}{name}{thread}{exe}")
}
