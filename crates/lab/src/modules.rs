//! Kernel modules for the guest: those requested and their dependencies, from the kernel's package.
//!
//! The package has no modules.dep: depmod writes that where a kernel is installed. The same information is in each
//! module, section `.modinfo`; the lists that the guest's modprobe reads are written from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};

use crate::error::{LabError, Result};
use crate::tool;

/// A module as it goes into the guest: not compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) bytes: Vec<u8>,
    info: Info,
}

/// What a module says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Info {
    depends: Vec<String>,
    /// Modules it asks to be loaded before it, if they are there.
    before: Vec<String>,
    aliases: Vec<String>,
}

/// The modules of one kernel.
pub(crate) struct Modules<'a> {
    /// As `uname -r` says it.
    pub(crate) release: String,
    /// Unpacks what is compressed.
    busybox: &'a Path,
    /// All that the package has, by name.
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
    pub(crate) taken: BTreeMap<String, Module>,
}

impl<'a> Modules<'a> {
    /// Lists the modules in an unpacked package.
    pub(crate) fn open(root: &Path, busybox: &'a Path) -> Result<Self> {
        let fail = |why: &str| LabError::Kernel { kernel: root.display().to_string(), why: why.to_owned() };
        let above = [root.join("lib/modules"), root.join("usr/lib/modules")];
        let entries = above.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let folder = entries.map(|entry| entry.path()).next().ok_or_else(|| fail("it has no folder lib/modules"))?;
        let release = folder.file_name().and_then(|name| name.to_str()).ok_or_else(|| fail("a strange release"))?;
        let builtin = fs::read_to_string(folder.join("modules.builtin")).map_err(LabError::io(&folder))?;
        let builtin = builtin.lines().map(module_name).collect();
        let mut modules =
            Modules { release: release.to_owned(), busybox, files: BTreeMap::new(), builtin, taken: BTreeMap::new() };
        let mut folders = vec![folder.join("kernel")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(LabError::io(&folder))?.flatten() {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if name.contains(".ko") {
                    modules.files.insert(module_name(&name), path);
                }
            }
        }
        Ok(modules)
    }

    /// Whether the kernel has it, as a module or built in.
    pub(crate) fn has(&self, name: &str) -> bool {
        let name = module_name(name);
        self.builtin.contains(&name) || self.files.contains_key(&name)
    }

    /// A module of the lab's own; it stands in for the kernel's of the same name.
    pub(crate) fn add(&mut self, name: &str, file: PathBuf) {
        self.files.insert(module_name(name), file);
    }

    /// Takes a module and its dependencies. A built-in one needs nothing.
    pub(crate) fn take(&mut self, name: &str) -> Result<()> {
        let name = module_name(name);
        if self.taken.contains_key(&name) || self.builtin.contains(&name) {
            return Ok(());
        }
        let missing = || LabError::Kernel {
            kernel: self.release.clone(),
            why: format!("it has no module {name}; type: pagelab lab up without --module {name}"),
        };
        let path = self.files.get(&name).ok_or_else(missing)?.clone();
        let bytes = self.read(&path)?;
        let info = info(&bytes).ok_or_else(|| LabError::Kernel {
            kernel: self.release.clone(),
            why: format!("{}: no module, or damaged", path.display()),
        })?;
        let (depends, before) = (info.depends.clone(), info.before.clone());
        self.taken.insert(name, Module { bytes, info });
        for needed in depends {
            self.take(&needed)?;
        }
        for wanted in before {
            if self.has(&wanted) {
                self.take(&wanted)?;
            }
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let applet = match path.extension().and_then(|ending| ending.to_str()) {
            Some("ko") => return fs::read(path).map_err(LabError::io(path)),
            Some("xz") => "xz",
            Some("gz") => "gzip",
            _ => {
                return Err(LabError::Kernel {
                    kernel: self.release.clone(),
                    why: format!("{}: found an unknown compression, needed .ko, .xz or .gz", path.display()),
                });
            }
        };
        tool::output("busybox-static", Command::new(self.busybox).args([applet, "-dc"]).arg(path))
    }

    /// modules.dep: `FILE: FILE...`, everything that a module needs, what must be loaded first standing last.
    pub(crate) fn dep(&self) -> String {
        let mut text = String::new();
        for name in self.taken.keys() {
            let mut order = Vec::new();
            self.needed(name, &mut BTreeSet::new(), &mut order);
            let _ = write!(text, "{}:", file_name(name));
            for needed in order.iter().rev().filter(|needed| *needed != name) {
                let _ = write!(text, " {}", file_name(needed));
            }
            text.push('\n');
        }
        text
    }

    /// A module's dependencies and then itself, in the order of loading. Soft dependencies may depend on it in turn;
    /// `begun` ends such a circle.
    fn needed(&self, name: &str, begun: &mut BTreeSet<String>, order: &mut Vec<String>) {
        let Some(module) = self.taken.get(name) else { return };
        if !begun.insert(name.to_owned()) {
            return;
        }
        for needed in module.info.depends.iter().chain(&module.info.before) {
            self.needed(needed, begun, order);
        }
        order.push(name.to_owned());
    }

    /// modules.alias: what the kernel asks for by another name, a file system for example.
    pub(crate) fn alias(&self) -> String {
        let mut text = String::new();
        for (name, module) in &self.taken {
            for alias in &module.info.aliases {
                let _ = writeln!(text, "alias {alias} {name}");
            }
        }
        text
    }
}

/// Where a module lies below /lib/modules/RELEASE.
pub(crate) fn file_name(name: &str) -> String {
    format!("kernel/{name}.ko")
}

/// The name of the module in a file: the kernel writes `_` where files have `-`.
pub(crate) fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

fn info(module: &[u8]) -> Option<Info> {
    let file = object::File::parse(module).ok()?;
    let section = file.section_by_name(".modinfo")?.uncompressed_data().ok()?.into_owned();
    Some(parse_info(&section))
}

/// `KEY=VALUE`, each with a zero at its end.
fn parse_info(section: &[u8]) -> Info {
    let mut info = Info::default();
    for entry in section.split(|byte| *byte == 0) {
        let entry = String::from_utf8_lossy(entry);
        match entry.split_once('=') {
            Some(("depends", names)) => {
                info.depends.extend(names.split(',').filter(|name| !name.is_empty()).map(module_name));
            }
            Some(("alias", alias)) => info.aliases.push(alias.to_owned()),
            Some(("softdep", words)) => {
                let words = words.split_whitespace().skip_while(|word| *word != "pre:").skip(1);
                info.before.extend(words.take_while(|word| *word != "post:").map(module_name));
            }
            _ => {}
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &[&str], before: &[&str], aliases: &[&str]) -> Module {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Module { bytes: Vec::new(), info: Info { depends: own(depends), before: own(before), aliases: own(aliases) } }
    }

    #[test]
    fn what_a_module_says_of_itself_is_read() {
        let section =
            b"license=GPL\0alias=fs-ext4\0depends=jbd2,mbcache,crc16\0softdep=pre: crc32c xxhash-generic post: x\0\
             alias=ext3\0depends=\0name=ext4\0vermagic=6.1\0";
        let info = parse_info(section);
        assert_eq!(info.depends, ["jbd2", "mbcache", "crc16"]);
        assert_eq!(info.before, ["crc32c", "xxhash_generic"]);
        assert_eq!(info.aliases, ["fs-ext4", "ext3"]);
        assert_eq!(parse_info(b"softdep=post: y\0").before, Vec::<String>::new());
    }

    #[test]
    fn files_give_the_names_that_the_kernel_uses() {
        for (file, name) in [
            ("kernel/drivers/char/hw_random/virtio-rng.ko.xz", "virtio_rng"),
            ("kernel/fs/9p/9p.ko", "9p"),
            ("nd_pmem", "nd_pmem"),
        ] {
            assert_eq!(module_name(file), name);
        }
    }

    #[test]
    fn lists_for_modprobe_name_all_that_is_needed() {
        let busybox = PathBuf::from("/nonexistent");
        let mut modules = Modules {
            release: "6.1".into(),
            busybox: &busybox,
            files: BTreeMap::new(),
            builtin: BTreeSet::from(["vmw".to_owned()]),
            taken: BTreeMap::new(),
        };
        modules.taken.insert("a".into(), module(&["b", "vmw"], &["s"], &["fs-a"]));
        modules.taken.insert("b".into(), module(&["c"], &[], &[]));
        modules.taken.insert("c".into(), module(&[], &[], &["x*"]));
        modules.taken.insert("s".into(), module(&[], &["a"], &[]));
        let dep = modules.dep();
        assert_eq!(dep.lines().next(), Some("kernel/a.ko: kernel/s.ko kernel/b.ko kernel/c.ko"), "{dep}");
        assert!(dep.contains("kernel/b.ko: kernel/c.ko\nkernel/c.ko:\n"), "{dep}");
        assert_eq!(modules.alias(), "alias fs-a a\nalias x* c\n");
        let error = modules.take("nothing").expect_err("no such module").to_string();
        assert!(error.starts_with("6.1: it has no module nothing"), "{error}");
        modules.take("vmw").expect("built in");
    }
}
