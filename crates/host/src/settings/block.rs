//! `block.<dev>.*`: the queue of every block device, and what it is made of.

use pagelab_vocab::settings::Form;

use super::Collector;
use crate::files::{names, trimmed, under};

pub(super) fn read(out: &mut Collector) {
    for dev in names(&under(out.root, "/sys/block")) {
        let queue = format!("/sys/block/{dev}/queue");
        for knob in names(&under(out.root, &queue)) {
            if knob == "iosched" {
                for tunable in names(&under(out.root, &format!("{queue}/iosched"))) {
                    out.file(
                        format!("block.{dev}.iosched.{tunable}"),
                        &format!("{queue}/iosched/{tunable}"),
                        Form::Text,
                    );
                }
                continue;
            }
            let path = format!("{queue}/{knob}");
            // Folders (`independent_access_ranges`) describe the hardware, they hold no knobs.
            if knob.starts_with("independent_access") {
                continue;
            }
            let form = if knob == "scheduler" { Form::Choice } else { Form::Text };
            out.file(format!("block.{dev}.{knob}"), &path, form);
        }
        made_of(out, &dev);
    }
}

/// Mapped devices, arrays and partitions: what lies below and what is made of it.
fn made_of(out: &mut Collector, dev: &str) {
    let folder = format!("/sys/block/{dev}");
    let below = names(&under(out.root, &format!("{folder}/slaves")));
    if !below.is_empty() {
        out.value(format!("block.{dev}.made_of"), below.join(","), &format!("{folder}/slaves"));
    }
    for (key, file) in [
        ("mapped_name", "dm/name"),
        ("mapped_uuid", "dm/uuid"),
        ("raid_level", "md/level"),
        ("raid_disks", "md/raid_disks"),
        ("raid_chunk_bytes", "md/chunk_size"),
    ] {
        out.file(format!("block.{dev}.{key}"), &format!("{folder}/{file}"), Form::Text);
    }
    for part in names(&under(out.root, &folder)).iter().filter(|part| part.starts_with(dev)) {
        let figure = |file: &str| trimmed(out.root, &format!("{folder}/{part}/{file}"));
        if let (Some(start), Some(size)) = (figure("start"), figure("size")) {
            let value = format!("from sector {start}, {size} sectors");
            out.value(format!("block.{dev}.partition.{part}"), value, &format!("{folder}/{part}/start"));
        }
    }
}
