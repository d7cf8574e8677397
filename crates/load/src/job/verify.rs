//! `verify` and its pattern as values, and what contradicts them.

use serde::{Deserialize, Serialize};

use super::JobOptions;
use super::contents::pattern_element;
use super::units::ParseContext;
use super::value::{OptionValue, choice, choose};
use super::words::{MapLifetime, MapShare};
use crate::engines::Caps;
use crate::offsets::Direction;

choice! {
    /// How contents are verified.
    VerifyMethod {
        None = "none" | "0": "not at all",
        Crc32c = "crc32c" | "crc32c-intel": "CRC-32C, with the processor's instruction where it has one",
        Xxhash = "xxhash": "XXH32",
        Sha256 = "sha256": "SHA-256 in fio's form, which is not the standard's",
        Md5 = "md5": "MD5",
        Sha1 = "sha1": "SHA-1",
        Sha3224 = "sha3-224": "SHA3-224",
        Sha3256 = "sha3-256": "SHA3-256",
        Sha3384 = "sha3-384": "SHA3-384",
        Sha3512 = "sha3-512": "SHA3-512",
        Crc64 = "crc64": "CRC-64",
        Crc32 = "crc32": "CRC-32, most significant bit first",
        Crc16 = "crc16": "CRC-16",
        Crc7 = "crc7": "CRC-7",
        Meta = "meta": "the header alone, and verify_pattern if there is one",
        Pattern = "pattern": "verify_pattern over the whole block, without a header",
        PatternHdr = "pattern_hdr": "verify_pattern behind a header; a word of fio later than 3.33",
        Null = "null": "pretends: nothing is prepared and nothing compared",
    }
}

/// `verify=`: a [`VerifyMethod`]; what pagelab does not have is refused with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VerifyOption(pub VerifyMethod);

impl OptionValue for VerifyOption {
    const KIND: &'static str = "word";
    const WORDS: &'static [(&'static str, &'static str)] = <VerifyMethod as super::value::Choice>::ALL;
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        if text.trim() == "sha512" {
            return Err(
                "pagelab does not have it: where fio 3.33 should put this checksum it leaves bytes of the data, \
                        which prove nothing; use sha3-512 or sha256"
                    .to_owned(),
            );
        }
        self.0 = choose(text)?;
        Ok(())
    }
}

/// `verify_pattern`: bytes repeated over every block; empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyPattern {
    /// The bytes, with zeros where an offset belongs.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the block's offset goes: eight bytes from the lowest up, for each `%o`.
    pub offsets_at: Vec<usize>,
}

/// Bytes of an offset.
const OFFSET_BYTES: usize = 8;

/// Longest pattern, bytes; as in fio 3.33.
const MAX_PATTERN_BYTES: usize = 128 << 10;

impl OptionValue for VerifyPattern {
    const KIND: &'static str = "pattern: 0xHEX, NUMBER, \"text\", 'file', %o, one after the other";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let mut pattern = Self::default();
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err("a value is needed".to_owned());
        }
        while !rest.is_empty() {
            rest = match rest.strip_prefix("%o") {
                Some(rest) => {
                    pattern.offsets_at.push(pattern.bytes.len());
                    pattern.bytes.extend_from_slice(&[0; OFFSET_BYTES]);
                    rest
                }
                None => pattern_element(rest, &mut pattern.bytes)?,
            };
            if pattern.bytes.len() > MAX_PATTERN_BYTES {
                return Err(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"));
            }
        }
        *self = pattern;
        Ok(())
    }
}

impl JobOptions {
    /// Whether contents are verified.
    pub fn verifies(&self) -> bool {
        self.verify.0 != VerifyMethod::None
    }

    /// Whether the job changes the files that it names: `verify_only` only reads them.
    pub fn changes_files(&self) -> bool {
        (self.rw.0.writes() || self.rw.0.trims()) && !self.verify_only
    }

    /// Whether all that the job does is to verify what was written before it.
    pub fn only_verifies(&self) -> bool {
        self.verifies() && self.verify.0 != VerifyMethod::Null && !self.changes_files()
    }

    /// The distance of headers in a block, bytes, by fio's rules: `verify_interval`, cut to what divides every length of writes.
    pub fn verify_interval_bytes(&self) -> u32 {
        let [reads, writes] = [Direction::Read, Direction::Write].map(|direction| self.lengths(direction));
        let mut interval = u32::try_from(self.verify_interval.0).unwrap_or(u32::MAX);
        if interval == 0 && !writes.fixed() {
            interval = writes.min_bytes;
        }
        if interval > writes.min_bytes {
            interval = writes.min_bytes;
        } else if self.rw.0.reads() && interval > reads.min_bytes {
            interval = reads.min_bytes;
        }
        // fio looks at the least and the greatest length only, and then writes headers beyond the end of those between.
        let lengths = || writes.split.iter().map(|part| part.0).chain([writes.min_bytes, writes.max_bytes]);
        if interval == 0 || lengths().any(|length| !length.is_multiple_of(interval)) {
            interval = lengths().fold(0, gcd);
        }
        interval.max(1)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What contradicts `verify` in a job: the option that tips it over, and the words.
pub(super) fn conflict(o: &JobOptions, caps: Caps) -> Option<(&'static str, String)> {
    if !o.verifies() {
        let alone = [("verify_only", o.verify_only), ("verify_state_load", o.verify_state_load)];
        let (option, _) = alone.into_iter().find(|(_, given)| *given)?;
        return Some((option, format!("{option}=1 needs verify=: it says how to verify")));
    }
    if !caps.contains(Caps::BUFFERS) {
        return None;
    }
    conflict_of_layout(o).or_else(|| conflict_of_course(o, caps)).or_else(|| conflict_of_memory(o, caps))
}

/// Headers and patterns against lengths.
fn conflict_of_layout(o: &JobOptions) -> Option<(&'static str, String)> {
    let method = o.verify.0;
    let patterned = matches!(method, VerifyMethod::Pattern | VerifyMethod::PatternHdr);
    if patterned && o.verify_pattern.bytes.is_empty() {
        return Some(("verify", "verify=pattern needs verify_pattern=".to_owned()));
    }
    let (header, interval) = (method.header_bytes(), u64::from(o.verify_interval_bytes()));
    if header == 0 {
        return None;
    }
    if interval <= header {
        let option = if o.verify_interval.0 > 0 { "verify_interval" } else { "bs" };
        return Some((
            option,
            format!("{interval} bytes hold no more than the header, {header}; needed at least {}", header + 1),
        ));
    }
    let reads = o.lengths(Direction::Read);
    let odd = [reads.min_bytes, reads.max_bytes].into_iter().find(|bytes| !u64::from(*bytes).is_multiple_of(interval));
    if let Some(bytes) = odd.filter(|_| !o.rw.0.writes() && !o.bs_unaligned) {
        return Some((
            "bs",
            format!(
                "reads of {bytes} bytes hold no whole number of headers, which lie {interval} bytes apart (verify_interval, or the bs of writes)"
            ),
        ));
    }
    let at = o.verify_offset.0;
    let room = interval - header;
    (at > 0 && !(header..=room).contains(&at)).then(|| {
        let words = if room < header {
            format!("bs or verify_interval of at least {}", 2 * header)
        } else {
            format!("{header} to {room}")
        };
        (
            "verify_offset",
            format!(
                "the header of {header} bytes changes places with data at {at} of {interval} bytes; needed {words}"
            ),
        )
    })
}

/// What the order and the lengths of operations leave to be verified.
fn conflict_of_course(o: &JobOptions, caps: Caps) -> Option<(&'static str, String)> {
    let percent = |percent: Option<super::value::Percent>| percent.is_some_and(|percent| percent.0 > 0);
    let files = caps.contains(Caps::FILES);
    [
        (o.verify_only && o.time_based, "time_based", "verify_only goes once over what was written: leave out time_based"),
        (o.verify_state_load && o.changes_files(), "verify_state_load", "a state is loaded to verify what was written before: add verify_only=1, or read"),
        (o.only_verifies() && !files, "verify", "the engine's memory is empty at the start: there is nothing to verify without writing"),
        (o.rw.0.is_mixed() && o.is_rated(), "rate", "which way the next operation goes must not depend on time, for the same way is gone again to verify: leave out rate, or verify"),
        (percent(o.dedupe_percentage), "dedupe_percentage", "verify gives each block contents of its own; leave out dedupe_percentage"),
        (o.map_touch.0 > 0, "map_touch", "what is verified is whole blocks; leave out map_touch"),
    ]
    .into_iter()
    .find(|(wrong, _, _)| *wrong)
    .map(|(_, option, words)| (option, words.to_owned()))
}

/// Memory that does not stay until it is verified.
fn conflict_of_memory(o: &JobOptions, caps: Caps) -> Option<(&'static str, String)> {
    let private = !caps.contains(Caps::FILES) || o.map_share == MapShare::Private;
    let lost = o.changes_files() && private && caps.contains(Caps::MAPS) && o.map_lifetime == MapLifetime::Evict;
    lost.then(|| {
        (
            "map_lifetime",
            "a private piece that is unmapped loses what was written: there is nothing to verify".to_owned(),
        )
    })
}

/// What verifying jobs give and that has no effect: (option, words behind its name).
pub(super) fn without_effect(o: &JobOptions) -> Vec<(&'static str, &'static str)> {
    if !o.verifies() {
        return Vec::new();
    }
    let compressed = o.buffer_compress_percentage.is_some_and(|percent| percent.0 > 0);
    [
        (o.verify_async > 0, "verify_async", " has no effect: each worker verifies what it has read itself"),
        (
            o.experimental_verify,
            "experimental_verify",
            " has nothing to do: verifying always repeats the way of the writes",
        ),
        (
            o.verify_offset.0 > 0 && o.verify.0.header_bytes() == 0,
            "verify_offset",
            " has no effect: this method has no header that could be moved",
        ),
        (o.zero_buffers, "zero_buffers", " has no effect: verify decides the contents"),
        (
            !o.buffer_pattern.0.is_empty() && !compressed,
            "buffer_pattern",
            " has no effect: verify decides the contents; write verify_pattern",
        ),
    ]
    .into_iter()
    .filter(|(given, _, _)| *given)
    .map(|(_, option, words)| (option, words))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_places_for_offsets() {
        let mut pattern = VerifyPattern::default();
        pattern.assign("0xff%o\"abcd\"-12%o", ParseContext::default()).expect("valid");
        assert_eq!(pattern.offsets_at, [1, 17]);
        assert_eq!(pattern.bytes.len(), 25);
        assert_eq!(pattern.bytes.get(9..17), Some(&[0x61, 0x62, 0x63, 0x64, 0xf4, 0xff, 0xff, 0xff][..]));
        for bad in ["", "%x", "\"a"] {
            assert!(pattern.assign(bad, ParseContext::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn intervals_follow_fios_rules() {
        let interval = |words: &str| {
            let words: Vec<String> = format!("--name=j --size=1m {words}").split(' ').map(str::to_owned).collect();
            crate::job::parse_args(&words).expect("valid").jobs[0].options.verify_interval_bytes()
        };
        for (words, bytes) in [
            ("--rw=write --bs=4k", 4096),
            ("--rw=write --bs=4k --verify_interval=512", 512),
            ("--rw=write --bs=4k --verify_interval=8k", 4096),
            ("--rw=write --bs=4k --verify_interval=1000", 4096),
            ("--rw=write --bsrange=1k-4k", 1024),
            ("--rw=write --bssplit=4k/50:6k/50", 2048),
            ("--rw=write --bssplit=4k/50:6k/30:5k/20", 1024),
            ("--rw=rw --bs=2k,4k --verify_interval=3k", 2048),
        ] {
            assert_eq!(interval(words), bytes, "{words}");
        }
    }

    #[test]
    fn what_cannot_be_verified_is_refused() {
        let check = |words: &str| {
            let words: Vec<String> = format!("--name=j --size=1m {words}").split(' ').map(str::to_owned).collect();
            crate::job::parse_args(&words).map(|_| ()).map_err(|error| error.to_string())
        };
        for (words, says) in [
            ("--rw=write --verify=sha512", "sha3-512"),
            ("--rw=write --verify=crc33", "crc32"),
            ("--rw=write --verify=pattern", "verify_pattern"),
            ("--rw=write --verify=sha256 --bs=104", "at least 105"),
            ("--rw=write --verify=md5 --verify_offset=40", "56 to"),
            ("--rw=write --verify=md5 --bs=100 --verify_offset=60", "at least 112"),
            ("--rw=read --verify=md5 --bs=4k,8k", "apart"),
            ("--rw=read --verify=md5 --ioengine=anon", "empty"),
            ("--rw=write --verify=md5 --ioengine=anon --map_touch=1", "map_touch"),
            ("--rw=write --verify=md5 --ioengine=anon --map_lifetime=evict --map_granularity=64k", "loses"),
            ("--rw=randrw --verify=md5 --rate=1m", "rate"),
            ("--rw=write --verify_only=1", "needs verify="),
            ("--rw=write --verify=md5 --verify_state_load=1", "verify_only=1"),
            ("--rw=write --verify=md5 --verify_only=1 --time_based=1 --runtime=1", "time_based"),
            ("--rw=write --verify=md5 --verify_policy=fsynced", "verify_policy"),
        ] {
            assert!(check(words).expect_err(words).contains(says), "{words}: {:?}", check(words));
        }
        for words in [
            "--rw=write --verify=crc32c-intel --ioengine=null",
            "--rw=write --verify=0 --bs=1",
            "--rw=write --verify=crc7 --bs=42",
        ] {
            assert_eq!(check(words), Ok(()), "{words}");
        }
    }
}
