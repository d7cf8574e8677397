//! Builds the small library that `hugepages exec --shm=hugetlb` preloads (shim/shmget.c), so that the program carries it along.
//!
//! Without a C compiler for the target the rest is built all the same, and that option is refused by name.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "shim/shmget.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=TARGET_CC");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("shmget.so");
    if let Err(why) = compile(&out) {
        println!("cargo::warning=hugepages exec --shm=hugetlb is left out: {why}");
        // An empty file says that there is none.
        if let Err(error) = std::fs::write(&out, b"") {
            println!("cargo::error={}: {error}", out.display());
        }
    }
}

fn compile(out: &Path) -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).ok();
    let is_cross = variable("TARGET") != variable("HOST");
    let compiler = match (variable("TARGET_CC"), is_cross) {
        (Some(compiler), _) => compiler,
        (None, true) => return Err("no C compiler for the target; set TARGET_CC".to_owned()),
        (None, false) => variable("CC").unwrap_or_else(|| "cc".to_owned()),
    };
    let flags =
        ["-shared", "-fPIC", "-O2", "-nostdlib", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wall", "-Werror"];
    let done = Command::new(&compiler).args(flags).arg("-o").arg(out).arg(SOURCE).output();
    let done = done.map_err(|error| format!("{compiler}: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(format!("{compiler}: {}", String::from_utf8_lossy(&done.stderr))) }
}
