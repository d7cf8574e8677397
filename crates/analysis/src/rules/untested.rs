//! Two sides that no test could be made of, such as one good recording and one bad one: what the rules say of each alone.

use super::evidence::{self, Evidence};
use super::{Considered, Diagnosis, Finding, RULES, RuleOutcome, SideName, consider};
use crate::compare::CompareInputs;
use crate::error::Result;

/// Asks the rules about either side alone. A cause that holds on one side only is a finding, as uncertain as that of a
/// lone recording; what holds on both explains no difference.
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
    let considered = considered.collect();
    let findings = |diagnosis: Option<Diagnosis>| diagnosis.map(|diagnosis| diagnosis.findings).unwrap_or_default();
    let (base, test) = (findings(base), findings(test));
    let only = |of: &[Finding], others: &[Finding]| -> Vec<Finding> {
        let lone = of.iter().filter(|finding| others.iter().all(|other| other.cause != finding.cause));
        lone.cloned().collect()
    };
    let mut found = only(&test, &base);
    found.extend(only(&base, &test));
    for (place, finding) in found.iter_mut().enumerate() {
        finding.rank = place + 1;
        finding.not_looked_at = vec![format!("whether it explains a difference: {why}")];
        both_values(finding, inputs);
    }
    Ok(Diagnosis { findings: found, considered, unexplained: None })
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
