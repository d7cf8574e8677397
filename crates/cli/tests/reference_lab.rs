//! Holds recordings of everything, made in lab VMs, to the sections of `docs/reference-machine.toml` for their kernels: the programs
//! of bpf/ are verified by other kernels than the one they are written on, and what one of them refuses, or quietly leaves empty,
//! is found here.
//!
//! The short form boots Linux 6.1, the older one; the long form 6.12 as well.

use crate::common;
#[path = "../../session/tests/reference/mod.rs"]
mod reference;

use std::fs;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use common::{binary, scratch};
use pagelab_lab::{Command, Exit, Kernel, Lab, Limits, Options, Program as GuestProgram, Vm};
use pagelab_recording::Recording;
use pagelab_vocab::budget::anchors_in;

/// Work for every stream: a file written through to a disk and read back, memory with advice, a file on direct access that is mapped
/// by large and by small entries, a thread that wakes another, three seconds of sums: the second look at
/// the memory rests 200 times as long as the first one took.
const WORK: &str = r"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#define MIB (1UL << 20)
static sem_t wanted, made;
static volatile unsigned long sum;
static char bytes[MIB];
static void *helper(void *none)
{
    for (int i = 0; i < 50; i++) { sem_wait(&wanted); sem_post(&made); }
    return none;
}
__attribute__((noinline)) static void sums(void) { for (int i = 0; i < 100000; i++) sum += i; }
int main(int c, char **v)
{
    pthread_t thread;
    struct timespec begin, now;
    memset(bytes, 7, sizeof(bytes));
    int disk = open(v[1], O_RDWR | O_CREAT, 0600), dax = open(v[2], O_RDWR | O_CREAT, 0600);
    if (write(disk, bytes, MIB) != MIB || fsync(disk) || posix_fallocate(dax, 0, 4 * MIB)) return 1;
    posix_fadvise(disk, 0, 0, POSIX_FADV_DONTNEED);
    if (pread(disk, bytes, MIB, 0) != MIB) return 1;
    char *memory = mmap(0, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, 8 * MIB, MADV_HUGEPAGE);
    char *cached = mmap(0, MIB, PROT_READ, MAP_SHARED, disk, 0);
    char *shared = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, dax, 0);
    char *own = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, dax, 0);
    for (size_t at = 0; at < MIB; at += 4096) sum += cached[at];
    for (size_t at = 0; at < 2 * MIB; at += 4096) memory[at] = shared[at] = 1;
    /* In another slot: one that has small entries keeps them. */
    for (size_t at = 2 * MIB; at < 4 * MIB; at += 4096) own[at] = 1;
    sem_init(&wanted, 0, 0);
    sem_init(&made, 0, 0);
    pthread_create(&thread, 0, helper, 0);
    for (int i = 0; i < 50; i++) { sem_post(&wanted); sem_wait(&made); }
    pthread_join(thread, 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        sums();
        if (pread(disk, bytes, 4096, 0) != 4096) return 1;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 3000000000L);
    return 0;
}
";

/// pmem takes no requests, which the stream `block` is of: a disk of memory does.
const RECORD: &str = "set -e
mkdir -p /dax /disk
mkfs.ext4 -q -F -b 4096 -E stride=512 /dev/pmem0
mount -o dax /dev/pmem0 /dax
truncate -s 64M /tmp/disk
modprobe loop
losetup /dev/loop0 /tmp/disk
mkfs.ext4 -q -F /dev/loop0
mount /dev/loop0 /disk
pagelab record --observe all --best-effort -o /share/all.rec -- /share/work /disk/file /dax/file
cat /proc/kallsyms > /share/kallsyms
";

const NAME: &str = "reference-lab";

/// The lab, taken down when the test ends, however it does.
struct Down;

impl Drop for Down {
    fn drop(&mut self) {
        let _ = Lab::down(NAME);
    }
}

/// Records in a lab of this kernel; the guest's release.
fn record(kernel: Kernel, share: &Path) -> String {
    let options = Options {
        name: NAME.to_owned(),
        vm: Vm { kernel, ..Vm::default() },
        share: Some(share.to_owned()),
        programs: vec![GuestProgram::stripped(binary())],
        supervisor: Some(binary()),
        ..Options::default()
    };
    let _down = Down;
    let lab = Lab::up(&options, &mut |event| eprintln!("{event}")).expect("up");
    let limits = Limits { time: Some(Duration::from_mins(2)), ..Limits::default() };
    let result = lab.run(&Command::shell(RECORD), &limits, &mut |_, _| {}).expect("run");
    assert_eq!(result.exit, Exit::Status(0), "{}", String::from_utf8_lossy(&result.stderr.bytes));
    lab.state.release.clone()
}

#[test]
#[ignore = "boots VMs"]
fn vm_everything_that_the_labs_kernels_give_is_recorded() {
    let kernels = match std::env::var_os("PAGELAB_TEST_FULL") {
        Some(_) => Kernel::ALL.to_vec(),
        None => vec![Kernel::V6_1],
    };
    let dir = scratch();
    let source = dir.path().join("work.c");
    fs::write(&source, WORK).expect("written");
    for kernel in kernels {
        let share = dir.path().join(kernel.name());
        fs::create_dir(&share).expect("a folder");
        let mut gcc = Program::new("gcc");
        gcc.args(["-O1", "-g", "-static", "-pthread", "-o"]).arg(share.join("work")).arg(&source);
        assert!(gcc.status().expect("gcc").success());
        let release = record(kernel, &share);
        let machine = reference::machine(&release);
        assert!(machine.name.starts_with("lab: "), "no section of docs/reference-machine.toml is for {release}");
        let recording = Recording::open(&share.join("all.rec")).expect("a recording");
        let missed = machine.misses(&recording);
        assert!(missed.is_empty(), "{}, {} streams: {missed:#?}", machine.name, machine.streams());
        let found = anchors_in(&fs::read_to_string(share.join("kallsyms")).expect("the guest's functions"));
        assert!(found.functions > 10_000 && found.missing.is_empty(), "{release}: {found:#?}");
    }
}
