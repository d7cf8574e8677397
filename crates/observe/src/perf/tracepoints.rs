//! The two tracepoints that every system call passes, as tracefs describes them.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::calls::numbers_at_return;

/// Where tracefs may be: by itself, or in debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tracepoint {
    /// Its number, which is also in its records.
    pub id: u16,
    /// Where its records have the number of the call.
    pub nr_at: usize,
    /// Where they have the arguments, or the result.
    pub words_at: usize,
    /// The calls to report; none: all.
    pub filter: Option<CString>,
}

/// Both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallTracepoints {
    pub enter: Tracepoint,
    pub exit: Tracepoint,
}

impl CallTracepoints {
    /// Asks tracefs.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    pub(super) fn find() -> Result<Self, String> {
        let mut errors = Vec::new();
        for place in PLACES {
            match Self::of(Path::new(place)) {
                Ok(found) => return Ok(found),
                Err(error) => errors.push((place, error)),
            }
        }
        let denied = errors.iter().any(|(_, error)| error.kind() == io::ErrorKind::PermissionDenied);
        let found = errors.iter().map(|(place, error)| format!("{place}: {error}")).collect::<Vec<_>>().join(", ");
        let needed = if denied {
            "the right to read tracefs, which is root's; try: sudo pagelab record --observe syscalls ..."
        } else {
            "tracefs; try: sudo mount -t tracefs tracefs /sys/kernel/tracing"
        };
        Err(format!("tracepoints raw_syscalls:sys_enter and sys_exit: found {found}; needed: {needed}"))
    }

    fn of(place: &Path) -> io::Result<Self> {
        let read = |name: &str, words: &str| {
            let dir = place.join("events/raw_syscalls").join(name);
            let (id, format) = (std::fs::read_to_string(dir.join("id"))?, std::fs::read_to_string(dir.join("format"))?);
            let unknown = || io::Error::other(format!("events/raw_syscalls/{name} is not as known"));
            tracepoint(&id, &format, words).ok_or_else(unknown)
        };
        Ok(Self { enter: read("sys_enter", "args")?, exit: read("sys_exit", "ret")? })
    }

    /// Narrows them to these calls.
    pub(super) fn narrow(&mut self, numbers: &[u32]) {
        let text = |numbers: BTreeSet<i64>| CString::new(expression(&numbers)).ok();
        self.enter.filter = text(numbers.iter().map(|nr| i64::from(*nr)).collect());
        self.exit.filter = text(numbers.iter().flat_map(|nr| numbers_at_return(*nr)).collect());
    }
}

fn tracepoint(id: &str, format: &str, words: &str) -> Option<Tracepoint> {
    let id = id.trim().parse().ok()?;
    Some(Tracepoint { id, nr_at: offset(format, "id")?, words_at: offset(format, words)?, filter: None })
}

/// The offset of a field, from lines such as `field:unsigned long args[6]; offset:16; size:48; signed:0;`.
fn offset(format: &str, field: &str) -> Option<usize> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let name = parts.next()?.rsplit(' ').next()?;
        if name.split('[').next() != Some(field) {
            return None;
        }
        parts.find_map(|part| part.strip_prefix("offset:")?.parse().ok())
    })
}

/// A filter as the kernel reads it, as short as can be: it is looked at on every call.
fn expression(numbers: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for nr in numbers.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == nr => *last = nr,
            _ => ranges.push((nr, nr)),
        }
    }
    let mut text = String::new();
    for (first, last) in ranges {
        if !text.is_empty() {
            text.push_str(" || ");
        }
        // Writing into a string cannot fail.
        let _ =
            if first == last { write!(text, "id == {first}") } else { write!(text, "(id >= {first} && id <= {last})") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sys_enter\nID: 443\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\n\
        print fmt: \"NR %ld\", REC->id\n";

    #[test]
    fn fields_are_where_the_format_says() {
        let found = tracepoint("443\n", FORMAT, "args").expect("it is well-formed");
        assert_eq!((found.id, found.nr_at, found.words_at), (443, 8, 16));
        let moved = FORMAT.replace("offset:8;", "offset:16;").replace("args[6];\toffset:16;", "args[6];\toffset:24;");
        assert_eq!(tracepoint("1", &moved, "args").map(|found| (found.nr_at, found.words_at)), Some((16, 24)));
        assert_eq!(tracepoint("443", FORMAT, "ret"), None);
        assert_eq!(tracepoint("", FORMAT, "args"), None);
    }

    #[test]
    fn a_filter_has_ranges() {
        let text = |numbers: &[i64]| expression(&numbers.iter().copied().collect());
        assert_eq!(text(&[1]), "id == 1");
        assert_eq!(text(&[-1, 0, 1, 2, 17, 18, 40]), "(id >= -1 && id <= 2) || (id >= 17 && id <= 18) || id == 40");
    }

    #[test]
    fn a_place_without_tracefs_says_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = CallTracepoints::of(dir.path()).expect_err("it is empty");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
