//! Kernel text under a folder that stands for `/`.

use std::fs;
use std::path::Path;

/// Writes a file, with the folders above it.
pub(crate) fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
    fs::write(path, text).expect("write");
}
