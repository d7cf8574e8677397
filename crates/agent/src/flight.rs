//! The flight recorder: a recorder that runs all the time and keeps the last seconds; a trigger keeps them.
//!
//! `pagelab record --last S` writes into `DIR/.agent/flight-N.rec` and removes what has grown old. When a trigger has fired and `after` has
//! passed, it is sent SIGUSR2, closes its recording, and the next one begins at once. A recorder keeps tasks, mappings and stacks from its
//! start, so each runs for half an hour: then another is started beside it, and takes over when it holds as much as a trigger wants. That is
//! done between two windows: three recorders would need half as much memory again.
//!
//! A recording that is left behind by a kill holds the last seconds before it, and is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pagelab_recording::{EndedBy, Manifest};
use pagelab_vocab::units::duration;
use rustix::process::Signal;
use serde_json::json;

use crate::child::{Ended, Running};
use crate::config::Flight;
use crate::journal::Fired;
use crate::schedule::Now;
use crate::store::{LABEL, Store, utc};
use crate::trigger::Trigger;

const S: i64 = 1_000_000_000;
/// How long one recorder runs.
const LONGEST_NS: i64 = 1800 * S;
/// And if windows leave no time in which two may run side by side.
const LONGEST_EVER_NS: i64 = 2 * LONGEST_NS;
/// Time that a recorder gets to close its recording.
const CLOSING_NS: i64 = 60 * S;
/// A trigger is seen, and a recorder closed, up to this much later.
const SLACK_NS: i64 = S;
/// So much later it is closed if a window is being closed at that time: both together take twice the memory.
const HELD_BACK_NS: i64 = 3 * S;
/// Seconds between two samples of the metrics, in windows and flight recordings: a sample reads a thousand values.
pub(crate) const METRICS_EVERY_S: u64 = 1;
/// Nice value at which recorders close their recordings: it takes a quarter of a second of a processor, which is what it has of a full
/// machine in five.
const CLOSE_NICE: &str = "10";
/// Pause before a recorder that ended by itself is started again; twice as long each time.
const FIRST_PAUSE_NS: i64 = 10 * S;
const LONGEST_PAUSE_NS: i64 = 900 * S;

/// A recorder that runs.
#[derive(Debug)]
struct Flying {
    running: Running,
    name: String,
    began_ns: i64,
}

/// One that was told to keep what it has.
#[derive(Debug)]
struct Closing {
    flying: Flying,
    fired: Fired,
    until_ns: i64,
}

/// What happened.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// A recording is in its place among the triggered ones.
    Kept(String),
    /// A recorder ended by itself.
    Died(String),
    /// Something to say.
    Said(String),
}

/// What is done about a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its recording ends after the time that was asked for.
    Taken,
    /// It falls into the recording of another.
    Joined,
    /// The last triggered recording is too young.
    TooSoon,
    /// No flight recorder runs.
    NoRecorder,
}

/// All flight recorders of an agent: the present one, the next one beside it, those that are closing.
#[derive(Debug)]
pub(crate) struct Deck {
    config: Flight,
    pagelab: PathBuf,
    /// The target, as options.
    target: Vec<OsString>,
    current: Option<Flying>,
    next: Option<Flying>,
    closing: Vec<Closing>,
    fired: Option<(Fired, i64)>,
    /// A window is being closed.
    is_held_back: bool,
    /// No window is recorded until then, CLOCK_BOOTTIME ns.
    no_window_until_ns: i64,
    latest_ns: Option<i64>,
    started: u32,
    not_before_ns: i64,
    pause_ns: i64,
    /// CPU and BPF time of those that have ended, ns.
    done_ns: (u64, u64),
}

impl Deck {
    pub(crate) fn new(config: Flight, pagelab: PathBuf, target: Vec<OsString>) -> Self {
        Self {
            config,
            pagelab,
            target,
            current: None,
            next: None,
            closing: Vec::new(),
            fired: None,
            is_held_back: false,
            no_window_until_ns: i64::MAX,
            latest_ns: None,
            started: 0,
            not_before_ns: i64::MIN,
            pause_ns: FIRST_PAUSE_NS,
            done_ns: (0, 0),
        }
    }

    /// Starts recorders with this program from now on.
    pub(crate) fn use_program(&mut self, pagelab: PathBuf) {
        self.pagelab = pagelab;
    }

    /// Whether a window is being closed: a triggered recording is closed after it then, within [`HELD_BACK_NS`].
    pub(crate) fn hold_back(&mut self, window_closes: bool) {
        self.is_held_back = window_closes;
    }

    /// Until when no window is recorded, CLOCK_BOOTTIME ns: the past while one is.
    pub(crate) fn expect_no_window_until(&mut self, boot_ns: i64) {
        self.no_window_until_ns = boot_ns;
    }

    /// Whether one records.
    pub(crate) fn is_up(&self) -> bool {
        self.current.is_some()
    }

    /// The trigger whose recording is not in place yet.
    pub(crate) fn pending(&self) -> Option<&Fired> {
        let closing = self.closing.last().map(|closing| &closing.fired);
        self.fired.as_ref().map(|(fired, _)| fired).or(closing)
    }

    /// When a recording that was triggered ends, CLOCK_BOOTTIME ns.
    pub(crate) fn due_ns(&self) -> Option<i64> {
        let held_ns = if self.is_held_back { HELD_BACK_NS } else { 0 };
        self.fired.as_ref().map(|(_, due_ns)| *due_ns + held_ns)
    }

    fn runs(&self) -> impl Iterator<Item = &Running> {
        let flying = self.current.iter().chain(&self.next).chain(self.closing.iter().map(|closing| &closing.flying));
        flying.map(|flying| &flying.running)
    }

    /// Looks at the run time of their BPF programs.
    pub(crate) fn look(&mut self) {
        let closing = self.closing.iter_mut().map(|closing| &mut closing.flying);
        self.current.iter_mut().chain(&mut self.next).chain(closing).for_each(|flying| flying.running.look());
    }

    /// CPU and BPF time of all so far, ns.
    pub(crate) fn cost_ns(&self) -> (u64, u64) {
        self.runs().fold(self.done_ns, |(cpu, bpf), running| (cpu + running.cpu_ns(), bpf + running.bpf_ns()))
    }

    /// CPU time of those that run, ns.
    pub(crate) fn running_cpu_ns(&self) -> u64 {
        self.runs().map(Running::cpu_ns).sum()
    }

    /// Process ids of those that run.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.runs().map(Running::pid).collect()
    }

    fn ns(time: std::time::Duration) -> i64 {
        i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
    }

    /// Answers a trigger.
    pub(crate) fn trigger(&mut self, trigger: &Trigger, now: Now) -> Answer {
        if let Some((fired, _)) = &mut self.fired {
            let words = trigger.to_string();
            if !fired.trigger.split(", ").any(|known| known == words) {
                fired.trigger = format!("{}, {words}", fired.trigger);
            }
            return Answer::Joined;
        }
        let pause_ns = Self::ns(self.config.at_most_every);
        if self.latest_ns.is_some_and(|latest_ns| now.boot_ns - latest_ns < pause_ns) {
            return Answer::TooSoon;
        }
        if self.current.is_none() {
            return Answer::NoRecorder;
        }
        self.latest_ns = Some(now.boot_ns);
        let fired = Fired { trigger: trigger.to_string(), slug: trigger.slug(), real_ns: now.real_ns };
        self.fired = Some((fired, now.boot_ns + Self::ns(self.config.after)));
        Answer::Taken
    }

    /// Does what is due. Without `may_run` the present one ends, but for one that a trigger waits for.
    pub(crate) fn step(&mut self, now: Now, may_run: bool, store: &mut Store) -> Vec<Event> {
        let mut events = Vec::new();
        self.take_closed(now, store, &mut events);
        if self.due_ns().is_some_and(|due_ns| now.boot_ns >= due_ns) {
            self.keep(now);
        }
        self.take_dead(now, store, &mut events);
        if !may_run {
            if self.fired.is_none() {
                self.end(store);
            }
            return events;
        }
        if self.current.is_none() && now.boot_ns >= self.not_before_ns {
            self.current = self.start(now, store, &mut events);
        }
        self.take_turns(now, store, &mut events);
        events
    }

    fn keep(&mut self, now: Now) {
        let (Some(flying), Some((fired, _))) = (self.current.take(), self.fired.take()) else { return };
        flying.running.signal(Signal::USR2);
        self.closing.push(Closing { flying, fired, until_ns: now.boot_ns + CLOSING_NS });
        self.current = self.next.take();
    }

    fn take_closed(&mut self, now: Now, store: &mut Store, events: &mut Vec<Event>) {
        let mut open = Vec::new();
        for mut closing in std::mem::take(&mut self.closing) {
            let ended = match closing.flying.running.ended() {
                None if now.boot_ns < closing.until_ns => {
                    open.push(closing);
                    continue;
                }
                ended => ended,
            };
            let Closing { flying: Flying { running, name, .. }, fired, .. } = closing;
            let ended = ended.unwrap_or_else(|| running.kill());
            self.note_cost(&ended, store, &name);
            events.push(self.put(&name, &fired, store, &ended.said));
        }
        self.closing = open;
    }

    fn put(&self, name: &str, fired: &Fired, store: &mut Store, said: &[String]) -> Event {
        match put_in_place(name, fired, Some(&self.config), store) {
            Ok(recording) => Event::Kept(recording),
            Err(reason) => {
                store.drop_flight(name);
                Event::Said(format!("the recording of {} is lost: {reason}; {}", fired.trigger, said.join("; ")))
            }
        }
    }

    /// One that ended by itself has still what it held.
    fn take_dead(&mut self, now: Now, store: &mut Store, events: &mut Vec<Event>) {
        if let Some(ended) = self.next.as_mut().and_then(|flying| flying.running.ended())
            && let Some(flying) = self.next.take()
        {
            self.note_cost(&ended, store, &flying.name);
            store.drop_flight(&flying.name);
        }
        let Some(ended) = self.current.as_mut().and_then(|flying| flying.running.ended()) else { return };
        let Some(flying) = self.current.take() else { return };
        self.note_cost(&ended, store, &flying.name);
        let words = ended.said.join("; ");
        events.push(Event::Died(format!(
            "the flight recorder ended: {}{}{words}",
            ended.status,
            if words.is_empty() { "" } else { ": " }
        )));
        if now.boot_ns - flying.began_ns > LONGEST_PAUSE_NS {
            self.pause_ns = FIRST_PAUSE_NS;
        }
        self.not_before_ns = now.boot_ns + self.pause_ns;
        self.pause_ns = (self.pause_ns * 2).min(LONGEST_PAUSE_NS);
        let pending = self.fired.take().map(|(fired, _)| fired);
        let fired = pending.unwrap_or_else(|| Fired {
            trigger: format!("its end ({})", ended.status),
            slug: "died".to_owned(),
            real_ns: now.real_ns,
        });
        // One that could not even begin has left nothing.
        if Manifest::load(&store.own_path(&flying.name)).is_ok() {
            events.push(self.put(&flying.name, &fired, store, &[]));
        } else {
            store.drop_flight(&flying.name);
        }
    }

    fn take_turns(&mut self, now: Now, store: &mut Store, events: &mut Vec<Event>) {
        let age_ns = |flying: &Option<Flying>| flying.as_ref().map(|flying| now.boot_ns - flying.began_ns);
        if self.fired.is_some() {
            return;
        }
        let enough_ns = Self::ns(self.config.before) + SLACK_NS;
        let fits = now.boot_ns + enough_ns + SLACK_NS <= self.no_window_until_ns;
        let longest_ns = if fits { LONGEST_NS } else { LONGEST_EVER_NS };
        if self.next.is_none() && age_ns(&self.current).is_some_and(|age_ns| age_ns >= longest_ns) {
            self.next = self.start(now, store, events);
        }
        if age_ns(&self.next).is_some_and(|age_ns| age_ns >= enough_ns)
            && let Some(old) = self.current.take()
        {
            self.discard(old, store);
            self.current = self.next.take();
        }
    }

    fn start(&mut self, now: Now, store: &Store, events: &mut Vec<Event>) -> Option<Flying> {
        self.started += 1;
        // Not the name of one that an agent before has left.
        let name = format!("flight-{}-{}.rec", std::process::id(), self.started);
        match Running::start(&self.pagelab, &self.words(&store.own_path(&name))) {
            Ok(running) => Some(Flying { running, name, began_ns: now.boot_ns }),
            Err(error) => {
                self.not_before_ns = now.boot_ns + self.pause_ns;
                self.pause_ns = (self.pause_ns * 2).min(LONGEST_PAUSE_NS);
                events.push(Event::Said(format!(
                    "the flight recorder cannot be started: {}: {error}",
                    self.pagelab.display()
                )));
                None
            }
        }
    }

    fn words(&self, out: &Path) -> Vec<OsString> {
        let Flight { before, after, observe, frequency_hz, ring_bytes, .. } = &self.config;
        let last_ns = Self::ns(*before) + Self::ns(*after) + SLACK_NS + HELD_BACK_NS;
        let last_s = last_ns as f64 / S as f64;
        let options = [
            ("--label", format!("{LABEL}flight recorder, the last {}", duration(last_ns as f64))),
            ("--observe", observe.clone()),
            ("--frequency", frequency_hz.to_string()),
            ("--ring-bytes", ring_bytes.to_string()),
            ("--last", last_s.to_string()),
            ("--metrics-every", METRICS_EVERY_S.to_string()),
        ];
        record_words(out, options, self.target.iter().cloned())
    }

    fn note_cost(&mut self, ended: &Ended, store: &Store, name: &str) {
        let told = Manifest::load(&store.own_path(name)).ok().and_then(|manifest| manifest.self_cost.bpf_ns);
        self.done_ns.0 += ended.cpu_ns;
        self.done_ns.1 += ended.bpf_ns.max(told.unwrap_or(0));
    }

    fn discard(&mut self, flying: Flying, store: &Store) {
        // What it would write when it is asked to end is not wanted.
        let ended = flying.running.kill();
        self.done_ns.0 += ended.cpu_ns;
        self.done_ns.1 += ended.bpf_ns;
        store.drop_flight(&flying.name);
    }

    /// Ends the recorders that nobody waits for.
    fn end(&mut self, store: &Store) {
        for flying in [self.current.take(), self.next.take()].into_iter().flatten() {
            self.discard(flying, store);
        }
    }

    /// The agent ends: what a trigger waits for is kept as it is, the rest is not.
    pub(crate) fn stop(&mut self, now: Now, store: &Store) {
        self.keep(now);
        self.end(store);
    }

    /// Whether recordings are still being closed; takes those that are not.
    pub(crate) fn is_closing(&mut self, now: Now, store: &mut Store) -> (bool, Vec<Event>) {
        let mut events = Vec::new();
        self.take_closed(now, store, &mut events);
        (!self.closing.is_empty(), events)
    }

    /// Kills recorders that are still closing; the next agent finds what they have left.
    pub(crate) fn abort(&mut self) {
        for closing in std::mem::take(&mut self.closing) {
            closing.flying.running.kill();
        }
    }
}

/// The words of a recorder, of a window or a flight recorder.
pub(crate) fn record_words<const N: usize>(
    out: &Path,
    options: [(&str, String); N],
    target: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["record", "-q", "--close-nice", CLOSE_NICE, "-o"].map(Into::into).into();
    words.push(out.into());
    words.extend(options.into_iter().flat_map(|(option, value)| [option.into(), value.into()]));
    words.extend(["--best-effort", "--bpf-stats"].map(Into::into));
    words.extend(target);
    words
}

/// Puts a recording that ended to the triggered ones, with the trigger in its label. Its name there.
fn put_in_place(name: &str, fired: &Fired, config: Option<&Flight>, store: &mut Store) -> Result<String, String> {
    let path = store.own_path(name);
    let mut manifest = Manifest::load(&path).map_err(|error| error.to_string())?;
    let when = utc(fired.real_ns).format("%Y-%m-%d %H:%M:%S UTC");
    manifest.label = Some(format!("{LABEL}triggered by {} at {when}", fired.trigger));
    let (before_ns, after_ns) = config.map(|config| (Deck::ns(config.before), Deck::ns(config.after))).unzip();
    let about = json!({
        "trigger": fired.trigger, "fired_realtime_ns": fired.real_ns, "before_ns": before_ns, "after_ns": after_ns,
    });
    manifest.extra.insert("agent".to_owned(), about);
    manifest.rewrite(&path).map_err(|error| error.to_string())?;
    let kept = store.keep_flight(name, fired.real_ns, &fired.slug).map_err(|error| error.to_string())?;
    store.ended(&kept);
    Ok(kept)
}

/// Keeps what the flight recorders of a killed agent have left. One that had not begun is removed, and so is one that was to take over
/// from another: that has the same seconds and more.
pub(crate) fn keep_left(names: &[String], pending: Option<&Fired>, now: Now, store: &mut Store) -> Vec<Event> {
    let mut left: Vec<(i64, bool, &String)> = Vec::new();
    for name in names {
        match Manifest::load(&store.own_path(name)) {
            Ok(manifest) => left.push((manifest.clock.start_ns, manifest.ended_by == Some(EndedBy::Kept), name)),
            Err(_) => store.drop_flight(name),
        }
    }
    left.sort_unstable();
    let mut events = Vec::new();
    let mut has_one = false;
    for (_, was_told, name) in left {
        if !was_told && std::mem::replace(&mut has_one, true) {
            store.drop_flight(name);
            continue;
        }
        let killed = || Fired {
            trigger: "the end of an agent that was killed".to_owned(),
            slug: "killed".to_owned(),
            real_ns: now.real_ns,
        };
        let fired = pending.cloned().unwrap_or_else(killed);
        events.push(match put_in_place(name, &fired, None, store) {
            Ok(recording) => Event::Kept(recording),
            Err(reason) => Event::Said(format!("{name}, left by an agent that was killed, cannot be kept: {reason}")),
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now(seconds: i64) -> Now {
        Now { boot_ns: seconds * S, real_ns: (1_795_000_000 + seconds) * S }
    }

    /// A stand-in for `pagelab record`: makes a recording at once and ends on SIGUSR2, or after some seconds.
    fn recorder(dir: &Path, lives_s: &str) -> PathBuf {
        let path = dir.join("recorder");
        let script = format!(
            "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nmkdir -p \"$2/metrics\"\n\
             echo '{{\"format\": 1, \"complete\": true}}' > \"$2/manifest.json\"\n\
             trap 'exit 0' USR2\ni=0; while [ $i -lt {lives_s}00 ]; do sleep 0.01; i=$((i+1)); done\n"
        );
        let made = std::process::Command::new("sh")
            .args(["-c", "printf %s \"$0\" > \"$1\"; chmod 755 \"$1\""])
            .arg(script)
            .arg(&path)
            .status();
        assert!(made.expect("sh").success());
        path
    }

    fn flight(triggers: &str) -> Flight {
        Flight {
            triggers: vec![triggers.parse().expect("a trigger")],
            before: Duration::from_secs(30),
            after: Duration::from_secs(10),
            at_most_every: Duration::from_mins(10),
            observe: "tasks".to_owned(),
            frequency_hz: 19,
            ring_bytes: 1 << 20,
        }
    }

    struct Place {
        dir: tempfile::TempDir,
        store: Store,
        deck: Deck,
    }

    fn place(lives_s: &str) -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let program = recorder(dir.path(), lives_s);
        let (store, _) = Store::open(&dir.path().join("d"), None).expect("ours");
        Place { dir, store, deck: Deck::new(flight("signal"), program, vec!["-a".into()]) }
    }

    impl Place {
        /// Steps until something happens.
        fn until_event(&mut self, at: Now) -> Vec<Event> {
            let end = std::time::Instant::now() + Duration::from_secs(10);
            loop {
                let events = self.deck.step(at, true, &mut self.store);
                if !events.is_empty() || std::time::Instant::now() > end {
                    return events;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }

        /// Waits until the recorders have begun their recordings.
        fn settle(&self, count: usize) {
            let end = std::time::Instant::now() + Duration::from_secs(10);
            let begun = || {
                let own = self.dir.path().join("d/.agent");
                std::fs::read_dir(own)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .filter(|one| one.path().join("manifest.json").exists())
                    .count()
            };
            while begun() != count {
                assert!(std::time::Instant::now() < end, "{} of {count} recordings", begun());
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn a_trigger_keeps_the_recording_when_its_time_has_passed_and_the_next_one_begins() {
        let mut place = place("20");
        let Place { deck, store, .. } = &mut place;
        assert_eq!(deck.trigger(&Trigger::Signal, now(0)), Answer::NoRecorder);
        assert_eq!(deck.step(now(0), true, store), []);
        place.settle(1);
        let Place { deck, store, .. } = &mut place;
        assert_eq!(deck.trigger(&Trigger::Signal, now(100)), Answer::Taken);
        assert_eq!(deck.trigger(&Trigger::File("/x".into()), now(101)), Answer::Joined);
        assert_eq!(deck.trigger(&Trigger::File("/x".into()), now(102)), Answer::Joined);
        assert_eq!((deck.due_ns(), deck.step(now(109), true, store).len()), (Some(110 * S), 0));
        let pid = deck.pids()[0];
        deck.hold_back(true);
        assert_eq!(deck.due_ns(), Some(113 * S), "a window is being closed");
        deck.step(now(110), true, store);
        assert_eq!(deck.pids(), [pid], "it records on meanwhile");
        deck.hold_back(false);
        assert!(deck.step(now(110), true, store).is_empty() && deck.is_up(), "the next one runs while this one closes");
        assert_ne!(deck.current.as_ref().map(|flying| flying.running.pid()), Some(pid));
        let events = place.until_event(now(111));
        let [Event::Kept(name)] = &events[..] else { panic!("{events:?}") };
        assert!(name.starts_with("triggered/") && name.ends_with("-signal.rec"), "{name}");
        let manifest = Manifest::load(&place.store.path(name)).expect("it is there");
        let label = manifest.label.unwrap_or_default();
        assert!(label.starts_with("agent: triggered by signal, file:/x at 2026-11-18"), "{label}");
        assert_eq!(manifest.extra["agent"]["before_ns"], 30 * S);
        assert!(place.store.has(name) && place.deck.pending().is_none());
        // Beside others the next recorder may need longer than this one took to close.
        place.settle(1);
        assert_eq!(place.deck.trigger(&Trigger::Signal, now(699)), Answer::TooSoon);
        assert_eq!(place.deck.trigger(&Trigger::Signal, now(700)), Answer::Taken);
        place.deck.stop(now(700), &place.store);
        assert!(!place.deck.is_up());
        while place.deck.is_closing(now(701), &mut place.store).0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(std::fs::read_dir(place.dir.path().join("d/triggered")).expect("made").count(), 2);
        assert_eq!(
            place
                .dir
                .path()
                .join("d/.agent")
                .read_dir()
                .expect("made")
                .filter(|one| one.as_ref().is_ok_and(|one| one.path().is_dir()))
                .count(),
            0
        );
    }

    #[test]
    fn recorders_take_turns_without_a_gap() {
        let mut place = place("20");
        assert_eq!(place.deck.step(now(0), true, &mut place.store), []);
        place.settle(1);
        let first = place.deck.pids();
        assert_eq!(place.deck.step(now(1799), true, &mut place.store), []);
        assert_eq!(place.deck.pids(), first);
        assert_eq!(place.deck.step(now(1800), true, &mut place.store), []);
        assert_eq!(place.deck.pids().len(), 2, "the next one gathers its seconds");
        place.settle(2);
        assert_eq!(place.deck.step(now(1830), true, &mut place.store), []);
        assert_eq!(place.deck.pids()[0], first[0]);
        assert_eq!(place.deck.step(now(1831), true, &mut place.store), []);
        assert!(place.deck.pids().len() == 1 && place.deck.pids() != first);
        place.settle(1);
        assert_eq!(place.deck.step(now(1832), false, &mut place.store), []);
        assert!(!place.deck.is_up(), "it may not run");
        place.settle(0);
        assert!(place.deck.cost_ns().0 > 0, "what ended is in the sum");
    }

    #[test]
    fn recorders_take_turns_between_two_windows() {
        let mut place = place("20");
        place.deck.step(now(0), true, &mut place.store);
        place.settle(1);
        // One is being recorded; the next one begins too soon.
        for (at, until) in [(1800, 1700), (1810, 1841)] {
            place.deck.expect_no_window_until(now(until).boot_ns);
            place.deck.step(now(at), true, &mut place.store);
            assert_eq!(place.deck.pids().len(), 1, "{at}");
        }
        place.deck.expect_no_window_until(now(1842).boot_ns);
        place.deck.step(now(1810), true, &mut place.store);
        assert_eq!(place.deck.pids().len(), 2, "there is time");
        place.settle(2);
        place.deck.step(now(1841), true, &mut place.store);
        assert_eq!(place.deck.pids().len(), 1);
        // Windows leave no time for it: a recorder does not grow old for ever.
        place.deck.expect_no_window_until(now(0).boot_ns);
        place.settle(1);
        for (at, recorders) in [(1810 + 3599, 1), (1810 + 3600, 2)] {
            place.deck.step(now(at), true, &mut place.store);
            assert_eq!(place.deck.pids().len(), recorders, "{at}");
        }
        place.settle(2);
        place.deck.stop(now(5411), &place.store);
    }

    #[test]
    fn one_that_dies_is_kept_and_started_again_with_patience() {
        let mut place = place("0");
        assert_eq!(place.deck.step(now(0), true, &mut place.store), []);
        place.settle(1);
        let events = place.until_event(now(1));
        assert!(
            matches!(&events[..], [Event::Died(_), Event::Kept(name)] if name.ends_with("-died.rec")),
            "{events:?}"
        );
        assert!(place.deck.step(now(10), true, &mut place.store).is_empty() && !place.deck.is_up(), "10 s");
        place.deck.step(now(11), true, &mut place.store);
        assert!(place.deck.is_up());
        place.settle(1);
        assert!(!place.until_event(now(12)).is_empty());
        place.deck.step(now(31), true, &mut place.store);
        assert!(!place.deck.is_up(), "20 s");
        place.deck.step(now(32), true, &mut place.store);
        assert!(place.deck.is_up());
        place.deck.stop(now(33), &place.store);
    }

    #[test]
    fn what_a_kill_left_is_kept_once() {
        let mut place = place("0");
        let left = |name: &str, start_ns: i64, kept: bool| {
            let path = place.store.own_path(name);
            std::fs::create_dir(&path).expect("ours");
            let mut manifest = Manifest { ended_by: kept.then_some(EndedBy::Kept), ..Manifest::default() };
            manifest.clock.start_ns = start_ns;
            manifest.rewrite(&path).expect("ours");
            name.to_owned()
        };
        // The present one, the one that was to take over, one that was closing for a trigger, one that had not begun.
        let mut names = vec![
            left("flight-1-2.rec", 200, false),
            left("flight-1-3.rec", 300, false),
            left("flight-1-1.rec", 100, true),
        ];
        std::fs::create_dir(place.store.own_path("flight-1-4.rec")).expect("ours");
        names.push("flight-1-4.rec".to_owned());
        let fired = Fired { trigger: "file:/x".to_owned(), slug: "file".to_owned(), real_ns: now(0).real_ns };
        let events = keep_left(&names, Some(&fired), now(5), &mut place.store);
        assert!(matches!(&events[..], [Event::Kept(_), Event::Kept(_)]), "{events:?}");
        for name in &names {
            assert!(!place.store.own_path(name).exists(), "{name}");
        }
        let label = Manifest::load(&place.store.path("triggered/2026-11-18-110640-file.rec")).expect("kept").label;
        assert!(label.is_some_and(|label| label.contains("file:/x")));
    }
}
