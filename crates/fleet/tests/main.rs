//! The statistics of fleets against references, simulated fleets and planted causes, in one program.

mod compact;
mod degenerate;
mod false_findings;
mod planted;
mod reference;
mod tables;
