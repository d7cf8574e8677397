//! System calls as text: added up, or one by one.

use std::fmt::Write as _;

use pagelab_views::view::syscalls::log::LoggedCall;
use pagelab_views::view::syscalls::{Group, SyscallsView};

use super::more;
use super::table::{Table, clean, left, or_dash, paragraph, percent, right};
use pagelab_vocab::units::{duration, short_duration};

pub(super) fn text(data: &SyscallsView) -> String {
    if data.calls == 0 {
        return String::new();
    }
    let mut out = String::from("\n");
    let part = data.calls < data.calls_in_recording;
    let of = if part { format!(" of the {} recorded", data.calls_in_recording) } else { String::new() };
    let unfinished = match data.unfinished {
        0 => String::new(),
        n => format!(", {n} still running at the end, excluded from times"),
    };
    let refused = match data.refused {
        0 => String::new(),
        n => format!(", {n} refused by seccomp or a tracer, which have no times"),
    };
    let said = format!(
        "{} calls{of}, {} failed{unfinished}{refused}; {} in calls, over all tasks",
        data.calls,
        data.errors,
        duration(data.total_ns as f64)
    );
    paragraph(&said, &mut out);
    let split = data.groups.iter().any(|group| group.split_ns.is_some());
    if split {
        paragraph("CPU, SLEPT and QUEUE are percent of the time: running, asleep, ready but without a CPU", &mut out);
    }
    let head = match data.by {
        "task" => "TASK",
        "comm" => "COMM",
        "file" => "FILE",
        _ => "NAME",
    };
    out.push('\n');
    let mut table = Table::new([
        right("TOTAL"),
        right("%"),
        right("CALLS"),
        right("ERRORS"),
        right("MEAN"),
        right("P50"),
        right("P99"),
        right("MAX"),
        right("CPU"),
        right("SLEPT"),
        right("QUEUE"),
        left(head),
    ]);
    for group in &data.groups {
        table.row(cells(group, data.total_ns));
    }
    table.write(0, &mut out);
    out.push_str(&more(data.groups.len(), data.groups_total));
    out
}

fn cells(group: &Group, whole_ns: u64) -> [String; 12] {
    let time = |ns: Option<u64>| or_dash(ns.map(|ns| short_duration(ns as f64)));
    let share = |part: Option<u64>| or_dash(part.zip(group.split_ns).map(|(part, whole)| percent(part, whole)));
    let cpu = match group.split_ns {
        Some(_) => share(group.on_cpu_ns),
        None => or_dash(group.cpu_ns.map(|cpu| percent(cpu, group.total_ns))),
    };
    [
        short_duration(group.total_ns as f64),
        percent(group.total_ns, whole_ns),
        group.calls.to_string(),
        group.errors.to_string(),
        or_dash(group.mean_ns.map(short_duration)),
        time(group.p50_ns),
        time(group.p99_ns),
        time(group.max_ns),
        cpu,
        share(group.blocked_ns),
        share(group.queue_ns),
        group.name.clone(),
    ]
}

/// One call on a line: `time task name(arguments) = result <duration>`. `start_ns` is the start of the recording.
pub fn log_line(logged: &LoggedCall<'_>, start_ns: i64) -> String {
    let call = logged.call;
    let mut out = format!("{:>12.6} ", call.ts.saturating_sub(start_ns) as f64 / 1e9);
    let tid = logged.tid.map_or_else(|| format!("task {}", call.task_id), |tid| tid.to_string());
    let _ = write!(out, "{tid:>7} {:<15} {}", clean(logged.comm.unwrap_or("-")), logged.text());
    if let Some(dur) = call.dur {
        let _ = write!(out, " <{:.9}>", dur as f64 / 1e9);
    }
    out
}
