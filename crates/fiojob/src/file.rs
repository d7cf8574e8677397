//! Job files: from bytes to sections of `name = value` with their places. No option is interpreted here.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::{JobError, Origin};
use crate::units::substitute_keywords;
use crate::workload::Given;

/// A section as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The text between the brackets.
    pub name: String,
    /// Where the bracket stands.
    pub origin: Origin,
    /// The options in order, includes resolved.
    pub given: Vec<Given>,
}

impl Section {
    /// Whether it sets defaults instead of making a job.
    pub fn is_global(&self) -> bool {
        self.name == "global"
    }
}

/// What to say where there is no file.
const NO_FILE: &str = "found no such job file; needed: the path of a job file, or options such as --name=x --rw=read";

/// Longest line that is read; fio's limit is 8 KiB.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Includes inside includes: more is a loop or a mistake.
const MAX_INCLUDE_DEPTH: usize = 16;

/// Reads a job file, or standard input for `-`. Lines that are not those of a job file go to `problems`, each with its place: text
/// that is none, include loops.
///
/// # Errors
/// The file cannot be read.
pub fn read_sections(path: &Path, problems: &mut Vec<JobError>) -> Result<Vec<Section>, JobError> {
    let text = read(path)?;
    let mut reader = Reader {
        sections: Vec::new(),
        including: vec![path.to_path_buf()],
        expand: true,
        problems: Vec::new(),
        lost: false,
    };
    reader.lines(&text, path, None);
    problems.append(&mut reader.problems);
    Ok(reader.sections)
}

/// Every option of a job file as it is written, without the environment put in: what surveys count.
///
/// # Errors
/// As [`read_sections`].
pub fn written_options(path: &Path) -> Result<Vec<Given>, JobError> {
    let text = read(path)?;
    let mut reader = Reader {
        sections: Vec::new(),
        including: vec![path.to_path_buf()],
        expand: false,
        problems: Vec::new(),
        lost: false,
    };
    reader.lines(&text, path, None);
    if let Some(error) = JobError::all(reader.problems) {
        return Err(error);
    }
    Ok(reader.sections.into_iter().flat_map(|section| section.given).collect())
}

fn read(path: &Path) -> Result<Vec<u8>, JobError> {
    if path == Path::new("-") {
        let mut text = Vec::new();
        return match std::io::stdin().lock().read_to_end(&mut text) {
            Ok(_) => Ok(text),
            Err(error) => Err(JobError::Unreadable { path: "standard input".into(), reason: error.to_string() }),
        };
    }
    if !path.exists() {
        return Err(JobError::Unreadable { path: path.to_path_buf(), reason: NO_FILE.to_owned() });
    }
    std::fs::read(path).map_err(|error| JobError::Unreadable { path: path.to_path_buf(), reason: error.to_string() })
}

struct Reader {
    sections: Vec<Section>,
    including: Vec<PathBuf>,
    /// Put the environment's and the host's values in.
    expand: bool,
    /// Lines that could not be read.
    problems: Vec<JobError>,
    /// Which section the lines belong to is not known: nothing is to be said of them.
    lost: bool,
}

impl Reader {
    /// Reads the lines of one file; `included_from` is set inside an include, where no section may start.
    fn lines(&mut self, text: &[u8], path: &Path, included_from: Option<&Origin>) {
        let file = path.display().to_string();
        for (index, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
            let origin = Origin::Line { file: file.clone(), line: u32::try_from(index + 1).unwrap_or(u32::MAX) };
            if let Err(error) = self.line(bytes, path, origin, included_from) {
                self.problems.push(error);
            }
        }
    }

    fn line(
        &mut self,
        bytes: &[u8],
        path: &Path,
        origin: Origin,
        included_from: Option<&Origin>,
    ) -> Result<(), JobError> {
        let line = strip(decode(bytes, &origin)?);
        if line.is_empty() {
            return Ok(());
        }
        if let Some(target) = include_target(line) {
            return self.include(target, path, origin);
        }
        let Some(header) = line.strip_prefix('[') else { return self.option(line, origin) };
        let name = section_name(header);
        self.lost = name.is_none();
        let Some(name) = name else {
            let reason = format!("'{line}' is not a section header; expected [NAME]");
            return Err(JobError::Syntax { origin, reason });
        };
        if let Some(includer) = included_from {
            let reason = format!("an included file may not start a section (it is included from {includer})");
            return Err(JobError::Syntax { origin, reason });
        }
        self.sections.push(Section { name: name.to_owned(), origin, given: Vec::new() });
        Ok(())
    }

    fn option(&mut self, line: &str, origin: Origin) -> Result<(), JobError> {
        if self.lost {
            return Ok(());
        }
        let given = if self.expand { split_option(line, origin)? } else { split_raw(line, origin)? };
        let Some(section) = self.sections.last_mut() else {
            self.lost = true;
            return Err(JobError::Syntax {
                origin: given.origin,
                reason: format!("option '{}' stands before the first [section]", given.name),
            });
        };
        section.given.push(given);
        Ok(())
    }

    fn include(&mut self, target: &str, from: &Path, origin: Origin) -> Result<(), JobError> {
        if self.sections.is_empty() {
            return Err(JobError::Syntax { origin, reason: "an include belongs into a section".to_owned() });
        }
        let relative = PathBuf::from(target);
        // As in fio: first as given, then relative to the including file.
        let path = if relative.exists() { relative } else { from.parent().unwrap_or(Path::new(".")).join(&relative) };
        if self.including.contains(&path) || self.including.len() >= MAX_INCLUDE_DEPTH {
            let chain: Vec<String> = self.including.iter().map(|p| p.display().to_string()).collect();
            return Err(JobError::Syntax {
                origin,
                reason: format!(
                    "include loop or more than {MAX_INCLUDE_DEPTH} levels: {} includes {}",
                    chain.join(" includes "),
                    path.display()
                ),
            });
        }
        let text = std::fs::read(&path).map_err(|error| JobError::Syntax {
            origin: origin.clone(),
            reason: format!("cannot include {}: {error}", path.display()),
        })?;
        self.including.push(path.clone());
        self.lines(&text, &path, Some(&origin));
        self.including.pop();
        Ok(())
    }
}

fn decode<'a>(bytes: &'a [u8], origin: &Origin) -> Result<&'a str, JobError> {
    if bytes.len() > MAX_LINE_BYTES {
        let reason = format!("the line has {} bytes; at most {MAX_LINE_BYTES} are read", bytes.len());
        return Err(JobError::Syntax { origin: origin.clone(), reason });
    }
    std::str::from_utf8(bytes).map_err(|error| JobError::Syntax {
        origin: origin.clone(),
        reason: format!("not UTF-8 text (byte {} of the line)", error.valid_up_to() + 1),
    })
}

/// The name of a section behind its `[`: as in fio all but the line's last character, which is taken for the bracket, so that public job
/// files with `[job]x` or `[job` are read.
fn section_name(header: &str) -> Option<&str> {
    let mut characters = header.chars();
    characters.next_back();
    Some(characters.as_str().trim()).filter(|name| !name.is_empty())
}

/// Cuts comments (`;` and `#` start one anywhere, as in fio) and blanks.
fn strip(line: &str) -> &str {
    let end = line.find([';', '#']).unwrap_or(line.len());
    line.get(..end).unwrap_or("").trim()
}

fn include_target(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("include")?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

/// Splits `name = value` or `name`, with environment and reserved words put in.
pub(crate) fn split_option(text: &str, origin: Origin) -> Result<Given, JobError> {
    let Given { name, value, origin } = split_raw(text, origin)?;
    let value = match value {
        Some(value) => Some(substitute_keywords(&expand_environment(&value, &origin)?)),
        None => None,
    };
    Ok(Given { name, value, origin })
}

fn split_raw(text: &str, origin: Origin) -> Result<Given, JobError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text.trim(), None),
    };
    if name.is_empty() {
        return Err(JobError::Syntax { origin, reason: format!("'{text}' names no option") });
    }
    Ok(Given { name: name.to_owned(), value: value.map(str::to_owned), origin })
}

/// Puts the environment's values for `${NAME}`.
fn expand_environment(value: &str, origin: &Origin) -> Result<String, JobError> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let body = from.get(2..).unwrap_or("");
        let Some((variable, after)) = body.split_once('}') else {
            return Err(JobError::Syntax {
                origin: origin.clone(),
                reason: format!("'{from}' lacks its closing brace"),
            });
        };
        // fio puts nothing where the variable is not set; that turns a forgotten variable into another job.
        let text = std::env::var(variable).map_err(|_| JobError::Syntax {
            origin: origin.clone(),
            reason: format!("environment variable {variable} is not set (or not UTF-8)"),
        })?;
        out.push_str(&text);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(path: &Path) -> Result<Vec<Section>, JobError> {
        let mut problems = Vec::new();
        let sections = read_sections(path, &mut problems)?;
        JobError::all(problems).map_or(Ok(sections), Err)
    }

    fn sections(text: &[u8]) -> Result<Vec<Section>, JobError> {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("job.fio");
        std::fs::write(&path, text).expect("write");
        read(&path)
    }

    #[test]
    fn comments_blanks_and_bare_options() {
        let text = b"; head\n# head\n\n[global]\n  bs = 4k ; four\nthread\n[job one]\nfilename=/x#y\n";
        let sections = sections(text).expect("valid");
        let flat: Vec<(&str, &str, Option<&str>)> = sections
            .iter()
            .flat_map(|s| s.given.iter().map(|g| (s.name.as_str(), g.name.as_str(), g.value.as_deref())))
            .collect();
        assert_eq!(
            flat,
            vec![("global", "bs", Some("4k")), ("global", "thread", None), ("job one", "filename", Some("/x"))]
        );
    }

    #[test]
    fn errors_tell_the_line() {
        for (text, line, word) in [
            (&b"[a]\nrw=read\n[b\n"[..], 3, "section header"),
            (b"\n\nrw=read\n", 3, "before the first"),
            (b"[a]\nbs=\xff\n", 2, "UTF-8"),
            (b"[a]\nsize=${PAGELAB_SURELY_NOT_SET}\n", 2, "not set"),
            (b"[a]\nsize=${X\n", 2, "closing brace"),
            (b"[a]\n=4k\n", 2, "names no option"),
            (b"[]\n", 1, "section header"),
            (b"[a]\ninclude /nonexistent/x.fio\n", 2, "cannot include"),
        ] {
            let error = sections(text).expect_err(word).to_string();
            assert!(error.contains(&format!("job.fio:{line}:")), "{error}");
            assert!(error.contains(word), "{error}");
        }
        let mut long = b"[a]\ndescription=".to_vec();
        long.resize(1 << 20, b'x');
        assert!(sections(&long).expect_err("long").to_string().contains("job.fio:2:"));
    }

    #[test]
    fn environment_is_put_in() {
        // PATH is set wherever tests run.
        let sections = sections(b"[a]\ndescription=a${PATH}b\n").expect("valid");
        let path = std::env::var("PATH").expect("PATH");
        assert_eq!(sections[0].given[0].value.as_deref(), Some(format!("a{path}b").as_str()));
    }

    #[test]
    fn includes_belong_to_their_section_and_loops_end() {
        let dir = tempfile::tempdir().expect("tempdir");
        let main = dir.path().join("main.fio");
        std::fs::write(&main, "[a]\nrw=read\ninclude more.fio\n[b]\nrw=write\n").expect("write");
        std::fs::write(dir.path().join("more.fio"), "bs=8k\n").expect("write");
        let sections = read(&main).expect("valid");
        assert_eq!(sections[0].given.len(), 2);
        assert!(sections[0].given[1].origin.to_string().ends_with("more.fio:1"));

        std::fs::write(dir.path().join("more.fio"), "include more.fio\n").expect("write");
        assert!(read(&main).expect_err("loop").to_string().contains("include loop"));
        std::fs::write(dir.path().join("more.fio"), "[c]\n").expect("write");
        assert!(read(&main).expect_err("section").to_string().contains("may not start a section"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_sections_or_an_error(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = sections(&text);
        }
    }
}
