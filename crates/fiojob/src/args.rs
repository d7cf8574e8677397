//! fio's command-line form: `--name=job --rw=read --bs=4k ...`, with job files between.
//!
//! fio reads its arguments with `getopt_long_only(3)`, and so does this. One dash is as good as two (`-rw=read`). An
//! option that needs a value may have it in the next argument (`--rw read`). A name may be abbreviated while it is
//! unique (`--group_report`). Job files may stand anywhere. Options before the first `--name`, or after
//! `--name=global`, are defaults for the jobs of the command line and for the first job file, which is how a file is
//! varied (`--bs=16k job.fio`).

use crate::error::{JobError, Origin};
use crate::file::{Section, split_option};
use crate::options::{self, OPTIONS};
use crate::resolve::{Resolver, Units};
use crate::unsupported;
use crate::workload::Given;

/// Reads arguments into the resolver, which collects the mistakes.
pub fn read(arguments: &[String], resolver: &mut Resolver) {
    let mut sections: Vec<Section> = Vec::new();
    let mut files = Vec::new();
    let mut rest = arguments.iter().enumerate().peekable();
    while let Some((index, argument)) = rest.next() {
        let origin = Origin::Argument { index: u32::try_from(index + 1).unwrap_or(u32::MAX) };
        let Some(text) = option_text(argument) else {
            if argument.starts_with('-') && argument != "-" {
                let reason = format!("'{argument}' is neither --option nor a job file");
                resolver.problem(JobError::Syntax { origin, reason });
            } else {
                files.push(argument);
            }
            continue;
        };
        let given = match split_option(text, origin.clone()) {
            Ok(given) => Given { name: whole_name(&given.name), ..given },
            Err(error) => {
                resolver.problem(error);
                continue;
            }
        };
        let takes = given.value.is_none() && rest.peek().is_some_and(|(_, next)| takes_next(&given.name, next));
        let given = match rest.next_if(|_| takes) {
            Some((_, value)) => split_option(&format!("{}={value}", given.name), origin.clone()),
            None => Ok(given),
        };
        if let Err(error) = given.and_then(|given| place(given, &mut sections, &origin)) {
            resolver.problem(error);
        }
    }
    if !sections.is_empty() {
        resolver.command_line(sections, !files.is_empty(), Units::Onwards);
    }
    for file in files {
        resolver.file(file.as_ref());
    }
}

/// The text behind the dashes of an option; `None` for job files, and for arguments that are neither.
pub fn option_text(argument: &str) -> Option<&str> {
    if let Some(text) = argument.strip_prefix("--") {
        return Some(text);
    }
    let text = argument.strip_prefix('-')?;
    // One letter is a short option, of which jobs have none; a number is a value.
    let name = text.split('=').next().unwrap_or(text);
    (name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic())).then_some(text)
}

/// Whether the next argument is the value of an option that stands without one. Flags take only what can be nothing else.
fn takes_next(name: &str, next: &str) -> bool {
    match options::option(name) {
        Some(def) if def.flag && def.kind == "bool" => next == "0" || next == "1",
        Some(_) => option_text(next).is_none(),
        None => unsupported::option(name).is_some() && option_text(next).is_none(),
    }
}

/// The name that a beginning of it stands for, if it begins the name of one option only.
fn whole_name(name: &str) -> String {
    let known = options::option(name).is_some() || unsupported::option(name).is_some();
    // Anything that could be a typing error is left to the message about unknown options.
    if known || name.len() < 3 {
        return name.to_owned();
    }
    let mut found: Option<&str> = None;
    for def in OPTIONS {
        if !std::iter::once(&def.name).chain(def.aliases).any(|one| one.starts_with(name)) {
            continue;
        }
        if found.is_some() {
            return name.to_owned();
        }
        found = Some(def.name);
    }
    if unsupported::names().any(|other| other.starts_with(name)) {
        return name.to_owned();
    }
    found.unwrap_or(name).to_owned()
}

fn missing_value(given: Given) -> JobError {
    JobError::BadValue {
        origin: given.origin,
        name: given.name,
        value: String::new(),
        reason: "a value is needed".to_owned(),
    }
}

fn place(given: Given, sections: &mut Vec<Section>, origin: &Origin) -> Result<(), JobError> {
    if given.name == "name" {
        let Some(name) = given.value.clone().filter(|name| !name.is_empty()) else {
            return Err(missing_value(given));
        };
        let given = if name == "global" { Vec::new() } else { vec![given] };
        sections.push(Section { name, origin: origin.clone(), given });
        return Ok(());
    }
    if sections.is_empty() {
        sections.push(Section { name: "global".to_owned(), origin: origin.clone(), given: Vec::new() });
    }
    if let Some(section) = sections.last_mut() {
        section.given.push(given);
    }
    Ok(())
}
