//! Every probe other than the one that follows the recorded tree, and which streams each fills.

use crate::streams::Stream;
use crate::watcher::{ProbeOptions, Watcher};
use crate::{block, counters, dax, khugepaged, maps, region_rows, speed, stacks, waits};

/// Makes a probe; the reason in words if it cannot be had.
pub type Open = fn(&ProbeOptions) -> Result<Box<dyn Watcher>, String>;

/// A probe, and its requirements.
pub struct WatcherDef {
    /// The streams that it fills.
    pub streams: &'static [Stream],
    /// It finds the recorded tree through the BPF observer, which is loaded for it.
    pub needs_tree: bool,
    /// Whether it must know the mappings of the recorded address spaces.
    pub needs_maps: fn(&ProbeOptions) -> bool,
    /// Makes it.
    pub open: Open,
    /// Makes what takes its place where perf events follow the tree.
    pub by_perf: Option<Open>,
    /// Whether it is wanted, where that is not for its streams alone to say.
    wanted: Option<fn(&ProbeOptions) -> bool>,
}

impl WatcherDef {
    const NEEDS_NOTHING: Self = Self {
        streams: &[],
        needs_tree: false,
        needs_maps: |_| false,
        open: |_| Err(String::new()),
        by_perf: None,
        wanted: None,
    };
    const NEEDS_TREE: Self = Self { needs_tree: true, ..Self::NEEDS_NOTHING };

    /// Whether it fills a stream.
    pub fn fills(&self, stream: Stream) -> bool {
        self.streams.contains(&stream)
    }

    /// Whether a recording needs it.
    pub fn is_wanted(&self, options: &ProbeOptions) -> bool {
        match self.wanted {
            Some(wanted) => wanted(options),
            None => self.streams.iter().any(|stream| options.streams.contains(*stream)),
        }
    }
}

/// The probes, in the order in which they step.
pub const WATCHERS: &[WatcherDef] = &[
    // Before the stacks, which it takes and they name.
    WatcherDef { streams: waits::STREAMS, open: waits::open_watcher, ..WatcherDef::NEEDS_TREE },
    WatcherDef {
        streams: stacks::rows::STREAMS,
        needs_maps: stacks::rows::needs_maps,
        open: stacks::rows::open,
        by_perf: Some(stacks::rows::open_by_perf),
        wanted: Some(stacks::rows::wanted),
        ..WatcherDef::NEEDS_TREE
    },
    WatcherDef { streams: counters::watcher::STREAMS, open: counters::watcher::open, ..WatcherDef::NEEDS_NOTHING },
    WatcherDef { streams: block::STREAMS, open: block::open_watcher, ..WatcherDef::NEEDS_TREE },
    WatcherDef { streams: region_rows::STREAMS, open: region_rows::open, ..WatcherDef::NEEDS_NOTHING },
    WatcherDef { streams: speed::STREAMS, open: speed::open, ..WatcherDef::NEEDS_NOTHING },
    WatcherDef { streams: dax::STREAMS, open: dax::open_watcher, ..WatcherDef::NEEDS_TREE },
    WatcherDef { streams: khugepaged::STREAMS, open: khugepaged::open_watcher, ..WatcherDef::NEEDS_TREE },
];

/// The probe of the stream `maps` where nothing follows the tree.
pub fn maps_of_procfs() -> Box<dyn Watcher> {
    maps::open()
}
