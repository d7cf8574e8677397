//! A shorter form of the JSON of a case: what runs have in common is written once.
//!
//! Runs become columns: `[{"a": 1}, {"a": 2}]` is `{"a": [1, 2]}`. Classes of mappings are written as what differs from the most common
//! value of each of their fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Key of the class of mappings that others are told by.
const TEMPLATE: &str = "class_template";
/// Fields of a class that are objects in each.
const PARTS: [&str; 4] = ["key", "order", "partial", "whole"];
const SIDES: [&str; 2] = ["base", "test"];
/// Holds values that are objects in some runs and nothing in others.
const AS_IT_IS: &str = "$runs";

/// The shorter form of a document.
pub(crate) fn packed(mut document: Value) -> Value {
    each_class(&mut document, flatten);
    let template = template(&mut document);
    each_class(&mut document, |class| class.retain(|field, value| template.get(field) != Some(value)));
    for side in SIDES {
        if let Some(Value::Array(runs)) = document.get(side) {
            document[side] = columns(runs);
        }
    }
    document[TEMPLATE] = Value::Object(template);
    document
}

/// The document of a shorter form, with so many runs a side.
pub(crate) fn unpacked(mut document: Value, runs: usize) -> Value {
    for side in SIDES {
        document[side] = Value::Array(rows(&document[side], runs));
    }
    let template = document.as_object_mut().and_then(|fields| fields.remove(TEMPLATE));
    let template = template.and_then(|found| found.as_object().cloned()).unwrap_or_default();
    each_class(&mut document, |class| {
        for (field, value) in &template {
            class.entry(field.clone()).or_insert_with(|| value.clone());
        }
        unflatten(class);
    });
    document
}

/// `"whole": {"slots": 1}` becomes `"whole/slots": 1`.
fn flatten(class: &mut Map<String, Value>) {
    for parent in PARTS {
        if let Some(Value::Object(fields)) = class.remove(parent) {
            class.extend(fields.into_iter().map(|(field, value)| (format!("{parent}/{field}"), value)));
        }
    }
}

fn unflatten(class: &mut Map<String, Value>) {
    let flat: Vec<String> = class.keys().filter(|field| field.contains('/')).cloned().collect();
    for name in flat {
        let (Some((parent, field)), Some(value)) = (name.split_once('/'), class.remove(&name)) else { continue };
        let of_parent = class.entry(parent).or_insert_with(|| Value::Object(Map::new()));
        of_parent[field] = value;
    }
}

fn each_class(document: &mut Value, mut change: impl FnMut(&mut Map<String, Value>)) {
    for side in SIDES {
        let runs = document[side].as_array_mut().into_iter().flatten();
        let classes = runs.filter_map(|run| run.pointer_mut("/profile/classes")?.as_array_mut());
        classes.flatten().filter_map(Value::as_object_mut).for_each(&mut change);
    }
}

/// The most common value of each field of a class.
fn template(document: &mut Value) -> Map<String, Value> {
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    each_class(document, |class| {
        for (field, value) in class.iter() {
            *counts.entry(field.clone()).or_default().entry(value.to_string()).or_default() += 1;
        }
    });
    let most =
        |values: BTreeMap<String, usize>| values.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value);
    let parsed = |value: String| serde_json::from_str(&value).unwrap();
    counts.into_iter().filter_map(|(field, values)| Some((field, parsed(most(values)?)))).collect()
}

fn columns(values: &[Value]) -> Value {
    let objects: Option<Vec<&Map<String, Value>>> = values.iter().map(Value::as_object).collect();
    match objects {
        Some(objects) => {
            let keys: BTreeSet<&String> = objects.iter().flat_map(|one| one.keys()).collect();
            let column = |key: &String| -> Vec<Value> {
                objects.iter().map(|one| one.get(key).cloned().unwrap_or(Value::Null)).collect()
            };
            keys.into_iter().map(|key| (key.clone(), columns(&column(key)))).collect::<Map<_, _>>().into()
        }
        None if values.iter().any(Value::is_object) => {
            Map::from_iter([(AS_IT_IS.to_owned(), Value::Array(values.to_vec()))]).into()
        }
        None => Value::Array(values.to_vec()),
    }
}

fn rows(value: &Value, runs: usize) -> Vec<Value> {
    let fields = match value {
        Value::Array(values) => return values.clone(),
        Value::Object(fields) => fields,
        _ => return Vec::new(),
    };
    if let Some(Value::Array(values)) = fields.get(AS_IT_IS) {
        return values.clone();
    }
    let mut out = vec![Map::new(); runs];
    for (key, column) in fields {
        for (run, value) in out.iter_mut().zip(rows(column, runs)) {
            if !value.is_null() {
                run.insert(key.clone(), value);
            }
        }
    }
    out.into_iter().map(Value::Object).collect()
}

#[test]
fn what_is_packed_comes_out_as_it_was() {
    let text = r#"{"base": [{"a": 1, "m": {"x": [null, 2]}, "profile": {"classes": [{"p": 0, "q": 1, "key": {"r": 1}}, {"p": 0, "q": 2, "key": {"r": 1}}]}, "o": {"k": 1}},
        {"a": 2, "m": {"y": [3, 4]}, "profile": {"classes": [{"p": 5, "q": 1, "key": {"r": 2}}]}}], "test": [{"a": 3, "m": {}}, {"a": 4, "m": {}}]}"#;
    let document: Value = serde_json::from_str(text).unwrap();
    let packed = packed(document.clone());
    assert_eq!(packed["base"]["a"], serde_json::json!([1, 2]));
    assert_eq!(packed["class_template"], serde_json::json!({"p": 0, "q": 1, "key/r": 1}));
    assert_eq!(unpacked(packed, 2), document);
}
