//! Counters made from the rows of `faults`.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use pagelab_recording::{Manifest, Probe, ProbeState, Recording};
use pagelab_vocab::metrics::Unit;

use super::Metrics;
use super::info::FAULTS;
use crate::error::Result;
use crate::kinds::{Codes, FaultKind, KERNEL_HALF, each_kind, measured_of};
use crate::run::{MetricKey, RunMetric};
use crate::window::Window;

const COLUMNS: [&str; 4] = ["ts", "error_code", "major", "ip"];

#[derive(Debug, Default)]
struct Counts {
    rows: u64,
    all: u64,
    codes: Codes,
    major: u64,
    major_known: u64,
}

impl Counts {
    fn take(&mut self, batch: &RecordBatch, window: &Window) {
        let times = batch.column(0).as_primitive::<Int64Type>().values();
        let codes = batch.column(1).as_primitive::<UInt32Type>();
        let ips = batch.column(3).as_primitive::<UInt64Type>().values();
        let majors = batch.column(2).as_boolean();
        for (i, (ts, code)) in times.iter().zip(codes.values()).enumerate() {
            let kind = FaultKind {
                code: Some(*code).filter(|_| codes.is_valid(i)),
                major: majors.is_valid(i).then(|| majors.value(i)),
                kernel_ip: ips[i] >= KERNEL_HALF,
                measured: window.start_ns <= *ts && *ts < window.end_ns,
            };
            self.add(kind, 1);
        }
    }

    /// Adds faults of which the same is said.
    fn add(&mut self, kind: FaultKind, faults: u64) {
        self.rows += faults;
        if !kind.measured {
            return;
        }
        self.all += faults;
        self.codes.add(kind, faults);
        // Without an error code, through perf events, the probe is not asked about it either.
        if let Some(major) = kind.major.filter(|_| kind.code.is_some()) {
            self.major_known += faults;
            self.major += if major { faults } else { 0 };
        }
    }

    /// The counts of a recording in its window, from the rollup where the window is the measured time.
    fn of(recording: &Recording, window: &Window) -> Result<Self> {
        let mut counts = Self::default();
        if measured_of(recording) == Some((window.start_ns, window.end_ns))
            && each_kind(recording, |kind, faults| counts.add(kind, faults))
        {
            return Ok(counts);
        }
        let mut counts = Self::default();
        for batch in recording.read("faults", Some(&COLUMNS))? {
            counts.take(&batch?, window);
        }
        Ok(counts)
    }

    fn named(&self, name: &str) -> u64 {
        match name {
            "faults.count" => self.all,
            "faults.user" => self.codes.user,
            "faults.kernel" => self.all - self.codes.user,
            "faults.write" => self.codes.write,
            "faults.instruction" => self.codes.instruction,
            "faults.protection" => self.codes.protection,
            _ => self.major,
        }
    }
}

/// The counters, if faults were recorded at all.
pub(super) fn collect(recording: &Recording, window: &Window) -> Result<Metrics> {
    let counts = Counts::of(recording, window)?;
    let manifest = recording.manifest();
    if counts.rows == 0 && !recorded(manifest) {
        return Ok(Metrics::new());
    }
    // Through perf events an ordinary user may be shown user mode alone.
    let user_mode_only = probes_of_faults(manifest).any(|probe| probe.extra.contains_key("user_mode_only"));
    let x86 = manifest.has_x86_fault_codes();
    let made = FAULTS.iter().filter_map(|(name, _)| {
        let known = match *name {
            "faults.count" => true,
            "faults.major" => counts.major_known == counts.all && counts.all > 0,
            "faults.user" => x86,
            "faults.kernel" => x86 && !user_mode_only,
            _ => x86 && counts.codes.known == counts.all,
        };
        let metric = RunMetric::counted(counts.named(name) as f64, Unit::Count, window);
        known.then(|| (MetricKey::new(name, None), metric))
    });
    Ok(made.collect())
}

/// Whether the stream ran: then no rows means no faults.
fn recorded(manifest: &Manifest) -> bool {
    probes_of_faults(manifest).any(|probe| probe.state == ProbeState::Active)
}

fn probes_of_faults(manifest: &Manifest) -> impl Iterator<Item = &Probe> {
    manifest.probes.iter().filter(|probe| probe.name == "faults")
}
