//! The option registry: what an option's declaration says, and how declarations are made.

use super::{JobOptions, OPTIONS};
use crate::model::Caps;
use crate::units::ParseContext;

/// What a group of options is about; the headings of help and docs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Naming and describing jobs.
    Job,
    /// Which file, how it is made, opened and left.
    Files,
    /// Directions and order of blocks.
    Pattern,
    /// How much is done.
    Amount,
    /// Which engine, and how it transfers.
    Engine,
    /// What is transferred, and from which memory.
    Buffers,
    /// How memory is mapped, for engines that map.
    Mapping,
    /// When a job starts and ends.
    Time,
    /// How fast it may go.
    Rate,
    /// Flushing.
    Sync,
    /// Whether what was written is there.
    Verify,
    /// Workers and their grouping.
    Workers,
    /// What is measured and shown.
    Reporting,
}

impl Category {
    /// The heading in help and docs.
    pub fn title(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::Files => "Files",
            Self::Pattern => "Pattern",
            Self::Amount => "Amount of work",
            Self::Engine => "Engine",
            Self::Buffers => "Buffers",
            Self::Mapping => "Mappings",
            Self::Time => "Time",
            Self::Rate => "Rate",
            Self::Sync => "Flushing",
            Self::Verify => "Verifying contents",
            Self::Workers => "Workers",
            Self::Reporting => "Measuring and reporting",
        }
    }
}

/// One option of the job language. Help, docs, parsing and defaults all come from here.
pub struct OptionDef {
    /// Its name.
    pub name: &'static str,
    /// Other names that fio knows it by.
    pub aliases: &'static [&'static str],
    /// The name that fio itself gives it, under which it stands in reports: `name` for most.
    pub fio_name: &'static str,
    /// The type of its value, in words.
    pub kind: &'static str,
    /// The words it accepts, if it is a choice.
    pub words: &'static [(&'static str, &'static str)],
    /// Whether it may stand without a value.
    pub flag: bool,
    /// The default, as a user would type it; empty for none.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Under which heading.
    pub category: Category,
    /// What an engine must be able to do for this option to mean anything.
    pub needs: Caps,
    /// Whether pagelab added it to the language.
    pub extension: bool,
    /// Reads text into the options.
    pub assign: fn(&mut JobOptions, &str, ParseContext) -> Result<(), String>,
}

/// Declares options: a field of [`JobOptions`] and an entry of the registry each.
macro_rules! options {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident : $ty:ty {
            $category:ident, $needs:ident, $origin:ident, default $default:literal $(, alias $alias:literal)* $(, fio_name $fio:literal)?
        }
    )+) => {
        /// The options of one job, every one with a value.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, remote = "Self")]
        pub struct JobOptions {
            $( $(#[doc = $doc])+ pub $field: $ty, )+
        }

        /// Every option of the job language.
        pub static OPTIONS: &[OptionDef] = &[
            $( OptionDef {
                name: stringify!($field),
                aliases: &[$($alias),*],
                fio_name: options!(@first $($fio,)? stringify!($field),),
                kind: <$ty as OptionValue>::KIND,
                words: <$ty as OptionValue>::WORDS,
                flag: <$ty as OptionValue>::FLAG,
                default: $default,
                help: concat!($($doc, "\n"),+),
                category: Category::$category,
                needs: Caps::$needs,
                extension: options!(@extension $origin),
                assign: |options, text, context| options.$field.assign(text, context),
            }, )+
        ];

        impl JobOptions {
            fn blank() -> Self {
                Self { $( $field: Default::default(), )+ }
            }
        }
    };
    (@first $first:expr, $($rest:expr,)*) => { $first };
    (@extension fio) => { false };
    (@extension pagelab) => { true };
}
pub(crate) use options;

impl serde::Serialize for JobOptions {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// By way of a [`serde_json::Value`]: the reader of some two hundred fields is compiled here once, and not again in every crate
/// and test program that reads a report.
impl<'de> serde::Deserialize<'de> for JobOptions {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        read_value(value).map_err(serde::de::Error::custom)
    }
}

fn read_value(value: serde_json::Value) -> Result<JobOptions, serde_json::Error> {
    let mut whole = JobOptions::serialize(&JobOptions::default(), serde_json::value::Serializer)?;
    // What an older version did not know yet has its default.
    match (&mut whole, value) {
        (serde_json::Value::Object(whole), serde_json::Value::Object(given)) => whole.extend(given),
        (whole, other) => *whole = other,
    }
    JobOptions::deserialize(whole)
}

/// The declaration of an option, by its name or one of its aliases.
pub fn option(name: &str) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|def| def.name == name || def.aliases.contains(&name))
}

/// Names that pagelab takes for another one's, and that fio has options of their own for, with the same effect.
const APART_IN_FIO: &[&str] = &["allrandrepeat"];

/// The name under which fio reports an option, whichever of its names was written.
pub fn reported_name(name: &str) -> &str {
    if APART_IN_FIO.contains(&name) {
        return name;
    }
    option(name).map_or(name, |def| def.fio_name)
}

/// The option whose name looks most like `name`.
pub fn nearest_option(name: &str) -> Option<&'static str> {
    let names = OPTIONS.iter().flat_map(|def| std::iter::once(def.name).chain(def.aliases.iter().copied()));
    pagelab_vocab::nearest::nearest(name, names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OPTIONS;

    #[test]
    fn names_are_declared_once_and_never_also_refused() {
        let mut seen = std::collections::BTreeSet::new();
        for def in OPTIONS {
            for name in std::iter::once(&def.name).chain(def.aliases) {
                assert!(seen.insert(*name), "{name} is declared twice");
                assert!(crate::unsupported::option(name).is_none(), "{name} is both there and refused");
            }
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_option() {
        let context = ParseContext::default();
        for def in OPTIONS.iter().filter(|def| !def.default.is_empty()) {
            let mut options = JobOptions::default();
            (def.assign)(&mut options, def.default, context).unwrap_or_else(|reason| panic!("{}: {reason}", def.name));
        }
    }

    #[test]
    fn choices_accept_each_of_their_words() {
        let context = ParseContext::default();
        for def in OPTIONS {
            for (word, help) in def.words {
                assert!(!help.is_empty());
                (def.assign)(&mut JobOptions::default(), word, context)
                    .unwrap_or_else(|reason| panic!("{}={word}: {reason}", def.name));
            }
        }
    }
}
