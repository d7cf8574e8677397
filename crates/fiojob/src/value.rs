//! The types that option values have, and how each is read from text.

use serde::{Deserialize, Serialize};

use crate::model::Direction;
use crate::units::{self, ParseContext};

/// A type of option value. One implementation per type serves parsing, defaults and documentation.
pub trait OptionValue {
    /// The type's name in help and docs.
    const KIND: &'static str;
    /// The words accepted, for choices: (word, what it means). Empty for open types.
    const WORDS: &'static [(&'static str, &'static str)] = &[];
    /// Whether the option may stand without `=value`, meaning true.
    const FLAG: bool = false;

    /// Reads `text` over the present value: per-direction values leave untouched what they do not name.
    ///
    /// # Errors
    /// The reason in words, without the option's name.
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String>;
}

impl OptionValue for bool {
    const KIND: &'static str = "bool";
    const FLAG: bool = true;
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        // As in fio what stands behind the number is passed over: `0/1` is 0.
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        *self = match text.get(..digits).unwrap_or_default() {
            "1" => true,
            "0" => false,
            _ => return Err("expected 0 or 1".to_owned()),
        };
        Ok(())
    }
}

impl OptionValue for Option<bool> {
    const KIND: &'static str = "bool";
    const FLAG: bool = true;
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let mut value = false;
        value.assign(text, context)?;
        *self = Some(value);
        Ok(())
    }
}

impl OptionValue for u64 {
    const KIND: &'static str = "int";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        *self = units::count(text, context)?;
        Ok(())
    }
}

impl OptionValue for Option<u64> {
    const KIND: &'static str = "int";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        *self = Some(units::count(text, context)?);
        Ok(())
    }
}

impl OptionValue for i64 {
    const KIND: &'static str = "signed int";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        *self = units::signed(text, context)?;
        Ok(())
    }
}

impl OptionValue for Option<String> {
    const KIND: &'static str = "str";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let text = text.trim();
        *self = (!text.is_empty()).then(|| text.to_owned());
        Ok(())
    }
}

/// Names separated by ':', which add up where the option is given more than once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NameList(
    /// The list; `None` if there is none.
    pub Option<String>,
);

impl std::ops::Deref for NameList {
    type Target = Option<String>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl OptionValue for NameList {
    const KIND: &'static str = "names, separated by ':'";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        self.0 = Some(match self.0.take() {
            Some(before) => format!("{before}:{text}"),
            None => text.to_owned(),
        });
        Ok(())
    }
}

/// An amount of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl OptionValue for Bytes {
    const KIND: &'static str = "size";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        self.0 = units::size(text, context)?;
        Ok(())
    }
}

/// An amount of bytes, or a share of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Bytes.
    Bytes(u64),
    /// Percent of the file's size, 1 to 100.
    Percent(u64),
}

impl Extent {
    /// Bytes, given the size of the file that percentages refer to; `None` if that size is needed and not known.
    pub fn resolve(self, file_bytes: Option<u64>) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => {
                let share = u128::from(file_bytes?) * u128::from(percent) / 100;
                u64::try_from(share).ok()
            }
        }
    }
}

impl OptionValue for Option<Extent> {
    const KIND: &'static str = "size or percent";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let text = text.trim();
        // fio takes the first of several signs: 100%% is how it is written where printf(3) or a batch file takes one away.
        *self = Some(if text.ends_with('%') {
            match units::count(text.trim_end_matches('%'), context)? {
                percent @ 1..=100 => Extent::Percent(percent),
                // As in fio: a share of nothing is nothing, or for a size as if it were not given.
                0 => Extent::Bytes(0),
                other => return Err(format!("{other}% is not between 0% and 100%")),
            }
        } else {
            Extent::Bytes(units::size(text, context)?)
        });
        Ok(())
    }
}

/// A number from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Percent(pub u8);

impl OptionValue for Option<Percent> {
    const KIND: &'static str = "percent";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let value = units::count(text.trim().trim_end_matches('%'), context)?;
        match u8::try_from(value) {
            Ok(percent @ 0..=100) => *self = Some(Percent(percent)),
            _ => return Err(format!("{value} is not between 0 and 100")),
        }
        Ok(())
    }
}

/// A time in nanoseconds; a bare number is in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(
    /// Nanoseconds.
    pub u64,
);

impl OptionValue for Seconds {
    const KIND: &'static str = "time (s)";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        self.0 = units::time_ns(text, 1_000_000_000)?;
        Ok(())
    }
}

/// A time in nanoseconds; a bare number is in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(
    /// Nanoseconds.
    pub u64,
);

impl OptionValue for Micros {
    const KIND: &'static str = "time (us)";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        self.0 = units::time_ns(text, 1_000)?;
        Ok(())
    }
}

impl OptionValue for PerDirection<Micros> {
    const KIND: &'static str = "time (us)[,time][,time]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        self.assign_with(text, context, Micros::assign)
    }
}

/// A share in percent that need not be whole.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl OptionValue for Share {
    const KIND: &'static str = "percent, with fractions";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let share: f64 = text.trim().parse().map_err(|_| format!("'{text}' is not a number"))?;
        if !(0.0..=100.0).contains(&share) {
            return Err(format!("{share} is not between 0 and 100"));
        }
        self.0 = share;
        Ok(())
    }
}

/// A time or a range of times in nanoseconds, bare numbers in seconds: `3`, `1-5`, `500ms:2s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SecondsRange {
    /// Shortest, ns.
    pub low_ns: u64,
    /// Longest, ns.
    pub high_ns: u64,
}

impl OptionValue for SecondsRange {
    const KIND: &'static str = "time or range (s)";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let mut parts = units::parts(text, &[':', '-']);
        let low = parts.next().unwrap_or(text);
        let high = parts.next().unwrap_or(low);
        if let Some(third) = parts.next() {
            return Err(format!("'{third}' is a third time; a range has two"));
        }
        let low = units::time_ns(low, 1_000_000_000)?;
        let high = units::time_ns(high, 1_000_000_000)?;
        // fio swaps a range that is written the wrong way round.
        *self = Self { low_ns: low.min(high), high_ns: low.max(high) };
        Ok(())
    }
}

/// One value for each direction of transfer: `a`, `read,write`, `read,write,trim`, with gaps that keep the present value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims.
    pub trim: T,
}

impl<T> PerDirection<T> {
    /// The value of this direction.
    pub fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Trim => &self.trim,
        }
    }

    /// The values of all directions, in their order.
    pub fn all(&self) -> [&T; Direction::COUNT] {
        [&self.read, &self.write, &self.trim]
    }

    fn assign_with(
        &mut self,
        text: &str,
        context: ParseContext,
        one: fn(&mut T, &str, ParseContext) -> Result<(), String>,
    ) -> Result<(), String> {
        self.assign_parts(units::parts(text, &[',']), context, one)
    }

    /// Reads one, two or three values: for all directions, for reads and the rest, for reads, writes and trims.
    ///
    /// # Errors
    /// More than three, or what `one` says about one of them.
    pub(super) fn assign_parts<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a str>,
        context: ParseContext,
        one: impl Fn(&mut T, &str, ParseContext) -> Result<(), String> + Copy,
    ) -> Result<(), String> {
        let parts: Vec<&str> = parts.map(str::trim).collect();
        match parts.as_slice() {
            [all] => {
                one(&mut self.read, all, context)?;
                one(&mut self.write, all, context)?;
                one(&mut self.trim, all, context)
            }
            // Two values: the second holds for writes and trims. A gap leaves the value that was inherited.
            [read, write] => {
                Self::unless_gap(&mut self.read, read, context, one)?;
                Self::unless_gap(&mut self.write, write, context, one)?;
                Self::unless_gap(&mut self.trim, write, context, one)
            }
            [read, write, trim] => {
                Self::unless_gap(&mut self.read, read, context, one)?;
                Self::unless_gap(&mut self.write, write, context, one)?;
                Self::unless_gap(&mut self.trim, trim, context, one)
            }
            _ => Err(format!("{} values; at most three are known: read, write, trim", parts.len())),
        }
    }

    fn unless_gap(
        slot: &mut T,
        text: &str,
        context: ParseContext,
        one: impl Fn(&mut T, &str, ParseContext) -> Result<(), String>,
    ) -> Result<(), String> {
        if text.is_empty() { Ok(()) } else { one(slot, text, context) }
    }
}

impl OptionValue for PerDirection<Bytes> {
    const KIND: &'static str = "size[,size][,size]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        // As in fio a colon or a dash is as good as a comma, if there is none.
        let separators: &[char] = if text.contains(',') {
            &[',']
        } else if text.contains(':') {
            &[':']
        } else {
            &[',', '-']
        };
        self.assign_parts(units::parts(text, separators), context, Bytes::assign)
    }
}

impl OptionValue for PerDirection<Option<Percent>> {
    const KIND: &'static str = "percent[,percent][,percent]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        self.assign_with(text, context, Option::<Percent>::assign)
    }
}

impl OptionValue for PerDirection<Option<u64>> {
    const KIND: &'static str = "int[,int][,int]";
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        self.assign_with(text, context, Option::<u64>::assign)
    }
}

/// Percentiles to report, each from 0 to 100, ascending.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PercentileList(pub Vec<f64>);

impl OptionValue for PercentileList {
    const KIND: &'static str = "list of floats, separated by ':'";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let mut list = Vec::new();
        for part in text.split(':') {
            let value: f64 = part.trim().parse().map_err(|_| format!("'{part}' is not a number"))?;
            if !(0.0..=100.0).contains(&value) {
                return Err(format!("{value} is not between 0 and 100"));
            }
            list.push(value);
        }
        // fio keeps room for twenty.
        if list.len() > 20 {
            return Err(format!("{} percentiles; at most 20 are reported", list.len()));
        }
        list.sort_by(f64::total_cmp);
        list.dedup();
        self.0 = list;
        Ok(())
    }
}

/// The name of a log: none wanted, called after the job, or with this prefix.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogName {
    /// No log.
    #[default]
    None,
    /// `JOB_bw.1.log`.
    Job,
    /// `PREFIX_bw.1.log`.
    Prefix(String),
}

impl OptionValue for LogName {
    const KIND: &'static str = "str";
    const FLAG: bool = true;
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        *self = match text.trim() {
            // What stands alone is read as 1.
            "" | "1" => Self::Job,
            prefix => Self::Prefix(prefix.to_owned()),
        };
        Ok(())
    }
}

/// `ignore_error`: error numbers that a job goes on after, by direction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorLists {
    /// Of reads.
    pub read: Vec<i32>,
    /// Of writes.
    pub write: Vec<i32>,
    /// Of verifying, of which there is only EILSEQ.
    #[serde(default)]
    pub verify: Vec<i32>,
}

/// The errors of reading and writing by name; others by number.
const ERRORS: &[(&str, i32)] = &[
    ("EPERM", libc::EPERM),
    ("ENOENT", libc::ENOENT),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("ENXIO", libc::ENXIO),
    ("EBADF", libc::EBADF),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("EBUSY", libc::EBUSY),
    ("ENODEV", libc::ENODEV),
    ("EINVAL", libc::EINVAL),
    ("ETXTBSY", libc::ETXTBSY),
    ("EFBIG", libc::EFBIG),
    ("ENOSPC", libc::ENOSPC),
    ("EROFS", libc::EROFS),
    ("EPIPE", libc::EPIPE),
    ("EILSEQ", libc::EILSEQ),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("EDQUOT", libc::EDQUOT),
    ("EREMOTEIO", libc::EREMOTEIO),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
];

impl OptionValue for ErrorLists {
    const KIND: &'static str = "errors:... [,errors:...]";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let list = |text: &str| -> Result<Vec<i32>, String> {
            let number = |word: &str| {
                let named = ERRORS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
                named.or_else(|| word.parse::<i32>().ok().map(i32::abs).filter(|n| (1..4096).contains(n)))
            };
            text.split(':')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(|word| number(word).ok_or_else(|| format!("'{word}' is no error; give its number")))
                .collect()
        };
        let parts: Vec<&str> = text.split(',').collect();
        let [read, rest @ ..] = parts.as_slice() else { return Err("a value is needed".to_owned()) };
        self.read = list(read)?;
        match rest {
            [] => {}
            [write] => self.write = list(write)?,
            [write, verify] => {
                self.write = list(write)?;
                self.verify = list(verify)?;
            }
            _ => return Err(format!("{} lists; at most three are known: read, write, verify", parts.len())),
        }
        Ok(())
    }
}

/// Declares an enumeration whose variants are words of the job language.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $( $variant:ident = $word:literal $(| $alias:literal)* : $help:literal, )+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $( #[doc = $help] $variant, )+ }

        // Only a place to start from: the default that counts is the text in the option's declaration.
        impl Default for $name {
            fn default() -> Self {
                let [first, ..] = [$( Self::$variant ),+];
                first
            }
        }

        impl $crate::value::Choice for $name {
            fn from_word(word: &str) -> Option<Self> {
                match word { $( $word $(| $alias)* => Some(Self::$variant), )+ _ => None }
            }
            fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
            const ALL: &'static [(&'static str, &'static str)] = &[ $( ($word, $help), )+ ];
        }

        impl $crate::value::OptionValue for $name {
            const KIND: &'static str = "word";
            const WORDS: &'static [(&'static str, &'static str)] = <Self as $crate::value::Choice>::ALL;
            fn assign(&mut self, text: &str, _: $crate::units::ParseContext) -> Result<(), String> {
                *self = $crate::value::choose(text)?;
                Ok(())
            }
        }
    };
}
pub(crate) use choice;

/// An enumeration of words.
pub trait Choice: Copy + Sized {
    /// The variant that `word` means.
    fn from_word(word: &str) -> Option<Self>;
    /// The word for this variant.
    fn word(self) -> &'static str;
    /// (word, what it means), in order of declaration.
    const ALL: &'static [(&'static str, &'static str)];
}

/// Reads a word, or says which words there are.
///
/// # Errors
/// The list of words, with the nearest first where one is near.
pub fn choose<T: Choice>(text: &str) -> Result<T, String> {
    let text = text.trim();
    T::from_word(text).ok_or_else(|| {
        let words: Vec<&str> = T::ALL.iter().map(|(word, _)| *word).collect();
        not_one_of(text, &words)
    })
}

/// What to say of a word that is none of `words`: all of them, and the nearest if one is near.
pub fn not_one_of(text: &str, words: &[&str]) -> String {
    let hint = pagelab_vocab::nearest::hint_for(text, words.iter().copied());
    format!("not one of: {}{hint}", words.join(", "))
}

/// Takes `word:argument` apart; a word may stand alone.
pub fn word_and_argument(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    text.split_once(':').map_or((text, None), |(word, argument)| (word, Some(argument)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_mean_read_and_the_rest() {
        let context = ParseContext::default();
        let mut bs = PerDirection { read: Bytes(4096), write: Bytes(4096), trim: Bytes(4096) };
        bs.assign(",8k", context).expect("valid");
        assert_eq!((bs.read.0, bs.write.0, bs.trim.0), (4096, 8192, 8192));
        bs.assign("16k,", context).expect("valid");
        assert_eq!((bs.read.0, bs.write.0, bs.trim.0), (16384, 8192, 8192));
        bs.assign("1k,2k,", context).expect("valid");
        assert_eq!((bs.read.0, bs.write.0, bs.trim.0), (1024, 2048, 8192));
        bs.assign("64k", context).expect("valid");
        assert_eq!((bs.read.0, bs.write.0, bs.trim.0), (65536, 65536, 65536));
        assert!(bs.assign("1,2,3,4", context).is_err());
        // As in fio a dash or a colon is as good as a comma.
        for text in ["4k-8k", "4k:8k"] {
            bs.assign("64k", context).expect("valid");
            bs.assign(text, context).expect("valid");
            assert_eq!((bs.read.0, bs.write.0, bs.trim.0), (4096, 8192, 8192), "{text}");
        }
        bs.assign("(2*4k),(32k/2)", context).expect("valid");
        assert_eq!((bs.read.0, bs.write.0), (8192, 16384));
        // In fio a slash parts nothing: what is behind the first number is not read.
        bs.assign("8k/4k", context).expect("valid");
        assert_eq!((bs.read.0, bs.write.0), (8192, 8192));
    }

    #[test]
    fn percentages_are_of_the_file() {
        let mut extent: Option<Extent> = None;
        extent.assign("25%", ParseContext::default()).expect("valid");
        assert_eq!(extent.and_then(|e| e.resolve(Some(4096))), Some(1024));
        assert_eq!(extent.and_then(|e| e.resolve(None)), None);
        assert!(extent.assign("101%", ParseContext::default()).is_err());
        extent.assign("100%%", ParseContext::default()).expect("valid");
        assert_eq!(extent, Some(Extent::Percent(100)));
        extent.assign("0%", ParseContext::default()).expect("valid");
        assert_eq!(extent.and_then(|e| e.resolve(None)), Some(0));
        assert_eq!(Extent::Percent(100).resolve(Some(u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn ranges_swap() {
        let mut range = SecondsRange::default();
        range.assign("5-2", ParseContext::default()).expect("valid");
        assert_eq!((range.low_ns, range.high_ns), (2_000_000_000, 5_000_000_000));
        range.assign("(3-1)-(2*3)", ParseContext::default()).expect("valid");
        assert_eq!((range.low_ns, range.high_ns), (2_000_000_000, 6_000_000_000));
        assert!(range.assign("1-2-3", ParseContext::default()).is_err());
    }

    #[test]
    fn errors_have_names_and_numbers() {
        let mut lists = ErrorLists::default();
        lists.assign("EIO:28,ENOSPC,EILSEQ", ParseContext::default()).expect("valid");
        assert_eq!((lists.read, lists.write), (vec![libc::EIO, libc::ENOSPC], vec![libc::ENOSPC]));
        assert_eq!(lists.verify, [libc::EILSEQ]);
        for bad in ["EWHAT", "0", "1,2,3,4"] {
            assert!(ErrorLists::default().assign(bad, ParseContext::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentile_lists_are_sorted_and_bounded() {
        let mut list = PercentileList::default();
        list.assign("99.9:50:99", ParseContext::default()).expect("valid");
        assert_eq!(list.0, vec![50.0, 99.0, 99.9]);
        for bad in ["50:x", "101", "NaN", "inf", ""] {
            assert!(list.assign(bad, ParseContext::default()).is_err(), "{bad}");
        }
        assert!(list.assign(&vec!["1"; 21].join(":"), ParseContext::default()).is_err());
    }
}
