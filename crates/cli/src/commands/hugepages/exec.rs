//! `hugepages exec`: a program on huge pages.

use std::ffi::OsString;

use pagelab_host::guard::GuardOptions;
use pagelab_host::hugetlb::exec::{self, ExecRequest, Heap, Shm};

use super::{failure, page_bytes};
use crate::failure::Failure;
use crate::print;

/// Arguments of `hugepages exec`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is the program's. What it got is told on standard error, or with --json on standard output."
)]
pub(super) struct Args {
    /// Back the heap (malloc) by transparent huge pages or by pages of the pool.
    #[arg(long, value_enum)]
    heap: Option<HeapArg>,
    /// With --heap thp: set thp.enabled=always on the host while the program runs.
    #[arg(long)]
    always: bool,
    /// Page size of the pool for heap and segments [default: the host's default huge page size].
    #[arg(long)]
    size: Option<String>,
    /// Back shared memory by huge pages. thp: System V segments, memfd and shared anonymous mappings; hugetlb: System V
    /// segments from the pool.
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "thp")]
    shm: Option<ShmArg>,
    /// Back the program's code by huge pages. Always refused, with the reason.
    #[arg(long)]
    text: bool,
    /// Back the program's static data by huge pages. Always refused, with the reason.
    #[arg(long)]
    data: bool,
    /// Print one JSON document on standard output, after the program's own output.
    #[arg(long)]
    json: bool,
    /// Program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum HeapArg {
    Thp,
    Hugetlb,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ShmArg {
    Thp,
    Hugetlb,
}

/// Runs the program and gives its status.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let heap = args.heap.map(|heap| match heap {
        HeapArg::Thp => Heap::Thp,
        HeapArg::Hugetlb => Heap::Hugetlb,
    });
    let shm = args.shm.map(|shm| match shm {
        ShmArg::Thp => Shm::Thp,
        ShmArg::Hugetlb => Shm::Hugetlb,
    });
    let request = ExecRequest {
        heap,
        always: args.always,
        page_bytes: args.size.as_deref().map(page_bytes).transpose()?,
        shm,
        text: args.text,
        data: args.data,
        command: args.command.clone(),
    };
    let report = exec::exec(&request, GuardOptions::default()).map_err(failure)?;
    if args.json {
        print::json(&report)?;
    } else {
        print::note_part(&report);
    }
    Ok(u8::try_from(report.exit.status()).unwrap_or(u8::MAX))
}
