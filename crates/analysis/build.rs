//! What the program knows of its own record: the judged cases of `tests/zoo/judged`, and the version of the rules that is compiled.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What decides which cause is named.
const RULES: [&str; 3] = ["crates/analysis/src/rules", "crates/vocab/src/causes", "crates/vocab/src/causes.rs"];
/// Files and folders below them that decide nothing. `tests/zoo/judged.py` leaves out the same.
const NO_RULES: [&str; 5] = ["truth", "tests.rs", "scenes.rs", "error_rate.rs", "docs.rs"];
const JUDGED: &str = "tests/zoo/judged";

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let mut rules = Vec::new();
    for place in RULES {
        println!("cargo:rerun-if-changed={}", root.join(place).display());
        files(&root, Path::new(place), &mut rules)?;
    }
    rules.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    // By characters, as other programs sort names: paths compare by component.
    rules.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    println!("cargo:rustc-env=PAGELAB_RULES={:016x}", version(&root, &rules)?);
    println!("cargo:rerun-if-changed={}", root.join(JUDGED).display());
    let mut judged = Vec::new();
    files(&root, Path::new(JUDGED), &mut judged)?;
    judged.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    judged.sort();
    let cases = judged.iter().map(|path| fs::read_to_string(root.join(path))).collect::<io::Result<String>>()?;
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("judged.jsonl"), cases)
}

/// Files at or below a place, as paths below the root.
fn files(root: &Path, place: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    if root.join(place).is_file() {
        into.push(place.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(root.join(place))? {
        let name = entry?.file_name();
        if !NO_RULES.iter().any(|other| name == *other) {
            files(root, &place.join(name), into)?;
        }
    }
    Ok(())
}

/// FNV-1a of names and contents: another version is another number, and nobody has a reason to make two alike.
fn version(root: &Path, paths: &[PathBuf]) -> io::Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in paths {
        let name = path.to_string_lossy();
        for byte in name.bytes().chain([0]).chain(fs::read(root.join(path))?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}
