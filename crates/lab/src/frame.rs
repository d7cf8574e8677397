//! What host and guest say to each other: frames that find their beginning again.
//!
//! A frame is `magic, kind, run, length, checksum of these, payload, checksum of the payload`, little-endian. Either side
//! may break off in the middle of one: a `run` that is killed, a guest that is reset. So a reader looks for the next
//! frame whose checksums hold, and a writer that has just connected sends [`flush`] first, which completes whatever
//! the one before it began. The agent is compiled with the standard library alone, hence the checksum in here.

/// Longest payload, bytes.
pub(crate) const MAX_PAYLOAD: usize = 64 << 10;
/// How every frame begins. Not text, so that what a console prints cannot look like it.
const MAGIC: [u8; 4] = [0xa7, 0x50, 0x4c, 0xb1];
const HEADER: usize = 4 + 1 + 8 + 4 + 4;
const TRAILER: usize = 4;

/// What a frame is for. The first four come from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A new client: whatever runs is killed; the answer is `Ready` with the same number.
    Hello,
    /// Start a command; the payload is a [`Request`].
    Run,
    /// Kill the command.
    Kill,
    /// Are you there? The answer is `Pong`.
    Ping,
    /// I am.
    Pong,
    /// The answer to `Hello`; the payload is text, `key=value` lines.
    Ready,
    /// Bytes of standard output.
    Stdout,
    /// Bytes of standard error.
    Stderr,
    /// The command has ended; the payload is a [`Done`].
    Done,
}

const KINDS: [Kind; 9] =
    [Kind::Hello, Kind::Run, Kind::Kill, Kind::Ping, Kind::Pong, Kind::Ready, Kind::Stdout, Kind::Stderr, Kind::Done];

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its purpose.
    pub(crate) kind: Kind,
    /// The number of the conversation; what belongs to another one is not listened to.
    pub(crate) run: u64,
    /// At most [`MAX_PAYLOAD`] bytes.
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// A frame. What exceeds [`MAX_PAYLOAD`] is cut off.
    pub(crate) fn new(kind: Kind, run: u64, payload: &[u8]) -> Self {
        Frame { kind, run, payload: payload.get(..MAX_PAYLOAD).unwrap_or(payload).to_vec() }
    }

    /// The bytes to send.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.payload.len() + TRAILER);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(KINDS.len()) as u8);
        bytes.extend_from_slice(&self.run.to_le_bytes());
        bytes.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32(&bytes).to_le_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes.extend_from_slice(&crc32(&self.payload).to_le_bytes());
        bytes
    }
}

/// What completes a frame must not make a valid one of it: four zeros are the checksum of nothing, four 0xff that of four 0xff.
const FILLER: u8 = 0x5a;

/// Bytes that complete any frame that was begun: enough that the reader cannot still wait for its end.
pub(crate) fn flush() -> Vec<u8> {
    vec![FILLER; HEADER + MAX_PAYLOAD + TRAILER]
}

/// Takes bytes, gives frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been read.
    start: usize,
}

impl Decoder {
    /// Adds the bytes read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame. What is no frame is skipped.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            let Some(skip) = rest.iter().position(|byte| *byte == MAGIC[0]) else {
                self.start = self.buffer.len();
                return None;
            };
            self.start += skip;
            match parse(rest.get(skip..).unwrap_or_default()) {
                Parsed::Frame(frame, length) => {
                    self.start += length;
                    return Some(frame);
                }
                Parsed::Unfinished => return None,
                Parsed::Garbage => self.start += 1,
            }
        }
    }
}

enum Parsed {
    /// With its length in bytes.
    Frame(Frame, usize),
    /// More bytes may make a frame of it.
    Unfinished,
    Garbage,
}

fn parse(bytes: &[u8]) -> Parsed {
    let known = bytes.len().min(MAGIC.len());
    if bytes.get(..known) != MAGIC.get(..known) {
        return Parsed::Garbage;
    }
    let (Some(covered), Some(header)) = (bytes.get(..HEADER - 4), bytes.get(..HEADER)) else {
        return Parsed::Unfinished;
    };
    let mut fields = Fields(header.get(MAGIC.len()..).unwrap_or_default());
    let (Some(kind), Some(run), Some(length), Some(sum)) = (fields.u8(), fields.u64(), fields.u32(), fields.u32())
    else {
        return Parsed::Garbage;
    };
    let length = length as usize;
    let Some(kind) = KINDS.get(usize::from(kind)).copied() else { return Parsed::Garbage };
    if crc32(covered) != sum || length > MAX_PAYLOAD {
        return Parsed::Garbage;
    }
    let Some(body) = bytes.get(HEADER..HEADER + length + TRAILER) else { return Parsed::Unfinished };
    let (payload, trailer) = body.split_at(length);
    if Fields(trailer).u32() != Some(crc32(payload)) {
        return Parsed::Garbage;
    }
    Parsed::Frame(Frame { kind, run, payload: payload.to_vec() }, HEADER + length + TRAILER)
}

/// The checksum of Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |sum: u32, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(!0, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// A command to start, and how much of its output is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Request {
    /// Program and arguments.
    pub(crate) argv: Vec<Vec<u8>>,
    /// `NAME=value`, beyond what the agent sets.
    pub(crate) env: Vec<Vec<u8>>,
    /// Working directory; empty is `/`.
    pub(crate) cwd: Vec<u8>,
    /// Bytes of standard output that are sent; the rest is counted and thrown away.
    pub(crate) stdout_bytes: u64,
    /// The same of standard error.
    pub(crate) stderr_bytes: u64,
}

impl Request {
    /// As a payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.stdout_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.stderr_bytes.to_le_bytes());
        put(&mut bytes, &self.cwd);
        for list in [&self.argv, &self.env] {
            bytes.extend_from_slice(&(list.len() as u32).to_le_bytes());
            for word in list {
                put(&mut bytes, word);
            }
        }
        bytes
    }

    /// Back from a payload; `None` if it is none.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let (stdout_bytes, stderr_bytes, cwd) = (fields.u64()?, fields.u64()?, fields.bytes()?);
        let (argv, env) = (fields.list()?, fields.list()?);
        fields.0.is_empty().then_some(Request { argv, env, cwd, stdout_bytes, stderr_bytes })
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// How.
    pub(crate) end: End,
    /// Bytes that it wrote to standard output, whether they were sent or not.
    pub(crate) stdout_bytes: u64,
    /// The same of standard error.
    pub(crate) stderr_bytes: u64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With an exit status.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// It did not start: why.
    NotStarted(String),
}

impl Done {
    /// As a payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, code, text) = match &self.end {
            End::Exit(code) => (0, *code, ""),
            End::Signal(signal) => (1, *signal, ""),
            End::NotStarted(why) => (2, 0, why.as_str()),
        };
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(&self.stdout_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.stderr_bytes.to_le_bytes());
        put(&mut bytes, text.as_bytes());
        bytes
    }

    /// Back from a payload; `None` if it is none.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let (kind, code) = (fields.u8()?, fields.u32()? as i32);
        let (stdout_bytes, stderr_bytes, text) = (fields.u64()?, fields.u64()?, fields.bytes()?);
        let end = match kind {
            0 => End::Exit(code),
            1 => End::Signal(code),
            2 => End::NotStarted(String::from_utf8_lossy(&text).into_owned()),
            _ => return None,
        };
        fields.0.is_empty().then_some(Done { end, stdout_bytes, stderr_bytes })
    }
}

fn put(bytes: &mut Vec<u8>, word: &[u8]) {
    bytes.extend_from_slice(&(word.len() as u32).to_le_bytes());
    bytes.extend_from_slice(word);
}

/// What is still to be read of a payload.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head.to_vec())
    }

    fn list(&mut self) -> Option<Vec<Vec<u8>>> {
        // The number is not trusted with memory: the words have to be there.
        (0..self.u32()?).map(|_| self.bytes()).collect()
    }
}
