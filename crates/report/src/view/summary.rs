//! The summary as a page of text.

use std::fmt::Write as _;

use pagelab_recording::{Exit, ProbeState};
use pagelab_views::mappings::bytes;
use pagelab_views::names;
use pagelab_views::view::summary::{Counted, FAULT_KINDS, Overview, SummaryView};
use serde_json::Value;

use super::table::{Table, clean, figure, left, or_dash, percent, right, seconds, width, wrap};
use pagelab_vocab::units::duration;

/// Width of the words in front of a fact.
const LABEL: usize = 12;

/// Settings shown at most; the view `settings` has all.
const CHANGES: usize = 20;

/// The page.
pub(super) fn text(data: &SummaryView, clock_start_ns: i64) -> String {
    let mut out = String::new();
    what(data, clock_start_ns, &mut out);
    faults(data, &mut out);
    usage(data, &mut out);
    changes(data, &mut out);
    probes(data, &mut out);
    tables(data, &mut out);
    cost(data, &mut out);
    out
}

fn fact(out: &mut String, label: &str, text: &str) {
    for (number, line) in wrap(&clean(text), width() - LABEL - 2).iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        let _ = writeln!(out, "  {label:<LABEL$}{line}");
    }
}

fn what(data: &SummaryView, clock_start_ns: i64, out: &mut String) {
    out.push('\n');
    match (&data.command, &data.job) {
        (Some(command), _) => fact(out, "command", &command_line(command)),
        (None, Some(job)) => fact(out, "jobs", &job_names(job)),
        (None, None) => fact(out, "target", &or_dash(data.target.as_ref())),
    }
    let mut exit = data.exit.as_ref().map_or_else(|| "-".to_owned(), ended);
    for (set, word) in [(data.timed_out, ", timed out"), (data.interrupted, ", interrupted")] {
        if set == Some(true) {
            exit.push_str(word);
        }
    }
    fact(out, "exit", &exit);
    if let Some(excluded) = &data.excluded {
        fact(out, "", &format!("a comparison leaves this run out: {excluded}"));
    }
    overview(&data.overview, out);
    surroundings(data, clock_start_ns, out);
}

/// Letters of a command that are shown.
const COMMAND: usize = 300;

/// The command as it was typed, or its beginning and how much there is.
fn command_line(command: &[String]) -> String {
    let line = command.join(" ");
    if line.chars().count() <= COMMAND {
        return line;
    }
    let begin: String = line.chars().take(COMMAND).collect();
    format!("{begin}... ({} arguments, {} in all; whole: --json)", command.len() - 1, bytes(line.len() as u64))
}

/// What most readers want to know first.
fn overview(data: &Overview, out: &mut String) {
    let time = |ns: Option<f64>| or_dash(ns.map(duration));
    let size = |count: Option<f64>| or_dash(count.map(|count| bytes(count as u64)));
    let count = |count: Option<f64>| or_dash(count.map(figure));
    fact(out, "elapsed", &time(data.elapsed_ns));
    let busy = data.user_ns.zip(data.system_ns).map(|(user, system)| user + system);
    // The time before the command's own program is a large part of a very short run.
    let share = busy.zip(data.elapsed_ns).filter(|(_, elapsed)| *elapsed >= 1e7);
    let share =
        share.map_or_else(String::new, |(busy, elapsed)| format!(", {:.0} % of one CPU", 100.0 * busy / elapsed));
    let (user, system) = (time(data.user_ns), time(data.system_ns));
    fact(out, "CPU", &format!("{} (user {user}, system {system}{share})", time(busy)));
    let mut waiting = format!("no task on a CPU for at least {}", time(data.off_cpu_at_least_ns));
    if data.voluntary_switches.is_some() {
        let (gave, lost) = (count(data.voluntary_switches), count(data.involuntary_switches));
        let _ = write!(waiting, "; gave up the CPU {gave} times, lost it {lost} times");
    }
    fact(out, "waiting", &waiting);
    let (minor, major) = (count(data.minor_faults), count(data.major_faults));
    fact(out, "faults", &format!("{minor} minor, {major} major (needed I/O)"));
    let (read, written) = (size(data.read_bytes), size(data.written_bytes));
    fact(out, "disk", &format!("caused {read} to be read from devices and {written} to be written"));
    fact(out, "memory", &format!("{} resident at most", size(data.max_rss_bytes)));
}

/// The machine it ran on, and the part of its time that counts.
fn surroundings(data: &SummaryView, clock_start_ns: i64, out: &mut String) {
    if let Some(label) = &data.label {
        fact(out, "label", label);
    }
    if data.variant.is_some() || data.run.is_some() {
        let (variant, run) = (or_dash(data.variant.as_ref()), or_dash(data.run));
        let (round, position) = (or_dash(data.round), or_dash(data.position));
        fact(out, "run", &format!("{run} of variant {variant}, round {round}, position {position}"));
    }
    let page = or_dash(data.page_size_bytes.map(bytes));
    let (host, kernel, arch) =
        (or_dash(data.host.as_ref()), or_dash(data.kernel.as_ref()), or_dash(data.arch.as_ref()));
    let (cpus, virt) = (or_dash(data.cpus), or_dash(data.virt.as_ref()));
    fact(out, "host", &format!("{host}, Linux {kernel}, {arch}, {cpus} CPUs, virtualisation {virt}, pages of {page}"));
    fact(out, "duration", &or_dash(data.duration_ns.map(|ns| duration(ns as f64))));
    if let Some(window) = &data.window {
        let operations = window.operations.map_or_else(String::new, |count| format!(", {} operations", figure(count)));
        let since = seconds(window.start_ns.saturating_sub(clock_start_ns));
        let source = format!("{:?}", window.source).to_ascii_lowercase();
        let source = match source.as_str() {
            "command" => "the command's lifetime".to_owned(),
            "recording" => "the time recorded".to_owned(),
            "load" => "as the load reported it".to_owned(),
            other => other.to_owned(),
        };
        fact(out, "analysed", &format!("{:.3} s from {since} s ({source}){operations}", window.seconds()));
    }
}

fn ended(exit: &Exit) -> String {
    match (exit.signal, exit.code) {
        (Some(number), _) => format!("killed by {}", names::signal(number)),
        (None, Some(code)) => format!("status {code}"),
        (None, None) => "-".to_owned(),
    }
}

fn job_names(job: &Value) -> String {
    let jobs = job.get("jobs").and_then(Value::as_array);
    let names: Vec<&str> = jobs.into_iter().flatten().filter_map(|job| job.get("name")?.as_str()).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn faults(data: &SummaryView, out: &mut String) {
    out.push_str("\nFAULTS in the measured time\n");
    let Some(faults) = &data.faults else {
        out.push_str("  not recorded\n");
        return;
    };
    let mut table = Table::new([left(""), right("COUNT"), right("PER_S"), right("PER_OP"), right("%")]);
    let all = faults.kinds.get("all").and_then(|count| count.count);
    for (kind, _) in FAULT_KINDS {
        let count =
            faults.kinds.get(kind).copied().unwrap_or(Counted { count: None, per_s: None, per_operation: None });
        let share = count.count.zip(all).map(|(part, whole)| percent(part as u64, whole as u64));
        let word = match kind {
            "user" => "from user mode",
            "kernel" => "from kernel mode",
            "protection" => "page already present",
            "instruction" => "instruction fetch",
            "major" => "needed I/O (major)",
            other => other,
        };
        table.row([
            word.to_owned(),
            or_dash(count.count.map(figure)),
            or_dash(count.per_s.map(figure)),
            or_dash(count.per_operation.map(figure)),
            or_dash(share),
        ]);
    }
    table.write(2, out);
    let rows = or_dash(faults.in_recording);
    let _ = writeln!(out, "  in the whole recording: {rows}");
    let Some(slots) = &data.slots else { return };
    let _ = writeln!(
        out,
        "  on no known mapping: {} ({} %)",
        slots.unattributed,
        percent(slots.unattributed, slots.faults)
    );
    let said = format!(
        "slots of {} in which a huge page was possible: {} touched with {} faults; {} look like a huge page, {} were \
         populated with base pages; other slots: {} touched with {} faults",
        bytes(slots.slot_bytes),
        slots.whole,
        slots.faults_in_whole,
        slots.whole_few_pages,
        slots.whole_many_pages,
        slots.partial,
        slots.faults_in_partial
    );
    for line in wrap(&said, width() - 2) {
        let _ = writeln!(out, "  {line}");
    }
    if slots.classes.is_empty() {
        return;
    }
    out.push_str("  most faults:\n");
    let mut table = Table::new([right("FAULTS"), right("MAPPINGS"), left("ORDER"), left("CLASS")]);
    for class in &slots.classes {
        let order = or_dash(class.order);
        table.row([class.faults.to_string(), class.mappings.to_string(), order, class.class.clone()]);
    }
    table.write(4, out);
}

fn usage(data: &SummaryView, out: &mut String) {
    out.push_str("\nRUSAGE of the command and its children\n");
    let Some(usage) = data.rusage.as_ref().and_then(Value::as_object) else {
        out.push_str("  -\n");
        return;
    };
    for (key, value) in usage {
        let text = match (value.as_i64(), key.as_str()) {
            (Some(ns), key) if key.ends_with("_ns") => duration(ns as f64),
            (Some(size), key) if key.ends_with("_bytes") => bytes(size.unsigned_abs()),
            (Some(number), _) => number.to_string(),
            (None, _) if value.is_null() => "-".to_owned(),
            (None, _) => value.to_string(),
        };
        let _ = writeln!(out, "  {:<30}{}", clean(key), clean(&text));
    }
}

fn changes(data: &SummaryView, out: &mut String) {
    out.push_str("\nSETTINGS that changed\n");
    if !data.settings_compared {
        out.push_str("  - (they were not read at both start and end)\n");
        return;
    }
    let mut table = Table::new([left("KEY").at_most(48), left("START").at_most(20), left("END").at_most(20)]);
    for change in data.settings_changed.iter().take(CHANGES) {
        table.row([change.key.clone(), change.start.clone(), change.end.clone()]);
    }
    if !data.settings_changed.is_empty() {
        table.write(2, out);
    }
    let hidden = data.settings_changed.len().saturating_sub(CHANGES);
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more: see the view settings");
    }
    let none = if data.settings_changed.is_empty() { "none " } else { "" };
    let _ = writeln!(out, "  {none}({} volatile ones ignored)", data.settings_changed_volatile);
}

fn probes(data: &SummaryView, out: &mut String) {
    out.push_str("\nPROBES\n");
    if data.probes.is_empty() {
        out.push_str("  -\n");
        return;
    }
    let mut table = Table::new([
        left("PROBE"),
        left("STATE"),
        right("SEEN"),
        right("LOST"),
        left("METHOD").at_most(24),
        left("WHY AND FIX"),
    ]);
    for probe in &data.probes {
        let state = if probe.state == ProbeState::Active { "active" } else { "refused" };
        let fix = probe.fix.as_ref().map(|fix| format!("fix: {fix}"));
        let why: Vec<String> = probe.reason.iter().cloned().chain(fix).collect();
        table.row([
            probe.name.clone(),
            state.to_owned(),
            or_dash(probe.events_seen),
            or_dash(probe.events_lost),
            or_dash(probe.rung.as_ref()),
            why.join("; "),
        ]);
    }
    table.write(2, out);
    out.push_str("\nLOSS over the whole recording\n");
    if data.loss.is_empty() {
        out.push_str("  -\n");
        return;
    }
    let mut table = Table::new([left("STREAM"), right("SEEN"), right("LOST"), right("FILTERED"), right("LOST_%")]);
    for (stream, loss) in &data.loss {
        let share = format!("{:.3}", 100.0 * loss.share());
        table.row([stream.clone(), loss.seen.to_string(), loss.lost.to_string(), loss.filtered.to_string(), share]);
    }
    table.write(2, out);
}

fn tables(data: &SummaryView, out: &mut String) {
    out.push_str("\nTABLES\n");
    if data.tables.is_empty() {
        out.push_str("  none\n");
        return;
    }
    let mut table = Table::new([left("TABLE"), right("ROWS"), right("PARTS"), right("BYTES"), right("BYTES/ROW")]);
    for row in &data.tables {
        let each = row.bytes.zip(row.rows).filter(|(_, rows)| *rows > 0).map(|(size, rows)| size as f64 / rows as f64);
        table.row([
            row.table.to_owned(),
            or_dash(row.rows),
            row.parts.to_string(),
            or_dash(row.bytes.map(bytes)),
            or_dash(each.map(|each| format!("{each:.1}"))),
        ]);
    }
    table.write(2, out);
}

fn cost(data: &SummaryView, out: &mut String) {
    out.push_str("\nCOST of recording\n");
    let cost = &data.self_cost;
    let time = |ns: Option<u64>| or_dash(ns.map(|ns| duration(ns as f64)));
    let size = |count: Option<u64>| or_dash(count.map(bytes));
    let mut bpf = time(cost.bpf_ns);
    if let Some(reason) = cost.extra.get("bpf_ns_reason").and_then(Value::as_str)
        && cost.bpf_ns.is_none()
    {
        let _ = write!(bpf, " ({reason})");
    }
    fact(out, "CPU", &time(cost.cpu_ns));
    fact(out, "BPF", &bpf);
    fact(out, "memory", &size(cost.max_rss_bytes));
    fact(out, "written", &size(cost.bytes_written));
}
