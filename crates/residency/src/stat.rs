//! `/proc/PID/stat` and `/proc/PID/task/TID/stat` (proc_pid_stat(5)): one reader.

use std::fs;
use std::path::Path;

/// The fields of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'a> {
    /// The name in brackets, which may hold blanks and brackets itself.
    pub comm: &'a str,
    /// The fields behind it, from the state on.
    fields: &'a str,
}

impl<'a> Stat<'a> {
    /// The fields of a line; `None` for a text of another form.
    pub fn of(text: &'a str) -> Option<Self> {
        let (head, fields) = text.rsplit_once(')')?;
        Some(Self { comm: head.split_once('(')?.1, fields })
    }

    /// The state, one letter: `R` running, `S` asleep, `Z` ended and not reaped.
    pub fn state(self) -> Option<char> {
        self.fields.split_ascii_whitespace().next()?.chars().next()
    }

    /// A field by its number in proc_pid_stat(5), of which the state is number 3; `None` for those before, and where the kernel prints
    /// fewer or no number.
    pub fn number(self, field: usize) -> Option<u64> {
        self.fields.split_ascii_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
    }
}

/// The text of `stat` in `folder`, of a process or task; `None` if it is gone.
pub fn read(folder: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(folder.join("stat")).ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_blanks_do_not_move_fields() {
        let text = "7 (a) R (b c) S 1 7 7 0 -1 4194560 100 0 3 0\n";
        let stat = Stat::of(text).expect("a line");
        assert_eq!((stat.comm, stat.state()), ("a) R (b c", Some('S')));
        assert_eq!((stat.number(4), stat.number(10), stat.number(12)), (Some(1), Some(100), Some(3)));
        assert_eq!((stat.number(2), stat.number(3), stat.number(60)), (None, None, None));
        assert_eq!(Stat::of("7 no name"), None);
        let own = read(Path::new("/proc/self")).expect("this process");
        assert!(Stat::of(&own).is_some_and(|stat| stat.number(4).is_some()));
    }
}
