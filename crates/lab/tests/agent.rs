//! The agent, run on the host at the other end of a socket: its promises hold for any process that speaks to it.

#[path = "../src/frame.rs"]
mod frame;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frame::{Decoder, Done, End, Frame, Kind, Request, flush};
use proptest::prelude::*;

struct Agent {
    child: Child,
    stream: UnixStream,
    decoder: Decoder,
}

impl Agent {
    fn start() -> Self {
        let (stream, theirs) = UnixStream::pair().expect("sockets");
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagelab-lab-agent"));
        let theirs = std::os::fd::OwnedFd::from(theirs);
        let child = command.args(["serve", "-"]).stdin(Stdio::from(theirs)).spawn().expect("the agent");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        Agent { child, stream, decoder: Decoder::default() }
    }

    fn send(&mut self, frame: &Frame) {
        self.stream.write_all(&frame.encode()).expect("sent");
    }

    fn receive(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return frame;
            }
            let mut part = [0; 4096];
            let got = self.stream.read(&mut part).expect("an answer in 20 s");
            assert!(got > 0, "the agent ended");
            self.decoder.push(&part[..got]);
        }
    }

    /// Starts a shell line; its outputs and its end come with `finish`.
    fn begin(&mut self, run: u64, line: &str, limit: u64) {
        let argv = ["sh", "-c", line].map(|word| word.as_bytes().to_vec()).to_vec();
        let request = Request { argv, stdout_bytes: limit, stderr_bytes: limit, ..Request::default() };
        self.send(&Frame::new(Kind::Run, run, &request.encode()));
    }

    fn finish(&mut self, run: u64) -> (Done, Vec<u8>, Vec<u8>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            let frame = self.receive();
            if frame.run != run {
                continue;
            }
            match frame.kind {
                Kind::Stdout => out.extend(frame.payload),
                Kind::Stderr => err.extend(frame.payload),
                Kind::Done => return (Done::decode(&frame.payload).expect("an end"), out, err),
                _ => {}
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A time to sleep, in seconds, that no other run of these tests asks for: a run that was killed may leave its sleepers behind.
fn sleep_s(test: u32) -> String {
    format!("{}.{}", 86_300 + test, std::process::id())
}

/// Processes with this word on their command line.
fn processes(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())).count()
}

fn await_none(word: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while processes(word) > 0 {
        assert!(Instant::now() < deadline, "{word}: still {} processes", processes(word));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn outputs_status_and_signals_come_back() {
    let mut agent = Agent::start();
    agent.begin(1, "echo out; echo err >&2; exit 7", 1000);
    let (done, out, err) = agent.finish(1);
    assert_eq!((done.end, out.as_slice(), err.as_slice()), (End::Exit(7), &b"out\n"[..], &b"err\n"[..]));
    agent.begin(2, "kill -15 $$", 1000);
    assert_eq!(agent.finish(2).0.end, End::Signal(15));
    agent.send(&Frame::new(
        Kind::Run,
        3,
        &Request { argv: vec![b"/nonexistent".to_vec()], ..Request::default() }.encode(),
    ));
    assert!(matches!(agent.finish(3).0.end, End::NotStarted(why) if why.contains("/nonexistent: No such file")));
    agent.send(&Frame::new(Kind::Run, 4, b"not a request"));
    assert!(matches!(agent.finish(4).0.end, End::NotStarted(_)));
    agent.send(&Frame::new(Kind::Ping, 5, b""));
    assert_eq!(agent.receive(), Frame::new(Kind::Pong, 5, b""));
}

#[test]
fn what_exceeds_the_limit_is_counted_and_thrown_away() {
    let mut agent = Agent::start();
    agent.begin(1, "head -c 50000000 /dev/zero; echo end >&2", 100_000);
    let (done, out, err) = agent.finish(1);
    assert_eq!((done.stdout_bytes, out.len(), err.as_slice()), (50_000_000, 100_000, &b"end\n"[..]));
    assert_eq!((done.end, done.stderr_bytes), (End::Exit(0), 4));
}

#[test]
fn killing_reaches_those_that_left_the_process_group() {
    let sleep = sleep_s(1);
    let mut agent = Agent::start();
    agent.begin(1, &format!("setsid sleep {sleep} & (setsid sh -c 'sleep {sleep}; :' &) ; sleep {sleep}"), 1000);
    while processes(&sleep) < 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    agent.send(&Frame::new(Kind::Kill, 99, b""));
    std::thread::sleep(Duration::from_millis(200));
    assert!(processes(&sleep) >= 3, "another run's number kills nothing");
    agent.send(&Frame::new(Kind::Kill, 1, b""));
    assert_eq!(agent.finish(1).0.end, End::Signal(9));
    await_none(&sleep);
}

#[test]
fn a_process_left_behind_does_not_keep_the_command_from_ending() {
    let sleep = sleep_s(2);
    let mut agent = Agent::start();
    let begin = Instant::now();
    agent.begin(
        1,
        &format!("sleep {sleep} & echo $!; (while :; do echo more; sleep 0.01; done) & echo $!; exit 5"),
        1000,
    );
    let (done, out, _) = agent.finish(1);
    assert_eq!(done.end, End::Exit(5));
    let out = String::from_utf8_lossy(&out);
    let left: Vec<&str> = out.lines().filter(|line| *line != "more").collect();
    assert_eq!(left.len(), 2, "{out:?}");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    let deadline = Instant::now() + Duration::from_secs(5);
    while processes(&sleep) != 1 {
        assert!(Instant::now() < deadline, "it is not killed either");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").arg("-9").args(left).status().expect("kill").success());
}

#[test]
fn a_new_client_or_none_kills_what_runs() {
    let sleep = sleep_s(3);
    let mut agent = Agent::start();
    agent.begin(1, &format!("sleep {sleep}"), 1000);
    while processes(&sleep) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The one before broke off in the middle of a frame.
    let half = Frame::new(Kind::Run, 1, &[7; 5000]).encode();
    agent.stream.write_all(&half[..3000]).expect("sent");
    agent.stream.write_all(&flush()).expect("sent");
    agent.send(&Frame::new(Kind::Hello, 2, b""));
    let ready = loop {
        let frame = agent.receive();
        if frame.run == 2 {
            break frame;
        }
    };
    assert!(ready.kind == Kind::Ready && String::from_utf8_lossy(&ready.payload).contains("release="), "{ready:?}");
    await_none(&sleep);
    let sleep = sleep_s(4);
    agent.begin(3, &format!("sleep {sleep}"), 1000);
    while processes(&sleep) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    // One that may not even have started.
    agent.begin(4, &format!("sleep {sleep}"), 1000);
    agent.stream.shutdown(std::net::Shutdown::Both).expect("closed");
    await_none(&sleep);
}

fn frames() -> impl Strategy<Value = Frame> {
    let kinds = prop::sample::select(vec![Kind::Hello, Kind::Stdout, Kind::Done, Kind::Ping]);
    (kinds, any::<u64>(), prop::collection::vec(any::<u8>(), 0..300))
        .prop_map(|(kind, run, payload)| Frame::new(kind, run, &payload))
}

/// A frame of which the header alone was sent is completed by one byte, again and again: no length of payload makes that valid.
#[test]
fn what_completes_a_header_makes_no_frame() {
    for length in 0..4096 {
        let header = Frame::new(Kind::Hello, 0, &vec![0; length]).encode();
        let mut decoder = Decoder::default();
        decoder.push(&header[..header.len() - length - 4]);
        decoder.push(&flush()[..length + 4]);
        assert_eq!(decoder.next_frame(), None, "{length} bytes of payload");
    }
}

proptest! {
    // Nothing is written into the tree.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Frames come out as they went in, however they are cut, and with garbage before and between: garbage that holds
    /// beginnings of frames, too.
    #[test]
    fn frames_are_found_in_anything(
        pieces in prop::collection::vec((frames(), prop::collection::vec(any::<u8>(), 0..60), 0usize..40), 1..8),
        cut in 1usize..97,
    ) {
        let mut bytes = Vec::new();
        for (frame, garbage, kept) in &pieces {
            bytes.extend_from_slice(garbage);
            // The beginning of a frame whose rest never came, completed as a new client does.
            let whole = frame.encode();
            bytes.extend_from_slice(&whole[..(*kept).min(whole.len() - 1)]);
            bytes.extend_from_slice(&flush());
            bytes.extend_from_slice(&whole);
        }
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for part in bytes.chunks(cut * 101) {
            decoder.push(part);
            while let Some(frame) = decoder.next_frame() {
                found.push(frame);
            }
        }
        // The beginning of a frame may lack one byte only, and be completed by the right one.
        found.dedup();
        let mut sent: Vec<Frame> = pieces.into_iter().map(|(frame, _, _)| frame).collect();
        sent.dedup();
        prop_assert_eq!(found, sent);
    }

    /// A frame with one bit turned is no frame, and the one after it is still found.
    #[test]
    fn a_damaged_frame_is_no_frame(frame in frames(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = frame.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        bytes.extend_from_slice(&flush());
        bytes.extend_from_slice(&frame.encode());
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        prop_assert_eq!(decoder.next_frame(), Some(frame));
        prop_assert_eq!(decoder.next_frame(), None);
    }

    #[test]
    fn requests_and_ends_come_back(
        argv in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..5),
        cwd in prop::collection::vec(any::<u8>(), 0..9),
        numbers in any::<(u64, u64, i32)>(),
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (stdout_bytes, stderr_bytes, code) = numbers;
        let request = Request { env: argv.clone(), argv, cwd, stdout_bytes, stderr_bytes };
        prop_assert_eq!(Request::decode(&request.encode()), Some(request));
        for end in [End::Exit(code), End::Signal(code), End::NotStarted("é".into())] {
            let done = Done { end, stdout_bytes, stderr_bytes };
            prop_assert_eq!(Done::decode(&done.encode()), Some(done));
        }
        // Whatever comes, nothing panics.
        let _ = (Request::decode(&garbage), Done::decode(&garbage));
    }
}
