//! The stream `block`: requests of the block layer.

use std::collections::HashMap;
use std::path::Path;

use std::rc::Rc;

use pagelab_observe::block::{self, BlockOptions, BlockProbe, BlockRequest};
use pagelab_observe::btf::KernelTypes;
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{BlockIosColumns, BlockIosRow};
use serde_json::{Map, Value, json};

use super::watcher::{Count, Scope, Watched, Watcher};
use crate::options::SessionOptions;

/// The streams that it fills.
pub const STREAMS: &[Stream] = &[Stream::Block];

/// The probe, once there is a target.
struct BlockWatcher {
    kernel: Rc<KernelTypes>,
    probe: Option<BlockProbe>,
    unfinished: u64,
    names: Names,
}

/// Names of devices, each as it was when the device was met first: another may get its number later.
#[derive(Debug, Default)]
struct Names(HashMap<u64, Option<String>>);

impl Names {
    fn of(&mut self, dev: u64) -> Option<&str> {
        self.0.entry(dev).or_insert_with(|| name(Path::new("/"), dev)).as_deref()
    }
}

/// The name of a disk, as sysfs under `root` has it.
fn name(root: &Path, dev: u64) -> Option<String> {
    let number = format!("sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev));
    let target = std::fs::read_link(root.join(number)).ok()?;
    // What stands for a slash in a name is an exclamation mark there.
    Some(target.file_name()?.to_string_lossy().replace('!', "/"))
}

/// Finds out whether the kernel can be asked.
pub fn open(_: &SessionOptions) -> Result<Box<dyn Watcher>, String> {
    let kernel = block::check()?;
    Ok(Box::new(BlockWatcher { kernel, probe: None, unfinished: 0, names: Names::default() }))
}

fn push(request: &BlockRequest, names: &mut Names, columns: &mut BlockIosColumns) {
    columns.push(&BlockIosRow {
        ts: request.issued_ns as i64,
        dur: request.device_ns.map(|ns| ns as i64),
        queue_ns: request.queue_ns,
        task_id: request.task_id,
        dev: request.dev,
        sector: request.sector,
        bytes: request.bytes,
        op: &request.op,
        merged: Some(request.merged),
        status: request.status,
        device: names.of(request.dev),
    });
}

impl Watcher for BlockWatcher {
    fn streams(&self) -> &'static [Stream] {
        STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn takes(&self, _: &Scope<'_>) -> Result<(), String> {
        Ok(())
    }

    fn begin(&mut self, watched: &Watched<'_>) -> Result<(), String> {
        let probe = BlockProbe::attach(&self.kernel, BlockOptions::of(std::process::id()), watched.task_states)
            .map_err(|error| error.to_string())?;
        self.probe = Some(probe);
        Ok(())
    }

    fn step(&mut self, _: i64, writer: &mut RecordingWriter) {
        let Some(probe) = &mut self.probe else { return };
        let columns = writer.table::<BlockIosRow<'_>>();
        probe.drain(|request| push(&request, &mut self.names, columns));
    }

    fn counts(&self) -> Vec<Count> {
        let Some(probe) = &self.probe else { return Vec::new() };
        let counts = probe.counts();
        let (seen, lost, filtered) = (counts.seen + self.unfinished, counts.lost, counts.filtered);
        vec![Count { stream: Stream::Block.name(), cpu: None, seen, lost, filtered }]
    }

    fn shed(&mut self, _: Stream) -> bool {
        self.stop();
        true
    }

    fn stop(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.detach();
        }
    }

    fn finish(&mut self, _: i64, writer: &mut RecordingWriter, extra: &mut Map<String, Value>) {
        let Some(probe) = &self.probe else { return };
        let columns = writer.table::<BlockIosRow<'_>>();
        let mut unfinished = 0;
        probe.unfinished(|request| {
            unfinished += 1;
            push(&request, &mut self.names, columns);
        });
        self.unfinished = unfinished;
        extra.insert("unfinished".to_owned(), json!(unfinished));
        extra.insert("not_issued".to_owned(), json!(probe.counts().not_issued));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_name_that_sysfs_gives_its_number() {
        let root = tempfile::tempdir().expect("a directory");
        let folder = root.path().join("sys/dev/block");
        std::fs::create_dir_all(&folder).expect("ours");
        for (number, target) in
            [("254:0", "../../devices/pci0/virtio0/block/vda"), ("104:16", "../../x/block/cciss!c0d1")]
        {
            std::os::unix::fs::symlink(target, folder.join(number)).expect("ours");
        }
        assert_eq!(name(root.path(), libc::makedev(254, 0)).as_deref(), Some("vda"));
        assert_eq!(name(root.path(), libc::makedev(104, 16)).as_deref(), Some("cciss/c0d1"));
        assert_eq!(name(root.path(), libc::makedev(7, 0)), None, "it is gone");
    }
}
