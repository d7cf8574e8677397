//! Compiles the object files of `bpf/` with clang and generates their Rust skeletons, types of the wire included.

use std::path::PathBuf;
use std::{env, process};

/// One object per group of streams that can be refused together: `bpf/NAME.bpf.c`.
const OBJECTS: &[&str] =
    &["observer", "accounts", "cpu", "block", "dax", "details", "khugepaged", "renames", "sums", "vmas", "waits"];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let bpf = manifest.join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed={}", bpf.display());
    for object in OBJECTS {
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(bpf.join(format!("{object}.bpf.c")))
            .clang_args(["-O2", "-mcpu=v3", "-Wall", "-Werror", "-Wno-unused-function"])
            .build_and_generate(out.join(format!("{object}.skel.rs")));
        if let Err(error) = built {
            eprintln!(
                "compiling bpf/{object}.bpf.c failed: {error:#}\n\
                 needed: clang 14 or newer with the bpf target, libelf and zlib headers; install them with\n\
                 \x20   make setup   (apt-get install clang libelf-dev zlib1g-dev pkg-config)"
            );
            process::exit(1);
        }
        let skeleton = out.join(format!("{object}.skel.rs"));
        let text = std::fs::read_to_string(&skeleton).expect("it was just written");
        std::fs::write(&skeleton, without_panics(&text)).expect("it was just written");
    }
}

/// The skeleton with errors in place of its panics: where the kernel gives no more descriptors, libbpf goes on with maps that have no
/// name, and a recorder falls back to what it can have.
fn without_panics(text: &str) -> String {
    let error = |words: &str| format!("libbpf_rs::Error::from(std::io::Error::other({words}))");
    let mut out = text.to_owned();
    for kind in ["map", "prog"] {
        let panic = format!("panic!(\"encountered unexpected {kind}: `{{name}}`\")");
        let words = format!("format!(\"libbpf has a {kind} with the name {{name:?}}\")");
        out = out.replace(&panic, &format!("return Err({})", error(&words)));
        let mut parts = Vec::new();
        for (at, part) in out.split(&format!(".expect(\"{kind} ")).enumerate() {
            let rest = match part.split_once("\")") {
                Some((words, rest)) if at > 0 => {
                    format!(".ok_or_else(|| {})?{rest}", error(&format!("\"{kind} {words}\"")))
                }
                _ => part.to_owned(),
            };
            parts.push(rest);
        }
        out = parts.concat();
    }
    out
}
