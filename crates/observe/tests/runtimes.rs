//! Stacks of runtimes that make code while they run, with their own maps of it. They are large, so these tests are for the
//! long form: `make test-all` installs what they need.

use crate::profiled;

use pagelab_observe::cpu::ProfileOptions;
use pagelab_observe::stacks::End;
use profiled::{Run, is_root, profile};

const JS: &str = "
function inner(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) * i % 7; return s; }
function middle(n) { return inner(n) + inner(n / 2); }
function outer(n) { return middle(n) + 1; }
let t = 0; for (let i = 0; i < 3000; i++) t += outer(20000);
";

const JAVA: &str = "
public class T {
    static double inner(int n) { double s = 0; for (int i = 0; i < n; i++) s += Math.sqrt(i) + i / 7; return s; }
    static double middle(int n) { return inner(n) + inner(n / 2); }
    static double outer(int n) { return middle(n) + 1; }
    public static void main(String[] a) throws Exception {
        double t = 0;
        for (int i = 0; i < 60000; i++) t += outer(20000);
        String pid = String.valueOf(ProcessHandle.current().pid());
        new ProcessBuilder(\"jcmd\", pid, \"Compiler.perfmap\").inheritIO().start().waitFor();
        if (t < 0) System.out.println(t);
    }
}
";

/// At least 95 % of the stacks of the first process reach the entry of their thread, and the code is named.
fn assert_reaches(run: &Run, function: &str) {
    let with_stack: Vec<_> = run.samples.iter().filter(|sample| !sample.user.is_empty()).collect();
    let reached = with_stack.iter().filter(|sample| sample.end == Some(End::Entry)).count();
    assert!(with_stack.len() > 100, "{} samples", with_stack.len());
    assert!(reached * 100 >= with_stack.len() * 95, "{reached} of {} reach the entry", with_stack.len());
    let named = with_stack.iter().filter(|sample| sample.names().iter().any(|name| name.contains(function))).count();
    assert!(named * 100 >= with_stack.len() * 30, "{named} of {} samples are in {function}", with_stack.len());
}

#[test]
#[ignore = "needs node: apt-get install nodejs"]
fn runtime_node_with_a_perf_map() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("t.js");
    std::fs::write(&program, JS).expect("the directory is ours");
    let command = format!("node --perf-basic-prof {}", program.display());
    assert_reaches(&profile(&command, &ProfileOptions::default(), |_| ()), "inner");
}

#[test]
#[ignore = "needs a JDK: apt-get install default-jdk-headless"]
fn runtime_java_with_a_perf_map() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("T.java");
    std::fs::write(&program, JAVA).expect("the directory is ours");
    let compiled = std::process::Command::new("javac").arg("-d").arg(dir.path()).arg(&program).status();
    assert!(compiled.expect("javac is there").success());
    let command = format!("java -XX:+PreserveFramePointer -cp {} T", dir.path().display());
    assert_reaches(&profile(&command, &ProfileOptions::default(), |_| ()), "T.");
}
