//! `docs/settings.md`, written from the registry.

use std::fmt::Write;

use super::{Companions, Form, Impact, Reading, Scope, SettingDef, TABLES, TOPICS};

const INTRO: &str = "\
# Settings

Generated from the registry in `crates/vocab/src/settings`; change it there and run `make docs`.

Recordings, plans, `doctor`, `compare` and `bisect` use one vocabulary of keys. `<size>` is written `64K`, `2M`, `1G`;
`<node>` is `node0`; in `sysctl.*` a dot separates folders and a slash stands for a dot in a folder's name, as in
sysctl(8). A value in brackets (`always [madvise] never`) is recorded as the chosen word. White space inside a value
is one space. A value that could not be read is null and carries the reason.

The column **set by** says what a plan can do with a key:

- *guard*: it is written on the host, journalled before the change and put back afterwards, whatever happens;
- *guard, allowed*: the same, but the key is known to the kernel alone, so a plan's word is not enough: whoever runs it
  has to name the key, `--allow-setting sysctl.kernel.NAME`;
- *process*: it is given to the started process and ends with it;
- *lab*: it is decided at boot; plans that run in the lab's VM (`[lab]`, docs/plans.md) boot it so;
- *-*: it is recorded only.

**Impact** and topics rank a difference against a symptom: `high` is a known cause of regressions, `none` has no known
path to speed. *State* is a reading of the present rather than a decision, evidence but no cause; *volatile* differs
between any two runs and is left out of comparisons; *masked* is recorded as a digest of 16 bits, enough to see a
difference, too little to find the value. *Same as* names the key at which the same decision shows at run time.
*Also restores* names what the kernel changes along with a write; the guard puts that back as well.

";

/// The whole text of `docs/settings.md`.
pub fn markdown() -> String {
    let mut out = String::from(INTRO);
    out.push_str("## Topics\n\n| topic | what it covers |\n|---|---|\n");
    for (topic, meaning) in TOPICS {
        let _ = writeln!(out, "| {topic} | {meaning} |");
    }
    let mut namespace = "";
    for def in TABLES.iter().flat_map(|table| table.iter()) {
        let space = def.pattern.split('.').next().unwrap_or(def.pattern);
        if space != namespace {
            namespace = space;
            let _ = write!(
                out,
                "\n## `{space}.*`\n\n| key | set by | impact | topics | what it does | source |\n|---|---|---|---|---|---|\n"
            );
        }
        row(&mut out, def);
    }
    out
}

fn row(out: &mut String, def: &SettingDef) {
    let set_by = match def.scope {
        Scope::Host if def.catch_all => "guard, allowed",
        Scope::Host => "guard",
        Scope::Process => "process",
        Scope::Boot => "lab",
        Scope::ReadOnly => "-",
    };
    let impact = match def.impact {
        Impact::Nil => "none",
        Impact::Low => "low",
        Impact::Some => "some",
        Impact::High => "high",
    };
    let source = cell(def.source);
    let source = if def.source.starts_with('/') && !def.source.contains(' ') { format!("`{source}`") } else { source };
    let _ = writeln!(
        out,
        "| `{}` | {set_by} | {impact} | {} | {}{} | {source} |",
        cell(def.pattern),
        def.topics.join(" "),
        cell(def.help),
        cell(&notes(def)),
    );
}

fn notes(def: &SettingDef) -> String {
    let mut notes = String::new();
    if def.volatile {
        notes.push_str(" *Volatile.*");
    }
    if def.state {
        notes.push_str(" *State.*");
    }
    match def.reading {
        Reading::Masked => notes.push_str(" *Masked.*"),
        Reading::Never => notes.push_str(" *Never read.*"),
        Reading::Plain => {}
    }
    if def.form == Form::Pool {
        notes.push_str(" *Without surplus pages.*");
    }
    if let Some(from) = def.derived_from {
        let unless = if def.writable() { " *unless set*" } else { "" };
        let _ = write!(notes, " *Computed from* `{from}`{unless}.");
    }
    for twin in def.twins {
        let when = twin.when.map(|value| format!("`{value}`: ")).unwrap_or_default();
        let value = twin.value.map(|value| format!(" = `{value}`")).unwrap_or_default();
        let _ = write!(notes, " *Same as* {when}`{}`{value}.", twin.key);
    }
    match def.companions {
        Companions::Alone => {}
        Companions::Rewritten(keys) | Companions::Exclusive(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            let _ = write!(notes, " *Also restores* {}.", keys.join(", "));
        }
    }
    notes
}

/// A pipe would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
