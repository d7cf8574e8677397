//! The document's JSON Schema, from which the script's types are made: what the program writes and what the script reads cannot differ.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::{OF_METRIC, Page};

/// JSON Schema (draft 7) of [`Page`] as it is written. `web/schema.json` is this; `npm run types` makes `web/src/schema.d.ts` of it.
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Page<'static>>().to_value();
    let metric = &mut schema["definitions"]["MetricComparison"];
    if let Some(fields) = metric["properties"].as_object_mut() {
        fields.retain(|name, _| OF_METRIC.contains(&name.as_str()));
    }
    if let Some(required) = metric["required"].as_array_mut() {
        required.retain(|name| name.as_str().is_some_and(|name| OF_METRIC.contains(&name)));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written anew with PAGELAB_BLESS=1.
    #[test]
    fn the_schema_of_the_script_is_that_of_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/schema.json");
        let text = format!("{:#}\n", schema());
        if std::env::var_os("PAGELAB_BLESS").is_some() {
            std::fs::write(path, &text).expect("the schema is written");
        }
        let kept = std::fs::read_to_string(path).expect("web/schema.json is there");
        assert!(kept == text, "web/schema.json is not what the program writes; type: make docs");
    }

    #[test]
    fn what_is_not_drawn_is_not_promised() {
        let schema = schema();
        let metric = schema["definitions"]["MetricComparison"]["properties"].as_object().expect("a metric has fields");
        let mut names: Vec<&str> = metric.keys().map(String::as_str).collect();
        let mut drawn = OF_METRIC.to_vec();
        names.sort_unstable();
        drawn.sort_unstable();
        assert_eq!(names, drawn);
    }
}
