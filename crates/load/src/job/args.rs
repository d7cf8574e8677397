//! fio's command-line form: `--name=job --rw=read --bs=4k ...`, with job files between.

use super::Given;
use super::file::{Section, split_option};
use super::registry;
use super::resolve::{Resolver, Units};
use crate::error::{JobError, Origin};

/// Reads arguments into the resolver. Options before the first `--name=` are defaults, as is `--name=global`.
///
/// # Errors
/// The first mistake found, with the number of the argument.
pub fn read(arguments: &[String], resolver: &mut Resolver) -> Result<(), JobError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut files = Vec::new();
    let mut rest = arguments.iter().enumerate().peekable();
    while let Some((index, argument)) = rest.next() {
        let origin = Origin::Argument { index: u32::try_from(index + 1).unwrap_or(u32::MAX) };
        let Some(text) = argument.strip_prefix("--") else {
            if argument.starts_with('-') {
                return Err(JobError::Syntax {
                    origin,
                    reason: format!("'{argument}' is neither --option nor a job file"),
                });
            }
            files.push(argument);
            continue;
        };
        let mut given = split_option(text, origin.clone())?;
        // `--bs 4k`: an option that needs a value takes the next argument. Flags never do.
        if given.value.is_none() && registry::option(&given.name).is_some_and(|def| !def.flag) {
            match rest.next_if(|(_, next)| !next.starts_with("--")) {
                Some((_, value)) => given = split_option(&format!("{}={value}", given.name), origin.clone())?,
                None => return Err(missing_value(given)),
            }
        }
        place(given, &mut sections, &origin)?;
    }
    if !sections.is_empty() {
        resolver.sections("command line", sections, Units::Onwards)?;
    }
    for file in files {
        resolver.file(file.as_ref())?;
    }
    Ok(())
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
