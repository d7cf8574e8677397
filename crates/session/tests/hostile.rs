//! Programs that a user may run to harm root's recorder (`hostile/programs.py`), all at the same time as user nobody,
//! along with an honest one: the recorder must survive them, stay small, and have the honest program's stacks with
//! their names. Needs root, gcc and python3.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::{FramesRow, SamplesRow, StacksRow, TasksRow};
use pagelab_session::{SessionOptions, Target};

/// What the recorder may take.
const BOUND_BYTES: u64 = 256 << 20;
/// Tells the test that it is the recorder, and where: its largest resident size is the process's.
const RECORDER_IN: &str = "PAGELAB_TEST_RECORDER_IN";
const SECONDS: &str = "1.5";

const HONEST: &str = "static volatile unsigned long sink;\n\
    __attribute__((noinline)) void honest_leaf(void) { for (unsigned long i = 0; i < 3000000; i++) sink += i; }\n\
    __attribute__((noinline)) void honest_caller(void) { honest_leaf(); __asm__ volatile(\"\" ::: \"memory\"); }\n\
    int main(void) { for (int i = 0; i < 200; i++) honest_caller(); return 0; }\n";

fn record(dir: &Path) {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/programs.py");
    let copy = dir.join("programs.py");
    std::fs::copy(programs, &copy).expect("the folder is ours");
    let command = format!(
        "{0}/honest & cd {0}/theirs && setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 {0}/programs.py all {SECONDS}; \
         rc=$?; wait; exit $rc",
        dir.display()
    );
    let argv = ["sh", "-c", &command].iter().map(Into::into).collect();
    let mut options = SessionOptions::new(Target::Command(argv), dir.join("rec"));
    options.streams = StreamSet::parse("tasks,maps,cpu").expect("streams");
    let outcome = pagelab_session::run(&options).expect("recorded");
    let rss = outcome.manifest.self_cost.max_rss_bytes.expect("the recorder measures itself");
    println!("\nstatus {} rss {rss}", outcome.ended.expect("it ended").shell_status());
}

/// For each program, by the last word of what identifies it, its samples with a user stack and those without.
fn check(dir: &Path) {
    let recording = Recording::open(&dir.join("rec")).expect("a recording");
    assert!(recording.manifest().complete, "the recorder closed it");
    let mut names = BTreeMap::new();
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    recording
        .for_each::<FramesRow<'_>>(|row| {
            names.insert(row.frame_id, (row.symbol.unwrap_or("?").to_owned(), text(row.module)));
        })
        .expect("frames");
    let mut stacks = BTreeMap::new();
    recording
        .for_each::<StacksRow<'_>>(|row| {
            let frames: Vec<_> = row.frame_ids.iter().filter_map(|id| names.get(id).cloned()).collect();
            stacks.insert(row.stack_id, frames);
        })
        .expect("stacks");
    let mut honest = BTreeMap::new();
    recording
        .for_each::<TasksRow<'_>>(|row| {
            let is_honest = row.comm == Some("honest");
            *honest.entry(row.task_id).or_insert(false) |= is_honest;
        })
        .expect("tasks");
    let (mut named, mut all, mut not_utf8) = (0, 0, 0);
    recording
        .for_each::<SamplesRow<'_>>(|row| {
            let stack = row.ustack_id.and_then(|id| stacks.get(&id)).map(Vec::as_slice).unwrap_or_default();
            not_utf8 += usize::from(stack.iter().any(|(_, module)| module.ends_with("utf8.so")));
            if honest.get(&row.task_id) == Some(&true)
                && stack.first().is_some_and(|(_, module)| module.ends_with("/honest"))
            {
                all += 1;
                let has = |wanted: &str| stack.iter().any(|(symbol, _)| symbol == wanted);
                named += usize::from(has("honest_leaf") && has("honest_caller") && has("main"));
            }
        })
        .expect("samples");
    println!(
        "{named} of {all} samples of the honest program have its chain; {not_utf8} in a file whose name is not UTF-8"
    );
    assert!(all > 20 && named * 10 >= all * 9, "{named} of {all} samples");
    assert!(not_utf8 > 0, "a name that is not UTF-8 costs no stacks");
}

#[test]
fn hostile_programs_do_not_harm_the_recorder() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    if let Some(dir) = std::env::var_os(RECORDER_IN) {
        return record(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let theirs = dir.path().join("theirs");
    std::fs::create_dir(&theirs).expect("the folder is ours");
    for (path, mode) in [(dir.path(), 0o755), (&theirs, 0o777)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("the folder is ours");
    }
    let (code, program) = (dir.path().join("honest.c"), dir.path().join("honest"));
    std::fs::write(&code, HONEST).expect("the folder is ours");
    let built = Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(&code).status().expect("gcc");
    assert!(built.success());
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    let output = again.arg("--nocapture").env(RECORDER_IN, dir.path()).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = out.lines().find(|line| line.starts_with("status ")).unwrap_or_else(|| panic!("{out}{err}"));
    println!("{line}");
    let number = |after: &str| line.split(after).nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    assert_eq!(number("status "), Some(0), "a hostile program failed: {out}{err}");
    let rss = number("rss ").expect("the recorder measures itself");
    assert!(rss <= BOUND_BYTES, "{rss} bytes");
    check(dir.path());
}
