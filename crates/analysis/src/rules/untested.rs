//! Two sides that no test could be made of, such as one good recording and one bad one: what the rules say of each alone.

use super::evidence::{self, Evidence};
use super::{Confidence, Considered, Diagnosis, Finding, RULES, RuleOutcome, SideName, consider};
use crate::compare::{CompareInputs, MechanismChange, sign_of};
use crate::error::Result;

/// Part of what a cause takes on its side by which its time has to have risen: the rest is what the other side has as well.
const LEAST_RISE: f64 = 0.5;

/// Asks the rules about either side alone. A cause that holds on one side only is a finding, if a setting that governs it differs or its
/// time rose, and seen once where there is one recording a side; what holds on both, or takes as long on the other side, is
/// a habit of the program and explains no difference. Of causes that show in one time the first is a finding.
pub(super) fn diagnose(inputs: &CompareInputs<'_>) -> Result<Diagnosis> {
    let side = |name, runs: &[&pagelab_views::run::RunData]| -> Result<Option<Diagnosis>> {
        if runs.is_empty() {
            return Ok(None);
        }
        let evidence: Evidence = evidence::of_side(name, inputs)?;
        Ok(Some(consider(&evidence)))
    };
    let base = side(SideName::Base, inputs.base)?;
    let test = side(SideName::Test, inputs.test)?;
    let why = reason(inputs);
    let considered = RULES.iter().map(|rule| {
        let cause = rule.cause();
        let mut reasons = vec![why.clone()];
        for (name, diagnosis) in [(SideName::Base, &base), (SideName::Test, &test)] {
            let said = diagnosis.iter().flat_map(|diagnosis| &diagnosis.considered).find(|one| one.cause == cause);
            reasons
                .extend(said.map(|one| format!("{} alone: {} ({})", name.word(), one.outcome, one.reasons.join("; "))));
        }
        Considered { cause: cause.to_owned(), outcome: RuleOutcome::NotTested, reasons }
    });
    let mut considered: Vec<Considered> = considered.collect();
    let findings = |diagnosis: Option<Diagnosis>| diagnosis.map(|diagnosis| diagnosis.findings).unwrap_or_default();
    let (base, test) = (findings(base), findings(test));
    let only = |of: &[Finding], others: &[Finding]| -> Vec<Finding> {
        let lone = of.iter().filter(|finding| others.iter().all(|other| other.cause != finding.cause));
        lone.cloned().collect()
    };
    let mut found = only(&test, &base);
    found.extend(only(&base, &test));
    let is_one = inputs.base.len() < 2 || inputs.test.len() < 2;
    for finding in &mut found {
        if is_one {
            finding.confidence = Confidence::SeenOnce;
        }
        finding.not_looked_at = vec![format!("whether it explains a difference: {why}")];
        both_values(finding, inputs);
    }
    let budget = inputs.comparison.budget.as_ref();
    let mechanisms = budget.map_or(&[][..], |budget| budget.mechanisms.as_slice());
    let is_habit = |finding: &mut Finding| {
        let is_set = finding.setting.as_ref().is_some_and(|setting| setting.differs);
        let taken_ns = finding.effect.as_ref().map_or(0.0, |effect| effect.attributed_ns);
        !is_set && !is_risen(&finding.cause, finding.side, taken_ns, mechanisms)
    };
    let habits: Vec<Finding> = found.extract_if(.., is_habit).collect();
    for one in &mut considered {
        if habits.iter().any(|habit| habit.cause == one.cause) {
            one.reasons.push("its time is alike on both sides, and no setting that governs it differs".to_owned());
        }
    }
    let seconds = one_of_each_time(&mut found, mechanisms);
    for (first, second) in seconds {
        let reasons = considered.iter_mut().filter(|one| one.cause == second).map(|one| &mut one.reasons);
        reasons.for_each(|reasons| reasons.push(format!("{first} shows in the same time, which has one price")));
    }
    for (place, finding) in found.iter_mut().enumerate() {
        finding.rank = place + 1;
    }
    Ok(Diagnosis { findings: found, considered, unexplained: None })
}

/// Leaves the first of the causes that show in one time on a side, and says in it which others may be meant: nothing was tested that
/// would tell them apart, and a time has one price. Gives each cause that was left out, behind the one that stays.
fn one_of_each_time(found: &mut Vec<Finding>, mechanisms: &[MechanismChange]) -> Vec<(String, String)> {
    let time_of = |cause: &str| mechanisms.iter().position(|one| one.causes.iter().any(|of| of == cause));
    let mut seconds = Vec::new();
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found.drain(..) {
        let time = time_of(&finding.cause);
        let first =
            kept.iter_mut().find(|one| one.side == finding.side && time.is_some() && time_of(&one.cause) == time);
        match first {
            Some(first) => {
                first
                    .not_looked_at
                    .push(format!("whether it is rather {}, which shows in the same time", finding.cause));
                seconds.push((first.cause.clone(), finding.cause));
            }
            None => kept.push(finding),
        }
    }
    *found = kept;
    seconds
}

/// Whether the time in which a cause shows is longer on `side`, by more than sampling errs and by a good part of what it takes there.
fn is_risen(cause: &str, side: SideName, taken_ns: f64, mechanisms: &[MechanismChange]) -> bool {
    let Some(own) = mechanisms.iter().find(|one| one.causes.iter().any(|of| of == cause)) else { return false };
    let sign = sign_of(side);
    let rise_ns = sign * own.difference_ns;
    let least_ns = own.difference_ci95.map_or(rise_ns, |[low, high]| if sign > 0.0 { low } else { -high });
    least_ns > 0.0 && rise_ns >= LEAST_RISE * taken_ns
}

/// A lone side knows its own value of the setting only.
fn both_values(finding: &mut Finding, inputs: &CompareInputs<'_>) {
    let Some(setting) = &mut finding.setting else { return };
    let value = |runs: &[&pagelab_views::run::RunData]| {
        runs.first().and_then(|run| run.setting(&setting.key)).map(str::to_owned)
    };
    let (base, test) = (value(inputs.base), value(inputs.test));
    setting.differs = base != test;
    let own = setting.test.take();
    (setting.base, setting.test) = match finding.side {
        SideName::Base => (own, test),
        SideName::Test => (base, own),
    };
}

fn reason(inputs: &CompareInputs<'_>) -> String {
    let (base, test) = (inputs.base.len(), inputs.test.len());
    match &inputs.comparison.primary {
        None => "nothing was tested: there is no primary metric".to_owned(),
        Some(_) if base < 2 || test < 2 => {
            format!("nothing was tested: {base} base and {test} test runs, at least 2 a side are needed")
        }
        Some(primary) => format!(
            "nothing was tested: {}: {}",
            primary.metric,
            primary.result.note.as_deref().unwrap_or("no test is possible")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(base_ns: f64, test_ns: f64, error_ns: f64) -> MechanismChange {
        let difference_ns = test_ns - base_ns;
        MechanismChange {
            causes: vec!["map.churn".to_owned()],
            components: Vec::new(),
            base_ns,
            test_ns,
            difference_ns,
            difference_ci95: Some([difference_ns - error_ns, difference_ns + error_ns]),
            p: None,
            q: None,
            significant: None,
        }
    }

    #[test]
    fn what_takes_as_long_on_the_other_side_has_not_risen() {
        for (mechanism, test_side, base_side) in [
            (took(100.0, 400.0, 50.0), true, false),
            (took(400.0, 100.0, 50.0), false, true),
            // A habit of both, within the error of sampling, and a habit that took a little longer.
            (took(390.0, 400.0, 50.0), false, false),
            (took(300.0, 400.0, 50.0), false, false),
        ] {
            let risen = [SideName::Test, SideName::Base]
                .map(|side| is_risen("map.churn", side, 400.0, std::slice::from_ref(&mechanism)));
            assert_eq!(risen, [test_side, base_side], "{mechanism:?}");
        }
        assert!(!is_risen("map.churn", SideName::Test, 400.0, &[]), "nothing is known of its time");
    }

    fn found(cause: &str, side: SideName) -> Finding {
        Finding {
            rank: 0,
            cause: cause.to_owned(),
            title: String::new(),
            confidence: Confidence::SeenOnce,
            summary: String::new(),
            evidence: Vec::new(),
            refuted: Vec::new(),
            not_looked_at: Vec::new(),
            fix: Vec::new(),
            side,
            effect: None,
            mapping: None,
            setting: None,
            together_with: Vec::new(),
            numbers: Vec::new(),
            fixes: Vec::new(),
            follow_up: None,
        }
    }

    #[test]
    fn causes_that_show_in_one_time_are_one_finding() {
        let time =
            MechanismChange { causes: vec!["a.more".to_owned(), "a.dearer".to_owned()], ..took(100.0, 400.0, 50.0) };
        let test = SideName::Test;
        let mut all =
            vec![found("a.more", test), found("b", test), found("a.dearer", test), found("a.dearer", SideName::Base)];
        let seconds = one_of_each_time(&mut all, &[time]);
        let left: Vec<_> = all.iter().map(|one| (one.cause.as_str(), one.side)).collect();
        assert_eq!(left, [("a.more", test), ("b", test), ("a.dearer", SideName::Base)]);
        assert_eq!(seconds, [("a.more".to_owned(), "a.dearer".to_owned())]);
        assert!(all[0].not_looked_at[0].contains("rather a.dearer"), "{:?}", all[0].not_looked_at);
        let mut unknown = vec![found("c", test), found("d", test)];
        assert!(one_of_each_time(&mut unknown, &[]).is_empty() && unknown.len() == 2, "causes without a known time");
    }
}
