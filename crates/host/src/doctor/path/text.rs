//! A file as text for people.

use std::fmt::{self, Display, Formatter};

use super::report::{PathReport, SlotRun};
use crate::doctor::Findings;

/// Most runs that are listed; of more only the first ones are.
const MOST_RUNS: usize = 24;

impl Display for PathReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fs = &self.file_system;
        writeln!(f, "FILE    {}: {} bytes, {} allocated", self.path, self.size_bytes, self.allocated_bytes)?;
        writeln!(f, "ON      {} at {} ({})", fs.name, or_unknown(fs.mount_point.as_ref()), fs.mount_options.join(","))?;
        if let Some(real) = &self.real {
            let below = &real.file_system;
            writeln!(f, "BELOW   {} on {} at {}", real.path, below.name, or_unknown(below.mount_point.as_ref()))?;
        }
        if let Some(device) = &self.device {
            write!(f, "DEVICE  {} ({})", or_unknown(device.name.as_ref()), device.number)?;
            if device.is_partition {
                write!(f, ", begins at byte {} of its disk", device.partition_start_bytes)?;
            }
            if let Some(file) = &device.loop_file {
                write!(f, ", is the file {file} from byte {} on", device.loop_offset_bytes.unwrap_or(0))?;
            }
            writeln!(f)?;
        }
        let dax = self.dax.active.map_or("not known", |active| if active { "yes" } else { "no" });
        writeln!(f, "DAX     {dax}")?;
        if let Some(extents) = &self.extents {
            let holes = self.holes.as_ref().map_or(0, Vec::len);
            writeln!(f, "EXTENTS {}, holes {holes}", extents.len())?;
        }
        let share = self.possible_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.1} %"));
        writeln!(
            f,
            "SLOTS   {} of {} of 2 MiB can be mapped by one entry ({share})",
            self.possible_slots, self.slot_count
        )?;
        for run in self.slots.iter().take(MOST_RUNS) {
            writeln!(f, "{}", Line(run))?;
        }
        if let Some(more) = self.slots.len().checked_sub(MOST_RUNS).filter(|more| *more > 0) {
            writeln!(f, "        and {more} runs more; all: --json")?;
        }
        for one in &self.not_known {
            writeln!(f, "NOT KNOWN {}: {}", one.what, one.reason)?;
        }
        if self.findings.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", Findings(&self.findings))
    }
}

fn or_unknown(text: Option<&String>) -> &str {
    text.map_or("unknown", String::as_str)
}

struct Line<'a>(&'a SlotRun);

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let SlotRun { start, end, possible, reason } = *self.0;
        write!(f, "        {start:#014x}-{end:#014x} {:>8} slots ", self.0.count())?;
        match reason {
            Some(reason) if !possible => write!(f, "no: {reason} ({})", reason.word()),
            _ => write!(f, "yes"),
        }
    }
}
