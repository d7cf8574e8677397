//! The report in version 14 of the Test Anything Protocol.

use std::fmt::Write;

use crate::outcome::Verdict;
use crate::report::{CaseResult, Report};

/// The report for a harness that reads TAP: a plan, a line for each case, and after each failed case a block with the
/// found and expected values. An inconclusive case is `ok` with a TODO, which harnesses show and do not count.
pub fn tap(report: &Report) -> String {
    let mut out = format!("TAP version 14\n1..{}\n", report.cases.len());
    for (index, case) in report.cases.iter().enumerate() {
        let word = if case.verdict == Verdict::Fail { "not ok" } else { "ok" };
        let reason = escaped(case.reason.as_deref().unwrap_or_default());
        let directive = match case.verdict {
            Verdict::Pass | Verdict::Fail => String::new(),
            Verdict::Skip => format!(" # SKIP {reason}"),
            Verdict::Inconclusive => format!(" # TODO inconclusive: {reason}"),
        };
        let _ = writeln!(out, "{word} {} - {}{directive}", index + 1, case.name);
        if case.verdict == Verdict::Fail {
            out.push_str(&block(case));
        }
    }
    for line in &report.not_put_back {
        let _ = writeln!(out, "# not put back: {}", one_line(line));
    }
    out
}

/// A YAML block, indented by two. JSON strings are YAML strings.
fn block(case: &CaseResult) -> String {
    let mut out = String::from("  ---\n");
    let lines = [
        ("proves", Some(case.proves)),
        ("message", case.reason.as_deref()),
        ("found", case.found.as_deref()),
        ("expected", case.expected.as_deref()),
    ];
    for (key, value) in lines {
        if let Some(value) = value {
            let _ = writeln!(out, "  {key}: {}", quoted(value));
        }
    }
    if !case.steps.is_empty() {
        out.push_str("  steps:\n");
        for step in &case.steps {
            let (nr, free, resv, surplus) = (step.nr_pages, step.free_pages, step.resv_pages, step.surplus_pages);
            let after = quoted(&step.after);
            let _ = writeln!(out, "    - {{after: {after}, nr: {nr}, free: {free}, resv: {resv}, surplus: {surplus}}}");
        }
    }
    out.push_str("  ...\n");
    out
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// In a directive a `#` would begin another one.
fn escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Topic;
    use crate::pool::Step;

    fn case(name: &'static str, verdict: Verdict, reason: Option<&str>) -> CaseResult {
        CaseResult {
            name,
            topic: Topic::Sanity,
            proves: "It \"holds\".",
            like: "new",
            verdict,
            reason: reason.map(str::to_owned),
            found: (verdict == Verdict::Fail).then(|| "7".to_owned()),
            expected: (verdict == Verdict::Fail).then(|| "8".to_owned()),
            steps: Vec::new(),
            duration_ns: 0,
            attempts: 1,
        }
    }

    #[test]
    fn every_verdict_has_its_line() {
        let mut failed = case("sanity.b", Verdict::Fail, Some("found 7, expected 8"));
        failed.steps =
            vec![Step { after: "start".to_owned(), nr_pages: 4, free_pages: 3, resv_pages: 2, surplus_pages: 1 }];
        let cases = vec![
            case("sanity.a", Verdict::Pass, None),
            failed,
            case("sanity.c", Verdict::Skip, Some("no #1 page\nhere")),
            case("sanity.d", Verdict::Inconclusive, Some("not seen")),
        ];
        let report = Report { kernel: "6.1".to_owned(), cases, not_put_back: vec!["left a at 1".to_owned()] };
        let expected = "\
TAP version 14
1..4
ok 1 - sanity.a
not ok 2 - sanity.b
  ---
  proves: \"It \\\"holds\\\".\"
  message: \"found 7, expected 8\"
  found: \"7\"
  expected: \"8\"
  steps:
    - {after: \"start\", nr: 4, free: 3, resv: 2, surplus: 1}
  ...
ok 3 - sanity.c # SKIP no \\#1 page here
ok 4 - sanity.d # TODO inconclusive: not seen
# not put back: left a at 1
";
        assert_eq!(tap(&report), expected);
        assert!(report.failed());
        let json = serde_json::to_value(&report).expect("JSON");
        let results: Vec<_> = (0..4).map(|n| json["cases"][n]["result"].as_str().expect("a word").to_owned()).collect();
        assert_eq!(results, ["pass", "fail", "skip", "inconclusive"]);
        assert!(["name", "topic", "proves", "reason"].iter().all(|key| json["cases"][0].get(key).is_some()));
    }
}
