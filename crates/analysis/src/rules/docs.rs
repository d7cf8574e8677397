//! `docs/rules.md`, printed from the rules themselves and from the recipe in this module's manual.

use std::fmt::Write as _;

use pagelab_vocab::causes::cause;

use super::{RULES, cause_record, error_rates};

const SOURCE: &str = include_str!("mod.rs");

/// The page: every rule with its conditions and refuters, then how to add one.
pub fn markdown() -> String {
    let mut out = String::from("# Rules\n\nWritten by `make docs`; change the sources, not this page.\n\n");
    let manual: Vec<&str> = SOURCE
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let recipe = manual.iter().position(|line| line.starts_with("# How to add")).unwrap_or(manual.len());
    let (introduction, recipe) = manual.split_at(recipe);
    for line in introduction.iter().skip(2) {
        let _ = writeln!(out, "{}", plain(line));
    }
    out.push_str(&records());
    for rule in RULES.iter() {
        let (id, about) = (rule.cause(), rule.manual());
        let _ = writeln!(out, "## `{id}`\n");
        if let Some(def) = cause(id) {
            let settings: Vec<String> = def.settings.iter().map(|key| format!("`{key}`")).collect();
            let _ = writeln!(out, "{}.\n\n{}\n", capital(def.title), def.help);
            if !settings.is_empty() {
                let _ = writeln!(out, "Settings that can bring it about: {}.\n", settings.join(", "));
            }
            let components: Vec<String> = def.components.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(
                out,
                "It claims no more than these components of the account moved: {}.\n",
                components.join(", ")
            );
        }
        let _ = writeln!(out, "Looks at {}.\n\nHolds in a comparison if all of:\n", about.looks_at);
        list(&mut out, &about.holds_if);
        out.push_str("\nRefuted by any of:\n\n");
        list(&mut out, &about.refuted_by);
        let _ = writeln!(out, "\nIn a lone recording: {}.\n", about.alone);
        if !about.fixes.is_empty() {
            out.push_str("Fixes beside putting the setting back:\n\n");
            list(&mut out, &about.fixes);
            out.push('\n');
        }
    }
    for line in recipe {
        let _ = writeln!(out, "{}", plain(line));
    }
    out
}

/// How often the words were wrong.
fn records() -> String {
    let rates = error_rates();
    if rates.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "## How often each word was wrong\n\n| word | findings | wrong | 95 % interval | where |\n|---|---:|---:|---:|---|\n",
    );
    for rate in rates {
        let [low, high] = rate.wrong_ci95_pct;
        let (word, found, wrong) = (rate.confidence.word(), rate.findings, rate.wrong);
        let _ = writeln!(out, "| `{word}` | {found} | {wrong} | {low:.1} to {high:.1} % | {} |", rate.measured);
    }
    out.push_str("\n| cause | named first | wrong |\n|---|---:|---:|\n");
    for rule in RULES.iter() {
        let cause = rule.cause();
        let record = cause_record(cause)
            .map_or_else(|| "never tried | ".to_owned(), |record| format!("{} | {}", record.named, record.wrong));
        let _ = writeln!(out, "| `{cause}` | {record} |");
    }
    out.push('\n');
    out
}

fn list(out: &mut String, items: &[String]) {
    for item in items {
        let _ = writeln!(out, "- {item}");
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A line of a Rust manual as Markdown: headings one level down, links to items as code.
fn plain(line: &str) -> String {
    let line = if line.starts_with('#') { format!("#{line}") } else { line.to_owned() };
    line.replace("[`", "`").replace("`]", "`").replace("crate::", "")
}
