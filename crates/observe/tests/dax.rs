//! The probe of DAX faults on the real kernel: it loads, or says why not. Needs root.
//!
//! A host without a DAX device has the tracepoints all the same; on such a host nothing fires.

use pagelab_observe::bpf::{Observer, ObserverOptions};
use pagelab_observe::dax::{self, DaxCounts, DaxProbe};

#[test]
fn it_loads_where_the_kernel_has_the_tracepoints_and_says_why_where_not() {
    if !rustix::process::geteuid().is_root() {
        return assert!(Observer::load(ObserverOptions::default()).is_err(), "without root the load is refused");
    }
    let kernel = match dax::check() {
        Ok(kernel) => kernel,
        Err(reason) => return assert!(reason.contains("dax_p") && reason.contains("CONFIG_FS_DAX"), "{reason}"),
    };
    let observer = Observer::load(ObserverOptions::default()).expect("root and BTF are there");
    let mut probe = DaxProbe::attach(&kernel, observer.task_states()).expect("the kernel has the tracepoints");
    let mut faults = 0;
    probe.drain(|_| faults += 1);
    probe.detach();
    // No task is recorded, so nothing is seen, whatever others do on DAX files.
    assert_eq!((faults, probe.counts()), (0, DaxCounts::default()));
}
