//! What memory a process has, in which page sizes, and why: one reader and one policy, whoever asks.
//!
//! | question | answer |
//! |---|---|
//! | what a range of this process got, 2 MiB by 2 MiB | [`inspect`], [`inspect_with`] |
//! | all memory of a process, as closely as it can be seen | [`process()`], [`process_with`] |
//! | the same at a glance, cheap enough to be repeated while the process is measured | [`Glancer`] |
//! | why a huge page is missing, in one word, in words, and the command that mends it | [`Reason`], [`Switch`] |
//! | the mappings of a process, with what smaps says of them | [`maps`] |
//! | the mounts that a process sees | [`mounts`] |
//! | who gets transparent huge pages by the host's and the process's settings | [`thp`] |
//! | the pools of hugetlb pages, and why one gave nothing | [`pool`], [`Pool`] |
//! | free memory by the size of its pieces | [`buddyinfo`] |
//! | the folders of the control groups of a process | [`own_groups`] |
//! | the fields of `/proc/PID/stat` | [`stat`] |
//! | how long the process would be held by a look at it, told beforehand | [`Walk`] |
//!
//! Readers take the folder that stands for `/`, so that tests hold literal text of a kernel against them.
//!
//! # How a reason is found
//!
//! Page sizes come from the page tables, not from counters that count some kinds of huge pages only: smaps knows
//! nothing of DAX, and `/proc/kpageflags` describes the memory and not how it is mapped. The obstacles to a huge page
//! are then checked in the kernel's order (`__thp_vma_allowable_orders` in mm/huge_memory.c): the bounds of the
//! mapping, the program's advice, the switch of the process, alignment, settings and mounts, and last what a fault can
//! have lacked. So of two obstacles the first is named: a mapping that is misaligned with its file stays small whatever
//! the options of its mount.
//!
//! # What is visible, and to whom
//!
//! Page sizes need no privilege. Some reasons do: whether small pages are a huge page that was split or came small is
//! seen in `/proc/kpageflags`, which needs CAP_SYS_ADMIN; without it the reason is [`Reason::Unknown`], with the way to
//! know. For a process [`process()`] also reports the zero-filled bytes of its huge pages (by reading them, which takes
//! the right to trace it), sizes of folios and the reservations that a hugetlb pool keeps for it; an unknown value is
//! an `Err` with the reason ([`Told`]). What a fault lacked is derived from the counters since a map was made
//! ([`Past`]). For memory that others mapped the past is not known: there the present state of the host decides (free
//! blocks of 2 MiB, `defrag`, control groups at their limit), and the words say "now". While memory is fragmented, 4
//! KiB entries that came before the advice look the same as those that a failed fault made. Before Linux 6.7 there is
//! no PAGEMAP_SCAN; [`Source::Smaps`] lists what is reported instead.

pub mod buddyinfo;
mod context;
mod error;
mod folios;
mod frames;
mod glance;
mod groups;
mod hugetlb;
pub mod maps;
mod memory;
pub mod mounts;
mod page_size;
mod pagemap;
pub mod pool;
mod process;
mod reason;
mod reserved;
mod slots;
pub mod stat;
#[cfg(test)]
mod testing;
pub mod thp;
mod walk;
mod why;
mod zeros;

pub use error::ResidencyError;
pub use folios::FolioBytes;
pub use glance::{Glance, Glancer};
pub use groups::own_groups;
pub use memory::GroupLimit;
pub use page_size::{HUGE_1G_BYTES, HUGE_2M_BYTES, PageSize, base_page_bytes};
pub use pool::Pool;
pub use process::{Asked, LookOptions, Mapping, ProcessMemory, Short, Told, process, process_with};
pub use reason::{Reason, Switch};
pub use reserved::PoolBytes;
pub use slots::{Got, Held, Past, Slot, Source, inspect, inspect_with};
pub use thp::Counters;
pub use walk::{LONGEST_HOLD_NS, WALK_NS_PER_PAGE, Walk};
pub use zeros::ZeroFilled;
