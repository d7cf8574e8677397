//! Notes on single values: what is read otherwise than it looks, and what is done instead of what was asked.

use crate::blocks::SizeSplit;
use crate::options::OptionDef;
use crate::units::{ParseContext, fraction, has_swapped_prefix, last_of_list, unread};
use crate::unsupported;
use crate::workload::Given;

/// The notes on an option that was read; `def` is `None` for one that pagelab accepts without having it.
pub(crate) fn on(def: Option<&OptionDef>, given: &Given, context: ParseContext) -> Vec<String> {
    let value = given.value.as_deref().unwrap_or("1");
    let said = match def {
        None => deprecated(given).or_else(|| done_instead(given)),
        Some(def) if def.name == "clocksource" && value.trim() == "gettimeofday" => Some(
            "clock_gettime(CLOCK_MONOTONIC) is read instead; gettimeofday(2) counts in us and can be set back"
                .to_owned(),
        ),
        Some(def) if def.name == "bssplit" => uneven(value),
        Some(def) if def.name == "atomic" && value.trim() == "1" => {
            Some("direct=1 is set, as in fio; Linux has no O_ATOMIC and passes over it".to_owned())
        }
        Some(def) => [listed, fractional, behind_the_number, passed_over]
            .iter()
            .find_map(|look| look(def, value))
            .or_else(|| swapped(def, value, context)),
    };
    said.map(|said| note(given, &said)).into_iter().collect()
}

fn note(given: &Given, said: &str) -> String {
    match &given.value {
        Some(value) => format!("{}: {}={value}: {said}", given.origin, given.name),
        None => format!("{}: {}: {said}", given.origin, given.name),
    }
}

/// What is done instead of what is asked, unless it is what fio takes when nothing is said.
fn done_instead(given: &Given) -> Option<String> {
    let asks_nothing = unsupported::is_default(&given.name, given.value.as_deref());
    unsupported::instead(&given.name).filter(|_| !asks_nothing).map(str::to_owned)
}

/// Options that fio itself passes over.
fn deprecated(given: &Given) -> Option<String> {
    let said = "deprecated: fio passes over it, and so does pagelab";
    if unsupported::is_deprecated(&given.name) { Some(said.to_owned()) } else { None }
}

/// Whether numbers stand in the option's values.
fn is_number(def: &OptionDef) -> bool {
    ["size", "int", "time", "signed"].iter().any(|kind| def.kind.starts_with(kind))
}

/// The kinds whose values may be ranges: what follows a dash belongs to them.
fn is_range(def: &OptionDef) -> bool {
    def.kind.contains("range")
}

/// Several values where one is read, or one for each direction.
fn listed(def: &OptionDef, value: &str) -> Option<String> {
    let value = value.trim();
    if !is_number(def) || is_range(def) || value.contains(['(', ',']) {
        return None;
    }
    if def.kind.starts_with("size[") && value.contains([':', '-']) {
        return Some("read as values for reads, writes and trims, as in fio; a range is written bsrange=, sizes with shares bssplit=".to_owned());
    }
    let last = last_of_list(value);
    let is_list = def.kind.starts_with("size") && last != value && !value.starts_with('-');
    is_list.then(|| format!("the last of several values holds, {last}, as in fio"))
}

/// A fraction of a unit.
fn fractional(def: &OptionDef, value: &str) -> Option<String> {
    if !def.kind.starts_with("size") {
        return None;
    }
    let (whole, ..) = value.split(',').find_map(fraction)?;
    Some(format!("read as the fraction that it is; fio reads the {whole} alone, as bytes"))
}

/// A switch with more than its number.
fn behind_the_number(def: &OptionDef, value: &str) -> Option<String> {
    let rest = value.trim().trim_start_matches(|c: char| c.is_ascii_digit());
    (def.kind == "bool" && !rest.is_empty()).then(|| format!("'{rest}' is passed over, as in fio"))
}

/// Arithmetic outside of parentheses.
fn passed_over(def: &OptionDef, value: &str) -> Option<String> {
    if !is_number(def) || is_range(def) {
        return None;
    }
    let found = value.split(',').find_map(|part| unread(part).filter(|rest| !rest.starts_with('%')))?;
    Some(format!("'{found}' is passed over, as in fio, which calculates in parentheses only: {}=({value})", def.name))
}

/// Prefixes of the standards, which `kb_base=1024` turns around.
fn swapped(def: &OptionDef, value: &str, context: ParseContext) -> Option<String> {
    let is_size = def.kind.starts_with("size");
    if context.kb_base != 1024 || !is_size || !value.split([',', '/']).any(has_swapped_prefix) {
        return None;
    }
    Some(
        "with kb_base=1024 the ib forms are powers of ten, as in fio (4KiB is 4000 bytes); write 4k for 4096"
            .to_owned(),
    )
}

/// Shares that are not 100 together.
fn uneven(value: &str) -> Option<String> {
    let sum = value.split(',').filter_map(SizeSplit::written_sum).find(|sum| *sum != 100)?;
    Some(if sum < 100 {
        format!(
            "the shares are {sum}% together; the rest goes to the greatest share, as in fio; 16k/ without a share takes what the others leave"
        )
    } else {
        format!(
            "the shares are {sum}% together; what is beyond 100% is never drawn, as in fio, which begins at the least share"
        )
    })
}
