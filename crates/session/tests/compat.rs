//! 32-bit programs: their system calls have numbers, registers and some arguments of their own, and must be recorded
//! under their names all the same; their mappings must be known, so that their faults lie in known mappings. Needs root
//! and gcc.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::{FaultsRow, FilesRow, MappingsRow, SyscallsRow};
use pagelab_session::{SessionOptions, Target};

/// Calls by the interrupt, as programs without the C library do.
const CALLS: &str = r#"
static long sixth;
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
    long ret;
    sixth = f;
    __asm__ volatile("push %%ebp; mov %[f], %%ebp; int $0x80; pop %%ebp"
                     : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [f] "m"(sixth) : "memory");
    return ret;
}
static void touch(char *at, long bytes)
{
    for (long i = 0; i < bytes; i += 4096)
        ((volatile char *)at)[i] = 1;
}
struct vec { void *base; unsigned len; };
void _start(void)
{
    static char bytes[16];
    struct vec vecs[2] = { { bytes, 5 }, { bytes, 7 } };
    unsigned old_args[6] = { 0, 4 << 20, 3, 0x22, -1, 0 };
    unsigned long long position;
    char *new_map, *old_map, *file_map;
    long fd;

    new_map = (char *)call(192, 0, 8 << 20, 3, 0x22, -1, 0);
    call(219, (long)new_map, 8 << 20, 15, 0, 0, 0);
    touch(new_map, 8 << 20);
    old_map = (char *)call(90, (long)old_args, 0, 0, 0, 0, 0);
    call(219, (long)old_map, 4 << 20, 15, 0, 0, 0);
    touch(old_map, 4 << 20);
    call(91, (long)old_map, 4 << 20, 0, 0, 0, 0);
    fd = call(5, (long)"data", 0100102, 0600, 0, 0, 0);
    call(194, fd, 0x40000000, 1, 0, 0, 0);
    file_map = (char *)call(192, 0, 65536, 3, 1, fd, 0x13fff0);
    touch(file_map, 65536);
    call(181, fd, (long)bytes, 4, 8192, 1, 0);
    call(140, fd, 1, 4096, (long)&position, 0, 0);
    call(4, fd, (long)bytes, 8, 0, 0, 0);
    call(146, fd, (long)vecs, 2, 0, 0, 0);
    call(163, (long)new_map, 8 << 20, 4 << 20, 0, 0, 0);
    for (int i = 0; i < 1000; i++)
        call(20, 0, 0, 0, 0, 0, 0);
    call(1, 0, 0, 0, 0, 0, 0);
    for (;;);
}
"#;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn compile(dir: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&code, source).expect("the folder is ours");
    let built = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(&code).output().expect("gcc");
    assert!(built.status.success(), "{built:?}");
    program
}

fn record(dir: &Path, program: &Path) -> Recording {
    let mut options = SessionOptions::new(Target::Command(vec![program.into()]), dir.join("rec"));
    options.streams = StreamSet::parse("default,syscalls").expect("streams");
    options.cwd = Some(dir.to_owned());
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0);
    Recording::open(&outcome.dir).expect("a recording")
}

#[derive(Debug)]
struct Call {
    name: String,
    path: Option<String>,
    offset: Option<u64>,
    kind: Option<String>,
    requested: Option<u64>,
    args: [u64; 6],
    ret: Option<i64>,
}

fn calls(recording: &Recording) -> Vec<Call> {
    let mut files = BTreeMap::new();
    let text = |path: Option<&[u8]>| String::from_utf8_lossy(path.unwrap_or_default()).into_owned();
    recording.for_each::<FilesRow<'_>>(|row| _ = files.insert(row.file_id, text(row.path))).expect("files");
    let mut calls = Vec::new();
    recording
        .for_each::<SyscallsRow<'_>>(|row| {
            calls.push(Call {
                name: row.name.to_owned(),
                path: row.file_id.and_then(|id| files.get(&id).cloned()),
                offset: row.offset,
                kind: row.offset_kind.map(str::to_owned),
                requested: row.requested,
                args: row.args,
                ret: row.ret,
            });
        })
        .expect("calls");
    calls
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names.filter(|name| !name.starts_with("exec") && !name.starts_with("exit")) {
        // strace calls both by one name.
        let name = if name == "old_mmap" { "mmap" } else { name };
        *counts.entry(name.to_owned()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn calls_and_mappings_of_a_32_bit_program_are_known() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let flags =
        ["-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pie", "-no-pie", "-fomit-frame-pointer", "-O1"];
    let program = compile(dir.path(), CALLS, &flags);
    let recording = record(dir.path(), &program);
    let calls = calls(&recording);

    let traced = Command::new("strace").arg("-f").arg(&program).current_dir(dir.path()).output().expect("strace");
    let traced = String::from_utf8_lossy(&traced.stderr).into_owned();
    let theirs = counted(traced.lines().filter_map(|line| line.split_once('(').map(|(name, _)| name)));
    assert_eq!(counted(calls.iter().map(|call| call.name.as_str())), theirs);
    assert_eq!(theirs.get("getpid"), Some(&1000));

    let call =
        |name: &str| calls.iter().find(|call| call.name == name).unwrap_or_else(|| panic!("{name} in {calls:?}"));
    let on_data = |call: &Call| call.path.as_deref().is_some_and(|path| path.ends_with("/data"));
    for name in ["open", "pwrite64", "write", "writev", "_llseek", "ftruncate64"] {
        assert!(on_data(call(name)), "{:?}", call(name));
    }
    let place = |name: &str| (call(name).offset, call(name).kind.clone(), call(name).requested);
    let far = 1 << 32;
    assert_eq!(place("pwrite64"), (Some(far + 8192), Some("explicit".to_owned()), Some(4)));
    assert_eq!(place("write"), (Some(far + 4096), Some("implied".to_owned()), Some(8)));
    assert_eq!(place("writev"), (Some(far + 4104), Some("implied".to_owned()), Some(12)));
    assert_eq!(call("ftruncate64").args[1], far + 0x4000_0000);
    assert_eq!((call("mmap2").args[1], call("write").ret), (8 << 20, Some(8)));

    let mut maps = Vec::new();
    recording
        .for_each::<MappingsRow<'_>>(|row| {
            if row.kind == "call" {
                let path = String::from_utf8_lossy(row.path.unwrap_or_default()).into_owned();
                maps.push((row.op.to_owned(), row.len, row.offset, path, row.ret));
            }
        })
        .expect("mappings");
    let ops: Vec<(&str, Option<u64>)> = maps.iter().map(|(op, len, ..)| (op.as_str(), *len)).collect();
    let wanted = [
        ("mmap", 8 << 20),
        ("madvise", 8 << 20),
        ("mmap", 4 << 20),
        ("madvise", 4 << 20),
        ("munmap", 4 << 20),
        ("mmap", 65536),
        ("mremap", 4 << 20),
    ];
    assert_eq!(ops, wanted.map(|(op, len)| (op, Some(len))));
    assert!(maps[5].2 == Some(0x13_fff0 << 12) && maps[5].3.ends_with("/data"), "{:?}", maps[5]);

    let (mut known, mut unknown) = (0, 0);
    let count = |row: FaultsRow| if row.mapping_id.is_some() { known += 1 } else { unknown += 1 };
    recording.for_each::<FaultsRow>(count).expect("faults");
    assert!(known >= 3072 && unknown * 100 <= known, "{known} faults on known mappings, {unknown} on none");
}

/// A 64-bit program that calls by the interrupt: number 20 is getpid there, and writev else.
#[test]
fn a_64_bit_program_that_calls_as_a_32_bit_one_is_told_apart() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let source = "#include <unistd.h>\n#include <sys/syscall.h>\nint main(void) { for (int i = 0; i < 100; i++) { long ret; \
                  __asm__ volatile(\"int $0x80\" : \"=a\"(ret) : \"a\"(20L) : \"memory\", \"r8\", \"r9\", \"r10\", \"r11\"); \
                  if (ret != syscall(SYS_getppid) && ret != getpid()) return 1; } return 0; }";
    let program = compile(dir.path(), source, &["-O1"]);
    let recording = record(dir.path(), &program);
    let counts = counted(calls(&recording).iter().map(|call| call.name.as_str()));
    assert_eq!((counts.get("getpid"), counts.get("getppid"), counts.get("writev")), (Some(&200), Some(&100), None));
}
