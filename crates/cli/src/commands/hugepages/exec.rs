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
pub struct Args {
    /// Put the heap (malloc) on transparent huge pages or on pages of the pool.
    #[arg(long, value_enum)]
    heap: Option<HeapArg>,
    /// With --heap thp: let the host give huge pages to all that can have them while the program runs (thp.enabled=always).
    #[arg(long)]
    always: bool,
    /// Page size of the pool that heap and segments come from.
    #[arg(long)]
    size: Option<String>,
    /// Put shared memory on huge pages: on transparent ones System V segments, memfd and shared anonymous maps, or with
    /// --shm=hugetlb System V segments on pages of the pool.
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "thp")]
    shm: Option<ShmArg>,
    /// Put the program's code on huge pages: refused, with the reason.
    #[arg(long)]
    text: bool,
    /// Put the program's static data on huge pages: refused, with the reason.
    #[arg(long)]
    data: bool,
    /// Print one JSON document on standard output; what the program prints is printed, too.
    #[arg(long)]
    json: bool,
    /// The program with its arguments.
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
pub fn run(args: &Args) -> Result<u8, Failure> {
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
