//! The loop that holds everything together.
//!
//! One thread sleeps until something is due, a signal comes or pressure fires, and then does what is due. Nothing in it waits for a disk
//! to sync, for a network or for a child; those who take time are processes of their own. Metrics are served by a second thread.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagelab_host::facts::Facts;
use pagelab_recording::{Manifest, ProbeState};
use pagelab_vocab::units::{bytes, duration};
use rustix::process::Signal;

use crate::child::{Ended, Programs, Running};
use crate::config::{Config, Target};
use crate::cost::{Cap, Sample};
use crate::flight::{Answer, Deck, Event, METRICS_EVERY_S, keep_left, record_words};
use crate::journal::Memory;
use crate::metrics::Metrics;
use crate::notify::Notify;
use crate::schedule::{Now, Plan, Reason, Schedule, Step};
use crate::server;
use crate::signals::Signals;
use crate::store::{Found, Keep, LABEL, Store, StoreError, Why};
use crate::trigger::Watches;
use crate::upload::{Copied, Uploader};
use crate::usage::{own_cpu_time, resident_bytes};

const S: i64 = 1_000_000_000;
/// Longest sleep: files and commands of triggers, ends of children and the pause are looked for that often.
const TICK: Duration = Duration::from_secs(1);
/// Time between two looks at what takes longer to find out: sizes, memory, BPF time.
const LOOK_NS: i64 = 10 * S;
/// Time that a recorder gets beyond the end of its window.
const CLOSING_NS: i64 = 60 * S;
/// Time before a window's end in which no other recording is to be closed: closing takes the most memory.
const NEARLY_NS: i64 = S;
/// Time in which the agent ends.
const STOP_TIME: Duration = Duration::from_millis(1700);
/// A clock that was set by more makes ages doubtful.
const DOUBTFUL_NS: i64 = 3600 * S;
/// So long are ages not acted upon then.
const DOUBT_NS: i64 = 24 * 3600 * S;
/// Room that is made for the next recording at least.
const LEAST_RESERVE_BYTES: u64 = 1 << 20;
/// Recordings whose largest is the room made for the next.
const RECENT: usize = 10;

/// Why an agent cannot run, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The host cannot do what was asked for: what is needed.
    #[error("{0}")]
    Host(String),
}

/// A window that is being recorded, or closed.
#[derive(Debug)]
struct Window {
    running: Running,
    recording: String,
    until_ns: i64,
}

impl Window {
    /// Whether its recorder closes its recording, or is about to.
    fn is_closing(&self, now: Now) -> bool {
        now.boot_ns >= self.until_ns - CLOSING_NS - NEARLY_NS
    }
}

/// Own cost up to an instant, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    at_ns: i64,
    /// CPU time of the agent and its children.
    cpu_ns: u64,
    /// CPU and BPF time of windows.
    window_ns: u64,
    /// CPU and BPF time of flight recorders.
    flight_ns: u64,
    /// BPF time of both.
    bpf_ns: u64,
}

struct Agent<'a> {
    config: &'a Config,
    programs: Programs,
    say: &'a dyn Fn(&str),
    boot_id: Option<String>,
    store: Store,
    schedule: Schedule,
    cap: Cap,
    windows: Vec<Window>,
    /// When the next one begins, CLOCK_BOOTTIME ns; in the past until the schedule has said.
    next_window_ns: i64,
    deck: Option<Deck>,
    watches: Watches,
    uploader: Option<Uploader>,
    /// Marks on their way into running recordings.
    marks: Vec<Running>,
    metrics: Arc<Metrics>,
    notify: Notify,
    /// CPU and BPF time of windows that have ended, ns.
    windows_done_ns: (u64, u64),
    spent: Spent,
    /// Periods since the window before that were left out for another reason than their cost.
    idle_periods: u64,
    next_look_ns: i64,
    ages_doubtful_until_ns: i64,
    recent_bytes: VecDeque<u64>,
    skipping: Option<Reason>,
    window_said: String,
    has_recorded: bool,
}

/// Runs until SIGTERM, SIGINT or SIGQUIT. `say` gets lines for the journal. To be called by the main thread.
///
/// # Errors
/// What is needed to begin is not there, or the folder was taken away.
pub fn run(config: &Config, programs: Programs, say: &dyn Fn(&str)) -> Result<(), AgentError> {
    if !rustix::process::geteuid().is_root() {
        return Err(AgentError::Host(
            "found an ordinary user; needed: root, for BPF and for other users' processes: sudo pagelab agent ..."
                .to_owned(),
        ));
    }
    let triggers = config.flight.as_ref().map(|flight| flight.triggers.clone()).unwrap_or_default();
    let (watches, notes) = Watches::open(&triggers).map_err(AgentError::Host)?;
    let system = |what: &str, error: &std::io::Error| AgentError::Host(format!("{what}: {error}"));
    let signals = Signals::take_over().map_err(|error| system("signals", &error))?;
    let facts = Facts::read(Path::new("/"));
    let (store, found) = Store::open(&config.dir, facts.host.as_deref())?;
    let metrics = Arc::new(Metrics::new());
    let served = config.listen.map(|address| {
        server::serve(address, Arc::clone(&metrics)).map_err(|error| {
            AgentError::Host(format!("cannot listen on {address}: {error}; needed: a free port: --listen 127.0.0.1:0 for any, or --listen none"))
        })
    });
    let served = served.transpose()?;
    say(&config.words());
    for note in &notes {
        say(note);
    }
    let mut agent = Agent::new(config, programs, say, store, watches, metrics, &facts, &found.memory)?;
    agent.take_over(&found);
    if let Some(address) = served {
        say(&format!("metrics at http://{address}/metrics"));
    }
    agent.notify.ready();
    let end = agent.until_ended(&signals);
    agent.stop();
    end
}

impl<'a> Agent<'a> {
    #[allow(clippy::too_many_arguments, reason = "the parts of the agent, each made where its failure can be said")]
    fn new(
        config: &'a Config,
        programs: Programs,
        say: &'a dyn Fn(&str),
        store: Store,
        watches: Watches,
        metrics: Arc<Metrics>,
        facts: &Facts,
        memory: &Memory,
    ) -> Result<Self, AgentError> {
        let now = Now::read();
        let plan = Plan { on_ns: ns(config.on), every_ns: ns(config.every), seed: config.seed };
        let host = facts.host.as_deref().unwrap_or("unknown");
        let uploader = config.upload.as_ref().map(|url| Uploader::new(url, host, config.upload_tries));
        if uploader.is_some() {
            check_fleet(&programs.fleet)?;
        }
        let target = target_words(&config.target);
        let deck = config.flight.clone().map(|flight| Deck::new(flight, programs.pagelab.clone(), target));
        metrics.set("duty_cycle_configured_ratio", &[], config.duty_cycle());
        metrics.set("duty_cycle_ratio", &[], config.duty_cycle());
        Ok(Self {
            schedule: Schedule::resume(plan, memory.schedule.as_ref(), now, facts.boot_id.as_deref()),
            cap: Cap::new(config, facts.cpus.unwrap_or(1)),
            boot_id: facts.boot_id.clone(),
            config,
            programs,
            say,
            store,
            windows: Vec::new(),
            next_window_ns: i64::MIN,
            deck,
            watches,
            uploader,
            marks: Vec::new(),
            metrics,
            notify: Notify::from_environment(),
            windows_done_ns: (0, 0),
            spent: Spent { at_ns: now.boot_ns, ..Spent::default() },
            idle_periods: 0,
            next_look_ns: now.boot_ns,
            ages_doubtful_until_ns: i64::MIN,
            recent_bytes: VecDeque::new(),
            skipping: None,
            window_said: String::new(),
            has_recorded: false,
        })
    }

    /// Takes over what an agent before has left.
    fn take_over(&mut self, found: &Found) {
        let now = Now::read();
        if found.foreign > 0 {
            (self.say)(&format!(
                "{} recordings in {} are not this agent's: they are neither counted nor removed",
                found.foreign,
                self.config.dir.display()
            ));
        }
        for recording in &found.cut {
            (self.say)(&format!("{recording} was cut when an agent was killed; what is in it can be read"));
            self.metrics.add("recordings_total", &[("kind", "window"), ("state", "cut")], 1.0);
        }
        let events = keep_left(&found.flights, found.memory.fired.as_ref(), now, &mut self.store);
        self.take_events(events, now);
        if let Some(uploader) = &mut self.uploader {
            for (recording, _) in self.store.pending() {
                uploader.add(&recording, now.boot_ns);
            }
        }
        self.tidy(now);
    }

    fn until_ended(&mut self, signals: &Signals) -> Result<(), AgentError> {
        loop {
            let came = signals.came();
            if came.iter().any(|signal| [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT].contains(signal)) {
                return Ok(());
            }
            if came.contains(&libc::SIGHUP) {
                (self.say)(
                    "SIGHUP: the configuration is not read again; to have it read, restart the agent: systemctl restart pagelab-agent",
                );
            }
            let now = Now::read();
            self.notify.lives(Instant::now());
            self.take_windows(now);
            self.step_flight(now, came.contains(&libc::SIGUSR1));
            let wait_ns = self.step_schedule(now)?;
            self.step_upload(now);
            self.marks.retain_mut(|mark| mark.ended().is_none());
            self.tell(now);
            self.watches.sleep(signals.as_fd(), self.sleep_time(wait_ns, now));
        }
    }

    fn sleep_time(&self, wait_ns: i64, now: Now) -> Duration {
        let due_ns = self.deck.as_ref().and_then(Deck::due_ns).unwrap_or(i64::MAX);
        let left = Duration::from_nanos((wait_ns.min(due_ns) - now.boot_ns).max(0) as u64);
        left.min(TICK).min(self.notify.patience().unwrap_or(TICK))
    }

    /// Takes windows that have ended; kills recorders that do not.
    fn take_windows(&mut self, now: Now) {
        let mut open = Vec::new();
        for mut window in std::mem::take(&mut self.windows) {
            let ended = match window.running.ended() {
                None if now.boot_ns < window.until_ns => {
                    open.push(window);
                    continue;
                }
                ended => ended,
            };
            let Window { running, recording, .. } = window;
            let ended = ended.unwrap_or_else(|| running.kill());
            self.finish_window(&recording, &ended, now);
        }
        self.windows = open;
    }

    fn finish_window(&mut self, recording: &str, ended: &Ended, now: Now) {
        let manifest = self.store.ended(recording);
        let told_ns = manifest.as_ref().and_then(|manifest| manifest.self_cost.bpf_ns).unwrap_or(0);
        self.windows_done_ns.0 += ended.cpu_ns;
        self.windows_done_ns.1 += ended.bpf_ns.max(told_ns);
        self.say_new(&ended.said);
        match manifest {
            None => {
                (self.say)(&format!("{recording}: nothing was recorded: {}", ended.status));
                self.skip(1, Reason::Failed);
            }
            Some(manifest) => {
                self.count(&manifest, "window");
                self.note_manifest(&manifest);
                self.settle(recording, now);
                if !std::mem::replace(&mut self.has_recorded, true) {
                    let (path, size) = (self.store.path(recording), self.store.bytes_of(recording));
                    (self.say)(&format!(
                        "the first window is in {} ({}); the next ones are not told",
                        path.display(),
                        bytes(size)
                    ));
                }
            }
        }
        self.weigh(now);
        self.tidy(now);
    }

    /// What recorders say is said once, and again when it is something else.
    fn say_new(&mut self, said: &[String]) {
        let words = said.join("\n");
        if words != self.window_said {
            for line in said {
                (self.say)(line);
            }
            self.window_said = words;
        }
    }

    fn count(&self, manifest: &Manifest, kind: &str) {
        let state = match (manifest.complete, &manifest.ended_by) {
            (true, _) => "complete",
            (false, Some(_)) => "incomplete",
            (false, None) => "cut",
        };
        self.metrics.add("recordings_total", &[("kind", kind), ("state", state)], 1.0);
        let lost: u64 = manifest.probes.iter().filter_map(|probe| probe.events_lost).sum();
        self.metrics.add("events_lost_total", &[], lost as f64);
    }

    fn note_manifest(&self, manifest: &Manifest) {
        let refused = manifest.probes.iter().filter(|probe| probe.state == ProbeState::Refused).count();
        self.metrics.set("streams_refused", &[], refused as f64);
        match manifest.self_cost.max_rss_bytes {
            Some(bytes) => self.metrics.set("recorder_max_resident_bytes", &[], bytes as f64),
            None => self.metrics.forget("recorder_max_resident_bytes"),
        }
    }

    /// A recording is in its place: its size counts, and it is to be uploaded.
    fn settle(&mut self, recording: &str, now: Now) {
        self.recent_bytes.push_back(self.store.bytes_of(recording));
        if self.recent_bytes.len() > RECENT {
            self.recent_bytes.pop_front();
        }
        if let Some(uploader) = &mut self.uploader {
            uploader.add(recording, now.boot_ns);
        }
    }

    /// Own cost up to now.
    fn spent(&self, now: Now) -> Spent {
        let own = own_cpu_time();
        let windows = self.windows.iter().map(|window| &window.running);
        let (window_cpu_ns, window_bpf_ns) =
            windows.clone().fold(self.windows_done_ns, |(cpu, bpf), one| (cpu + one.cpu_ns(), bpf + one.bpf_ns()));
        let (flight_cpu_ns, flight_bpf_ns) = self.deck.as_ref().map_or((0, 0), Deck::cost_ns);
        // Children that run are in no sum of the kernel's yet.
        let running_ns: u64 = windows.chain(&self.marks).map(Running::cpu_ns).sum();
        let flying_ns = self.deck.as_ref().map_or(0, Deck::running_cpu_ns);
        Spent {
            at_ns: now.boot_ns,
            cpu_ns: own.own_ns + own.children_ns + running_ns + flying_ns,
            window_ns: window_cpu_ns + window_bpf_ns,
            flight_ns: flight_cpu_ns + flight_bpf_ns,
            bpf_ns: window_bpf_ns + flight_bpf_ns,
        }
    }

    /// Holds the cost since the window before against what is allowed.
    fn weigh(&mut self, now: Now) {
        let (before, spent) = (self.spent, self.spent(now));
        self.spent = spent;
        let since = |of: fn(&Spent) -> u64| of(&spent).saturating_sub(of(&before));
        let (window_ns, flight_ns) = (since(|spent| spent.window_ns), since(|spent| spent.flight_ns));
        let all_ns = since(|spent| spent.cpu_ns) + since(|spent| spent.bpf_ns);
        let rest_ns = all_ns.saturating_sub(window_ns + flight_ns);
        // A pause makes nothing cheaper: what runs after it is held to the time in which it ran.
        let idle_ns = std::mem::take(&mut self.idle_periods).saturating_mul(ns(self.config.every) as u64);
        let wall_ns = ((spent.at_ns - before.at_ns).max(0) as u64).saturating_sub(idle_ns);
        let change = self.cap.add(Sample { wall_ns, window_ns, flight_ns, rest_ns });
        let average_pct = self.cap.average_pct();
        match average_pct {
            Some(pct) => self.metrics.set("own_cost_ratio", &[], pct / 100.0),
            None => self.metrics.forget("own_cost_ratio"),
        }
        if let Some(change) = change {
            (self.say)(&change.words);
        }
        let factor = self.cap.factor();
        self.schedule.stretch(factor);
        let duty = self.config.duty_cycle() / f64::from(factor);
        self.metrics.set("duty_cycle_ratio", &[], duty);
        let cost =
            average_pct.map_or_else(String::new, |pct| format!(", own cost {pct:.2} % of the machine's CPU time"));
        self.notify.status(&format!("duty cycle {duty:.3}{cost}"));
    }

    fn skip(&mut self, periods: u64, reason: Reason) {
        self.metrics.add("windows_skipped_total", &[("reason", reason.word())], periods as f64);
        self.idle_periods += if reason == Reason::Cost { 0 } else { periods };
        if self.skipping != Some(reason) && reason != Reason::Cost {
            (self.say)(&format!(
                "{periods} period(s) without a recording: {}; the next ones of this kind are counted",
                reason.word()
            ));
        }
        self.skipping = Some(reason);
    }

    fn may_record(&self) -> Result<(), Reason> {
        if self.store.is_paused() {
            return Err(Reason::Paused);
        }
        if self.store.free_bytes().is_some_and(|free| free < self.config.keep_free_bytes) {
            return Err(Reason::DiskLow);
        }
        if self.config.target.is_there() { Ok(()) } else { Err(Reason::TargetGone) }
    }

    /// Does what the schedule says. The instant until which it says nothing else, CLOCK_BOOTTIME ns.
    fn step_schedule(&mut self, now: Now) -> Result<i64, AgentError> {
        loop {
            match self.schedule.next(now) {
                Step::Wait(until_ns) => {
                    let begins_ns = now.real_ns + (until_ns - now.boot_ns);
                    self.metrics.set("next_window_timestamp_seconds", &[], begins_ns as f64 / 1e9);
                    self.next_window_ns = until_ns;
                    return Ok(until_ns);
                }
                Step::Skipped(periods, reason) => self.skip(periods, reason),
                Step::ClockSet(by_ns) => {
                    let (way, by) = if by_ns < 0 { ("back", -by_ns) } else { ("forth", by_ns) };
                    (self.say)(&format!("the wall clock was set {way} by {}", duration(by as f64)));
                    self.skip(1, Reason::ClockSet);
                    if by > DOUBTFUL_NS {
                        self.ages_doubtful_until_ns = now.boot_ns.saturating_add(DOUBT_NS);
                        (self.say)("nothing is removed by its age for a day");
                    }
                }
                Step::Record(_) => match self.may_record() {
                    Ok(()) => self.record(now)?,
                    Err(reason) => self.skip(1, reason),
                },
            }
            self.remember();
        }
    }

    /// What is written before a window begins makes sure that it is not recorded again.
    fn remember(&self) {
        let fired = self.deck.as_ref().and_then(Deck::pending).cloned();
        let memory = Memory { schedule: Some(self.schedule.saved(self.boot_id.as_deref())), fired };
        if let Err(error) = self.store.remember(&memory) {
            (self.say)(&format!("what is settled cannot be noted: {error}"));
        }
    }

    fn record(&mut self, now: Now) -> Result<(), AgentError> {
        if !self.store.is_in_place() {
            let dir = self.config.dir.display();
            return Err(AgentError::Host(format!(
                "{dir} was removed, or another folder is in its place; needed: the folder that the agent began with"
            )));
        }
        self.remember();
        self.keep_program();
        let started = self.store.name_window(now.real_ns).map_err(|error| error.to_string()).and_then(|recording| {
            let words = self.window_words(&self.store.path(&recording));
            let running = Running::start(&self.programs.pagelab, &words)
                .map_err(|error| format!("{}: {error}", self.programs.pagelab.display()))?;
            Ok((running, recording))
        });
        match started {
            Ok((running, recording)) => {
                self.skipping = None;
                self.store.begun(&recording, running.pid());
                self.windows.push(Window {
                    running,
                    recording,
                    until_ns: now.boot_ns + ns(self.config.on) + CLOSING_NS,
                });
            }
            Err(reason) => {
                (self.say)(&format!("a window cannot be recorded: {reason}"));
                self.skip(1, Reason::Failed);
            }
        }
        Ok(())
    }

    /// An upgrade may have put another program in this one's place: recorders are of the agent's version until it is restarted.
    fn keep_program(&mut self) {
        let Ok(program) = pagelab_host::own::program() else { return };
        if let Some(deck) = &mut self.deck {
            deck.use_program(program.clone());
        }
        self.programs.pagelab = program;
    }

    fn window_words(&self, out: &Path) -> Vec<OsString> {
        let config = self.config;
        let every_ns = ns(config.every) as f64 * f64::from(self.cap.factor());
        let on_ns = ns(config.on) as f64;
        let label =
            format!("{LABEL}{} of every {} (duty cycle {:.4})", duration(on_ns), duration(every_ns), on_ns / every_ns);
        let options = [
            ("--label", label),
            ("--observe", config.observe.clone()),
            ("--frequency", config.frequency_hz.to_string()),
            ("--ring-bytes", config.ring_bytes.to_string()),
            ("--duration", config.on.as_secs_f64().to_string()),
            ("--max-size", config.recording_bytes().to_string()),
            ("--metrics-every", METRICS_EVERY_S.to_string()),
        ];
        record_words(out, options, target_words(&config.target))
    }

    fn step_flight(&mut self, now: Now, signalled: bool) {
        let fired = self.watches.fired(signalled, Instant::now());
        let may_run = self.cap.flight_runs() && self.may_record().is_ok();
        let window_closes = self.windows.iter().any(|window| window.is_closing(now));
        let Some(deck) = &mut self.deck else { return };
        deck.hold_back(window_closes);
        deck.expect_no_window_until(if self.windows.is_empty() { self.next_window_ns } else { i64::MIN });
        let answers: Vec<(String, String, Answer)> =
            fired.iter().map(|trigger| (trigger.to_string(), trigger.slug(), deck.trigger(trigger, now))).collect();
        let events = deck.step(now, may_run, &mut self.store);
        for (words, slug, answer) in answers {
            self.answered(&words, &slug, answer);
        }
        self.take_events(events, now);
    }

    fn answered(&mut self, words: &str, slug: &str, answer: Answer) {
        let family = if matches!(answer, Answer::Taken | Answer::Joined) {
            "triggers_total"
        } else {
            "triggers_suppressed_total"
        };
        self.metrics.add(family, &[("trigger", slug)], 1.0);
        match answer {
            Answer::Taken => {
                (self.say)(&format!("{words} fired: its recording is kept"));
                self.remember();
                self.mark(slug);
            }
            Answer::Joined => self.mark(slug),
            Answer::TooSoon | Answer::NoRecorder => {}
        }
    }

    /// Puts the trigger's name into all recordings that run.
    fn mark(&mut self, slug: &str) {
        let words = ["mark".into(), format!("trigger {slug}").into()];
        // A recording without the mark is labelled with the trigger all the same.
        self.marks.extend(Running::start(&self.programs.pagelab, &words));
    }

    fn take_events(&mut self, events: Vec<Event>, now: Now) {
        for event in events {
            match event {
                Event::Said(words) => (self.say)(&words),
                Event::Died(words) => {
                    (self.say)(&words);
                    self.metrics.add("flight_recorder_ends_total", &[], 1.0);
                }
                Event::Kept(recording) => {
                    let path: PathBuf = self.store.path(&recording);
                    (self.say)(&format!("kept {}", path.display()));
                    if let Ok(manifest) = Manifest::load(&path) {
                        self.count(&manifest, "triggered");
                    }
                    self.settle(&recording, now);
                    self.remember();
                    self.tidy(now);
                }
            }
        }
    }

    fn step_upload(&mut self, now: Now) {
        let Some(uploader) = &mut self.uploader else { return };
        match uploader.step(now.boot_ns, &self.programs.fleet, &self.config.dir) {
            None => {}
            Some(Copied::Done(recording)) => {
                self.store.uploaded(&recording);
                self.metrics.add("uploads_total", &[], 1.0);
            }
            Some(Copied::Failed(recording, reason)) => {
                self.metrics.add("upload_failures_total", &[], 1.0);
                (self.say)(&format!("{recording} was not uploaded, and is tried again: {reason}"));
            }
            Some(Copied::GivenUp(recording, reason)) => {
                self.metrics.add("upload_failures_total", &[], 1.0);
                self.metrics.add("uploads_given_up_total", &[], 1.0);
                (self.say)(&format!("{recording} is not uploaded before the next start: {reason}"));
            }
        }
    }

    /// Removes what is not to be kept, with room for the next recording.
    fn tidy(&mut self, now: Now) {
        let reserve_bytes = self.recent_bytes.iter().copied().fold(LEAST_RESERVE_BYTES, u64::max);
        let taken_bytes = self.store.making_bytes() + reserve_bytes;
        let keep = Keep {
            for_ns: Some(ns(self.config.keep_for)).filter(|_| now.boot_ns >= self.ages_doubtful_until_ns),
            bytes: self.config.keep_bytes.saturating_sub(taken_bytes),
            uploads: self.uploader.is_some(),
            held: self.uploader.as_ref().and_then(Uploader::held),
        };
        for (recording, size, why) in self.store.tidy(&keep, now.real_ns) {
            self.metrics.add("removed_recordings_total", &[("why", why.word())], 1.0);
            self.metrics.add("removed_bytes_total", &[("why", why.word())], size as f64);
            if why == Why::Lost {
                (self.say)(&format!(
                    "{recording} ({}) was removed for want of room before it was uploaded: it is lost",
                    bytes(size)
                ));
            }
            if let Some(uploader) = &mut self.uploader {
                uploader.forget(&recording);
            }
        }
        self.metrics.set("disk_bytes", &[], (self.store.bytes() + self.store.making_bytes()) as f64);
    }

    /// Brings the metrics up to date.
    fn tell(&mut self, now: Now) {
        if now.boot_ns >= self.next_look_ns {
            self.next_look_ns = now.boot_ns + LOOK_NS;
            self.windows.iter_mut().for_each(|window| window.running.look());
            if let Some(deck) = &mut self.deck {
                deck.look();
            }
            // Recordings that are being made grow, the flight recorder's among them.
            self.tidy(now);
            self.tell_sizes();
        }
        let spent = self.spent(now);
        self.metrics.set("own_cpu_seconds_total", &[], spent.cpu_ns as f64 / 1e9);
        self.metrics.set("bpf_seconds_total", &[], spent.bpf_ns as f64 / 1e9);
        if let Some(deck) = &self.deck {
            self.metrics.set("flight_recorder_up", &[], if deck.is_up() { 1.0 } else { 0.0 });
        }
    }

    fn tell_sizes(&self) {
        let mut pids: Vec<u32> = self.windows.iter().map(|window| window.running.pid()).collect();
        pids.extend(self.deck.iter().flat_map(Deck::pids));
        let children = pids.iter().filter_map(|pid| resident_bytes(Path::new(&format!("/proc/{pid}"))));
        let resident: u64 = children.chain(resident_bytes(Path::new("/proc/self"))).sum();
        self.metrics.set("resident_bytes", &[], resident as f64);
        self.metrics.set("disk_bytes", &[], (self.store.bytes() + self.store.making_bytes()) as f64);
        if self.uploader.is_some() {
            let pending: u64 = self.store.pending().iter().map(|(_, bytes)| bytes).sum();
            self.metrics.set("upload_pending_bytes", &[], pending as f64);
        }
    }

    /// Ends within two seconds: recordings are closed, shorter than planned; what does not close in time is left as a kill leaves it.
    fn stop(&mut self) {
        self.notify.stopping();
        let end = Instant::now() + STOP_TIME;
        self.watches.close();
        self.windows.iter().for_each(|window| window.running.signal(Signal::TERM));
        if let Some(uploader) = &mut self.uploader {
            uploader.stop();
        }
        if let Some(deck) = &mut self.deck {
            deck.stop(Now::read(), &self.store);
        }
        while Instant::now() < end {
            let now = Now::read();
            self.take_windows(now);
            let closing = self.deck.as_mut().map(|deck| deck.is_closing(now, &mut self.store));
            let (is_closing, events) = closing.unwrap_or_default();
            self.take_events(events, now);
            if self.windows.is_empty() && !is_closing {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for window in std::mem::take(&mut self.windows) {
            window.running.kill();
        }
        if let Some(deck) = &mut self.deck {
            deck.abort();
        }
        if let Some(uploader) = &mut self.uploader {
            uploader.close();
        }
        self.remember();
        (self.say)("ended");
    }
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// The target as options of `pagelab record`.
fn target_words(target: &Target) -> Vec<OsString> {
    match target {
        Target::Processes(pids) => {
            vec!["-p".into(), pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").into()]
        }
        Target::Cgroup(path) => vec!["--cgroup".into(), path.into()],
        Target::System => vec!["-a".into()],
    }
}

/// What uploads must be there when the first recording is.
fn check_fleet(fleet: &Path) -> Result<(), AgentError> {
    let mut asked = std::process::Command::new(fleet);
    match asked.arg("--version").stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(AgentError::Host(format!(
            "{} --version: {status}; needed: the pagelab-fleet of this version",
            fleet.display()
        ))),
        Err(error) => Err(AgentError::Host(format!(
            "upload: cannot start {}: {error}; needed: pagelab-fleet beside pagelab or in PATH; type: make pagelab-fleet",
            fleet.display()
        ))),
    }
}
