//! Recordings in the formats of other tools.
//!
//! | format | of | where |
//! |---|---|---|
//! | folded stacks: `outermost;...;innermost COUNT` | FlameGraph, inferno, speedscope | [`folded`] |
//!
//! What cannot be said in a format is left out and noted; nothing is made up to fill it.

pub mod folded;
