//! Which lists of each view two sides are compared by: what names a row, and which figures it has.

/// What may be done with a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Adds up over rows: a count, bytes, a time. A row that is not there is 0.
    Sum,
    /// Does not add up: a mean, a percentile, a share. A row that is not there has none.
    Level,
    /// A word, such as the pattern of reads.
    Word,
}

/// A column: its path in a row of the view's document (`reads/bytes`), and what may be done with it.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Keys from the row down, with `/` between them.
    pub path: &'static str,
    /// What may be done with it.
    pub sort: Sort,
}

/// One list of a view's document.
#[derive(Debug, Clone, Copy)]
pub struct ListDef {
    /// The view.
    pub view: &'static str,
    /// Key of the list in the view's document.
    pub list: &'static str,
    /// Paths of the values that name a row. They mean the same in another recording: no ids, no addresses.
    pub key: &'static [&'static str],
    /// The columns; rows are ranked by how much the first one changed.
    pub columns: &'static [Column],
}

const fn sum(path: &'static str) -> Column {
    Column { path, sort: Sort::Sum }
}

const fn level(path: &'static str) -> Column {
    Column { path, sort: Sort::Level }
}

const fn word(path: &'static str) -> Column {
    Column { path, sort: Sort::Word }
}

const fn list(
    view: &'static str,
    list: &'static str,
    key: &'static [&'static str],
    columns: &'static [Column],
) -> ListDef {
    ListDef { view, list, key, columns }
}

/// Every list that two sides are compared by.
pub(crate) const LISTS: &[ListDef] = &[
    list("summary", "tables", &["table"], &[sum("rows"), sum("bytes")]),
    list(
        "tasks",
        "tasks",
        &["comm"],
        &[sum("cpu_ns"), sum("faults_recorded"), sum("minor_faults"), sum("major_faults"), level("duration_ns")],
    ),
    list(
        "faults",
        "classes",
        &["class"],
        &[
            sum("faults"),
            sum("protection_faults"),
            sum("mappings"),
            sum("mapped_bytes"),
            sum("whole_slots"),
            sum("whole_slots_by_page"),
            sum("partial_slots"),
            level("faults_per_slot"),
            level("faults_per_page"),
            word("order"),
        ],
    ),
    list("faults", "instructions", &["path", "module_offset"], &[sum("faults"), word("symbol")]),
    list("faults", "orders", &["order"], &[sum("faults"), sum("mappings")]),
    list("faults", "tasks", &["comm"], &[sum("faults")]),
    list("maps", "totals", &["op"], &[sum("count"), sum("failed"), sum("not_calls"), sum("len_bytes")]),
    list("maps", "actions", &["op", "kind", "path", "comm", "advice"], &[sum("len_bytes")]),
    list("dax", "files", &["path"], &[sum("faults"), sum("slots"), sum("huge_slots"), sum("small_slots")]),
    list(
        "syscalls",
        "groups",
        &["name", "comm", "path"],
        &[
            sum("total_ns"),
            sum("calls"),
            sum("errors"),
            sum("cpu_ns"),
            sum("on_cpu_ns"),
            sum("queue_ns"),
            sum("blocked_ns"),
            sum("unfinished"),
            sum("refused"),
            level("mean_ns"),
            level("p50_ns"),
            level("p99_ns"),
            level("max_ns"),
        ],
    ),
    list(
        "io",
        "files",
        &["path", "comm"],
        &[
            sum("reads/bytes"),
            sum("reads/calls"),
            sum("reads/time_ns"),
            sum("writes/bytes"),
            sum("writes/calls"),
            sum("writes/time_ns"),
            sum("opens"),
            level("reads/mean_bytes"),
            level("writes/mean_bytes"),
            word("reads/pattern"),
            word("writes/pattern"),
        ],
    ),
    list("io", "mapped", &["path"], &[sum("faults"), sum("mappings")]),
    list("io", "sizes_read", &["from_bytes"], &[sum("calls")]),
    list("io", "sizes_written", &["from_bytes"], &[sum("calls")]),
    list(
        "budget",
        "components",
        &["component"],
        &[
            sum("ns"),
            sum("wall_ns"),
            level("wall_ns_per_operation"),
            level("pct"),
            level("wall_pct"),
            level("error_ns"),
        ],
    ),
    list("budget", "kernel", &["entry", "mechanism"], &[sum("ns"), sum("samples"), level("run_pct")]),
    list("budget", "unmatched", &["function"], &[sum("samples"), level("kernel_pct")]),
    list(
        "sched",
        "tasks",
        &["comm"],
        &[
            sum("waiting_ns"),
            sum("on_cpu_ns"),
            sum("queue_ns"),
            sum("asleep_ns"),
            sum("preempted/ns"),
            sum("preempted/times"),
        ],
    ),
    list("sched", "stacks", &["state", "kernel", "user"], &[sum("off/ns"), sum("off/times"), sum("off/queue_ns")]),
    list(
        "sched",
        "syscalls",
        &["name"],
        &[sum("waiting_ns"), sum("on_cpu_ns"), sum("queue_ns"), sum("total_ns"), sum("calls")],
    ),
    list(
        "profile",
        "symbols",
        &["module", "symbol"],
        &[sum("samples"), sum("total_samples"), level("pct"), level("total_pct")],
    ),
    list("profile", "groups", &["name"], &[sum("samples"), level("pct")]),
    list("profile", "modules", &["name"], &[sum("samples"), level("pct")]),
    list("profile", "comms", &["name"], &[sum("samples"), level("pct")]),
    list("counters", "events", &["name"], &[sum("value"), level("per_operation")]),
    list("counters", "ratios", &["name"], &[level("value")]),
    list("metrics", "metrics", &["name", "instance"], &[level("value"), level("per_operation")]),
    list("settings", "settings", &["key"], &[word("start"), word("end")]),
    list(
        "latency",
        "histograms",
        &["job", "direction", "kind"],
        &[
            level("mean_ns"),
            sum("count"),
            level("percentiles/50"),
            level("percentiles/99"),
            level("percentiles/99.9"),
            level("max_ns"),
        ],
    ),
    list(
        "block",
        "groups",
        &["device_name", "op"],
        &[
            sum("bytes"),
            sum("count"),
            sum("merged"),
            sum("failed"),
            sum("unfinished"),
            level("device_time/mean_ns"),
            level("device_time/p50_ns"),
            level("device_time/p99_ns"),
            level("queue/mean_ns"),
            level("queue/p99_ns"),
        ],
    ),
    list("regions", "sizes", &["page_size_bytes"], &[sum("bytes")]),
    list("regions", "shortfalls", &["asked", "reason"], &[sum("bytes"), sum("regions")]),
    list("regions", "regions", &["path", "comm", "asked", "reason"], &[sum("bytes"), sum("len_bytes")]),
    list("loss", "totals", &["stream"], &[sum("seen"), sum("lost"), sum("filtered")]),
];

/// Numbers at the head of a document that say how it was made and measure nothing.
pub(crate) const NO_FIGURES: &[&str] =
    &["clock_start_ns", "page_bytes", "slot_bytes", "page_size_bytes", "cpus", "realtime_at_start_ns"];

/// The lists of a view.
pub fn of_view(view: &str) -> impl Iterator<Item = &'static ListDef> + '_ {
    LISTS.iter().filter(move |list| list.view == view)
}
