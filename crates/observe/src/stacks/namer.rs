//! Names are looked up in another process.
//!
//! Files are read that anybody may have written. A file's owner may truncate it meanwhile, which kills the reading process
//! (SIGBUS), or write contents that make a parser loop for ever or ask for all memory. So a child does it and passes on
//! the names it finds, file after file, and of one file whenever it knows more: the file on which it dies keeps what was said of it, and
//! another child continues after it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::budget::Budget;
use super::hostile::Origin;

/// How often it is looked whether names are still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Memory that looking up may take beyond what the recorder has.
const MEMORY_BYTES: u64 = 2 << 30;
/// Bytes of names that one file may give.
const NAMES_BYTES_MAX: usize = 16 << 20;
/// Bytes of a name; of a longer one the rest is cut off, and [`CUT`] stands for it.
pub(super) const NAME_BYTES_MAX: usize = 4096;
/// The last character of a name that was cut.
pub(super) const CUT: &str = "…";
const TOO_LONG: &str = "budget: looking up its names took too long";
const ENDED: &str = "reading it ended the process that looks up names: it was changed, or asks for too much memory";
/// Reasons that one file may give, and bytes of each.
const REASONS_MAX: usize = 8;
const REASON_BYTES_MAX: usize = 500;
/// What a pipe holds.
const PIPE_BYTES: usize = 64 << 10;
/// Stands for the number of addresses where a file's last answer has come.
const DONE: u32 = u32::MAX;

/// A function that an address lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    /// Inlined into the next one.
    pub inlined: bool,
}

/// The functions of each address, innermost first; none of an address that has no name.
pub(super) type Functions = Vec<Vec<Function>>;

/// What is known of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// As many as there were addresses.
    pub functions: Functions,
    /// Why some have no name, in words.
    pub lacks: Vec<String>,
}

/// What came of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// The last that was said of it.
    pub answer: Option<Answer>,
    /// Why it is not all; none if it is.
    pub ended: Option<&'static str>,
}

/// Calls `name_file` for each of the files, by number, in another process. They are as many as there are `origins`.
pub(super) fn name_files(
    origins: &[Origin],
    budget: &mut Budget<'_>,
    name_file: impl Fn(usize, &mut dyn FnMut(&Answer)),
) -> Vec<Named> {
    let mut named = Vec::with_capacity(origins.len());
    while let Some(origin) = origins.get(named.len()) {
        if let Err(reason) = budget.time_for(*origin) {
            named.push(Named { answer: None, ended: Some(reason) });
        } else if let Err(error) = name_from(origins, budget, &name_file, &mut named) {
            tracing::warn!("names cannot be looked up: {error}");
            break;
        }
    }
    let rest = || Named { answer: None, ended: Some("no process can be made that looks names up") };
    named.resize_with(origins.len(), rest);
    named
}

/// Names files in one child, from the first that has no answer on, to that which ended the child or may take no time.
fn name_from(
    origins: &[Origin],
    budget: &mut Budget<'_>,
    name_file: &impl Fn(usize, &mut dyn FnMut(&Answer)),
    named: &mut Vec<Named>,
) -> std::io::Result<()> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    give_back_memory();
    // SAFETY: the child only runs `child`, on its own copy of all memory, and ends by _exit.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(std::io::Error::last_os_error());
    }
    if pid == 0 {
        drop(read);
        child(named.len()..origins.len(), name_file, File::from(write));
    }
    drop(write);
    let pipe = File::from(read);
    let mut received = VecDeque::new();
    while let Some(origin) = origins.get(named.len()) {
        let Ok(time) = budget.time_for(*origin) else { break };
        let begun = Instant::now();
        let is_over = || budget.is_over();
        let mut answers = Answers { pipe: &pipe, received: &mut received, until: begun + time, is_over: &is_over };
        let (mut answer, mut next) = (None, answers.next());
        while let Ok(Some(more)) = next {
            answer = Some(more);
            next = answers.next();
        }
        budget.spend(*origin, begun.elapsed(), next.is_ok());
        let late = |error: std::io::Error| if error.kind() == std::io::ErrorKind::TimedOut { TOO_LONG } else { ENDED };
        let ended = next.err().map(late);
        named.push(Named { answer, ended });
        if ended.is_some() {
            break;
        }
    }
    // SAFETY: the child is ours and not waited for yet, so the number is still its own.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    Ok(())
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
fn child(files: Range<usize>, name_file: &impl Fn(usize, &mut dyn FnMut(&Answer)), mut out: File) -> ! {
    set_up();
    let work = std::panic::AssertUnwindSafe(|| -> std::io::Result<()> {
        for number in files {
            let mut written = Ok(());
            name_file(number, &mut |answer| {
                if written.is_ok() {
                    written = out.write_all(&encode(answer));
                }
            });
            written?;
            out.write_all(&DONE.to_le_bytes())?;
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
    keep_memory();
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

/// Lets malloc keep what is freed for the next file, in place of giving it back and fetching it again.
fn keep_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: numbers alone. The largest threshold for mappings of their own is 32 MiB (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
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

/// The number of addresses; for each the number of functions; for each whether it is inlined, its length and its name. Then the reasons.
fn encode(answer: &Answer) -> Vec<u8> {
    let mut bytes = (answer.functions.len() as u32).to_le_bytes().to_vec();
    for of_address in &answer.functions {
        let count = if bytes.len() > NAMES_BYTES_MAX { 0 } else { of_address.len().min(usize::from(u8::MAX)) };
        bytes.push(count as u8);
        // The last are the outermost, which must not be lost.
        for function in &of_address[of_address.len() - count..] {
            bytes.push(u8::from(function.inlined));
            put_text(&shortened(&function.name, NAME_BYTES_MAX), &mut bytes);
        }
    }
    let mut lacks: Vec<&str> = answer.lacks.iter().map(String::as_str).take(REASONS_MAX - 1).collect();
    if bytes.len() > NAMES_BYTES_MAX {
        lacks.push("budget: its names take more than 16 MiB");
    }
    bytes.push(lacks.len() as u8);
    for reason in lacks {
        put_text(&shortened(reason, REASON_BYTES_MAX), &mut bytes);
    }
    bytes
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// A text that is not longer than `most` bytes; one that was cut ends with a mark.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{CUT}", &text[..text.floor_char_boundary(most - CUT.len())]))
}

/// The parent's end.
struct Answers<'a> {
    pipe: &'a File,
    /// Bytes that came through the pipe and were not asked for yet. Numbers and names are short: to wait for each of them takes longer
    /// than to look it up.
    received: &'a mut VecDeque<u8>,
    until: Instant,
    /// The answer is not wanted any more.
    is_over: &'a dyn Fn() -> bool,
}

impl Answers<'_> {
    /// The next answer; none where a file has no more.
    fn next(&mut self) -> std::io::Result<Option<Answer>> {
        let count = self.number()?;
        if count == DONE {
            return Ok(None);
        }
        let mut functions = Vec::new();
        for _ in 0..count {
            let [of_address] = self.bytes()?;
            let each = (0..of_address).map(|_| self.function());
            functions.push(each.collect::<std::io::Result<Vec<_>>>()?);
        }
        let [lacks] = self.bytes()?;
        let lacks = (0..lacks).map(|_| self.text(REASON_BYTES_MAX)).collect::<std::io::Result<_>>()?;
        Ok(Some(Answer { functions, lacks }))
    }

    fn function(&mut self) -> std::io::Result<Function> {
        let [inlined] = self.bytes()?;
        Ok(Function { name: self.text(NAME_BYTES_MAX)?, inlined: inlined != 0 })
    }

    fn text(&mut self, most: usize) -> std::io::Result<String> {
        let len = self.number()? as usize;
        if len > most {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; len];
        self.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn number(&mut self) -> std::io::Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn bytes<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits until there is something in the pipe, and takes what there is.
    fn receive(&mut self) -> std::io::Result<()> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() || (self.is_over)() {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            let wait = left.min(LOOK_INTERVAL);
            let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let mut ready = [PollFd::new(self.pipe, PollFlags::IN)];
            match rustix::event::poll(&mut ready, Some(&wait)) {
                // A signal may be one after which nobody waits for the answer.
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    let mut bytes = vec![0; PIPE_BYTES];
                    let mut pipe = self.pipe;
                    let count = pipe.read(&mut bytes)?;
                    self.received.extend(&bytes[..count]);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Answers<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.received.is_empty() {
            self.receive()?;
        }
        self.received.read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn function(name: &str) -> Function {
        Function { name: name.to_owned(), inlined: name.starts_with('i') }
    }

    fn named_by(count: usize, name_file: impl Fn(usize, &mut dyn FnMut(&Answer))) -> Vec<Named> {
        name_files(&vec![Origin::Trusted; count], &mut Budget::new(&|| false), name_file)
    }

    #[test]
    fn a_container_whose_file_takes_for_ever_has_no_more_names_and_the_others_have() {
        let [container, other] = [Origin::Namespace(1), Origin::Namespace(2)];
        let origins = [container, container, other, Origin::Trusted];
        let begun = Instant::now();
        let named = name_files(&origins, &mut Budget::new(&|| false), |number, say| {
            say(&Answer { functions: vec![Vec::new(); number], lacks: Vec::new() });
            if number == 0 {
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        });
        assert_eq!(
            named[0],
            Named { answer: Some(Answer::default()), ended: Some(TOO_LONG) },
            "what it had said is kept"
        );
        let ended: Vec<bool> = named.iter().map(|named| named.ended.is_some()).collect();
        assert_eq!(ended, [true, true, false, false]);
        assert!(begun.elapsed() < Duration::from_secs(30));
        let hurried = name_files(&origins, &mut Budget::new(&|| true), |_, say| say(&Answer::default()));
        assert!(hurried.iter().all(|named| named.answer.is_none() && named.ended.is_some()));
    }

    #[test]
    fn what_ends_the_child_keeps_what_was_said_before_and_the_rest_has_its_names() {
        let answer = |functions: Functions| Answer { functions, lacks: vec!["none".to_owned()] };
        let named = named_by(7, |number, say| match number {
            1 => panic!("a parser's"),
            2 => {}
            3 => {
                say(&answer(vec![Vec::new()]));
                say(&answer(vec![vec![function("inner")]]));
                // SAFETY: kills the child that this runs in.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            4 => std::process::abort(),
            _ => say(&answer(vec![
                vec![function("inner"), function("outer")],
                Vec::new(),
                vec![function(&"x".repeat(9000))],
            ])),
        });
        let ended: Vec<bool> = named.iter().map(|named| named.ended.is_some()).collect();
        assert_eq!(ended, [false, true, false, true, true, false, false]);
        let of = |number: usize| named[number].answer.as_ref().map(|answer| answer.functions.as_slice());
        assert_eq!([of(1), of(2), of(4)], [None; 3]);
        assert_eq!(of(3), Some(&[vec![function("inner")]][..]));
        let found = of(6).expect("the last");
        assert_eq!(found[0], [function("inner"), function("outer")]);
        let long = &found[2][0].name;
        assert!(found[1].is_empty() && long.len() <= NAME_BYTES_MAX && long.ends_with("x…"), "{}", long.len());
        assert_eq!(named[6].answer.as_ref().expect("the last").lacks, ["none"]);
    }

    #[test]
    fn a_file_that_is_shortened_while_it_is_read_ends_the_child_alone() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("it is ours");
        let named = named_by(2, |number, say| {
            if number == 1 {
                return say(&Answer::default());
            }
            // SAFETY: a fresh mapping of a file that is as long.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), 1 << 20, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
            };
            file.set_len(0).expect("it is ours");
            // SAFETY: the address is mapped; that nothing is behind it any more is what this is about.
            let byte = unsafe { at.cast::<u8>().add(4096).read_volatile() };
            say(&Answer { functions: vec![vec![function(&byte.to_string())]], lacks: Vec::new() });
        });
        assert!(named[0].answer.is_none() && named[0].ended.is_some());
        assert_eq!(named[1], Named { answer: Some(Answer::default()), ended: None });
    }
}
