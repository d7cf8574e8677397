//! Embeds the script and the style sheet that `web/` is built into (`make web`). Without them the crate builds and says so when a page
//! is asked for.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let dist = here.join("../../web/dist");
    let mut text = String::new();
    for (name, file) in [("SCRIPT", "page.js"), ("STYLE", "page.css")] {
        let path = dist.join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        text.push_str(&constant(name, &path));
    }
    fs::write(out.join("bundle.rs"), text)
}

fn constant(name: &str, path: &Path) -> String {
    let value = if path.is_file() {
        format!("Some(include_str!({:?}))", path.display().to_string())
    } else {
        "None".to_owned()
    };
    format!("const {name}: Option<&str> = {value};\n")
}
