//! The page of metrics over HTTP.
//!
//! Small on purpose. A request has at most 4 KiB and two seconds, an answer as much; then the connection is closed. Nothing is
//! read from a request but its method and path.
//!
//! Every local user can connect. Clients are served side by side by one thread, so one that is silent delays nobody; there are at
//! most [`CLIENTS`] of them, and a further one takes the place of the one that has had the most time.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::metrics::Metrics;

/// Longest request, bytes.
const LARGEST: usize = 4096;
/// Time of a request, and of its answer.
const TIME: Duration = Duration::from_secs(2);
/// Clients at a time.
const CLIENTS: usize = 64;
/// Pause where the system has no descriptor or no memory left for a client.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens, and answers in a thread of its own as long as the process lives. The address, with the port that was chosen for port 0.
///
/// # Errors
/// The address is taken, or is none of this host's.
pub(crate) fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let answer_all = move || {
        let mut clients = VecDeque::new();
        loop {
            if turn(&listener, &mut clients, &metrics).is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).stack_size(128 << 10).spawn(answer_all)?;
    Ok(bound)
}

/// Waits for clients, and goes on with those that are ready; the one that came first is in front.
fn turn(listener: &TcpListener, clients: &mut VecDeque<Client>, metrics: &Metrics) -> io::Result<()> {
    wait(listener, clients)?;
    let accepted = accept(listener, clients);
    let now = Instant::now();
    // A client that has gone is no matter.
    clients.retain_mut(|client| now < client.ends && matches!(client.step(metrics), Ok(Step::GoesOn)));
    accepted
}

fn wait(listener: &TcpListener, clients: &VecDeque<Client>) -> io::Result<()> {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    fds.extend(clients.iter().map(|client| PollFd::new(&client.stream, client.waits_for())));
    let first = clients.iter().map(|client| client.ends).min();
    let timeout = first.map(|ends| ends.saturating_duration_since(Instant::now()));
    // Until it is over, and not a fraction of a millisecond before.
    let timeout = timeout.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn accept(listener: &TcpListener, clients: &mut VecDeque<Client>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if clients.len() >= CLIENTS {
                    clients.pop_front();
                }
                clients.extend(Client::new(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
            Err(error) => return Err(error),
        }
    }
}

enum Step {
    GoesOn,
    Done,
}

/// A connection: its request so far, then what is left of its answer.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    written: usize,
    ends: Instant,
}

impl Client {
    fn new(stream: TcpStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, request: Vec::new(), answer: None, written: 0, ends: Instant::now() + TIME })
    }

    fn waits_for(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads and writes what can be without waiting.
    fn step(&mut self, metrics: &Metrics) -> io::Result<Step> {
        match self.read_and_write(metrics) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Step::GoesOn)
            }
            other => other,
        }
    }

    fn read_and_write(&mut self, metrics: &Metrics) -> io::Result<Step> {
        while self.answer.is_none() {
            let mut piece = [0; 1024];
            let count = self.stream.read(&mut piece)?;
            self.request.extend_from_slice(&piece[..count]);
            if count == 0 || self.request.len() >= LARGEST || self.request.windows(4).any(|four| four == b"\r\n\r\n") {
                self.answer = Some(answer(&self.request, metrics));
                self.ends = Instant::now() + TIME;
            }
        }
        let answer = self.answer.as_deref().unwrap_or_default();
        while let Some(rest) = answer.get(self.written..).filter(|rest| !rest.is_empty()) {
            self.written += self.stream.write(rest)?;
        }
        Ok(Step::Done)
    }
}

fn answer(request: &[u8], metrics: &Metrics) -> Vec<u8> {
    let (status, kind, body) = match method_and_path(request).as_deref() {
        None => ("400 Bad Request", "text/plain", format!("needed: a request of at most {LARGEST} bytes\n")),
        Some("GET /metrics") => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics.page()),
        Some(line) if line.starts_with("GET ") => {
            ("404 Not Found", "text/plain", "the metrics of pagelab agent are at /metrics\n".to_owned())
        }
        Some(_) => ("405 Method Not Allowed", "text/plain", "needed: GET\n".to_owned()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    (head + &body).into_bytes()
}

/// Method and path of a whole request; none if it is too long, not whole or no request.
fn method_and_path(request: &[u8]) -> Option<String> {
    if !request.windows(4).any(|four| four == b"\r\n\r\n") {
        return None;
    }
    let text = String::from_utf8_lossy(request);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    words.next().is_some_and(|version| version.starts_with("HTTP/1.")).then(|| format!("{method} {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // It may answer, and close, before all is sent.
        drop(stream.write_all(request));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn the_page_is_served_and_nothing_else() {
        let address = serve("127.0.0.1:0".parse().expect("an address"), Arc::new(Metrics::new())).expect("a free port");
        let page = asked(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = page.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len()))
                && body.contains("pagelab_agent_build_info{version="),
            "{page}"
        );
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\xff\xfe\r\n\r\n", "400"),
        ] {
            assert!(asked(address, request).starts_with(&format!("HTTP/1.1 {status}")), "{status}");
        }
        assert!(serve(address, Arc::default()).is_err(), "the port is taken");
    }

    #[test]
    fn clients_that_are_slow_or_say_too_much_are_left() {
        let address = serve("127.0.0.1:0".parse().expect("an address"), Arc::new(Metrics::new())).expect("a free port");
        // Says nothing, and a little now and then.
        let silent = TcpStream::connect(address).expect("it listens");
        let mut slow = TcpStream::connect(address).expect("it listens");
        slow.write_all(b"GET /met").expect("it listens");
        let began = Instant::now();
        assert!(asked(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("build_info"));
        assert!(began.elapsed() < 4 * TIME, "{:?}", began.elapsed());
        drop((silent, slow));
        assert!(!asked(address, &vec![b'a'; 1 << 20]).contains("200 OK"));
    }

    #[test]
    fn clients_that_are_silent_delay_nobody() {
        let address = serve("127.0.0.1:0".parse().expect("an address"), Arc::new(Metrics::new())).expect("a free port");
        // More than are served at a time, twice.
        let silent: Vec<TcpStream> =
            (0..2 * CLIENTS).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let began = Instant::now();
        for _ in 0..20 {
            assert!(asked(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("build_info"));
        }
        // One after another each of them would have had two seconds.
        assert!(began.elapsed() < TIME * u32::try_from(CLIENTS).expect("small"), "{:?}", began.elapsed());
        // Each silent one is left in the end: its connection is closed from the other side.
        for mut stream in silent {
            stream.set_read_timeout(Some(10 * TIME)).expect("a time");
            let mut rest = Vec::new();
            assert!(matches!(stream.read_to_end(&mut rest), Ok(0) | Err(_)), "{rest:?}");
        }
    }
}
