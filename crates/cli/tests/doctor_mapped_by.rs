//! `pagelab doctor --pid PID --recording DIR`: each region has the call that mapped it, with its stack, if the recording is of
//! this very process. Needs root, and gcc.

use crate::common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use common::{json, pagelab, run, scratch, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Maps before the recording begins and, when a line comes, in it: 4 MiB, 2 MiB that are unmapped again, and 2 MiB grown to 6 MiB.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define MIB (1UL << 20)
#define MAP(bytes) mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
#define IN(name, call) __attribute__((noinline)) void *name(void *at) { void *got = call; __asm__ volatile("" : "+r"(got) :: "memory"); return got; }
IN(before, MAP(4 * MIB))
IN(cache, MAP(4 * MIB))
IN(buffer, MAP(2 * MIB))
IN(larger, mremap(at, 2 * MIB, 6 * MIB, MREMAP_MAYMOVE))
static void tell(const char *name, void *at) { printf("%s %lx\n", name, (unsigned long)at); fflush(stdout); }
int main(void)
{
    char line[16];
    /* A page that nothing may touch lies between, so that the kernel joins none of them. */
    char *room = mmap(0, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *at = before(NULL);
    tell("before", memset(at, 1, 4 * MIB));
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    mmap(room, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at = cache(NULL), 4 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC);
    tell("cache", memset(at, 1, 4 * MIB));
    munmap(buffer(NULL), 2 * MIB);
    at = larger(buffer(NULL));
    madvise(at, 6 * MIB, MADV_DONTDUMP);
    tell("larger", memset(at, 1, 6 * MIB));
    fgets(line, sizeof(line), stdin);
    return 0;
}
"#;

struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Program {
    fn start(dir: &Path) -> Self {
        let (code, program) = (dir.join("maps.c"), dir.join("maps"));
        std::fs::write(&code, PROGRAM).expect("the directory is ours");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-fno-optimize-sibling-calls", "-Wno-unused-result"]).arg(&code).arg("-o").arg(&program);
        assert!(gcc.status().expect("gcc is there").success());
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, said }
    }

    /// The address that it tells under this name.
    fn address(&mut self, name: &str) -> u64 {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        let (found, address) = line.trim().split_once(' ').expect("two words");
        assert_eq!(found, name);
        u64::from_str_radix(address, 16).expect("an address")
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it reads");
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The region that holds the address.
fn region(document: &Value, address: u64) -> &Value {
    let holds = |one: &&Value| {
        (one["start"].as_u64().expect("a number")..one["end"].as_u64().expect("a number")).contains(&address)
    };
    document["regions"].as_array().expect("a list").iter().find(holds).expect("it is mapped")
}

#[test]
fn regions_have_the_call_that_mapped_them() {
    if !common::is_root() {
        return;
    }
    let dir = scratch();
    let mut program = Program::start(dir.path());
    let before = program.address("before");
    let out = dir.path().join("rec");
    let mut record = pagelab();
    record.args(["record", "--observe", "tasks,maps", "-p", &program.pid(), "-o"]).arg(&out);
    let mut recorder = record.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    // It records when it has met the process.
    while !has_tasks(&out) {
        assert!(recorder.try_wait().expect("ours").is_none(), "{record:?} ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    program.go_on();
    let (cache, larger) = (program.address("cache"), program.address("larger"));
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_raw(recorder.id().cast_signed()).expect("a number");
    kill_process(pid, Signal::INT).expect("it runs");
    assert!(recorder.wait().expect("ours").success());

    let output = pagelab().args(["doctor", "--json", "--pid", &program.pid(), "--recording"]).arg(&out).output();
    let document = json(&output.expect("it starts"));
    for (address, call, function, bytes) in
        [(cache, "mmap", "cache", 4_u64 << 20), (larger, "mremap", "larger", 6 << 20)]
    {
        let found = &region(&document, address)["mapped_by"];
        assert_eq!((&found["call"], &found["bytes"]), (&call.into(), &bytes.into()), "{found}");
        let stack: Vec<&str> = found["stack"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        let at = stack.iter().position(|name| *name == function).unwrap_or_else(|| panic!("{function}: {stack:?}"));
        assert!(stack[at..].contains(&"main"), "{stack:?}");
    }
    let older = region(&document, before);
    assert!(older["mapped_by"].is_null() && older["mapped_by_reason"].is_string(), "{older}");
    let output = pagelab().args(["doctor", "--pid", &program.pid(), "--recording"]).arg(&out).output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("mapped by mremap") && text.contains("larger < main"), "{text}");

    // Another process is not in the recording, and the recorded one's number may be given to another.
    let mut other = pagelab();
    let own = std::process::id().to_string();
    let said = stderr(&run(other.args(["doctor", "--pid", &own, "--recording"]).arg(&out), 2));
    assert!(said.contains(&format!("no process {own}")), "{said}");
    run(pagelab().args(["doctor", "--recording"]).arg(&out), 2);
}

/// Whether the recording has rows of tasks already.
fn has_tasks(out: &Path) -> bool {
    let parts = std::fs::read_dir(out.join("tasks"));
    parts.is_ok_and(|mut parts| parts.next().is_some())
}
