//! TOML written by people, read by serde, so that a mistake is reported with its line and with the key that was meant.
//!
//! A file is a [`Document`]. [`Document::read`] makes a struct of it, and what serde refuses becomes a [`PlanError`] with
//! the line, the key with the tables around it, the value found and the value needed. Mistakes of meaning, such as a metric
//! that does not exist, are found afterwards: fields that can have them are [`Spanned`], and [`Document::wrong`] makes the
//! same kind of error from the span.
//!
//! How to write a struct that is read:
//!
//! 1. `#[serde(default, deny_unknown_fields, expecting = "a table")]`, and every field an `Option`: what must be there is
//!    asked for with [`Document::missing`], whose message says what to write.
//! 2. Tables whose keys are names are [`InOrder`]: the order of the file counts, the first variant is the base.
//! 3. Values are of the types below, or of a type whose `Deserialize` fails with [`serde::de::Error::custom`] and the words
//!    for the value that is needed.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_vocab::nearest::nearest;
use pagelab_vocab::units::parse_time;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;
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

/// A file that is valid TOML.
pub struct Document<'a> {
    file: &'a Path,
    text: &'a str,
    top: Spanned<DeTable<'a>>,
}

/// A key of the document with its value.
struct Entry<'d> {
    /// The key with the names of the tables around it.
    name: String,
    key: &'d str,
    value: &'d DeValue<'d>,
    /// Where the key stands, bytes of the text.
    at: Range<usize>,
    /// Where the value stands.
    span: Range<usize>,
}

impl<'a> Document<'a> {
    /// Parses `text`, the content of `file`.
    ///
    /// # Errors
    /// [`PlanError::Syntax`] if it is not TOML.
    pub fn parse(file: &'a Path, text: &'a str) -> Result<Self, PlanError> {
        let top = DeTable::parse(text).map_err(|error| PlanError::Syntax {
            at: place(file, text, error.span().map_or(text.len(), |span| span.start)),
            message: error.message().trim().replace('\n', ", "),
        })?;
        Ok(Self { file, text, top })
    }

    /// The document as a `T`.
    ///
    /// # Errors
    /// [`PlanError::UnknownKey`] or [`PlanError::Value`], about the first mistake that serde meets.
    pub fn read<T: Deserialize<'a>>(&self) -> Result<T, PlanError> {
        T::deserialize(toml::de::Deserializer::from(self.top.clone())).map_err(|error| self.refused(&error))
    }

    /// The line on which a span of the text begins.
    pub fn place(&self, span: &Range<usize>) -> Place {
        place(self.file, self.text, span.start)
    }

    /// The error for a wrong value: `span` is that of the value or of its key.
    pub fn wrong(&self, span: &Range<usize>, needed: impl Into<String>) -> PlanError {
        let entry = self.entry(span);
        let at = entry.as_ref().map_or(span, |entry| &entry.at);
        let found = entry.as_ref().map_or_else(|| "the document".to_owned(), |entry| shown(entry.value));
        let at = self.place(at);
        PlanError::Value { at, key: entry.map(|entry| entry.name).unwrap_or_default(), found, needed: needed.into() }
    }

    /// That `what` is missing from the table which begins at `span`.
    pub fn missing(&self, span: &Range<usize>, what: &str, needed: impl Into<String>) -> PlanError {
        PlanError::Missing { at: self.place(span), what: what.to_owned(), needed: needed.into() }
    }

    /// Where the key with this dotted name stands; the beginning of the text if the document does not have it.
    pub fn span_of(&self, name: &str) -> Range<usize> {
        let mut found = 0..0;
        self.visit(&mut |entry| {
            if entry.name == name {
                found = entry.at;
            }
        });
        found
    }

    /// Serde's words as ours: those of serde's own types are replaced, those of a `custom` error are the value needed.
    fn refused(&self, error: &toml::de::Error) -> PlanError {
        let span = error.span().unwrap_or_default();
        let message = error.message();
        let Some(entry) = self.entry(&span) else { return self.wrong(&span, message) };
        if let Some(known) = unknown_field(message, entry.key) {
            let table = entry.name.strip_suffix(entry.key).unwrap_or_default();
            return PlanError::UnknownKey {
                at: self.place(&entry.at),
                nearest: nearest(entry.key, known.iter().copied()).map(|key| format!("{table}{key}")),
                known: known.join(", "),
                key: entry.name,
            };
        }
        // "invalid type: integer `5`, expected a string", or the words of a `custom` error.
        let expected = message.strip_prefix("invalid ").and_then(|rest| rest.rsplit_once(", expected "));
        let needed = match expected.map(|(_, expected)| expected) {
            None => message.to_owned(),
            Some("a string") => format!("text in quotes: {} = \"...\"", entry.key),
            Some("a boolean") => "true or false".to_owned(),
            Some("a table") => format!("a table: [{}]", entry.name),
            Some("a sequence") => format!("tables in a list: [[{}]]", entry.name),
            Some("f64") => "a number".to_owned(),
            Some("u8") => format!("a whole number from 0 to {}", u8::MAX),
            Some("u32") => format!("a whole number from 0 to {}", u32::MAX),
            Some(expected) => expected.to_owned(),
        };
        self.wrong(&span, needed)
    }

    /// The key that the span is of; else the innermost one in whose value it lies.
    fn entry(&self, span: &Range<usize>) -> Option<Entry<'_>> {
        let mut found: Option<Entry<'_>> = None;
        let mut is_key = false;
        // Tables are visited before what is in them.
        self.visit(&mut |entry| {
            if entry.at == *span {
                is_key = true;
                found = Some(entry);
            } else if !is_key && entry.span.start <= span.start && span.end <= entry.span.end {
                found = Some(entry);
            }
        });
        found
    }

    /// Calls `see` for every key of the document, those of a table after the table's own.
    fn visit<'d>(&'d self, see: &mut dyn FnMut(Entry<'d>)) {
        visit_table("", self.top.get_ref(), see);
    }
}

fn visit_table<'d>(prefix: &str, table: &'d DeTable<'d>, see: &mut dyn FnMut(Entry<'d>)) {
    for (key, value) in table {
        let text: &str = key.get_ref();
        let name = if prefix.is_empty() { text.to_owned() } else { format!("{prefix}.{text}") };
        see(Entry { name: name.clone(), key: text, value: value.get_ref(), at: key.span(), span: value.span() });
        match value.get_ref() {
            DeValue::Table(table) => visit_table(&name, table, see),
            DeValue::Array(list) => {
                for table in list.iter().filter_map(|item| item.get_ref().as_table()) {
                    visit_table(&name, table, see);
                }
            }
            _ => {}
        }
    }
}

fn place(file: &Path, text: &str, offset: usize) -> Place {
    let before = text.as_bytes().iter().take(offset);
    Place { file: file.to_owned(), line: 1 + before.filter(|byte| **byte == b'\n').count() }
}

/// The known words of serde's "unknown field `x`, expected one of `a`, `b`", if that is what the message says.
fn unknown_field<'m>(message: &'m str, key: &str) -> Option<Vec<&'m str>> {
    let rest = message.strip_prefix(&format!("unknown field `{key}`, "))?;
    // Words are in backticks; between them is "expected one of ", ", " or " or ".
    Some(rest.split('`').skip(1).step_by(2).collect())
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

/// Declares a type that is read from another one, of whose value the closure makes its own; its
/// errors are the words for the value needed.
#[macro_export]
macro_rules! checked {
    ($(#[$doc:meta])* $vis:vis struct $name:ident($inner:ty) from $from:ty: $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        $vis struct $name($vis $inner);

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let written = <$from as serde::Deserialize>::deserialize(deserializer)?;
                $crate::document::check(written, $check).map(Self).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// What [`checked`] calls: it says which types the closure has.
#[doc(hidden)]
pub fn check<T, U, E: fmt::Display>(written: T, check: impl FnOnce(T) -> Result<U, E>) -> Result<U, E> {
    check(written)
}

checked! {
    /// Text that is not empty.
    pub struct Words(String) from String: |text| {
        if text.trim().is_empty() { Err("text that is not empty") } else { Ok(text) }
    }
}

checked! {
    /// A number, whole or not, that is finite.
    pub struct Finite(f64) from f64: |number| {
        if number.is_finite() { Ok(number) } else { Err("a number") }
    }
}

/// One text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "text in quotes, or a list of them in [ ]")]
pub enum Texts {
    /// `"one"`
    One(String),
    /// `["one", "two"]`
    List(Vec<String>),
}

impl Texts {
    /// All of them.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::List(list) => list,
        }
    }
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const LEAST: u64, const MOST: u64>(pub u64);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let needed = || D::Error::custom(format_args!("a whole number from {LEAST} to {MOST}"));
        let number = u64::deserialize(deserializer).map_err(|_| needed())?;
        if (LEAST..=MOST).contains(&number) { Ok(Self(number)) } else { Err(needed()) }
    }
}

/// A time above 0: whole seconds, or text with a unit: `"90s"`, `"500ms"`, `"2m"`, `"1h"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period(pub Duration);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let needed = "a time above 0: whole seconds, or text such as \"90s\", \"500ms\", \"2m\", \"1h\"";
        match TextOr::<IgnoredAny>::deserialize(deserializer) {
            Ok(TextOr::Text(text)) => parse_time(&text).map(Self).map_err(|_| D::Error::custom(needed)),
            Ok(TextOr::Table(_)) | Err(_) => Err(D::Error::custom(needed)),
        }
    }
}

/// A table whose keys are names, in the order of the file.
#[derive(Debug, Clone)]
pub struct InOrder<T>(pub Vec<(Spanned<String>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = InOrder<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(InOrder(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// A text (or a whole number, whose digits are the text) or a table: a value by itself, or one with more about it.
#[derive(Debug, Clone)]
pub(crate) enum TextOr<T> {
    /// A text or a whole number.
    Text(String),
    /// A table.
    Table(T),
}

// Not an untagged enum: those are read from a copy of the value, which has no spans.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes or a whole number")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(TextOr::Text(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(TextOr::Text(number.to_string()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Table)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read only to see what is refused")]
    struct Shop {
        owner: Option<Words>,
        open: Option<bool>,
        item: Option<Vec<Spanned<Item>>>,
        prices: Option<InOrder<TextOr<Item>>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a table")]
    #[expect(dead_code, reason = "read only to see what is refused")]
    struct Item {
        name: Option<Words>,
        weight: Option<Finite>,
        count: Option<Whole<1, 9>>,
    }

    fn refused(text: &str) -> String {
        let document = Document::parse(Path::new("shop.toml"), text).expect("TOML");
        document.read::<Shop>().expect_err(text).to_string()
    }

    #[test]
    fn a_mistake_has_its_line_its_key_with_all_tables_the_value_found_and_the_value_needed() {
        for (text, message) in [
            ("owner = ' '", "shop.toml:1: owner: found \" \"; needed: text that is not empty"),
            ("\nowner = [1, 2]", "shop.toml:2: owner: found [1, 2]; needed: text in quotes: owner = \"...\""),
            ("open = 1", "shop.toml:1: open: found 1; needed: true or false"),
            ("item = 1", "shop.toml:1: item: found 1; needed: tables in a list: [[item]]"),
            ("item = [\n1]", "shop.toml:1: item: found [1]; needed: a table: [item]"),
            (
                "[[item]]\n\n[[item]]\ncount = 0xa",
                "shop.toml:4: item.count: found 0xa; needed: a whole number from 1 to 9",
            ),
            ("item = [{\ncount = -1 }]", "shop.toml:2: item.count: found -1; needed: a whole number from 1 to 9"),
            ("[[item]]\nweight = inf", "shop.toml:2: item.weight: found inf; needed: a number"),
            ("[[item]]\nweight = '1'", "shop.toml:2: item.weight: found \"1\"; needed: a number"),
            (
                "prices.\"a b\".count = 10",
                "shop.toml:1: prices.a b.count: found 10; needed: a whole number from 1 to 9",
            ),
            ("[prices]\nx = true", "shop.toml:2: prices.x: found true; needed: text in quotes or a whole number"),
            ("prices = 1", "shop.toml:1: prices: found 1; needed: a table: [prices]"),
            (
                "[[item]]\n[[item]]\nnaem = 'x'",
                "shop.toml:3: unknown key `item.naem` (did you mean 'item.name'?); known here: name, weight, count",
            ),
        ] {
            assert_eq!(refused(text), message, "{text}");
        }
    }

    #[test]
    fn of_several_mistakes_the_first_of_the_file_is_reported() {
        assert!(refused("owner = 1\nitem = 1").contains("shop.toml:1: owner"));
        assert!(refused("item = 1\nowner = 1").contains("shop.toml:1: item"));
    }

    #[test]
    fn names_keep_the_order_of_the_file_and_their_places() {
        let text = "[prices]\nzinc = 5\n[prices.ale]\nname = 'x'\n[prices.milk]\n";
        let document = Document::parse(Path::new("shop.toml"), text).expect("TOML");
        let shop: Shop = document.read().expect("a shop");
        let prices = shop.prices.expect("prices").0;
        let names: Vec<(&str, usize)> =
            prices.iter().map(|(name, _)| (name.get_ref().as_str(), document.place(&name.span()).line)).collect();
        assert_eq!(names, [("zinc", 2), ("ale", 3), ("milk", 5)]);
        assert!(matches!(&prices[0].1, TextOr::Text(digits) if digits == "5"));
        assert_eq!(document.place(&document.span_of("prices.ale.name")).line, 4);
        let wrong = document.wrong(&prices[1].0.span(), "nothing").to_string();
        assert_eq!(wrong, "shop.toml:3: prices.ale: found a table; needed: nothing");
    }

    #[test]
    fn times_have_units() {
        #[derive(Deserialize)]
        struct Waits {
            wait: Period,
        }
        for (text, millis) in
            [("5", 5000), ("'90s'", 90_000), ("'500 ms'", 500), ("'2m'", 120_000), ("'1h'", 3_600_000)]
        {
            assert_eq!(toml::from_str::<Waits>(&format!("wait = {text}")).expect(text).wait.0.as_millis(), millis);
        }
        for text in ["0", "-1", "1.5", "''", "'1 day'", "true", "[]", "{}", "'99999999999999999h'"] {
            assert!(toml::from_str::<Waits>(&format!("wait = {text}")).is_err(), "{text}");
        }
    }
}
