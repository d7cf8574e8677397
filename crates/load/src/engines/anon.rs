//! `ioengine=anon`: copies from and to memory that no name leads to, mapped in pieces of any size.
//!
//! A block cache, a heap or an arena without the application: what the kernel does when memory is mapped, touched and unmapped in a
//! certain rhythm, on base pages, transparent huge pages or hugetlb pages. Each piece is an anonymous mapping, or, with
//! `map_backing=memfd`, a part of one memfd, as the shared buffers of many programs are: contents then stay when a piece is unmapped.
//! Mapped privately (`map_share=private`), each page written is there twice: zeros in the memfd, which the fault fills first, and a copy.

use pagelab_fiojob::words::{MapBacking, MapShare};
use pagelab_fiojob::{Caps, engines as language};

use super::Setup;
use super::backing::{Backing, Fresh};
use super::own::{Own, OwnMemory};
use crate::error::LoadError;

/// The engine.
pub(crate) type Anon = Own<Nameless>;

/// Anonymous memory, or a memfd.
pub(crate) enum Nameless {}

impl OwnMemory for Nameless {
    const CAPS: Caps = language::ANON.caps;

    fn backing(setup: &Setup<'_>, hugetlb: Option<u64>) -> Result<Backing, LoadError> {
        let o = setup.options;
        Ok(match o.map_backing {
            MapBacking::Anonymous => Backing::Fresh {
                how: Fresh::Anonymous { shared: o.map_share == MapShare::Shared },
                hugetlb,
                fallback: o.hugetlb_fallback,
            },
            MapBacking::Memfd => {
                let page = hugetlb.unwrap_or(rustix::param::page_size() as u64);
                let bytes = setup.course.region_bytes.next_multiple_of(page);
                Backing::memfd(setup.job, bytes, o.map_share != MapShare::Private, hugetlb)?
            }
        })
    }
}
