//! Kernel modules of the lab's own: built from the sources in `kernel/`, which the binary carries, against the
//! distribution's headers for the kernel that boots.
//!
//! Headers and sources are the distribution's packages, fetched and checked as the kernel is; nothing is installed.
//! Built modules stay in the cache under a name that carries the sum of the sources and the kernel's version, so that
//! each pair of both is built once. gcc and make are the host's.

#[cfg(test)]
mod check;
mod sources;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Event;
use crate::apt::{Apt, Package};
use crate::error::{LabError, Result};
use crate::folders::make_open;
use crate::modules::module_name;
use pagelab_vocab::units::hexadecimal;

use sources::{OWN, Own};
use tree::Tree;

/// A kernel that modules are built for.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The package that it comes from.
    pub(crate) package: &'a Package,
    /// As `uname -r` says it.
    pub(crate) release: &'a str,
    /// As the distribution names its sources: `6.1`.
    pub(crate) series: &'a str,
}

/// A module that was built, or found built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Built {
    /// The module's name for the kernel.
    pub(crate) module: &'static str,
    /// The file.
    pub(crate) file: PathBuf,
}

/// What the kernel calls the module that is asked for by this name.
pub(crate) fn provides(asked: &str) -> &str {
    own(asked).map_or(asked, |own| own.module)
}

fn own(asked: &str) -> Option<&'static Own> {
    OWN.iter().find(|own| module_name(own.name) == module_name(asked))
}

/// Builds those of the modules asked for that are the lab's own, if they are not in the cache.
pub(crate) fn build(
    apt: &Apt,
    cache: &Path,
    asked: &[String],
    target: Target<'_>,
    say: &mut dyn FnMut(Event),
) -> Result<Vec<Built>> {
    let folder = cache.join("kmod");
    let mut tree: Option<Tree> = None;
    let mut built = Vec::new();
    for own in OWN.iter().filter(|own| asked.iter().any(|name| module_name(name) == module_name(own.name))) {
        let file = folder.join(format!("{}_{}_{}.ko", own.name, target.release, key(own, target.package)));
        if !file.is_file() {
            let tree = match &mut tree {
                Some(tree) => tree,
                None => tree.insert(Tree::unpack(apt, cache, target, say)?),
            };
            say(Event::Building { module: own.name, release: target.release.to_owned() });
            let fresh = tree.build(apt, own, say)?;
            make_open(&folder)?;
            prune(&folder, &format!("{}_{}.", own.name, target.series));
            fs::rename(&fresh, &file).map_err(LabError::io(&file))?;
        }
        built.push(Built { module: own.module, file });
    }
    Ok(built)
}

/// Removes modules built from older sources, or for older kernels of the series.
fn prune(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            // What cannot be removed only takes room.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Changes with everything that goes into the module.
fn key(own: &Own, kernel: &Package) -> String {
    let mut sum = Sha256::new();
    for text in [own.name, &kernel.stem(), tree::FLAGS] {
        sum.update(text.len().to_le_bytes());
        sum.update(text);
    }
    for (path, text) in own.files {
        for text in [path, text] {
            sum.update(text.len().to_le_bytes());
            sum.update(text);
        }
    }
    hexadecimal(sum.finalize().get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apt::test_package;

    #[test]
    fn own_modules_are_known_by_both_spellings() {
        for (asked, module) in
            [("ramblk", "ramblk"), ("ext4-dax-read", "ext4"), ("ext4_dax_read", "ext4"), ("xfs", "xfs")]
        {
            assert_eq!(provides(asked), module);
        }
    }

    #[test]
    fn the_key_changes_with_sources_and_kernel() {
        const ONE: Own = Own { name: "x", module: "x", part: None, files: &[("x.c", "int x;"), ("Kbuild", "")] };
        const OTHER: Own = Own { files: &[("x.c", "int x; "), ("Kbuild", "")], ..ONE };
        const MOVED: Own = Own { files: &[("x.cint x;", ""), ("Kbuild", "")], ..ONE };
        let (old, new) = (test_package("linux-image", "6.1.1"), test_package("linux-image", "6.1.2"));
        let keys = [key(&ONE, &old), key(&OTHER, &old), key(&MOVED, &old), key(&ONE, &new)];
        for (at, one) in keys.iter().enumerate() {
            assert_eq!(one.len(), 16);
            assert!(keys.iter().skip(at + 1).all(|other| other != one), "{keys:?}");
        }
        assert_eq!(keys.first(), Some(&key(&ONE, &old)));
    }

    #[test]
    fn only_what_is_older_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["ramblk_6.1.0-5-amd64_0.ko", "ramblk_6.12.1-amd64_0.ko", "ext4-dax-read_6.1.0-5-amd64_0.ko"];
        for name in names {
            fs::write(folder.path().join(name), "").expect("written");
        }
        prune(folder.path(), "ramblk_6.1.");
        let there = names.map(|name| folder.path().join(name).exists());
        assert_eq!(there, [false, true, true]);
    }
}
