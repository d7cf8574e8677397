//! Sizes of pages where a recording was made.

use crate::reader::Recording;
use crate::tables::SettingsRow;
use pagelab_vocab::abi;

/// What x86-64 and most others mean where no size is named.
const HUGETLB_BYTES: u64 = 2 << 20;

/// A mount of hugetlbfs: every file below it is of its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    path: Vec<u8>,
    page_bytes: u64,
}

/// The sizes of pages that the kernel rounds to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSizes {
    page_bytes: u64,
    hugetlb_bytes: u64,
    mounts: Vec<Mount>,
}

impl PageSizes {
    /// Base pages of that size, hugetlb pages of 2 MiB where no size is named, and no hugetlbfs. A size that is no power
    /// of two is taken for 4 KiB.
    pub fn new(page_bytes: u64) -> Self {
        let page_bytes = if page_bytes.is_power_of_two() { page_bytes } else { 4096 };
        Self { page_bytes, hugetlb_bytes: HUGETLB_BYTES, mounts: Vec::new() }
    }

    /// From a recording's manifest and its settings. Sizes missing there are as in [`PageSizes::new`].
    pub fn of(recording: &Recording) -> Self {
        let mut settings = Vec::new();
        // Damage of this table is the checker's to report; without it the usual sizes hold.
        let read = recording.for_each_readable::<SettingsRow<'_>>(&mut Vec::new(), |row| {
            let wanted = row.key == "hugetlb.default_size" || row.key.starts_with("mount.");
            if let Some(value) = row.value.filter(|_| wanted && row.at == "start") {
                settings.push((row.key.to_owned(), value.to_owned()));
            }
        });
        if let Err(error) = read {
            tracing::debug!("sizes of pages are taken for the usual ones: {error}");
        }
        let pairs = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Self::new(recording.manifest().page_size_bytes.unwrap_or(4096)).with_settings(pairs)
    }

    /// The same with what settings, as keys and values, tell: `hugetlb.default_size`, `mount.<path>.fs` and
    /// `mount.<path>.options`.
    #[must_use]
    pub fn with_settings<'a>(mut self, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let settings: Vec<(&str, &str)> = settings.into_iter().collect();
        let default = settings.iter().find(|(key, _)| *key == "hugetlb.default_size");
        if let Some(bytes) = default.and_then(|(_, value)| bytes(value)) {
            self.hugetlb_bytes = bytes;
        }
        for &(key, value) in &settings {
            let path = key.strip_prefix("mount.").and_then(|key| key.strip_suffix(".fs"));
            let Some(path) = path.filter(|_| value == "hugetlbfs") else { continue };
            let has_options =
                |key: &str| key.strip_prefix("mount.").and_then(|key| key.strip_suffix(".options")) == Some(path);
            let options = settings.iter().find(|(key, _)| has_options(key)).map_or("", |(_, value)| *value);
            let size = options.split(',').find_map(|option| bytes(option.strip_prefix("pagesize=")?));
            let page_bytes = size.unwrap_or(self.hugetlb_bytes);
            self.mounts.push(Mount { path: path.trim_end_matches('/').as_bytes().to_vec(), page_bytes });
        }
        self
    }

    /// The same with one more mount of hugetlbfs, of pages of the default size.
    #[must_use]
    pub fn with_hugetlbfs(mut self, path: &str) -> Self {
        let path = path.trim_end_matches('/').as_bytes().to_vec();
        self.mounts.push(Mount { path, page_bytes: self.hugetlb_bytes });
        self
    }

    /// Bytes of a base page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Bytes of a page of memory that is mapped with these MAP_ bits from that file; none if it is not hugetlb memory.
    ///
    /// A file made by `memfd_create(MFD_HUGETLB)` and mapped without MAP_HUGETLB looks like any other.
    pub fn hugetlb_bytes(&self, flags: u32, path: &[u8]) -> Option<u64> {
        let below =
            |mount: &&Mount| path.strip_prefix(mount.path.as_slice()).is_some_and(|rest| rest.starts_with(b"/"));
        if let Some(mount) = self.mounts.iter().find(below) {
            return Some(mount.page_bytes);
        }
        if flags & abi::MAP_HUGETLB == 0 {
            return None;
        }
        Some(named_size(flags).unwrap_or(self.hugetlb_bytes))
    }
}

/// The page size that MAP_HUGETLB names; none if it means the default.
pub fn named_size(flags: u32) -> Option<u64> {
    match flags >> abi::MAP_HUGE_SHIFT & abi::MAP_HUGE_MASK {
        0 => None,
        log => 1_u64.checked_shl(log),
    }
}

/// A size as settings have it, `2M` or `2048kB`; none if pages cannot have that size.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text.get(digits.len()..)?.trim().trim_end_matches(['B', 'b']) {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    bytes.is_power_of_two().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_tell_the_sizes() {
        let settings = [
            ("hugetlb.default_size", "1G"),
            ("mount./dev/huge.fs", "hugetlbfs"),
            ("mount./dev/huge.options", "rw,relatime,pagesize=2M"),
            ("mount./mnt/gigantic.fs", "hugetlbfs"),
            ("mount./dev.fs", "devtmpfs"),
        ];
        let sizes = PageSizes::new(4096).with_settings(settings);
        assert_eq!(sizes.hugetlb_bytes(abi::MAP_HUGETLB, b""), Some(1 << 30));
        assert_eq!(sizes.hugetlb_bytes(abi::MAP_HUGETLB | 21 << abi::MAP_HUGE_SHIFT, b""), Some(2 << 20));
        assert_eq!(sizes.hugetlb_bytes(0, b"/dev/huge/a"), Some(2 << 20));
        assert_eq!(sizes.hugetlb_bytes(0, b"/mnt/gigantic/a"), Some(1 << 30));
        assert_eq!(sizes.hugetlb_bytes(0, b"/dev/hugenot/a"), None);
        assert_eq!(PageSizes::new(4096).hugetlb_bytes(abi::MAP_HUGETLB, b""), Some(2 << 20));
        assert_eq!(
            ["2048kB", "2M", "64K", "3M", "x", ""].map(bytes),
            [Some(2 << 20), Some(2 << 20), Some(64 << 10), None, None, None]
        );
    }
}
