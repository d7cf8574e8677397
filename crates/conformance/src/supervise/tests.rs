//! Programs that behave as a case should not: each is a shell script that stands for the case's process.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::*;

/// Runs a script in place of a case.
fn run(script: &str, limit: Duration) -> (Answer, Vec<(String, String)>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut asked = Vec::new();
    let mut set = |key: &str, value: &str| {
        asked.push((key.to_owned(), value.to_owned()));
        Ok("8".to_owned())
    };
    let mut answer = supervise(&program, "topic.case", &[], limit, &mut set);
    // Another test that forked while the script was being written holds it open for a moment.
    while answer.reason.as_deref().is_some_and(|reason| reason.contains("Text file busy")) {
        answer = supervise(&program, "topic.case", &[], limit, &mut set);
    }
    (answer, asked)
}

const LONG: Duration = Duration::from_secs(30);
const PASS: &str = r#"echo '{"done":{"verdict":"pass","reason":null,"found":null,"expected":null,"steps":[]}}'"#;

#[test]
fn an_answer_is_taken_and_the_name_is_given() {
    let script = format!("[ \"$1 $2\" = '{CHILD_COMMAND} topic.case' ] && {PASS}");
    let (answer, _) = run(&script, LONG);
    assert_eq!((answer.verdict, answer.reason), (Verdict::Pass, None));
}

#[test]
fn a_setting_that_is_asked_for_is_answered() {
    let script = format!(
        "echo '{{\"set\":{{\"key\":\"k\",\"value\":\"9\"}}}}'; read line; [ \"$line\" = '{{\"Ok\":\"8\"}}' ] && {PASS}"
    );
    let (answer, asked) = run(&script, LONG);
    assert_eq!(answer.verdict, Verdict::Pass, "{:?}", answer.reason);
    assert_eq!(asked, [("k".to_owned(), "9".to_owned())]);
}

#[test]
fn a_death_by_signal_is_a_fail_that_names_it() {
    let (answer, _) = run("echo on the way >&2; kill -SEGV $$", LONG);
    let reason = answer.reason.expect("a reason");
    assert_eq!(answer.verdict, Verdict::Fail);
    assert!(reason.contains("SIGSEGV (11)") && reason.contains("on the way"), "{reason}");
}

#[test]
fn a_case_that_ends_without_an_answer_fails() {
    let (answer, _) = run("exit 101", LONG);
    assert_eq!(answer.verdict, Verdict::Fail);
    assert!(answer.reason.expect("a reason").contains("exit status 101"));
}

#[test]
fn a_case_that_takes_too_long_fails_and_is_killed_with_its_children() {
    let begun = Instant::now();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let note = folder.path().join("child");
    let (answer, _) = run(&format!("sleep 300 & echo $! > {}; sleep 300", note.display()), Duration::from_millis(500));
    assert_eq!(answer.verdict, Verdict::Fail);
    assert!(answer.reason.expect("a reason").contains("no answer within 0.5 s"));
    assert!(begun.elapsed() < Duration::from_secs(200), "it was not waited for");
    let child = std::fs::read_to_string(&note).expect("the script came that far");
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        // A zombie is dead too; the process that inherited it may take its time.
        stat.is_empty() || stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !gone() {
        assert!(Instant::now() < deadline, "process {} lives", child.trim());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_case_that_leaves_a_child_behind_is_not_waited_for_longer() {
    let (answer, _) = run(&format!("sleep 300 & {PASS}"), LONG);
    assert_eq!(answer.verdict, Verdict::Pass);
    let (answer, _) = run("sleep 300 & exit 0", LONG);
    assert!(answer.reason.expect("a reason").contains("exit status 0 without an answer"));
}

#[test]
fn nonsense_is_inconclusive_and_shown() {
    let (answer, _) = run("echo nonsense; sleep 1", LONG);
    assert_eq!(answer.verdict, Verdict::Inconclusive);
    assert!(answer.reason.expect("a reason").contains("nonsense"));
    let gone = supervise(Path::new("/nowhere/program"), "a.b", &[], LONG, &mut |_, _| Err(String::new()));
    assert_eq!(gone.verdict, Verdict::Inconclusive);
}
