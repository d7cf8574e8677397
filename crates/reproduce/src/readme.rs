//! The page: README.in.md with the figures in it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pagelab_experiment::Place;
use pagelab_vocab::nearest::hint_for;

use crate::error::ReproduceError;
use crate::measured::{Measured, MeasuredFigure};
use crate::recipe::{Figure, Recipe};
use crate::value::{Value, significant};

/// The prose, written by hand.
pub(crate) const README_IN: &str = "README.in.md";

/// Lines of an output that the page shows.
const OUTPUT_LINES: usize = 200;

/// What placeholders there are.
const KNOWN: [&str; 7] = ["figures", "figure", "published", "output", "picture", "made", "how"];

/// The page, and the files that have to lie next to it.
#[derive(Debug)]
pub(crate) struct Written {
    /// Of README.md.
    pub text: String,
    /// Its pictures: the kept file, and the file next to the page.
    pub pictures: Vec<(PathBuf, PathBuf)>,
}

/// Makes the page. Without `out`, outputs are left out: nothing has been run yet, and only the placeholders are tried.
pub(crate) fn page(recipe: &Recipe, measured: &Measured, out: Option<&Path>) -> Result<Written, ReproduceError> {
    let file = recipe.dir.join(README_IN);
    let prose = std::fs::read_to_string(&file).map_err(ReproduceError::io("read", &file))?;
    let mut page = Page { recipe, measured, out, shown: Vec::new(), pictures: Vec::new(), made: false, how: false };
    let mut text =
        String::from("<!-- Written by `pagelab reproduce` from README.in.md, reproduce.toml and measured.toml. -->\n");
    for (index, line) in prose.lines().enumerate() {
        let at = Place { file: file.clone(), line: index + 1 };
        text.push_str(&page.line(line, &at)?);
        text.push('\n');
    }
    page.rest(&mut text);
    Ok(Written { text, pictures: page.pictures })
}

struct Page<'a> {
    recipe: &'a Recipe,
    measured: &'a Measured,
    out: Option<&'a Path>,
    /// Figures that stand in a table.
    shown: Vec<String>,
    pictures: Vec<(PathBuf, PathBuf)>,
    made: bool,
    how: bool,
}

impl Page<'_> {
    /// A line with its placeholders filled.
    fn line(&mut self, line: &str, at: &Place) -> Result<String, ReproduceError> {
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            text.push_str(before);
            let Some((inside, behind)) = after.split_once("}}") else {
                return Err(wrong(at, "`{{` without `}}`", "both on one line"));
            };
            text.push_str(&self.fill(inside.trim(), at)?);
            rest = behind;
        }
        text.push_str(rest);
        Ok(text)
    }

    fn fill(&mut self, inside: &str, at: &Place) -> Result<String, ReproduceError> {
        let (word, argument) = inside.split_once(':').map_or((inside, ""), |(word, argument)| (word, argument.trim()));
        match (word.trim(), argument) {
            ("figures", "") => {
                let all: Vec<&str> = self.recipe.figures.iter().map(|figure| figure.id.as_str()).collect();
                self.table(&all, at)
            }
            ("figures", ids) => self.table(&ids.split_whitespace().collect::<Vec<_>>(), at),
            ("figure", id) => {
                let (figure, measured) = self.figure(id, at)?;
                Ok(cell(figure, measured))
            }
            ("published", key) => {
                let value = self.recipe.published.get(key);
                value.map(|value| value.as_published()).ok_or_else(|| self.recipe.published.missing(at.clone(), key))
            }
            ("output", file) => self.output(file, at),
            ("picture", file) => self.picture(file, at),
            ("made", "") => {
                self.made = true;
                Ok(self.made())
            }
            ("how", "") => {
                self.how = true;
                Ok(self.how())
            }
            (word, _) => {
                let near = hint_for(word, KNOWN);
                let needed = format!("one of {}{}", KNOWN.join(", "), near);
                Err(wrong(at, &format!("placeholder `{{{{{inside}}}}}`"), &needed))
            }
        }
    }

    fn figure(&self, id: &str, at: &Place) -> Result<(&Figure, &MeasuredFigure), ReproduceError> {
        let ids = || self.recipe.figures.iter().map(|figure| figure.id.as_str());
        let declared = self.recipe.figures.iter().find(|figure| figure.id == id);
        let measured = self.measured.figure.iter().find(|figure| figure.id == id);
        match (declared, measured) {
            (Some(figure), Some(measured)) => Ok((figure, measured)),
            (Some(_), None) => {
                Err(wrong(at, &format!("figure `{id}`, which measured.toml does not have"), "pagelab reproduce"))
            }
            _ => {
                let near = hint_for(id, ids());
                Err(wrong(at, &format!("figure `{id}`"), &format!("an id of reproduce.toml{near}")))
            }
        }
    }

    /// The table of some figures, their notes below it.
    fn table(&mut self, ids: &[&str], at: &Place) -> Result<String, ReproduceError> {
        let mut text = String::from("| | published | measured here | expected | |\n|---|---|---|---|---|\n");
        let mut notes = String::new();
        for id in ids {
            let (figure, measured) = self.figure(id, at)?;
            let published = measured.published.as_ref().map(Value::as_published).unwrap_or_default();
            let expected = match (&measured.expected, measured.met) {
                (Some(expected), Some(true)) => format!("{expected}: met"),
                (Some(expected), _) => format!("**{expected}: missed**"),
                (None, _) => String::new(),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | [how](#how-{id}) |",
                barred(&figure.what),
                barred(&published),
                barred(&cell(figure, measured)),
                barred(&expected)
            );
            if let Some(note) = &figure.note {
                let _ = write!(notes, "\n- {}: {note}", figure.what);
            }
        }
        self.shown.extend(ids.iter().map(|id| (*id).to_owned()));
        if !notes.is_empty() {
            let _ = writeln!(text, "{notes}");
        }
        Ok(text.trim_end().to_owned())
    }

    /// That a step makes the file.
    fn made_by_a_step(&self, name: &str, at: &Place) -> Result<(), ReproduceError> {
        let mut made = self.recipe.steps.iter().flat_map(crate::recipe::Step::makes);
        if made.any(|path| name == path || name.starts_with(&format!("{path}/"))) {
            return Ok(());
        }
        Err(wrong(at, &format!("output `{name}`"), "a file that a step of reproduce.toml makes"))
    }

    /// A kept picture, which gets a copy next to the page.
    fn picture(&mut self, name: &str, at: &Place) -> Result<String, ReproduceError> {
        self.made_by_a_step(name, at)?;
        let file = name.rsplit('/').next().unwrap_or(name);
        if let Some(out) = self.out {
            self.pictures.push((out.join(name), self.recipe.dir.join(file)));
        }
        Ok(format!("![{file}]({file})"))
    }

    /// A text file of what is kept.
    fn output(&self, name: &str, at: &Place) -> Result<String, ReproduceError> {
        self.made_by_a_step(name, at)?;
        let Some(out) = self.out else { return Ok(String::new()) };
        let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        let path = out.join(name);
        let text = std::fs::read_to_string(&path).map_err(ReproduceError::io("read", &path))?;
        // Where this machine keeps it is nobody's business.
        let text = text.replace(&out.display().to_string(), "OUT");
        let mut shown: Vec<&str> = text.lines().take(OUTPUT_LINES).map(str::trim_end).collect();
        let left = text.lines().count().saturating_sub(OUTPUT_LINES);
        let more = format!("... {left} more lines in OUT/{name}");
        if left > 0 {
            shown.push(&more);
        }
        Ok(format!("```\n{}\n```", shown.join("\n")))
    }

    fn made(&self) -> String {
        let collect = |get: &dyn Fn(&MeasuredFigure) -> Option<String>| {
            let mut all: Vec<String> = self.measured.figure.iter().filter_map(get).collect();
            all.sort();
            all.dedup();
            all
        };
        let kernels = collect(&|figure| figure.kernel.clone());
        let versions = collect(&|figure| figure.pagelab_version.clone());
        let dates = collect(&|figure| figure.date.clone());
        let day = dates.last().map_or("no day yet", String::as_str);
        let mut text = format!(
            "Measured on {day} with pagelab {} on Linux {}; the steps took {:.0} s.\n\n",
            versions.join(" and "),
            kernels.join(", "),
            self.measured.took_s()
        );
        let _ = writeln!(
            text,
            "    sudo pagelab reproduce experiments/{}      # all of it, or each step by itself:",
            self.recipe.name
        );
        for step in &self.measured.step {
            let _ = writeln!(text, "    {}      # {}, {:.1} s", step.did, step.name, step.took_s);
        }
        text.trim_end().to_owned()
    }

    /// For each figure where it comes from.
    fn how(&self) -> String {
        let mut text = String::new();
        for measured in &self.measured.figure {
            let what = self.recipe.figures.iter().find(|figure| figure.id == measured.id).map(|figure| &figure.what);
            let _ = writeln!(text, "<a id=\"how-{}\"></a>", measured.id);
            let _ = write!(text, "**{}** (`{}`): ", what.map_or("", String::as_str), measured.id);
            let origin = [
                measured.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
                measured.pagelab_version.as_ref().map(|version| format!("pagelab {version}")),
                measured.date.clone(),
            ];
            let origin: Vec<String> = origin.into_iter().flatten().collect();
            let over = measured.over.as_ref().map(|over| format!(", {over}")).unwrap_or_default();
            match (&measured.query, &measured.pointer) {
                (Some(query), _) => {
                    let count = measured.recordings.unwrap_or(0);
                    let _ = writeln!(text, "`OUT/{}`, {count} recordings{over}; {}", measured.from, origin.join(", "));
                    let _ = writeln!(text, "\n```sql\n{query}\n```\n");
                }
                (None, pointer) => {
                    let pointer = pointer.as_deref().unwrap_or_default();
                    let _ = writeln!(text, "`{pointer}` of `OUT/{}`{over}; {}\n", measured.from, origin.join(", "));
                }
            }
        }
        text.trim_end().to_owned()
    }

    /// What the prose does not name stands at the end: nothing measured, and no miss, stays out of the page.
    fn rest(&mut self, text: &mut String) {
        let left: Vec<&str> = self.recipe.figures.iter().map(|figure| figure.id.as_str()).collect();
        let left: Vec<&str> = left.into_iter().filter(|id| !self.shown.iter().any(|shown| shown == id)).collect();
        let nowhere = Place { file: self.recipe.dir.join(README_IN), line: 0 };
        if !left.is_empty()
            && let Ok(table) = self.table(&left, &nowhere)
        {
            let _ = write!(text, "\n## Further figures\n\n{table}\n");
        }
        if !self.made {
            let _ = write!(text, "\n## How this was made\n\n{}\n", self.made());
        }
        if !self.how {
            let _ = write!(text, "\n## Where each figure comes from\n\n{}\n", self.how());
        }
    }
}

fn wrong(at: &Place, found: &str, needed: &str) -> ReproduceError {
    ReproduceError::Placeholder { at: at.clone(), found: found.to_owned(), needed: needed.to_owned() }
}

/// A figure as the table shows it.
fn cell(figure: &Figure, measured: &MeasuredFigure) -> String {
    let Some(value) = &measured.value else {
        return format!("not measured: {}", measured.reason.as_deref().unwrap_or("no reason given"));
    };
    let mut text = value.shown(figure.digits);
    if let Some(unit) = &figure.unit {
        let _ = write!(text, " {unit}");
    }
    if let Some([low, high]) = measured.interval {
        let _ = write!(text, " (95 %: {} to {})", significant(low, figure.digits), significant(high, figure.digits));
    }
    if figure.emulated {
        text.push_str(", emulated");
    }
    text
}

/// Text within a cell.
fn barred(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
