//! `compare -n`: runs two commands, or one under two values of a setting, and compares them: a plan without a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pagelab_analysis::compare::Comparison;
use pagelab_experiment::{Plan, PlanError, RunOptions};
use pagelab_session::ValueSpec;
use pagelab_vocab::terminal::shell_word;
use toml::{Table, Value};

use super::{is_part, wrong};
pub(super) use crate::commands::experiment::INTERRUPTED;
use crate::commands::runs::make_runs;
use crate::failure::Failure;
use crate::options::default_output;
use crate::say;

/// Stands in messages where a plan's file and line would.
const ORIGIN: &str = "compare -n";

/// What a new set is made of.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Making runs (-n)")]
pub(super) struct NewSet {
    /// Runs of each side, 2 to 10,000.
    #[arg(short = 'n', long = "runs", value_name = "N", requires = "command", value_parser = clap::value_parser!(u64).range(2..=10_000))]
    runs: Option<u64>,
    /// Run one command under two values of a setting (docs/settings.md lists them).
    #[arg(long, value_name = "KEY=A,B", requires = "runs")]
    setting: Option<String>,
    /// Names of the two sides: --name old,new, or --name old --name new [default: base,test].
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "runs")]
    name: Vec<String>,
    /// Number to read from the command's output, such as 'tps:higher=tps = ([0-9.]+)'. Repeatable; the first one is the
    /// primary metric; :higher or :lower says which direction is better.
    #[arg(long, value_name = "NAME[:higher|:lower]=REGEX", requires = "runs")]
    value: Vec<ValueSpec>,
    /// Streams to record, as of `pagelab record` [default: default].
    #[arg(long, value_name = "LIST", requires = "runs")]
    observe: Option<String>,
    /// Record without the named streams that this host refuses; without this option that is an error.
    #[arg(long, requires = "runs")]
    best_effort: bool,
    /// Discarded runs of each side before the measured ones [default: 0].
    #[arg(short, long, value_name = "N", requires = "runs")]
    warmup: Option<u32>,
    /// Command run by `sh -c` before each run.
    #[arg(short, long, value_name = "CMD", requires = "runs")]
    prepare: Option<String>,
    /// Command run by `sh -c` after each run.
    #[arg(short, long, value_name = "CMD", requires = "runs")]
    cleanup: Option<String>,
    /// Steps on the host before each run, separated by commas: sync, drop_caches, compact.
    #[arg(long, value_name = "STEPS", requires = "runs")]
    between: Option<String>,
    /// Time limit of a run: seconds, or 500ms, 90s, 2m, 1h [default: none].
    #[arg(long, value_name = "TIME", requires = "runs")]
    timeout: Option<String>,
    /// Print the commands' output on standard error [default: the last line of a failed run].
    #[arg(long, requires = "runs")]
    show_output: bool,
    /// Seed of the random order of runs [default: random].
    #[arg(long, requires = "runs")]
    seed: Option<u64>,
    /// Directory of the set that -n makes [default: pagelab-SECONDS.rec].
    #[arg(short, long = "output", value_name = "SET", requires = "runs")]
    output: Option<PathBuf>,
    /// Continue the interrupted set in -o; give the other options as before.
    #[arg(long, requires = "output")]
    resume: bool,
    /// With -n: the commands.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl NewSet {
    /// Whether streams that the host refuses are left out.
    pub(super) fn is_best_effort(&self) -> bool {
        self.best_effort
    }
}

/// What became of the runs.
pub(super) enum Made {
    /// They were made, into this set, and compared.
    Compared(Box<Comparison>, PathBuf),
    /// The user ended them early and knows how to go on.
    Interrupted,
    /// No -n was given.
    NotAsked,
}

/// Makes the runs, if -n asks for them.
pub(super) fn make(args: &super::Args) -> Result<Made, Failure> {
    let new = &args.new;
    let Some(runs) = new.runs else {
        if !new.command.is_empty() {
            return Err(wrong(
                "compare: found a command and no number of runs; needed -n: pagelab compare -n 10 -- 'CMD A' 'CMD B'",
            ));
        }
        return Ok(Made::NotAsked);
    };
    if is_part(args) {
        return Err(wrong("compare: --from and --to choose a part of recordings; needed: two recordings or a set"));
    }
    let plan = plan(args, runs)?;
    let mut options = RunOptions::new(new.output.clone().unwrap_or_else(default_output));
    options.seed = new.seed;
    options.alpha = args.alpha;
    options.resume = new.resume;
    options.best_effort = new.best_effort;
    options.hide_output = !new.show_output;
    let outcome = make_runs(&plan, &options)?;
    if outcome.interrupted {
        let words: Vec<String> = std::env::args().collect();
        // Runs made with other rights would be recorded otherwise.
        let as_root = std::env::var_os("SUDO_UID").is_some();
        say!("pagelab: broken off; go on with: {}", again(&words, &outcome.dir, as_root));
        return Ok(Made::Interrupted);
    }
    say!("pagelab: the runs are in {}", outcome.dir.display());
    let comparison = outcome.document.comparison.ok_or_else(|| wrong("no run was made; nothing is compared"))?;
    Ok(Made::Compared(Box::new(comparison), outcome.dir))
}

/// The command line that goes on with a set: the same words, and where the set is.
fn again(words: &[String], set: &Path, as_root: bool) -> String {
    let separator = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (before, commands) = words.split_at(separator);
    let mut out = String::from(if as_root { "sudo pagelab" } else { "pagelab" });
    for word in before.iter().skip(1).filter(|word| *word != "--resume") {
        let _ = write!(out, " {}", shell_word(word));
    }
    let is_output = |word: &String| word.starts_with("-o") || word.starts_with("--output");
    if !before.iter().any(is_output) {
        let _ = write!(out, " -o {}", shell_word(&set.display().to_string()));
    }
    out.push_str(" --resume");
    for word in commands {
        let _ = write!(out, " {}", shell_word(word));
    }
    out
}

fn plan(args: &super::Args, runs: u64) -> Result<Plan, Failure> {
    let text = plan_text(args, runs)?;
    let here = std::env::current_dir().map_err(Failure::host)?;
    Plan::parse(Path::new(ORIGIN), &here, &text).map_err(|error| {
        let host = error.exit_status() == 3;
        let error = wrong(in_options(&error));
        match error {
            Failure::Input(error) if host => Failure::Host(error),
            other => other,
        }
    })
}

/// A mistake of the plan in the words of the command line, which has no lines and calls keys options.
fn in_options(error: &PlanError) -> String {
    let text = error.to_string();
    let begin = text.find(ORIGIN).unwrap_or(0) + ORIGIN.len();
    let rest = text.get(begin..).unwrap_or("").trim_start_matches(|c: char| c == ':' || c.is_ascii_digit());
    let rest = rest.trim_start();
    let options = [
        ("observe", "--observe"),
        ("prepare", "--prepare"),
        ("cleanup", "--cleanup"),
        ("between", "--between"),
        ("timeout", "--timeout"),
        ("warmup", "--warmup"),
        ("primary.metric", "--metric"),
        ("seed", "--seed"),
    ];
    let renamed = options.iter().find_map(|(key, option)| {
        let rest = rest.strip_prefix(key)?;
        rest.starts_with(':').then(|| format!("{option}{rest}"))
    });
    let of_name = || rest.strip_prefix("variant").map(|rest| format!("--name{rest}"));
    let renamed = renamed.or_else(of_name).unwrap_or_else(|| rest.to_owned());
    format!("{ORIGIN}: {renamed}")
}

fn plan_text(args: &super::Args, runs: u64) -> Result<String, Failure> {
    let new = &args.new;
    let mut plan = Table::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            plan.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Value::String);
    put("title", Some(format!("compare -n {runs} -- {}", new.command.join(" ")).into()));
    put("runs", Some(i64::try_from(runs).map_err(Failure::input)?.into()));
    put("observe", text(&new.observe));
    put("warmup", new.warmup.map(|runs| i64::from(runs).into()));
    put("prepare", text(&new.prepare));
    put("cleanup", text(&new.cleanup));
    put("between", text(&new.between));
    put("timeout", text(&new.timeout));
    let deciding = args.metric.as_deref().or_else(|| new.value.first().map(|value| value.name.as_str()));
    put("primary", deciding.map(|name| primary(name, &new.value)).transpose()?.map(Value::Table));
    let [base, test] = names(&new.name)?;
    put("base", Some(base.clone().into()));
    put("variant", Some(sides(new, [base, test], runs)?.into()));
    let plan = toml::to_string(&plan).map_err(Failure::host)?;
    // Tables keep no order, and that of the values is the user's.
    Ok(plan + &values(&new.value)?)
}

fn names(given: &[String]) -> Result<[String; 2], Failure> {
    match given {
        [] => Ok(["base".to_owned(), "test".to_owned()]),
        [base, test] if base != test => Ok([base.clone(), test.clone()]),
        _ => Err(wrong(format!(
            "--name: found {:?}, needed two different names, the base first: --name old,new",
            given.join(",")
        ))),
    }
}

fn values(values: &[ValueSpec]) -> Result<String, Failure> {
    let mut out = String::new();
    for (place, value) in values.iter().enumerate() {
        if values.iter().take(place).any(|other| other.name == value.name) {
            return Err(wrong(format!("--value: found {} twice, needed a name of its own for each", value.name)));
        }
        let mut table = Table::from_iter([("regex".to_owned(), Value::from(value.regex.clone()))]);
        if let Some(better) = value.direction {
            table.insert("direction".to_owned(), better.word().into());
        }
        let text = toml::to_string(&table).map_err(Failure::host)?;
        // A name has no letter that would end the quotes.
        let _ = write!(out, "\n[value.\"{}\"]\n{text}", value.name);
    }
    Ok(out)
}

/// The metric that decides. A neutral one has no direction: the plan says none either.
fn primary(name: &str, values: &[ValueSpec]) -> Result<Table, Failure> {
    let choice = super::primary_choice(name, values)?;
    let mut table = Table::from_iter([("metric".to_owned(), Value::from(choice.metric))]);
    let direction = choice.direction.name();
    if direction != "neutral" {
        table.insert("direction".to_owned(), direction.into());
    }
    Ok(table)
}

/// The two variants.
fn sides(new: &NewSet, names: [String; 2], runs: u64) -> Result<Table, Failure> {
    let mut sides = Table::new();
    let [base, test] = names;
    let mut side = |name: String, command: Value, setting: Option<(&str, &str)>| {
        let mut variant = Table::from_iter([("command".to_owned(), command)]);
        if let Some((key, value)) = setting {
            let settings = Table::from_iter([(key.to_owned(), Value::from(value))]);
            variant.insert("settings".to_owned(), settings.into());
        }
        sides.insert(name, variant.into());
    };
    match (&new.setting, new.command.as_slice()) {
        (Some(setting), words) => {
            let parts = setting.split_once('=').and_then(|(key, values)| Some((key, values.split_once(',')?)));
            let (key, (a, b)) = parts.ok_or_else(|| {
                wrong(format!("--setting: found {setting:?}, needed KEY=A,B such as thp.enabled=always,madvise"))
            })?;
            refuse_two_lines(words)?;
            side(base, command(words), Some((key, a)));
            side(test, command(words), Some((key, b)));
        }
        (None, [a, b]) => {
            side(base, command(std::slice::from_ref(a)), None);
            side(test, command(std::slice::from_ref(b)), None);
        }
        (None, other) => {
            let found = match other.len() {
                1 => "1 command".to_owned(),
                number => format!("{number} words"),
            };
            return Err(wrong(format!(
                "compare -n: found {found}, needed two commands, each in quotes: pagelab compare -n {runs} -- 'CMD A' 'CMD B'; or one command and --setting KEY=A,B"
            )));
        }
    }
    Ok(sides)
}

/// One rule for every form: one word is a command line for the shell, several are a program and its arguments. A word that
/// is a program's name goes without the shell, so that a program that is not there is told before the first run.
fn command(words: &[String]) -> Value {
    let special = |letter: char| letter.is_whitespace() || "|&;<>()$`\\\"'*?[]#~=%{}!".contains(letter);
    match words {
        [line] if line.contains(special) => Value::String(line.clone()),
        words => Value::Array(words.iter().cloned().map(Value::String).collect()),
    }
}

/// With --setting there is one command. A first word with blanks that is no program was meant as the first of two.
fn refuse_two_lines(words: &[String]) -> Result<(), Failure> {
    match words {
        [first, _, ..] if first.contains(char::is_whitespace) && !Path::new(first).exists() => {
            let needed = "compare --setting: found several command lines, needed one command: a single word in quotes is a command line, several words are a program and its arguments";
            Err(wrong(format!("{needed}; found {first:?} where the program stands")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn one_word_is_a_command_line_in_every_form() {
        assert_eq!(command(&words(&["sleep 1"])), Value::from("sleep 1"));
        assert_eq!(command(&words(&["./a|cat"])), Value::from("./a|cat"));
        assert_eq!(command(&words(&["./a"])), Value::from(vec!["./a"]));
        assert_eq!(command(&words(&["sleep", "1"])), Value::from(vec!["sleep", "1"]));
        assert!(refuse_two_lines(&words(&["sleep 1", "sleep 2"])).is_err());
        assert!(refuse_two_lines(&words(&["sleep", "1 2"])).is_ok());
    }

    #[test]
    fn the_advice_is_the_same_command_line_and_the_set() {
        let typed = words(&["/usr/bin/pagelab", "compare", "-n", "5", "--", "sleep 1", "sleep 2"]);
        let set = Path::new("/tmp/a set");
        assert_eq!(again(&typed, set, false), "pagelab compare -n 5 -o '/tmp/a set' --resume -- 'sleep 1' 'sleep 2'");
        let typed = words(&["pagelab", "compare", "-n", "5", "-o", "s", "--resume", "--", "-o", "b"]);
        assert_eq!(again(&typed, set, true), "sudo pagelab compare -n 5 -o s --resume -- -o b");
    }
}
