//! The host's end of the channel to the agent.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::frame::{Decoder, Frame, Kind, flush};

/// No system call waits longer than this, so that nothing else is overlooked.
const TURN: Duration = Duration::from_millis(200);
/// How long the guest may leave a message unread.
const WRITE: Duration = Duration::from_secs(30);

/// A conversation with the agent.
pub(crate) struct Channel {
    stream: UnixStream,
    decoder: Decoder,
    /// Its number: frames of other conversations are not listened to.
    number: u64,
    buffer: Vec<u8>,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Received {
    Frame(Frame),
    /// Nothing yet.
    Nothing,
    /// QEMU is gone.
    Closed,
}

impl Channel {
    /// Connects to the socket in a folder, whatever the length of its path, and says hello.
    pub(crate) fn connect(folder: &Path, socket: &str) -> io::Result<Self> {
        let mut channel = Channel {
            stream: connect(folder, socket)?,
            decoder: Decoder::default(),
            number: random()?,
            buffer: vec![0; 64 << 10],
        };
        channel.stream.set_write_timeout(Some(WRITE))?;
        channel.stream.write_all(&flush())?;
        channel.send(Kind::Hello, &[])?;
        Ok(channel)
    }

    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&Frame::new(kind, self.number, payload).encode())
    }

    /// Waits a moment for the next frame of this conversation, at most until the deadline.
    pub(crate) fn receive(&mut self, deadline: Instant) -> io::Result<Received> {
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                if frame.run == self.number {
                    return Ok(Received::Frame(frame));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now()).min(TURN);
            if left.is_zero() {
                return Ok(Received::Nothing);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Ok(Received::Closed),
                Ok(got) => self.decoder.push(self.buffer.get(..got).unwrap_or_default()),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(Received::Nothing),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Ok(Received::Closed),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// Connects to a socket by a short path: the name of a socket has at most 107 bytes, that of a folder more.
pub(crate) fn connect(folder: &Path, socket: &str) -> io::Result<UnixStream> {
    let folder = File::open(folder)?;
    UnixStream::connect(PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(socket))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
