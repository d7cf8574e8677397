//! Whether a target is of the kind that the job's engine works on.

use pagelab_fiojob::{Caps, JobSpec};

use super::TargetPlan;
use crate::error::LoadError;
use crate::safety::TargetKind;

/// Character devices of direct access can be mapped and nothing else, at multiples of their alignment: other engines cannot work on
/// them, and the engine that can has nothing else.
///
/// # Errors
/// What was found, what is needed, what to type.
pub(super) fn check(target: &TargetPlan, job: &JobSpec, caps: Caps) -> Result<(), LoadError> {
    let (o, path) = (&job.options, target.path.display());
    let wrong = |reason: String| Err(LoadError::Target { job: job.name.clone(), reason });
    match (target.kind, caps.contains(Caps::DAX_DEVICES)) {
        (TargetKind::DaxDevice { align, .. }, true) => {
            let distances = [("map_granularity", o.map_granularity.0), ("map_shift", o.map_shift.0)];
            match distances.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(align)) {
                None => Ok(()),
                Some((option, bytes)) => wrong(format!(
                    "{option}={bytes} is not a multiple of the alignment of {path}, {align}: the device is mapped by whole pages of that size"
                )),
            }
        }
        (TargetKind::DaxDevice { bytes, .. }, false) => wrong(format!(
            "{path} is a character device of direct access of {bytes} bytes, which can be mapped and nothing else; ioengine={} needs a file or a block device: use ioengine=dev-dax",
            o.ioengine.0
        )),
        (found, true) => wrong(format!(
            "{path} {}; ioengine={} needs a character device of direct access: filename=/dev/dax0.0 or what `ls /dev/dax*` shows (`ndctl create-namespace --mode=devdax` makes one); files on direct access are for ioengine=libpmem",
            match found {
                TargetKind::File { bytes } => format!("is a file of {bytes} bytes"),
                TargetKind::BlockDevice { bytes } => format!("is a block device of {bytes} bytes"),
                TargetKind::Bottomless => "is a device without contents".to_owned(),
                _ => "does not exist".to_owned(),
            },
            o.ioengine.0
        )),
        (_, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::plan;
    use crate::safety::TargetKind;
    use pagelab_fiojob::parse_args;

    /// What planning says of a job on a device of direct access of 16 MiB in pages of 2 MiB; empty if nothing.
    fn said(words: &str) -> String {
        let words: Vec<String> =
            format!("--name=j --filename=/dev/dax0.0 --rw=write {words}").split(' ').map(str::to_owned).collect();
        let workload = parse_args(&words).expect("a workload");
        let device = TargetKind::DaxDevice { bytes: 16 << 20, align: 2 << 20 };
        plan(&workload, &|_, _| Ok(device)).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn devices_of_direct_access_are_for_their_engine() {
        assert_eq!(said("--ioengine=dev-dax"), "");
        assert_eq!(said("--ioengine=dev-dax --bs=1000 --offset=3m --size=9m"), "");
        assert_eq!(said("--ioengine=dev-dax --size=50% --map_granularity=4m"), "");
        // What is beyond the end is left out, as in fio.
        assert_eq!(said("--ioengine=dev-dax --size=17m"), "");
        for (words, found, needed) in [
            ("--ioengine=psync", "16777216 bytes", "use ioengine=dev-dax"),
            ("--ioengine=mmap", "ioengine=mmap", "use ioengine=dev-dax"),
            ("--ioengine=libpmem", "ioengine=libpmem", "use ioengine=dev-dax"),
            ("--ioengine=dev-dax --offset=16m --size=1m", "has 16777216", "ends at byte 17825792"),
            ("--ioengine=dev-dax --map_granularity=1m", "map_granularity=1048576", "2097152"),
            ("--ioengine=dev-dax --map_granularity=2m --map_shift=4k", "map_shift=4096", "2097152"),
        ] {
            let said = said(words);
            assert!(said.contains(found) && said.contains(needed), "{words}: {said}");
        }
    }

    #[test]
    fn the_engine_has_nothing_else() {
        let words = ["--name=j", "--filename=/dev/sdz", "--ioengine=dev-dax", "--rw=read"].map(str::to_owned);
        let workload = parse_args(&words).expect("a workload");
        let error = plan(&workload, &|_, _| Ok(TargetKind::BlockDevice { bytes: 4096 })).expect_err("not its kind");
        assert!(error.to_string().contains("is a block device of 4096 bytes"), "{error}");
    }
}
