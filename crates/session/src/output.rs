//! The output of a recorded command on its way through the recorder: passed on as it is, and read for numbers.
//!
//! A command usually writes to the recorder's own standard output and error, and the recorder does not see it. Where
//! numbers of it are wanted ([`crate::ValueSpec`]), or it is not to be shown, it writes into a pipe that a thread of the
//! recorder empties. What goes to a terminal goes through a pseudo-terminal, so that the command still finds one. Where
//! standard output and error are one and the same, they stay one, and their order is kept.
//!
//! Such a command depends on the recorder, as one in `command | tee` does on `tee`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags, poll};

use crate::options::SessionOptions;
use crate::values::{Search, ValueFound};

/// Where the output of a command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// Where the recorder's own goes.
    #[default]
    Shown,
    /// Nowhere; of its last line the session's outcome tells.
    Hidden,
}

/// Bytes asked for in a pipe: fewer wake-ups of the thread.
const PIPE_BYTES: usize = 1 << 20;
/// Bytes read at a time.
const CHUNK: usize = 1 << 16;
/// A line longer than this is looked at in pieces.
const LINE_AT_MOST: usize = 1 << 20;
/// Reads at most between being asked and answering: more than the pipes hold.
const LATE_AT_MOST: usize = 4 * PIPE_BYTES / CHUNK;
/// Letters kept of the last line.
const LAST_LINE_AT_MOST: usize = 200;

/// What the output said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    /// The numbers asked for.
    pub values: Vec<ValueFound>,
    /// The last line that is not empty, without control characters.
    pub last_line: Option<String>,
}

/// The command's output, as long as it runs.
pub(crate) struct Tee {
    /// The command's ends, each with the numbers that it has in the command; closed once the command has them.
    theirs: Vec<(OwnedFd, Vec<i32>)>,
    /// Closed to ask for the output so far.
    stop: Option<OwnedFd>,
    heard: mpsc::Receiver<Heard>,
}

impl Tee {
    /// Pipes for a command that the options want to listen to; `None` if its output is left alone.
    pub(crate) fn open(options: &SessionOptions) -> io::Result<Option<Self>> {
        if options.values.is_empty() && options.output == Output::Shown {
            return Ok(None);
        }
        let search = Search::new(&options.values).map_err(io::Error::other)?;
        let mut theirs = Vec::new();
        let mut sources = Vec::new();
        for (destination, numbers) in destinations(options) {
            let (ours, end) = channel(destination)?;
            let to = match destination {
                None => None,
                Some(number) => Some(duplicate(number)?),
            };
            sources.push(Source { from: File::from(ours), to, line: Vec::new() });
            theirs.push((end, numbers));
        }
        let (asked, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (tell, heard) = mpsc::channel();
        let listener = Listener { sources, search, last_line: Vec::new(), asked: Some(asked), tell };
        std::thread::Builder::new().name("output".to_owned()).spawn(move || listener.run())?;
        Ok(Some(Self { theirs, stop: Some(stop), heard }))
    }

    /// Descriptors to hand down, each as (ours, its number in the command).
    pub(crate) fn hand_down(&self) -> impl Iterator<Item = (i32, i32)> {
        self.theirs.iter().flat_map(|(end, numbers)| numbers.iter().map(|number| (end.as_raw_fd(), *number)))
    }

    /// The command has its ends; with ours open, they would never be at their end.
    pub(crate) fn started(&mut self) {
        self.theirs.clear();
    }

    /// The output until now; later output is still passed on.
    pub(crate) fn heard(&mut self) -> Heard {
        self.theirs.clear();
        self.stop = None;
        self.heard.recv().unwrap_or_default()
    }
}

/// Where output goes, and the command's descriptors that go there.
fn destinations(options: &SessionOptions) -> Vec<(Option<i32>, Vec<i32>)> {
    if options.output == Output::Hidden {
        return vec![(None, vec![1, 2])];
    }
    if options.stdout_to_stderr || same_file(1, 2) {
        return vec![(Some(2), vec![1, 2])];
    }
    vec![(Some(1), vec![1]), (Some(2), vec![2])]
}

fn same_file(one: i32, other: i32) -> bool {
    let stat = |number: i32| duplicate(number).ok().and_then(|fd| rustix::fs::fstat(&fd).ok());
    match (stat(one), stat(other)) {
        (Some(one), Some(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes numbers; a number that is no descriptor is refused.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Our end and the command's: of a pseudo-terminal where the output goes to a terminal, else of a pipe.
fn channel(destination: Option<i32>) -> io::Result<(OwnedFd, OwnedFd)> {
    if let Some(number) = destination
        && let Ok(terminal) = duplicate(number)
        && rustix::termios::isatty(&terminal)
    {
        return pseudo_terminal(&terminal);
    }
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // A smaller pipe does as well.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
    Ok((read, write))
}

/// A pseudo-terminal as wide as the terminal, which changes nothing of what goes through it: the terminal does that.
fn pseudo_terminal(terminal: &OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the pointers refer to locals; null means that no name, modes or size are given.
    let made = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), std::ptr::null())
    };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made both descriptors, and nobody else knows of them.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    for end in [&ours, &theirs] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    let mut modes = rustix::termios::tcgetattr(&theirs)?;
    modes.make_raw();
    rustix::termios::tcsetattr(&theirs, rustix::termios::OptionalActions::Now, &modes)?;
    if let Ok(size) = rustix::termios::tcgetwinsize(terminal) {
        rustix::termios::tcsetwinsize(&theirs, size)?;
    }
    Ok((ours, theirs))
}

/// One of the command's outputs.
struct Source {
    from: File,
    /// Where it goes on to.
    to: Option<OwnedFd>,
    /// The line that has not ended yet.
    line: Vec<u8>,
}

/// The thread that empties the pipes.
struct Listener {
    sources: Vec<Source>,
    search: Search,
    last_line: Vec<u8>,
    /// At its end when the session asks for the output; `None` once it has been handed over.
    asked: Option<OwnedFd>,
    tell: mpsc::Sender<Heard>,
}

impl Listener {
    fn run(mut self) {
        let mut late = 0;
        while !self.sources.is_empty() || self.asked.is_some() {
            let (ready, asked) = self.wait();
            late += usize::from(asked);
            // A command that goes on would otherwise never leave its pipe empty.
            if asked && (ready.is_empty() || late > LATE_AT_MOST) {
                self.answer();
            }
            // From the back, so that earlier places stay valid.
            for place in ready.into_iter().rev() {
                if !self.pass_on(place) {
                    let source = self.sources.remove(place);
                    self.line(&source.line);
                }
            }
        }
    }

    /// Waits until a source has something, or is at its end; also whether the session asks.
    fn wait(&self) -> (Vec<usize>, bool) {
        let asked = self.asked.as_ref().map(AsFd::as_fd);
        let all = self.sources.iter().map(|source| source.from.as_fd()).chain(asked);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if poll(&mut fds, None).is_err() {
            return (Vec::new(), false);
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready = fds.iter().take(self.sources.len()).enumerate().filter(|(_, fd)| is_ready(fd));
        let asked = self.asked.is_some() && fds.last().is_some_and(is_ready);
        (ready.map(|(place, _)| place).collect(), asked)
    }

    /// Reads once and passes on; false at the end.
    fn pass_on(&mut self, place: usize) -> bool {
        let Some(source) = self.sources.get_mut(place) else { return false };
        let mut chunk = vec![0_u8; CHUNK];
        let bytes = match source.from.read(&mut chunk) {
            Ok(0) => return false,
            Ok(n) => chunk.get(..n).unwrap_or(&[]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            // A pseudo-terminal that nobody holds any more says EIO.
            Err(_) => return false,
        };
        if let Some(to) = &source.to
            && write_all(to, bytes).is_err()
        {
            // The reader has gone; the command's next write fails, as without us.
            return false;
        }
        if self.asked.is_none() {
            return true;
        }
        let mut line = std::mem::take(&mut source.line);
        for byte in bytes {
            if matches!(byte, b'\n' | b'\r') || line.len() >= LINE_AT_MOST {
                self.line(&line);
                line.clear();
            }
            if !matches!(byte, b'\n' | b'\r') {
                line.push(*byte);
            }
        }
        if let Some(source) = self.sources.get_mut(place) {
            source.line = line;
        }
        true
    }

    fn line(&mut self, line: &[u8]) {
        self.search.line(line);
        if !line.trim_ascii().is_empty() {
            self.last_line.clear();
            self.last_line.extend_from_slice(line);
        }
    }

    fn answer(&mut self) {
        let lines: Vec<Vec<u8>> = self.sources.iter_mut().map(|source| std::mem::take(&mut source.line)).collect();
        for line in lines {
            self.line(&line);
        }
        self.asked = None;
        let last_line = (!self.last_line.is_empty()).then(|| shown(&self.last_line));
        // A session that has gone needs no answer.
        let _ = self.tell.send(Heard { values: self.search.found(), last_line });
    }
}

/// Writes everything, also to what does not wait.
fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or(&[]),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut fds = [PollFd::new(to, PollFlags::OUT)];
                let _ = poll(&mut fds, None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A line for people: nothing that a terminal acts on, and not too much of it.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let acts =
        |letter: char| letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let letters = text.trim().chars().map(|letter| if acts(letter) { '?' } else { letter });
    letters.take(LAST_LINE_AT_MOST).collect()
}
