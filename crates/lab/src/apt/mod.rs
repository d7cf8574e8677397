//! Packages of the distribution, fetched and unpacked without installing anything.
//!
//! apt works with a configuration of the lab's own: its own sources, lists and cache, and an empty list of installed
//! packages. It takes the mirrors, the keys and the network settings from the host; it changes nothing there.
//!
//! **Checked how:** apt refuses lists whose signature does not hold. The lists carry the SHA-256 of every package; apt
//! compares when it downloads, and the lab compares again, with those lists, each time it takes a package from the
//! cache. A package is unpacked once, into a folder whose name carries the sum.

mod config;
mod kernel;
mod package;
mod sources;

pub(crate) use config::Apt;
pub(crate) use kernel::newest_kernel;
#[cfg(test)]
pub(crate) use package::test_package;
pub(crate) use package::{Package, Unpacked};
