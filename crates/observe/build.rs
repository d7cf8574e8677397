//! Compiles the object files of `bpf/` with clang and generates their Rust skeletons, types of the wire included.

use std::path::PathBuf;
use std::{env, process};

/// One object per group of streams that can be refused together: `bpf/NAME.bpf.c`.
const OBJECTS: &[&str] = &["observer", "accounts", "cpu", "block", "dax", "details", "khugepaged", "sums", "waits"];

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
    }
}
