//! Page sizes.

/// Bytes of a 2 MiB page.
pub const HUGE_2M_BYTES: usize = 2 << 20;

/// Bytes of a 1 GiB page.
pub const HUGE_1G_BYTES: usize = 1 << 30;

/// Bytes of a slot: 2 MiB at a multiple of 2 MiB, which a huge page fills or does not.
pub(crate) const SLOT: u64 = HUGE_2M_BYTES as u64;

/// The page size that a mapping asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// Base pages only (4 KiB on x86-64): anonymous memory and shared memory are advised not to use transparent huge
    /// pages.
    Base,
    /// 2 MiB pages: addresses are aligned for them, and transparent huge pages are advised.
    Huge2M,
    /// 1 GiB pages, which only a hugetlb pool and DAX give.
    Huge1G,
    /// Whatever the host's settings give. Addresses are aligned for 2 MiB pages, nothing is advised, and nothing counts as
    /// less than asked.
    #[default]
    Any,
}

impl PageSize {
    /// Bytes of the page; `None` for [`PageSize::Any`].
    pub fn bytes(self) -> Option<usize> {
        match self {
            Self::Base => Some(base_page_bytes()),
            Self::Huge2M => Some(HUGE_2M_BYTES),
            Self::Huge1G => Some(HUGE_1G_BYTES),
            Self::Any => None,
        }
    }

    /// What addresses are aligned to, so that a mapping can have pages of this size.
    pub fn alignment_bytes(self) -> usize {
        match self {
            Self::Base => base_page_bytes(),
            Self::Huge2M | Self::Any => HUGE_2M_BYTES,
            Self::Huge1G => HUGE_1G_BYTES,
        }
    }

    /// The word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge2M => "2M",
            Self::Huge1G => "1G",
            Self::Any => "any",
        }
    }
}

/// Bytes of a base page of the running kernel.
pub fn base_page_bytes() -> usize {
    rustix::param::page_size()
}
