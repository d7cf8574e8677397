//! Values of the options that give an operation its length: ranges, splits, and their combination.

use serde::{Deserialize, Serialize};

use crate::units::{self, ParseContext};
use crate::value::{OptionValue, PerDirection};

/// A range of sizes in bytes, both ends included: `1k-4k` or `1k:4k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// Least.
    pub low_bytes: u64,
    /// Greatest.
    pub high_bytes: u64,
}

/// Reads `low-high` or a single size. As in fio what stands behind both is passed over: `512:1k:25` is `512-1k`.
///
/// # Errors
/// The reason in words.
pub fn size_range(text: &str, context: ParseContext) -> Result<SizeRange, String> {
    let mut parts = units::parts(text, &['-', ':']);
    let low = parts.next().unwrap_or(text);
    let high = parts.next().unwrap_or(low);
    let (low, high) = (units::size(low, context)?, units::size(high, context)?);
    // fio swaps a range that is written the wrong way round.
    Ok(SizeRange { low_bytes: low.min(high), high_bytes: low.max(high) })
}

impl OptionValue for Option<SizeRange> {
    const KIND: &'static str = "size or range";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        *self = Some(size_range(text, context)?);
        Ok(())
    }
}

impl OptionValue for PerDirection<Option<SizeRange>> {
    const KIND: &'static str = "size range[,range][,range]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        // The slash that fio also takes between directions of plain numbers stands inside other values; here only commas part.
        self.assign_parts(text.split(','), context, Option::<SizeRange>::assign)
    }
}

/// One part of a split: a size and its share of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeShare {
    /// Bytes of the operation.
    pub bytes: u64,
    /// Share, percent.
    pub percent: u8,
}

/// `bssplit`: sizes with their shares, `4k/10:64k/50:32k/40`; least share first. Empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SizeSplit(pub Vec<SizeShare>);

/// fio's own limit of parts in a split.
const MAX_PARTS: usize = 64;

/// Reads `value/percent` parts; a part without percentage gets an equal share of what the others leave. They add up to no more
/// than 100, unless `more` is allowed.
///
/// # Errors
/// The reason in words: too many parts, too large shares.
pub fn shares<T>(
    text: &str,
    more: bool,
    mut read: impl FnMut(&str) -> Result<T, String>,
) -> Result<Vec<(T, u8)>, String> {
    let mut parts: Vec<(T, Option<u8>)> = Vec::new();
    for part in text.split(':').map(str::trim).filter(|part| !part.is_empty()) {
        let (value, percent) = match part.split_once('/') {
            Some((value, percent)) => (value, percent.trim().trim_end_matches('%')),
            None => (part, ""),
        };
        let percent = match percent {
            "" => None,
            text => match text.parse::<u8>() {
                Ok(percent @ 0..=100) => Some(percent),
                _ => return Err(format!("'{text}' is not a percentage from 0 to 100")),
            },
        };
        parts.push((read(value.trim())?, percent));
    }
    if parts.is_empty() {
        return Err("a value is needed".to_owned());
    }
    if parts.len() > MAX_PARTS {
        return Err(format!("{} parts; at most {MAX_PARTS} are known", parts.len()));
    }
    let given: u32 = parts.iter().filter_map(|(_, percent)| *percent).map(u32::from).sum();
    let missing = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
    if given > 100 && !(more && missing == 0) {
        return Err(format!("the shares are {given}% together, needed 100%"));
    }
    let mut left = 100_u32.saturating_sub(given);
    let each = left.checked_div(missing).unwrap_or(0);
    let mut open = missing;
    Ok(parts
        .into_iter()
        .map(|(value, percent)| {
            // What does not divide goes to the last part that left it open, as it does when fio draws.
            let percent = percent.unwrap_or_else(|| {
                open -= 1;
                let own = if open == 0 { left } else { each };
                left -= own;
                own as u8
            });
            (value, percent)
        })
        .collect())
}

impl SizeSplit {
    fn read(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let parts = shares(text, true, |size| units::size(size, context))?;
        self.0 = parts.into_iter().map(|(bytes, percent)| SizeShare { bytes, percent }).collect();
        self.0.sort_by_key(|share| share.percent);
        self.fill_up();
        Ok(())
    }

    /// Makes the shares 100 together, as fio's draws do: it goes through them from the least, so that what lacks goes to the last, and
    /// what is beyond 100 is never drawn.
    fn fill_up(&mut self) {
        let mut left = 100_u8;
        for share in &mut self.0 {
            share.percent = share.percent.min(left);
            left -= share.percent;
        }
        if let Some(last) = self.0.last_mut() {
            last.percent += left;
        }
    }

    /// The sum of the shares as they are written, if each part has one.
    pub(crate) fn written_sum(text: &str) -> Option<u32> {
        let percent = |part: &str| part.split_once('/')?.1.trim().trim_end_matches('%').parse::<u32>().ok();
        text.split(':').map(str::trim).filter(|part| !part.is_empty()).map(percent).sum()
    }
}

impl OptionValue for PerDirection<SizeSplit> {
    const KIND: &'static str = "size/percent:... [,...][,...]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        self.assign_parts(text.split(','), context, SizeSplit::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_splits_are_read_by_direction() {
        let context = ParseContext::default();
        let mut range = PerDirection::<Option<SizeRange>>::default();
        range.assign("1k-4k,8k:2k", context).expect("valid");
        assert_eq!(range.read, Some(SizeRange { low_bytes: 1024, high_bytes: 4096 }));
        assert_eq!(range.write, Some(SizeRange { low_bytes: 2048, high_bytes: 8192 }));
        let mut split = PerDirection::<SizeSplit>::default();
        split.assign("2k/50:4k/50,8k/90:16k", context).expect("valid");
        assert_eq!(split.read.0.iter().map(|s| s.percent).collect::<Vec<_>>(), [50, 50]);
        assert_eq!(split.write.0.first(), Some(&SizeShare { bytes: 16 << 10, percent: 10 }));
        split.assign("512:1k:2k", context).expect("valid");
        assert_eq!(split.read.0.iter().map(|s| u32::from(s.percent)).sum::<u32>(), 100);
    }

    #[test]
    fn shares_that_do_not_add_up_are_drawn_as_in_fio() {
        let mut split = PerDirection::<SizeSplit>::default();
        for (text, shares) in [
            ("4k/33:8k/33:16k/33", &[(4096, 33), (8192, 33), (16384, 34)][..]),
            ("4k/60:8k/60", &[(4096, 60), (8192, 40)]),
            ("4k/10:8k/10", &[(4096, 10), (8192, 90)]),
            ("4k/50:8k/60:16k/70", &[(4096, 50), (8192, 50), (16384, 0)]),
        ] {
            split.assign(text, ParseContext::default()).expect(text);
            let got: Vec<(u64, u8)> = split.write.0.iter().map(|share| (share.bytes, share.percent)).collect();
            assert_eq!(got, shares, "{text}");
        }
        assert_eq!(SizeSplit::written_sum("4k/33:8k/33%:16k/33"), Some(99));
        assert_eq!(SizeSplit::written_sum("4k/33:8k"), None);
    }

    #[test]
    fn splits_that_cannot_be_read_say_why() {
        let mut split = PerDirection::<SizeSplit>::default();
        for (text, word) in [("4k/90:8k/60:1k", "150%"), ("4k/x", "percentage"), ("", "needed")] {
            assert!(split.assign(text, ParseContext::default()).expect_err(text).contains(word), "{text}");
        }
        assert!(split.assign(&["1k"; 65].join(":"), ParseContext::default()).expect_err("many").contains("at most 64"));
    }
}
