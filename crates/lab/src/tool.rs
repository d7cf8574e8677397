//! Programs of the host: found, run to their end, and their output.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::error::{LabError, Result, free_bytes};
use crate::interrupt;

/// Bytes of a failed program's output that are shown, its end.
const SHOWN_BYTES: usize = 2000;
/// Folders that hold programs of root's and are often not in the PATH of others.
const MORE_FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Looks for a program in PATH and where root's programs are. What has a `/` in it is a path.
pub(crate) fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a program of a package to its end and returns its standard output. It ends with this process.
pub(crate) fn output(package: &str, command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_owned();
    command.env("LC_ALL", "C").stdin(Stdio::null());
    die_with_parent(command);
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy);
    let words = words.collect::<Vec<_>>().join(" ");
    let failed = |said: String| LabError::PackageManager { command: words.clone(), said };
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            LabError::ProgramMissing { program: program.display().to_string(), package: package.to_owned() }
        }
        _ => failed(error.to_string()),
    })?;
    // Ctrl-C reaches the program too, and its message about that is of no interest.
    interrupt::check()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No space left on device") || said.contains("enough free space") {
        let folder = command.get_current_dir().unwrap_or(Path::new("/"));
        let found_bytes = free_bytes(folder).unwrap_or(0);
        return Err(LabError::NoSpace { path: folder.display().to_string(), found_bytes, needed_bytes: 0 });
    }
    Err(failed(format!("{}: {}", output.status, tail(said.trim(), SHOWN_BYTES))))
}

/// The program is killed when the thread that starts it ends: nothing is left of an `up` that is broken off.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: two system calls; nothing else happens between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have died before the wish was known.
            if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        });
    }
}

/// The end of a text, at most `bytes` bytes, from the beginning of a line if there is one.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    let Some(from) = text.len().checked_sub(bytes) else { return text };
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let end = text.get(from..).unwrap_or_default();
    end.split_once('\n').map_or(end, |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find(Path::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find(Path::new("/bin/sh")), Some("/bin/sh".into()));
        assert_eq!(find(Path::new("pagelab-no-such-program")), None);
        assert_eq!(find(Path::new("/tmp")), None, "a folder is no program");
    }

    #[test]
    fn failures_say_what_was_run_and_what_it_said() {
        let said = output("p", Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        let text = said.expect_err("status 3").to_string();
        assert!(text.contains("exit status: 3: err") && text.starts_with("sh -c"), "{text}");
        let full = output("p", Command::new("sh").args(["-c", "echo No space left on device >&2; exit 1"]));
        assert_eq!(full.expect_err("full").kind(), "no_space");
        let none = output("pack", &mut Command::new("pagelab-no-such-program")).expect_err("none").to_string();
        assert!(none.ends_with("type: apt-get install pack"), "{none}");
        assert_eq!(output("p", Command::new("echo").arg("x")).expect("echo"), b"x\n");
    }

    #[test]
    fn the_end_of_a_text_begins_with_a_line() {
        assert_eq!(tail("one\ntwo\nthree", 7), "three");
        assert_eq!(tail("short", 10), "short");
        assert_eq!(tail("ééé", 3), "é");
    }
}
