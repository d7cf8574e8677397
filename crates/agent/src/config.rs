//! Keys that fit together, with the defaults for those that nobody gave.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use pagelab_vocab::streams::Stream;
use pagelab_vocab::units::{bytes, duration};

use crate::error::ConfigError;
use crate::keys::{Keys, Listen, Percent, Seconds, Size};
use crate::trigger::Trigger;

/// Recordings shorter than this hold little more than their start.
const SHORTEST_ON: Duration = Duration::from_secs(1);
/// Periods longer than this are no continuous recording, and sums of them must fit into nanoseconds.
const LONGEST_EVERY: Duration = Duration::from_hours(24);
/// A window of the default streams has about 1 MB on a busy host, and one is being made while another is removed.
const LEAST_KEEP_BYTES: u64 = 16 << 20;
/// A recording may take this part of what is kept: one burst of events does not push out all others.
const RECORDINGS_IN_SIZE: u64 = 8;

/// The streams of a window, unless others are asked for: the help of `--observe` names them.
const STREAMS: [Stream; 5] = [Stream::Metrics, Stream::Settings, Stream::Tasks, Stream::Waits, Stream::Cpu];

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Running processes, and what they fork.
    Processes(Vec<u32>),
    /// The tasks of a cgroup with this folder.
    Cgroup(PathBuf),
    /// Every task of the host.
    System,
}

impl Target {
    /// The target in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Processes(pids) => {
                format!("processes {}", pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            Self::Cgroup(path) => format!("cgroup {}", path.display()),
            Self::System => "the whole system".to_owned(),
        }
    }

    /// Whether there is something to record now.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Processes(pids) => pids.iter().any(|pid| PathBuf::from(format!("/proc/{pid}")).exists()),
            Self::Cgroup(path) => path.is_dir(),
            Self::System => true,
        }
    }
}

/// The flight recorder, which there is if there is a trigger.
#[derive(Debug, Clone, PartialEq)]
pub struct Flight {
    /// What ends it and keeps its recording.
    pub triggers: Vec<Trigger>,
    /// Time before a trigger that is kept.
    pub before: Duration,
    /// Time after it that is waited for.
    pub after: Duration,
    /// Least time between two kept recordings.
    pub at_most_every: Duration,
    /// Streams, as `--observe`.
    pub observe: String,
    /// Samples a second and CPU.
    pub frequency_hz: u64,
    /// Bytes of ring buffer per CPU.
    pub ring_bytes: u64,
}

/// What the agent does.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Folder of the recordings, absolute.
    pub dir: PathBuf,
    /// What is recorded.
    pub target: Target,
    /// Length of a window.
    pub on: Duration,
    /// Length of a period.
    pub every: Duration,
    /// Seed of the windows' places in their periods.
    pub seed: u64,
    /// Streams of the windows, as `--observe`.
    pub observe: String,
    /// Samples a second and CPU in windows.
    pub frequency_hz: u64,
    /// Bytes of ring buffer per CPU.
    pub ring_bytes: u64,
    /// The flight recorder.
    pub flight: Option<Flight>,
    /// Age at which recordings are removed.
    pub keep_for: Duration,
    /// Bytes that the folder may have.
    pub keep_bytes: u64,
    /// Bytes that its file system must have free.
    pub keep_free_bytes: u64,
    /// CPU time that may be taken, per cent of the machine's.
    pub max_cpu_pct: f64,
    /// Least duty cycle that periods are stretched to, per cent.
    pub least_duty_pct: f64,
    /// Where recordings are copied to.
    pub upload: Option<String>,
    /// Tries for each recording.
    pub upload_tries: u32,
    /// Where metrics are served.
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// Checks what was given, and fills in the defaults.
    ///
    /// # Errors
    /// A value is missing, or two do not fit together.
    pub fn new(keys: Keys) -> Result<Self, ConfigError> {
        let dir = keys.output.clone().ok_or_else(|| {
            values("found no folder for the recordings; needed: -o DIR, or output = \"DIR\" in the configuration file")
        })?;
        let dir = std::path::absolute(&dir).map_err(|error| values(&format!("-o {}: {error}", dir.display())))?;
        let (on, every) = (time(keys.on, 20), time(keys.every, 300));
        check_periods(on, every)?;
        let keep_bytes = keys.keep_size.unwrap_or(Size(2 << 30)).0;
        if keep_bytes < LEAST_KEEP_BYTES {
            let (found, needed) = (bytes(keep_bytes), bytes(LEAST_KEEP_BYTES));
            return Err(values(&format!("keep-size is {found}; needed: at least {needed}, such as --keep-size 2G")));
        }
        let listen = checked_listen(keys.listen, keys.listen_to_others)?;
        Ok(Self {
            dir,
            target: target(&keys)?,
            on,
            every,
            seed: keys.seed.unwrap_or(1),
            frequency_hz: keys.frequency.unwrap_or(49),
            ring_bytes: ring_bytes(&keys),
            keep_for: Duration::from_hours(24) * keys.keep_days.unwrap_or(7),
            keep_bytes,
            keep_free_bytes: keys.keep_free.unwrap_or(Size(1 << 30)).0,
            max_cpu_pct: keys.max_cpu_pct.unwrap_or(Percent(1.0)).0,
            least_duty_pct: keys.least_duty_pct.unwrap_or(Percent(1.0)).0,
            upload: checked_url(keys.upload.clone())?,
            upload_tries: keys.upload_tries.unwrap_or(10),
            listen,
            flight: flight(&keys)?,
            observe: keys.observe.unwrap_or_else(|| STREAMS.map(Stream::name).join(",")),
        })
    }

    /// Share of the time that is recorded while no period is doubled.
    pub fn duty_cycle(&self) -> f64 {
        self.on.as_secs_f64() / self.every.as_secs_f64()
    }

    /// Most bytes of one recording.
    pub(crate) fn recording_bytes(&self) -> u64 {
        self.keep_bytes / RECORDINGS_IN_SIZE
    }

    /// The configuration in a line, for the journal.
    pub(crate) fn words(&self) -> String {
        let target = self.target.words();
        let (on, every, duty) =
            (duration(self.on.as_nanos() as f64), duration(self.every.as_nanos() as f64), self.duty_cycle());
        let flight = match &self.flight {
            None => "no flight recorder".to_owned(),
            Some(flight) => {
                let triggers: Vec<String> = flight.triggers.iter().map(ToString::to_string).collect();
                format!("flight recorder ({}) kept on {}", flight.observe, triggers.join(", "))
            }
        };
        format!(
            "records {target} into {dir}: {on} of every {every} (duty cycle {duty:.3}), streams {observe}; {flight}",
            dir = self.dir.display(),
            observe = self.observe
        )
    }
}

fn values(words: &str) -> ConfigError {
    ConfigError::Values(words.to_owned())
}

fn time(given: Option<Seconds>, default_s: u64) -> Duration {
    given.map_or(Duration::from_secs(default_s), |given| given.0)
}

fn check_periods(on: Duration, every: Duration) -> Result<(), ConfigError> {
    let words = |time: Duration| duration(time.as_nanos() as f64);
    if on < SHORTEST_ON {
        return Err(values(&format!("on is {}; needed: at least {}", words(on), words(SHORTEST_ON))));
    }
    if on > every {
        let (on, every) = (words(on), words(every));
        return Err(values(&format!(
            "on is {on} and every is {every}; needed: on at most every, such as --on 20 --every 300"
        )));
    }
    if every > LONGEST_EVERY {
        return Err(values(&format!("every is {}; needed: at most {}", words(every), words(LONGEST_EVERY))));
    }
    Ok(())
}

fn target(keys: &Keys) -> Result<Target, ConfigError> {
    match (&keys.pid[..], &keys.cgroup, keys.all) {
        ([], None, _) => Ok(Target::System),
        ([], Some(path), false) => {
            let path =
                std::path::absolute(path).map_err(|error| values(&format!("cgroup {}: {error}", path.display())))?;
            Ok(Target::Cgroup(path))
        }
        (pids, None, false) => Ok(Target::Processes(pids.to_vec())),
        _ => Err(values("found two targets; needed: one of pid, cgroup and all")),
    }
}

fn flight(keys: &Keys) -> Result<Option<Flight>, ConfigError> {
    if keys.trigger.is_empty() {
        let given = [
            ("before", keys.before.is_some()),
            ("after", keys.after.is_some()),
            ("trigger-every", keys.trigger_every.is_some()),
            ("flight-observe", keys.flight_observe.is_some()),
            ("flight-frequency", keys.flight_frequency.is_some()),
        ];
        return match given.into_iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(values(&format!(
                "{key} is set and no trigger is: nothing would use it; needed: a trigger, such as --trigger psi:memory:some:150ms/1s"
            ))),
            None => Ok(None),
        };
    }
    Ok(Some(Flight {
        triggers: keys.trigger.clone(),
        before: time(keys.before, 30),
        after: time(keys.after, 10),
        at_most_every: time(keys.trigger_every, 600),
        // Without `waits`: a recorder that runs all the time would cost a database that switches much 5 % and more.
        observe: keys.flight_observe.clone().unwrap_or_else(|| "metrics,tasks,cpu".to_owned()),
        frequency_hz: keys.flight_frequency.unwrap_or(19),
        ring_bytes: ring_bytes(keys),
    }))
}

/// Two recorders run most of the time, on each CPU: with rings of the usual size these would be most of their memory.
fn ring_bytes(keys: &Keys) -> u64 {
    keys.ring_bytes.map_or(1 << 20, |size| size.0)
}

fn checked_url(url: Option<String>) -> Result<Option<String>, ConfigError> {
    let Some(url) = url else { return Ok(None) };
    let is_known = ["s3://", "gs://", "az://", "file:///"].iter().any(|scheme| url.starts_with(scheme));
    if !is_known {
        return Err(values(&format!(
            "upload is {url:?}; needed: a URL such as s3://BUCKET/PREFIX, gs://..., az://... or file:///FOLDER"
        )));
    }
    Ok(Some(url.trim_end_matches('/').to_owned()))
}

fn checked_listen(listen: Option<Listen>, to_others: bool) -> Result<Option<SocketAddr>, ConfigError> {
    let usual = || SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 9464));
    let address = listen.map_or_else(|| Some(usual()), |listen| listen.0);
    match address {
        Some(address) if !address.ip().is_loopback() && !to_others => Err(values(&format!(
            "listen is {address}, which other machines can reach; needed: a loopback address such as {}, or listen-to-others as well",
            usual()
        ))),
        address => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::CommandFactory as _;
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        keys: Keys,
    }

    fn typed(words: &str) -> Keys {
        Typed::try_parse_from(std::iter::once("agent").chain(words.split_whitespace())).expect(words).keys
    }

    fn refused(words: &str) -> String {
        Config::new(typed(words)).expect_err(words).to_string()
    }

    /// Each default is written twice: in the help, and where it is used.
    #[test]
    fn the_defaults_in_the_help_are_those_that_are_used() {
        let command = Typed::command();
        let mut words = String::from("-o /d --trigger signal");
        let mut count = 0;
        for arg in command.get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let Some((_, default)) = help.split_once("[default: ") else { continue };
            let (name, value) = (arg.get_long().expect("a long name"), default.trim_end_matches(['.', ']']));
            let _ = write!(words, " --{name} {value}");
            count += 1;
        }
        assert_eq!(count, 18, "{words}");
        let usual = Config::new(typed("-o /d --trigger signal")).expect("enough");
        assert_eq!(Config::new(typed(&words)).expect("the defaults are allowed"), usual);
    }

    #[test]
    fn every_option_is_a_key_of_the_file_and_the_command_line_wins() {
        let file = "output = '/f'\non = 5\nevery = '2m'\nseed = 7\nobserve = 'metrics'\nfrequency = 99\nring-bytes = '2M'\npid = [1, 2]\nall = false\n\
                    trigger = ['signal', 'file:/x', 'psi:io:full:100ms/2s']\nbefore = 20.5\nafter = '5s'\ntrigger-every = '1h'\n\
                    flight-observe = 'tasks'\nflight-frequency = 9\nkeep-days = 3\nkeep-size = '1G'\nkeep-free = 1048576\n\
                    max-cpu-pct = 0.5\nleast-duty-pct = 2\nupload = 's3://b/p/'\nupload-tries = 3\nlisten = '[::1]:0'\n\
                    listen-to-others = true\n";
        let keys = Keys::parse(file).expect("a file");
        let named =
            Typed::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect::<Vec<_>>();
        for name in named.iter().filter(|name| *name != "cgroup") {
            assert!(file.contains(&format!("{name} = ")), "{name} is in no file");
        }
        let config = Config::new(keys.clone()).expect("it fits");
        assert_eq!(
            (config.on.as_secs(), config.every.as_secs(), config.target),
            (5, 120, Target::Processes(vec![1, 2]))
        );
        assert_eq!(config.upload.as_deref(), Some("s3://b/p"));
        let over = Config::new(typed("--every 30 -a --trigger signal").over(keys)).expect("it fits");
        assert_eq!((over.on.as_secs(), over.every.as_secs(), over.target), (5, 30, Target::System));
        assert_eq!(over.flight.map(|flight| flight.triggers.len()), Some(1));
    }

    /// The example that is installed, as it is and with every key.
    #[test]
    fn the_example_of_deploy_has_every_key_at_its_default() {
        let text = include_str!("../../../deploy/agent.toml");
        let config = Config::new(Keys::parse(text).expect("a file")).expect("it fits");
        assert_eq!(config, Config::new(typed("-o /var/lib/pagelab")).expect("the defaults"));
        let is_key = |line: &&str| line.starts_with('#') && line.contains(" = ") && !line.starts_with("# ");
        let all: String = text
            .lines()
            .map(|line| line.strip_prefix('#').filter(|_| is_key(&line)).unwrap_or(line).to_owned() + "\n")
            .collect();
        let mut keys = Keys::parse(&all).expect("every line is right");
        for name in Typed::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)) {
            assert!(
                all.lines().any(|line| line.starts_with(&format!("{name} = "))),
                "{name} is not in deploy/agent.toml"
            );
        }
        // One target, and what differs from no trigger and no upload.
        (keys.pid, keys.cgroup, keys.upload) = (Vec::new(), None, None);
        let with_trigger = Config::new(Keys { trigger: keys.trigger.clone(), ..typed("-o /var/lib/pagelab") });
        assert_eq!(Config::new(keys).expect("it fits"), with_trigger.expect("the defaults"));
    }

    #[test]
    fn wrong_values_are_named_with_what_is_needed() {
        for (words, said) in [
            ("--every 60", "needed: -o DIR"),
            ("-o /d --on 400", "on is 400 s and every is 300 s; needed: on at most every"),
            ("-o /d --on 0.5", "needed: at least 1 s"),
            ("-o /d --every 2d", "every is 172800 s; needed: at most 86400 s"),
            ("-o /d -p 1 --cgroup /c", "found two targets"),
            ("-o /d -a -p 1", "found two targets"),
            ("-o /d --before 5", "before is set and no trigger is"),
            ("-o /d --keep-size 1M", "keep-size is 1 MiB; needed: at least 16 MiB"),
            ("-o /d --upload /tmp/x", "upload is \"/tmp/x\"; needed: a URL"),
            ("-o /d --listen 0.0.0.0:1", "other machines can reach"),
        ] {
            let found = refused(words);
            assert!(found.contains(said), "{words}: found {found:?}, needed {said:?}");
        }
        assert!(Config::new(typed("-o /d --listen 0.0.0.0:1 --listen-to-others")).is_ok());
        assert_eq!(Config::new(typed("-o /d --listen none")).expect("it fits").listen, None);
        assert!(Config::new(typed("-o /d --on 60 --every 60")).is_ok(), "a duty cycle of 1");
    }

    #[test]
    fn wrong_files_are_named_with_line_and_key() {
        for (text, said) in [
            ("on = 1\nevry = 60\n", "evry"),
            ("on = 1\nevry = 60\n", "line 2"),
            ("on = 1\nevry = 60\n", "every"),
            ("on = 'soon'\n", "found \"soon\", needed a number of seconds"),
            ("on = -1\n", "found \"-1\", needed a number of seconds"),
            ("on = [1]\n", "needed one of them, as on the command line"),
            ("trigger = ['pis:memory']\n", "found \"pis:memory\""),
            ("keep-size = '0'\n", "found \"0\""),
            ("max-cpu-pct = 101\n", "at most 100"),
            ("on = 1\non = 2\n", "duplicate"),
        ] {
            let found = Keys::parse(text).expect_err(text);
            assert!(found.contains(said), "{text}: found {found:?}, needed {said:?}");
        }
    }

    #[test]
    fn a_file_that_others_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("agent.toml");
        std::fs::write(&path, "on = 5\n").expect("ours");
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("ours");
        set(0o644);
        assert_eq!(Keys::load(&path).expect("read").on, Some(Seconds(Duration::from_secs(5))));
        set(0o664);
        let said = Keys::load(&path).expect_err("others write").to_string();
        assert!(said.contains("mode 0664") && said.contains("chmod go-w"), "{said}");
        let said = Keys::load(&dir.path().join("none.toml")).expect_err("missing").to_string();
        assert!(said.contains("none.toml"), "{said}");
    }
}
