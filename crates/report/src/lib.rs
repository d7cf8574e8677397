//! Recordings and comparisons as text and pictures for a terminal.
//!
//! | what | function |
//! |---|---|
//! | the verdict of a comparison: what changed, the mapping, the setting, the fix | [`verdict::comparison`] |
//! | the same on one screen | [`short()`] |
//! | what one recording alone shows | [`verdict::explanation`] |
//! | the same as Markdown, for a pull request | [`markdown()`] |
//! | a history of runs: its chart and changes | [`trend()`] |
//! | answers about fleets | [`fleet`] |
//! | pictures of the faults behind a comparison, read from its recordings | [`pictures`] |
//! | address against time of one mapping, or of two on one scale | [`fault_map`], [`fault_maps`] |
//! | offset against time of the reads and writes of one file | [`io_map`] |
//! | a flame graph of folded stacks, as SVG | [`flamegraph::flame_graph`] |
//! | a view of one recording | [`view::page`] |
//! | rows in columns | [`table::Table`] |
//! | numbers with units | [`quantity`] |
//!
//! Everything but the flame graph returns text that ends in a newline and fits [`Style::width`], except for words and commands that are
//! longer. Pictures use braille dots where the terminal's character set has them and plain ASCII where not. Colour only
//! sets headings off and is never needed to understand; with `NO_COLOR` set, a dumb terminal or a pipe there is none.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod axis;
mod canvas;
mod changes;
mod explanation;
mod faultmap;
mod finding;
pub mod flamegraph;
pub mod fleet;
mod iomap;
mod latency;
mod markdown;
mod paragraph;
mod places;
mod short;
mod sides;
mod style;
pub mod table;
mod trend;
pub mod verdict;
pub mod view;
mod waterfall;

pub use faultmap::{fault_map, fault_maps, pictures};
pub use iomap::{io_map, io_map_columns};
pub use markdown::markdown;
pub use pagelab_vocab::units::{count, duration, quantity, significant};
pub use short::short;
pub use style::{Glyphs, Style};
pub use trend::trend;
