//! From the text of a plan to a [`Plan`], every mistake reported with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_host::process::ProcessSettings;
use pagelab_host::settings::SettingError;
use pagelab_observe::streams::StreamSet;
use pagelab_session::VALUE_PREFIX;
use pagelab_vocab::metrics::{MetricKind, metric};
use pagelab_vocab::nearest::hint_for;
use pagelab_vocab::settings::{Scope, nearest, setting};

use super::fill::has_placeholder;
use super::{Better, Between, Decoys, LabPlan, Plan, PlannedSetting, PrimaryMetric, ValueSpec, Variant, Work, lab};
use crate::decoys::PoolEntry;
use crate::document::{Item, Table, with_document};
use crate::error::PlanError;

/// Most rounds of a plan: a slip of the finger should not start a week of runs.
const MOST_RUNS: u64 = 10_000;

/// Where one variant begins; also what a plan without variants is told to write.
const VARIANT_EXAMPLE: &str =
    "two tables such as [variant.good] and [variant.bad], each with job = \"FILE.fio\" or command = \"...\"";

/// Keys of the top table.
const TOP_KEYS: &[&str] = &[
    "title", "runs", "seed", "observe", "primary", "value", "warmup", "prepare", "cleanup", "between", "timeout",
    "workdir", "base", "job", "command", "settings", "decoys", "variant", "lab",
];

pub(super) fn plan(shown: &Path, absolute: &Path, text: &str) -> Result<Plan, PlanError> {
    with_document(shown, text, |top| {
        top.only(TOP_KEYS)?;
        let dir = absolute.parent().unwrap_or(Path::new("/"));
        let shared = Shared { work: work(top, dir)?, settings: settings(top)? };
        let variants = variants(top, dir, &shared)?;
        let base = base(top, &variants)?;
        let values = top.get("value").map_or(Ok(Vec::new()), |item| values(&item))?;
        let lab = top.get("lab").map(|item| lab::lab(&item)).transpose()?;
        check_boot_settings(lab.as_ref(), &variants)?;
        let mut plan = Plan {
            path: absolute.to_owned(),
            title: title(top, absolute)?,
            runs: runs(top)?,
            seed: top.get("seed").map(|item| item.number(0, (1 << 53) - 1)).transpose()?,
            observe: observe(top)?,
            primary: top.get("primary").map(|item| primary(&item, &values)).transpose()?,
            values,
            warmup: top.get("warmup").map_or(Ok(0), |item| item.number(0, 100))? as usize,
            prepare: top.get("prepare").map(|item| program(&item)).transpose()?,
            cleanup: top.get("cleanup").map(|item| program(&item)).transpose()?,
            between: top.get("between").map_or(Ok(Vec::new()), |item| between(&item))?,
            timeout: top.get("timeout").map(|item| duration(&item)).transpose()?,
            workdir: top.get("workdir").map(|item| item.words()).transpose()?,
            base,
            variants,
            decoys: top.get("decoys").map(|item| decoys(&item)).transpose()?,
            lab,
            notes: Vec::new(),
        };
        refuse_in_lab(&plan)?;
        plan.notes = notes(&plan);
        Ok(plan)
    })
}

/// What holds for all variants.
struct Shared {
    work: Option<Work>,
    settings: BTreeMap<String, PlannedSetting>,
}

fn title(top: &Table<'_>, path: &Path) -> Result<String, PlanError> {
    match top.get("title") {
        Some(item) => item.words(),
        None => Ok(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()),
    }
}

fn runs(top: &Table<'_>) -> Result<usize, PlanError> {
    match top.get("runs") {
        Some(item) => Ok(item.number(2, MOST_RUNS)? as usize),
        None => Err(PlanError::Missing {
            at: top.at().clone(),
            what: "`runs`".to_owned(),
            needed: "runs of each variant, at least 2: runs = 10".to_owned(),
        }),
    }
}

fn observe(top: &Table<'_>) -> Result<String, PlanError> {
    let Some(item) = top.get("observe") else { return Ok("default".to_owned()) };
    let list = item.texts()?.join(",");
    match StreamSet::parse(&list) {
        Ok(_) => Ok(list),
        Err(error) => Err(item.wrong(error.to_string().trim_start_matches("--observe: ").to_owned())),
    }
}

/// The table `value`: a regular expression for each name, or a table with it and the direction.
fn values(item: &Item<'_>) -> Result<Vec<ValueSpec>, PlanError> {
    let mut out = Vec::new();
    for item in item.table()?.items() {
        let (regex, direction) = if item.is_table() {
            let table = item.table()?;
            table.only(&["regex", "direction"])?;
            let Some(regex) = table.get("regex") else {
                return Err(item.wrong("`regex`: { regex = \"tps = ([0-9.]+)\", direction = \"higher\" }"));
            };
            (regex.words()?, table.get("direction").map(|item| direction(&item)).transpose()?)
        } else {
            (item.words()?, None)
        };
        out.push(ValueSpec::new(&item.key, direction, &regex).map_err(|error| item.wrong(error))?);
    }
    Ok(out)
}

fn direction(item: &Item<'_>) -> Result<Better, PlanError> {
    item.text()?.parse().map_err(|_| item.wrong("\"higher\" or \"lower\", whichever is better"))
}

fn primary(item: &Item<'_>, values: &[ValueSpec]) -> Result<PrimaryMetric, PlanError> {
    let table = item.table()?;
    table.only(&["metric", "direction"])?;
    let Some(name) = table.get("metric") else {
        return Err(PlanError::Missing {
            at: table.at().clone(),
            what: "primary.metric".to_owned(),
            needed: "the metric that is to be compared: primary = { metric = \"load.iops\", direction = \"higher\" }"
                .to_owned(),
        });
    };
    let metric_name = name.words()?;
    if metric_name.starts_with(VALUE_PREFIX) && !values.iter().any(|value| value.metric() == metric_name) {
        let known: Vec<String> = values.iter().map(ValueSpec::metric).collect();
        let found = if known.is_empty() { "this plan has none".to_owned() } else { known.join(", ") };
        return Err(
            name.wrong(format!("a number that the plan looks for in the output, in its table `value` ({found})"))
        );
    }
    // A statistic of a histogram is named after it: load.lat_ns.p99.
    let declared = metric(&metric_name).or_else(|| metric(metric_name.rsplit_once('.')?.0));
    if declared.is_none() {
        let names: Vec<String> = pagelab_vocab::metrics::declared().map(|info| info.name).collect();
        let near = hint_for(&metric_name, names.iter().map(String::as_str));
        return Err(name.wrong(format!("a metric of docs/metrics.md{near}")));
    }
    if metric(&metric_name).is_some_and(|info| info.kind == MetricKind::Histogram) {
        return Err(name.wrong(format!("one number of the histogram: {metric_name}.mean, .p50 or .p99")));
    }
    let direction = match table.get("direction") {
        None => None,
        Some(item) => Some(direction(&item)?),
    };
    Ok(PrimaryMetric { metric: metric_name, direction })
}

/// A program: a text is for the shell, a list is program and arguments.
fn program(item: &Item<'_>) -> Result<Vec<String>, PlanError> {
    let words = item.texts()?;
    let first = words.first().map(|word| word.trim()).unwrap_or_default();
    if first.is_empty() || words.iter().any(|word| word.contains('\0')) {
        return Err(item.wrong("a command line in quotes, or program and arguments in [ ], without NUL bytes"));
    }
    if item.is_list() {
        return Ok(words);
    }
    Ok(["/bin/sh".to_owned(), "-c".to_owned()].into_iter().chain(words).collect())
}

fn between(item: &Item<'_>) -> Result<Vec<Between>, PlanError> {
    let words: Vec<String> =
        item.texts()?.iter().flat_map(|text| text.split([' ', ',']).map(str::to_owned).collect::<Vec<_>>()).collect();
    let mut steps = Vec::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        if let Some((step, _)) = Between::ALL.iter().find(|(_, known)| known == word) {
            steps.push(*step);
        } else {
            let known: Vec<&str> = Between::ALL.iter().map(|(_, word)| *word).collect();
            let near = hint_for(word, known.iter().copied());
            return Err(item.wrong(format!("a list out of {}{}", known.join(", "), near)));
        }
    }
    Ok(steps)
}

/// Whole seconds, or text with a unit: `"90s"`, `"500ms"`, `"2m"`, `"1h"`.
pub(crate) fn duration(item: &Item<'_>) -> Result<Duration, PlanError> {
    let needed = "a time above 0: whole seconds, or text such as \"90s\", \"500ms\", \"2m\", \"1h\"";
    let millis = match item.setting_value() {
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
    millis.filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(|| item.wrong(needed))
}

/// `job` or `command` of a table; not both.
fn work(table: &Table<'_>, dir: &Path) -> Result<Option<Work>, PlanError> {
    match (table.get("job"), table.get("command")) {
        (None, None) => Ok(None),
        (Some(_), Some(command)) => Err(command.wrong("either job or command, not both in one table")),
        (None, Some(command)) => Ok(Some(Work::Command(program(&command)?))),
        (Some(job), None) => {
            let names = job.texts()?;
            if names.is_empty() || names.iter().any(|name| name.trim().is_empty()) {
                return Err(job.wrong("the name of a job file, or a list of them"));
            }
            let files: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
            for path in &files {
                let is_there = std::fs::metadata(path).and_then(|_| std::fs::File::open(path));
                if let Err(error) = is_there {
                    let reason = error.to_string();
                    return Err(PlanError::NoJob { at: job.at.clone(), path: path.clone(), reason });
                }
            }
            let workload =
                pagelab_fiojob::parse_files(&files).map_err(|error| PlanError::Job { at: job.at.clone(), error })?;
            Ok(Some(Work::Job { files, workload: Box::new(workload) }))
        }
    }
}

/// The table `settings`: keys in quotes (`"thp.enabled" = "always"`), or dotted, which makes tables in tables.
fn settings(table: &Table<'_>) -> Result<BTreeMap<String, PlannedSetting>, PlanError> {
    let mut out = BTreeMap::new();
    if let Some(item) = table.get("settings") {
        collect_settings(&item.table()?, "", &mut out)?;
    }
    Ok(out)
}

fn collect_settings(
    table: &Table<'_>,
    prefix: &str,
    out: &mut BTreeMap<String, PlannedSetting>,
) -> Result<(), PlanError> {
    for item in table.items() {
        let key = if prefix.is_empty() { item.key.clone() } else { format!("{prefix}.{}", item.key) };
        if item.is_table() {
            collect_settings(&item.table()?, &key, out)?;
            continue;
        }
        let value = item.setting_value()?;
        let key = checked_key(&key, &value).map_err(|error| PlanError::Setting { at: item.at.clone(), error })?;
        if out.contains_key(&key) {
            return Err(item.wrong(format!("one value: {key} is set twice in this table")));
        }
        out.insert(key, PlannedSetting { value, at: item.at });
    }
    Ok(())
}

/// The key in its one spelling, if the vocabulary lets a plan set it. Whether the host has it is looked at later.
fn checked_key(key: &str, value: &str) -> Result<String, SettingError> {
    if has_placeholder(key) {
        return Ok(key.to_owned());
    }
    let Some(info) = setting(key) else {
        let found = "no namespace has it".to_owned();
        return Err(SettingError::Unknown { key: key.to_owned(), found, nearest: nearest(key) });
    };
    match info.def.scope {
        Scope::ReadOnly => Err(SettingError::ReadOnly { key: info.key, why: info.def.help.to_owned() }),
        Scope::Process => ProcessSettings::from_pairs([(info.key.as_str(), value)]).map(|_| info.key),
        // Whether there is a lab to boot is looked at when the whole plan is known.
        Scope::Host | Scope::Boot => Ok(info.key),
    }
}

fn variants(top: &Table<'_>, dir: &Path, shared: &Shared) -> Result<Vec<Variant>, PlanError> {
    let missing = |at, found: String| PlanError::Value {
        at,
        key: "variant".to_owned(),
        found,
        needed: format!("at least 2 variants: {VARIANT_EXAMPLE}"),
    };
    let Some(item) = top.get("variant") else {
        return Err(missing(top.at().clone(), "no variant".to_owned()));
    };
    let table = item.table()?;
    let mut out = Vec::new();
    for item in table.items() {
        out.push(variant(&item, dir, shared)?);
    }
    if out.len() < 2 {
        let found = out.first().map_or("no variant".to_owned(), |only| format!("only one, {}", only.name));
        return Err(missing(item.at.clone(), found));
    }
    Ok(out)
}

fn variant(item: &Item<'_>, dir: &Path, shared: &Shared) -> Result<Variant, PlanError> {
    let table = item.table()?;
    table.only(&["job", "command", "settings"])?;
    let name = item.key.clone();
    // The name becomes a folder, `variant=NAME`, and a value in SQL.
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(fits) {
        return Err(PlanError::Value {
            at: item.at.clone(),
            key: "variant".to_owned(),
            found: format!("the name {name:?}"),
            needed: "a name of letters, digits and - _ . +, at most 64, that does not begin with a dot".to_owned(),
        });
    }
    let Some(work) = work(&table, dir)?.or_else(|| shared.work.clone()) else {
        return Err(PlanError::Missing {
            at: item.at.clone(),
            what: format!("what [{}] runs", item.name),
            needed: "job = \"FILE.fio\" or command = \"...\", there or, for all variants, above the first table"
                .to_owned(),
        });
    };
    let mut all = shared.settings.clone();
    all.extend(settings(&table)?);
    Ok(Variant { name, work, settings: all, at: item.at.clone() })
}

fn base(top: &Table<'_>, variants: &[Variant]) -> Result<String, PlanError> {
    let names = || variants.iter().map(|variant| variant.name.as_str());
    match top.get("base") {
        None => Ok(names().next().unwrap_or_default().to_owned()),
        Some(item) => {
            let base = item.text()?;
            if names().any(|name| name == base) {
                return Ok(base);
            }
            Err(item.wrong(format!("the name of a variant: {}", names().collect::<Vec<_>>().join(", "))))
        }
    }
}

fn decoys(item: &Item<'_>) -> Result<Decoys, PlanError> {
    let table = item.table()?;
    table.only(&["count", "pool"])?;
    let count = table.get("count").map_or(Ok(8), |item| item.number(1, 1000))? as usize;
    let mut pool = Vec::new();
    if let Some(item) = table.get("pool") {
        for item in item.table()?.items() {
            let values = item.texts()?;
            let [one, other] = values.as_slice() else {
                return Err(item.wrong("two harmless values: \"KEY\" = [\"ONE\", \"OTHER\"]"));
            };
            if one == other {
                return Err(item.wrong("two values that differ"));
            }
            let mut key = String::new();
            for value in [one, other] {
                key =
                    checked_key(&item.key, value).map_err(|error| PlanError::Setting { at: item.at.clone(), error })?;
            }
            pool.push(PoolEntry { key, values: [one.clone(), other.clone()] });
        }
        let distinct: BTreeSet<&str> = pool.iter().map(|entry| entry.key.as_str()).collect();
        if distinct.len() != pool.len() {
            return Err(item.wrong("each setting once"));
        }
    }
    Ok(Decoys { count, pool, at: item.at.clone() })
}

/// Settings that are decided at boot need something that boots.
fn check_boot_settings(lab: Option<&LabPlan>, variants: &[Variant]) -> Result<(), PlanError> {
    let settings = variants.iter().flat_map(|variant| &variant.settings);
    for (key, setting) in settings.filter(|(key, _)| lab::is_boot_key(key)) {
        if lab.is_none() {
            let error = SettingError::AtBoot { key: key.clone() };
            return Err(PlanError::Setting { at: setting.at.clone(), error });
        }
        lab::check_setting(key, setting)?;
    }
    Ok(())
}

/// What a plan cannot have together with `[lab]`.
fn refuse_in_lab(plan: &Plan) -> Result<(), PlanError> {
    match (&plan.lab, &plan.decoys) {
        (Some(_), Some(decoys)) => Err(PlanError::Value {
            at: decoys.at.clone(),
            key: "decoys".to_owned(),
            found: "it together with [lab]".to_owned(),
            needed: "one of them: harmless differences are drawn from the settings of this host".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(first) = plan.variants.first() else { return notes };
    let same = |other: &Variant| other.work == first.work && other.settings == first.settings;
    if plan.variants.iter().all(same) {
        notes.push("all variants are the same: an A/A plan, in which every finding is a false one".to_owned());
    }
    notes
}
