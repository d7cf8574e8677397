//! The page of metrics over HTTP, for one client after another: a scraper comes every few seconds.
//!
//! Small on purpose. A request has at most 4 KiB and two seconds, an answer as much; then the connection is closed. Nothing is
//! read from a request but its method and path.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::Metrics;

/// Longest request, bytes.
const LARGEST: usize = 4096;
/// Time of a request, and of its answer.
const TIME: Duration = Duration::from_secs(2);

/// Listens, and answers in a thread of its own as long as the process lives. The address, with the port that was chosen for port 0.
///
/// # Errors
/// The address is taken, or is none of this host's.
pub(crate) fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    let answer_all = move || {
        for stream in listener.incoming() {
            match stream {
                // A client that has gone is no matter.
                Ok(stream) => drop(answer(stream, &metrics)),
                // Out of descriptors: not as fast as it can.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).stack_size(128 << 10).spawn(answer_all)?;
    Ok(bound)
}

fn answer(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    let (status, kind, body) = match request(&mut stream)?.as_deref() {
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
    stream.set_write_timeout(Some(TIME))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Method and path of a request; none if it is too long, too slow or no request.
fn request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let end = Instant::now() + TIME;
    let mut bytes = Vec::with_capacity(LARGEST);
    let mut piece = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if bytes.len() >= LARGEST || left.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    Ok(words.next().is_some_and(|version| version.starts_with("HTTP/1.")).then(|| format!("{method} {path}")))
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
}
