//! `pagelab ui`: what is served, and to whom.

use crate::common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};

use common::{pagelab, run, scratch};
use serde_json::Value;

/// A program that touches some 2,000 pages.
const TOUCH: &str = "import mmap; m = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); [m.__setitem__(i, 1) for i in range(0, 8 << 20, 4096)]";

struct Ui {
    child: Child,
    host: String,
    token: String,
}

impl Ui {
    fn start(dir: &Path, words: &[&str]) -> Self {
        let mut command = pagelab();
        command.arg("ui").args(words).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("the address");
        let (host, token) =
            line.trim().strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
        assert!(host.starts_with("127.0.0.1:"), "loopback only: {line}");
        Self { child, host: host.to_owned(), token: token.trim_end_matches('/').to_owned() }
    }

    /// Status and body of a request with these lines beside its first.
    fn ask(&self, first: &str, lines: &[String]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        write!(stream, "{first} HTTP/1.1\r\nConnection: close\r\n{}\r\n", lines.concat()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
    }

    fn get(&self, place: &str) -> (u16, String) {
        self.ask(&format!("GET /{}/{place}", self.token), &[format!("Host: {}\r\n", self.host)])
    }

    fn json(&self, place: &str) -> Value {
        let (status, body) = self.get(place);
        assert_eq!(status, 200, "{place}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses of this machine beside the one that is served.
fn other_addresses() -> Vec<IpAddr> {
    // The address from which this machine would ask another one; nothing is sent.
    let outward = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let outward = outward.ok().map(|address| address.ip()).filter(|address| !address.is_loopback());
    let loopback = [IpAddr::from(Ipv4Addr::new(127, 0, 0, 2)), IpAddr::from(Ipv6Addr::LOCALHOST)];
    loopback.into_iter().chain(outward).collect()
}

fn record(dir: &Path, name: &str) {
    let mut command = pagelab();
    run(command.args(["record", "-q", "-o", name, "--", "/usr/bin/python3", "-c", TOUCH]).current_dir(dir), 0);
}

#[test]
fn the_page_and_its_pictures_are_served_to_this_page_only() {
    let dir = scratch();
    record(dir.path(), "a.rec");
    let ui = Ui::start(dir.path(), &["a.rec"]);
    let (status, page) = ui.get("");
    assert_eq!(status, 200, "{page}");
    assert!(
        page.contains("<!doctype html>") && page.contains("connect-src 'self'") && page.contains("\"served\":true")
    );
    assert_eq!(ui.json("api/recordings")[0]["dir"], "a.rec");
    let field = ui.json("api/faults?recording=0");
    let (faults, slots, span) = (&field["faults"], &field["slots"], &field["span_ns"]);
    assert!(faults.as_u64().is_some_and(|faults| faults > 2000), "{field}");
    let of =
        |from, to, high| format!("api/see?recording=0&from_ns={from}&to_ns={to}&low=0&high={high}&columns=100&rows=50");
    let seen = ui.json(&of(0, span.as_i64().expect("ns"), slots.as_u64().expect("slots")));
    assert_eq!(&seen["faults"], faults, "all of them");
    let cells: u64 = seen["cells"].as_array().expect("cells").iter().filter_map(|cell| cell[2].as_u64()).sum();
    assert_eq!(Some(cells), faults.as_u64());
    let early = ui.json(&of(0, span.as_i64().expect("ns") / 50, slots.as_u64().expect("slots")));
    assert!(
        early["points"]
            .as_array()
            .is_some_and(|points| points.len() as u64 == early["faults"].as_u64().expect("faults")),
        "{early}"
    );

    let own = format!("Host: {}\r\n", ui.host);
    let state = format!("GET /{}/api/state", ui.token);
    assert_eq!(ui.ask(&state, std::slice::from_ref(&own)).0, 200);
    let refused: [(String, Vec<String>, u16); 9] = [
        (state.clone(), vec!["Host: evil.example\r\n".to_owned()], 403),
        (state.clone(), vec![own.clone(), "Origin: http://evil.example\r\n".to_owned()], 403),
        (state.clone(), vec![own.clone(), "Sec-Fetch-Site: cross-site\r\n".to_owned()], 403),
        ("GET /api/state".to_owned(), vec![own.clone()], 403),
        (format!("GET /{}0/api/state", &ui.token[1..]), vec![own.clone()], 403),
        (state.replacen("GET", "POST", 1), vec![own.clone()], 405),
        (format!("GET /{}/../../etc/passwd", ui.token), vec![own.clone()], 404),
        (format!("GET /{}/api/%2e%2e/%2e%2e/etc/passwd", ui.token), vec![own.clone()], 404),
        (format!("GET /{}/api/faults?recording=a.rec", ui.token), vec![own.clone()], 400),
    ];
    for (first, lines, expected) in refused {
        let (status, body) = ui.ask(&first, &lines);
        assert_eq!(status, expected, "{first} {lines:?}: {body}");
        assert!(!body.contains("root:"), "{body}");
    }
    assert_eq!(ui.get("api/faults?recording=7").0, 404);
    assert_eq!(ui.get("api/see?recording=0&from_ns=0&to_ns=x&low=0&high=1&columns=1&rows=1").0, 400);
    assert_eq!(ui.get("api/faults?recording=0&path=/etc/passwd").0, 400, "unknown words are refused");
}

/// A name that somebody else lets point here (DNS rebinding) begins or ends like ours; a proxy and a server may each look at another
/// one of two lines `Host`.
#[test]
fn hosts_and_pages_that_are_nearly_ours_are_refused() {
    let dir = scratch();
    record(dir.path(), "a.rec");
    let ui = Ui::start(dir.path(), &["a.rec"]);
    let port = ui.host.rsplit(':').next().expect("a port");
    let state = format!("GET /{}/api/state", ui.token);
    let asked = |lines: &[(&str, &str)]| {
        let lines: Vec<String> = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        ui.ask(&state, &lines).0
    };
    let own = ("Host", ui.host.as_str());
    assert_eq!(asked(&[own]), 200);
    assert_eq!(asked(&[("Host", &format!("localhost:{port}"))]), 200);
    assert_eq!(asked(&[own, ("Origin", &format!("http://localhost:{port}")), ("Sec-Fetch-Site", "same-origin")]), 200);
    for host in [
        format!("localhost.evil:{port}"),
        format!("localhost.:{port}"),
        format!("xlocalhost:{port}"),
        format!("127.0.0.1.evil:{port}"),
        format!("1127.0.0.1:{port}"),
        format!("localhost:{port}0"),
        format!("localhost:{port}, evil"),
        format!("0.0.0.0:{port}"),
        "localhost".to_owned(),
    ] {
        assert_eq!(asked(&[("Host", &host)]), 403, "{host}");
        assert_eq!(asked(&[own, ("Host", &host)]), 400, "{host} behind ours");
        assert_eq!(asked(&[("Host", &host), own]), 400, "{host} before ours");
    }
    assert_eq!(asked(&[own, own]), 400, "twice the same");
    assert_eq!(asked(&[]), 400, "none");
    for origin in [
        "null".to_owned(),
        format!("https://localhost:{port}"),
        format!("http://localhost.evil:{port}"),
        format!("http://localhost:{port}.evil"),
        format!("http://localhost:{port}0"),
    ] {
        assert_eq!(asked(&[own, ("Origin", &origin)]), 403, "{origin}");
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(asked(&[own, ("Sec-Fetch-Site", site)]), 403, "{site}");
    }
}

#[test]
fn only_the_loopback_address_is_served() {
    let dir = scratch();
    record(dir.path(), "a.rec");
    let ui = Ui::start(dir.path(), &["a.rec"]);
    let port: u16 = ui.host.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for address in other_addresses() {
        assert!(TcpStream::connect((address, port)).is_err(), "{address} is served");
    }
    assert_eq!(ui.get("api/state").0, 200, "it still listens");
}

#[test]
fn a_set_that_grows_is_seen_and_wrong_words_are_refused() {
    let dir = scratch();
    std::fs::create_dir(dir.path().join("set")).expect("ours");
    record(dir.path(), "set/one.rec");
    let ui = Ui::start(dir.path(), &["set"]);
    assert_eq!(ui.get("").0, 200, "one recording is no comparison, and is shown");
    let before = ui.json("api/state");
    assert_eq!(before, ui.json("api/state"));
    record(dir.path(), "set/two.rec");
    assert_ne!(before, ui.json("api/state"), "the page is told");
    assert_eq!(ui.json("api/recordings").as_array().map(Vec::len), Some(2));
    let mut command = pagelab();
    let refused = run(command.args(["ui", "absent.rec"]).current_dir(dir.path()), 2);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("absent.rec"));
    let port = ui.host.rsplit(':').next().expect("a port");
    let mut command = pagelab();
    let taken = run(command.args(["ui", "set", "--port", port]).current_dir(dir.path()), 2);
    assert!(String::from_utf8_lossy(&taken.stderr).contains("--port 0"), "{}", String::from_utf8_lossy(&taken.stderr));
}
