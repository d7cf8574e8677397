//! Every command of pagelab that a text names exists: in messages, fixes of rules, help and documentation.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use crate::Cli;

/// Files and folders below the workspace whose texts users read.
const TEXTS: [&str; 6] = ["crates", "docs", "README.md", "experiments", "deploy", "fleet"];
/// Words in front of a command in prose. Behind others `pagelab` may be a noun: "a pagelab that was killed".
const BEFORE: [&str; 9] = ["`", "\"", "type: ", "try: ", "with: ", "sudo ", "; ", ": ", "    "];

/// Verbs and the like behind pagelab's name in prose.
const PROSE: [&str; 13] =
    ["and", "did", "does", "ended", "finds", "gave", "has", "is", "records", "runs", "shows", "speaks", "version"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if path.is_dir() {
        let skipped = ["target", "node_modules", "tests", "shown"].contains(&name.as_str());
        for entry in fs::read_dir(path).into_iter().flatten().flatten().filter(|_| !skipped) {
            files(&entry.path(), found);
        }
    } else if [".rs", ".md", ".toml", ".service"].iter().any(|ending| name.ends_with(ending)) {
        found.push(path.to_owned());
    }
}

/// What a program prints, or a page says: not comments, nor what tests hold.
fn shown_lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("source is text");
    let is_code = path.extension().is_some_and(|extension| extension == "rs");
    let text = if is_code { text.split("#[cfg(test)]").next().unwrap_or_default() } else { &text };
    // A string that goes on behind a backslash is one line.
    let joined = text.split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("");
    let is_shown =
        |line: &&str| !is_code || !line.trim_start().starts_with("//") || line.trim_start().starts_with("///");
    joined.lines().filter(is_shown).map(str::to_owned).collect()
}

/// The words of each command of pagelab in a line, and whether it stands where only a command can stand.
fn commands(line: &str) -> Vec<(Vec<String>, bool)> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("pagelab ") {
        let before = &line[..at];
        let is_command = BEFORE.iter().any(|begin| before.ends_with(begin)) || before.is_empty();
        let text = line[at + "pagelab ".len()..].replace("\\\"", "'").replace("\\n", "\n");
        let end = text.find(['`', '"', ';', ')', '\n', '|', '&', '<', '#', '>', '…']).unwrap_or(text.len());
        let mut words: Vec<String> = Vec::new();
        for word in text[..end].split_whitespace() {
            let bare = word.trim_end_matches([',', '.', ':', '\'', ']']).trim_start_matches(['[', '\'']);
            words.push(bare.to_owned());
            // Prose goes on behind a comma or a full stop.
            if bare.len() < word.len() && !word.ends_with("...") && !word.ends_with(']') {
                break;
            }
        }
        found.push((words, is_command));
    }
    found
}

/// What is wrong with a command; none if it is one.
fn wrong(root: &clap::Command, words: &[String], is_command: bool) -> Option<String> {
    let first = words.first().filter(|first| !first.is_empty())?;
    let is_word = first.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') && !first.starts_with('-');
    let Some(mut command) = root.find_subcommand(first).filter(|_| is_word) else {
        let is_prose = !is_command || !is_word || PROSE.contains(&first.as_str());
        return (!is_prose).then(|| format!("there is no command {first:?}"));
    };
    // Its options are fio's.
    if first == "run" {
        return None;
    }
    for word in &words[1..] {
        if word == "--" || word == "..." {
            break;
        }
        if let Some(nested) = command.find_subcommand(word) {
            command = nested;
            continue;
        }
        let name = word.split('=').next().unwrap_or_default();
        if let Some(long) = name.strip_prefix("--") {
            let is_option = long.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') && !long.is_empty();
            let has = |command: &clap::Command| command.get_arguments().any(|arg| arg.get_long() == Some(long));
            // Options of a view may stand before its name.
            let is_known = has(command) || command.get_subcommands().any(has) || has(root);
            if is_option && !is_known && long != "help" && long != "version" {
                return Some(format!("{} has no option --{long}", command.get_name()));
            }
        }
    }
    None
}

/// Lines that name what pagelab does not have on purpose, by a part of them.
const NOT_OURS: &[&str] = &[
    // An option of pagelab-fleet, which `pagelab fleet` starts.
    "--cluster",
];

#[test]
fn every_command_that_a_text_names_exists() {
    let mut root = Cli::command();
    root.build();
    let (mut paths, mut mistakes, mut checked) = (Vec::new(), Vec::new(), 0);
    for text in &TEXTS {
        files(&workspace().join(text), &mut paths);
    }
    for path in paths {
        for line in shown_lines(&path) {
            if NOT_OURS.iter().any(|part| line.contains(part)) {
                continue;
            }
            for (words, is_command) in commands(&line) {
                checked += 1;
                if let Some(why) = wrong(&root, &words, is_command) {
                    mistakes.push(format!("{}: {why}: pagelab {}", path.display(), words.join(" ")));
                }
            }
        }
    }
    assert!(checked > 300, "only {checked} commands were found");
    assert!(mistakes.is_empty(), "{} of {checked}:\n{}", mistakes.len(), mistakes.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let mut root = Cli::command();
    root.build();
    let mistake = |line: &str| {
        let (words, is_command) = commands(line).remove(0);
        wrong(&root, &words, is_command)
    };
    for line in [
        "see `pagelab sql \"SELECT 1\" out`",
        "type: pagelab hugepages set 2M 5 --forever; then go on",
        "    sudo pagelab show DIR io --nonsense=3",
        "try: pagelab doktor FILE",
    ] {
        assert!(mistake(line).is_some(), "{line}");
    }
    for line in ["a killed pagelab left it", "type: pagelab show DIR io --top 3", "`pagelab record -- ls --nonsense`"] {
        assert_eq!(mistake(line), None, "{line}");
    }
}
