//! `zonemode=strided`: the region is worked on zone by zone, `zonesize` bytes in each.

use serde::{Deserialize, Serialize};

use crate::units::ParseContext;
use crate::value::{OptionValue, not_one_of};

/// `zonemode`: whether there are zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneMode {
    /// No zones.
    #[default]
    None,
    /// Zones one after the other.
    Strided,
}

impl OptionValue for ZoneMode {
    const KIND: &'static str = "word";
    const WORDS: &'static [(&'static str, &'static str)] =
        &[("none", "no zones"), ("strided", "zonesize bytes in a zone of zonerange, then on to the next one")];
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        *self = match text.trim() {
            "none" => Self::None,
            "strided" => Self::Strided,
            "zbd" => {
                return Err(
                    "zonemode=zbd is fio's; pagelab does not have it, nor zoned block devices; strided needs none"
                        .to_owned(),
                );
            }
            other => return Err(not_one_of(other, &["none", "strided"])),
        };
        Ok(())
    }
}

/// Zones of a strided job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stride {
    /// Bytes transferred in a zone before the next one is begun.
    pub size_bytes: u64,
    /// Length of a zone.
    pub range_bytes: u64,
    /// Bytes between zones.
    pub skip_bytes: u64,
}
