//! Values of the options about memory: what buffers contain, where they come from, on which CPUs they are used.

use std::io::Read as _;

use serde::{Deserialize, Serialize};

use crate::units::ParseContext;
use crate::value::{OptionValue, choice, choose, word_and_argument};

/// Longest pattern, bytes.
const MAX_PATTERN_BYTES: usize = 128 << 10;

/// `buffer_pattern`: bytes repeated over every buffer; empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BufferPattern(pub Vec<u8>);

impl OptionValue for BufferPattern {
    const KIND: &'static str = "pattern: 0xHEX, NUMBER, \"text\", 'file', one after the other";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err("a value is needed".to_owned());
        }
        while !rest.is_empty() {
            rest = pattern_element(rest, &mut bytes)?;
            if bytes.len() > MAX_PATTERN_BYTES {
                return Err(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"));
            }
        }
        self.0 = bytes;
        Ok(())
    }
}

/// Reads one element of a pattern; gives what follows it.
pub(super) fn pattern_element<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Result<&'a str, String> {
    let quoted = |quote: char| {
        let body = text.strip_prefix(quote)?;
        Some(body.split_once(quote).ok_or_else(|| format!("{text} lacks its closing {quote}")))
    };
    if let Some(found) = quoted('"') {
        let (body, rest) = found?;
        if body.is_empty() {
            return Err("an empty text makes no pattern".to_owned());
        }
        bytes.extend_from_slice(body.as_bytes());
        return Ok(rest);
    }
    if let Some(found) = quoted('\'') {
        let (path, rest) = found?;
        let before = bytes.len();
        let file = std::fs::File::open(path).map_err(|error| format!("pattern file '{path}': {error}"))?;
        file.take(MAX_PATTERN_BYTES as u64 + 1)
            .read_to_end(bytes)
            .map_err(|error| format!("pattern file '{path}': {error}"))?;
        if bytes.len() == before {
            return Err(format!("pattern file '{path}' is empty"));
        }
        return Ok(rest);
    }
    if text.starts_with('%') {
        return Err("formats such as %o are for verify_pattern; fio 3.33 takes none of them in buffer_pattern either"
            .to_owned());
    }
    number(text, bytes)
}

/// Reads `0x...` as bytes in the order written (an odd digit stands alone) or a decimal as its bytes from the lowest up.
fn number<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Result<&'a str, String> {
    let bad = || format!("'{text}' is no pattern: expected 0xHEX, a number, \"text\" or 'file'");
    let hex_starts = |text: &str| text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X"));
    if let (true, Some(body)) = (hex_starts(text), text.get(2..)) {
        let mut end = body.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(body.len());
        // `0xff0x14`: the nought before the x begins the next number.
        if body.get(end..).is_some_and(|rest| rest.starts_with(['x', 'X'])) && end > 0 {
            end -= 1;
        }
        let (digits, rest) = body.split_at(end);
        if digits.is_empty() {
            return Err(bad());
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
        // The first of an odd number of digits stands alone, as in numbers.
        let (alone, pairs) = digits.as_bytes().split_at(digits.len() % 2);
        bytes.extend(alone.iter().map(|byte| digit(*byte)));
        bytes.extend(pairs.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, hex| byte << 4 | digit(*hex))));
        return Ok(rest);
    }
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text.get(sign..).unwrap_or("");
    let mut end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if digits.get(end..).is_some_and(|rest| rest.starts_with(['x', 'X'])) && end > 1 {
        end -= 1;
    }
    let (value, rest) = text.split_at(sign + end);
    let value: i32 = value.parse().map_err(|_| bad())?;
    let all = value.to_le_bytes();
    let used = all.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    bytes.extend_from_slice(all.get(..used).unwrap_or(&all));
    Ok(rest)
}

choice! {
    /// The kinds of memory that `iomem` can name.
    MemoryKind {
        Malloc = "malloc": "ordinary anonymous memory",
        Shm = "shm": "System V shared memory",
        ShmHuge = "shmhuge": "System V shared memory of hugetlb pages",
        Mmap = "mmap": "a private mapping, anonymous or of a file: mmap:/path",
        MmapHuge = "mmaphuge": "a mapping of hugetlb pages, anonymous or of a file on hugetlbfs: mmaphuge:/path",
        MmapShared = "mmapshared": "a shared mapping, anonymous or of a file: mmapshared:/path",
    }
}

/// `iomem`: where buffers come from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemorySource {
    /// The kind of memory.
    pub kind: MemoryKind,
    /// The file that is mapped, for the mapped kinds.
    pub path: Option<String>,
}

impl OptionValue for MemorySource {
    const KIND: &'static str = "word[:file]";
    const WORDS: &'static [(&'static str, &'static str)] = <MemoryKind as crate::value::Choice>::ALL;
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let (word, path) = word_and_argument(text);
        let path = path.map(|path| path.trim().to_owned()).filter(|path| !path.is_empty());
        if word.trim() == "cudamalloc" {
            return Err("memory of a GPU is fio's; pagelab speaks to none".to_owned());
        }
        let kind = choose(word)?;
        if path.is_some() && matches!(kind, MemoryKind::Malloc | MemoryKind::Shm | MemoryKind::ShmHuge) {
            return Err(format!("{word} maps no file; mmap, mmaphuge and mmapshared do"));
        }
        *self = Self { kind, path };
        Ok(())
    }
}

/// A set of CPUs or NUMA nodes, by number, ascending; empty for no choice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NumberSet(pub Vec<u32>);

/// Highest number of a CPU that the kernel's default mask holds.
const MAX_CPU: u32 = 1023;

impl OptionValue for NumberSet {
    const KIND: &'static str = "numbers and ranges: 0-3,5";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(number @ 0..=MAX_CPU) => Ok(number),
            _ => Err(format!("'{text}' is not a number from 0 to {MAX_CPU}")),
        };
        let mut set = std::collections::BTreeSet::new();
        // fio takes colons between CPUs, too.
        for part in text.split([',', ':']).map(str::trim).filter(|part| !part.is_empty()) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(format!("{part} runs backwards"));
            }
            set.extend(low..=high);
        }
        if set.is_empty() {
            return Err("no number in it".to_owned());
        }
        self.0 = set.into_iter().collect();
        Ok(())
    }
}

/// `numa_mem_policy`: from which NUMA nodes a worker's memory comes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NumaMemPolicy {
    /// The mode; nothing is set for `None`.
    pub mode: Option<NumaMode>,
    /// The nodes, for the modes that name some.
    pub nodes: NumberSet,
}

choice! {
    /// A mode of set_mempolicy(2).
    NumaMode {
        Default = "default": "the policy of the system",
        Prefer = "prefer": "from this node first: prefer:0",
        Bind = "bind": "from these nodes only: bind:0-1",
        Interleave = "interleave": "page by page from these nodes: interleave:0,1",
        Local = "local": "from the node of the CPU that asks",
    }
}

impl OptionValue for NumaMemPolicy {
    const KIND: &'static str = "word[:nodes]";
    const WORDS: &'static [(&'static str, &'static str)] = &[
        ("default", "the policy of the system"),
        (
            "local",
            "from the node of the CPU that asks; `prefer:0` from that node first, `bind:0-1` from those only, `interleave:0,1` in turn",
        ),
    ];
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let (word, list) = word_and_argument(text);
        let mode: NumaMode = choose(word)?;
        let mut nodes = NumberSet::default();
        match (mode, list) {
            (NumaMode::Default | NumaMode::Local, None) => {}
            (NumaMode::Default | NumaMode::Local, Some(_)) => return Err(format!("{word} names no nodes")),
            (_, Some(list)) => nodes.assign(list, context)?,
            (_, None) => return Err(format!("{word} needs its nodes: {word}:0")),
        }
        if mode == NumaMode::Prefer && nodes.0.len() > 1 {
            return Err("prefer names one node".to_owned());
        }
        *self = Self { mode: Some(mode), nodes };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<Vec<u8>, String> {
        let mut value = BufferPattern::default();
        value.assign(text, ParseContext::default()).map(|()| value.0)
    }

    #[test]
    fn patterns_are_read_as_fio_reads_them() {
        for (text, bytes) in [
            ("\"abcd\"", &b"abcd"[..]),
            ("-1024", &[0x00, 0xfc, 0xff, 0xff]),
            ("66", &[0x42]),
            ("0", &[0]),
            ("0xFF0X1", &[0xff, 0x01]),
            ("\"123\"0xFFeeCC", &[0x31, 0x32, 0x33, 0xff, 0xee, 0xcc]),
            ("-100xab\"1\"\"2\"", &[0xf6, 0xff, 0xff, 0xff, 0xab, 0x31, 0x32]),
            ("0xdeadface", &[0xde, 0xad, 0xfa, 0xce]),
            ("0xabc", &[0x0a, 0xbc]),
        ] {
            assert_eq!(pattern(text).as_deref(), Ok(bytes), "{text}");
        }
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), b"\x01\x02").expect("write");
        assert_eq!(pattern(&format!("'{}'7", file.path().display())), Ok(vec![1, 2, 7]));
        for (text, word) in
            [("\"abc", "closing"), ("%o", "verify_pattern"), ("zz", "no pattern"), ("'/none/x'", "/none/x")]
        {
            assert!(pattern(text).expect_err(text).contains(word), "{text}");
        }
    }

    #[test]
    fn memory_and_cpus_are_read() {
        let mut memory = MemorySource::default();
        memory.assign("mmaphuge:/dev/hugepages/x", ParseContext::default()).expect("valid");
        assert_eq!((memory.kind, memory.path.as_deref()), (MemoryKind::MmapHuge, Some("/dev/hugepages/x")));
        assert!(memory.assign("malloc:/x", ParseContext::default()).is_err());
        let mut cpus = NumberSet::default();
        cpus.assign("3,0-1", ParseContext::default()).expect("valid");
        assert_eq!(cpus.0, [0, 1, 3]);
        let mut policy = NumaMemPolicy::default();
        policy.assign("bind:0-1", ParseContext::default()).expect("valid");
        assert_eq!((policy.mode, policy.nodes.0.as_slice()), (Some(NumaMode::Bind), &[0, 1][..]));
        for bad in ["bind", "local:0", "prefer:0,1", "bund:0"] {
            assert!(policy.assign(bad, ParseContext::default()).is_err(), "{bad}");
        }
        for bad in ["", "3-1", "x", "4096"] {
            assert!(cpus.assign(bad, ParseContext::default()).is_err(), "{bad}");
        }
    }
}
