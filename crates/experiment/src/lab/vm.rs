//! What [`super::LabRunner`] needs of VMs. Those of the lab are the real ones; tests have others, which hang, panic or do not
//! boot.

use std::io::Write as _;
use std::time::Duration;

use pagelab_lab::{Command, Lab, LabError, Limits, Options, Stream};
use pagelab_vocab::terminal::{Allow, Escaping};
use serde_json::{Value, json};

/// Boots a VM. It ends when the value is dropped.
pub type BootVm = Box<dyn Fn(&Options) -> Result<Box<dyn RunningVm>, LabError>>;

/// A VM that is up.
pub trait RunningVm {
    /// Runs a program in it. Gives its exit status, `None` if the time was over, and the end of its output.
    fn run(&self, argv: &[String], limit: Option<Duration>) -> Result<(Option<i32>, String), LabError>;

    /// Its facts for manifests: kernel, command line, how its instructions are run.
    fn facts(&self) -> Value;
}

/// Bytes of a program's output that are kept for messages; all of it goes to standard error.
const KEPT: usize = 4096;

/// Boots VMs of the lab; `say` gets their events.
pub(super) fn boot_in_lab(say: Box<dyn Fn(&str)>) -> BootVm {
    Box::new(move |options| {
        let lab = Lab::up(options, &mut |event| say(&format!("lab: {event}")))?;
        Ok(Box::new(lab))
    })
}

impl RunningVm for Lab {
    fn run(&self, argv: &[String], limit: Option<Duration>) -> Result<(Option<i32>, String), LabError> {
        let limits = Limits { time: limit, stdout_bytes: 1 << 20, stderr_bytes: 1 << 20, ..Limits::default() };
        let mut said: Vec<u8> = Vec::new();
        let mut shown = Escaping::new(std::io::stderr(), Allow::Lines);
        let result = Lab::run(self, &Command::new(argv.iter().cloned()), &limits, &mut |stream, bytes| {
            // The output of a job or a step is shown as it is on a host.
            let _ = shown.write_all(bytes);
            if stream == Stream::Stderr {
                said.extend_from_slice(bytes);
                said.drain(..said.len().saturating_sub(KEPT));
            }
        })?;
        if result.interrupted {
            return Err(LabError::Interrupted);
        }
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        Ok(((!result.timed_out).then(|| result.exit.status()), said))
    }

    fn facts(&self) -> Value {
        let state = &self.state;
        json!({
            "machine": state.machine,
            "emulated": state.machine == pagelab_lab::Machine::Tcg,
            "no_kvm": state.no_kvm,
            "kernel_package": state.kernel_package,
            "cmdline": state.cmdline,
            "memory_bytes": state.memory_bytes,
            "cpus": state.cpus,
            "pmem_bytes": state.pmem_bytes,
            "pmem_kind": state.options.vm.pmem.map(|pmem| pmem.kind),
            "icount_shift": state.options.vm.icount_shift,
            "boot_ms": state.boot_ms,
            "hung_boots": state.hung_boots,
        })
    }
}
