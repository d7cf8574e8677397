//! What systemd is told: that the agent is ready, that it lives, what it does (sd_notify(3)).

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Longest time that a message may take.
const SEND_TIME: Duration = Duration::from_millis(200);

/// The way to the service manager; without one everything here does nothing.
#[derive(Debug)]
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
    /// Time between two signs of life.
    every: Option<Duration>,
    next: Option<Instant>,
    status: String,
}

impl Notify {
    /// By what the service manager has put into the environment.
    pub(crate) fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let is_for_us = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = variable("WATCHDOG_USEC").and_then(|us| us.parse().ok()).filter(|_| is_for_us);
        Self::at(variable("NOTIFY_SOCKET").as_deref(), watchdog)
    }

    fn at(address: Option<&str>, watchdog_us: Option<u64>) -> Self {
        let socket = address.and_then(|address| connect(address).ok());
        // A third of the time: one that is late by as much is still in time.
        let every = watchdog_us.filter(|us| *us > 0).map(|us| Duration::from_micros(us / 3));
        Self { socket, every, next: None, status: String::new() }
    }

    /// Longest time until [`Notify::lives`] must be called again.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.every.filter(|_| self.socket.is_some())
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// A sign of life, if it is time for one.
    pub(crate) fn lives(&mut self, now: Instant) {
        let Some(every) = self.patience() else { return };
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + every);
            self.send("WATCHDOG=1");
        }
    }

    /// A line for `systemctl status`, if it is another one.
    pub(crate) fn status(&mut self, line: &str) {
        if self.status != line {
            line.clone_into(&mut self.status);
            self.send(&format!("STATUS={line}"));
        }
    }

    fn send(&self, words: &str) {
        // What cannot be sent is no reason to end.
        if let Some(socket) = &self.socket {
            drop(socket.send(words.as_bytes()));
        }
    }
}

fn connect(address: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match address.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(address)?,
    }
    // A manager that does not listen holds the agent up by that much at a time, and ends it in the end.
    socket.set_write_timeout(Some(SEND_TIME))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 200];
        let mut all = Vec::new();
        while let Ok(count) = socket.recv(&mut buffer) {
            all.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
        }
        all
    }

    #[test]
    fn the_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notify");
        let name = format!("pagelab-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        let sockets = [UnixDatagram::bind(&path), UnixDatagram::bind_addr(&abstract_name)]
            .map(|socket| socket.expect("a socket"));
        for (socket, address) in sockets.iter().zip([path.display().to_string(), format!("@{name}")]) {
            socket.set_nonblocking(true).expect("ours");
            let mut notify = Notify::at(Some(&address), Some(3_000_000));
            assert_eq!(notify.patience(), Some(Duration::from_secs(1)));
            let now = Instant::now();
            notify.ready();
            notify.lives(now);
            notify.lives(now + Duration::from_millis(900));
            notify.lives(now + Duration::from_secs(1));
            notify.status("a");
            notify.status("a");
            notify.stopping();
            assert_eq!(heard(socket), ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "STATUS=a", "STOPPING=1"]);
        }
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let mut notify = Notify::at(None, Some(1));
        notify.ready();
        notify.lives(Instant::now());
        assert_eq!(notify.patience(), None);
    }
}
