//! The file below an overlay that holds the bytes of a file: the kernel maps that one.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::report::FileSystem;

/// Finds it: the layers are tried from the top. A file is taken if it has the length and times of the one above, so that a
/// renamed folder (`redirect_dir`) does not lead to another file.
///
/// # Errors
/// Why it was not found, in words.
pub(super) fn below(overlay: &FileSystem, path: &Path, above: &Metadata) -> Result<(PathBuf, File), String> {
    let full = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    let mount_point = overlay.mount_point.as_ref().ok_or("the mount is not in /proc/self/mountinfo")?;
    let inside = full.strip_prefix(mount_point).map_err(|_| format!("not below its mount point {mount_point}"))?;
    let layers = layers(&overlay.mount_options);
    for layer in &layers {
        let candidate = layer.join(inside);
        let Ok(metadata) = std::fs::metadata(&candidate) else { continue };
        if !same(&metadata, above) {
            continue;
        }
        let file = super::open(&candidate).map_err(|error| format!("{}: {error}", candidate.display()))?;
        return Ok((candidate, file));
    }
    let layers: Vec<String> = layers.iter().map(|layer| layer.display().to_string()).collect();
    Err(format!(
        "no layer has this file under the same name ({}); they may lie in another mount namespace",
        layers.join(", ")
    ))
}

fn same(below: &Metadata, above: &Metadata) -> bool {
    let of = |file: &Metadata| (file.len(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec());
    below.is_file() && of(below) == of(above)
}

/// The folders of an overlay, the top one first, from its mount options.
fn layers(options: &[String]) -> Vec<PathBuf> {
    let value = |name: &str| {
        let name = name.to_owned();
        options.iter().filter_map(move |option| option.strip_prefix(name.as_str())?.strip_prefix('='))
    };
    let mut layers: Vec<PathBuf> = value("upperdir").map(|folder| PathBuf::from(plain(folder))).collect();
    layers.extend(value("lowerdir").flat_map(parts));
    layers.extend(value("lowerdir+").map(|folder| PathBuf::from(plain(folder))));
    layers.extend(value("datadir+").map(|folder| PathBuf::from(plain(folder))));
    layers
}

/// `a:b\:c` is two folders; two colons stand before those that hold data only.
fn parts(list: &str) -> Vec<PathBuf> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for letter in list.chars() {
        match (letter, parts.last_mut()) {
            (':', _) if !escaped => parts.push(String::new()),
            ('\\', _) if !escaped => {
                escaped = true;
                continue;
            }
            (_, Some(part)) => part.push(letter),
            (_, None) => {}
        }
        escaped = false;
    }
    parts.into_iter().filter(|part| !part.is_empty()).map(PathBuf::from).collect()
}

fn plain(folder: &str) -> String {
    folder.replace("\\:", ":").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_from_the_top() {
        let options = ["rw", "lowerdir=/a:/b\\:c::/data", "upperdir=/u", "workdir=/w"].map(str::to_owned);
        let expected = ["/u", "/a", "/b:c", "/data"].map(PathBuf::from);
        assert_eq!(layers(&options), expected);
        let options = ["lowerdir+=/x", "lowerdir+=/y:z"].map(str::to_owned);
        assert_eq!(layers(&options), ["/x", "/y:z"].map(PathBuf::from));
    }
}
