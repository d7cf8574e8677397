//! The profile on the real kernel: samples, stacks and symbols of programs whose stacks are known. Needs root, and gcc.

use crate::profiled;

use std::collections::BTreeMap;

use pagelab_observe::cpu::{ProfileOptions, SampleCounts, Unwinding};
use pagelab_observe::stacks::End;
use pagelab_vocab::samples::ReturnedFrom;
use profiled::{Run, compile, is_root, profile, profile_with_faults};

/// A program that calls `f39`, which calls `f38`, and so on to `f0`, which calls `leaf`, where all its time goes: 40
/// functions, and in `leaf` two that are inlined into it.
fn chain_source() -> String {
    use std::fmt::Write as _;
    let mut source = String::from(
        "#include <stdlib.h>\n\
         static volatile unsigned long sink;\n\
         static inline __attribute__((always_inline)) void inner(unsigned long n)\n\
         { for (unsigned long i = 0; i < n; i++) sink += i * i; }\n\
         static inline __attribute__((always_inline)) void outer(unsigned long n) { inner(n); inner(n / 2); }\n\
         __attribute__((noinline)) void tick(void) { __asm__ volatile(\"\" ::: \"memory\"); }\n\
         __attribute__((noinline)) void leaf(unsigned long n) { outer(n); tick(); __asm__ volatile(\"\" ::: \"memory\"); }\n",
    );
    for n in 0..40 {
        let next = if n == 0 { "leaf".to_owned() } else { format!("f{}", n - 1) };
        let _ = writeln!(
            source,
            "__attribute__((noinline)) void f{n}(unsigned long k) {{ {next}(k); __asm__ volatile(\"\" ::: \"memory\"); }}"
        );
    }
    source.push_str("int main(int c, char **v) { FOR_MS(atol(v[1])) f39(300000); return c > 9; }\n");
    source
}

/// The names of the stack that every sample in `leaf` must have, from the innermost to `main`.
fn chain() -> Vec<String> {
    let functions = (0..40).map(|n| format!("f{n}"));
    ["inner", "outer", "leaf"].into_iter().map(str::to_owned).chain(functions).chain(["main".to_owned()]).collect()
}

/// All samples that met `leaf` must have the chain. Those that met the few instructions between are the rest.
fn assert_chain(run: &Run) {
    let wanted = chain();
    let in_leaf: Vec<_> =
        run.samples.iter().filter(|sample| sample.names().iter().any(|name| name == "leaf")).collect();
    assert!(in_leaf.len() > 50, "{} samples of {} in leaf", in_leaf.len(), run.samples.len());
    let mut wrong: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for sample in &in_leaf {
        let names = sample.names();
        let known = names.iter().position(|name| name == "main").map_or(&names[..], |main| &names[..=main]);
        // A sample in leaf's own first or last instruction is not in what is inlined into it.
        let from_leaf = known.iter().position(|name| name == "leaf").expect("selected");
        if known != wanted && known[from_leaf..] != wanted[2..] {
            *wrong.entry(known.to_vec()).or_default() += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let whole = in_leaf.iter().filter(|sample| sample.names().starts_with(&wanted)).count();
    assert!(whole * 100 >= in_leaf.len() * 95, "{whole} of {} with what is inlined", in_leaf.len());
    let inlined = in_leaf.iter().flat_map(|sample| &sample.user).filter(|frame| frame.inlined);
    let inlined: std::collections::BTreeSet<_> = inlined.filter_map(|frame| frame.symbol.clone()).collect();
    assert_eq!(inlined.into_iter().collect::<Vec<_>>(), ["inner", "outer"]);
}

#[test]
fn a_chain_of_calls_without_frame_pointers_is_found_whole() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "chain", &chain_source(), &["-O2", "-g", "-fomit-frame-pointer"]);
    let run = profile(&format!("{} 400", program.display()), &ProfileOptions::default(), |_| ());
    assert_chain(&run);
    let reached = run.samples.iter().filter(|sample| sample.end == Some(End::Entry)).count();
    let with_stack = run.samples.iter().filter(|sample| !sample.user.is_empty()).count();
    let example = run.samples.iter().find(|sample| sample.end != Some(End::Entry) && sample.user.len() > 30);
    assert!(reached * 100 >= with_stack * 95, "{reached} of {with_stack} reach the entry; not so: {example:?}");
    let outermost = |sample: &&profiled::Sampled| sample.names().last().is_some_and(|name| name == "_start");
    let from_start = run.samples.iter().filter(|sample| sample.names().len() > 3).filter(outermost).count();
    assert!(from_start * 100 >= reached * 95, "{from_start} of {reached} begin in _start");
}

/// Frames of more than a page, as those of big functions: nothing of them can be guessed.
const RUST: &str = r"
use std::hint::black_box;
#[inline(never)]
fn leaf(n: u64) -> u64 { (0..n).fold(0, |sum, i| black_box(sum ^ i.wrapping_mul(31))) }
#[inline(never)]
fn middle(n: u64) -> u64 { let big = black_box([n; 1000]); leaf(2_000_000) + big[7] }
fn main() {
    let start = std::time::Instant::now();
    let mut sum = 0;
    while start.elapsed().as_millis() < 400 { sum ^= middle(sum); }
    std::process::exit((black_box(sum) == 9) as i32);
}
";

/// rustc links with lld, which puts segments of a file right behind each other: code begins within a page.
#[test]
fn a_rust_program_is_followed_to_its_beginning() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (source, program) = (dir.path().join("chain.rs"), dir.path().join("chain"));
    std::fs::write(&source, RUST).expect("the directory is ours");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let built =
        std::process::Command::new(rustc).args(["-O", "-o"]).arg(&program).arg(&source).output().expect("rustc");
    assert!(built.status.success(), "{built:?}");
    let run = profile(&program.display().to_string(), &ProfileOptions::default(), |_| ());
    let in_leaf: Vec<_> =
        run.samples.iter().filter(|sample| sample.names().first().is_some_and(|name| name.contains("leaf"))).collect();
    assert!(in_leaf.len() > 50, "{} of {} samples", in_leaf.len(), run.samples.len());
    let whole = |sample: &&&profiled::Sampled| {
        let names = sample.names();
        let has = |part: &str| names.iter().any(|name| name.contains(part));
        sample.end == Some(End::Entry)
            && has("middle")
            && has("main")
            && names.last().is_some_and(|name| name == "_start")
    };
    let found = in_leaf.iter().filter(whole).count();
    assert!(found * 100 >= in_leaf.len() * 95, "{found} of {}: {:?}", in_leaf.len(), in_leaf[0]);
}

#[test]
fn the_same_chain_is_found_by_frame_pointers() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program =
        compile(dir.path(), "chain", &chain_source(), &["-O2", "-g", "-fno-omit-frame-pointer", "-fno-shrink-wrap"]);
    let options = ProfileOptions { unwinding: Unwinding::FramePointers, ..ProfileOptions::default() };
    let run = profile(&format!("{} 400", program.display()), &options, |_| ());
    assert_chain(&run);
    assert!(
        run.samples.iter().all(|sample| sample.end.is_none()),
        "a chain of frame pointers does not say where it ends"
    );
}

/// Calls itself 3,000 times, which takes far more stack than is copied.
const DEEP: &str = "
#include <stdlib.h>
static volatile unsigned long sink;
__attribute__((noinline)) unsigned long down(unsigned long depth, unsigned long n)
{
    volatile unsigned long local[8] = { depth };
    if (depth)
        return down(depth - 1, n) + local[0];
    for (unsigned long i = 0; i < n; i++)
        sink += i;
    return sink;
}
int main(int c, char **v) { FOR_MS(atol(v[1])) sink += down(3000, 300000); return c > 9; }
";

#[test]
fn a_stack_longer_than_its_copy_is_said_to_be_cut() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "deep", DEEP, &["-O1", "-g", "-fomit-frame-pointer"]);
    let run = profile(&format!("{} 400", program.display()), &ProfileOptions::default(), |_| ());
    let deep: Vec<_> = run.samples.iter().filter(|sample| sample.user.len() > 100).collect();
    assert!(deep.len() > 50, "{} of {} samples are deep", deep.len(), run.samples.len());
    let cut: Vec<_> = deep.iter().filter(|sample| sample.end == Some(End::Cut)).collect();
    // The others met it on its way down or up.
    assert!(cut.len() * 100 >= deep.len() * 80, "{} of {} are cut", cut.len(), deep.len());
    for sample in cut {
        // A copy that ends just above its first call holds the frames of main and of what called it.
        let names = sample.names();
        let calls = names.iter().take_while(|name| *name == "down").count();
        assert!(calls > 100 && names.len() - calls <= 2, "{names:?}");
    }
    let dwarf = ProfileOptions { unwinding: Unwinding::Dwarf, stack_copy_bytes: 4096, ..ProfileOptions::default() };
    let shorter = profile(&format!("{} 400", program.display()), &dwarf, |_| ());
    let longest = |run: &Run| run.samples.iter().map(|sample| sample.user.len()).max().unwrap_or(0);
    assert!(longest(&shorter) * 4 < longest(&run), "{} and {} frames", longest(&shorter), longest(&run));
}

#[test]
fn what_a_small_ring_loses_is_counted() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "deep", DEEP, &["-O1", "-g"]);
    let options = ProfileOptions { ring_bytes_per_cpu: 128 << 10, ..ProfileOptions::default() };
    // Nothing is taken out for long, and each sample carries 32 KiB.
    let slow = |_| std::thread::sleep(std::time::Duration::from_millis(200));
    let run = profile(&format!("{} 400", program.display()), &options, slow);
    let sum = |of: fn(&SampleCounts) -> u64| run.counts.iter().map(of).sum::<u64>();
    assert!(sum(|counts| counts.lost) > 0, "{:?}", run.counts);
    for counts in &run.counts {
        assert_eq!(counts.seen, counts.recorded + counts.lost);
    }
    assert_eq!(sum(|counts| counts.recorded) as usize, run.samples.len());
}

#[test]
fn a_program_that_is_deleted_while_it_runs_has_its_names() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "chain", &chain_source(), &["-O2", "-g"]);
    let command = format!("{} 400", program.display());
    let exists = |pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    let run = profile(&command, &ProfileOptions::default(), |pid| {
        if program.exists() && exists(pid) {
            std::fs::remove_file(&program).expect("it is ours");
        }
    });
    assert!(!program.exists());
    assert_chain(&run);
}

/// Two threads that are busy in functions of their own.
const THREADS: &str = "
#include <pthread.h>
#include <stdlib.h>
static volatile unsigned long sink;
static long ms;
__attribute__((noinline)) void busy(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void *work(void *x) { FOR_MS(ms) busy(300000); return x; }
int main(int c, char **v)
{
    pthread_t threads[2];
    ms = atol(v[1]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return c > 9;
}
";

#[test]
fn stacks_of_threads_reach_the_function_that_threads_begin_in() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "threads", THREADS, &["-O2", "-g", "-fomit-frame-pointer"]);
    // The process that is asked about has a parent that is still there when it has ended.
    let command = format!("sh -c '{} 400; true'", program.display());
    let run = profile(&command, &ProfileOptions::default(), |_| ());
    let busy: Vec<_> =
        run.samples.iter().filter(|sample| sample.names().first().is_some_and(|name| name == "busy")).collect();
    assert!(busy.len() > 50, "{} of {} samples", busy.len(), run.samples.len());
    let tasks: std::collections::BTreeSet<u32> = busy.iter().map(|sample| sample.task_id).collect();
    assert_eq!(tasks.len(), 2, "two threads were busy");
    let begun = |sample: &&&profiled::Sampled| {
        let names = sample.names();
        names.get(1).is_some_and(|name| name == "work") && names.last().is_some_and(|name| name.contains("clone"))
    };
    let whole = busy.iter().filter(begun).count();
    assert!(whole * 100 >= busy.len() * 95, "{whole} of {}: {:?}", busy.len(), busy[0].names());
    assert!(busy.iter().all(|sample| sample.end == Some(End::Entry)));
}

#[test]
fn a_program_that_was_already_running_has_its_names() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "chain", &chain_source(), &["-O2", "-g", "-fomit-frame-pointer"]);
    // Long enough to be there still when the probes are loaded, along with other tests.
    assert_chain(&profiled::profile_running(&program, "4000", &ProfileOptions::default()));
}

#[test]
fn programs_that_live_for_a_moment_are_followed_to_their_beginning() {
    if !is_root() {
        return;
    }
    let run =
        profile("sh -c 'for i in $(seq 150); do ls /usr/bin >/dev/null; done'", &ProfileOptions::default(), |_| ());
    let with_stack: Vec<_> = run.samples.iter().filter(|sample| !sample.user.is_empty()).collect();
    assert!(with_stack.len() > 50, "{} samples", with_stack.len());
    let broken: Vec<_> = with_stack.iter().filter(|sample| sample.end != Some(End::Entry)).collect();
    // Most of them are met in the dynamic linker.
    assert!(
        broken.len() * 100 <= with_stack.len() * 5,
        "{} of {}: {:?}",
        broken.len(),
        with_stack.len(),
        broken[0].names()
    );
}

/// `touch`: a fault for each instruction. `fill`: one instruction that faults at its beginning and then fills 2 MiB. `poll`: one
/// that faulted once and is run again and again with the same registers. `call`: calls.
const WAYS_OUT: &str = "
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MEMORY (2 << 20)
static char *memory, *polled;
__attribute__((noinline)) void touch(void)
{
    for (long at = 0; at < MEMORY; at += 4096)
        ((volatile char *)memory)[at] = 1;
}
__attribute__((noinline)) void fill(void)
{
    void *to = memory;
    unsigned long count = MEMORY;
    __asm__ volatile(\"rep stosb\" : \"+D\"(to), \"+c\"(count) : \"a\"(0) : \"memory\");
}
__attribute__((noinline)) void poll(void)
{
    unsigned long times = 200000;
    __asm__ volatile(\"1: lock incl (%1)\\n\\tdecq %0\\n\\tjnz 1b\" : \"+r\"(times) : \"r\"(polled) : \"memory\");
    madvise(polled, 4096, MADV_DONTNEED);
}
__attribute__((noinline)) void call(void)
{
    for (int i = 0; i < 1000; i++)
        __asm__ volatile(\"syscall\" : : \"a\"(SYS_getppid) : \"rcx\", \"r11\", \"memory\");
}
int main(void)
{
    memory = mmap(0, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    polled = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, MEMORY, MADV_NOHUGEPAGE);
    FOR_MS(400) { touch(); madvise(memory, MEMORY, MADV_DONTNEED); }
    touch();
    FOR_MS(400) { fill(); madvise(memory, 4096, MADV_DONTNEED); }
    FOR_MS(400) poll();
    FOR_MS(400) call();
    return 0;
}
";

/// In a VM 3 to 5 % of the samples of `touch` and 20 % of those of `call` are taken on the way out; the others have few, or none.
#[test]
fn samples_on_the_way_out_of_faults_and_calls_are_known() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path(), "ways", WAYS_OUT, &["-O2", "-g"]);
    let run = profile_with_faults(&program.display().to_string(), &ProfileOptions::default());
    let of = |function: &str, from: Option<ReturnedFrom>| {
        let is_in = |sample: &&profiled::Sampled| sample.names().first().is_some_and(|name| name == function);
        run.samples.iter().filter(is_in).filter(|sample| sample.returned_from == from).count()
    };
    let told = ["touch", "fill", "poll", "call"].map(|function| {
        let all = of(function, None) + of(function, Some(ReturnedFrom::Fault)) + of(function, Some(ReturnedFrom::Call));
        (function, all, of(function, Some(ReturnedFrom::Fault)), of(function, Some(ReturnedFrom::Call)))
    });
    let [
        (_, touch, touch_fault, touch_call),
        (_, fill, fill_fault, _),
        (_, poll, poll_fault, _),
        (_, call, call_fault, call_call),
    ] = told;
    assert!([touch, fill, poll, call].iter().all(|samples| *samples > 100), "{told:?}");
    if run.event == "cycles" {
        // A counter's interrupt is not held back.
        assert!(run.samples.iter().all(|sample| sample.returned_from.is_none()), "{told:?}");
        return;
    }
    assert!(touch_fault * 100 >= touch && touch_call == 0, "{told:?}");
    assert!(fill_fault * 20 <= fill && poll_fault * 20 <= poll, "{told:?}");
    assert!(call_call * 100 >= call && call_fault == 0, "{told:?}");
    assert!(run.samples.iter().all(|sample| sample.returned_from.is_none() || sample.kernel.is_empty()), "{told:?}");
}
