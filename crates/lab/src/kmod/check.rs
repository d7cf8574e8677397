//! What is in `kernel/` keeps to the kernel's own rules: its checkpatch.pl and sparse find nothing, on every kernel that
//! the lab has. Both take the kernel's sources, hence a minute, and the long form.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::sources::{OWN, Own};
use super::tree::{Tree, needed};
use super::*;
use crate::apt::newest_kernel;
use crate::folders::Folders;
use crate::options::Kernel;

/// Standard output and standard error of a command, however it ends.
fn said(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C").output().expect("it starts");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    format!("{out}{err}")
}

/// What checkpatch has against a file; a patch is read as one.
fn checkpatch(scripts: &Path, folder: &Path, name: &str, text: &str) -> Vec<String> {
    let file = folder.join(name);
    fs::write(&file, text).expect("written");
    let mut perl = Command::new("perl");
    perl.arg(scripts.join("checkpatch.pl")).args(["--no-tree", "--strict", "--terse", "--no-summary", "--show-types"]);
    if file.extension().is_none_or(|ending| ending != "patch") {
        perl.arg("-f");
    }
    let text = said(perl.arg(&file));
    text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// What sparse has against the files of ours in a folder that is laid out.
fn sparse(tree: &Tree<'_>, own: &Own, folder: &Path) -> Vec<String> {
    needed("sparse", "sparse").expect("apt-get install sparse");
    let objects: &[&str] = if own.part.is_some() { &["file.o"] } else { &["modules"] };
    let text = said(&mut tree.make(own, folder, &[objects, &["C=2", "W=1"]].concat()).expect("make and gcc"));
    assert!(folder.join(if own.part.is_some() { "file.o" } else { "ramblk.ko" }).is_file(), "{text}");
    let here = folder.display().to_string();
    text.lines().filter(|line| line.contains(&here) && line.contains(": ")).map(str::to_owned).collect()
}

/// What does not compile, with the compiler's words.
fn a_broken_source_is_said(apt: &Apt, tree: &Tree<'_>) {
    const BROKEN: Own = Own {
        name: "broken",
        module: "broken",
        part: None,
        files: &[("Kbuild", "obj-m := broken.o\n"), ("broken.c", "int pagelab_broken = ;\n")],
    };
    let error = tree.build(apt, &BROKEN, &mut |_| {}).expect_err("it does not compile");
    let text = error.to_string();
    assert!(error.kind() == "build" && error.exit_status() == 3, "{text}");
    assert!(text.starts_with("module broken: building it for Linux ") && text.contains("broken.c:1:"), "{text}");
}

#[test]
#[ignore = "fetches the kernels' sources; only in the long form"]
fn long_own_sources_pass_checkpatch_and_sparse() {
    let folders = Folders::find();
    let mut say = |event: Event| eprintln!("{event}");
    for kernel in Kernel::ALL {
        let apt = Apt::open(&folders.cache, false, &mut say).expect("apt");
        let package = newest_kernel(&apt, kernel).expect("a kernel");
        let release = package.name.trim_start_matches("linux-image-").trim_end_matches("-unsigned").to_owned();
        let target = Target { package: &package, release: &release, series: kernel.name() };
        let tree = Tree::unpack(&apt, &folders.cache, target, &mut say).expect("headers");
        tree.sources(&apt, &["scripts"], &mut say).expect("sources");
        let scripts = folders.cache.join(format!("build/linux-source-{}/scripts", kernel.name()));
        let scratch = tempfile::tempdir().expect("a folder");
        a_broken_source_is_said(&apt, &tree);
        // Both are able to find something.
        let bad = checkpatch(&scripts, scratch.path(), "bad.c", "int x = 0;   \n");
        assert!(bad.len() >= 2, "{bad:?}");
        for own in &OWN {
            let mut found = Vec::new();
            for (name, text) in own.files {
                found.extend(checkpatch(&scripts, scratch.path(), name, text));
            }
            let folder = tree.lay_out(&apt, own, &mut say).expect("sources");
            found.extend(sparse(&tree, own, &folder));
            assert_eq!(found, Vec::<String>::new(), "{} on {release}", own.name);
            let file = folder.join(if own.part.is_some() { "file.c" } else { "ramblk.c" });
            let text = fs::read_to_string(&file).expect("read");
            fs::write(&file, format!("{text}\nint pagelab_bad;\nvoid *pagelab_null(void)\n{{\n\treturn 0;\n}}\n"))
                .expect("written");
            let bad = sparse(&tree, own, &folder);
            assert!(bad.iter().any(|line| line.contains("Using plain integer as NULL")), "{bad:?}");
        }
    }
}
