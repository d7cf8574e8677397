//! The guest's first file system: busybox, modules, the agent, and programs of the host.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Event;
use crate::apt::{Apt, Unpacked};
use crate::cpio::Writer;
use crate::elf;
use crate::error::{LabError, Result, need_space};
use crate::kmod;
use crate::modules::{Modules, file_name};
use crate::options::{Options, PmemKind, Program};
use crate::tool;

/// The agent, compiled by the build script.
const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));
const INIT: &str = include_str!("init.sh");

/// Modules that every lab has. Those that a kernel does not know are left out.
const AVAILABLE: [&str; 14] = [
    "ext4",
    "xfs",
    "crc32c_generic",
    "crc32c_intel",
    "loop",
    "brd",
    "zram",
    "null_blk",
    "virtio_blk",
    "nd_btt",
    "nd_pmem",
    "dax",
    "device_dax",
    "dax_pmem",
];
/// Programs that every lab has.
const PROGRAMS: [&str; 2] = ["mkfs.ext4", "mkfs.xfs"];
/// In which Debian package a program is, if the host does not have it.
const PACKAGES: [(&str, &str); 6] = [
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_io", "xfsprogs"),
    ("ndctl", "ndctl"),
    ("strace", "strace"),
    ("fio", "fio"),
];
/// Without it mkfs.ext4 makes a file system without extents, which has no huge DAX mappings.
const CONFIGURATION: [&str; 1] = ["etc/mke2fs.conf"];
/// Folders of the guest.
const FOLDERS: [&str; 13] =
    ["bin", "boot", "dev", "etc", "mnt", "proc", "root", "run", "share", "sys", "tmp", "usr/bin", "usr/lib"];
/// One folder holds all libraries, under every name that the dynamic linker looks for.
const LINKS: [(&str, &str); 7] = [
    ("sbin", "bin"),
    ("usr/sbin", "bin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib"),
    ("usr/lib64", "lib"),
    ("usr/lib/x86_64-linux-gnu", "."),
    ("var", "tmp"),
];

/// What goes in.
pub(crate) struct Parts<'a> {
    pub(crate) options: &'a Options,
    pub(crate) modules: Modules<'a>,
    pub(crate) busybox: &'a Path,
    /// Modules to load at once, in this order.
    load: Vec<&'static str>,
    programs: Vec<(String, PathBuf, Vec<u8>)>,
    /// Packages that were unpacked because the host has no such program.
    roots: Vec<Unpacked>,
}

impl<'a> Parts<'a> {
    /// Finds everything: modules in the kernel's package, programs on the host or else in packages.
    pub(crate) fn collect(
        options: &'a Options,
        mut modules: Modules<'a>,
        busybox: &'a Path,
        apt: &Apt,
        say: &mut dyn FnMut(Event),
    ) -> Result<Self> {
        let mut load = vec!["virtio_pci", "virtio_console"];
        if options.share.is_some() || options.mirror.is_some() {
            load.extend(["9pnet_virtio", "9p"]);
        }
        if options.mirror.is_some() {
            load.push("overlay");
        }
        match options.vm.pmem.map(|pmem| pmem.kind) {
            Some(PmemKind::Memmap) => load.extend(["nd_e820", "nd_pmem"]),
            Some(PmemKind::Nvdimm) => load.extend(["nfit", "nd_pmem"]),
            None => {}
        }
        for name in &load {
            modules.take(name)?;
        }
        for name in AVAILABLE.iter().filter(|name| modules.has(name)).copied().collect::<Vec<_>>() {
            modules.take(name)?;
        }
        for name in &options.vm.modules {
            modules.take(kmod::provides(name))?;
        }
        let mut parts = Parts { options, modules, busybox, load, programs: Vec::new(), roots: Vec::new() };
        let ndctl = options.vm.pmem.is_some_and(|pmem| pmem.kind == PmemKind::Nvdimm).then_some("ndctl");
        let own = PROGRAMS.into_iter().chain(ndctl).map(Program::whole);
        for program in own.chain(options.programs.iter().cloned()) {
            parts.add(&program, apt, say)?;
        }
        Ok(parts)
    }

    fn add(&mut self, program: &Program, apt: &Apt, say: &mut dyn FnMut(Event)) -> Result<()> {
        let wrong = |why: String| LabError::Program { program: program.path.display().to_string(), why };
        let name = program.path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| wrong("found no file name in it, needed one".to_owned()))?;
        let path = match tool::find(&program.path) {
            Some(path) => path,
            None => self
                .out_of_package(name, apt, say)?
                .ok_or_else(|| wrong("not found on this host; give its path, or install its package".to_owned()))?,
        };
        let bytes = fs::read(&path).map_err(LabError::io(&path))?;
        let bytes = if program.strip { elf::without_debug_information(bytes) } else { bytes };
        // The folder of the file itself is what `$ORIGIN` means.
        let path = fs::canonicalize(&path).unwrap_or(path);
        self.programs.retain(|(other, _, _)| other != name);
        self.programs.push((name.to_owned(), path, bytes));
        Ok(())
    }

    fn out_of_package(&mut self, name: &str, apt: &Apt, say: &mut dyn FnMut(Event)) -> Result<Option<PathBuf>> {
        let Some((_, package)) = PACKAGES.iter().find(|(program, _)| *program == name) else { return Ok(None) };
        self.roots.extend(apt.unpacked_with_libraries(package, say)?);
        let folders = ["usr/sbin", "usr/bin", "sbin", "bin"];
        let files = self.roots.iter().flat_map(|unpacked| folders.map(|folder| unpacked.root.join(folder).join(name)));
        Ok(files.into_iter().find(|file| file.is_file()))
    }

    /// Writes the archive; returns its size in bytes. `config` is the kernel's build configuration.
    pub(crate) fn write(&self, file: &Path, config: &Path) -> Result<u64> {
        let files: Vec<(&Path, &[u8])> =
            self.programs.iter().map(|(_, path, bytes)| (path.as_path(), bytes.as_slice())).collect();
        let roots: Vec<&Path> =
            std::iter::once(Path::new("/")).chain(self.roots.iter().map(|unpacked| unpacked.root.as_path())).collect();
        let agent = [(Path::new("lab-agent"), AGENT)];
        let libraries = elf::libraries(&[&agent, files.as_slice()].concat(), &roots)?;
        let programs: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        need_space(file, programs + (64 << 20))?;
        let out = File::create(file).map_err(LabError::io(file))?;
        let written = self.entries(BufWriter::new(out), &libraries, &roots, config).map_err(LabError::io(file))?;
        self.fits(written)?;
        Ok(written)
    }

    /// The guest holds the archive and what is unpacked from it at the same time, the latter in half of the memory that the archive
    /// and the kernel (66 MiB) leave.
    fn fits(&self, bytes: u64) -> Result<()> {
        let needed = (bytes * 5 / 2 + (128 << 20)).max(bytes * 3 + (80 << 20));
        if self.options.vm.memory_bytes >= needed {
            return Ok(());
        }
        Err(LabError::Option {
            option: "--memory",
            found: format!("{} bytes", self.options.vm.memory_bytes),
            needed: format!(
                "{} MiB or more: the initramfs with its programs has {} MiB; or leave programs in the shared folder",
                needed.div_ceil(1 << 20),
                bytes >> 20
            ),
        })
    }

    fn entries(
        &self,
        out: impl Write,
        libraries: &BTreeMap<String, PathBuf>,
        roots: &[&Path],
        config: &Path,
    ) -> io::Result<u64> {
        let mut cpio = Writer::new(out);
        FOLDERS.iter().try_for_each(|folder| cpio.folder(folder))?;
        LINKS.iter().try_for_each(|(path, target)| cpio.link(path, target))?;
        // What a program prints before /dev is mounted goes there.
        cpio.device("dev/console", 5, 1)?;
        cpio.file("init", 0o755, self.init().as_bytes())?;
        cpio.file("bin/lab-agent", 0o755, AGENT)?;
        cpio.file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")?;
        // mount without `-t` tries these; the module of the right one is loaded by that.
        cpio.file("etc/filesystems", 0o644, b"ext4\nxfs\n")?;
        cpio.file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")?;
        cpio.file("bin/busybox", 0o755, &fs::read(self.busybox)?)?;
        for applet in applets(self.busybox)?.iter().filter(|applet| *applet != "busybox") {
            cpio.link(&format!("bin/{applet}"), "busybox")?;
        }
        for (name, _, bytes) in &self.programs {
            cpio.file(&format!("usr/bin/{name}"), 0o755, bytes)?;
        }
        for (name, path) in libraries {
            cpio.file(&format!("usr/lib/{name}"), 0o755, &fs::read(path)?)?;
        }
        for path in CONFIGURATION {
            if let Some(text) = roots.iter().find_map(|root| fs::read(root.join(path)).ok()) {
                cpio.file(path, 0o644, &text)?;
            }
        }
        // The distribution's kernels have no /proc/config.gz.
        if let Ok(text) = fs::read(config) {
            cpio.file(&format!("boot/config-{}", self.modules.release), 0o644, &text)?;
        }
        let folder = format!("usr/lib/modules/{}", self.modules.release);
        for (name, module) in &self.modules.taken {
            cpio.file(&format!("{folder}/{}", file_name(name)), 0o644, &module.bytes)?;
        }
        cpio.file(&format!("{folder}/modules.dep"), 0o644, self.modules.dep().as_bytes())?;
        cpio.file(&format!("{folder}/modules.alias"), 0o644, self.modules.alias().as_bytes())?;
        for empty in ["modules.symbols", "modules.softdep", "modules.builtin"] {
            cpio.file(&format!("{folder}/{empty}"), 0o644, b"")?;
        }
        cpio.finish().map(|(_, written)| written)
    }

    /// The init script with its parameters in front, after its first line.
    fn init(&self) -> String {
        let (first, rest) = INIT.split_once('\n').unwrap_or((INIT, ""));
        let load: Vec<_> = self.load.iter().filter(|name| self.modules.taken.contains_key(**name)).copied().collect();
        let mut text = format!("{first}\n");
        let mirror = self.options.mirror.as_deref().map(Path::display).map(|path| path.to_string());
        let _ = write!(text, "LOAD='{}'\nSHARE={}\n", load.join(" "), u8::from(self.options.share.is_some()));
        let _ = writeln!(text, "MIRROR='{}'", mirror.unwrap_or_default());
        text + rest
    }
}

fn applets(busybox: &Path) -> io::Result<Vec<String>> {
    let list = tool::output("busybox-static", Command::new(busybox).arg("--list")).map_err(io::Error::other)?;
    let list = String::from_utf8_lossy(&list);
    Ok(list.lines().filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect())
}
