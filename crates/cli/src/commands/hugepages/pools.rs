//! `hugepages list`, `set`, `plan` and `accounting`.

use pagelab_host::guard::GuardOptions;
use pagelab_host::hugetlb::accounting::{self, AccountingRequest};
use pagelab_host::hugetlb::set::{self, SetRequest};
use pagelab_host::hugetlb::{PoolTable, plan as planning, pools};
use serde::Serialize;

use super::{Form, failure, page_bytes, root};
use crate::failure::{BAD, Failure};
use crate::options::above_zero;

/// Arguments of `hugepages set`.
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// Page size, such as 2M or 1G.
    size: String,
    /// Number of pages that the pool should have.
    pages: u64,
    /// Resize only the part of the pool on this NUMA node.
    #[arg(long, conflicts_with = "overcommit")]
    node: Option<u32>,
    /// Set the number of pages that the kernel may add on demand (nr_overcommit_hugepages).
    #[arg(long)]
    overcommit: bool,
    /// If compaction is not enough, drop the clean page cache and try again. Files are then read from disk again.
    #[arg(long)]
    drop_caches: bool,
    #[command(flatten)]
    form: Form,
}

/// Arguments of `hugepages plan`.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Bytes to back by huge pages, such as 40G.
    #[arg(long, value_parser = above_zero)]
    bytes: u64,
    /// Page size [default: the host's default huge page size].
    #[arg(long)]
    size: Option<String>,
    #[command(flatten)]
    form: Form,
}

/// Arguments of `hugepages accounting`.
#[derive(Debug, clap::Args)]
pub(super) struct AccountingArgs {
    /// Sizes to map and touch one after another, such as 64M.
    #[arg(required = true, value_parser = above_zero)]
    steps: Vec<u64>,
    /// Page size.
    #[arg(long, default_value = "2M")]
    size: String,
    /// Size of the pool, in pages.
    #[arg(long, default_value_t = 128)]
    pages: u64,
    /// Pages that the kernel may add on demand.
    #[arg(long, default_value_t = 128)]
    overcommit: u64,
    #[command(flatten)]
    form: Form,
}

/// The document of `list`.
#[derive(Debug, Serialize)]
struct List<'a> {
    pools: &'a [pagelab_host::hugetlb::PoolState],
}

/// Lists the pools.
pub(super) fn list(form: &Form) -> Result<u8, Failure> {
    let pools = pools(root()).map_err(failure)?;
    form.print(&List { pools: &pools }, &PoolTable(&pools))?;
    Ok(0)
}

/// Sets a pool; to get less than was asked for is status 1.
pub(super) fn set(args: &SetArgs) -> Result<u8, Failure> {
    let request = SetRequest {
        page_bytes: page_bytes(&args.size)?,
        pages: args.pages,
        node: args.node,
        overcommit: args.overcommit,
        drop_caches: args.drop_caches,
    };
    let report = set::set(root(), &request).map_err(failure)?;
    args.form.print(&report, &report)?;
    Ok(if report.granted() { 0 } else { BAD })
}

/// Plans a pool.
pub(super) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let size = args.size.as_deref().map(page_bytes).transpose()?;
    let plan = planning::plan(root(), args.bytes, size).map_err(failure)?;
    args.form.print(&plan, &plan)?;
    Ok(0)
}

/// Maps and touches, and shows the pool's counters.
pub(super) fn accounting(args: &AccountingArgs) -> Result<u8, Failure> {
    let request = AccountingRequest {
        page_bytes: page_bytes(&args.size)?,
        pages: args.pages,
        overcommit_pages: args.overcommit,
        steps_bytes: args.steps.clone(),
    };
    let found = accounting::accounting(GuardOptions::default(), &request).map_err(failure)?;
    args.form.print(&found, &found)?;
    Ok(0)
}
