//! published.toml: figures that others published.

use std::path::{Path, PathBuf};

use pagelab_experiment::Place;
use pagelab_experiment::document::Document;
use pagelab_vocab::nearest::hint_for;

use crate::error::ReproduceError;
use crate::value::Value;

/// Name of the file in the experiment's folder.
pub(crate) const PUBLISHED_TOML: &str = "published.toml";

/// The figures by their dotted keys.
#[derive(Debug, Clone, Default)]
pub struct Published {
    file: PathBuf,
    values: toml::Table,
}

impl Published {
    /// Reads the file; an experiment that replays nothing has none.
    pub fn load(dir: &Path) -> Result<Self, ReproduceError> {
        let file = dir.join(PUBLISHED_TOML);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(ReproduceError::io("read", &file)(error)),
        };
        let values = Document::parse(&file, &text)?.read()?;
        Ok(Self { file, values })
    }

    /// The value of a dotted key.
    pub fn get(&self, key: &str) -> Option<Value> {
        let mut table = &self.values;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            let value = table.get(part)?;
            if parts.peek().is_none() {
                return match value {
                    toml::Value::String(text) => Some(Value::Text(text.clone())),
                    toml::Value::Integer(whole) => Some(Value::Whole(*whole)),
                    toml::Value::Float(number) => Value::number(*number),
                    toml::Value::Boolean(truth) => Some(Value::Truth(*truth)),
                    _ => None,
                };
            }
            table = value.as_table()?;
        }
        None
    }

    /// What to say about a key that is not there: the file and the nearest key.
    pub fn missing(&self, at: Place, key: &str) -> ReproduceError {
        let mut keys = Vec::new();
        collect("", &self.values, &mut keys);
        let near = hint_for(key, keys.iter().map(String::as_str));
        ReproduceError::Placeholder {
            at,
            found: format!("published key `{key}`"),
            needed: format!("a key with a number or a text in {}{}", self.file.display(), near),
        }
    }
}

fn collect(prefix: &str, table: &toml::Table, keys: &mut Vec<String>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(table) => collect(&name, table, keys),
            _ => keys.push(name),
        }
    }
}
