//! Help and the page `docs/job-options.md`, both generated from the registry.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::Caps;
use crate::options::{Category, OPTIONS, OptionDef, option};
use crate::{engines, unsupported};

/// What an engine must be able to do for the option, in words; empty if nothing.
fn applies_to(def: &OptionDef) -> String {
    if def.needs == Caps::NONE {
        return String::new();
    }
    engines::ENGINES
        .iter()
        .filter(|engine| engine.caps.contains(def.needs))
        .map(|engine| engine.name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The help text: sentences on lines of their own, without the blanks of the source.
fn sentences(def: &OptionDef) -> String {
    def.help.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Help on one option, as `--cmdhelp=NAME` of fio prints it; `None` for an unknown name.
pub fn help(name: &str) -> Option<String> {
    let def = option(name)?;
    let mut out = String::new();
    let mut line = |key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{key:>20}: {value}");
    };
    line(def.name, sentences(def).trim());
    for alias in def.aliases {
        line("alias", alias);
    }
    line("type", def.kind);
    line("default", if def.default.is_empty() { "none" } else { def.default });
    for (index, (word, meaning)) in def.words.iter().enumerate() {
        line(if index == 0 { "valid values" } else { "" }, &format!("{word:<12} {meaning}"));
    }
    let engines = applies_to(def);
    if !engines.is_empty() {
        line("engines", &engines);
    }
    Some(out)
}

/// The whole page `docs/job-options.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Options of the job language\n\n\
         Generated from the option registry of `pagelab-fiojob`; a test holds this page to it. The language is fio's: job files with\n\
         `[global]` and sections, or `--name=x --rw=randread ...`. Options marked * are pagelab's own.\n\n\
         Sizes take k, m, g, t, p (powers of 1024; with `kb_base=1000` powers of 1000), times us, ms, s, m, h, d. In parentheses\n\
         numbers are calculated with (`(2*4k)`), and nowhere else; `${NAME}` is the environment's value; `$pagesize`, `$mb_memory` and `$ncpus` are the host's.\n\n\
         The command line is read as fio reads it: one dash or two (`-rw=read`), the value behind `=` or in the next word (`--rw read`),\n\
         names cut short where only one option begins so (`--group_report`), job files anywhere and `-` for standard input. Options\n\
         before the first `--name` are defaults of the jobs after them and of the first job file: `pagelab run --bs=16k job.fio`. A name in\n\
         `[global]` names no job. All that is wrong with a job is said at once, each with its line.\n",
    );
    engine_table(&mut out);
    for (category, defs) in by_category() {
        let _ = write!(
            out,
            "\n## {}\n\n| option | type | default | engines | what it does |\n|---|---|---|---|---|\n",
            category.title()
        );
        for def in defs {
            row(&mut out, def);
        }
    }
    refusals(&mut out);
    out
}

fn engine_table(out: &mut String) {
    out.push_str("\n## Engines\n\n| ioengine | what it does |\n|---|---|\n");
    for engine in engines::ENGINES {
        let _ = writeln!(out, "| `{}` | {} |", engine.name, cell(engine.help));
    }
}

fn row(out: &mut String, def: &OptionDef) {
    let mark = if def.extension { "*" } else { "" };
    let aliases = def.aliases.iter().fold(String::new(), |list, alias| list + ", `" + alias + "`");
    let mut help = cell(sentences(def).trim());
    if !def.words.is_empty() {
        let words: Vec<String> =
            def.words.iter().map(|(word, meaning)| format!("`{word}` {}", cell(meaning))).collect();
        let _ = write!(help, "<br>{}", words.join("<br>"));
    }
    let default = if def.default.is_empty() { String::new() } else { format!("`{}`", def.default) };
    let engines = applies_to(def);
    let engines = if engines.is_empty() { "all".to_owned() } else { engines };
    let _ = writeln!(out, "| `{}`{mark}{aliases} | {} | {default} | {engines} | {help} |", def.name, cell(def.kind));
}

fn refusals(out: &mut String) {
    out.push_str(
        "\n## Options of fio that pagelab refuses\n\n\
         A job that uses one of them is refused with file, line and this reason; nothing is ignored. With the value behind its name, which\n\
         is what fio takes when nothing is said, an option asks for nothing and is accepted.\n\n",
    );
    refusal_table(out, "options", unsupported::all());
    let names: Vec<String> = unsupported::deprecated().iter().map(|name| format!("`{name}`")).collect();
    let _ = writeln!(out, "\nTaken and passed over with a warning, as fio does: {}.", names.join(", "));
    out.push_str(
        "\nOptions that say how something is done and not what are accepted; a warning says what is done instead:\n\n",
    );
    refusal_table(out, "options", unsupported::all_instead());
    out.push_str("\n## Options of the program fio that `pagelab run` refuses\n\n");
    refusal_table(out, "options", unsupported::all_of_program());
    out.push_str("\n## Engines of fio that pagelab refuses\n\n");
    refusal_table(out, "engines", unsupported::all_engines());
}

fn refusal_table(
    out: &mut String,
    what: &str,
    refusals: impl Iterator<Item = (&'static str, &'static [&'static str])>,
) {
    let _ = writeln!(out, "| reason | {what} |\n|---|---|");
    for (reason, names) in refusals {
        let names: Vec<String> = names.iter().map(|name| format!("`{}`", cell(name))).collect();
        let _ = writeln!(out, "| {} | {} |", cell(reason), names.join(" "));
    }
}

/// Every option with the first sentence of its help, by heading, as `--cmdhelp` prints them.
pub fn overview() -> String {
    let mut out = String::new();
    for (category, defs) in by_category() {
        let _ = writeln!(out, "{}:", category.title());
        for def in defs {
            let text = sentences(def);
            let first = text.trim().split_inclusive(['.', ';']).next().unwrap_or("").trim_end_matches(['.', ';']);
            let _ = writeln!(out, "  {:<28} {first}", def.name);
        }
    }
    out
}

/// Every engine, as `--enghelp` prints them.
pub fn engine_overview() -> String {
    engines::ENGINES.iter().fold(String::new(), |mut out, engine| {
        let _ = writeln!(out, "{:<12} {}", engine.name, engine.help);
        out
    })
}

/// Help on one engine: what it does and the options that not every engine has; `None` for an unknown name.
pub fn engine_help(name: &str) -> Option<String> {
    let engine = engines::find(name)?;
    let mut out = format!("{:<28} {}\n", engine.name, engine.help);
    for def in OPTIONS.iter().filter(|def| def.needs != Caps::NONE && engine.caps.contains(def.needs)) {
        let _ = writeln!(out, "  {:<26} {}", def.name, sentences(def).trim());
    }
    Some(out)
}

/// All options by heading, in the order of headings.
fn by_category() -> BTreeMap<Category, Vec<&'static OptionDef>> {
    let mut all: BTreeMap<Category, Vec<&OptionDef>> = BTreeMap::new();
    for def in OPTIONS {
        all.entry(def.category).or_default().push(def);
    }
    all
}

/// Text for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_tells_default_words_and_engines() {
        let help = help("readwrite").expect("known by its alias");
        assert!(help.contains("rw:") && help.contains("randread") && help.contains("read"), "{help}");
        let hugetlb = super::help("hugetlb").expect("known");
        assert!(hugetlb.contains("engines: anon"), "{hugetlb}");
        assert!(super::help("no_such_option").is_none());
        let mmap = engine_help("mmap").expect("known");
        assert!(mmap.contains("map_granularity") && !mmap.contains("hipri"), "{mmap}");
        assert!(overview().lines().count() > OPTIONS.len() && engine_overview().contains("pvsync2"));
    }

    #[test]
    fn every_option_is_on_the_page() {
        let page = markdown();
        for def in OPTIONS {
            assert!(page.contains(&format!("| `{}`", def.name)), "{}", def.name);
        }
    }
}
