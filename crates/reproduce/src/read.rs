//! From the text of reproduce.toml to a [`Recipe`], every mistake reported with its line.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use pagelab_experiment::PlanError;
use pagelab_experiment::document::{Item, Table, with_document};
use pagelab_vocab::nearest::hint_for;

use crate::error::ReproduceError;
use crate::pointer::Pointer;
use crate::published::Published;
use crate::recipe::{Expectation, Figure, Join, REPRODUCE_TOML, Recipe, Source, Step, Work};
use crate::value::Value;
use crate::view::{View, with_views};

const STEP_KEYS: &[&str] = &["name", "plan", "command", "stdout", "makes", "exit", "timeout"];
const FIGURE_KEYS: &[&str] = &[
    "id",
    "what",
    "unit",
    "published",
    "recording",
    "query",
    "over",
    "against",
    "document",
    "pointer",
    "interval",
    "count",
    "note",
    "emulated",
    "digits",
    "at_least",
    "at_most",
    "equals",
    "within_pct",
    "excludes",
];

/// Significant digits shown if the figure does not say.
const DIGITS: u64 = 4;

/// Reads the recipe of the experiment in `dir`.
pub(crate) fn recipe(dir: &Path) -> Result<Recipe, ReproduceError> {
    let file = dir.join(REPRODUCE_TOML);
    let text = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            ReproduceError::NoRecipe { dir: dir.to_owned() }
        }
        _ => ReproduceError::io("read", &file)(error),
    })?;
    let absolute = dir.canonicalize().map_err(ReproduceError::io("resolve", dir))?;
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let published = Published::load(dir)?;
    let recipe = with_document(&file, &text, |top| {
        top.only(&["title", "summary", "view", "step", "figure"])?;
        let views = views(top)?;
        Ok(Recipe {
            title: words_of(top, "title", "what it is about: title = \"...\"")?,
            summary: words_of(top, "summary", "a sentence for the index: summary = \"...\"")?,
            steps: list(top, "step", "something to do: [[step]] with name and plan or command", step)?,
            figures: list(top, "figure", "what comes out: [[figure]] with id, what and query or pointer", |table| {
                figure(table, &views)
            })?,
            dir: absolute.clone(),
            name: name.clone(),
            published: published.clone(),
        })
    })?;
    for figure in &recipe.figures {
        if let Some(key) = figure.published.as_deref().filter(|key| recipe.published.get(key).is_none()) {
            return Err(recipe.published.missing(figure.at.clone(), key));
        }
    }
    Ok(recipe)
}

/// The tables of a list, each with a name of its own.
fn list<T: Named>(
    top: &Table<'_>,
    key: &str,
    needed: &str,
    read: impl Fn(&Table<'_>) -> Result<T, PlanError>,
) -> Result<Vec<T>, PlanError> {
    let Some(item) = top.get(key) else { return Err(missing(top, &format!("[[{key}]]"), needed)) };
    let mut names = BTreeSet::new();
    let mut out = Vec::new();
    for table in item.tables()? {
        let one = read(&table)?;
        if !names.insert(one.name().to_owned()) {
            let named = table.get(T::KEY).map(|item| item.wrong("a name of its own; another one has this"));
            return Err(named.unwrap_or_else(|| missing(&table, T::KEY, "a name of its own")));
        }
        out.push(one);
    }
    Ok(out)
}

trait Named {
    const KEY: &'static str;
    fn name(&self) -> &str;
}

impl Named for Step {
    const KEY: &'static str = "name";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Figure {
    const KEY: &'static str = "id";
    fn name(&self) -> &str {
        &self.id
    }
}

fn missing(table: &Table<'_>, what: &str, needed: &str) -> PlanError {
    PlanError::Missing { at: table.at().clone(), what: format!("`{what}`"), needed: needed.to_owned() }
}

fn words_of(table: &Table<'_>, key: &str, needed: &str) -> Result<String, PlanError> {
    table.get(key).map_or_else(|| Err(missing(table, key, needed)), |item| item.words())
}

/// A name that is also part of a file's name.
fn name_of(table: &Table<'_>, key: &str) -> Result<String, PlanError> {
    let Some(item) = table.get(key) else {
        return Err(missing(table, key, &format!("a name: {key} = \"...\"")));
    };
    let name = item.words()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.chars().all(plain) { Ok(name) } else { Err(item.wrong("a name of letters, digits, - and _")) }
}

/// A path that stays within what is kept.
fn inside(item: &Item<'_>) -> Result<String, PlanError> {
    let path = item.words()?;
    is_inside(&path)
        .then_some(path)
        .ok_or_else(|| item.wrong("a path within what is kept, without `..` or a leading /"))
}

fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn step(table: &Table<'_>) -> Result<Step, PlanError> {
    table.only(STEP_KEYS)?;
    let name = name_of(table, "name")?;
    let work = match (table.get("plan"), table.get("command")) {
        (Some(_), Some(command)) => return Err(command.wrong("either plan or command, not both in one step")),
        (None, None) => return Err(missing(table, "plan", "plan = \"plan.toml\" or command = [\"pagelab\", ...]")),
        (Some(plan), None) => {
            let only_commands = ["stdout", "makes", "exit", "timeout"];
            if let Some(item) = only_commands.iter().find_map(|key| table.get(key)) {
                return Err(item.wrong("nothing: it is for steps with a command; the plan has its own `timeout`"));
            }
            Work::Plan(plan.words()?.into())
        }
        (None, Some(command)) => self::command(table, &command)?,
    };
    Ok(Step { name, work })
}

fn command(table: &Table<'_>, command: &Item<'_>) -> Result<Work, PlanError> {
    let mut words = command.texts()?;
    if !command.is_list() || words.first().map(String::as_str) != Some("pagelab") || words.len() < 2 {
        return Err(
            command.wrong("a list that begins with \"pagelab\": [\"pagelab\", \"hugepages\", \"list\", \"--json\"]")
        );
    }
    words.remove(0);
    let makes = match table.get("makes") {
        None => Vec::new(),
        Some(item) => {
            let paths = item.texts()?;
            if paths.is_empty() || !paths.iter().all(|path| is_inside(path)) {
                return Err(item.wrong("paths within what is kept, without `..` or a leading /"));
            }
            paths
        }
    };
    let stdout = table.get("stdout").map(|item| inside(&item)).transpose()?;
    if makes.is_empty() && stdout.is_none() {
        return Err(missing(table, "stdout", "what the command leaves: stdout = \"FILE\" or makes = [\"FILE\"]"));
    }
    let exit = match table.get("exit") {
        None => vec![0],
        Some(item) => item.numbers(0, 255)?.into_iter().map(|status| status as i32).collect(),
    };
    let timeout = table.get("timeout").map(|item| item.duration()).transpose()?;
    Ok(Work::Command { words, stdout, makes, exit, timeout })
}

/// Queries by name, in the order of the file.
fn views(top: &Table<'_>) -> Result<Vec<View>, PlanError> {
    let Some(item) = top.get("view") else { return Ok(Vec::new()) };
    let table = item.table()?;
    let view = |item: Item<'_>| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !item.key.chars().all(plain) {
            return Err(item.wrong("a name of letters, digits and _: it stands in queries like a table"));
        }
        Ok(View { query: item.words()?, name: item.key })
    };
    table.items().into_iter().map(view).collect()
}

fn figure(table: &Table<'_>, views: &[View]) -> Result<Figure, PlanError> {
    table.only(FIGURE_KEYS)?;
    let words = |key: &str| table.get(key).map(|item| item.words()).transpose();
    let id = name_of(table, "id")?;
    let source = match (table.get("recording"), table.get("document")) {
        (Some(recording), None) => recordings(table, &recording, views)?,
        (None, Some(document)) => self::document(table, &document)?,
        (Some(_), Some(document)) => {
            return Err(document.wrong("either recording or document, not both in one figure"));
        }
        (None, None) => {
            return Err(missing(
                table,
                "recording",
                "recording = \"NAME.set/...\" with query, or document with pointer",
            ));
        }
    };
    let published = words("published")?;
    let expected = expectations(table, published.is_some())?;
    Ok(Figure {
        id,
        what: words_of(table, "what", "the words of the table: what = \"...\"")?,
        unit: words("unit")?,
        published,
        source,
        note: words("note")?,
        emulated: table.get("emulated").map_or(Ok(false), |item| item.truth())?,
        digits: table.get("digits").map_or(Ok(DIGITS), |item| item.number(1, 17))? as usize,
        expected,
        at: table.at().clone(),
    })
}

/// Refuses keys that belong to the other kind of source.
fn refuse(table: &Table<'_>, keys: &[&str], belongs: &str) -> Result<(), PlanError> {
    match keys.iter().find_map(|key| table.get(key)) {
        Some(item) => Err(item.wrong(format!("nothing: it belongs to `{belongs}`"))),
        None => Ok(()),
    }
}

fn recordings(table: &Table<'_>, recording: &Item<'_>, views: &[View]) -> Result<Source, PlanError> {
    refuse(table, &["pointer", "interval", "count"], "document")?;
    let join = match (over(table)?, table.get("against")) {
        (Some(_), Some(against)) => return Err(against.wrong("either over or against, not both in one figure")),
        (None, Some(against)) => Some(Join::Against(inside(&against)?)),
        (over, None) => over,
    };
    let query = words_of(table, "query", "SQL that gives one value: query = \"SELECT ...\"")?;
    Ok(Source::Recordings { recording: inside(recording)?, query: with_views(&query, views), join })
}

fn document(table: &Table<'_>, document: &Item<'_>) -> Result<Source, PlanError> {
    refuse(table, &["query", "against"], "recording")?;
    let Some(pointer) = table.get("pointer") else {
        return Err(missing(table, "pointer", "which value of the document: pointer = \"/primary/ratio\""));
    };
    let join = match (over(table)?, table.get("count")) {
        (Some(_), Some(count)) => return Err(count.wrong("either over or count, not both in one figure")),
        (None, Some(count)) => Some(Join::Count(count.words()?)),
        (Some(Join::Together), None) => {
            return Err(missing(table, "recording", "over = \"together\" is for recordings"));
        }
        (over, None) => over,
    };
    let checked = |item: &Item<'_>| -> Result<String, PlanError> {
        let text = item.words()?;
        Pointer::parse(&text).map_err(|needed| item.wrong(needed))?;
        Ok(text)
    };
    let pointers = pointer.texts()?;
    if let Some(needed) = pointers.iter().find_map(|text| Pointer::parse(text).err()) {
        return Err(pointer.wrong(needed));
    }
    if pointers.is_empty() || (pointers.len() > 1 && join.is_none()) {
        return Err(pointer.wrong("one pointer, or several with over = \"list\" or the like"));
    }
    Ok(Source::Document {
        document: inside(document)?,
        pointers,
        interval: table.get("interval").map(|item| checked(&item)).transpose()?,
        join,
    })
}

fn over(table: &Table<'_>) -> Result<Option<Join>, PlanError> {
    let Some(item) = table.get("over") else { return Ok(None) };
    let word = item.text()?;
    if let Some((_, join)) = Join::WORDS.iter().find(|(known, _)| *known == word) {
        return Ok(Some(join.clone()));
    }
    let known: Vec<&str> = Join::WORDS.iter().map(|(word, _)| *word).collect();
    let near = hint_for(&word, known.iter().copied());
    Err(item.wrong(format!("one of {}{}", known.join(", "), near)))
}

fn expectations(table: &Table<'_>, published: bool) -> Result<Vec<Expectation>, PlanError> {
    let float = |key: &str| table.get(key).map(|item| item.float()).transpose();
    let mut out = Vec::new();
    out.extend(float("at_least")?.map(Expectation::AtLeast));
    out.extend(float("at_most")?.map(Expectation::AtMost));
    if let Some(item) = table.get("equals") {
        let value = if item.is_text() {
            Value::Text(item.text()?)
        } else if item.is_truth() {
            Value::Truth(item.truth()?)
        } else {
            let number = item.float().ok().and_then(Value::number);
            number.ok_or_else(|| item.wrong("a number, a text, or true or false"))?
        };
        out.push(Expectation::Equals(value));
    }
    if let Some(item) = table.get("within_pct") {
        if !published {
            return Err(item.wrong("`published` beside it: it is about the published number"));
        }
        out.push(Expectation::WithinPct(item.float()?));
    }
    out.extend(float("excludes")?.map(Expectation::Excludes));
    Ok(out)
}
