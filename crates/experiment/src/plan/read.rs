//! From the text of a plan to a [`Plan`], every mistake reported with its line.
//!
//! Serde reads the text into [`PlanText`] and the types of its fields, which refuse what is wrong by itself: a number out of
//! its range, a word that is not known. What follows from other keys, the vocabulary or job files is checked from there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pagelab_host::process::ProcessSettings;
use pagelab_host::settings::SettingError;
use pagelab_lab::VmArgs;
use pagelab_observe::streams::StreamSet;
use pagelab_session::VALUE_PREFIX;
use pagelab_vocab::metrics::{MetricKind, metric};
use pagelab_vocab::nearest::hint_for;
use pagelab_vocab::settings::{Scope, nearest, setting};
use serde::Deserialize;
use toml::Spanned;

use super::fill::has_placeholder;
use super::{Better, Between, Decoys, LabPlan, Plan, PlannedSetting, PrimaryMetric, ValueSpec, Variant, Work, lab};
use crate::checked;
use crate::decoys::PoolEntry;
use crate::document::{Document, InOrder, Period, TextOr, Texts, Whole, Words};
use crate::error::PlanError;

/// Most rounds of a plan: a slip of the finger should not start a week of runs.
const MOST_RUNS: u64 = 10_000;

/// Seeds up to here are exact in JSON.
const MOST_SEED: u64 = (1 << 53) - 1;

/// The beginning of one variant; also the example in the error for a plan without variants.
const VARIANT_EXAMPLE: &str =
    "two tables such as [variant.good] and [variant.bad], each with job = \"FILE.fio\" or command = \"...\"";

/// What may stand in a plan; messages name the keys in this order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    title: Option<Words>,
    runs: Option<Whole<2, MOST_RUNS>>,
    seed: Option<Whole<0, MOST_SEED>>,
    observe: Option<Streams>,
    primary: Option<PrimaryText>,
    value: Option<InOrder<TextOr<ValueText>>>,
    warmup: Option<Whole<0, 100>>,
    prepare: Option<Program>,
    cleanup: Option<Program>,
    between: Option<Steps>,
    timeout: Option<Period>,
    workdir: Option<Words>,
    base: Option<Spanned<String>>,
    job: Option<Spanned<JobFiles>>,
    command: Option<Spanned<Program>>,
    settings: Option<SettingsText>,
    decoys: Option<DecoysText>,
    variant: Option<InOrder<VariantText>>,
    lab: Option<VmArgs>,
}

/// A table of `variant`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct VariantText {
    job: Option<Spanned<JobFiles>>,
    command: Option<Spanned<Program>>,
    settings: Option<SettingsText>,
}

/// The table `settings`: keys in quotes (`"thp.enabled" = "always"`), or dotted, which makes tables in tables.
#[derive(Deserialize)]
#[serde(transparent)]
struct SettingsText(InOrder<TextOr<SettingsText>>);

/// The table `primary`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct PrimaryText {
    metric: Option<Spanned<Words>>,
    direction: Option<Direction>,
}

/// A number to look for, with its direction.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct ValueText {
    regex: Option<Words>,
    direction: Option<Direction>,
}

/// The table `decoys`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct DecoysText {
    count: Option<Whole<1, 1000>>,
    pool: Option<InOrder<Texts>>,
}

checked! {
    /// Streams to observe, as `--observe` takes them.
    struct Streams(String) from Texts: |texts| {
        let list = texts.into_vec().join(",");
        match StreamSet::parse(&list) {
            Ok(_) => Ok(list),
            Err(error) => Err(error.to_string().trim_start_matches("--observe: ").to_owned()),
        }
    }
}

checked! {
    /// A program: a text is for the shell, a list is program and arguments.
    struct Program(Vec<String>) from Texts: |texts| {
        let words = match texts {
            Texts::One(line) if line.trim().is_empty() => Vec::new(),
            Texts::One(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line],
            Texts::List(words) => words,
        };
        let no_program = words.first().is_none_or(|program| program.trim().is_empty());
        if no_program || words.iter().any(|word| word.contains('\0')) {
            return Err("a command line in quotes, or program and arguments in [ ], without NUL bytes");
        }
        Ok(words)
    }
}

checked! {
    /// Names of job files.
    struct JobFiles(Vec<String>) from Texts: |texts| {
        let names = texts.into_vec();
        if names.is_empty() || names.iter().any(|name| name.trim().is_empty()) {
            return Err("the name of a job file, or a list of them");
        }
        Ok(names)
    }
}

checked! {
    /// The steps between runs: a list, or words with blanks or commas between them.
    struct Steps(Vec<Between>) from Texts: |texts| {
        let mut steps = Vec::new();
        let texts = texts.into_vec();
        for word in texts.iter().flat_map(|text| text.split([' ', ','])).filter(|word| !word.is_empty()) {
            let Some((step, _)) = Between::ALL.iter().find(|(_, known)| *known == word) else {
                let known = Between::ALL.map(|(_, word)| word);
                return Err(format!("a list out of {}{}", known.join(", "), hint_for(word, known)));
            };
            steps.push(*step);
        }
        Ok(steps)
    }
}

checked! {
    /// Which way a number is better.
    struct Direction(Better) from String: |word| {
        word.parse().map_err(|_| "\"higher\" or \"lower\", whichever is better")
    }
}

pub(super) fn plan(shown: &Path, absolute: &Path, text: &str) -> Result<Plan, PlanError> {
    let document = Document::parse(shown, text)?;
    let text: PlanText = document.read()?;
    let dir = absolute.parent().unwrap_or(Path::new("/"));
    let reader = Reader { document, dir };
    let work = reader.work(text.job, text.command)?;
    let shared = Shared { work, settings: reader.settings(text.settings)? };
    let variants = reader.variants(text.variant, &shared)?;
    let base = reader.base(text.base, &variants)?;
    let values = reader.values(text.value)?;
    let lab = text.lab.map(|lab| lab::lab(&lab, &reader.document)).transpose()?;
    check_boot_settings(lab.as_ref(), &variants)?;
    let Some(Whole(runs)) = text.runs else {
        let needed = "runs of each variant, at least 2: runs = 10";
        return Err(reader.document.missing(&TOP, "`runs`", needed));
    };
    let file_stem = || absolute.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut plan = Plan {
        path: absolute.to_owned(),
        title: text.title.map_or_else(file_stem, |title| title.0),
        runs: runs as usize,
        seed: text.seed.map(|seed| seed.0),
        observe: text.observe.map_or_else(|| "default".to_owned(), |streams| streams.0),
        primary: text.primary.map(|primary| reader.primary(primary, &values)).transpose()?,
        values,
        warmup: text.warmup.map_or(0, |runs| runs.0 as usize),
        prepare: text.prepare.map(|program| program.0),
        cleanup: text.cleanup.map(|program| program.0),
        between: text.between.map_or_else(Vec::new, |steps| steps.0),
        timeout: text.timeout.map(|period| period.0),
        workdir: text.workdir.map(|words| words.0),
        base,
        variants,
        decoys: text.decoys.map(|decoys| reader.decoys(decoys)).transpose()?,
        lab,
        notes: Vec::new(),
    };
    refuse_in_lab(&plan)?;
    plan.notes = notes(&plan);
    Ok(plan)
}

/// Where the top table begins.
const TOP: Range<usize> = 0..0;

/// What holds for all variants.
struct Shared {
    work: Option<Work>,
    settings: BTreeMap<String, PlannedSetting>,
}

/// Checks what a plan means; for the messages it has the document, and for job files the plan's folder.
struct Reader<'a> {
    document: Document<'a>,
    dir: &'a Path,
}

impl Reader<'_> {
    /// The table `value`: a regular expression for each name, or a table with it and the direction.
    fn values(&self, text: Option<InOrder<TextOr<ValueText>>>) -> Result<Vec<ValueSpec>, PlanError> {
        let mut out = Vec::new();
        for (name, value) in text.map(|values| values.0).unwrap_or_default() {
            let (regex, direction) = match value {
                TextOr::Text(regex) => (Some(regex), None),
                TextOr::Table(table) => (table.regex.map(|words| words.0), table.direction),
            };
            let wrong = |needed: String| self.document.wrong(&name.span(), needed);
            let Some(regex) = regex.filter(|regex| !regex.trim().is_empty()) else {
                return Err(wrong("`regex`: { regex = \"tps = ([0-9.]+)\", direction = \"higher\" }".to_owned()));
            };
            let direction = direction.map(|direction| direction.0);
            out.push(ValueSpec::new(name.get_ref(), direction, &regex).map_err(wrong)?);
        }
        Ok(out)
    }

    fn primary(&self, text: PrimaryText, values: &[ValueSpec]) -> Result<PrimaryMetric, PlanError> {
        let Some(name) = text.metric else {
            let needed =
                "the metric that is to be compared: primary = { metric = \"load.iops\", direction = \"higher\" }";
            return Err(self.document.missing(&self.document.span_of("primary"), "primary.metric", needed));
        };
        let wrong = |needed: String| self.document.wrong(&name.span(), needed);
        let Words(metric_name) = name.get_ref().clone();
        if metric_name.starts_with(VALUE_PREFIX) && !values.iter().any(|value| value.metric() == metric_name) {
            let known: Vec<String> = values.iter().map(ValueSpec::metric).collect();
            let found = if known.is_empty() { "this plan has none".to_owned() } else { known.join(", ") };
            return Err(wrong(format!(
                "a number that the plan looks for in the output, in its table `value` ({found})"
            )));
        }
        // A statistic of a histogram is named after it: load.lat_ns.p99.
        let declared = metric(&metric_name).or_else(|| metric(metric_name.rsplit_once('.')?.0));
        if declared.is_none() {
            let names: Vec<String> = pagelab_vocab::metrics::declared().map(|info| info.name).collect();
            let near = hint_for(&metric_name, names.iter().map(String::as_str));
            return Err(wrong(format!("a metric of docs/metrics.md{near}")));
        }
        if metric(&metric_name).is_some_and(|info| info.kind == MetricKind::Histogram) {
            return Err(wrong(format!("one number of the histogram: {metric_name}.mean, .p50 or .p99")));
        }
        Ok(PrimaryMetric { metric: metric_name, direction: text.direction.map(|direction| direction.0) })
    }

    /// `job` or `command` of a table; not both.
    fn work(
        &self,
        job: Option<Spanned<JobFiles>>,
        command: Option<Spanned<Program>>,
    ) -> Result<Option<Work>, PlanError> {
        match (job, command) {
            (None, None) => Ok(None),
            (Some(_), Some(command)) => {
                Err(self.document.wrong(&command.span(), "either job or command, not both in one table"))
            }
            (None, Some(command)) => Ok(Some(Work::Command(command.into_inner().0))),
            (Some(job), None) => self.job(&job).map(Some),
        }
    }

    fn job(&self, job: &Spanned<JobFiles>) -> Result<Work, PlanError> {
        let at = self.document.place(&job.span());
        let files: Vec<PathBuf> = job.get_ref().0.iter().map(|name| self.dir.join(name)).collect();
        for path in &files {
            let is_there = std::fs::metadata(path).and_then(|_| std::fs::File::open(path));
            if let Err(error) = is_there {
                return Err(PlanError::NoJob { at, path: path.clone(), reason: error.to_string() });
            }
        }
        let workload = pagelab_fiojob::parse_files(&files).map_err(|error| PlanError::Job { at, error })?;
        Ok(Work::Job { files, workload: Box::new(workload) })
    }

    fn settings(&self, text: Option<SettingsText>) -> Result<BTreeMap<String, PlannedSetting>, PlanError> {
        let mut out = BTreeMap::new();
        if let Some(text) = text {
            self.collect_settings(text, "", &mut out)?;
        }
        Ok(out)
    }

    fn collect_settings(
        &self,
        text: SettingsText,
        prefix: &str,
        out: &mut BTreeMap<String, PlannedSetting>,
    ) -> Result<(), PlanError> {
        for (word, value) in text.0.0 {
            let key = if prefix.is_empty() { word.get_ref().clone() } else { format!("{prefix}.{}", word.get_ref()) };
            let value = match value {
                TextOr::Table(table) => {
                    self.collect_settings(table, &key, out)?;
                    continue;
                }
                TextOr::Text(value) => value,
            };
            let at = self.document.place(&word.span());
            let key = checked_key(&key, &value).map_err(|error| PlanError::Setting { at: at.clone(), error })?;
            if out.contains_key(&key) {
                let needed = format!("one value: {key} is set twice in this table");
                return Err(self.document.wrong(&word.span(), needed));
            }
            out.insert(key, PlannedSetting { value, at });
        }
        Ok(())
    }

    fn variants(&self, text: Option<InOrder<VariantText>>, shared: &Shared) -> Result<Vec<Variant>, PlanError> {
        let mut out = Vec::new();
        for (name, text) in text.map(|tables| tables.0).unwrap_or_default() {
            out.push(self.variant(name, text, shared)?);
        }
        if out.len() < 2 {
            let found = out.first().map_or("no variant".to_owned(), |only| format!("only one, {}", only.name));
            return Err(PlanError::Value {
                at: self.document.place(&self.document.span_of("variant")),
                key: "variant".to_owned(),
                found,
                needed: format!("at least 2 variants: {VARIANT_EXAMPLE}"),
            });
        }
        Ok(out)
    }

    fn variant(&self, name: Spanned<String>, text: VariantText, shared: &Shared) -> Result<Variant, PlanError> {
        let span = name.span();
        let at = self.document.place(&span);
        let name = name.into_inner();
        // The name becomes a folder, `variant=NAME`, and a value in SQL.
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(fits) {
            return Err(PlanError::Value {
                at,
                key: "variant".to_owned(),
                found: format!("the name {name:?}"),
                needed: "a name of letters, digits and - _ . +, at most 64, that does not begin with a dot".to_owned(),
            });
        }
        let Some(work) = self.work(text.job, text.command)?.or_else(|| shared.work.clone()) else {
            let needed = "job = \"FILE.fio\" or command = \"...\", there or, for all variants, above the first table";
            return Err(self.document.missing(&span, &format!("what [variant.{name}] runs"), needed));
        };
        let mut all = shared.settings.clone();
        all.extend(self.settings(text.settings)?);
        Ok(Variant { name, work, settings: all, at })
    }

    fn base(&self, text: Option<Spanned<String>>, variants: &[Variant]) -> Result<String, PlanError> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let Some(base) = text else { return Ok(names.first().copied().unwrap_or_default().to_owned()) };
        if names.contains(&base.get_ref().as_str()) {
            return Ok(base.into_inner());
        }
        Err(self.document.wrong(&base.span(), format!("the name of a variant: {}", names.join(", "))))
    }

    fn decoys(&self, text: DecoysText) -> Result<Decoys, PlanError> {
        let mut pool = Vec::new();
        for (written, values) in text.pool.map(|pool| pool.0).unwrap_or_default() {
            let span = written.span();
            let [one, other] = &values.into_vec()[..] else {
                return Err(self.document.wrong(&span, "two harmless values: \"KEY\" = [\"ONE\", \"OTHER\"]"));
            };
            if one == other {
                return Err(self.document.wrong(&span, "two values that differ"));
            }
            let mut key = String::new();
            for value in [one, other] {
                key = checked_key(written.get_ref(), value)
                    .map_err(|error| PlanError::Setting { at: self.document.place(&span), error })?;
            }
            pool.push(PoolEntry { key, values: [one.clone(), other.clone()] });
        }
        let distinct: BTreeSet<&str> = pool.iter().map(|entry| entry.key.as_str()).collect();
        if distinct.len() != pool.len() {
            return Err(self.document.wrong(&self.document.span_of("decoys.pool"), "each setting once"));
        }
        let at = self.document.place(&self.document.span_of("decoys"));
        Ok(Decoys { count: text.count.map_or(8, |count| count.0 as usize), pool, at })
    }
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

/// Keys that a plan cannot have together with `[lab]`.
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
