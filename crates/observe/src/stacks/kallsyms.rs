//! The functions of the kernel, as `/proc/kallsyms` lists them.
//!
//! The kernel takes some 40 ms to write the list, and who keeps it needs 10 MB: it is read once, line by line, and what is kept is
//! what somebody asked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pagelab_vocab::budget::{AnchorSearch, AnchorsFound};

/// Bytes asked for at a time.
const READ_BYTES: usize = 64 << 10;
/// Symbols that may come before the first byte of code in the list, which is sorted by address.
const SYMBOLS_BEFORE_TEXT: usize = 20_000;
/// Blazesym finds out by it how far the kernel was moved from where its image on disk has it.
const TEXT: &str = "_stext";

/// The functions of some addresses, and the anchors that the kernel has.
pub(super) struct Functions {
    /// Lines of the list, in memory.
    nearest: File,
    pub anchors: AnchorsFound,
}

impl Functions {
    /// Reads the list under `root` (`/` but in tests) and keeps the functions that `addrs` lie in.
    pub(super) fn find(root: &Path, addrs: &[u64]) -> io::Result<Self> {
        let (mut nearest, mut anchors) = (Nearest::of(addrs), AnchorSearch::default());
        for_each(root, |line| {
            anchors.meet(line.name);
            nearest.meet(&line);
            true
        })?;
        let mut file = File::from(rustix::fs::memfd_create("pagelab-kallsyms", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(&nearest.lines())?;
        Ok(Self { nearest: file, anchors: anchors.found() })
    }

    /// Where the lines of the functions can be read.
    pub(super) fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}", self.nearest.as_raw_fd()))
    }
}

/// Address of the kernel's first byte of code; none where addresses are hidden.
pub(super) fn text(root: &Path) -> Option<u64> {
    let (mut text, mut looked_at) = (None, 0);
    for_each(root, |line| {
        looked_at += 1;
        text = matches!(line.name, "_text" | TEXT).then_some(line.addr);
        text.is_none() && looked_at < SYMBOLS_BEFORE_TEXT
    })
    .ok()?;
    text.filter(|addr| *addr != 0)
}

/// From the address of a function to that of the next symbol of the list under `root`; none where addresses are hidden.
pub(super) fn extent(root: &Path, function: &str) -> Option<Range<u64>> {
    let (mut start, mut end) = (None, None);
    for_each(root, |line| {
        match start {
            None if line.name == function => start = Some(line.addr),
            None => {}
            Some(_) => end = Some(line.addr),
        }
        end.is_none()
    })
    .ok()?;
    let (start, end) = (start?, end?);
    (start < end).then_some(start..end)
}

/// A line of the list.
struct Line<'a> {
    addr: u64,
    name: &'a str,
    whole: &'a [u8],
}

/// Calls `take` with each line, until it says that this is enough.
fn for_each(root: &Path, mut take: impl FnMut(Line<'_>) -> bool) -> io::Result<()> {
    let mut list = BufReader::with_capacity(READ_BYTES, File::open(root.join("proc/kallsyms"))?);
    // The beginning of a line that is not there as a whole yet.
    let mut begun = Vec::new();
    loop {
        let bytes = list.fill_buf()?;
        if bytes.is_empty() {
            Line::of(&begun).map(&mut take);
            return Ok(());
        }
        let mut at = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let mut whole = &bytes[at..=end];
            if !begun.is_empty() {
                begun.extend_from_slice(whole);
                whole = &begun;
            }
            let goes_on = Line::of(whole).is_none_or(&mut take);
            if !goes_on {
                return Ok(());
            }
            begun.clear();
            at = end + 1;
        }
        begun.extend_from_slice(&bytes[at..]);
        let count = bytes.len();
        list.consume(count);
    }
}

impl<'a> Line<'a> {
    /// `ffffffff81000000 T _stext`, and for a function of a module a tab and `[name]`.
    fn of(whole: &'a [u8]) -> Option<Self> {
        let (addr, rest) = hexadecimal(whole);
        let [b' ', _kind, b' ', rest @ ..] = rest else { return None };
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let name = std::str::from_utf8(&rest[..end]).ok().filter(|name| !name.is_empty())?;
        Some(Self { addr, name, whole })
    }
}

/// The number that a text begins with, and what stands behind it. There are 100,000 and more to read: faster than the general way.
fn hexadecimal(text: &[u8]) -> (u64, &[u8]) {
    let mut number = 0_u64;
    for (at, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return (number, &text[at..]),
        };
        number = number << 4 | u64::from(digit);
    }
    (number, &[])
}

/// For each of some addresses the last symbols at or before it, with all their names. The list is sorted but for modules and for
/// code that was made at run time.
struct Nearest {
    /// Sorted, each once.
    addrs: Vec<u64>,
    /// For each address the greatest of those that lie behind the address before it, and its lines.
    behind: Vec<(u64, Vec<u8>)>,
    /// Where the line of before lies among the addresses.
    gap: usize,
    text: Vec<u8>,
}

impl Nearest {
    fn of(addrs: &[u64]) -> Self {
        let mut addrs = addrs.to_vec();
        addrs.sort_unstable();
        addrs.dedup();
        Self { behind: vec![(0, Vec::new()); addrs.len()], addrs, gap: 0, text: Vec::new() }
    }

    fn meet(&mut self, line: &Line<'_>) {
        if line.name == TEXT {
            self.text.extend_from_slice(line.whole);
        }
        // The list is nearly sorted, and few lines lie in another gap than the one before.
        let is_behind = self.gap.checked_sub(1).is_none_or(|before| self.addrs[before] < line.addr);
        if !is_behind || self.addrs.get(self.gap).is_some_and(|addr| *addr < line.addr) {
            self.gap = self.addrs.partition_point(|addr| *addr < line.addr);
        }
        let gap = self.gap;
        // Hidden addresses are 0.
        let Some((greatest, lines)) = self.behind.get_mut(gap).filter(|(greatest, _)| line.addr >= *greatest.max(&1))
        else {
            return;
        };
        if line.addr > *greatest {
            *greatest = line.addr;
            lines.clear();
        }
        lines.extend_from_slice(line.whole);
    }

    /// The lines of all of them. Where nothing lies between an address and the one before it, both have the same.
    fn lines(self) -> Vec<u8> {
        let mut all = self.text;
        self.behind.iter().for_each(|(_, lines)| all.extend_from_slice(lines));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIST: &str = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t first\nffffffff81000100 t alias\n\
        ffffffff81000200 t second\nffffffff82000000 t handle_mm_fault\nffffffffc0000300 t late\t[xfs]\nffffffffc0000100 t early\t[xfs]\n";

    fn root(list: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("proc")).expect("it is new");
        fs::write(root.path().join("proc/kallsyms"), list).expect("there is room");
        root
    }

    fn kept(list: &str, addrs: &[u64]) -> Vec<String> {
        let root = root(list);
        let functions = Functions::find(root.path(), addrs).expect("it can be read");
        let lines = fs::read_to_string(functions.path()).expect("it is in memory");
        lines.lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect()
    }

    #[test]
    fn functions_of_addresses_are_kept_with_all_their_names() {
        let addrs = [0xffff_ffff_8100_0180, 0xffff_ffff_8100_01f0, 0xffff_ffff_c000_0200, 0xffff_ffff_c000_0100];
        assert_eq!(kept(LIST, &addrs), ["_stext", "first", "alias", "early"]);
        assert_eq!(kept(LIST, &[0xffff_ffff_c000_0400, 0xffff_ffff_8100_0200]), ["_stext", "second", "late"]);
        assert_eq!(kept(LIST, &[0x1000]), ["_stext"], "nothing lies before it");
        assert_eq!(kept("0000000000000000 T _text\n0000000000000000 t first\n", &[5, 7]), [""; 0], "hidden");
    }

    #[test]
    fn the_code_begins_where_the_list_says() {
        let of = |list: &str| text(root(list).path());
        assert_eq!(of("ffffffff81000000 T _text"), Some(0xffff_ffff_8100_0000));
        assert_eq!(of("ffffffff81000000 T startup_64"), None);
        assert_eq!(of("0000000000000000 T _text\n"), None, "hidden");
    }

    #[test]
    fn anchors_are_looked_for_meanwhile() {
        let root = root(LIST);
        let functions = Functions::find(root.path(), &[]).expect("it can be read");
        assert_eq!(functions.anchors, pagelab_vocab::budget::anchors_in(LIST));
        assert_eq!(functions.anchors.functions, 8);
    }

    #[test]
    fn a_function_ends_where_the_next_symbol_begins() {
        let of = |list: &str, function| extent(root(list).path(), function);
        assert_eq!(of(LIST, "second"), Some(0xffff_ffff_8100_0200..0xffff_ffff_8200_0000));
        assert_eq!(of(LIST, "early"), None, "nothing says where the last one ends");
        assert_eq!(of(LIST, "absent"), None);
        assert_eq!(of("0000000000000000 t __schedule\n0000000000000000 T schedule\n", "__schedule"), None, "hidden");
    }

    #[test]
    fn lines_may_lie_across_two_reads_and_the_last_may_have_no_end() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("proc")).expect("ours");
        let names: Vec<String> = (0..5000).map(|number| format!("function_{number}")).collect();
        let line = |(at, name): (usize, &String)| format!("{:016x} t {name}", 0xffff_0000 + 16 * at);
        let list: Vec<String> = names.iter().enumerate().map(line).collect();
        fs::write(root.path().join("proc/kallsyms"), list.join("\n")).expect("there is room");
        let mut found = Vec::new();
        for_each(root.path(), |line| {
            assert_eq!(line.addr, 0xffff_0000 + 16 * found.len() as u64);
            found.push(line.name.to_owned());
            true
        })
        .expect("it is read");
        assert!(found == names, "{} of {}", found.len(), names.len());
    }
}
