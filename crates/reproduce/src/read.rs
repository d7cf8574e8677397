//! From the text of reproduce.toml to a [`Recipe`], every mistake reported with its line.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Component, Path};

use pagelab_experiment::document::{Document, Finite, InOrder, Period, Texts, Whole, Words};
use pagelab_experiment::{PlanError, checked};
use pagelab_vocab::nearest::hint_for;
use serde::Deserialize;
use toml::Spanned;

use crate::error::ReproduceError;
use crate::pointer::Pointer;
use crate::published::Published;
use crate::recipe::{Expectation, Figure, Join, REPRODUCE_TOML, Recipe, Source, Step, Work};
use crate::value::Value;
use crate::view::{View, with_views};

/// Significant digits shown if the figure does not say.
const DIGITS: u64 = 4;

/// What may stand in a recipe; messages name the keys of each table in these orders.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeText {
    title: Option<Words>,
    summary: Option<Words>,
    view: Option<InOrder<Words>>,
    step: Option<Vec<Spanned<StepText>>>,
    figure: Option<Vec<Spanned<FigureText>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct StepText {
    name: Option<Spanned<Name>>,
    plan: Option<Words>,
    command: Option<Spanned<PagelabCommand>>,
    stdout: Option<Spanned<Inside>>,
    makes: Option<Spanned<AllInside>>,
    exit: Option<Spanned<ExitStatuses>>,
    timeout: Option<Spanned<Period>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct FigureText {
    id: Option<Spanned<Name>>,
    what: Option<Words>,
    unit: Option<Words>,
    published: Option<Words>,
    recording: Option<Inside>,
    query: Option<Spanned<Words>>,
    over: Option<Over>,
    against: Option<Spanned<Inside>>,
    document: Option<Spanned<Inside>>,
    pointer: Option<Spanned<Pointers>>,
    interval: Option<Spanned<OnePointer>>,
    count: Option<Spanned<Words>>,
    note: Option<Words>,
    emulated: Option<bool>,
    digits: Option<Whole<1, 17>>,
    at_least: Option<Finite>,
    at_most: Option<Finite>,
    equals: Option<Equals>,
    within_pct: Option<Spanned<Finite>>,
    excludes: Option<Finite>,
}

checked! {
    /// A name that is also part of a file's name.
    struct Name(String) from Words: |Words(name)| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.chars().all(is_plain) { Ok(name) } else { Err("a name of letters, digits, - and _") }
    }
}

checked! {
    /// A path that stays within what is kept.
    struct Inside(String) from Words: |Words(path)| {
        if is_inside(&path) { Ok(path) } else { Err("a path within what is kept, without `..` or a leading /") }
    }
}

checked! {
    /// Paths that stay within what is kept.
    struct AllInside(Vec<String>) from Texts: |texts| {
        let paths = texts.into_vec();
        if paths.is_empty() || !paths.iter().all(|path| is_inside(path)) {
            return Err("paths within what is kept, without `..` or a leading /");
        }
        Ok(paths)
    }
}

fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

checked! {
    /// The words of a command behind `pagelab`.
    struct PagelabCommand(Vec<String>) from Texts: |texts| {
        match texts {
            Texts::List(words) if words.len() > 1 && words[0] == "pagelab" => {
                Ok(words.into_iter().skip(1).collect())
            }
            _ => Err("a list that begins with \"pagelab\": [\"pagelab\", \"hugepages\", \"list\", \"--json\"]"),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a list of whole numbers from 0 to 255: [0]")]
enum Bytes {
    List(Vec<u8>),
}

checked! {
    /// Exit statuses that are no failure.
    struct ExitStatuses(Vec<i32>) from Bytes: |Bytes::List(list)| {
        if list.is_empty() {
            return Err("a list of whole numbers from 0 to 255: [0]");
        }
        Ok(list.into_iter().map(i32::from).collect())
    }
}

checked! {
    /// How several values become one.
    struct Over(Join) from String: |word| {
        let Some((_, join)) = Join::WORDS.into_iter().find(|(known, _)| *known == word) else {
            let known = Join::WORDS.map(|(word, _)| word);
            return Err(format!("one of {}{}", known.join(", "), hint_for(&word, known)));
        };
        Ok(join)
    }
}

checked! {
    /// Pointers that are right as written.
    struct Pointers(Vec<String>) from Texts: |texts| {
        let pointers = texts.into_vec();
        match pointers.iter().find_map(|pointer| Pointer::parse(pointer).err()) {
            None => Ok(pointers),
            Some(needed) => Err(needed),
        }
    }
}

checked! {
    /// A pointer that is right as written.
    struct OnePointer(String) from Words: |Words(pointer)| {
        Pointer::parse(&pointer).map(|_| pointer)
    }
}

checked! {
    /// What a figure is to be equal to. Numbers are those of [`Value::number`]: 2.0 is 2.
    struct Equals(Value) from Value: |value| {
        let value = match value {
            Value::Number(number) => Value::number(number),
            other => Some(other),
        };
        value.ok_or("a number, a text, or true or false")
    }
}

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
    let reader = Reader { document: Document::parse(&file, &text)? };
    let text: RecipeText = reader.document.read()?;
    let views = reader.views(text.view)?;
    let recipe = Recipe {
        title: reader.words(text.title, &TOP, "title", "what it is about: title = \"...\"")?,
        summary: reader.words(text.summary, &TOP, "summary", "a sentence for the index: summary = \"...\"")?,
        steps: reader.steps(text.step)?,
        figures: reader.figures(text.figure, &views)?,
        dir: absolute,
        name,
        published,
    };
    for figure in &recipe.figures {
        if let Some(key) = figure.published.as_deref().filter(|key| recipe.published.get(key).is_none()) {
            return Err(recipe.published.missing(figure.at.clone(), key));
        }
    }
    Ok(recipe)
}

/// Where the top table begins.
const TOP: Range<usize> = 0..0;

/// Checks what a recipe means.
struct Reader<'a> {
    document: Document<'a>,
}

impl Reader<'_> {
    fn missing(&self, table: &Range<usize>, key: &str, needed: &str) -> PlanError {
        self.document.missing(table, &format!("`{key}`"), needed)
    }

    fn words(&self, text: Option<Words>, table: &Range<usize>, key: &str, needed: &str) -> Result<String, PlanError> {
        text.map(|words| words.0).ok_or_else(|| self.missing(table, key, needed))
    }

    /// The name of a table; no other table of its list has it.
    fn name(
        &self,
        text: Option<Spanned<Name>>,
        table: &Range<usize>,
        key: &str,
        taken: &mut BTreeSet<String>,
    ) -> Result<String, PlanError> {
        let Some(name) = text else {
            return Err(self.missing(table, key, &format!("a name: {key} = \"...\"")));
        };
        let span = name.span();
        let Name(name) = name.into_inner();
        if !taken.insert(name.clone()) {
            return Err(self.document.wrong(&span, "a name of its own; another one has this"));
        }
        Ok(name)
    }

    /// Queries by name, in the order of the file.
    fn views(&self, text: Option<InOrder<Words>>) -> Result<Vec<View>, PlanError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut views = Vec::new();
        for (name, Words(query)) in text.map(|views| views.0).unwrap_or_default() {
            if !name.get_ref().chars().all(is_plain) {
                let needed = "a name of letters, digits and _: it stands in queries like a table";
                return Err(self.document.wrong(&name.span(), needed));
            }
            views.push(View { name: name.into_inner(), query });
        }
        Ok(views)
    }

    fn steps(&self, text: Option<Vec<Spanned<StepText>>>) -> Result<Vec<Step>, PlanError> {
        let Some(tables) = text else {
            return Err(self.missing(&TOP, "[[step]]", "something to do: [[step]] with name and plan or command"));
        };
        let mut taken = BTreeSet::new();
        tables.into_iter().map(|table| self.step(table, &mut taken)).collect()
    }

    fn step(&self, text: Spanned<StepText>, taken: &mut BTreeSet<String>) -> Result<Step, PlanError> {
        let table = text.span();
        let text = text.into_inner();
        let name = self.name(text.name, &table, "name", taken)?;
        let work = match (text.plan, text.command) {
            (Some(_), Some(command)) => {
                return Err(self.document.wrong(&command.span(), "either plan or command, not both in one step"));
            }
            (None, None) => {
                let needed = "plan = \"plan.toml\" or command = [\"pagelab\", ...]";
                return Err(self.missing(&table, "plan", needed));
            }
            (Some(plan), None) => {
                let only_commands = [
                    span(text.stdout.as_ref()),
                    span(text.makes.as_ref()),
                    span(text.exit.as_ref()),
                    span(text.timeout.as_ref()),
                ];
                if let Some(span) = only_commands.into_iter().flatten().next() {
                    let needed = "nothing: it is for steps with a command; the plan has its own `timeout`";
                    return Err(self.document.wrong(&span, needed));
                }
                Work::Plan(plan.0.into())
            }
            (None, Some(command)) => {
                let makes = text.makes.map(|paths| paths.into_inner().0).unwrap_or_default();
                let stdout = text.stdout.map(|path| path.into_inner().0);
                if makes.is_empty() && stdout.is_none() {
                    let needed = "what the command leaves: stdout = \"FILE\" or makes = [\"FILE\"]";
                    return Err(self.missing(&table, "stdout", needed));
                }
                let exit = text.exit.map_or_else(|| vec![0], |statuses| statuses.into_inner().0);
                let timeout = text.timeout.map(|period| period.into_inner().0);
                Work::Command { words: command.into_inner().0, stdout, makes, exit, timeout }
            }
        };
        Ok(Step { name, work })
    }

    fn figures(&self, text: Option<Vec<Spanned<FigureText>>>, views: &[View]) -> Result<Vec<Figure>, PlanError> {
        let Some(tables) = text else {
            let needed = "what comes out: [[figure]] with id, what and query or pointer";
            return Err(self.missing(&TOP, "[[figure]]", needed));
        };
        let mut taken = BTreeSet::new();
        tables.into_iter().map(|table| self.figure(table, views, &mut taken)).collect()
    }

    fn figure(
        &self,
        text: Spanned<FigureText>,
        views: &[View],
        taken: &mut BTreeSet<String>,
    ) -> Result<Figure, PlanError> {
        let table = text.span();
        let mut text = text.into_inner();
        let id = self.name(text.id.take(), &table, "id", taken)?;
        let expected = self.expectations(&mut text)?;
        let words = |words: &mut Option<Words>| words.take().map(|words| words.0);
        let (what, unit, note) = (text.what.take(), words(&mut text.unit), words(&mut text.note));
        let published = words(&mut text.published);
        let emulated = text.emulated.unwrap_or(false);
        let digits = text.digits.map_or(DIGITS, |digits| digits.0) as usize;
        let source = match (text.recording.take(), text.document.take()) {
            (Some(recording), None) => self.recordings(recording, text, &table, views)?,
            (None, Some(document)) => self.json_document(document.into_inner(), text, &table)?,
            (Some(_), Some(document)) => {
                let needed = "either recording or document, not both in one figure";
                return Err(self.document.wrong(&document.span(), needed));
            }
            (None, None) => {
                let needed = "recording = \"NAME.set/...\" with query, or document with pointer";
                return Err(self.missing(&table, "recording", needed));
            }
        };
        let what = self.words(what, &table, "what", "the words of the table: what = \"...\"")?;
        let at = self.document.place(&table);
        Ok(Figure { id, what, unit, published, source, note, emulated, digits, expected, at })
    }

    /// Refuses keys that belong to the other kind of source.
    fn refuse(&self, written: impl IntoIterator<Item = Option<Range<usize>>>, belongs: &str) -> Result<(), PlanError> {
        match written.into_iter().flatten().next() {
            Some(span) => Err(self.document.wrong(&span, format!("nothing: it belongs to `{belongs}`"))),
            None => Ok(()),
        }
    }

    fn recordings(
        &self,
        recording: Inside,
        text: FigureText,
        table: &Range<usize>,
        views: &[View],
    ) -> Result<Source, PlanError> {
        self.refuse(
            [span(text.pointer.as_ref()), span(text.interval.as_ref()), span(text.count.as_ref())],
            "document",
        )?;
        let join = match (text.over, text.against) {
            (Some(_), Some(against)) => {
                let needed = "either over or against, not both in one figure";
                return Err(self.document.wrong(&against.span(), needed));
            }
            (None, Some(against)) => Some(Join::Against(against.into_inner().0)),
            (over, None) => over.map(|over| over.0),
        };
        let needed = "SQL that gives one value: query = \"SELECT ...\"";
        let query = self.words(text.query.map(Spanned::into_inner), table, "query", needed)?;
        Ok(Source::Recordings { recording: recording.0, query: with_views(&query, views), join })
    }

    fn json_document(&self, document: Inside, text: FigureText, table: &Range<usize>) -> Result<Source, PlanError> {
        self.refuse([span(text.query.as_ref()), span(text.against.as_ref())], "recording")?;
        let Some(pointer) = text.pointer else {
            let needed = "which value of the document: pointer = \"/primary/ratio\"";
            return Err(self.missing(table, "pointer", needed));
        };
        let join = match (text.over, text.count) {
            (Some(_), Some(count)) => {
                return Err(self.document.wrong(&count.span(), "either over or count, not both in one figure"));
            }
            (None, Some(count)) => Some(Join::Count(count.into_inner().0)),
            (Some(Over(Join::Together)), None) => {
                return Err(self.missing(table, "recording", "over = \"together\" is for recordings"));
            }
            (over, None) => over.map(|over| over.0),
        };
        let count = pointer.get_ref().0.len();
        if count == 0 || (count > 1 && join.is_none()) {
            let needed = "one pointer, or several with over = \"list\" or the like";
            return Err(self.document.wrong(&pointer.span(), needed));
        }
        Ok(Source::Document {
            document: document.0,
            pointers: pointer.into_inner().0,
            interval: text.interval.map(|pointer| pointer.into_inner().0),
            join,
        })
    }

    fn expectations(&self, text: &mut FigureText) -> Result<Vec<Expectation>, PlanError> {
        let mut out = Vec::new();
        out.extend(text.at_least.take().map(|bound| Expectation::AtLeast(bound.0)));
        out.extend(text.at_most.take().map(|bound| Expectation::AtMost(bound.0)));
        out.extend(text.equals.take().map(|value| Expectation::Equals(value.0)));
        if let Some(pct) = &text.within_pct {
            if text.published.is_none() {
                let needed = "`published` beside it: it is about the published number";
                return Err(self.document.wrong(&pct.span(), needed));
            }
            out.push(Expectation::WithinPct(pct.get_ref().0));
        }
        out.extend(text.excludes.take().map(|number| Expectation::Excludes(number.0)));
        Ok(out)
    }
}

/// Where a value was written, if it was.
fn span<T>(written: Option<&Spanned<T>>) -> Option<Range<usize>> {
    written.map(Spanned::span)
}
