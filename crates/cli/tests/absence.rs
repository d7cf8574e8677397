//! What a recording has no rows of: nobody looked, and somebody looked and saw none, are two answers, the same ones in every command.

use crate::common;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{pagelab, run, scratch};
use serde_json::Value;

/// A process that does nothing for as long as the test runs.
struct Idle(Child);

impl Idle {
    /// Waits until it sleeps: what it does to begin would be recorded.
    fn start() -> Self {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat (coreutils)");
        child.stdin.as_mut().expect("piped").write_all(b"x").expect("cat reads");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("cat writes");
        let idle = Self(child);
        let deadline = Instant::now() + Duration::from_mins(1);
        while !idle.sleeps() {
            assert!(Instant::now() < deadline, "cat does not wait for more");
            std::thread::sleep(Duration::from_millis(10));
        }
        idle
    }

    /// It waits in read(2), as `/proc/PID/syscall` says (call 0 of x86-64).
    fn sleeps(&self) -> bool {
        let call = fs::read_to_string(format!("/proc/{}/syscall", self.0.id())).expect("our child");
        call.starts_with("0 0x0 ")
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(run(command, 0).stdout).expect("text")
}

fn recorded(out: &Path, observe: &str) {
    let idle = Idle::start();
    let mut record = pagelab();
    record.args(["record", "-q", "--duration", "0.3", "--observe", observe, "-o"]).arg(out);
    run(record.arg("-p").arg(idle.0.id().to_string()), 0);
}

fn document(words: &[&str], out: &Path) -> Value {
    let mut command = pagelab();
    let text = stdout(command.arg(words[0]).arg("--json").arg(out).args(&words[1..]));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn none_seen_and_not_recorded_are_told_apart() {
    let dir = scratch();
    let (looked, not_looked) = (dir.path().join("looked"), dir.path().join("not"));
    recorded(&looked, "tasks,faults,maps,dax");
    recorded(&not_looked, "tasks");
    let notes = |view: &str, out: &Path| {
        let shown = document(&["show", view], out);
        assert_ne!(shown["notes"], serde_json::json!([]), "{view} has rows: {shown}");
        shown["notes"].to_string()
    };
    for (view, stream) in [("faults", "faults"), ("dax", "dax")] {
        let seen = notes(view, &looked);
        assert!(seen.contains(&format!("were recorded: {stream} ran and saw none")), "{seen}");
        let unseen = notes(view, &not_looked);
        assert!(unseen.contains("were recorded; ask for them: pagelab record --observe default"), "{unseen}");
    }
    let explained = |out: &Path| document(&["explain"], out)["no_mappings"].clone();
    assert_eq!(explained(&looked)["state"], "none_seen", "{}", explained(&looked));
    assert_eq!(explained(&not_looked)["state"], "not_recorded", "{}", explained(&not_looked));
    let text = stdout(pagelab().arg("explain").arg(&looked));
    assert!(text.contains("faults ran and saw none"), "{text}");
}
