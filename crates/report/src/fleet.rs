//! Answers about fleets as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pagelab_analysis::compare::Verdict;
use pagelab_analysis::trend::Scale;
use pagelab_fleet::answers::{
    Budget, CauseShown, Course, Difference, Drifting, MetricAsked, MetricDifference, Outlying, Reading,
    SettingContrast, SideValues, Summary,
};
use pagelab_fleet::compact::Compacted;
use pagelab_fleet::drift::DriftingSettings;
use pagelab_fleet::model::{Design, FleetComparison};
use pagelab_fleet::rollup::Day;
use pagelab_vocab::units::{quantity, significant};

use crate::paragraph::wrap;
use crate::style::Style;
use crate::table::{Table, left, right};

/// Rows of a list on the first screen.
const SHORT_LIST: usize = 8;
/// Letters of a setting's value in a table.
const VALUE_AT_MOST: usize = 28;

/// What a compaction did.
pub fn compacted(done: &Compacted, style: &Style) -> String {
    let days = match done.days.as_slice() {
        [] => "no day changed".to_owned(),
        [day] => format!("1 day ({day}) written anew"),
        [first, .., last] => format!("{} days ({first} to {last}) written anew", done.days.len()),
    };
    let counting =
        if done.excluded > 0 { format!(", of which {} count nowhere", done.excluded) } else { String::new() };
    let mut out = format!(
        "{} recordings: {} added{counting}, {} known, {} left out; {days}\n",
        done.found,
        done.added,
        done.unchanged,
        done.left_out.len()
    );
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in &done.left_out {
        reasons.entry(&one.reason).or_default().push(one.dir.display().to_string());
    }
    for (reason, dirs) in reasons.iter().take(SHORT_LIST) {
        let more = if dirs.len() > 1 { format!(" and {} more", dirs.len() - 1) } else { String::new() };
        let first = dirs.first().map_or("", String::as_str);
        out.push_str(&wrap(&format!("left out: {first}{more}: {reason}"), style.width, "  ", "    "));
    }
    noted(&done.notes, style, &mut out);
    out
}

/// What is in a fleet.
pub fn summary(summary: &Summary, style: &Style) -> String {
    let excluded: usize = summary.excluded.values().sum();
    let mut out = heading(
        &format!(
            "{} hosts, {} runs, {} ({} with runs).",
            summary.hosts,
            summary.runs,
            span(summary.days),
            plural(summary.days_with_runs, "day")
        ),
        style,
    );
    if let Some(metric) = &summary.metric {
        let spread =
            |sd: Option<f64>| sd.map_or_else(|| "-".to_owned(), |sd| deviation(sd, metric.scale, &metric.metric.unit));
        let text = format!(
            "{}: {} on the middle host; hosts spread by {}, runs of a host by {}; {} of {} hosts are outliers.",
            metric.metric.full_name(),
            value(metric.centre, &metric.metric.unit),
            spread(metric.sd_between_hosts),
            spread(metric.sd_within_hosts),
            metric.outliers,
            metric.hosts
        );
        out.push_str(&wrap(&text, style.width, "", "  "));
    }
    if !summary.labels.is_empty() {
        let mut table = Table::new([left("label"), left("values (hosts)")]).ruled().wide(style.width);
        for label in &summary.labels {
            let values =
                label.values.iter().map(|one| format!("{} ({})", cut(&one.value), one.hosts)).collect::<Vec<_>>();
            let more = if label.more_values > 0 { format!(", {} more", label.more_values) } else { String::new() };
            table.row([label.name.clone(), format!("{}{more}", values.join(", "))]);
        }
        out.push_str(&table.render());
    }
    if excluded > 0 {
        let reasons = summary.excluded.iter().map(|(reason, runs)| format!("{reason} ({runs})")).collect::<Vec<_>>();
        out.push_str(&wrap(&format!("{excluded} runs count nowhere: {}.", reasons.join(", ")), style.width, "", "  "));
    }
    noted(&summary.notes, style, &mut out);
    read(&summary.reading, style, &mut out);
    out
}

/// What differs between two values of a label.
pub fn difference(found: &Difference, is_whole: bool, style: &Style) -> String {
    let mut out = heading(&verdict(found), style);
    out.push_str(&wrap(&method(&found.primary), style.width, "", "  "));
    if let Some(budget) = &found.budget {
        out.push_str(&components(budget, is_whole, style));
    }
    // Several causes show in the same time: where one has its setting, the others are for those who ask.
    let has_setting = found.causes.iter().any(|cause| !cause.settings.is_empty());
    let shown = found.causes.iter().filter(|cause| is_whole || !has_setting || !cause.settings.is_empty());
    for cause in shown.take(if is_whole { usize::MAX } else { 3 }) {
        out.push_str(&wrap(&cause_text(cause), style.width, "cause: ", "  "));
    }
    if found.causes.is_empty() && found.budget.is_some() {
        out.push_str("cause: none is shown: no cause's components took more time on the slower side.\n");
    }
    out.push_str(&contrasts(&found.settings, is_whole, style));
    if !found.metrics.is_empty() {
        out.push_str(&metrics(&found.metrics, is_whole, style));
    }
    if let [Some(base), Some(test)] = &found.examples {
        let paths = [base, test].map(|path| pagelab_vocab::terminal::shell_line(std::slice::from_ref(path)));
        let _ =
            writeln!(out, "next: one recording that is like each side:\n  pagelab compare {} {}", paths[0], paths[1]);
    }
    noted(&found.primary.comparison.notes, style, &mut out);
    noted(&found.notes, style, &mut out);
    read(&found.reading, style, &mut out);
    out
}

fn verdict(found: &Difference) -> String {
    let primary = &found.primary;
    let (metric, label) = (primary.metric.full_name(), &found.label);
    let sides = format!("{label} {} against {}", found.test, found.base);
    let size = size_of(&primary.comparison, &primary.metric.unit);
    match primary.verdict {
        Verdict::NotTested => format!("Not tested: {metric}, {sides}."),
        Verdict::NoDifference => format!("No difference shown: {metric}, {sides}: {size}."),
        Verdict::Better => format!("Better: {metric} {size}, {sides}."),
        Verdict::Worse => format!("Worse: {metric} {size}, {sides}."),
        Verdict::Different => format!("Different: {metric} {size}, {sides}."),
    }
}

/// The size of a difference with its interval: of ratios in per cent, else in the unit.
fn size_of(comparison: &FleetComparison, unit: &str) -> String {
    if let (Scale::Log, Some(pct)) = (comparison.scale, comparison.pct()) {
        let ends = comparison.pct_ci95().map(|[low, high]| format!(" ({} to {})", percent(low), percent(high)));
        return format!("{}{}", percent(pct), ends.unwrap_or_default());
    }
    let Some(difference) = comparison.difference else { return "by an unknown size".to_owned() };
    let ends =
        comparison.difference_ci95.map(|[low, high]| format!(" ({} to {})", quantity(low, unit), quantity(high, unit)));
    format!("{}{}", signed(difference, unit), ends.unwrap_or_default())
}

fn method(primary: &MetricDifference) -> String {
    let comparison = &primary.comparison;
    let hosts = match comparison.design {
        Some(Design::Within) => format!("{} hosts with runs of both sides, each against itself", comparison.base.hosts),
        Some(Design::Between) => format!("{} hosts against {}", comparison.test.hosts, comparison.base.hosts),
        None => format!("{} and {} hosts", comparison.base.hosts, comparison.test.hosts),
    };
    let p = comparison.p.map_or_else(String::new, |p| format!(", p {}", significant(p, 2)));
    let naive = comparison.naive.map_or_else(String::new, |naive| {
        let known = naive
            .error_ratio
            .map_or_else(String::new, |ratio| format!(" with {} of that error", significant(100.0 * ratio, 2) + " %"));
        format!("; taking all runs as independent would say p {}{known}", significant(naive.p, 2))
    });
    format!("By {hosts} ({} and {} runs){p}{naive}.", comparison.base.runs, comparison.test.runs)
}

fn components(budget: &Budget, is_whole: bool, style: &Style) -> String {
    let unit = "ns";
    let mut out = wrap(
        &format!(
            "Where the time of {} {} goes: {} against {} ({}).",
            if budget.per == "operation" { "an" } else { "a" },
            budget.per,
            value(budget.whole.test.mean, unit),
            value(budget.whole.base.mean, unit),
            size_of(&budget.whole, unit)
        ),
        style.width,
        "",
        "  ",
    );
    let columns = [left("component"), right("base"), right("test"), right("difference"), right("share"), right("q")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    let shown = budget.components.iter().filter(|one| is_whole || one.comparison.significant == Some(true));
    let at_most = if is_whole { usize::MAX } else { SHORT_LIST };
    let mut rows = 0;
    for one in shown.take(at_most) {
        rows += 1;
        table.row([
            one.component.clone(),
            value(one.comparison.base.mean, unit),
            value(one.comparison.test.mean, unit),
            one.comparison.difference.map_or_else(|| "-".to_owned(), |difference| signed(difference, unit)),
            one.share.map_or_else(|| "-".to_owned(), |share| format!("{} %", significant(100.0 * share, 2))),
            one.comparison.q.map_or_else(|| "-".to_owned(), |q| significant(q, 2)),
        ]);
    }
    if rows > 0 {
        out.push_str(&table.render());
    }
    if budget.runs_without > 0 {
        let _ = writeln!(out, "{} have no account of time.", plural(budget.runs_without, "run"));
    }
    out
}

fn cause_text(cause: &CauseShown) -> String {
    let time = cause.comparison.difference.map_or_else(String::new, |ns| format!(" ({})", signed(ns, "ns")));
    let settings: Vec<String> = cause.settings.iter().take(3).map(setting_text).collect();
    let ends = match settings.as_slice() {
        [] => "no setting that bears it differs between the sides".to_owned(),
        _ => format!("{}: associated, not proved; a toggle on one host can confirm it", settings.join(", ")),
    };
    format!("{}: {}{time}; {ends}", cause.cause, cause.title)
}

fn setting_text(one: &SettingContrast) -> String {
    format!("{} {} against {}", one.key, side_value(&one.test), side_value(&one.base))
}

fn side_value(side: &SideValues) -> String {
    side.value.as_deref().map_or_else(|| "not readable".to_owned(), cut)
}

fn contrasts(settings: &[SettingContrast], is_whole: bool, style: &Style) -> String {
    if settings.is_empty() {
        return "No setting's usual value differs between the sides.\n".to_owned();
    }
    let mut out = format!("{} whose usual value differs between the sides:\n", plural(settings.len(), "setting"));
    let columns = [left("setting"), left("base (hosts)"), left("test (hosts)"), right("agrees")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    let shown = |side: &SideValues| format!("{} ({} of {})", side_value(side), side.hosts, side.hosts_of);
    for one in settings.iter().take(if is_whole { usize::MAX } else { SHORT_LIST }) {
        let agrees = format!("{} %", significant(100.0 * one.agreement, 3));
        table.row([one.key.clone(), shown(&one.base), shown(&one.test), agrees]);
    }
    out.push_str(&table.render());
    out
}

fn metrics(found: &[MetricDifference], is_whole: bool, style: &Style) -> String {
    let tested = found.iter().filter(|one| one.comparison.q.is_some()).count();
    let different: Vec<&MetricDifference> =
        found.iter().filter(|one| one.comparison.significant == Some(true)).collect();
    let mut out = format!("{} of {tested} metrics differ:\n", different.len());
    let columns = [left("metric"), right("base"), right("test"), right("difference"), right("q"), left("")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    for one in different.iter().take(if is_whole { usize::MAX } else { SHORT_LIST }) {
        let MetricDifference { metric, comparison, verdict } = one;
        let word = match verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            _ => "",
        };
        table.row([
            metric.full_name(),
            value(comparison.base.mean, &metric.unit),
            value(comparison.test.mean, &metric.unit),
            size_of(comparison, &metric.unit),
            comparison.q.map_or_else(|| "-".to_owned(), |q| significant(q, 2)),
            word.to_owned(),
        ]);
    }
    if !different.is_empty() {
        out.push_str(&table.render());
    }
    out
}

/// Hosts that are not like the others.
pub fn outlying(found: &Outlying, is_whole: bool, style: &Style) -> String {
    let (hosts, unit) = (&found.hosts, &found.metric.unit);
    let spread = |sd: Option<f64>| sd.map_or_else(|| "-".to_owned(), |sd| deviation(sd, hosts.scale, unit));
    let mut out = heading(
        &format!(
            "{} of {} hosts are outliers: {}, {}.",
            hosts.outliers,
            hosts.hosts,
            found.metric.full_name(),
            span(found.days)
        ),
        style,
    );
    let text = format!(
        "The middle host has {}; hosts spread by {}, runs of a host by {}.",
        value(hosts.centre, unit),
        spread(hosts.sd_between_hosts),
        spread(hosts.sd_within_hosts)
    );
    out.push_str(&wrap(&text, style.width, "", "  "));
    let columns = [left("host"), right("runs"), right("mean"), right("off by"), right("z"), right("q"), left("")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    let shown = hosts.deviations.iter().filter(|one| is_whole || one.is_outlier);
    let mut rows = 0;
    for one in shown.take(if is_whole { usize::MAX } else { 20 }) {
        rows += 1;
        let off = one.ratio.map(|ratio| percent(100.0 * (ratio - 1.0)));
        table.row([
            one.host.clone(),
            one.runs.to_string(),
            quantity(one.mean, unit),
            off.or_else(|| one.difference.map(|size| signed(size, unit))).unwrap_or_else(|| "-".to_owned()),
            one.z.map_or_else(|| "-".to_owned(), |z| significant(z, 3)),
            one.q.map_or_else(|| "-".to_owned(), |q| significant(q, 2)),
            if one.is_outlier { "outlier".to_owned() } else { String::new() },
        ]);
    }
    if rows > 0 {
        out.push_str(&table.render());
    }
    noted(&hosts.notes, style, &mut out);
    read(&found.reading, style, &mut out);
    out
}

/// Settings that differ among hosts.
pub fn drifting(found: &Drifting, is_whole: bool, style: &Style) -> String {
    let settings = &found.settings;
    let associated = settings.settings.iter().filter(|one| one.is_associated == Some(true)).count();
    let mut out = heading(
        &format!(
            "{} settings differ among {} hosts; {} associated with {} ({}).",
            settings.settings.len(),
            settings.hosts,
            match associated {
                0 => "none is".to_owned(),
                1 => "1 is".to_owned(),
                many => format!("{many} are"),
            },
            found.metric.full_name(),
            span(found.days)
        ),
        style,
    );
    let columns = [left("setting"), left("values (hosts)"), right("goes with"), right("q"), left("")];
    let mut table = Table::new(columns).ruled().wide(style.width);
    for one in settings.settings.iter().take(if is_whole { usize::MAX } else { 2 * SHORT_LIST }) {
        table.row(drifting_row(one, &found.metric));
    }
    if !settings.settings.is_empty() {
        out.push_str(&table.render());
    }
    if associated > 0 {
        let text = "Associated is not caused: hosts that differ in a setting may differ in what nobody recorded. A toggle on one host tells: \
                    pagelab compare --setting KEY=A,B -- COMMAND.";
        out.push_str(&wrap(text, style.width, "", "  "));
    }
    noted(&settings.notes, style, &mut out);
    read(&found.reading, style, &mut out);
    out
}

fn drifting_row(one: &DriftingSettings, metric: &MetricAsked) -> [String; 5] {
    let first = one.keys.first();
    let more = if one.keys.len() > 1 { format!(" and {} more", one.keys.len() - 1) } else { String::new() };
    let values = first.map(|key| &key.values).into_iter().flatten().zip(&one.classes);
    let values: Vec<String> =
        values.take(4).map(|(value, class)| format!("{} ({})", cut(value), class.hosts)).collect();
    let size = one.ratio.map(|ratio| percent(100.0 * (ratio - 1.0)));
    let size = size.or_else(|| one.difference.map(|difference| signed(difference, &metric.unit)));
    let follows = if one.follows.is_empty() { String::new() } else { format!("follows {}", one.follows.join(", ")) };
    let word = if one.is_associated == Some(true) { "associated".to_owned() } else { String::new() };
    let end = [word, follows, one.reason.clone().unwrap_or_default()];
    [
        format!("{}{more}", first.map_or("", |key| key.key.as_str())),
        values.join(", "),
        size.unwrap_or_else(|| "-".to_owned()),
        one.q.map_or_else(|| "-".to_owned(), |q| significant(q, 2)),
        end.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "),
    ]
}

/// A metric over days.
pub fn course(found: &Course, style: &Style) -> String {
    let course = &found.course;
    let mut out = crate::trend(&course.trend, style);
    let text = format!(
        "Each point is a day: the level of the same hosts, {} in all ({} with one day only). {}",
        course.hosts, course.hosts_of_one_day, course.method.about
    );
    out.push_str(&wrap(&text, style.width, "", "  "));
    noted(&course.notes, style, &mut out);
    read(&found.reading, style, &mut out);
    out
}

fn heading(text: &str, style: &Style) -> String {
    let text = wrap(text, style.width, "", "  ");
    if style.colour { format!("{}\n", style.heading(text.trim_end())) } else { text }
}

fn noted(notes: &[String], style: &Style, out: &mut String) {
    for note in notes {
        out.push_str(&wrap(note, style.width, "note: ", "      "));
    }
}

fn read(reading: &Reading, style: &Style, out: &mut String) {
    let groups = match (reading.row_groups_read, reading.row_groups) {
        (Some(read), Some(all)) => format!("{read} of {all} row groups"),
        _ => "by a cluster, which does not tell row groups".to_owned(),
    };
    let text = format!("(read: {}, {groups})", plural(reading.files, "file"));
    out.push_str(&wrap(&text, style.width, "", "  "));
}

fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

fn span([first, last]: [Day; 2]) -> String {
    if first == last { format!("on {first}") } else { format!("{first} to {last}") }
}

fn percent(pct: f64) -> String {
    format!("{}{} %", if pct > 0.0 { "+" } else { "" }, significant(pct, 3))
}

fn value(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| quantity(value, unit))
}

fn signed(size: f64, unit: &str) -> String {
    format!("{}{}", if size > 0.0 { "+" } else { "" }, quantity(size, unit))
}

/// A standard deviation: of natural logarithms in per cent.
fn deviation(sd: f64, scale: Scale, unit: &str) -> String {
    match scale {
        Scale::Log => format!("{} %", significant(100.0 * sd.exp_m1(), 2)),
        Scale::Linear => quantity(sd, unit),
    }
}

fn cut(text: &str) -> String {
    crate::table::shorten(&crate::table::clean(text), VALUE_AT_MOST)
}
