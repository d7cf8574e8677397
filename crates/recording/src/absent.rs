//! Why a path is no recording.

use std::fs;
use std::io;
use std::path::Path;

use pagelab_vocab::absence::Absence;

/// Name of a set's document in its directory.
pub const SET_JSON: &str = "set.json";

/// Why a path is no recording: nothing has the name, it may not be read, it is a set, a file, or a folder of something else.
pub(crate) fn no_recording(path: &Path) -> String {
    let shown = path.display().to_string();
    let absence = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Absence::NoSuchPath { path: shown },
        Err(error) => not_permitted(shown, &error),
        Ok(found) if !found.is_dir() => {
            return format!("{shown} is a file and not a recording; give the directory that was named with -o");
        }
        Ok(_) if path.join(SET_JSON).is_file() => Absence::IsASet { path: shown, one: first_run(path) },
        Ok(_) => match fs::read_dir(path) {
            Err(error) => not_permitted(shown, &error),
            Ok(_) => {
                return format!(
                    "{shown} is not a recording: it has no manifest.json; give the directory that was named with -o"
                );
            }
        },
    };
    absence.to_string()
}

fn not_permitted(path: String, error: &io::Error) -> Absence {
    let fix =
        (error.kind() == io::ErrorKind::PermissionDenied).then(|| "sudo, or the rights of who recorded it".to_owned());
    Absence::NotPermitted { what: path, reason: format!("it cannot be looked into: {error}"), fix }
}

/// A recording of a set, to be named to the user.
fn first_run(set: &Path) -> Option<String> {
    let first = |folder: &Path, begins: &str| {
        let entries = fs::read_dir(folder).ok()?.flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(begins)).map(|entry| entry.path()).min()
    };
    let run = first(&first(set, "variant=")?, "run=")?;
    Some(run.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_a_file_an_empty_folder_and_nothing_are_told_apart() {
        let tmp = tempfile::tempdir().expect("a directory");
        let of = |name: &str| no_recording(&tmp.path().join(name));
        fs::write(tmp.path().join("file"), "").expect("room");
        fs::create_dir_all(tmp.path().join("a.rec/variant=new/run=002")).expect("room");
        fs::create_dir_all(tmp.path().join("a.rec/variant=new/run=001")).expect("room");
        fs::create_dir(tmp.path().join("folder")).expect("room");
        assert!(of("a.rec").contains("no manifest.json"), "{}", of("a.rec"));
        fs::write(tmp.path().join("a.rec").join(SET_JSON), "{}").expect("room");
        assert!(of("a.rec").contains("is a set") && of("a.rec").contains("run=001"), "{}", of("a.rec"));
        assert!(of("nowhere").starts_with("no such path"), "{}", of("nowhere"));
        assert!(of("file").contains("is a file"), "{}", of("file"));
        assert!(of("folder").contains("no manifest.json"), "{}", of("folder"));
    }
}
