//! Programs that gcc makes, changed in the ways of distributions and of damage, and the names that are found in them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use super::*;

const SOURCE: &str = "#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(volatile int *at) { return *at * 3; }
__attribute__((noinline)) int outer(volatile int *at) { return inner(at) + inner(at + 1); }
static __attribute__((noipa)) int hidden(volatile int *at) { return *at + abs(*at); }
volatile int numbers[2];
int main(int count, char **words) { return outer(numbers) + hidden(numbers) + atoi(words[count - 1]); }
";

/// A root folder with a program in it.
struct Made {
    root: tempfile::TempDir,
    /// Addresses by name, as nm has them, of the program before anything was taken from it.
    addrs: HashMap<String, u64>,
}

impl Made {
    /// Compiles `/opt/program` below a new root.
    fn with(flags: &[&str]) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("opt")).expect("ours");
        std::fs::write(root.path().join("opt/program.c"), SOURCE).expect("ours");
        let made = Self { root, addrs: HashMap::new() };
        made.tool("gcc", &[&["-O2", "-fcf-protection=none", "-o", "program", "program.c"], flags].concat());
        Self { addrs: made.symbols(), ..made }
    }

    /// Addresses by name, as nm has them.
    fn symbols(&self) -> HashMap<String, u64> {
        let list = self.tool("nm", &["program"]);
        let symbol = |line: &str| {
            let (addr, rest) = line.split_once(' ')?;
            Some((rest.split_once(' ')?.1.to_owned(), u64::from_str_radix(addr, 16).ok()?))
        };
        list.lines().filter_map(symbol).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("opt").join(name)
    }

    fn tool(&self, program: &str, words: &[&str]) -> String {
        let done = Command::new(program).args(words).current_dir(self.path("")).output().expect("it starts");
        assert!(done.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Overwrites a section of the program in the file.
    fn damage(&self, section: &str) {
        let mut bytes = std::fs::read(self.path("program")).expect("it is there");
        let range =
            object::File::parse(&*bytes).expect("ELF").section_by_name(section).expect("it has it").file_range();
        let (at, size) = range.map(|(at, size)| (at as usize, size as usize)).expect("in the file");
        for (number, byte) in bytes[at..at + size].iter_mut().enumerate() {
            *byte = (number * 7 + 13) as u8;
        }
        std::fs::write(self.path("program"), bytes).expect("ours");
    }

    /// The last answer of the program's functions, and how many there were.
    fn ask(&self, names: &[&str]) -> (Vec<Vec<String>>, Vec<String>) {
        let addrs: Vec<Option<u64>> = names.iter().map(|name| self.addrs.get(*name).map(|addr| addr + 1)).collect();
        self.ask_addrs(&addrs)
    }

    fn ask_addrs(&self, addrs: &[Option<u64>]) -> (Vec<Vec<String>>, Vec<String>) {
        let file = File::open(self.path("program")).expect("it is there");
        let (own, host) = (Root::at(self.root.path()), Root::at(Path::new("/")));
        let (own, host) = (own.as_ref(), host.as_ref());
        let request = Request { file: &file, is_trusted: false, path: b"/opt/program", own, host, addrs };
        let mut last = Answer::default();
        look_up(&request, &mut |answer| last = answer.clone());
        let of_address = |functions: &Vec<Function>| functions.iter().map(|function| function.name.clone()).collect();
        (last.functions.iter().map(of_address).collect(), last.lacks)
    }

    fn strip_with_debug_file(&self) {
        self.tool("objcopy", &["--only-keep-debug", "program", "program.debug"]);
        self.tool("strip", &["-s", "program"]);
    }

    fn move_debug_file(&self, to: &str) {
        let to = self.root.path().join(to);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("ours");
        std::fs::rename(self.path("program.debug"), to).expect("ours");
    }
}

fn all(names: &[&[&str]]) -> Vec<Vec<String>> {
    names.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
}

#[test]
fn a_part_that_cannot_be_read_loses_itself_alone() {
    for section in [".debug_info", ".debug_abbrev", ".debug_str", ".debug_line", ".dynsym", ".gnu.hash"] {
        for packed in [None, Some("--compress-debug-sections=zstd"), Some("--compress-debug-sections=zlib")] {
            let made = Made::with(&["-g"]);
            if let Some(how) = packed {
                made.tool("objcopy", &[how, "program"]);
                assert_eq!(made.ask(&["outer"]).0, all(&[&["inner", "outer"]]), "{how}");
            }
            made.damage(section);
            let (names, _) = made.ask(&["outer", "hidden"]);
            let last: Vec<Option<&str>> = names.iter().map(|names| names.last().map(String::as_str)).collect();
            assert_eq!(last, [Some("outer"), Some("hidden")], "{section} {packed:?}");
        }
    }
    // The other way round.
    let made = Made::with(&["-g"]);
    made.damage(".symtab");
    made.damage(".strtab");
    assert_eq!(made.ask(&["outer", "hidden"]).0, all(&[&["inner", "outer"], &["hidden"]]));
}

/// Units that hold no address asked for are passed over, and those that others refer to are not: alone each has the names that it has with
/// all.
#[test]
fn a_function_has_its_names_whichever_others_are_asked_for() {
    const SECOND: &str =
        "static inline __attribute__((always_inline)) int second_inner(volatile int *at) { return *at * 5; }
        __attribute__((noinline)) int second(volatile int *at) { return second_inner(at) + second_inner(at + 1); }
        int (*kept)(volatile int *) = second;";
    let mut made = Made::with(&["-g"]);
    std::fs::write(made.path("second.c"), SECOND).expect("ours");
    for how in
        [&["-gz"][..], &["-gz=zlib", "-gdwarf-5"], &["-gz", "-gdwarf-4"], &["-gz=none"], &["-gz", "-flto", "-rdynamic"]]
    {
        made.tool("gcc", &[&["-O2", "-g", "-o", "program", "program.c", "second.c"], how].concat());
        made.addrs = made.symbols();
        let wanted = all(&[&["inner", "outer"], &["second_inner", "second"]]);
        assert_eq!(made.ask(&["outer", "second"]).0, wanted, "{how:?}");
        for (name, wanted) in ["outer", "second"].into_iter().zip(wanted) {
            assert_eq!(made.ask(&[name]).0, [wanted], "{how:?}");
        }
    }
}

#[test]
fn a_function_has_the_name_that_its_symbol_has_without_what_compilers_add() {
    let made = Made::with(&["-g"]);
    let addr = made.addrs["outer"];
    made.tool("objcopy", &["--redefine-sym", "outer=outer.constprop.0", "--redefine-sym", "hidden=other", "program"]);
    assert_eq!(made.ask(&["hidden"]).0, all(&[&["other"]]));
    assert_eq!(made.ask_addrs(&[Some(addr)]).0, all(&[&["inner", "outer"]]));
}

#[test]
fn a_stripped_program_says_so_and_its_small_symbol_table_names_it() {
    let made = Made::with(&["-g"]);
    made.strip_with_debug_file();
    let (names, lacks) = made.ask(&["hidden"]);
    assert_eq!(names, all(&[&[]]));
    let said = lacks.join("; ");
    assert!(
        said.contains("stripped: it has no symbols") && said.contains("no debug file found for build id "),
        "{said}"
    );
    made.tool("strip", &["-g", "program.debug"]);
    made.tool("xz", &["-kf", "program.debug"]);
    made.tool("objcopy", &["--add-section", ".gnu_debugdata=program.debug.xz", "program"]);
    assert_eq!(made.ask(&["hidden", "outer"]), (all(&[&["hidden"], &["outer"]]), Vec::new()));
    made.damage(".gnu_debugdata");
    let (names, lacks) = made.ask(&["hidden"]);
    assert!(names[0].is_empty() && lacks.join("; ").contains(".gnu_debugdata cannot be decompressed"), "{lacks:?}");
}

#[test]
fn a_debug_file_is_found_where_gdb_finds_it_and_believed_by_its_build_id_or_sum() {
    let with_id = ["-g", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"];
    let named = all(&[&["inner", "outer"], &["hidden"]]);
    let by_id = "usr/lib/debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug";
    for (flags, link, place) in [
        (&with_id[..], false, by_id),
        (&with_id[..], true, "opt/.debug/program.debug"),
        (&["-g", "-Wl,--build-id=none"][..], true, "opt/.debug/program.debug"),
        (&["-g", "-Wl,--build-id=none"][..], true, "opt/program.debug"),
        (&["-g", "-Wl,--build-id=none"][..], true, "usr/lib/debug/opt/program.debug"),
    ] {
        let made = Made::with(flags);
        made.strip_with_debug_file();
        if link {
            made.tool("objcopy", &["--add-gnu-debuglink=program.debug", "program"]);
        }
        made.move_debug_file(place);
        assert_eq!(made.ask(&["outer", "hidden"]), (named.clone(), Vec::new()), "{place}");
        // Another program's.
        let other = Made::with(&["-g", "-O1", "-Wl,--build-id=none"]);
        std::fs::copy(other.path("program"), made.root.path().join(place)).expect("ours");
        let (names, lacks) = made.ask(&["hidden"]);
        assert!(names[0].is_empty() && !lacks.is_empty(), "{place}: {names:?}");
    }
}

#[test]
fn links_lead_to_nothing_outside_of_the_root_and_to_regular_files_alone() {
    let made = Made::with(&["-g", "-Wl,--build-id=none"]);
    made.strip_with_debug_file();
    made.tool("objcopy", &["--add-gnu-debuglink=program.debug", "program"]);
    let outside = tempfile::tempdir().expect("a folder");
    let debug = outside.path().join("program.debug");
    std::fs::copy(made.path("program.debug"), &debug).expect("ours");
    std::fs::remove_file(made.path("program.debug")).expect("ours");
    std::os::unix::fs::symlink(&debug, made.path("program.debug")).expect("ours");
    std::fs::create_dir(made.path(".debug")).expect("ours");
    let fifo = made.path(".debug/program.debug");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("a fifo");
    let (names, lacks) = made.ask(&["hidden"]);
    assert!(names[0].is_empty() && lacks.join("; ").contains("no debug file found by its link"), "{names:?} {lacks:?}");
}

#[test]
fn entries_of_linkage_tables_have_the_names_that_objdump_gives_them() {
    let forms: &[&[&str]] = &[
        &["-Wl,-z,lazy"],
        &["-Wl,-z,now"],
        &["-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"],
        &["-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,now"],
        &["-no-pie"],
        &["-s"],
    ];
    for flags in forms {
        let made = Made::with(flags);
        let listed = made.tool("objdump", &["-d", "program"]);
        let entry = |line: &str| {
            let (addr, name) = line.split_once(" <")?;
            Some((u64::from_str_radix(addr, 16).ok()?, name.strip_suffix(">:")?.to_owned()))
        };
        let entries: Vec<(u64, String)> =
            listed.lines().filter_map(entry).filter(|(_, name)| name.ends_with("@plt")).collect();
        assert!(!entries.is_empty(), "{flags:?}");
        let addrs: Vec<Option<u64>> = entries.iter().map(|(addr, _)| Some(*addr)).collect();
        let (names, _) = made.ask_addrs(&addrs);
        for ((addr, wanted), found) in entries.iter().zip(names) {
            assert_eq!(found, [wanted.as_str()], "{flags:?} {addr:#x}");
        }
    }
}

#[test]
fn entries_of_a_static_program_have_what_computes_their_address() {
    for flags in [&["-static"][..], &["-static", "-fcf-protection=full"], &["-static-pie"]] {
        let made = Made::with(flags);
        let relocations = made.tool("readelf", &["-rW", "program"]);
        let addend = |line: &str| line.contains("IRELATIV").then(|| line.split_whitespace().last().map(str::to_owned));
        let mut wanted: Vec<String> =
            relocations.lines().filter_map(addend).flatten().map(|addr| format!("*ABS*+0x{addr}@plt")).collect();
        let bytes = std::fs::read(made.path("program")).expect("it is there");
        let file = object::File::parse(&*bytes).expect("ELF");
        let section = file.section_by_name(".plt").expect("glibc has such functions");
        let addrs: Vec<Option<u64>> = (section.address()..section.address() + section.size()).map(Some).collect();
        let mut found: Vec<String> = made.ask_addrs(&addrs).0.into_iter().flatten().collect();
        assert_eq!(found.len(), addrs.len());
        // The first entry of some tables calls the linker.
        found.retain(|name| name != ".plt");
        found.dedup();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{flags:?}");
    }
}

#[test]
fn nothing_that_a_file_claims_ends_the_search() {
    let made = Made::with(&["-g", "-Wl,--build-id=sha1"]);
    made.tool("objcopy", &["--compress-debug-sections=zlib", "program"]);
    let whole = std::fs::read(made.path("program")).expect("it is there");
    let addrs: Vec<Option<u64>> = made.addrs.values().copied().map(Some).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    let sections = u64::from_le_bytes(whole[0x28..0x30].try_into().expect("8 bytes")) as usize;
    for round in 0..600 {
        let mut bytes = whole.clone();
        for _ in 0..=next() % 6 {
            // Headers of sections, and anything.
            let at = if round % 2 == 0 { sections + next() % (bytes.len() - sections) } else { next() % bytes.len() };
            bytes[at] = [0, 1, 0x7f, 0xff, next() as u8][next() % 5];
        }
        std::fs::write(made.path("program"), &bytes).expect("ours");
        let (names, _) = made.ask_addrs(&addrs);
        assert_eq!(names.len(), addrs.len());
    }
}
