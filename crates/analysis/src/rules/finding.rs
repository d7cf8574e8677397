//! What a rule hands out: a finding, as the compare document and `explain --json` carry it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pagelab_views::mappings::ClassKey;

/// How well a cause is established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// One recording a side: it holds on this side and not on the other, and a setting that governs it differs or the time in which it
    /// shows rose. How much runs vary is not known.
    SeenOnce,
    /// The signs occur together, but a link of the chain from setting to lost time was not seen.
    Correlated,
    /// Every link of the chain was seen, and what would refute it was looked for and is not there.
    Mechanism,
    /// An experiment changed exactly this and nothing else, and the slowdown followed.
    Confirmed,
}

impl Confidence {
    /// The word used in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::SeenOnce => "seen once",
            Self::Correlated => "correlated",
            Self::Mechanism => "mechanism",
            Self::Confirmed => "confirmed",
        }
    }
}

/// One of the two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SideName {
    /// What is compared against.
    Base,
    /// What is judged; the only side of a lone recording.
    Test,
}

impl SideName {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Base => Self::Test,
            Self::Test => Self::Base,
        }
    }

    /// The word used in sentences.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Test => "test",
        }
    }
}

/// How far a remedy reaches. The order is that of a finding's fixes: narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// One mapping of one program.
    Mapping,
    /// One file.
    File,
    /// One process and its children.
    Process,
    /// One device.
    Device,
    /// The whole host.
    System,
}

impl Reach {
    /// The word used in documents and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mapping => "mapping",
            Self::File => "file",
            Self::Process => "process",
            Self::Device => "device",
            Self::System => "system",
        }
    }
}

/// One remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Fix {
    /// How far it reaches.
    pub reach: Reach,
    /// Its effect, in a sentence.
    pub text: String,
    /// The call to put into the program, or the command to type.
    pub command: String,
}

impl Fix {
    /// The remedy in one line, as `findings[].fix` carries it.
    pub fn line(&self) -> String {
        format!("[{}] {}: {}", self.reach.word(), self.text, self.command)
    }
}

/// A figure that a finding rests on. A side without it is null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Number {
    /// The quantity counted or measured.
    pub name: String,
    /// Unit, empty for plain counts.
    pub unit: String,
    /// The base's median over its runs.
    pub base: Option<f64>,
    /// The test side's median over its runs.
    pub test: Option<f64>,
}

/// How much of the primary metric's change the cause accounts for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Effect {
    /// Share of the change of time per operation (or per run) that is attributed; 1 is all of it. The shares of all
    /// findings of a comparison add up to 1 at most.
    pub share: f64,
    /// 95 % interval of the share, from resampling runs; null where there are too few.
    pub share_ci95: Option<[f64; 2]>,
    /// Time attributed, ns per operation or per run (see `per`).
    pub attributed_ns: f64,
    /// Time by which the sides differ, or all of a lone recording's, same unit.
    pub change_ns: f64,
    /// `operation` or `run`.
    pub per: String,
    /// The whole of the share: the `change` between the sides, the rise of the `components` that differ where the whole shows no
    /// difference, or all `time` of a lone recording.
    pub of: String,
    /// How the attribution was made, in a sentence.
    pub method: String,
    /// The resource shared among its causes: `kernel` (time in the kernel) or `waiting`.
    #[serde(default)]
    pub resource: String,
    /// Time of one operation or run on the side that suffers, ns; what `attributed_ns` is a part of.
    #[serde(default)]
    pub slow_ns: Option<f64>,
    /// By how much that resource rose in all, ns; more than `attributed_ns` where something else used it too.
    #[serde(default)]
    pub resource_ns: Option<f64>,
    /// Share that is sure: with a profile, the share less its error of sampling; else that of the events at the least that
    /// one of them costs. Null where the device says what its reads took.
    #[serde(default)]
    pub least_share: Option<f64>,
    /// Most that the cause's events can cost, ns; null where a measurement of the run itself bounds them.
    #[serde(default)]
    pub most_ns: Option<f64>,
}

/// What shares are of, in words, by [`Effect::of`].
pub fn lost_time(of: &str) -> &'static str {
    match of {
        "change" => "the lost time",
        "components" => "the time by which components rose",
        _ => "the time",
    }
}

impl Effect {
    /// The most that it may explain: the upper end of the share's interval, where there is one.
    pub(crate) fn most_share(&self) -> f64 {
        self.share_ci95.map_or(self.share, |[_, high]| high.max(self.share))
    }

    /// Leaves a part of the effect to other causes.
    pub(crate) fn scale(&mut self, part: f64) {
        self.share *= part;
        self.attributed_ns *= part;
        self.share_ci95 = self.share_ci95.map(|ends| ends.map(|end| end * part));
    }
}

/// The part of a loss that is left when every finding has its share.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Unexplained {
    /// Share of the loss, from 0 to 1.
    pub share: f64,
    /// Time, ns per operation or per run (see `per`).
    pub ns: f64,
    /// `operation` or `run`.
    pub per: String,
}

/// The mapping that a finding speaks about.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MappingSubject {
    /// In words: `anonymous, 2 MiB each, mapped by cache (thread), 180 of them`.
    pub description: String,
    /// The class that it belongs to, for looking it up again.
    pub class: ClassKey,
    /// Start of the example, the mapping of the class with the most faults.
    pub start: u64,
    /// One past its end.
    pub end: u64,
    /// Bytes of the example.
    pub len_bytes: u64,
    /// Name of the thread that mapped it, if known.
    pub thread: Option<String>,
    /// File mapped; null for anonymous memory.
    pub path: Option<String>,
    /// Side and run (its position in the side's list, from 0) that the example is from.
    pub side: SideName,
    /// See `side`.
    pub run: usize,
}

/// The setting that a finding names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct SettingSubject {
    /// Key in the vocabulary of settings, or the call of the program that decided (`madvise`).
    pub key: String,
    /// Value on the base; null if unknown or if there is no base.
    pub base: Option<String>,
    /// Value on the test side.
    pub test: Option<String>,
    /// Whether it differs between the sides.
    pub differs: bool,
}

/// What follow-up rounds, in which nothing but the setting of a finding was toggled, say of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct FollowUp {
    /// `confirmed`, `refuted` or `not_decided`.
    pub state: String,
    /// Why, in a sentence with the figures.
    pub reason: String,
    /// Rounds that were made, each with one run of both values.
    pub rounds: usize,
    /// Loss that the setting brings back, in percent of the slower value's time: 95 % interval. Null without rounds.
    pub returned_pct_ci95: Option<[f64; 2]>,
    /// The same of the claim.
    pub claimed_pct: Option<f64>,
    /// Part of the time lost by the claim that the setting brings back, in percent: 95 % interval. By this the claim is judged.
    #[serde(default)]
    pub returned_of_claim_pct_ci95: Option<[f64; 2]>,
    /// Smallest change, in percent, that such rounds find in four of five cases.
    pub detectable_pct: Option<f64>,
    /// Where the rounds are.
    pub set: Option<String>,
}

/// A cause, with what holds for it, what could have refuted it, and the remedies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Finding {
    /// Place in the list, from 1.
    pub rank: usize,
    /// Stable identifier, one of `vocab::causes`.
    pub cause: String,
    /// The cause's title.
    pub title: String,
    /// How well it is established.
    pub confidence: Confidence,
    /// One or two sentences with the direction and the figures that matter.
    pub summary: String,
    /// What holds, one sentence each, in the order of the chain from setting to time.
    pub evidence: Vec<String>,
    /// What would refute the cause, was looked for, and was not there.
    pub refuted: Vec<String>,
    /// What should have been looked at and could not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_looked_at: Vec<String>,
    /// Remedies in one line each, narrowest first.
    pub fix: Vec<String>,
    /// The side that suffers.
    pub side: SideName,
    /// Its share of the primary's change, where it can be estimated.
    pub effect: Option<Effect>,
    /// The mapping concerned.
    pub mapping: Option<MappingSubject>,
    /// The setting concerned.
    pub setting: Option<SettingSubject>,
    /// Others that must change together with it: none of them suffices alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_with: Vec<SettingSubject>,
    /// The figures of the evidence, for machines.
    pub numbers: Vec<Number>,
    /// The remedies of `fix`, for machines.
    pub fixes: Vec<Fix>,
    /// What follow-up rounds say of it; null where none were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up: Option<FollowUp>,
}

impl Finding {
    /// The word of its confidence; what was seen once is of one side, and says of which.
    pub fn called(&self) -> String {
        match self.confidence {
            Confidence::SeenOnce => format!("{} on {}", self.confidence.word(), self.side.word()),
            _ => self.confidence.word().to_owned(),
        }
    }
}

/// The evidence on one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    /// It is a finding.
    Holds,
    /// Evidence against it was found.
    Refuted,
    /// Lost events could be that evidence.
    Blocked,
    /// Something that the rule needs was not recorded.
    Unknown,
    /// No difference was tested, or the metric has no better and worse.
    NotTested,
}

impl RuleOutcome {
    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Refuted => "refuted",
            Self::Blocked => "blocked",
            Self::Unknown => "unknown",
            Self::NotTested => "not_tested",
        }
    }
}

impl fmt::Display for RuleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What became of one rule, whether or not it led to a finding.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Considered {
    /// The cause looked for.
    pub cause: String,
    /// The evidence on it.
    pub outcome: RuleOutcome,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
}

/// The outcome of all rules.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct Diagnosis {
    /// Causes found, best first.
    pub findings: Vec<Finding>,
    /// Every rule with its outcome.
    pub considered: Vec<Considered>,
    /// The part of the loss that the findings of a comparison leave.
    pub unexplained: Option<Unexplained>,
}
