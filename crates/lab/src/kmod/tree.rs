//! A folder in which modules are built for one kernel: its headers, and the sources that are compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Event;
use crate::apt::{Apt, Package};
use crate::error::{LabError, Result, need_space};
use crate::folders::make_open;
use crate::tool;

use super::Target;
use super::sources::Own;

/// For the compiler: debug information is most of a module, and the guest holds it in memory.
pub(super) const FLAGS: &str = "KCFLAGS=-g0";
/// What headers, sources and objects take at the same time.
const BUILD_BYTES: u64 = 700 << 20;
/// What a make that this runs under says to those below it, and what would build for another machine.
const MISLEADING: [&str; 9] =
    ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "CC", "KCFLAGS", "KBUILD_OUTPUT", "KBUILD_EXTMOD"];

/// The folder; it goes with this value.
pub(super) struct Tree<'a> {
    root: PathBuf,
    target: Target<'a>,
}

impl Drop for Tree<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl<'a> Tree<'a> {
    /// Fetches the headers and unpacks them. Whoever calls this holds the lock on the cache.
    pub(super) fn unpack(apt: &Apt, cache: &Path, target: Target<'a>, say: &mut dyn FnMut(Event)) -> Result<Self> {
        let root = cache.join("build");
        if root.to_string_lossy().contains([' ', ':', '\t', '#', '$']) {
            return Err(LabError::Io {
                path: root.display().to_string(),
                why: "found a blank, `:`, `#` or `$` in it, needed a path that make can name; type: PAGELAB_LAB_DIR=/var/tmp/lab pagelab lab up".to_owned(),
            });
        }
        let headers = format!("linux-headers-{}", target.release);
        let headers = Package::show(apt, &headers, Some(&target.package.version))?;
        let mut debs = vec![headers.fetch(apt, say)?];
        // The compiler is the host's, the image is there already.
        for name in headers.depends.iter().filter(|name| is_part(name)) {
            debs.push(Package::show(apt, name, None)?.fetch(apt, say)?);
        }
        need_space(cache, BUILD_BYTES)?;
        // Leftovers of a build that was killed.
        let _ = fs::remove_dir_all(&root);
        make_open(&root)?;
        let tree = Tree { root, target };
        for deb in &debs {
            tree.extract(deb)?;
        }
        tree.relocate()?;
        Ok(tree)
    }

    fn extract(&self, deb: &Path) -> Result<()> {
        tool::output("dpkg", Command::new("dpkg-deb").arg("-x").arg(deb).arg(&self.root).current_dir(&self.root))
            .map(drop)
    }

    /// The folder that make builds against.
    pub(super) fn headers(&self) -> PathBuf {
        self.root.join(format!("usr/src/linux-headers-{}", self.target.release))
    }

    /// Mends what expects to be installed: the makefile names the common headers below /usr/src. Types for BPF are
    /// made from a file that only some kernels' headers have, with a program that few hosts have: without it they are
    /// left out.
    fn relocate(&self) -> Result<()> {
        let makefile = self.headers().join("Makefile");
        let text = fs::read_to_string(&makefile).map_err(LabError::io(&makefile))?;
        let here = format!("include {}/usr/src/", self.root.display());
        fs::write(&makefile, text.replace("include /usr/src/", &here)).map_err(LabError::io(&makefile))?;
        let _ = fs::remove_file(self.headers().join("vmlinux"));
        Ok(())
    }

    /// Builds a module; the file is in this folder.
    pub(super) fn build(&self, apt: &Apt, own: &Own, say: &mut dyn FnMut(Event)) -> Result<PathBuf> {
        let folder = self.lay_out(apt, own, say)?;
        let mut make = self.make(own, &folder, &["modules"])?;
        tool::output("make", &mut make).map_err(|error| self.said(own, error))?;
        let file = folder.join(format!("{}.ko", own.module));
        if file.is_file() { Ok(file) } else { Err(self.failed(own, format!("make left no {}.ko", own.module))) }
    }

    /// The folder with the module's sources, patched where there is a patch.
    pub(super) fn lay_out(&self, apt: &Apt, own: &Own, say: &mut dyn FnMut(Event)) -> Result<PathBuf> {
        let top = match &own.part {
            None => self.root.join(own.name),
            Some(part) => {
                let top = self.root.join(format!("linux-source-{}", self.target.series));
                self.sources(apt, &[part.folder], say)?;
                self.patch(own, &top)?;
                return Ok(top.join(part.folder));
            }
        };
        make_open(&top)?;
        for (name, text) in own.files {
            fs::write(top.join(name), text).map_err(LabError::io(&top))?;
        }
        Ok(top)
    }

    /// Unpacks folders of the kernel's sources.
    pub(super) fn sources(&self, apt: &Apt, folders: &[&str], say: &mut dyn FnMut(Event)) -> Result<()> {
        let name = format!("linux-source-{}", self.target.series);
        let deb = Package::show(apt, &name, Some(&self.target.package.version))?.fetch(apt, say)?;
        let archive = self.root.join(format!("usr/src/{name}.tar.xz"));
        if !archive.is_file() {
            self.extract(&deb)?;
        }
        needed("xz", "xz-utils")?;
        let mut tar = Command::new("tar");
        // Packed in blocks, which more than one processor unpacks.
        tar.args(["--use-compress-program=xz -T0", "-xf"]).arg(&archive).current_dir(&self.root);
        tar.args(folders.iter().map(|folder| format!("{name}/{folder}")));
        tool::output("tar", &mut tar).map(drop)
    }

    fn patch(&self, own: &Own, top: &Path) -> Result<()> {
        for (name, text) in own.files {
            let file = self.root.join(name);
            fs::write(&file, text).map_err(LabError::io(&file))?;
            let mut patch = Command::new("patch");
            // Other lines around the place are expected, another place is not: what does not fit is an error.
            patch.args(["--batch", "--forward", "--silent", "-p1", "-i"]).arg(&file).current_dir(top);
            tool::output("patch", &mut patch).map_err(|error| self.said(own, error))?;
        }
        Ok(())
    }

    /// make, to build what is named from the folder.
    pub(super) fn make(&self, own: &Own, folder: &Path, what: &[&str]) -> Result<Command> {
        needed("make", "make")?;
        let compiler = self.compiler()?;
        needed(&compiler, &compiler)?;
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut make = Command::new("make");
        make.arg("-s").arg(format!("-j{jobs}")).arg("-C").arg(self.headers()).arg(format!("M={}", folder.display()));
        make.arg(FLAGS).args(own.part.as_ref().map(|part| part.config)).args(what).current_dir(&self.root);
        for name in MISLEADING {
            make.env_remove(name);
        }
        Ok(make)
    }

    /// The compiler that built the kernel, by the name of its program and of its package.
    fn compiler(&self) -> Result<String> {
        let file = self.headers().join(".kernelvariables");
        let text = fs::read_to_string(&file).map_err(LabError::io(&file))?;
        Ok(compiler(&text).unwrap_or("gcc").to_owned())
    }

    /// What make and patch say is about the module; all else is about the host.
    fn said(&self, own: &Own, error: LabError) -> LabError {
        match error {
            LabError::PackageManager { said, .. } => self.failed(own, said),
            other => other,
        }
    }

    fn failed(&self, own: &Own, said: String) -> LabError {
        LabError::Build { module: own.name, release: self.target.release.to_owned(), said }
    }
}

/// Whether a package that the headers depend on is another part of them.
fn is_part(name: &str) -> bool {
    name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-")
}

/// `gcc-12` in `CC = $(CROSS_COMPILE)gcc-12`.
fn compiler(variables: &str) -> Option<&str> {
    let line = variables.lines().find(|line| line.starts_with("CC ") || line.starts_with("CC="))?;
    let word = line.rsplit([' ', ')', '/']).next()?;
    word.starts_with("gcc").then_some(word)
}

pub(super) fn needed(program: &str, package: &str) -> Result<()> {
    match tool::find(Path::new(program)) {
        Some(_) => Ok(()),
        None => Err(LabError::ProgramMissing { program: program.to_owned(), package: package.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_compiler_is_found() {
        let text = "override ARCH = x86\nCCACHE = ccache\n\
             CC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-12\n";
        assert_eq!(compiler(text), Some("gcc-12"));
        assert_eq!(compiler("CC = clang-19\n"), None);
        assert_eq!(compiler(""), None);
    }

    #[test]
    fn headers_bring_headers_and_tools_and_nothing_else() {
        assert!(is_part("linux-headers-6.1.0-56-common") && is_part("linux-kbuild-6.1"));
        assert!(!is_part("linux-image-6.1.0-56-amd64") && !is_part("gcc-12") && !is_part("linux-compiler-gcc-12-x86"));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = needed("pagelab-no-such-gcc", "gcc-12").expect_err("none").to_string();
        assert_eq!(error, "pagelab-no-such-gcc: not found on this host; type: apt-get install gcc-12");
        needed("sh", "dash").expect("there");
    }
}
