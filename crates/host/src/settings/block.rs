//! `block.<dev>.*`: the queue of every block device.

use pagelab_vocab::settings::Form;

use super::Collector;
use crate::files::{names, under};

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
    }
}
