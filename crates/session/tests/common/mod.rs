//! What tests of stacks share: a program of known calls, and the functions of each stack.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagelab_recording::Recording;
use pagelab_recording::tables::{FramesRow, StacksRow};

/// Compiles a program in C; `flags` stand before `-O2 -g`.
pub(crate) fn compile(dir: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&code, source).expect("the directory is ours");
    let status = Command::new("gcc").args(flags).args(["-O2", "-g"]).arg(&code).arg("-o").arg(&program).status();
    assert!(status.expect("gcc is there").success());
    program
}

/// Functions of every stack, innermost first.
pub(crate) fn stacks(recording: &Recording) -> HashMap<u64, Vec<String>> {
    let mut names = HashMap::new();
    recording
        .for_each::<FramesRow>(|row| {
            names.insert(row.frame_id, row.symbol.unwrap_or("?").to_owned());
        })
        .expect("frames");
    let mut stacks = HashMap::new();
    recording
        .for_each::<StacksRow>(|row| {
            let functions = row.frame_ids.iter().map(|id| names.get(id).expect("the frame's row").clone());
            stacks.insert(row.stack_id, functions.collect());
        })
        .expect("stacks");
    stacks
}
