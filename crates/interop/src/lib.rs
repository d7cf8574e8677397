//! Recordings in the formats of other tools.
//!
//! | format | of | where |
//! |---|---|---|
//! | folded stacks: `outermost;...;innermost COUNT` | FlameGraph, inferno, speedscope | [`folded`] |
//! | OpenMetrics text: the numbers of a run | Prometheus | [`openmetrics`] |
//! | trace: samples, and faults, calls and waits as slices | Perfetto | [`perfetto`] |
//! | processed profile: samples, and faults, calls and waits as markers | Firefox Profiler | [`profiler`] |
//!
//! What cannot be said in a format is left out and noted; nothing is made up to fill it.

mod events;
pub mod folded;
pub mod openmetrics;
pub mod perfetto;
pub mod profiler;
#[cfg(test)]
mod small_recording;

pub use events::Counts;
