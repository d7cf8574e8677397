//! `pagelab show`: one view of a recording.
//!
//! A view is a function over an open recording that yields a [`View`]: the text for people and the document for
//! programs, made from the same data.
//!
//! # How to add a view
//! 1. Write `NAME.rs` with `pub fn view(&Recording, &Options) -> Result<View, Failure>`: collect into a struct that
//!    serialises (keys in snake case, units as suffixes, null for what is not known), make the text from that struct.
//! 2. Give it a line in [`VIEWS`].
//! 3. Add it to `tests/show.rs`.

mod block;
mod counters;
mod dax;
mod ends;
mod faults;
mod io;
mod join;
mod latency;
mod loss;
mod maps;
mod metrics;
mod names;
pub(super) mod options;
mod profile;
pub(super) mod read;
mod regions;
mod sched;
mod settings;
pub(super) mod stacks;
mod summary;
mod syscalls;
mod table;
mod tasks;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use pagelab_recording::{Error, Recording, Span};
use pagelab_vocab::nearest::hint_for;
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::options::SpanArgs;
use crate::print;
use crate::say;
use options::{Filter, Options};

/// Show one view of a recording: `pagelab show [DIR] [VIEW] [WORD...]`.
///
/// Without DIR it is the newest recording in the current directory, without VIEW the summary. Views: summary (what was recorded, and what stands out), tasks (their tree, and their faults as recorded and as the
/// kernel accounts them), faults (by class of mapping, mapping, instruction and task), maps (mapping actions), metrics,
/// settings, loss (per second and stream), latency (of a load's operations), profile (CPU time by function), counters (of
/// processor and kernel, with what follows from them), block (requests of disks), dax (faults on DAX files), regions (the page
/// sizes that memory really had), syscalls (summed up, or one by one), io (reads and writes of files: sizes, and their order in
/// the file), sched (running, ready or waiting).
///
/// Times are seconds since recording began; --from and --to count in them, too. What is not known is `-`, in JSON null. A recording that broke off is shown
/// as far as it goes, and its first line says so.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The recording [default: the newest here], the view (summary, tasks, faults, maps, profile, metrics, settings, loss,
    /// latency, syscalls, io, sched, counters, block, dax or regions) [default: summary], and, for metrics, settings and
    /// counters, words of which the names shown hold one.
    #[arg(value_name = "[DIR] [VIEW] [WORD]")]
    words: Vec<OsString>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Only this process, by its id; of all views with tasks.
    #[arg(long, value_name = "N")]
    pid: Option<i32>,
    /// Only tasks of this name, at the times when they had it; of all views with tasks.
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Only mappings of this file, calls on it and samples that ran in it, by its path or the end of it, or by the kernel's
    /// name ([heap]).
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    span: SpanArgs,
    /// At most so many rows of each list; 0 is all [default: 20 of a ranking, all of a listing].
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// The column to rank by; a wrong one is answered with those of the view.
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// profile: what calls this function.
    #[arg(long, value_name = "FUNCTION")]
    callers: Option<String>,
    /// profile: what this function calls.
    #[arg(long, value_name = "FUNCTION")]
    callees: Option<String>,
    /// profile: a group of functions, added up; may be given several times.
    #[arg(long, value_name = "NAME=REGEX")]
    group: Vec<String>,
    /// syscalls: one row for each task, comm or file instead of each name.
    #[arg(long, value_name = "WHAT")]
    by: Option<String>,
    /// syscalls: only calls of these names or classes (%desc %file %memory ...), with commas between them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,
    /// syscalls: each call on a line of its own, as strace prints it.
    #[arg(long)]
    log: bool,
}

const AFTER_HELP: &str = "\
Examples:
  pagelab show
  pagelab show good.rec
  pagelab show good.rec faults --comm postgres --top 5
  pagelab show good.rec settings thp. hugetlb.
  pagelab show good.rec metrics vmstat.thp_ --json
  pagelab show good.rec profile --callers memcpy --group 'copy=^(copy_|memcpy|memmove)'
  pagelab show good.rec syscalls --by file --name %desc --sort p99

tasks: FAULTS are the rows of the task in the recording, MIN+MAJ what the kernel accounts to it when it ends, DIFF how
many more that is. The kernel also accounts the faults that it takes on a task's behalf without an exception
(get_user_pages, as for direct I/O and ptrace), those of exec before the new program runs, and faults repeated
after waiting for a lock; faults lost by the recorder count here too, and are told apart by: show DIR loss.
faults: PER_PAGE and PER_SLOT count the faults that found no page, for each base page mapped and for each
aligned slot of the huge page size that was touched. One per slot is what huge pages give.
counters: ~ is an estimate of a count that was taken in a part of the time, because the processor has too few counters for
all events at once; derived numbers are made of events that were counted at the same times, and of no others.
block: all requests on the host's disks. What a program writes into the page cache is written to the disk by kernel
threads: such requests belong to no task, and --pid and --comm leave them out.
regions: each address space as it was when it was last looked at, which is some time before its end.
syscalls: times are from entry to return; a call that never returned has none. --log prints every call; the name of the
file stands behind its descriptor, addresses as they are.
io: an operation is sequential if it begins where an earlier one ended (of the same task, or of any that shares the
file), descending if it ends where one began, strided in a progression of equal steps, SAME at the place of the one
before, else random. The pattern has 60 % of the operations, or it is mixed. STREAMS is how many sequential, strided or
descending runs of 8 and more there were. Reads and writes through mappings are seen by their faults only, those of
io_uring and libaio not at all.
sched: ASLEEP is until the task was woken; QUEUE is ready without a CPU, woken or PREEMPTED. BY STACK says where tasks slept.
JSON: a path is text with what is not UTF-8 replaced; if anything was, `path_bytes_hex` stands beside `path`.
--top and --sort choose the same rows as in the text; `..._total` beside a list is the number of rows it was taken from.
Addresses are hexadecimal text, because many readers of JSON round large numbers.";

/// What is shown: for people, and for programs.
struct View {
    text: String,
    json: Value,
    /// Writes what follows the text and is too long to be made in memory.
    rest: Option<Rest>,
}

type Rest = Box<dyn FnOnce(&mut dyn Write) -> Result<(), Failure>>;

type Make = fn(&Recording, &Options) -> Result<View, Failure>;

/// The views with their filters.
const VIEWS: &[(&str, Make, &[Filter])] = &[
    ("summary", summary::view, &[]),
    ("tasks", tasks::view, &[Filter::Pid, Filter::Comm, Filter::Top, Filter::Sort]),
    ("faults", faults::view, &[Filter::Pid, Filter::Comm, Filter::File, Filter::Top, Filter::Sort]),
    ("maps", maps::view, &[Filter::Pid, Filter::Comm, Filter::File, Filter::Top, Filter::Sort]),
    ("metrics", metrics::view, &[Filter::Words, Filter::Top, Filter::Sort]),
    ("settings", settings::view, &[Filter::Words, Filter::Top]),
    ("loss", loss::view, &[Filter::Top, Filter::Sort]),
    ("latency", latency::view, &[]),
    (
        "profile",
        profile::view,
        &[Filter::Pid, Filter::Comm, Filter::File, Filter::Top, Filter::Sort, Filter::Functions],
    ),
    ("counters", counters::view, &[Filter::Words]),
    ("block", block::view, &[Filter::Pid, Filter::Comm, Filter::Top, Filter::Sort]),
    ("regions", regions::view, &[Filter::Pid, Filter::Comm, Filter::File, Filter::Top, Filter::Sort]),
    ("dax", dax::view, &[Filter::Pid, Filter::Comm, Filter::File, Filter::Top, Filter::Sort]),
    ("syscalls", syscalls::view, &Filter::CALLS),
    ("io", io::view, &Filter::FILES),
    ("sched", sched::view, &Filter::TASKS),
];

/// Shows the view asked for.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let Asked { dir, view: name, words } = Asked::of(&args.words)?;
    let (make, filters) = find(&name)?;
    let options = Options {
        dir,
        pid: args.pid,
        comm: args.comm.clone(),
        file: args.file.clone(),
        words,
        top: args.top,
        sort: args.sort.clone(),
        bounds: args.span.bounds(),
        callers: args.callers.clone(),
        callees: args.callees.clone(),
        groups: args.group.clone(),
        by: args.by.clone(),
        names: args.name.clone(),
        log: args.log,
        json: args.json,
    };
    options.check(&name, filters)?;
    let recording = open_part(&options)?;
    let view = make(&recording, &options)?;
    if args.json {
        print::json(&view.json)?;
    } else {
        print::text(&view.text)?;
        if let Some(rest) = view.rest {
            print::stream(rest)?;
        }
    }
    Ok(0)
}

/// What the words of the command line ask for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    dir: PathBuf,
    view: String,
    words: Vec<String>,
}

impl Asked {
    fn of(words: &[OsString]) -> Result<Self, Failure> {
        let is_view = |word: &OsString| word.to_str().is_some_and(|word| VIEWS.iter().any(|(view, ..)| *view == word));
        let (dir, rest) = match words {
            [first, rest @ ..] if !is_view(first) || is_recording(Path::new(first)) => {
                let is_there = Path::new(first).exists();
                if let (false, true, Some(word)) = (is_there, rest.is_empty(), first.to_str()) {
                    // A slip in the name of a view, or of a recording.
                    return Err(neither(word));
                }
                (PathBuf::from(first), rest)
            }
            all => (newest()?, all),
        };
        let mut rest = rest.iter().map(|word| word.to_string_lossy().into_owned());
        let view = rest.next().unwrap_or_else(|| "summary".to_owned());
        Ok(Self { dir, view, words: rest.collect() })
    }
}

fn is_recording(dir: &Path) -> bool {
    dir.join("manifest.json").is_file()
}

/// The recording in the current directory that was begun or ended last; says which.
fn newest() -> Result<PathBuf, Failure> {
    let changed = |dir: &PathBuf| std::fs::metadata(dir.join("manifest.json")).and_then(|meta| meta.modified()).ok();
    let here = std::fs::read_dir(".").map_err(Failure::input)?.flatten().map(|entry| PathBuf::from(entry.file_name()));
    let newest = here.filter_map(|dir| Some((changed(&dir)?, dir))).max();
    let Some((_, dir)) = newest else {
        let here = std::env::current_dir().map_or_else(|_| ".".to_owned(), |dir| dir.display().to_string());
        let needed = format!("found no recording in {here}; needed: one, try: pagelab record CMD, or pagelab show DIR");
        return Err(Failure::input(anyhow::anyhow!(needed)));
    };
    say!("pagelab: the newest recording here: {}", table::clean(&dir.to_string_lossy()));
    Ok(dir)
}

fn neither(word: &str) -> Failure {
    match find(word) {
        Err(failure) if !word.contains('/') && Path::new(word).extension().is_none_or(|ext| ext != "rec") => {
            Failure::input(anyhow::anyhow!("there is no recording {word:?}, and {failure}"))
        }
        _ => Failure::input(anyhow::anyhow!(
            "there is no recording {word:?}; needed: the directory named with record -o"
        )),
    }
}

fn find(name: &str) -> Result<(Make, &'static [Filter]), Failure> {
    if let Some((_, make, filters)) = VIEWS.iter().find(|(known, ..)| *known == name) {
        return Ok((*make, filters));
    }
    let known: Vec<&str> = VIEWS.iter().map(|(known, ..)| *known).collect();
    let list = known.join(", ");
    let near = hint_for(name, known.iter().copied());
    Err(Failure::input(anyhow::anyhow!("there is no view {name:?}{near}; the views are: {list}")))
}

/// Opens the part of the recording that counts. That a path cannot be read is the fault of who gave it.
pub(super) fn open_part(options: &Options) -> Result<Recording, Failure> {
    let recording = Recording::open(&options.dir).map_err(|error| match error {
        Error::Io { .. } => Failure::input(error),
        other => other.into(),
    })?;
    let span = options.bounds.of(&recording)?;
    Ok(recording.within(span))
}

impl View {
    /// Puts together what every view says: which recording, whether it is whole, what the reader must know.
    fn new(
        name: &str,
        recording: &Recording,
        notes: &[String],
        data: &impl Serialize,
        body: &str,
    ) -> Result<Self, Failure> {
        let manifest = recording.manifest();
        let mut json = serde_json::to_value(data).map_err(Failure::input)?;
        if let Value::Object(fields) = &mut json {
            fields.insert("view".to_owned(), name.into());
            fields.insert("recording".to_owned(), recording.dir().to_string_lossy().into());
            fields.insert("complete".to_owned(), manifest.complete.into());
            if let Some(reason) = &manifest.incomplete_reason {
                fields.insert("incomplete_reason".to_owned(), reason.as_str().into());
            }
            if !manifest.rows_dropped.is_empty() {
                let dropped = serde_json::to_value(&manifest.rows_dropped).map_err(Failure::input)?;
                fields.insert("rows_dropped".to_owned(), dropped);
            }
            fields.insert("clock_start_ns".to_owned(), manifest.clock.start_ns.into());
            fields.insert("notes".to_owned(), notes.into());
        }
        let span = recording.span();
        let noted: Vec<String>;
        let notes = if span.is_part() {
            noted = [vec![span_note(span, manifest.clock.start_ns)], notes.to_vec()].concat();
            &noted
        } else {
            notes
        };
        let mut text = String::new();
        text.push_str(&table::clean(&recording.dir().to_string_lossy()));
        if manifest.complete {
            text.push_str(": complete\n");
        } else {
            text.push_str(": NOT COMPLETE\n");
            let reason = manifest.incomplete_reason.as_deref().unwrap_or(
                "the recorder did not reach its end: at most its last second is missing; exit, end and self cost are \
                 not known",
            );
            indented(reason, &mut text);
        }
        for note in notes {
            indented(&format!("note: {note}"), &mut text);
        }
        text.push_str(body);
        Ok(Self { text, json, rest: None })
    }

    /// Has `rest` written behind the text.
    fn then(self, rest: Rest) -> Self {
        Self { rest: Some(rest), ..self }
    }
}

/// What is left out.
fn span_note(span: Span, start_ns: i64) -> String {
    let at = |ns: i64| format!("{} s", table::seconds(ns.saturating_sub(start_ns)));
    let from = if span.from_ns == i64::MIN { "the start".to_owned() } else { at(span.from_ns) };
    let to = if span.to_ns == i64::MAX { "the end".to_owned() } else { at(span.to_ns) };
    format!(
        "only events from {from} to {to}; tasks, settings and totals of the manifest are those of the whole recording"
    )
}

/// Appends text to `out` in lines behind two blanks.
fn indented(text: &str, out: &mut String) {
    for line in table::wrap(&table::clean(text), table::width() - 2) {
        let _ = writeln!(out, "  {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_of_the_contract_is_there_or_refused_by_name() {
        let contract = "summary tasks faults maps dax syscalls io sched profile counters metrics settings latency block regions loss";
        for name in contract.split(' ') {
            assert!(find(name).is_ok(), "{name}");
        }
        assert_eq!(contract.split(' ').count(), VIEWS.len());
    }

    #[test]
    fn the_recording_and_the_view_may_be_left_out() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("faults");
        std::fs::create_dir(&dir).expect("ours");
        let asked = |words: &[&str]| Asked::of(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let dir = dir.to_str().expect("text");
        let of = |view: &str, words: &[&str]| Asked {
            dir: dir.into(),
            view: view.to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        assert_eq!(asked(&[dir]).expect("a directory"), of("summary", &[]));
        assert_eq!(asked(&[dir, "metrics", "thp", "vm"]).expect("a directory"), of("metrics", &["thp", "vm"]));
        for (word, said) in [("fauts", "did you mean 'faults'?"), ("no/such.rec", "no recording \"no/such.rec\"")] {
            let failure = asked(&[word]).expect_err("neither");
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }

    #[test]
    fn a_slip_gets_the_nearest_name() {
        for (typed, meant) in [("fauts", "faults"), ("setings", "settings"), ("sysscalls", "syscalls")] {
            let Err(failure) = find(typed) else { panic!("{typed} is no view") };
            assert!(failure.to_string().contains(&format!("did you mean '{meant}'?")), "{failure}");
            assert_eq!(failure.status(), 2);
        }
        let Err(failure) = find("xyzzy") else { panic!("xyzzy is no view") };
        assert!(!failure.to_string().contains("did you mean"), "{failure}");
    }
}
