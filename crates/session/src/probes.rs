//! Opens the probes that the streams need, and keeps account of what each one could and could not do.

use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::streams::Stream;
use pagelab_recording::{Probe, ProbeState};

use crate::options::{SessionError, SessionOptions};

/// Streams that the BPF observer fills.
const BPF_STREAMS: [Stream; 3] = [Stream::Tasks, Stream::Faults, Stream::Maps];

/// The probes of a session.
pub struct Probes {
    /// The BPF observer, if any of its streams was asked for and the kernel took it.
    pub observer: Option<Observer>,
    /// One entry per stream asked for.
    pub states: Vec<Probe>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

fn active(stream: Stream, rung: &str) -> Probe {
    Probe { name: stream.name().into(), state: ProbeState::Active, rung: Some(rung.into()), ..Probe::default() }
}

fn refused(stream: Stream, reason: String, fix: Option<String>) -> Probe {
    Probe { name: stream.name().into(), state: ProbeState::Refused, reason: Some(reason), fix, ..Probe::default() }
}

impl Probes {
    /// Tries every stream asked for. A stream asked for by name and refused is an error, unless best effort will do.
    pub fn open(options: &SessionOptions) -> Result<Self, SessionError> {
        let mut probes = Self { observer: None, states: Vec::new(), warnings: Vec::new() };
        let bpf_error = probes.open_observer(options).err();
        for stream in options.streams.iter() {
            let state = match (stream.missing(), &bpf_error) {
                (Some(why), _) => refused(stream, why.to_owned(), None),
                (None, Some(error)) if BPF_STREAMS.contains(&stream) => {
                    refused(stream, error.clone(), Some(format!("sudo pagelab record --observe {stream} ...")))
                }
                (None, _) if BPF_STREAMS.contains(&stream) => active(stream, "bpf"),
                (None, _) => active(stream, "procfs"),
            };
            if let Some(reason) = &state.reason {
                if options.streams.names(stream) && !options.best_effort {
                    return Err(SessionError::StreamRefused { stream: stream.name(), reason: reason.clone() });
                }
                // That a part of `default` is still to come is no news on every run.
                if stream.missing().is_none() || options.streams.names(stream) {
                    probes.warnings.push(format!("{stream} not recorded: {reason}"));
                }
            }
            probes.states.push(state);
        }
        Ok(probes)
    }

    fn open_observer(&mut self, options: &SessionOptions) -> Result<(), String> {
        if !BPF_STREAMS.iter().any(|stream| options.streams.contains(*stream)) {
            return Ok(());
        }
        let wanted = ObserverOptions {
            ring_bytes_per_cpu: options.ring_bytes_per_cpu,
            counting_only: false,
            faults: options.streams.contains(Stream::Faults),
            maps: options.streams.contains(Stream::Maps),
        };
        let mut observer = Observer::load(wanted).map_err(|error| error.to_string())?;
        observer.attach().map_err(|error| error.to_string())?;
        self.observer = Some(observer);
        Ok(())
    }

    /// Writes the final counts of the observer into the states.
    pub fn count_events(&mut self) {
        let Some(observer) = &self.observer else { return };
        let faults = observer.rings().total();
        let events = observer.event_counts();
        for state in &mut self.states {
            if state.rung.as_deref() != Some("bpf") {
                continue;
            }
            let (seen, lost) = if state.name == Stream::Faults.name() {
                (faults.seen(), faults.lost)
            } else {
                // Tasks and mappings share one ring buffer and one pair of counts.
                (events.seen, events.lost)
            };
            state.events_seen = Some(seen);
            state.events_lost = Some(lost);
        }
    }
}
