//! Values of the options that say how chance chooses: distributions of blocks and of files, sequences with jumps.

use serde::{Deserialize, Serialize};

use crate::blocks::shares;
use crate::units::{self, ParseContext};
use crate::value::{OptionValue, PerDirection, not_one_of, word_and_argument};

/// One zone of a region: how many of the operations fall into it, and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Share of the operations, percent.
    pub access_percent: u8,
    /// Its size: percent of the region for `zoned`, bytes for `zoned_abs`.
    pub size: u64,
}

/// Zones from the region's start upwards.
pub type Zones = Vec<Zone>;

/// `random_distribution`: how random blocks lie over the region.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All blocks alike.
    #[default]
    Random,
    /// Zipf's law with this exponent; the number 1 block lies at `center` (0 to 1) if given, else somewhere.
    Zipf {
        /// Exponent theta, above 0 and not 1.
        theta: f64,
        /// Where the most frequent block lies, as a fraction of the region.
        center: Option<f64>,
    },
    /// Pareto's law with this power.
    Pareto {
        /// Power h, between 0 and 1.
        power: f64,
        /// Where the most frequent block lies, as a fraction of the region.
        center: Option<f64>,
    },
    /// A bell curve.
    Normal {
        /// Additional even deviation, percent of the region.
        deviation_percent: f64,
        /// Centre of the curve, as a fraction of the region.
        center: Option<f64>,
    },
    /// Zones in percent of the region.
    Zoned(PerDirection<Zones>),
    /// Zones in bytes.
    ZonedAbs(PerDirection<Zones>),
}

/// Reads `value[:center]`.
fn with_center(name: &str, text: Option<&str>, default: f64) -> Result<(f64, Option<f64>), String> {
    let number = |text: &str| {
        text.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(|| format!("'{text}' is not a number"))
    };
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok((default, None)) };
    let (value, center) = match text.split_once(':') {
        Some((value, center)) => (number(value)?, Some(number(center)?)),
        None => (number(text)?, None),
    };
    match center {
        Some(center) if !(0.0..=1.0).contains(&center) => {
            Err(format!("the centre of {name} is {center}, needed 0 to 1"))
        }
        _ => Ok((value, center)),
    }
}

/// Zipf, Pareto and normal have the same spelling for blocks and for files.
fn curve(word: &str, argument: Option<&str>) -> Option<Result<Distribution, String>> {
    let checked = |fits: bool, value: f64, range: &str| {
        if fits { Ok(()) } else { Err(format!("{word}:{value} is out of range, needed {range}")) }
    };
    Some(match word {
        "zipf" => with_center(word, argument, 1.1).and_then(|(theta, center)| {
            checked(theta > 0.0 && (theta - 1.0).abs() > f64::EPSILON, theta, "above 0 and not 1")?;
            Ok(Distribution::Zipf { theta, center })
        }),
        "pareto" => with_center(word, argument, 0.2).and_then(|(power, center)| {
            checked(power > 0.0 && power < 1.0, power, "above 0 and below 1")?;
            Ok(Distribution::Pareto { power, center })
        }),
        "normal" | "gauss" => with_center(word, argument, 0.0).and_then(|(deviation_percent, center)| {
            checked((0.0..100.0).contains(&deviation_percent), deviation_percent, "0 up to below 100")?;
            Ok(Distribution::Normal { deviation_percent, center })
        }),
        _ => return None,
    })
}

/// The zones of one direction: `access/size:...`; accesses must add up to 100, sizes in percent too where all are given.
fn zones(text: &str, absolute: bool, context: ParseContext) -> Result<Zones, String> {
    let access = |text: &str| match text.parse::<u8>() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err(format!("'{text}' is not a percentage from 0 to 100")),
    };
    let zones: Zones = if absolute {
        text.split(':')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (percent, size) =
                    part.split_once('/').ok_or_else(|| format!("'{part}' lacks its size, as in 60/10g"))?;
                Ok(Zone { access_percent: access(percent.trim())?, size: units::size(size.trim(), context)? })
            })
            .collect::<Result<_, String>>()?
    } else {
        let parts = shares(text, false, access).map_err(|reason| format!("sizes of zones: {reason}"))?;
        parts.into_iter().map(|(access_percent, size)| Zone { access_percent, size: u64::from(size) }).collect()
    };
    let sum: u32 = zones.iter().map(|zone| u32::from(zone.access_percent)).sum();
    if sum == 100 { Ok(zones) } else { Err(format!("the accesses of all zones are {sum}% together, needed 100%")) }
}

impl OptionValue for Distribution {
    const KIND: &'static str = "word[:parameters]";
    const WORDS: &'static [(&'static str, &'static str)] = &[
        ("random", "all blocks alike"),
        ("zipf", "Zipf's law; `zipf:theta[:center]`, default 1.1"),
        ("pareto", "Pareto's law; `pareto:power[:center]`, default 0.2"),
        ("normal", "a bell curve (also `gauss`); `normal:deviation[:center]`, deviation in percent, default 0"),
    ];
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let (word, argument) = word_and_argument(text);
        if let Some(distribution) = curve(word, argument) {
            *self = distribution?;
            return Ok(());
        }
        *self = match (word, argument) {
            ("random", None) => Self::Random,
            ("zoned" | "zoned_abs", Some(list)) => {
                let absolute = word == "zoned_abs";
                let mut parts = PerDirection::<Zones>::default();
                parts.assign_parts(list.split(','), context, |slot, text, context| {
                    *slot = zones(text, absolute, context)?;
                    Ok(())
                })?;
                if absolute { Self::ZonedAbs(parts) } else { Self::Zoned(parts) }
            }
            ("sequence", _) => {
                return Err("sequences of a distribution are of a later fio's; pagelab does not have them".to_owned());
            }
            ("zoned" | "zoned_abs", None) => {
                return Err(format!("{word} needs its zones: {word}:ACCESS/SIZE:ACCESS/SIZE..."));
            }
            _ => {
                return Err(not_one_of(word, &["random", "zipf", "pareto", "normal", "gauss", "zoned", "zoned_abs"]));
            }
        };
        Ok(())
    }
}

/// `file_service_type`: which of a job's files serves the next operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileService {
    /// In turn, each for this many operations.
    RoundRobin {
        /// Operations before the next file.
        operations: u64,
    },
    /// Drawn evenly, each for this many operations.
    Random {
        /// Operations before the next draw.
        operations: u64,
    },
    /// One file until it is done, then the next.
    Sequential,
    /// Drawn by this distribution over the files' numbers.
    Drawn(Distribution),
}

impl Default for FileService {
    fn default() -> Self {
        Self::RoundRobin { operations: 1 }
    }
}

impl OptionValue for FileService {
    const KIND: &'static str = "word[:parameters]";
    const WORDS: &'static [(&'static str, &'static str)] = &[
        ("roundrobin", "in turn; `roundrobin:N` for N operations each"),
        ("random", "drawn evenly; `random:N` for N operations each"),
        ("sequential", "one file until it is done, then the next"),
        ("zipf", "drawn by Zipf's law; `zipf:theta[:center]`"),
        ("pareto", "drawn by Pareto's law; `pareto:power[:center]`"),
        ("normal", "drawn by a bell curve (also `gauss`); `normal:deviation[:center]`"),
    ];
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let (word, argument) = word_and_argument(text);
        if let Some(distribution) = curve(word, argument) {
            *self = Self::Drawn(distribution?);
            return Ok(());
        }
        let operations = match argument.map(|text| units::count(text, context)).transpose()? {
            Some(0) => return Err(format!("{word}:0: a file must serve at least 1 operation")),
            other => other.unwrap_or(1),
        };
        *self = match word {
            "roundrobin" => Self::RoundRobin { operations },
            "random" => Self::Random { operations },
            "sequential" => Self::Sequential,
            _ => {
                return Err(not_one_of(
                    word,
                    &["roundrobin", "random", "sequential", "zipf", "pareto", "normal", "gauss"],
                ));
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(text: &str) -> Result<Distribution, String> {
        let mut value = Distribution::default();
        value.assign(text, ParseContext::default()).map(|()| value)
    }

    #[test]
    fn distributions_are_read_with_their_parameters() {
        assert_eq!(distribution("random"), Ok(Distribution::Random));
        assert_eq!(distribution("zipf"), Ok(Distribution::Zipf { theta: 1.1, center: None }));
        assert_eq!(distribution("zipf:1.2:0.25"), Ok(Distribution::Zipf { theta: 1.2, center: Some(0.25) }));
        assert_eq!(distribution("gauss:5"), Ok(Distribution::Normal { deviation_percent: 5.0, center: None }));
        let Ok(Distribution::Zoned(zones)) = distribution("zoned:60/10:30/20:10/70,100/100") else { panic!("zoned") };
        assert_eq!(zones.read.len(), 3);
        assert_eq!(zones.write, vec![Zone { access_percent: 100, size: 100 }]);
        let Ok(Distribution::ZonedAbs(zones)) = distribution("zoned_abs:95/50g:5/1t") else { panic!("zoned_abs") };
        assert_eq!(zones.read.first().map(|zone| zone.size), Some(50 << 30));
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for (text, word) in [
            ("zipf:1.0", "not 1"),
            ("zipf:nan", "not a number"),
            ("zipf:1.2:1.5", "needed 0 to 1"),
            ("pareto:1.5", "below 1"),
            ("normal:100", "below 100"),
            ("zoned:50/10:30/90", "80%"),
            ("zoned:50/60:50/60", "sizes of zones"),
            ("zoned", "needs its zones"),
            ("zoned_abs:100", "lacks its size"),
            ("zipg", "did you mean 'zipf'"),
        ] {
            assert!(distribution(text).expect_err(text).contains(word), "{text}: {:?}", distribution(text));
        }
    }

    #[test]
    fn file_services_take_counts() {
        let service = |text: &str| {
            let mut value = FileService::default();
            value.assign(text, ParseContext::default()).map(|()| value)
        };
        assert_eq!(service("random:8"), Ok(FileService::Random { operations: 8 }));
        assert_eq!(service("sequential"), Ok(FileService::Sequential));
        assert!(matches!(service("zipf:1.3"), Ok(FileService::Drawn(Distribution::Zipf { .. }))));
        assert!(service("roundrobin:0").is_err() && service("seqential").is_err());
    }
}
