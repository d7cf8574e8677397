//! The words of `pagelab show` in the order in which clap reads them.
//!
//! People write the recording, the view and the options in any order, and leave the first two out. clap knows the options
//! of a view only behind its name, so they are put there. An option that the view does not have is refused here, with those
//! that it has: rows would be shown that were asked to be left out.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};
use pagelab_vocab::nearest::hint_for;

use super::Args;
use crate::failure::Failure;

/// The view if none is named.
const DEFAULT: &str = "summary";
/// Options that every view has; a message about the others leaves them out.
const COMMON: [&str; 6] = ["json", "from", "to", "base", "test", "help"];

/// The order in which a message lists what a view takes.
const ORDER: [&str; 12] = [
    "--pid",
    "--comm",
    "--file",
    "words",
    "--top",
    "--sort",
    "--callers",
    "--callees",
    "--group",
    "--by",
    "--name",
    "--log",
];

/// What was typed behind `show`.
#[derive(Debug, Default)]
struct Typed {
    /// Options with their values.
    options: Vec<OsString>,
    /// Names of the options that some views have.
    names: Vec<String>,
    /// All other words.
    words: Vec<OsString>,
    /// Help is asked for.
    help: bool,
    /// There is an option that no view has.
    unknown: bool,
}

/// Recording and view among the words.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    dir: Option<OsString>,
    view: OsString,
    words: Vec<OsString>,
}

/// Puts the recording first, then the view, then its options and words. Other commands are left as they are.
///
/// # Errors
/// There is no such view or recording, or the view does not have an option that was given.
pub(crate) fn view_first(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, Failure> {
    let mut words: Vec<OsString> = words.collect();
    let Some(show) = words.iter().skip(1).position(|word| !is_option(word)) else { return Ok(words) };
    if words.get(show + 1).is_none_or(|word| word != "show") {
        return Ok(words);
    }
    let command = <Args as clap::Args>::augment_args(Command::new("show"));
    let typed = Typed::read(&command, words.split_off(show + 2));
    if typed.help || typed.unknown {
        // clap answers; it needs to know whose help, or whose option.
        words.extend(typed.words.into_iter().find(|word| is_view(&command, word)));
        words.extend(typed.options);
        return Ok(words);
    }
    let Asked { dir, view, words: rest } = Asked::of(&command, &typed.words)?;
    check(&command, &view, &typed.names, &rest)?;
    words.extend(dir.map(|dir| if is_view(&command, &dir) || is_option(&dir) { beneath_here(&dir) } else { dir }));
    words.push(view);
    words.extend(typed.options);
    if rest.iter().any(|word| is_option(word)) {
        words.push("--".into());
    }
    words.extend(rest);
    Ok(words)
}

impl Typed {
    fn read(command: &Command, words: Vec<OsString>) -> Self {
        let mut typed = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                typed.words.extend(words);
                break;
            }
            if !is_option(&word) {
                typed.words.push(word);
                continue;
            }
            let text = word.to_string_lossy().into_owned();
            let (name, value_inside) = text.split_once('=').map_or((text.as_str(), false), |(name, _)| (name, true));
            typed.help |= matches!(name, "-h" | "--help");
            let found = name.strip_prefix("--").and_then(|name| option_of_any(command, name));
            typed.options.push(word);
            match found {
                Some(takes_value) => {
                    typed.names.push(name.trim_start_matches('-').to_owned());
                    if takes_value && !value_inside {
                        typed.options.extend(words.next());
                    }
                }
                None => typed.unknown |= !(typed.help || is_verbose(name)),
            }
        }
        typed
    }
}

impl Asked {
    fn of(command: &Command, words: &[OsString]) -> Result<Self, Failure> {
        let (dir, rest) = match words {
            [first, rest @ ..] if !is_view(command, first) || is_recording(Path::new(first)) => {
                let is_there = Path::new(first).exists();
                if let (false, true, Some(word)) = (is_there, rest.is_empty(), first.to_str()) {
                    // A slip in the name of a view, or of a recording.
                    return Err(neither(command, word));
                }
                (Some(first.clone()), rest)
            }
            all => (None, all),
        };
        let (view, rest) = match rest {
            [view, rest @ ..] => (view.clone(), rest),
            [] => (OsString::from(DEFAULT), rest),
        };
        if !is_view(command, &view) {
            return Err(no_view(command, &view.to_string_lossy()));
        }
        Ok(Self { dir, view, words: rest.to_vec() })
    }
}

fn is_option(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.starts_with(b"-") && bytes != b"-"
}

/// The option that every command has.
fn is_verbose(name: &str) -> bool {
    name == "--verbose" || name.strip_prefix('-').is_some_and(|flags| flags.chars().all(|flag| flag == 'v'))
}

fn is_view(command: &Command, word: &OsStr) -> bool {
    command.find_subcommand(word).is_some()
}

fn is_recording(dir: &Path) -> bool {
    dir.join("manifest.json").is_file()
}

/// A directory in the current one whose name clap would take for something else.
fn beneath_here(dir: &OsStr) -> OsString {
    Path::new(".").join(dir).into_os_string()
}

/// Whether the option of this name takes a value, of whatever view it is; `None` if no view has it.
fn option_of_any(command: &Command, name: &str) -> Option<bool> {
    let mut options = command.get_subcommands().flat_map(Command::get_arguments);
    options.find(|arg| arg.get_long() == Some(name)).map(|arg| arg.get_action().takes_values())
}

/// An option that the view does not have, or words where it has none.
fn check(command: &Command, view: &OsStr, names: &[String], words: &[OsString]) -> Result<(), Failure> {
    let Some(of_view) = command.find_subcommand(view) else { return Ok(()) };
    let has = |name: &str| COMMON.contains(&name) || of_view.get_arguments().any(|arg| arg.get_long() == Some(name));
    let has_words = of_view.get_positionals().next().is_some();
    let place = |name: &String| ORDER.iter().position(|known| known == name);
    let options = names.iter().filter(|name| !has(name)).map(|name| format!("--{name}"));
    let superfluous = (!words.is_empty() && !has_words).then(|| "words".to_owned());
    let Some(wrong) = options.chain(superfluous).min_by_key(place) else { return Ok(()) };
    let name_of = |arg: &Arg| match arg.get_long() {
        Some(name) if COMMON.contains(&name) => None,
        Some(name) => Some(format!("--{name}")),
        None => Some("words".to_owned()),
    };
    let mut takes: Vec<String> = of_view.get_arguments().filter_map(name_of).collect();
    takes.sort_by_key(place);
    let takes = if takes.is_empty() { "--json only".to_owned() } else { takes.join(" ") };
    let view = view.to_string_lossy();
    Err(Failure::input(anyhow::anyhow!("view {view} does not take {wrong}; it takes: {takes}")))
}

fn neither(command: &Command, word: &str) -> Failure {
    if !word.contains('/') && Path::new(word).extension().is_none_or(|ext| ext != "rec") {
        let failure = no_view(command, word);
        return Failure::input(anyhow::anyhow!("no recording {word:?}, {failure}"));
    }
    Failure::input(anyhow::anyhow!("no recording {word:?}; needed the directory given to record -o"))
}

fn no_view(command: &Command, name: &str) -> Failure {
    let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let list = known.join(", ");
    let near = hint_for(name, known.iter().copied());
    Failure::input(anyhow::anyhow!("no view {name:?}{near}; views: {list}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pagelab_views::view::VIEWS;

    use super::*;

    fn command() -> Command {
        <Args as clap::Args>::augment_args(Command::new("show"))
    }

    fn arranged(line: &str) -> Result<String, Failure> {
        let words = view_first(line.split(' ').map(OsString::from))?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_view_is_a_subcommand_with_its_options() {
        let command = command();
        assert_eq!(VIEWS.len(), command.get_subcommands().count());
        for view in VIEWS {
            let found = command.find_subcommand(view.name).expect(view.name);
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            assert_eq!(about.trim_end_matches(" (the default)"), view.about, "{}", view.name);
            // `--log` prints lines while they are read, and is no document of a view.
            let own = |arg: &&Arg| !arg.get_long().is_some_and(|name| name == "log" || COMMON.contains(&name));
            let name = |arg: &Arg| arg.get_long().unwrap_or("words").to_owned();
            let options: BTreeSet<String> = found.get_arguments().filter(own).map(name).collect();
            let takes: BTreeSet<String> = view.takes.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(options, takes, "{}", view.name);
        }
    }

    #[test]
    fn the_recording_and_the_view_may_be_left_out() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("faults");
        std::fs::create_dir(&dir).expect("ours");
        let asked = |words: &[&str]| Asked::of(&command(), &words.iter().map(OsString::from).collect::<Vec<_>>());
        let dir = dir.to_str().expect("text");
        let of = |view: &str, words: &[&str]| Asked {
            dir: Some(dir.into()),
            view: view.into(),
            words: words.iter().map(OsString::from).collect(),
        };
        assert_eq!(asked(&[dir]).expect("a directory"), of("summary", &[]));
        assert_eq!(asked(&[dir, "metrics", "thp", "vm"]).expect("a directory"), of("metrics", &["thp", "vm"]));
        assert_eq!(asked(&["tasks"]).expect("a view"), Asked { dir: None, view: "tasks".into(), words: Vec::new() });
        for (word, said) in [("fauts", "did you mean 'faults'?"), ("no/such.rec", "no recording \"no/such.rec\"")] {
            let failure = asked(&[word]).expect_err("neither");
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }

    #[test]
    fn options_may_stand_anywhere() {
        for (typed, read) in [
            ("pagelab show", "pagelab show summary"),
            ("pagelab -v show --json", "pagelab -v show summary --json"),
            ("pagelab show --top 5 . faults --pid=1", "pagelab show . faults --top 5 --pid=1"),
            ("pagelab show . --from -3 metrics thp --json vm", "pagelab show . metrics --from -3 --json thp vm"),
            ("pagelab show faults -vv --file x", "pagelab show faults -vv --file x"),
            ("pagelab show . metrics -- --x", "pagelab show . metrics -- --x"),
            ("pagelab show --help", "pagelab show --help"),
            ("pagelab show --help . faults", "pagelab show faults --help"),
            ("pagelab show . faults --tpo 5", "pagelab show faults --tpo"),
            ("pagelab record -- show --json faults", "pagelab record -- show --json faults"),
        ] {
            assert_eq!(arranged(typed).expect(typed), read);
        }
    }

    #[test]
    fn what_a_view_does_not_take_is_said_with_what_it_takes() {
        for (typed, said) in [
            ("pagelab show . loss --pid 1", "view loss does not take --pid; it takes: --top --sort"),
            ("pagelab show . --log summary", "view summary does not take --log; it takes: --json only"),
            ("pagelab show . counters --top 3", "view counters does not take --top; it takes: words"),
            ("pagelab show . summary --top 1 --comm x", "view summary does not take --comm; it takes: --json only"),
            ("pagelab show . tasks sh", "view tasks does not take words; it takes: --pid --comm --top --sort"),
        ] {
            let failure = arranged(typed).expect_err(typed);
            assert_eq!((failure.to_string().as_str(), failure.status()), (said, 2));
        }
    }

    #[test]
    fn a_slip_gets_the_nearest_name() {
        for (typed, meant) in [("fauts", "faults"), ("setings", "settings"), ("sysscalls", "syscalls")] {
            let failure = arranged(&format!("pagelab show . {typed}")).expect_err(typed);
            assert!(failure.to_string().contains(&format!("did you mean '{meant}'?")), "{failure}");
            assert_eq!(failure.status(), 2);
        }
        let failure = arranged("pagelab show . xyzzy").expect_err("no view");
        assert!(!failure.to_string().contains("did you mean"), "{failure}");
    }
}
