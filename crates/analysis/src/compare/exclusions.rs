//! Why runs of a side count nowhere, in a sentence, and the command that helps.

use std::fmt;
use std::path::Path;

use pagelab_views::run::Exclusion;
use pagelab_vocab::terminal::shell_path;

/// Reasons that are named; the runs with others are counted.
const NAMED: usize = 3;

/// The runs of a side that count nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusions {
    /// How many of how many runs, the reasons, and how many runs each took.
    pub reasons: String,
    /// What helps against the reason that took most runs.
    pub advice: &'static str,
    /// The command for that, if there is one.
    pub command: Option<String>,
}

impl fmt::Display for Exclusions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reasons, advice, command } = self;
        write!(f, "{reasons}; {advice}")?;
        command.as_ref().map_or(Ok(()), |command| write!(f, ": {command}"))
    }
}

/// Runs that are excluded for reasons of one kind.
struct Group<'a> {
    first: &'a Exclusion,
    first_dir: &'a Path,
    runs: usize,
    /// All say the same, to the letter.
    is_same: bool,
}

impl Group<'_> {
    fn reason(&self) -> String {
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        let such = if self.is_same { runs } else { format!("the first of {runs}") };
        format!("{} ({such})", self.first)
    }
}

impl Exclusions {
    /// Of a side's runs with the reasons why they do not count; `None` if all do.
    pub(super) fn of<'a>(name: &str, runs: impl Iterator<Item = (&'a Path, Option<&'a Exclusion>)>) -> Option<Self> {
        let mut all = 0;
        let mut groups: Vec<Group<'a>> = Vec::new();
        for (dir, excluded) in runs {
            all += 1;
            let Some(why) = excluded else { continue };
            if let Some(group) = groups.iter_mut().find(|group| is_alike(group.first, why)) {
                group.runs += 1;
                group.is_same &= group.first == why;
            } else {
                groups.push(Group { first: why, first_dir: dir, runs: 1, is_same: true });
            }
        }
        // Stable: of reasons that took as many runs the first one comes first.
        groups.sort_by_key(|group| std::cmp::Reverse(group.runs));
        let largest = groups.first()?;
        let (advice, command) = advice(largest);
        let excluded: usize = groups.iter().map(|group| group.runs).sum();
        let mut reasons: Vec<String> = groups.iter().take(NAMED).map(Group::reason).collect();
        let others: usize = groups.iter().skip(NAMED).map(|group| group.runs).sum();
        if others > 0 {
            reasons.push(format!("other reasons ({others} runs)"));
        }
        let reasons = format!("{excluded} of {all} {name} runs are excluded: {}", reasons.join(", "));
        Some(Self { reasons, advice, command })
    }
}

/// Whether two reasons are of one kind. How a command ended is one each; details name files and bytes, and differ between runs.
fn is_alike(one: &Exclusion, other: &Exclusion) -> bool {
    match (one, other) {
        (Exclusion::Failed { .. } | Exclusion::CutShort { .. }, _) => one == other,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// What helps, and the command for it.
fn advice(group: &Group<'_>) -> (&'static str, Option<String>) {
    let of_first = |command: &str| Some(format!("pagelab {command} {}", shell_path(group.first_dir)));
    match group.first {
        Exclusion::Failed { .. } => ("see what the first one ran, mend that, and record again", of_first("show")),
        Exclusion::CutShort { by } if by == super::failures::TIMED_OUT => {
            ("record again with a longer --timeout, or without", None)
        }
        Exclusion::CutShort { .. } => {
            ("record again, to the end; a set that was interrupted goes on with --resume", None)
        }
        Exclusion::Incomplete { .. } => ("record again; see what the first one lacks", of_first("check")),
        Exclusion::Damaged { .. } => {
            ("copy or record it again; see what is damaged in the first one", of_first("check"))
        }
        Exclusion::Set { .. } => ("make the set again, with another -o; see what the first run did", of_first("show")),
        Exclusion::NoWindow { .. } => {
            ("choose --from and --to within what was measured; see when that was in the first one", of_first("show"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(excluded: &[Option<Exclusion>]) -> Option<Exclusions> {
        let dirs: Vec<String> = (0..excluded.len()).map(|number| format!("out dir/run={number}")).collect();
        Exclusions::of("base", dirs.iter().map(Path::new).zip(excluded.iter().map(Option::as_ref)))
    }

    #[test]
    fn reasons_of_one_kind_are_counted_together() {
        let lacks = |parts: u64| Some(Exclusion::Incomplete { detail: Some(format!("{parts} parts are elsewhere")) });
        let failed = |code| Some(Exclusion::Failed { code: Some(code), signal: None });
        assert_eq!(said(&[None, None]), None);
        assert_eq!(said(&[]), None);
        let found = said(&[None, failed(1), lacks(7), lacks(8), failed(1), lacks(9), failed(2)]).expect("six");
        assert_eq!(
            found.to_string(),
            "6 of 7 base runs are excluded: incomplete: 7 parts are elsewhere (the first of 3 runs), exit status 1 (2 runs), exit \
             status 2 (1 run); record again; see what the first one lacks: pagelab check 'out dir/run=2'"
        );
    }

    #[test]
    fn many_reasons_fit_a_line_and_not_each_has_a_command() {
        let cut = |by: &str| Some(Exclusion::CutShort { by: by.to_owned() });
        let signal = |number| Some(Exclusion::Failed { code: None, signal: Some(number) });
        let found =
            said(&[cut("timed_out"), cut("timed_out"), signal(1), signal(2), signal(3), signal(4)]).expect("six");
        assert!(found.reasons.ends_with("ended by signal 2 (1 run), other reasons (2 runs)"), "{found}");
        assert!(found.to_string().ends_with("; record again with a longer --timeout, or without"), "{found}");
    }
}
