//! The pools: for each page size, and for each NUMA node where the kernel keeps them apart.

use std::fmt;
use std::path::Path;

use pagelab_residency::pool::{self, Pool};
use pagelab_vocab::settings::{format_size, parse_size};
use serde::Serialize;

use super::HugetlbError;
use crate::facts::default_huge_page_bytes;
use crate::files::{names, under};

pub(crate) use pagelab_residency::pool::{NODES, POOLS};

/// One pool of the host, in pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolState {
    /// Page size as in keys and commands: `2M`, `1G`.
    pub size: String,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Whether this size is meant where none is named (MAP_HUGETLB, hugetlbfs without pagesize=).
    pub is_default: bool,
    /// Pages that the pool keeps for good: requested and granted.
    pub minimum_pages: u64,
    /// Pages that it has now, surplus pages included (`nr_hugepages` of the kernel).
    pub total_pages: u64,
    /// Pages that it may grow to while programs ask for them.
    pub maximum_pages: u64,
    /// Pages that nobody has touched.
    pub free_pages: u64,
    /// Free pages that are promised to mappings which have not touched them yet.
    pub reserved_pages: u64,
    /// Pages that the kernel added on demand; they go when they are freed.
    pub surplus_pages: u64,
    /// How many of those there may be.
    pub overcommit_pages: u64,
    /// The parts of the pool on each NUMA node; empty where the kernel does not tell.
    pub nodes: Vec<NodePool>,
}

/// The part of a pool that lies on one NUMA node, in pages. Reservations and overcommit are not kept for nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodePool {
    /// Number of the node.
    pub node: u32,
    /// Pages that the node's part keeps for good.
    pub minimum_pages: u64,
    /// Pages that it has, surplus pages included.
    pub total_pages: u64,
    /// Pages that nobody has touched.
    pub free_pages: u64,
    /// Pages added on demand.
    pub surplus_pages: u64,
}

impl PoolState {
    /// Pages that somebody has touched.
    pub fn used_pages(&self) -> u64 {
        self.total_pages.saturating_sub(self.free_pages)
    }

    /// Total, free, reserved and surplus pages: the four counters that mapping and touching move.
    pub fn counters(&self) -> (u64, u64, u64, u64) {
        (self.total_pages, self.free_pages, self.reserved_pages, self.surplus_pages)
    }

    /// The pool of one page size, below `root`.
    ///
    /// # Errors
    /// No such size, which lists those that there are; files that cannot be read.
    pub fn read(root: &Path, page_bytes: u64) -> Result<Self, HugetlbError> {
        sizes(root)?;
        let pool = Pool::read(root, usize::try_from(page_bytes).unwrap_or(usize::MAX))?;
        let minimum_pages = pool.total_pages.saturating_sub(pool.surplus_pages);
        Ok(PoolState {
            size: format_size(page_bytes),
            page_bytes,
            is_default: default_huge_page_bytes(root) == Some(page_bytes),
            minimum_pages,
            total_pages: pool.total_pages,
            maximum_pages: minimum_pages.saturating_add(pool.overcommit_pages),
            free_pages: pool.free_pages,
            reserved_pages: pool.reserved_pages,
            surplus_pages: pool.surplus_pages,
            overcommit_pages: pool.overcommit_pages,
            nodes: nodes(root).into_iter().filter_map(|node| NodePool::read(root, node, page_bytes)).collect(),
        })
    }
}

impl NodePool {
    /// The part of a node; `None` where the kernel has no such files.
    fn read(root: &Path, node: u32, page_bytes: u64) -> Option<Self> {
        let pool = pool::NodePool::read(root, node, page_bytes)?;
        Some(NodePool {
            node,
            minimum_pages: pool.total_pages.saturating_sub(pool.surplus_pages),
            total_pages: pool.total_pages,
            free_pages: pool.free_pages,
            surplus_pages: pool.surplus_pages,
        })
    }
}

/// All pools of the host below `root`, smallest pages first.
///
/// # Errors
/// The kernel has no hugetlb pages; files that cannot be read.
pub fn pools(root: &Path) -> Result<Vec<PoolState>, HugetlbError> {
    sizes(root)?.into_iter().map(|page_bytes| PoolState::read(root, page_bytes)).collect()
}

/// Page sizes that have a pool, in bytes, smallest first.
///
/// # Errors
/// The kernel has no hugetlb pages.
pub fn sizes(root: &Path) -> Result<Vec<u64>, HugetlbError> {
    let sizes = pool::sizes(root);
    if sizes.is_empty() {
        return Err(HugetlbError::NoPools { path: POOLS.to_owned() });
    }
    Ok(sizes)
}

/// Numbers of the NUMA nodes, smallest first.
pub(crate) fn nodes(root: &Path) -> Vec<u32> {
    let found = names(&under(root, NODES)).into_iter();
    let mut nodes: Vec<u32> = found.filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    nodes.sort_unstable();
    nodes
}

/// The page size that somebody typed (`2M`, `1G`, `2048kB`), if this host has a pool of it.
///
/// # Errors
/// No size; a size that this host does not have, which lists those that there are.
pub fn page_size(root: &Path, typed: &str) -> Result<u64, HugetlbError> {
    let bytes = parse_size(typed.trim()).ok_or_else(|| HugetlbError::Size { found: typed.to_owned() })?;
    has_size(root, bytes)?;
    Ok(bytes)
}

/// Checks that there is a pool of this page size.
pub(crate) fn has_size(root: &Path, page_bytes: u64) -> Result<(), HugetlbError> {
    let sizes = sizes(root)?;
    if sizes.contains(&page_bytes) {
        return Ok(());
    }
    let found: Vec<String> = sizes.into_iter().map(format_size).collect();
    Err(HugetlbError::NoSuchSize { found: found.join(", "), needed: format_size(page_bytes) })
}

/// Prints pools as a table: a line for each pool, and one for each node where there are several.
pub struct PoolTable<'a>(pub &'a [PoolState]);

impl fmt::Display for PoolTable<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  default",
            "size", "minimum", "current", "maximum", "free", "reserved", "surplus", "overcommit"
        )?;
        for pool in self.0 {
            writeln!(
                out,
                "{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {}",
                pool.size,
                pool.minimum_pages,
                pool.total_pages,
                pool.maximum_pages,
                pool.free_pages,
                pool.reserved_pages,
                pool.surplus_pages,
                pool.overcommit_pages,
                if pool.is_default { "*" } else { "" }
            )?;
            for node in pool.nodes.iter().filter(|_| pool.nodes.len() > 1) {
                writeln!(
                    out,
                    "{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
                    format!("node{}", node.node),
                    node.minimum_pages,
                    node.total_pages,
                    "-",
                    node.free_pages,
                    "-",
                    node.surplus_pages,
                    "-"
                )?;
            }
        }
        Ok(())
    }
}
