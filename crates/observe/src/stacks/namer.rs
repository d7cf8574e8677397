//! Names are looked up in another process.
//!
//! The library that does it maps the files. A file's owner may truncate it meanwhile, which kills the reading process
//! (SIGBUS), or write contents that make a parser loop for ever or ask for all memory. So a child does it and passes on
//! the names it finds, file after file; the file on which it dies gets no names, and another child continues after it.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

/// How long one file may take.
const FILE_TIMEOUT: Duration = Duration::from_mins(1);
/// Children that may run into that before the rest of the files is given up.
const TIMEOUTS_MAX: u32 = 3;
/// Memory that looking up may take beyond what the recorder has.
const MEMORY_BYTES: u64 = 2 << 30;
/// Bytes of names that one file may give.
const NAMES_BYTES_MAX: usize = 16 << 20;
/// Bytes of a name; the rest is cut off.
const NAME_BYTES_MAX: usize = 4096;
/// Stands for the number of addresses of a file in which nothing can be looked up.
const NOTHING: u32 = u32::MAX;

/// A function that an address lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    /// Inlined into the next one.
    pub inlined: bool,
}

/// The functions of each address, innermost first; none of an address that has no name.
pub(super) type Functions = Vec<Vec<Function>>;

/// Calls `name_file` for each of the files, by number, in another process. None for those that ended it.
pub(super) fn name_files(count: usize, name_file: impl Fn(usize) -> Option<Functions>) -> Vec<Option<Functions>> {
    let mut named = Vec::with_capacity(count);
    let mut timeouts = 0;
    while named.len() < count && timeouts < TIMEOUTS_MAX {
        let first = named.len();
        match name_from(first, count, &name_file, &mut named) {
            Ok(Ending::Done) => {}
            Ok(Ending::Died) => named.push(None),
            Ok(Ending::TimedOut) => {
                timeouts += 1;
                named.push(None);
            }
            Err(error) => {
                tracing::warn!("names cannot be looked up: {error}");
                break;
            }
        }
    }
    named.resize(count, None);
    named
}

/// How a child ended.
enum Ending {
    Done,
    Died,
    TimedOut,
}

fn name_from(
    first: usize,
    count: usize,
    name_file: &impl Fn(usize) -> Option<Functions>,
    named: &mut Vec<Option<Functions>>,
) -> std::io::Result<Ending> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    give_back_memory();
    // SAFETY: the child only runs `child`, on its own copy of all memory, and ends by _exit.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(std::io::Error::last_os_error());
    }
    if pid == 0 {
        drop(read);
        child(first..count, name_file, File::from(write));
    }
    drop(write);
    let mut answers = Answers { pipe: File::from(read), until: Instant::now() };
    let mut timed_out = false;
    while named.len() < count {
        answers.until = Instant::now() + FILE_TIMEOUT;
        match answers.next() {
            Ok(functions) => named.push(functions),
            Err(error) => {
                timed_out = error.kind() == std::io::ErrorKind::TimedOut;
                break;
            }
        }
    }
    // SAFETY: the child is ours and not waited for yet, so the number is still its own.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    Ok(match (named.len() == count, timed_out) {
        (true, _) => Ending::Done,
        (false, true) => Ending::TimedOut,
        (false, false) => Ending::Died,
    })
}

/// Gives the kernel back what the recording has left in the heap: the child's own would come on top of it.
fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: acts on free memory alone.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The child: names files and ends.
fn child(files: Range<usize>, name_file: &impl Fn(usize) -> Option<Functions>, mut out: File) -> ! {
    set_up();
    let work = std::panic::AssertUnwindSafe(|| -> std::io::Result<()> {
        for number in files {
            out.write_all(&encode(name_file(number).as_ref()))?;
        }
        Ok(())
    });
    // The parent says which files have no names.
    let quiet = tracing::subscriber::NoSubscriber::default();
    let done = tracing::subscriber::with_default(quiet, || std::panic::catch_unwind(work));
    let status = i32::from(!matches!(done, Ok(Ok(()))));
    // SAFETY: ends the process; what belongs to the parent is not touched.
    unsafe { libc::_exit(status) }
}

/// It ends with its parent, takes no signal that is meant for that, leaves no core file and does not take all memory.
fn set_up() {
    std::panic::set_hook(Box::new(|_| {}));
    let limit = |resource, bytes: u64| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: the structure lives until the call returns. If it fails, there is no limit.
        unsafe { libc::setrlimit(resource, &raw const limit) };
    };
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_DATA, data_bytes().saturating_add(MEMORY_BYTES));
    // SAFETY: a set of signals is plain integers and is filled before it is used; the calls act on this process alone.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Memory that counts against RLIMIT_DATA by now.
fn data_bytes() -> u64 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// The number of addresses; for each the number of functions; for each whether it is inlined, its length and its name.
fn encode(functions: Option<&Functions>) -> Vec<u8> {
    let Some(functions) = functions else { return NOTHING.to_le_bytes().to_vec() };
    let mut bytes = (functions.len() as u32).to_le_bytes().to_vec();
    for of_address in functions {
        let count = if bytes.len() > NAMES_BYTES_MAX { 0 } else { of_address.len().min(usize::from(u8::MAX)) };
        bytes.push(count as u8);
        // The last are the outermost, which must not be lost.
        for function in &of_address[of_address.len() - count..] {
            let name = &function.name[..function.name.floor_char_boundary(NAME_BYTES_MAX)];
            bytes.push(u8::from(function.inlined));
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
        }
    }
    bytes
}

/// The parent's end.
struct Answers {
    pipe: File,
    until: Instant,
}

impl Answers {
    fn next(&mut self) -> std::io::Result<Option<Functions>> {
        let count = self.number()?;
        if count == NOTHING {
            return Ok(None);
        }
        let mut functions = Vec::new();
        for _ in 0..count {
            let [of_address] = self.bytes()?;
            let each = (0..of_address).map(|_| self.function());
            functions.push(each.collect::<std::io::Result<Vec<_>>>()?);
        }
        Ok(Some(functions))
    }

    fn function(&mut self) -> std::io::Result<Function> {
        let [inlined] = self.bytes()?;
        let len = self.number()? as usize;
        if len > NAME_BYTES_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let mut name = vec![0; len];
        self.read_exact(&mut name)?;
        Ok(Function { name: String::from_utf8_lossy(&name).into_owned(), inlined: inlined != 0 })
    }

    fn number(&mut self) -> std::io::Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn bytes<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Answers {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        let left = rustix::time::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        match rustix::event::poll(&mut ready, Some(&left)) {
            Ok(0) => Err(std::io::ErrorKind::TimedOut.into()),
            Ok(_) => self.pipe.read(into),
            Err(error) => Err(error.into()),
        }
    }
}

/// Bytes of a file that is copied; of a larger one nothing is looked up.
const COPY_BYTES_MAX: u64 = 1 << 30;

/// A copy of a file that others can change, so that it stays as it was looked at. None if it is too large or cannot be read.
pub(super) fn copy_of(file: &File) -> Option<File> {
    let len = file.metadata().ok()?.len();
    if len > COPY_BYTES_MAX {
        return None;
    }
    let mut copy = File::from(rustix::fs::memfd_create("pagelab-names", rustix::fs::MemfdFlags::CLOEXEC).ok()?);
    // Opened anew, because a descriptor that is handed on shares its position.
    let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    std::io::copy(&mut again.take(len), &mut copy).ok()?;
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn function(name: &str) -> Function {
        Function { name: name.to_owned(), inlined: name.starts_with('i') }
    }

    #[test]
    fn what_ends_the_child_has_no_names_and_the_rest_has() {
        let named = name_files(7, |number| match number {
            1 => panic!("a parser's"),
            2 => None,
            3 => {
                // SAFETY: kills the child that this runs in.
                unsafe { libc::raise(libc::SIGKILL) };
                None
            }
            4 => std::process::abort(),
            _ => Some(vec![vec![function("inner"), function("outer")], Vec::new(), vec![function(&"x".repeat(9000))]]),
        });
        let there: Vec<bool> = named.iter().map(Option::is_some).collect();
        assert_eq!(there, [true, false, false, false, false, true, true]);
        let found = named[6].as_ref().expect("the last");
        assert_eq!(found[0], [function("inner"), function("outer")]);
        assert_eq!((found[1].len(), found[2][0].name.len()), (0, NAME_BYTES_MAX));
    }

    #[test]
    fn a_file_that_is_shortened_while_it_is_read_ends_the_child_alone() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("it is ours");
        let named = name_files(2, |number| {
            if number == 1 {
                return Some(Vec::new());
            }
            // SAFETY: a fresh mapping of a file that is as long.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), 1 << 20, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
            };
            file.set_len(0).expect("it is ours");
            // SAFETY: the address is mapped; that nothing is behind it any more is what this is about.
            let byte = unsafe { at.cast::<u8>().add(4096).read_volatile() };
            Some(vec![vec![function(&byte.to_string())]])
        });
        assert_eq!(named, [None, Some(Vec::new())]);
    }

    #[test]
    fn a_copy_is_as_the_file_was_and_a_huge_file_is_not_copied() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"content").expect("it is ours");
        let copy = copy_of(&file).expect("it is small");
        file.set_len(0).expect("it is ours");
        let mut bytes = [0; 7];
        copy.read_exact_at(&mut bytes, 0).expect("memory");
        assert_eq!(&bytes, b"content");
        file.set_len(1 << 40).expect("a hole");
        assert!(copy_of(&file).is_none());
    }
}
