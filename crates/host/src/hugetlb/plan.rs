//! How large a pool has to be for a number of bytes, whether memory has room for it, and what to write where so that it is
//! there after the next boot as well.

use std::fmt;
use std::path::Path;

use pagelab_vocab::settings::format_size;
use serde::Serialize;

use super::pools::{POOLS, has_size};
use super::shortage::FreeMemory;
use super::{HugetlbError, PoolState};
use crate::facts::{default_huge_page_bytes, meminfo_bytes};
use crate::files::trimmed;
use pagelab_residency::pool::folder_name;

/// Pages that the boot loader's words should be preferred for: larger ones are hard to gather once memory is in use.
const HARD_TO_GATHER_BYTES: u64 = 1 << 30;

/// A plan for a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolPlan {
    /// Page size as in keys and commands.
    pub size: String,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes that are to fit.
    pub asked_bytes: u64,
    /// Pages that those take, rounded up.
    pub needed_pages: u64,
    /// Bytes of those pages.
    pub needed_bytes: u64,
    /// Pages that others use now.
    pub used_pages: u64,
    /// Pages that are promised to others now.
    pub reserved_pages: u64,
    /// The pool that has room for all of it.
    pub pool_pages: u64,
    /// Pages by which the pool has to grow from its present permanent size; 0 if it is large enough.
    pub growth_pages: u64,
    /// Whether memory has room for that now; `None` if the kernel does not say how much is available.
    pub fits_now: Option<bool>,
    /// Whether a host with this much memory can have such a pool at all; `None` if the kernel does not say how much it is.
    pub fits_after_boot: Option<bool>,
    /// Memory of the host, bytes.
    pub memory_bytes: Option<u64>,
    /// Memory as it is now, and pieces of this size in it.
    pub free: FreeMemory,
    /// The command that makes the pool now.
    pub now: String,
    /// Ways to have it after each boot, the best one first.
    pub lasting: Vec<Lasting>,
    /// How to have a mount of hugetlbfs after each boot; for programs that map files.
    pub mount: Vec<Lasting>,
    /// Words for the kernel command line that make this the size meant where none is named; none if it is already.
    pub make_default: Option<String>,
    /// What else programs need: rights and limits.
    pub hints: Vec<String>,
}

/// Text to write to a file so that something lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lasting {
    /// What kind of file: `kernel_cmdline`, `sysctl`, `tmpfiles`, `systemd_unit`, `fstab`, `systemd_mount`.
    pub kind: &'static str,
    /// The file.
    pub file: String,
    /// The text for it.
    pub text: String,
    /// The command that makes it take effect.
    pub then: String,
}

/// Plans a pool with room for `bytes` besides what is in use and promised now, below `root`.
///
/// # Errors
/// No pool of this size; no bytes; files that cannot be read.
pub fn plan(root: &Path, bytes: u64, page_bytes: Option<u64>) -> Result<PoolPlan, HugetlbError> {
    let default = default_huge_page_bytes(root);
    let Some(page_bytes) = page_bytes.or(default) else {
        return Err(HugetlbError::NoPools { path: POOLS.to_owned() });
    };
    has_size(root, page_bytes)?;
    if bytes == 0 {
        return Err(HugetlbError::Contradiction {
            found: "0 bytes".to_owned(),
            needed: "at least one; type: pagelab hugepages plan --bytes 1G".to_owned(),
        });
    }
    let pool = PoolState::read(root, page_bytes)?;
    let needed_pages = bytes.div_ceil(page_bytes);
    let pool_pages = needed_pages.saturating_add(pool.used_pages()).saturating_add(pool.reserved_pages);
    let growth_pages = pool_pages.saturating_sub(pool.minimum_pages);
    let growth_bytes = growth_pages.saturating_mul(page_bytes);
    let memory_bytes = meminfo_bytes(root, "MemTotal");
    let free = FreeMemory::read(root, page_bytes, None);
    let fits_now = free.available_bytes.map(|available| growth_bytes <= available);
    let is_default = default == Some(page_bytes);
    let size = format_size(page_bytes);
    Ok(PoolPlan {
        asked_bytes: bytes,
        needed_pages,
        needed_bytes: needed_pages.saturating_mul(page_bytes),
        used_pages: pool.used_pages(),
        reserved_pages: pool.reserved_pages,
        pool_pages,
        growth_pages,
        fits_now,
        fits_after_boot: memory_bytes.map(|all| pool_pages.saturating_mul(page_bytes) < all),
        memory_bytes,
        free,
        now: format!("pagelab hugepages set {size} {pool_pages}"),
        lasting: lasting(
            &size,
            page_bytes,
            pool_pages,
            is_default,
            page_bytes >= HARD_TO_GATHER_BYTES || fits_now == Some(false),
        ),
        mount: lasting_mount(&size),
        make_default: (!is_default)
            .then(|| format!("default_hugepagesz={size} hugepagesz={size} hugepages={pool_pages}")),
        hints: hints(root, needed_pages.saturating_mul(page_bytes)),
        size,
        page_bytes,
    })
}

/// Ways to have the pool after each boot. At boot memory is whole, so that words for the kernel come first where it is
/// `hard` to gather later.
fn lasting(size: &str, page_bytes: u64, pages: u64, is_default: bool, hard: bool) -> Vec<Lasting> {
    let file = format!("{POOLS}/{}/nr_hugepages", folder_name(page_bytes));
    let boot = Lasting {
        kind: "kernel_cmdline",
        file: "/etc/default/grub, in GRUB_CMDLINE_LINUX".to_owned(),
        text: format!("hugepagesz={size} hugepages={pages}"),
        then: "update-grub && reboot".to_owned(),
    };
    let unit = Lasting {
        kind: "systemd_unit",
        file: format!("/etc/systemd/system/hugepages-{size}.service"),
        text: format!(
            "[Unit]\nDescription=Pool of {pages} pages of {size}\nDefaultDependencies=no\nBefore=sysinit.target\n\n\
             [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo {pages} > {file}'\n\n\
             [Install]\nWantedBy=sysinit.target\n"
        ),
        then: format!("systemctl enable --now hugepages-{size}.service"),
    };
    let tmpfiles = Lasting {
        kind: "tmpfiles",
        file: format!("/etc/tmpfiles.d/hugepages-{size}.conf"),
        text: format!("w {file} - - - - {pages}\n"),
        then: format!("systemd-tmpfiles --create /etc/tmpfiles.d/hugepages-{size}.conf"),
    };
    // The sysctl covers the default size alone.
    let sysctl = is_default.then(|| Lasting {
        kind: "sysctl",
        file: "/etc/sysctl.d/60-hugepages.conf".to_owned(),
        text: format!("vm.nr_hugepages = {pages}\n"),
        then: "sysctl --system".to_owned(),
    });
    let mut all = vec![boot];
    let later: Vec<Lasting> = sysctl.into_iter().chain([tmpfiles, unit]).collect();
    if hard {
        all.extend(later);
    } else {
        all.splice(0..0, later);
    }
    all
}

fn lasting_mount(size: &str) -> Vec<Lasting> {
    let (folder, unit) = (format!("/dev/hugepages{size}"), format!("dev-hugepages{size}.mount"));
    vec![
        Lasting {
            kind: "fstab",
            file: "/etc/fstab".to_owned(),
            text: format!("hugetlbfs {folder} hugetlbfs pagesize={size},mode=1777,x-mount.mkdir 0 0\n"),
            then: format!("mount {folder}"),
        },
        Lasting {
            kind: "systemd_mount",
            file: format!("/etc/systemd/system/{unit}"),
            text: format!(
                "[Unit]\nDescription=hugetlbfs with pages of {size}\nDefaultDependencies=no\nBefore=sysinit.target\n\n\
                 [Mount]\nWhat=hugetlbfs\nWhere={folder}\nType=hugetlbfs\nOptions=pagesize={size},mode=1777\n\n\
                 [Install]\nWantedBy=sysinit.target\n"
            ),
            then: format!("systemctl enable --now {unit}"),
        },
    ]
}

fn hints(root: &Path, bytes: u64) -> Vec<String> {
    let group = trimmed(root, "/proc/sys/vm/hugetlb_shm_group");
    let group = match group.as_deref() {
        Some("0") | None => "it is 0, root's".to_owned(),
        Some(gid) => format!("it is {gid}"),
    };
    let mut hints = vec![
        "mmap with MAP_HUGETLB needs no right; a file on hugetlbfs needs permission on the mount (mode, uid, gid)"
            .to_owned(),
        format!(
            "System V segments (SHM_HUGETLB) of users need CAP_IPC_LOCK or membership in the group of vm.hugetlb_shm_group ({group}); \
             type: sysctl -w vm.hugetlb_shm_group=GID"
        ),
        "pages of the pool are never swapped and do not count as locked; RLIMIT_MEMLOCK bounds them only for users of \
         SHM_HUGETLB outside that group (then type in /etc/security/limits.conf: USER - memlock unlimited)"
            .to_owned(),
    ];
    let most = trimmed(root, "/proc/sys/kernel/shmmax").and_then(|text| text.parse::<u64>().ok());
    if let Some(most) = most.filter(|most| *most < bytes) {
        hints.push(format!(
            "one System V segment may have {most} bytes, needed up to {bytes}; type: sysctl -w kernel.shmmax={bytes}"
        ));
    }
    hints
}

impl fmt::Display for PoolPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} bytes need {} pages of {} ({} bytes); {} pages are in use and {} promised: a pool of {} pages, {} more than now",
            self.asked_bytes,
            self.needed_pages,
            self.size,
            self.needed_bytes,
            self.used_pages,
            self.reserved_pages,
            self.pool_pages,
            self.growth_pages
        )?;
        let available = self.free.available_bytes.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
        if self.fits_after_boot == Some(false) {
            // What would have to be written where is of no use then.
            let memory = self.memory_bytes.unwrap_or_default();
            return writeln!(
                out,
                "does not fit this host: it has {memory} bytes of memory, needed more than {}",
                self.pool_pages.saturating_mul(self.page_bytes)
            );
        }
        match self.fits_now {
            Some(true) => writeln!(out, "fits now: {available} bytes are available")?,
            Some(false) => {
                writeln!(out, "does not fit now: {available} bytes are available; reserve the pool at boot")?;
            }
            None => writeln!(out, "whether it fits is not known: the kernel does not say what is available")?,
        }
        writeln!(out, "now: {}", self.now)?;
        for (head, ways) in [("after each boot", &self.lasting), ("mount", &self.mount)] {
            for way in ways {
                writeln!(out, "\n{head}, {}: into {}, then: {}", way.kind, way.file, way.then)?;
                for line in way.text.lines() {
                    writeln!(out, "    {line}")?;
                }
            }
        }
        if let Some(words) = &self.make_default {
            writeln!(out, "\nto have {} where no size is named, on the kernel command line: {words}", self.size)?;
        }
        writeln!(out)?;
        self.hints.iter().try_for_each(|hint| writeln!(out, "{hint}"))
    }
}
