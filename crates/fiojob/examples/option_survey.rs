//! Counts the options of the job files in a directory and says which of them pagelab covers.
//!
//! `tools/fio-option-survey DIRECTORY` runs it. It reads with the parser that runs jobs; nothing is fetched and nothing is run.
//! Lines are separated by tabs, most used first:
//! `option NAME LINES FILES covered|refused|unknown REASON`, `engine ...` the same, `file NAME parses|refused REASON`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagelab_fiojob::engines;
use pagelab_fiojob::parse_files;
use pagelab_fiojob::{file, options, unsupported};

/// How often a word occurs.
#[derive(Default)]
struct Use {
    lines: u64,
    files: BTreeSet<PathBuf>,
}

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        let _ = writeln!(std::io::stderr(), "usage: fio-option-survey DIRECTORY");
        return ExitCode::from(2);
    };
    match survey(Path::new(&directory)) {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "fio-option-survey: {}: {error}", directory.display());
            ExitCode::from(2)
        }
    }
}

/// The survey of a directory, line by line.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn survey(directory: &Path) -> std::io::Result<String> {
    let mut paths = Vec::new();
    collect(directory, &mut paths)?;
    paths.sort();
    let mut options: BTreeMap<String, Use> = BTreeMap::new();
    let mut engine_uses: BTreeMap<String, Use> = BTreeMap::new();
    let mut verdicts = Vec::new();
    for path in &paths {
        let count = |map: &mut BTreeMap<String, Use>, word: &str| {
            let used = map.entry(word.to_owned()).or_default();
            used.lines += 1;
            used.files.insert(path.clone());
        };
        for given in file::written_options(path).unwrap_or_default() {
            // Other names of an option count with it.
            count(&mut options, options::option(&given.name).map_or(given.name.as_str(), |def| def.name));
            if let ("ioengine", Some(engine)) = (given.name.as_str(), &given.value) {
                count(&mut engine_uses, engine);
            }
        }
        let verdict = match parse_files(std::slice::from_ref(path)) {
            Ok(_) => "parses\t".to_owned(),
            // Of several mistakes each is a line.
            Err(error) => format!("refused\t{}", error.to_string().replace('\n', " | ")),
        };
        verdicts.push(format!("file\t{}\t{verdict}", path.strip_prefix(directory).unwrap_or(path).display()));
    }
    let mut lines = table("option", options, |name| (options::option(name).is_some(), unsupported::option(name)));
    lines.extend(table("engine", engine_uses, |name| (engines::find(name).is_some(), unsupported::engine(name))));
    lines.extend(verdicts);
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Job files below a directory.
fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "fio") {
            paths.push(path);
        }
    }
    Ok(())
}

fn table(
    kind: &str,
    uses: BTreeMap<String, Use>,
    status: impl Fn(&str) -> (bool, Option<&'static str>),
) -> Vec<String> {
    let mut rows: Vec<(String, Use)> = uses.into_iter().collect();
    rows.sort_by(|(a, use_a), (b, use_b)| use_b.lines.cmp(&use_a.lines).then_with(|| a.cmp(b)));
    let line = |(name, used): &(String, Use)| {
        let (status, reason) = match status(name) {
            (true, _) => ("covered", ""),
            (false, Some(reason)) => ("refused", reason),
            (false, None) => ("unknown", ""),
        };
        format!("{kind}\t{name}\t{}\t{}\t{status}\t{reason}", used.lines, used.files.len())
    };
    rows.iter().map(line).collect()
}
