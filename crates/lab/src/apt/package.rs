//! One package: what the signed lists say of it, fetched, compared with that, unpacked.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::Apt;
use super::sources::RELEASE;
use crate::Event;
use crate::error::{LabError, Result, need_space};
use crate::folders::make_open;
use crate::tool;
use pagelab_vocab::units::hexadecimal;

/// What the lists say of one version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    sha256: String,
    bytes: u64,
    installed_bytes: u64,
    /// Names of the packages that it needs; of alternatives the first.
    pub(crate) depends: Vec<String>,
}

/// A package, unpacked.
#[derive(Debug, Clone)]
pub(crate) struct Unpacked {
    /// `NAME VERSION`.
    pub(crate) title: String,
    /// Where its files are, as if this were `/`.
    pub(crate) root: PathBuf,
}

impl Package {
    /// Looks a package up; without a version the one that apt would install.
    pub(crate) fn show(apt: &Apt, name: &str, version: Option<&str>) -> Result<Self> {
        let asked = version.map_or_else(|| name.to_owned(), |version| format!("{name}={version}"));
        let missing = || LabError::PackageNotFound {
            package: asked.clone(),
            suites: format!("{RELEASE}, {RELEASE}-security and {RELEASE}-backports"),
        };
        let text = match apt.run("apt-cache", &["show", "--no-all-versions", &asked]) {
            Ok(text) => text,
            // It fails with status 100 for unknown packages.
            Err(LabError::PackageManager { said, .. }) if said.contains("No packages found") => return Err(missing()),
            Err(error) => return Err(error),
        };
        Self::parse(&text).ok_or_else(missing)
    }

    /// Reads the first stanza of what `apt-cache show` says.
    fn parse(text: &str) -> Option<Self> {
        let stanza = text.split("\n\n").next()?;
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let sha256 = field("SHA256")?.to_ascii_lowercase();
        let whole = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then_some(())?;
        Some(Package {
            name: field("Package")?.to_owned(),
            version: field("Version")?.to_owned(),
            sha256,
            bytes: field("Size")?.parse().ok()?,
            installed_bytes: field("Installed-Size").and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10,
            depends: field("Depends").map(names).unwrap_or_default(),
        })
    }

    /// The name of its file and of its folder. Versions may hold `:` and `~`, but no `/`.
    pub(crate) fn stem(&self) -> String {
        let sum = self.sha256.get(..16).unwrap_or_default();
        format!("{}_{}_{sum}", self.name, self.version).replace('/', "_")
    }

    /// Fetches it if it is not in the cache, compares, and unpacks it if that was not done.
    pub(crate) fn unpack(&self, apt: &Apt, say: &mut dyn FnMut(Event)) -> Result<Unpacked> {
        let file = self.fetch(apt, say)?;
        let root = apt.unpacked().join(self.stem());
        let unpacked = Unpacked { title: format!("{} {}", self.name, self.version), root: root.clone() };
        if root.is_dir() {
            return Ok(unpacked);
        }
        need_space(&apt.unpacked(), self.installed_bytes + self.installed_bytes / 10)?;
        say(Event::Unpacking { package: unpacked.title.clone() });
        let half = apt.temporary();
        let _ = fs::remove_dir_all(&half);
        make_open(&half)?;
        let done = tool::output("dpkg", Command::new("dpkg-deb").arg("-x").arg(&file).arg(&half).current_dir(&half));
        if let Err(error) = done {
            let _ = fs::remove_dir_all(&half);
            return Err(error);
        }
        fs::rename(&half, &root).map_err(LabError::io(&root))?;
        Ok(unpacked)
    }

    /// The package's file, whose sum is that of the lists.
    pub(crate) fn fetch(&self, apt: &Apt, say: &mut dyn FnMut(Event)) -> Result<PathBuf> {
        let file = apt.packages().join(format!("{}.deb", self.stem()));
        if file.is_file() {
            if sha256(&file)? == self.sha256 {
                return Ok(file);
            }
            say(Event::Damaged { file: file.display().to_string() });
            fs::remove_file(&file).map_err(LabError::io(&file))?;
        }
        need_space(&apt.packages(), self.bytes)?;
        say(Event::Fetching { package: format!("{} {}", self.name, self.version), bytes: self.bytes });
        let folder = apt.temporary();
        let _ = fs::remove_dir_all(&folder);
        make_open(&folder)?;
        let asked = format!("{}={}", self.name, self.version);
        let fetched =
            apt.run_in(&folder, "apt-get", &["download", "-q", &asked]).and_then(|_| self.take(&folder, &file));
        let _ = fs::remove_dir_all(&folder);
        fetched.map(|()| file)
    }

    /// Takes the file that was downloaded, if it is what the lists promise.
    fn take(&self, folder: &Path, file: &Path) -> Result<()> {
        let mut found = fs::read_dir(folder).map_err(LabError::io(folder))?.flatten().map(|entry| entry.path());
        let Some(downloaded) = found.find(|path| path.extension().is_some_and(|ending| ending == "deb")) else {
            return Err(LabError::PackageManager {
                command: format!("apt-get download {}={}", self.name, self.version),
                said: "it left no file".to_owned(),
            });
        };
        let sum = sha256(&downloaded)?;
        if sum != self.sha256 {
            return Err(LabError::Checksum {
                file: downloaded.display().to_string(),
                found: sum,
                needed: self.sha256.clone(),
            });
        }
        fs::rename(&downloaded, file).map_err(LabError::io(file))
    }

    /// Removes other versions of packages whose names begin so: a kernel takes 400 MiB unpacked.
    pub(crate) fn prune_others(&self, apt: &Apt, prefix: &str) {
        let keep = self.stem();
        for folder in [apt.packages(), apt.unpacked()] {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with(prefix) && !name.starts_with(&keep) {
                    // What cannot be removed only takes room.
                    let _ = fs::remove_dir_all(entry.path());
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

impl Apt {
    /// A package, unpacked, in the version that apt would install.
    pub(crate) fn unpacked_package(&self, name: &str, say: &mut dyn FnMut(Event)) -> Result<Unpacked> {
        Package::show(self, name, None)?.unpack(self, say)
    }

    /// A package and the libraries it depends on, unpacked.
    pub(crate) fn unpacked_with_libraries(&self, name: &str, say: &mut dyn FnMut(Event)) -> Result<Vec<Unpacked>> {
        // With nothing installed, what apt would install is everything that is needed.
        let plan = match self.run("apt-get", &["--simulate", "--no-install-recommends", "install", name]) {
            Ok(plan) => plan,
            Err(LabError::PackageManager { said, .. }) if said.contains("Unable to locate package") => {
                return Err(LabError::PackageNotFound {
                    package: name.to_owned(),
                    suites: format!("{RELEASE}, {RELEASE}-security and {RELEASE}-backports"),
                });
            }
            Err(error) => return Err(error),
        };
        let mut unpacked = Vec::new();
        for (needed, version) in planned(&plan).into_iter().filter(|(needed, _)| *needed == name || is_library(needed))
        {
            unpacked.push(Package::show(self, needed, Some(version))?.unpack(self, say)?);
        }
        Ok(unpacked)
    }
}

/// Whether a package holds shared libraries, by its name: what else a program depends on (perl, dpkg, for their
/// maintainer's scripts) it does not load.
fn is_library(package: &str) -> bool {
    package.starts_with("lib") && !package.ends_with("-perl") && !package.starts_with("libperl")
}

/// Names and versions in the lines `Inst NAME (VERSION ...)`.
fn planned(plan: &str) -> Vec<(&str, &str)> {
    let lines = plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_once(" ("));
    lines.filter_map(|(name, rest)| Some((name, rest.split_once(' ')?.0))).collect()
}

/// The names in `NAME (>= VERSION), NAME | OTHER`.
fn names(depends: &str) -> Vec<String> {
    let words = depends.split(',').filter_map(|one| one.split_whitespace().next());
    words.map(|name| name.split(':').next().unwrap_or(name).to_owned()).collect()
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(LabError::io(path))?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let got = file.read(&mut buffer).map_err(LabError::io(path))?;
        if got == 0 {
            break;
        }
        sum.update(buffer.get(..got).unwrap_or_default());
    }
    Ok(hexadecimal(&sum.finalize()))
}

/// A package as the lists could name it.
#[cfg(test)]
pub(crate) fn test_package(name: &str, version: &str) -> Package {
    let (name, version, sha256) = (name.to_owned(), version.to_owned(), "0".repeat(64));
    Package { name, version, sha256, bytes: 0, installed_bytes: 0, depends: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "Package: busybox-static\nVersion: 1:1.35.0-4\nInstalled-Size: 2018\nDepends: x\n\
         Filename: pool/main/b/busybox/x.deb\nSize: 928188\n\
         SHA256: 3D3FDBE91D4660C873E14B092C213FE81C1DA6362DAA236EB25D0171EB108744\nDescription: small\n more\n\n\
         Package: other\n";

    #[test]
    fn the_lists_words_are_read() {
        let package = Package::parse(SHOWN).expect("a package");
        assert_eq!((package.name.as_str(), package.version.as_str()), ("busybox-static", "1:1.35.0-4"));
        assert_eq!((package.bytes, package.installed_bytes), (928_188, 2018 << 10));
        assert_eq!(package.depends, ["x"]);
        assert_eq!(names("a (= 1), b:any (>= 2) | c, d"), ["a", "b", "d"]);
        assert_eq!(package.stem(), "busybox-static_1:1.35.0-4_3d3fdbe91d4660c8");
        assert_eq!(Package::parse(&SHOWN.replace("SHA256", "MD5sum")), None, "without a sum it is not taken");
        assert_eq!(Package::parse(&SHOWN.replace("3D3F", "")), None, "nor with half of one");
    }

    #[test]
    fn the_plan_names_packages_with_versions() {
        let plan = "Reading package lists...\nInst gcc-12-base (12.2.0-14+deb12u1 Debian:12.13/stable [amd64])\n\
             Inst libc6 (2.36-9+deb12u13 Debian:12.13/stable [amd64]) []\nConf libc6 (2.36-9+deb12u13 x [amd64])\n";
        assert_eq!(planned(plan), [("gcc-12-base", "12.2.0-14+deb12u1"), ("libc6", "2.36-9+deb12u13")]);
        assert!(["libc6", "libjson-c5", "libgcc-s1"].into_iter().all(is_library));
        assert!(!["perl-base", "libtext-glob-perl", "libperl5.36", "gcc-12-base"].into_iter().any(is_library));
    }

    #[test]
    fn sums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("f");
        fs::write(&file, b"abc").expect("written");
        assert_eq!(sha256(&file).expect("read"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
