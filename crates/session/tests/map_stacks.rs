//! Where memory is mapped: calls that map 2 MiB or more, and advice about huge pages, have the chain of functions that they
//! were made from; smaller ones have none. Needs root, and gcc.

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{compile, stacks};
use pagelab_observe::streams::StreamSet;
use pagelab_recording::tables::MappingsRow;
use pagelab_recording::{Manifest, Recording};
use pagelab_session::{SessionOptions, Target};

/// Each call is made by a function of its own, `ROUNDS` times over; the system calls are made in place, so that the chain does
/// not depend on how the C library was built.
const PROGRAM: &str = r#"
#include <linux/mman.h>
#include <sys/syscall.h>
#define MIB (1L << 20)
#define PLAIN (MAP_PRIVATE | MAP_ANONYMOUS)
static inline __attribute__((always_inline)) long call(long nr, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    long ret;
    __asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#define IN(name, last) __attribute__((noinline)) long name(long at) { long got = last; __asm__ volatile("" : "+r"(got) :: "memory"); return got; }
IN(map_large, call(SYS_mmap, 0, 4 * MIB, 3, PLAIN, -1))
IN(map_just_enough, call(SYS_mmap, 0, 2 * MIB, 3, PLAIN, -1))
IN(map_small, call(SYS_mmap, 0, 2 * MIB - 4096, 3, PLAIN, -1))
IN(map_refused, call(SYS_mmap, 0, 4 * MIB, 3, 0, -1))
IN(grow, call(SYS_mremap, at, 4 * MIB, 8 * MIB, MREMAP_MAYMOVE, 0))
IN(advise, call(SYS_madvise, at, 8 * MIB, MADV_HUGEPAGE, 0, 0))
IN(advise_else, call(SYS_madvise, at, 8 * MIB, MADV_DONTNEED, 0, 0))
IN(unmap, call(SYS_munmap, at, 8 * MIB, 0, 0, 0))
__attribute__((noinline)) long outer(void)
{
    long at = grow(map_large(0));
    long sum = advise(at) + advise_else(at) + unmap(at) + map_refused(0);
    return sum + map_just_enough(0) + map_small(0);
}
int main(void)
{
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        sum += outer();
    return sum == 1;
}
"#;
const ROUNDS: usize = 50;

/// The program's calls by caller, with the functions of their stacks (`main` and its callees), and the manifest.
fn recorded(dir: &Path, streams: &str) -> (BTreeMap<String, Vec<Vec<String>>>, Manifest) {
    let program = compile(dir, PROGRAM, &["-fomit-frame-pointer", &format!("-DROUNDS={ROUNDS}")]);
    let mut options = SessionOptions::new(Target::Command(vec![program.into()]), dir.join("rec"));
    options.streams = StreamSet::parse(streams).expect("streams");
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let stacks = stacks(&recording);
    let mut found = BTreeMap::<String, Vec<Vec<String>>>::new();
    recording
        .for_each::<MappingsRow>(|row| {
            let functions =
                row.ustack_id.map(|id| stacks.get(&id).cloned().expect("the stack's row")).unwrap_or_default();
            let failed = if row.ret.is_some_and(|ret| (-4095..0).contains(&ret)) { " refused" } else { "" };
            let of = format!("{} {} {:?}{failed}", row.op, row.len.unwrap_or(0), row.advice);
            let below_main = functions.iter().position(|name| name == "main").map_or(0, |at| at + 1);
            found.entry(of).or_default().push(functions[..below_main].to_vec());
        })
        .expect("mappings");
    (found, outcome.manifest)
}

#[test]
fn mapping_calls_have_the_chain_of_calls_that_led_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let (found, manifest) = recorded(dir.path(), "tasks,maps");
    for (call, function) in [
        ("mmap 4194304 None", "map_large"),
        ("mmap 2097152 None", "map_just_enough"),
        ("mremap 8388608 None", "grow"),
        ("madvise 8388608 Some(14)", "advise"),
    ] {
        let stacks = found.get(call).unwrap_or_else(|| panic!("no {call}: {found:?}"));
        let whole = stacks.iter().filter(|stack| **stack == [function, "outer", "main"]).count();
        assert_eq!((whole, stacks.len()), (ROUNDS, ROUNDS), "{call}: {stacks:?}");
    }
    for call in ["mmap 2093056 None", "mmap 4194304 None refused", "madvise 8388608 Some(4)", "munmap 8388608 None"] {
        let stacks = found.get(call).unwrap_or_else(|| panic!("no {call}: {found:?}"));
        assert!(stacks.len() == ROUNDS && stacks.iter().all(Vec::is_empty), "{call}: {stacks:?}");
    }
    let told = &manifest.extra["maps"]["maps"];
    let number = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("{name}: {told}"));
    assert!(number("stacks") >= 4 * ROUNDS as u64 && number("lost") == 0, "{told}");
}

#[test]
fn stacks_come_with_those_of_samples_and_of_sleeping_tasks() {
    let dir = tempfile::tempdir().expect("a directory");
    let (found, _) = recorded(dir.path(), "tasks,maps,cpu,sched,syscalls");
    let stacks = &found["mmap 4194304 None"];
    assert!(stacks.iter().all(|stack| *stack == ["map_large", "outer", "main"]), "{stacks:?}");
}

#[test]
fn stacks_can_be_left_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let (found, _) = recorded(dir.path(), "tasks,maps:nostacks");
    assert!(found["mmap 4194304 None"].iter().all(Vec::is_empty), "{found:?}");
}
