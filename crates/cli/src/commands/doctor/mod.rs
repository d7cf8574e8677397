//! `pagelab doctor`: what this host, a file or a process can do with huge pages and DAX, what is wrong, the fix.

mod mapped_by;

use std::path::{Path, PathBuf};

use clap::Parser;
use pagelab_host::doctor::path::MappedAs;
use pagelab_host::doctor::path::{self, PathError, PathOptions, PathReport, SlotRun};
use pagelab_host::doctor::process::{self, Region};
use pagelab_host::doctor::{Finding, Level, host};
use pagelab_residency::{WALK_NS_PER_PAGE, Walk};
use serde::Serialize;

use crate::failure::{BAD, Failure};
use crate::print;
use crate::say;

/// Arguments of `pagelab doctor`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Looks and changes nothing. The exit status is 1 if there is a problem, 0 if there are notes or nothing.\n\nExamples:\n  \
                  pagelab doctor\n  sudo pagelab doctor /var/lib/db/data\n  pagelab doctor --pid $(pidof -s postgres)\n  pagelab doctor --pid 4711 --recording DIR\n  pagelab doctor --json | jq '.findings[] | select(.level == \"problem\")'"
)]
pub(crate) struct Args {
    /// File to examine: where its extents lie, and which 2 MiB pieces of it a single huge page entry can map.
    #[arg(value_name = "PATH", conflicts_with = "pid")]
    path: Option<PathBuf>,
    /// Assume a mapping without madvise(MADV_HUGEPAGE).
    #[arg(long, requires = "path")]
    unadvised: bool,
    /// Assume that the file is mapped in pieces of this size that the kernel does not merge.
    #[arg(long, requires = "path", value_name = "SIZE", value_parser = bytes)]
    pieces: Option<u64>,
    /// Assume that addresses differ from file offsets by this much, modulo the huge page size.
    #[arg(long, requires = "path", value_name = "SIZE", value_parser = bytes, default_value = "0")]
    shift: u64,
    /// Assume a private mapping that is written to.
    #[arg(long, requires = "path")]
    private: bool,
    /// Running process to examine: page sizes that each mapping asked for and got, and why they are smaller.
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// Recording of that process, to name the calls and stacks that mapped its regions.
    #[arg(long, value_name = "DIR", requires = "pid")]
    recording: Option<PathBuf>,
    /// Print one JSON document on standard output.
    #[arg(long)]
    json: bool,
}

fn bytes(text: &str) -> Result<u64, String> {
    pagelab_vocab::units::parse_size(text).map_err(|error| error.to_string())
}

impl Args {
    fn path_options(&self) -> PathOptions {
        let mapped = MappedAs { piece_bytes: self.pieces, shift_bytes: self.shift, is_private_written: self.private };
        PathOptions { advised: !self.unadvised, mapped, ..PathOptions::default() }
    }
}

/// The document: findings, and beside them what they were made from.
#[derive(Debug, Serialize)]
struct Document<'a> {
    findings: &'a [Finding],
    /// Of a file.
    slots: &'a [SlotRun],
    /// Of a process.
    regions: &'a [Region],
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a host::HostReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a PathReport>,
}

/// What is to be known of a process beside its regions.
#[derive(Debug, Serialize)]
struct Process<'a> {
    pid: u32,
    comm: &'a str,
    page_tables_bytes: Option<u64>,
    page_tables_reason: Option<&'static str>,
    thp_disabled: bool,
    max_ptes_none: Option<u64>,
    seed: u64,
    /// Pages that the look had to walk over; null if the kernel does not say.
    walked_pages: Option<u64>,
    /// How long threads of the process had to wait for the look when they mapped or unmapped memory, at most.
    held_ns_at_most: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    match (&args.path, args.pid) {
        (Some(path), _) => of_file(path, &args.path_options(), args.json),
        (None, Some(pid)) => of_process(pid, args.recording.as_deref(), args.json),
        (None, None) => of_host(args.json),
    }
}

fn of_host(json: bool) -> Result<u8, Failure> {
    let report = host::look(Path::new("/"), std::process::id());
    if json {
        let host = Some(&report);
        print::json(&Document {
            findings: &report.findings,
            slots: &[],
            regions: &[],
            host,
            process: None,
            file: None,
        })?;
    } else {
        print::text(&report.to_string())?;
    }
    Ok(status(&report.findings))
}

fn of_file(path: &Path, options: &PathOptions, json: bool) -> Result<u8, Failure> {
    let report = path::look(path, options);
    let report = report.map_err(|error| match error {
        PathError::Denied { .. } | PathError::System { .. } => Failure::host(error),
        _ => Failure::input(error),
    })?;
    if json {
        let (findings, slots) = (&report.findings, report.slots.as_slice());
        print::json(&Document { findings, slots, regions: &[], host: None, process: None, file: Some(&report) })?;
    } else {
        print::text(&report.to_string())?;
    }
    Ok(status(&report.findings))
}

/// Says beforehand what the look costs the process, if that is more than an observer may take of it unasked.
fn say_cost(pid: u32) -> Option<Walk> {
    let walk = Walk::of_folder(&Path::new("/proc").join(pid.to_string()))?;
    if !walk.is_short() {
        say!(
            "pagelab: process {pid} has {} pages of 4 KiB: a look at them takes up to {WALK_NS_PER_PAGE} ns each, {:.0} ms together, \
             and threads of it that map or unmap memory meanwhile wait for that",
            walk.pages,
            walk.held_ns() as f64 / 1e6
        );
    }
    Some(walk)
}

fn of_process(pid: u32, recording: Option<&Path>, json: bool) -> Result<u8, Failure> {
    let walk = say_cost(pid);
    let mut report = process::look(pid).map_err(Failure::input)?;
    if let Some(dir) = recording {
        mapped_by::attach(&mut report, dir)?;
    }
    if json {
        let process = Process {
            pid,
            comm: &report.comm,
            page_tables_bytes: report.page_tables_bytes,
            page_tables_reason: report.page_tables_reason,
            thp_disabled: report.thp_disabled,
            max_ptes_none: report.max_ptes_none,
            seed: report.seed,
            walked_pages: walk.map(|walk| walk.pages),
            held_ns_at_most: walk.map(Walk::held_ns),
        };
        let (findings, regions) = (&report.findings, &report.regions);
        print::json(&Document { findings, slots: &[], regions, host: None, process: Some(process), file: None })?;
    } else {
        print::text(&report.to_string())?;
    }
    Ok(status(&report.findings))
}

fn status(findings: &[Finding]) -> u8 {
    if findings.iter().any(|finding| finding.level == Level::Problem) { BAD } else { 0 }
}
