//! TOML with the line of everything, so that a mistake in a plan is reported where it was made.
//!
//! Deserialising into structs would lose the order of the variants in the file (the first is the base) and the lines
//! of values whose meaning is only checked later, against the vocabulary of settings and against the host.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_vocab::nearest::nearest;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::error::PlanError;

/// A line of a file, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// Where the lines of a text begin.
struct Lines<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Lines<'_> {
    fn place(&self, offset: usize) -> Place {
        let before = self.text.as_bytes().iter().take(offset);
        Place { file: self.file.to_owned(), line: 1 + before.filter(|byte| **byte == b'\n').count() }
    }
}

/// Reads `text`, which came from `file`, and hands its top table to `take`.
pub fn with_document<T>(
    file: &Path,
    text: &str,
    take: impl FnOnce(&Table<'_>) -> Result<T, PlanError>,
) -> Result<T, PlanError> {
    let lines = Lines { file, text };
    let parsed = DeTable::parse(text).map_err(|error| PlanError::Syntax {
        at: lines.place(error.span().map_or(text.len(), |span| span.start)),
        message: error.message().trim().replace('\n', ", "),
    })?;
    let table = Table { lines: &lines, name: String::new(), at: lines.place(0), table: parsed.get_ref() };
    take(&table)
}

/// A table of the document.
pub struct Table<'a> {
    lines: &'a Lines<'a>,
    /// Dotted name, empty for the top.
    name: String,
    at: Place,
    table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Where the table begins.
    pub fn at(&self) -> &Place {
        &self.at
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        self.items().into_iter().find(|item| item.key == key)
    }

    /// Everything in the table in the order of the file.
    pub fn items(&self) -> Vec<Item<'a>> {
        let mut items: Vec<(usize, Item<'a>)> = self
            .table
            .iter()
            .map(|(key, value)| {
                let start = key.span().start;
                let name = self.dotted(key.get_ref());
                let item = Item {
                    lines: self.lines,
                    at: self.lines.place(start),
                    key: key.get_ref().to_string(),
                    name,
                    value: value.get_ref(),
                };
                (start, item)
            })
            .collect();
        items.sort_by_key(|(start, _)| *start);
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Refuses keys other than these.
    pub fn only(&self, known: &[&str]) -> Result<(), PlanError> {
        match self.items().into_iter().find(|item| !known.contains(&item.key.as_str())) {
            None => Ok(()),
            Some(item) => Err(PlanError::UnknownKey {
                nearest: nearest(&item.key, known.iter().copied()).map(|key| self.dotted(key)),
                known: known.join(", "),
                at: item.at,
                key: item.name,
            }),
        }
    }

    fn dotted(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

/// A key with its value.
pub struct Item<'a> {
    lines: &'a Lines<'a>,
    /// The line of the key.
    pub at: Place,
    /// The key in its table.
    pub key: String,
    /// The key with the names of the tables around it.
    pub name: String,
    value: &'a DeValue<'a>,
}

impl<'a> Item<'a> {
    /// An error about the value: what was found and what is needed.
    pub fn wrong(&self, needed: impl Into<String>) -> PlanError {
        PlanError::Value {
            at: self.at.clone(),
            key: self.name.clone(),
            found: shown(self.value),
            needed: needed.into(),
        }
    }

    /// Text.
    pub fn text(&self) -> Result<String, PlanError> {
        self.value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| self.wrong(format!("text in quotes: {} = \"...\"", self.key)))
    }

    /// Text that is not empty.
    pub fn words(&self) -> Result<String, PlanError> {
        let text = self.text()?;
        if text.trim().is_empty() { Err(self.wrong("text that is not empty")) } else { Ok(text) }
    }

    /// A whole number in a range.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, PlanError> {
        let parsed = self.integer().and_then(|value| u64::try_from(value).ok());
        parsed.filter(|value| (least..=most).contains(value)).ok_or_else(|| {
            let range = if most == u64::MAX { format!("from {least}") } else { format!("from {least} to {most}") };
            self.wrong(format!("a whole number {range}"))
        })
    }

    fn integer(&self) -> Option<i128> {
        let integer = self.value.as_integer()?;
        let digits = integer.as_str().replace('_', "");
        i128::from_str_radix(digits.trim_start_matches('+'), integer.radix()).ok()
    }

    /// One text, or a list of texts.
    pub fn texts(&self) -> Result<Vec<String>, PlanError> {
        if let Some(text) = self.value.as_str() {
            return Ok(vec![text.to_owned()]);
        }
        let needed = || self.wrong("text in quotes, or a list of them in [ ]");
        let list = self.value.as_array().ok_or_else(needed)?;
        list.iter().map(|value| value.get_ref().as_str().map(str::to_owned).ok_or_else(needed)).collect()
    }

    /// A number, whole or not.
    pub fn float(&self) -> Result<f64, PlanError> {
        let whole = self.integer().map(|value| value as f64);
        let float = || self.value.as_float()?.as_str().replace('_', "").parse::<f64>().ok();
        whole.or_else(float).filter(|value| value.is_finite()).ok_or_else(|| self.wrong("a number"))
    }

    /// `true` or `false`.
    pub fn truth(&self) -> Result<bool, PlanError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// Whether the value is a text.
    pub fn is_text(&self) -> bool {
        self.value.is_str()
    }

    /// Whether the value is `true` or `false`.
    pub fn is_truth(&self) -> bool {
        self.value.is_bool()
    }

    /// A list of tables: `[[name]]`, each with the line that it begins on.
    pub fn tables(&self) -> Result<Vec<Table<'a>>, PlanError> {
        let needed = || self.wrong(format!("tables in a list: [[{}]]", self.name));
        let list = self.value.as_array().ok_or_else(needed)?;
        list.iter()
            .map(|value| {
                let at = self.lines.place(value.span().start);
                let table = value.get_ref().as_table().ok_or_else(needed)?;
                Ok(Table { lines: self.lines, name: self.name.clone(), at, table })
            })
            .collect()
    }

    /// A list of whole numbers in a range, not empty.
    pub fn numbers(&self, least: u64, most: u64) -> Result<Vec<u64>, PlanError> {
        let needed = || self.wrong(format!("a list of whole numbers from {least} to {most}: [{least}]"));
        let list = self.value.as_array().filter(|list| !list.is_empty()).ok_or_else(needed)?;
        let number = |value: &DeValue<'_>| -> Option<u64> {
            let number = value.as_integer()?.as_str().replace('_', "").parse().ok()?;
            (least..=most).contains(&number).then_some(number)
        };
        list.iter().map(|value| number(value.get_ref()).ok_or_else(needed)).collect()
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// A value of a setting: text, or a number as it is written.
    pub fn setting_value(&self) -> Result<String, PlanError> {
        if let Some(text) = self.value.as_str() {
            return Ok(text.to_owned());
        }
        self.integer().map(|value| value.to_string()).ok_or_else(|| self.wrong("text in quotes or a whole number"))
    }

    /// Whole seconds, or text with a unit: `"90s"`, `"500ms"`, `"2m"`, `"1h"`.
    pub fn duration(&self) -> Result<Duration, PlanError> {
        let needed = "a time above 0: whole seconds, or text such as \"90s\", \"500ms\", \"2m\", \"1h\"";
        let millis = match self.setting_value() {
            Err(_) => None,
            Ok(text) => {
                let text = text.trim();
                let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                let (number, unit) = text.split_at(digits);
                let scale: Option<u64> = match unit.trim() {
                    "ms" => Some(1),
                    "" | "s" => Some(1000),
                    "m" | "min" => Some(60_000),
                    "h" => Some(3_600_000),
                    _ => None,
                };
                number.parse::<u64>().ok().zip(scale).and_then(|(number, scale)| number.checked_mul(scale))
            }
        };
        millis.filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(|| self.wrong(needed))
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// A table.
    pub fn table(&self) -> Result<Table<'a>, PlanError> {
        let table = self.value.as_table().ok_or_else(|| self.wrong(format!("a table: [{}]", self.name)))?;
        Ok(Table { lines: self.lines, name: self.name.clone(), at: self.at.clone(), table })
    }
}

/// A value as an error message shows it.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) if list.is_empty() => "an empty list".to_owned(),
        DeValue::Array(list) => {
            let shown: Vec<String> = list.iter().map(|item| shown(item.get_ref())).collect();
            format!("[{}]", shown.join(", "))
        }
        DeValue::Table(_) => "a table".to_owned(),
    }
}
