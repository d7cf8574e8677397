//! Facts of the host and guarded changes to it that are always undone.
pub mod facts;
mod files;
pub mod process;
pub mod settings;
#[cfg(test)]
mod testing;
