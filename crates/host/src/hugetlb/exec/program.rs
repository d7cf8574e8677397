//! What kind of program it is: which loader it asks for, and which glibc that belongs to. Only glibc's malloc knows the
//! tunable that puts the heap on huge pages.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::hugetlb::HugetlbError;

/// The first glibc whose malloc knows `glibc.malloc.hugetlb` (its NEWS for 2.35).
pub(super) const NEEDED: (u32, u32) = (2, 35);

/// `#!` lines may name a script that names another; the kernel goes no deeper either (BINPRM_MAX_RECURSION).
const DEEPEST: usize = 5;

/// What allocates for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// glibc of this version.
    Glibc(u32, u32),
    /// A loader that does not say its version: glibc before 2.33, or another C library.
    Loader(PathBuf),
    /// No loader: everything is linked in.
    Static,
    /// No ELF file that could be understood.
    Unknown(String),
}

/// A program that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The file that is run in the end: the interpreter of a script.
    pub(super) file: PathBuf,
    pub(super) kind: Kind,
    /// It runs with other rights than its caller's: the loader then ignores tunables.
    pub(super) is_setuid: bool,
}

impl Program {
    /// Finds the program as a shell does, and looks at it.
    pub(super) fn find(name: &OsStr) -> Result<Self, HugetlbError> {
        let mut file = search(name)?;
        for _ in 0..DEEPEST {
            let head = head(&file).map_err(|error| failed(name, &crate::settings::plain(&error)))?;
            let Some(next) = interpreter_of_script(&head) else { break };
            // `#!/usr/bin/env python3`: what env will find.
            let env = next.0.ends_with("env");
            file = match next {
                (_, Some(word)) if env && !word.as_bytes().starts_with(b"-") => search(&word)?,
                (interpreter, _) => interpreter,
            };
        }
        let mode = std::fs::metadata(&file).map_or(0, |found| found.permissions().mode());
        Ok(Program { kind: kind(&file), is_setuid: mode & 0o6000 != 0, file })
    }
}

fn failed(name: &OsStr, reason: &str) -> HugetlbError {
    HugetlbError::Program { program: name.to_string_lossy().into_owned(), reason: reason.to_owned() }
}

fn search(name: &OsStr) -> Result<PathBuf, HugetlbError> {
    let runs = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match (runs(&path), path.exists()) {
            (true, _) => Ok(path),
            (false, true) => Err(failed(name, "found no file that may be run")),
            (false, false) => Err(failed(name, "not found")),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| runs(path));
    found.ok_or_else(|| failed(name, "not found in PATH"))
}

fn head(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(256).read_to_end(&mut head)?;
    Ok(head)
}

/// Interpreter and first argument of a `#!` line.
fn interpreter_of_script(head: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let interpreter = words.next()?;
    Some((PathBuf::from(OsStr::from_bytes(interpreter)), words.next().map(|word| OsString::from_vec(word.to_vec()))))
}

fn kind(file: &Path) -> Kind {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return Kind::Unknown(crate::settings::plain(&error)),
    };
    let loader = match bytes.get(4) {
        Some(1) => loader::<FileHeader32<Endianness>>(&bytes),
        _ => loader::<FileHeader64<Endianness>>(&bytes),
    };
    match loader {
        Err(why) => Kind::Unknown(why),
        Ok(None) => Kind::Static,
        Ok(Some(loader)) => match version(&loader) {
            Some((major, minor)) => Kind::Glibc(major, minor),
            None => Kind::Loader(loader),
        },
    }
}

/// The loader that an ELF file asks for (PT_INTERP).
fn loader<Header: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Option<PathBuf>, String> {
    let look = || -> object::read::Result<Option<PathBuf>> {
        let header = Header::parse(bytes)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, bytes)? {
            if let Some(path) = segment.interpreter(endian, bytes)? {
                return Ok(Some(PathBuf::from(OsStr::from_bytes(path))));
            }
        }
        Ok(None)
    };
    look().map_err(|error| error.to_string())
}

/// The version that a loader of glibc says of itself; `None` from glibc before 2.33, and from other loaders.
fn version(loader: &Path) -> Option<(u32, u32)> {
    let output = Command::new(loader).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// `ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.`
fn parse_version(said: &str) -> Option<(u32, u32)> {
    let line = said.lines().next().filter(|line| line.starts_with("ld.so"))?;
    let (_, version) = line.rsplit_once("version ")?;
    let mut parts = version.trim_end_matches('.').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_loaders_say_them() {
        let debian = "ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\nCopyright\n";
        assert_eq!(parse_version(debian), Some((2, 36)));
        assert_eq!(parse_version("ld.so (GNU libc) development release version 2.41.9000.\n"), Some((2, 41)));
        assert_eq!(parse_version("musl libc (x86_64)\nVersion 1.2.3\n"), None);
        assert_eq!(parse_version("other loader, version 2.40\n"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn programs_are_told_apart() {
        let shell = Program::find(OsStr::new("sh")).expect("sh");
        assert!(matches!(shell.kind, Kind::Glibc(2, _) | Kind::Loader(_) | Kind::Static), "{shell:?}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env sh\nexit 0\n").expect("written");
        assert!(Program::find(script.as_os_str()).expect_err("not executable").to_string().contains("may be run"));
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let found = Program::find(script.as_os_str()).expect("a script");
        assert_eq!(found.kind, shell.kind);
        assert!(found.file.ends_with("sh"), "{found:?}");
        let error = Program::find(OsStr::new("no-such-program-anywhere")).expect_err("not there");
        assert!(error.to_string().contains("not found in PATH"), "{error}");
        assert!(matches!(kind(&script), Kind::Unknown(_)));
    }
}
