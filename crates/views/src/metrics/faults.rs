//! Counters made from the rows of `faults`.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use pagelab_recording::{Manifest, Probe, ProbeState, Recording};
use pagelab_vocab::abi::{FAULT_INSTRUCTION, FAULT_PROTECTION, FAULT_USER, FAULT_WRITE};
use pagelab_vocab::metrics::Unit;

use super::Metrics;
use super::info::FAULTS;
use crate::error::Result;
use crate::run::{MetricKey, RunMetric};
use crate::window::Window;

const COLUMNS: [&str; 4] = ["ts", "error_code", "major", "ip"];
/// Instructions from here on are the kernel's.
const KERNEL_HALF: u64 = 1 << 63;

#[derive(Debug, Default)]
struct Counts {
    rows: u64,
    all: u64,
    user: u64,
    write: u64,
    instruction: u64,
    protection: u64,
    major: u64,
    major_known: u64,
    codes_unknown: u64,
}

impl Counts {
    fn take(&mut self, batch: &RecordBatch, window: &Window) {
        let times = batch.column(0).as_primitive::<Int64Type>().values();
        let codes = batch.column(1).as_primitive::<UInt32Type>();
        let ips = batch.column(3).as_primitive::<UInt64Type>().values();
        let majors = batch.column(2).as_boolean();
        let major_known = majors.null_count() < majors.len();
        self.rows += times.len() as u64;
        for (i, (ts, code)) in times.iter().zip(codes.values()).enumerate() {
            if *ts < window.start_ns || *ts >= window.end_ns {
                continue;
            }
            self.all += 1;
            if codes.is_null(i) {
                // The probe knows no error code; the mode is told by the instruction.
                self.user += u64::from(ips[i] < KERNEL_HALF);
                self.codes_unknown += 1;
                continue;
            }
            self.user += u64::from(code & FAULT_USER != 0);
            self.write += u64::from(code & FAULT_WRITE != 0);
            self.instruction += u64::from(code & FAULT_INSTRUCTION != 0);
            self.protection += u64::from(code & FAULT_PROTECTION != 0);
            if major_known && majors.is_valid(i) {
                self.major_known += 1;
                self.major += u64::from(majors.value(i));
            }
        }
    }

    fn of(&self, name: &str) -> u64 {
        match name {
            "faults.count" => self.all,
            "faults.user" => self.user,
            "faults.kernel" => self.all - self.user,
            "faults.write" => self.write,
            "faults.instruction" => self.instruction,
            "faults.protection" => self.protection,
            _ => self.major,
        }
    }
}

/// The counters, if faults were recorded at all.
pub(super) fn collect(recording: &Recording, window: &Window) -> Result<Metrics> {
    let mut counts = Counts::default();
    for batch in recording.read("faults", Some(&COLUMNS))? {
        counts.take(&batch?, window);
    }
    let manifest = recording.manifest();
    if counts.rows == 0 && !recorded(manifest) {
        return Ok(Metrics::new());
    }
    // Through perf events an ordinary user may be shown user mode alone.
    let user_mode_only = probes_of_faults(manifest).any(|probe| probe.extra.contains_key("user_mode_only"));
    let x86 = manifest.arch.as_deref().is_none_or(|arch| matches!(arch, "x86_64" | "i686"));
    let made = FAULTS.iter().filter_map(|(name, _)| {
        let known = match *name {
            "faults.count" => true,
            "faults.major" => counts.major_known == counts.all && counts.all > 0,
            "faults.user" => x86,
            "faults.kernel" => x86 && !user_mode_only,
            _ => x86 && counts.codes_unknown == 0,
        };
        let metric = RunMetric::counted(counts.of(name) as f64, Unit::Count, window);
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
