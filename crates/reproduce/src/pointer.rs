//! Pointers into JSON documents: RFC 6901, and three kinds of parts beyond it, since lists of pagelab's documents are
//! sorted by what was found and have no fixed places.
//!
//! JSONPath (RFC 9535, crate serde_json_path) does not read these expressions, which recipes and `measured.toml` have, and it
//! cannot ask for the place of an element in its list: `#[...]`, "which rank has this metric".

use serde_json::Value;

/// What a pointer needs, said to whoever wrote one that is wrong.
const NEEDED: &str = "a pointer such as \"/primary/ratio\", \"/cases/*/result\", \"/metrics/[name=faults.user]/q\" or \"/metrics/#[name=faults.user]\"";

/// A pointer that is right as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A key of an object or an index of a list.
    Key(String),
    /// Every element of a list.
    All,
    /// The first element whose keys have these values.
    First(Vec<(String, String)>),
    /// Its place in the list, from 1.
    Place(Vec<(String, String)>),
}

impl Pointer {
    /// Reads a pointer; the error is what is needed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix('/').ok_or_else(|| NEEDED.to_owned())?;
        let parts: Option<Vec<Part>> = rest.split('/').map(part).collect();
        let parts = parts.ok_or_else(|| NEEDED.to_owned())?;
        let place_inside = parts.iter().rev().skip(1).any(|part| matches!(part, Part::Place(_)));
        if place_inside { Err("a place #[...] at the end of the pointer only".to_owned()) } else { Ok(Self { parts }) }
    }

    /// Every value that it reaches; the error says where the way ended.
    pub(crate) fn reach(&self, document: &Value) -> Result<Vec<Value>, String> {
        let mut reached = vec![document.clone()];
        for (depth, part) in self.parts.iter().enumerate() {
            let mut next = Vec::new();
            for value in &reached {
                next.extend(part.step(value).ok_or_else(|| format!("the document has no {}", self.shown(depth)))?);
            }
            reached = next;
        }
        Ok(reached)
    }

    /// The pointer up to and with a part.
    fn shown(&self, depth: usize) -> String {
        let conditions = |pairs: &[(String, String)]| {
            pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        };
        let parts = self.parts.iter().take(depth + 1).map(|part| match part {
            Part::Key(key) => format!("/{key}"),
            Part::All => "/*".to_owned(),
            Part::First(pairs) => format!("/[{}]", conditions(pairs)),
            Part::Place(pairs) => format!("/#[{}]", conditions(pairs)),
        });
        parts.collect()
    }
}

fn part(text: &str) -> Option<Part> {
    let plain = |text: &str| text.replace("~1", "/").replace("~0", "~");
    let conditions = |inside: &str| -> Option<Vec<(String, String)>> {
        let pairs = inside.split(',').map(|pair| pair.split_once('=').map(|(key, value)| (plain(key), plain(value))));
        pairs.collect()
    };
    let bracketed = |text: &str| text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).map(str::to_owned);
    if text == "*" {
        return Some(Part::All);
    }
    if let Some(inside) = text.strip_prefix('#').and_then(bracketed) {
        return conditions(&inside).map(Part::Place);
    }
    match bracketed(text) {
        Some(inside) => conditions(&inside).map(Part::First),
        None => Some(Part::Key(plain(text))),
    }
}

impl Part {
    fn step(&self, value: &Value) -> Option<Vec<Value>> {
        match self {
            Self::Key(key) => match value {
                Value::Array(list) => list.get(key.parse::<usize>().ok()?).map(|value| vec![value.clone()]),
                other => other.get(key).map(|value| vec![value.clone()]),
            },
            Self::All => value.as_array().cloned(),
            Self::First(pairs) => {
                let list = value.as_array()?;
                list.iter().find(|element| fits(element, pairs)).map(|element| vec![element.clone()])
            }
            Self::Place(pairs) => {
                let place = value.as_array()?.iter().position(|element| fits(element, pairs))?;
                Some(vec![Value::from(place + 1)])
            }
        }
    }
}

fn fits(element: &Value, pairs: &[(String, String)]) -> bool {
    pairs.iter().all(|(key, wanted)| match element.get(key) {
        Some(Value::String(text)) => text == wanted,
        Some(Value::Null) => wanted == "null",
        Some(Value::Bool(truth)) => wanted == if *truth { "true" } else { "false" },
        Some(Value::Number(number)) => wanted.parse().is_ok_and(|wanted: f64| number.as_f64() == Some(wanted)),
        Some(_) => false,
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reach(pointer: &str) -> Result<Vec<Value>, String> {
        let document = json!({
            "primary": {"ratio": 0.79},
            "cases": [{"name": "a/b", "result": "pass", "n": 2}, {"name": "c", "result": "fail", "n": null}],
        });
        Pointer::parse(pointer)?.reach(&document)
    }

    #[test]
    fn parts_lead_by_key_by_element_and_to_the_place_of_an_element() {
        assert_eq!(reach("/primary/ratio").unwrap(), [json!(0.79)]);
        assert_eq!(reach("/cases/*/result").unwrap(), [json!("pass"), json!("fail")]);
        assert_eq!(reach("/cases/[name=a~1b]/result").unwrap(), [json!("pass")]);
        assert_eq!(reach("/cases/[result=fail,n=null]/name").unwrap(), [json!("c")]);
        assert_eq!(reach("/cases/#[name=c]").unwrap(), [json!(2)]);
        assert_eq!(reach("/cases/1/name").unwrap(), [json!("c")]);
    }

    #[test]
    fn a_way_that_ends_says_where() {
        assert_eq!(reach("/cases/[name=x]/result").unwrap_err(), "the document has no /cases/[name=x]");
        assert_eq!(reach("/primary/p").unwrap_err(), "the document has no /primary/p");
        assert!(reach("primary").unwrap_err().contains("such as"));
        assert!(reach("/cases/#[name=c]/x").unwrap_err().contains("at the end"));
        assert!(reach("/cases/[name]").is_err());
    }
}
