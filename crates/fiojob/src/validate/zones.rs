//! What zones contradict.

use crate::options::JobOptions;
use crate::zones::ZoneMode;

/// What contradicts zones in a job: the option that tips it over, and the words.
pub(super) fn conflict(o: &JobOptions) -> Option<(&'static str, String)> {
    match (o.zonemode, o.zonesize.0) {
        (ZoneMode::None, 1..) => Some(("zonesize", "zonesize= means nothing without zonemode=strided".to_owned())),
        (ZoneMode::Strided, 0) => Some(("zonemode", "zonemode=strided needs zonesize=".to_owned())),
        _ => None,
    }
}
