//! The file of a command: where it lies, whether a shell has to read it, and why the kernel could not execute it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bytes at the beginning of a file that the kernel looks at, and shells.
const HEAD_BYTES: usize = 256;
/// Scripts whose interpreter is a script: as many as the kernel follows.
const INTERPRETERS_MAX: usize = 5;
/// The program header that names an ELF file's interpreter.
const PT_INTERP: u64 = 3;
/// Longest path.
const PATH_BYTES: u64 = 4096;

/// Where `program` lies: as given if it has a slash, else found in `path`. Where it is not found, where it was looked for.
pub(crate) fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, String> {
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return if path.exists() { Ok(path) } else { Err(path.display().to_string()) };
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut candidates = std::env::split_paths(path).map(|dir| dir.join(program));
    candidates.find(|file| is_executable(file)).ok_or_else(|| format!("PATH={}", path.to_string_lossy()))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn head_of(file: &mut File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a shell may read the file as a script where the kernel does not know what it is: its first line is text.
pub(crate) fn is_text(program: &Path) -> bool {
    let head = File::open(program).and_then(|mut file| head_of(&mut file));
    head.is_ok_and(|head| !head.split(|byte| *byte == b'\n').next().unwrap_or_default().contains(&0))
}

/// An interpreter that a file names and that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingInterpreter {
    /// The interpreter.
    pub interpreter: PathBuf,
    /// The script, or the program, that names it.
    pub of: PathBuf,
}

impl fmt::Display for MissingInterpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the interpreter {} of {} does not exist", shown(&self.interpreter), self.of.display())
    }
}

/// A path as it is; quoted where it ends in what nobody sees, such as the carriage return of a script from elsewhere.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return format!("{text:?}");
    }
    text.into_owned()
}

/// The interpreter whose absence made the kernel say that there is no such file, though the program is there. Names that do not
/// begin with a slash are looked for in `cwd`.
pub(crate) fn missing_interpreter(program: &Path, cwd: Option<&Path>) -> Option<MissingInterpreter> {
    let at = |path: &Path| cwd.map_or_else(|| path.to_owned(), |dir| dir.join(path));
    let mut of = program.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        let interpreter = interpreter_of(&mut File::open(at(&of)).ok()?)?;
        if !at(&interpreter).exists() {
            return Some(MissingInterpreter { interpreter, of });
        }
        of = interpreter;
    }
    None
}

/// The interpreter that a script or a dynamically linked program names.
fn interpreter_of(file: &mut File) -> Option<PathBuf> {
    let head = head_of(file).ok()?;
    match head.strip_prefix(b"#!") {
        Some(line) => {
            let line = line.split(|byte| *byte == b'\n').next()?;
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
            let word = line.split(is_blank).find(|word| !word.is_empty())?;
            Some(PathBuf::from(OsStr::from_bytes(word)))
        }
        None => loader_of(file, &head),
    }
}

/// A little-endian number of `bytes` bytes.
fn number(from: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let part = from.get(at..at.checked_add(bytes)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The loader that an ELF program names (`PT_INTERP`).
fn loader_of(file: &mut File, head: &[u8]) -> Option<PathBuf> {
    // ELF, of 32 or 64 bits, little-endian.
    let wide = match head.get(..6)? {
        [0x7f, b'E', b'L', b'F', 1, 1] => false,
        [0x7f, b'E', b'L', b'F', 2, 1] => true,
        _ => return None,
    };
    let (table_at, size_at) = if wide { (32, 54) } else { (28, 42) };
    let word = if wide { 8 } else { 4 };
    let (table, size) = (number(head, table_at, word)?, number(head, size_at, 2)?);
    let count = number(head, size_at + 2, 2)?;
    for index in 0..count {
        let mut header = vec![0; usize::try_from(size).ok()?];
        file.seek(SeekFrom::Start(table.checked_add(index * size)?)).ok()?;
        file.read_exact(&mut header).ok()?;
        if number(&header, 0, 4)? != PT_INTERP {
            continue;
        }
        let (offset_at, length_at) = if wide { (8, 32) } else { (4, 16) };
        let mut name = Vec::new();
        file.seek(SeekFrom::Start(number(&header, offset_at, word)?)).ok()?;
        file.take(number(&header, length_at, word)?.min(PATH_BYTES)).read_to_end(&mut name).ok()?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        return Some(PathBuf::from(OsString::from_vec(name)));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn missing(dir: &Path, text: &[u8]) -> Option<String> {
        let script = dir.join("script");
        fs::write(&script, text).expect("the directory is ours");
        missing_interpreter(&script, None).map(|missing| missing.interpreter.to_string_lossy().into_owned())
    }

    #[test]
    fn the_interpreter_that_is_missing_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(missing(dir.path(), b"#!/opt/no/such -x\n").as_deref(), Some("/opt/no/such"));
        assert_eq!(missing(dir.path(), b"#! \t/bin/sh\r\necho\r\n").as_deref(), Some("/bin/sh\r"));
        assert_eq!(missing(dir.path(), b"#!/bin/sh -e\n"), None);
        assert_eq!(missing(dir.path(), b"#!"), None);
        assert_eq!(missing(dir.path(), b"echo\n"), None);
        // A script whose interpreter is a script without one.
        let other = dir.path().join("other");
        fs::write(&other, "#!/opt/gone\n").expect("the directory is ours");
        let of_other = format!("#!{}\n", other.display());
        assert_eq!(missing(dir.path(), of_other.as_bytes()).as_deref(), Some("/opt/gone"));
        let itself = format!("#!{}\n", dir.path().join("script").display());
        assert_eq!(missing(dir.path(), itself.as_bytes()), None, "the kernel has another word for it");
        let quoted = MissingInterpreter { interpreter: "/bin/sh\r".into(), of: "./x".into() };
        assert_eq!(quoted.to_string(), "the interpreter \"/bin/sh\\r\" of ./x does not exist");
    }

    #[test]
    fn the_loader_of_a_program_is_its_interpreter() {
        let mut own = File::open("/proc/self/exe").expect("it runs");
        let loader = interpreter_of(&mut own).expect("tests are linked dynamically");
        assert!(loader.exists() && loader.to_string_lossy().contains("ld"), "{}", loader.display());
        let mut cut = fs::read("/proc/self/exe").expect("it runs");
        cut.truncate(100);
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(missing(dir.path(), &cut), None);
    }

    #[test]
    fn what_a_shell_may_read_is_text() {
        let dir = tempfile::tempdir().expect("a directory");
        let is = |bytes: &[u8]| {
            let path = dir.path().join("file");
            fs::write(&path, bytes).expect("the directory is ours");
            is_text(&path)
        };
        assert!(is(b"echo one\n\0") && is(b"") && !is(b"\x7fELF\0\n") && !is_text(Path::new("/no/such")));
    }
}
