//! Names of files: what a job names, or what its workers' files are called.

use std::path::{Path, PathBuf};

use pagelab_fiojob::{Given, JobSpec, Origin, options};

use crate::error::LoadError;

/// Splits a list at ':'; `\:` is a colon of the name.
fn list(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, names.last_mut()) {
            ('\\', Some(name)) if characters.peek() == Some(&':') => {
                characters.next();
                name.push(':');
            }
            (':', _) => names.push(String::new()),
            (_, Some(name)) => name.push(character),
            (_, None) => {}
        }
    }
    names.into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Puts the job's name and numbers into a format; fio reads the keywords in any case.
fn format(format: &str, job: &str, worker: u32, file: u64) -> String {
    let (worker, file) = (worker.to_string(), file.to_string());
    let keywords = [("$jobname", job), ("$jobnum", worker.as_str()), ("$filenum", file.as_str())];
    let mut name = String::new();
    let mut rest = format;
    'text: while let Some(character) = rest.chars().next() {
        for (keyword, value) in keywords {
            if rest.get(..keyword.len()).is_some_and(|head| head.eq_ignore_ascii_case(keyword)) {
                name.push_str(value);
                rest = rest.get(keyword.len()..).unwrap_or("");
                continue 'text;
            }
        }
        name.push(character);
        rest = rest.get(character.len_utf8()..).unwrap_or("");
    }
    name
}

/// The folders that the job names.
pub(super) fn directories(job: &JobSpec) -> Vec<PathBuf> {
    job.options.directory.as_deref().map(list).unwrap_or_default().into_iter().map(PathBuf::from).collect()
}

/// Whether `nrfiles` bounds the files that `filename` names. As in fio names are counted when they are read, and `nrfiles` is heard only
/// if it is read after them: in a later argument, or in a job whose names stand in `[global]`. A section of a job file has its names
/// read last.
fn number_follows_names(job: &JobSpec) -> bool {
    if let Some(names) = last_origin(&job.given, "filename") {
        return follows(names, last_origin(&job.given, "nrfiles"));
    }
    let Some(names) = last_origin(&job.inherited, "filename") else { return false };
    last_origin(&job.given, "nrfiles").is_some() || follows(names, last_origin(&job.inherited, "nrfiles"))
}

/// Where an option was written last, by whichever of its names.
fn last_origin<'a>(given: &'a [Given], name: &str) -> Option<&'a Origin> {
    let is = |given: &&Given| options::option(&given.name).is_some_and(|def| def.name == name);
    given.iter().rev().find(is).map(|given| &given.origin)
}

/// Whether an option of the same section is read after the names. Job files are read after the arguments that their options override.
fn follows(names: &Origin, other: Option<&Origin>) -> bool {
    match (names, other) {
        (Origin::Argument { index: names }, Some(Origin::Argument { index: other })) => other > names,
        (Origin::Argument { .. }, Some(Origin::Line { .. })) => true,
        (Origin::Line { .. }, Some(_)) | (_, None) => false,
    }
}

/// The names of one worker's files, in order. As in fio a job's name may be a path.
///
/// # Errors
/// The job's name cannot be part of a file's name.
pub(super) fn of_worker(job: &JobSpec, clone: u32) -> Result<Vec<PathBuf>, LoadError> {
    let o = &job.options;
    let directories = directories(job);
    let directory = directories.get(clone as usize % directories.len().max(1));
    let place = |name: String| match &directory {
        Some(directory) => directory.join(name),
        None => PathBuf::from(name),
    };
    if let Some(names) = o.filename.as_deref() {
        let mut names = list(names);
        if number_follows_names(job) {
            names.truncate(usize::try_from(o.nrfiles).unwrap_or(usize::MAX));
        }
        return Ok(names.into_iter().map(place).collect());
    }
    let section = job.section();
    if o.nrfiles == 1 && Path::new(section).metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        // A section that is called like a device means the device, as in fio.
        return Ok(vec![PathBuf::from(section)]);
    }
    if section.contains('\0') && o.filename_format.as_deref().is_none_or(|format| format.contains("$jobname")) {
        return Err(LoadError::Target {
            job: job.name.clone(),
            reason: "a name with a NUL byte cannot be part of a file's name; give filename=".to_owned(),
        });
    }
    let pattern = o.filename_format.as_deref().unwrap_or("$jobname.$jobnum.$filenum");
    Ok((0..o.nrfiles).map(|file| place(format(pattern, section, clone, file))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_formats() {
        assert_eq!(list("a:b\\:c: d :"), ["a", "b:c", "d"]);
        assert_eq!(format("x.$JobName-$jobnum/$filenum$", "j", 2, 7), "x.j-2/7$");
        assert_eq!(format("$jobn\u{e9}m", "j", 0, 0), "$jobn\u{e9}m");
    }
}
