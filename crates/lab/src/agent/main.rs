//! The guest's end of the channel: runs commands that the host sends.
//!
//! - `lab-agent` is process 1: it starts the second form, collects orphans, and switches the machine off when the
//!   second form ends.
//! - `lab-agent serve PORT` speaks through a port, a file that is read and written; `serve -` through standard input,
//!   a socket: so tests run it on the host.
//!
//! It is compiled with the standard library alone, by the build script of the library that carries it.

mod command;
#[expect(dead_code, reason = "the host's half of the conversation is in there too")]
#[path = "../frame.rs"]
mod frame;
mod sys;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use command::Running;
use frame::{Decoder, Done, End, Frame, Kind, Request};

/// The name of the port; `qemu.rs` gives it.
const PORT_NAME: &str = "org.pagelab.agent";
/// The port comes a moment after its driver.
const PORT_WAIT: Duration = Duration::from_secs(10);
/// How often the port is looked at while no client is there.
const IDLE: Duration = Duration::from_millis(20);
/// How long there must have been no client until it is believed. A port tells of clients that come and go by another way than it
/// brings their bytes, and later: the first command of a client may be read before the end of the one before it.
const GONE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let served = match words.as_slice() {
        [] => return first_process(),
        ["serve", "-"] => io::stdin().as_fd().try_clone_to_owned().map(File::from).and_then(|port| serve(port, true)),
        ["serve", port] => OpenOptions::new().read(true).write(true).open(port).and_then(|port| serve(port, false)),
        _ => Err(io::Error::other("needed: nothing, or serve PORT")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Process 1: its child serves, and everything ends with that.
fn first_process() -> ExitCode {
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let started = find_port().and_then(|port| Command::new("/proc/self/exe").arg("serve").arg(port).spawn());
    match started {
        Ok(child) => {
            let server = child.id() as i32;
            while sys::reap().is_some_and(|pid| pid != server) {}
            println!("lab-agent: the server ended");
        }
        Err(error) => println!("lab-agent: {error}"),
    }
    sys::power_off();
    ExitCode::FAILURE
}

fn find_port() -> io::Result<PathBuf> {
    let deadline = Instant::now() + PORT_WAIT;
    loop {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == PORT_NAME {
                return Ok(PathBuf::from("/dev").join(entry.file_name()));
            }
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("no virtio port {PORT_NAME} after {} s", PORT_WAIT.as_secs())));
        }
        thread::sleep(IDLE);
    }
}

/// Answers until the port is closed for good (`ends`: a port that is at its end has no next client).
fn serve(mut port: File, ends: bool) -> io::Result<()> {
    let out = Arc::new(Mutex::new(File::from(OwnedFd::from(port.try_clone()?))));
    let running = Arc::new(Running::default());
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 << 10];
    let mut gone_since = None;
    loop {
        let got = match port.read(&mut buffer) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if got == 0 {
            // The client is gone, and the commands are its own: they end, too.
            let gone_for = gone_since.get_or_insert_with(Instant::now).elapsed();
            if gone_for >= GONE && !running.is_empty() {
                println!("lab-agent: no client for {} ms: what it ran is killed", gone_for.as_millis());
                running.kill(None);
            }
            thread::sleep(IDLE);
            if ends && running.is_empty() {
                return Ok(());
            }
            continue;
        }
        gone_since = None;
        decoder.push(buffer.get(..got).unwrap_or_default());
        while let Some(frame) = decoder.next_frame() {
            answer(&frame, &running, &out)?;
        }
    }
}

fn answer(frame: &Frame, running: &Arc<Running>, out: &Arc<Mutex<File>>) -> io::Result<()> {
    match frame.kind {
        Kind::Hello => {
            running.kill(None);
            send(out, &frame::flush())?;
            send(out, &Frame::new(Kind::Ready, frame.run, facts().as_bytes()).encode())
        }
        Kind::Run => {
            running.begin(frame.run);
            let (frame, running, out) = (frame.clone(), Arc::clone(running), Arc::clone(out));
            let work = move || {
                let done = match Request::decode(&frame.payload) {
                    Some(request) => command::run(frame.run, &request, &running, &|frame| send(&out, &frame.encode())),
                    None => Done {
                        end: End::NotStarted("the request cannot be read".to_owned()),
                        stdout_bytes: 0,
                        stderr_bytes: 0,
                    },
                };
                running.end(frame.run);
                let _ = send(&out, &Frame::new(Kind::Done, frame.run, &done.encode()).encode());
            };
            thread::Builder::new().spawn(work).map(drop)
        }
        Kind::Kill => {
            running.kill(Some(frame.run));
            Ok(())
        }
        Kind::Ping => send(out, &Frame::new(Kind::Pong, frame.run, &[]).encode()),
        Kind::Pong | Kind::Ready | Kind::Stdout | Kind::Stderr | Kind::Done => Ok(()),
    }
}

fn send(out: &Mutex<File>, bytes: &[u8]) -> io::Result<()> {
    out.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
}

/// The guest's facts, to be compared with the request.
fn facts() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let memory_kib = memory.and_then(|text| text.trim().strip_suffix("kB")).unwrap_or_default().trim();
    let cpus = thread::available_parallelism().map_or(String::new(), |count| count.to_string());
    let release = read("/proc/sys/kernel/osrelease");
    format!("release={}\ncpus={cpus}\nmemory_kib={memory_kib}\n", release.trim())
}
