//! Compiles the agent, which runs in the guest, so that the library carries it: whoever has the library can boot a lab.

use std::path::PathBuf;
use std::process::{Command, exit};
use std::{env, fs};

/// The agent's files; it knows nothing but the standard library.
const SOURCES: &[&str] = &["src/agent/main.rs", "src/agent/command.rs", "src/agent/sys.rs", "src/frame.rs"];

fn main() {
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    let agent = PathBuf::from(variable("OUT_DIR")).join("agent");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition=2024", "--crate-name=pagelab_lab_agent", "--crate-type=bin"]);
    rustc.args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    rustc.arg("--target").arg(variable("TARGET")).arg("-o").arg(&agent).arg(SOURCES[0]);
    match rustc.status() {
        Ok(status) if status.success() && fs::metadata(&agent).is_ok() => {}
        Ok(status) => {
            eprintln!("compiling the lab's agent failed ({status}): {rustc:?}");
            exit(1);
        }
        Err(error) => {
            eprintln!("compiling the lab's agent failed ({error}): {rustc:?}");
            exit(1);
        }
    }
}
