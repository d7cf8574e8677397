//! `pagelab hugepages`: pools of huge pages, mounts of hugetlbfs, running a program on huge pages, and the conformance suite.

mod conformance;
mod exec;
mod mounts;
mod pools;

use std::path::Path;

use clap::{Parser, Subcommand};
use pagelab_host::hugetlb::{HugetlbError, pools as library};
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

/// Arguments of `pagelab hugepages`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  pagelab hugepages list\n  sudo pagelab hugepages set 2M 512\n  pagelab hugepages plan --bytes 40G\n  \
                  sudo pagelab hugepages mounts create /mnt/huge --size 1G\n  pagelab hugepages exec --heap thp -- ./server\n  \
                  sudo pagelab hugepages accounting --pages 128 --overcommit 128 100M 300M 512M\n  \
                  sudo pagelab hugepages conformance"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the pools of each page size and NUMA node.
    List(Form),
    /// Resize a pool, and read back how many pages the kernel granted.
    Set(pools::SetArgs),
    /// List, create and remove mounts of hugetlbfs.
    Mounts(mounts::Args),
    /// Compute the size of a pool, and the settings that keep it across boots.
    Plan(pools::PlanArgs),
    /// Run an unmodified program on huge pages, and report the page sizes it got.
    Exec(exec::Args),
    /// Show a pool's counters while memory is mapped and touched; the pool is restored afterwards.
    Accounting(pools::AccountingArgs),
    /// Test the kernel's documented behaviour of huge pages.
    Conformance(conformance::Args),
}

/// How to print.
#[derive(Debug, clap::Args)]
struct Form {
    /// Print one JSON document on standard output.
    #[arg(long)]
    json: bool,
}

impl Form {
    /// Prints the document, or the same as text.
    fn print(&self, document: &impl Serialize, text: &impl std::fmt::Display) -> Result<(), Failure> {
        if self.json { print::json(document) } else { print::text(&text.to_string()) }
    }
}

/// This host.
fn root() -> &'static Path {
    Path::new("/")
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::List(form) => pools::list(form),
        Command::Set(args) => pools::set(args),
        Command::Mounts(args) => mounts::run(args),
        Command::Plan(args) => pools::plan(args),
        Command::Exec(args) => exec::run(args),
        Command::Accounting(args) => pools::accounting(args),
        Command::Conformance(args) => conformance::run(args),
    }
}

/// Whose fault it is: what was typed, or what the host has.
fn failure(error: HugetlbError) -> Failure {
    match error {
        HugetlbError::Size { .. }
        | HugetlbError::NoSuchSize { .. }
        | HugetlbError::NoSuchNode { .. }
        | HugetlbError::Contradiction { .. }
        | HugetlbError::NotAMount { .. }
        | HugetlbError::Folder { .. }
        | HugetlbError::Part { .. }
        | HugetlbError::Program { .. } => Failure::input(error),
        _ => Failure::host(error),
    }
}

/// Bytes of a page size that the host has.
fn page_bytes(typed: &str) -> Result<u64, Failure> {
    library::page_size(root(), typed).map_err(failure)
}
