//! How a rule argues: links that must hold, refuters that must be absent, and what could not be looked at.

use super::finding::{Effect, Fix, MappingSubject, Number, SettingSubject, SideName};
use super::scene::Scene;

/// What a rule has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The cause is there.
    Holds(Box<Case>),
    /// It is not, for these reasons.
    Refuted(Vec<String>),
    /// It might be, but loss could explain the same.
    Blocked(Vec<String>),
    /// Something needed was not recorded.
    Unknown(Vec<String>),
}

/// A cause that holds, before it is ranked.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// One or two sentences.
    pub summary: String,
    /// The side that suffers.
    pub side: SideName,
    /// Links that hold, from setting to time.
    pub evidence: Vec<String>,
    /// Refuters looked for and not there.
    pub refuted: Vec<String>,
    /// What could not be looked at; with anything in it the chain is not complete.
    pub not_looked_at: Vec<String>,
    /// Share of the primary's change.
    pub effect: Option<Effect>,
    /// The mapping.
    pub mapping: Option<MappingSubject>,
    /// The setting.
    pub setting: Option<SettingSubject>,
    /// Others that must change with it.
    pub together_with: Vec<SettingSubject>,
    /// Figures.
    pub numbers: Vec<Number>,
    /// Remedies; sorted by reach when the finding is made.
    pub fixes: Vec<Fix>,
}

/// Collects links and refuters.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    evidence: Vec<String>,
    refuted: Vec<String>,
    not_looked_at: Vec<String>,
    against: Vec<String>,
    missing: Vec<String>,
    blocked: Vec<String>,
}

impl Chain {
    /// A link without which the cause does not hold. `no` and `yes` are said where it is false and true; a link that is
    /// not known leaves the cause unknown.
    pub(crate) fn needs(&mut self, link: Option<bool>, yes: impl Into<String>, no: impl Into<String>, what: &str) {
        match link {
            Some(true) => self.evidence.push(yes.into()),
            Some(false) => self.against.push(no.into()),
            None => self.missing.push(format!("{what} is not known")),
        }
    }

    /// A link that strengthens: without it the cause may still hold, but is less certain.
    pub(crate) fn supports(&mut self, link: Option<bool>, yes: impl Into<String>, no: impl Into<String>, what: &str) {
        match link {
            Some(true) => self.evidence.push(yes.into()),
            Some(false) => self.not_looked_at.push(no.into()),
            None => self.not_looked_at.push(format!("{what} is not known")),
        }
    }

    /// Something that leaves the chain incomplete.
    pub(crate) fn doubt(&mut self, text: impl Into<String>) {
        self.not_looked_at.push(text.into());
    }

    /// The same, if there is anything.
    pub(crate) fn doubts(&mut self, text: Option<String>) {
        self.not_looked_at.extend(text);
    }

    /// Something that would refute the cause. `absent` is said where it was looked for and is not there.
    pub(crate) fn refuter(
        &mut self,
        found: Option<bool>,
        there: impl Into<String>,
        absent: impl Into<String>,
        what: &str,
    ) {
        match found {
            Some(true) => self.against.push(there.into()),
            Some(false) => self.refuted.push(absent.into()),
            None => self.not_looked_at.push(format!("{what} is not known")),
        }
    }

    /// Says something in evidence that needs no test.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.evidence.push(text.into());
    }

    /// Notes what loss could have done. `Some(reason)` blocks the conclusion.
    pub(crate) fn loss(&mut self, could_explain: Option<String>) {
        match could_explain {
            Some(reason) => self.blocked.push(reason),
            None => self.refuted.push("lost events: too few, or none, to make such a difference".to_owned()),
        }
    }

    /// Whether nothing speaks against it so far.
    pub(crate) fn stands(&self) -> bool {
        self.against.is_empty() && self.missing.is_empty()
    }

    /// The verdict. Being refuted comes before being unknown: the evidence at hand decides.
    pub(crate) fn close(self, scene: &Scene<'_>, case: impl FnOnce(&Scene<'_>) -> CaseParts) -> Verdict {
        if !self.against.is_empty() {
            return Verdict::Refuted(self.against);
        }
        if !self.missing.is_empty() {
            return Verdict::Unknown(self.missing);
        }
        if !self.blocked.is_empty() {
            return Verdict::Blocked(self.blocked);
        }
        let parts = case(scene);
        Verdict::Holds(Box::new(Case {
            summary: parts.summary,
            side: scene.slow.name,
            evidence: self.evidence,
            refuted: self.refuted,
            not_looked_at: self.not_looked_at,
            effect: parts.effect,
            mapping: parts.mapping,
            setting: parts.setting,
            together_with: parts.together_with,
            numbers: parts.numbers,
            fixes: parts.fixes,
        }))
    }
}

/// What a rule adds to its chain once that stands.
#[derive(Debug, Default)]
pub(crate) struct CaseParts {
    pub summary: String,
    pub effect: Option<Effect>,
    pub mapping: Option<MappingSubject>,
    pub setting: Option<SettingSubject>,
    pub together_with: Vec<SettingSubject>,
    pub numbers: Vec<Number>,
    pub fixes: Vec<Fix>,
}
