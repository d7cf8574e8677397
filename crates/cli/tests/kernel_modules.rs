//! The modules in `kernel/`, built and loaded in a lab: the block device in memory gives back what was written, takes as long
//! and fails as often as it is told; ext4 reads DAX files without an iterator as it does with one.
//!
//! The short form boots 6.1 once; the first time on a host it builds both modules before, about a minute. The long form takes
//! both kernels.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use common::{binary, scratch};
use pagelab_lab::{Command, Exit, Kernel, Lab, Limits, Options, Pmem, PmemKind, Program as GuestProgram, Vm};

const NAME: &str = "kernel-modules";

/// The lab, taken down when the test ends, however it does.
struct Guest(Lab);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = Lab::down(NAME);
    }
}

impl Guest {
    fn up(kernel: Kernel, share: &Path) -> Self {
        let options = Options {
            name: NAME.to_owned(),
            vm: Vm {
                kernel,
                pmem: Some(Pmem { bytes: 256 << 20, kind: PmemKind::Memmap }),
                modules: ["ramblk", "ext4-dax-read"].map(str::to_owned).to_vec(),
                ..Vm::default()
            },
            share: Some(share.to_owned()),
            programs: vec![GuestProgram::stripped(binary())],
            supervisor: Some(binary()),
            ..Options::default()
        };
        Guest(Lab::up(&options, &mut |event| eprintln!("{event}")).expect("up"))
    }

    /// How a shell line ends, and all that it says.
    fn ends(&self, line: &str) -> (i32, String) {
        let limits = Limits { time: Some(Duration::from_mins(2)), ..Limits::default() };
        let result = self.0.run(&Command::shell(line), &limits, &mut |_, _| {}).expect(line);
        let [out, err] =
            [&result.stdout, &result.stderr].map(|output| String::from_utf8_lossy(&output.bytes).into_owned());
        let said = format!("{out}{err}");
        match result.exit {
            Exit::Status(status) => (status, said),
            // The kernel kills who made it stumble.
            Exit::Signal(signal) => {
                panic!("{line}: signal {signal}: {said}{}; dmesg: {}", result.console, self.shell("dmesg | tail -60"))
            }
        }
    }

    /// What a shell line says that has to succeed.
    fn shell(&self, line: &str) -> String {
        let (status, said) = self.ends(line);
        assert_eq!(status, 0, "{line}: {said}");
        said
    }

    /// One of the device's statistics.
    fn stat(&self, name: &str) -> u64 {
        self.shell(&format!("cat /sys/block/ramblk0/ramblk/{name}")).trim().parse().expect("a number")
    }

    fn set(&self, parameter: &str, value: u64) {
        self.shell(&format!("echo {value} > /sys/module/ramblk/parameters/{parameter}"));
    }
}

fn is_full() -> bool {
    std::env::var_os("PAGELAB_TEST_FULL").is_some()
}

#[test]
#[ignore = "boots a VM and, the first time, builds the modules"]
fn vm_modules_of_our_own_do_what_they_say() {
    let dir = scratch();
    let share = dir.path().join("share");
    fs::create_dir(&share).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel_fixture/daxread.c");
    let mut gcc = Program::new("gcc");
    gcc.args(["-O1", "-static", "-pthread", "-o"]).arg(share.join("daxread")).arg(source);
    assert!(gcc.status().expect("gcc").success());
    for kernel in if is_full() { &Kernel::ALL[..] } else { &Kernel::ALL[..1] } {
        let guest = Guest::up(*kernel, &share);
        a_disk_of_the_size_asked_for(&guest);
        what_was_written_is_read(&guest);
        a_delay_is_kept(&guest);
        one_in_so_many_fails(&guest);
        reads_are_the_same_in_both_ways(&guest);
        // Nothing of it upset the kernel.
        let (_, bad) = guest.ends("dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|EXT4-fs error'");
        assert_eq!(bad, "", "{}", guest.shell("dmesg"));
    }
}

fn a_disk_of_the_size_asked_for(guest: &Guest) {
    // Wrong parameters are refused with the right ones.
    let (status, _) = guest.ends("modprobe ramblk depth=0");
    assert_ne!(status, 0);
    let said = guest.shell("dmesg | grep ramblk:");
    assert!(said.contains("found size_mib=256") && said.contains("depth=0, needed"), "{said}");
    guest.shell("modprobe ramblk size_mib=64 queues=2 depth=8");
    let at = "/sys/block/ramblk0";
    let said = guest.shell(&format!(
        "cat {at}/size {at}/queue/nr_requests {at}/queue/rotational {at}/queue/physical_block_size; ls {at}/mq | wc -l; \
         cat {at}/queue/scheduler"
    ));
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words.get(..5), Some(&["131072", "8", "0", "4096", "2"][..]), "{said}");
    assert!(said.contains("none"), "{said}");
    let (status, said) = guest.ends("echo 11000000000 > /sys/module/ramblk/parameters/delay_ns");
    assert!(status != 0, "a delay beyond the block layer's patience: {said}");
}

/// Checksums of blocks written at random places, on the device and on a file system on it.
fn what_was_written_is_read(guest: &Guest) {
    let job = "pagelab run --name=v --ioengine=io_uring --iodepth=8 --direct=1 --rw=randwrite --bs=4k --size=16m \
               --verify=crc32c --output-format=json";
    let device = format!("{job} --filename=/dev/ramblk0 --allow-write=/dev/ramblk0");
    guest.shell(&device);
    assert_eq!(guest.stat("written_bytes"), 16 << 20);
    assert!(guest.stat("read_bytes") >= 16 << 20, "it was read back");
    assert_eq!((guest.stat("errors"), guest.stat("spun"), guest.stat("timed")), (0, 0, 0));
    // The check sees what is not as it was written.
    guest.shell("dd if=/dev/zero of=/dev/ramblk0 bs=4k count=1 seek=100 2>/dev/null; sync");
    let (status, said) = guest.ends(&format!("{device} --verify_only=1"));
    assert_eq!(status, 1, "one block was changed: {said}");
    guest.shell("mkfs.ext4 -q -F /dev/ramblk0 && mkdir -p /mnt/ram && mount /dev/ramblk0 /mnt/ram");
    guest.shell(&format!("{job} --directory=/mnt/ram"));
    // What a file system gives back reads as zeros.
    let before = guest.stat("discarded_bytes");
    guest.shell("rm /mnt/ram/v* && sync && fstrim /mnt/ram");
    assert!(guest.stat("discarded_bytes") >= before + (16 << 20));
    guest.shell("umount /mnt/ram");
}

fn a_delay_is_kept(guest: &Guest) {
    // One read at a time: the set number of ns each, and no more than a timer's and an emulator's due on top.
    let read = |reads: u64| {
        let job = format!(
            "pagelab run --name=d --ioengine=psync --direct=1 --rw=read --bs=4k --size={} --filename=/dev/ramblk0 \
             --readonly --output-format=json",
            reads * 4096
        );
        let text = guest.shell(&job);
        let text = text.get(text.find('{').expect("JSON")..).unwrap_or_default();
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let document = documents.next().expect("a document").expect("JSON");
        document["jobs"][0]["read"]["clat_ns"]["min"].as_f64().expect("a latency")
    };
    let bare = read(50);
    for (ns, by) in [(1_500, "spun"), (5_000_000, "timed")] {
        guest.set("delay_ns", ns);
        let before = guest.stat(by);
        let least = read(50);
        eprintln!("delay {ns} ns: the fastest of 50 reads took {least} ns, {bare} ns without");
        assert!(guest.stat(by) >= before + 50);
        // The short one is less than an emulated call varies by: which way it went is all that shows.
        if by == "timed" {
            assert!(bare < ns as f64 / 2.0, "{bare}: too slow to tell a delay of {ns}");
            assert!(least >= ns as f64 && least < ns as f64 + 20e6, "{least} of {ns}");
        }
    }
    guest.set("delay_ns", 0);
}

fn one_in_so_many_fails(guest: &Guest) {
    // Direct reads of one block, one request each; the numbers of those that fail.
    let failing = |seed: u64| {
        guest.set("fail_every", 10);
        guest.set("fail_seed", seed);
        let before = guest.stat("errors");
        let line = "i=0; while [ $i -lt 60 ]; do dd if=/dev/ramblk0 of=/dev/null bs=4k count=1 skip=$i iflag=direct \
                    2>/dev/null || echo $i; i=$((i+1)); done";
        let numbers: Vec<u64> = guest.shell(line).lines().map(|line| line.parse().expect("a number")).collect();
        let counted = guest.stat("errors") - before;
        guest.set("fail_every", 0);
        assert_eq!(counted, numbers.len() as u64, "errors counted and requests failed: {numbers:?}");
        numbers
    };
    let (first, again, other) = (failing(7), failing(7), failing(8));
    eprintln!("failed of 60: {first:?}; by another seed: {other:?}");
    let tens: Vec<u64> = first.iter().map(|number| number / 10).collect();
    assert_eq!(tens, [0, 1, 2, 3, 4, 5], "one of each ten: {first:?}");
    assert_eq!(first, again, "the same seed fails the same requests");
    assert_ne!(first, other, "another seed fails others");
    let before = guest.stat("errors");
    guest.shell("dd if=/dev/ramblk0 of=/dev/null bs=4k count=60 iflag=direct 2>/dev/null");
    assert_eq!(guest.stat("errors"), before, "none is to fail any more");
    guest.shell("rmmod ramblk && ! [ -e /dev/ramblk0 ]");
}

fn reads_are_the_same_in_both_ways(guest: &Guest) {
    guest.shell("mkfs.ext4 -q -F -b 4096 /dev/pmem0 && mkdir -p /mnt/dax && mount -o dax /dev/pmem0 /mnt/dax");
    let compared = guest.shell("/share/daxread same /mnt/dax");
    eprintln!("{compared}");
    let race = guest.shell(&format!("/share/daxread race /mnt/dax {}", if is_full() { 20_000 } else { 3_000 }));
    eprintln!("{race}");
    // Each way is what it says: the function is run by one of them, once for each read.
    guest.shell(
        "cd /sys/kernel/tracing && echo p:daxread ext4:ext4_dax_read >kprobe_events && echo 1 >events/kprobes/enable",
    );
    let counted = |way: u32| {
        let said = guest.shell(&format!(
            "/share/daxread time /mnt/dax/file {way} 1000 >/dev/null && cat /sys/kernel/tracing/kprobe_profile"
        ));
        said.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).expect("a number")
    };
    guest.shell("dd if=/dev/zero of=/mnt/dax/file bs=1M count=1 2>/dev/null");
    assert_eq!((counted(0), counted(1)), (0, 1000));
    guest.shell("cd /sys/kernel/tracing && echo 0 > events/kprobes/enable && echo > kprobe_events");
    // A program on it still runs, though the kernel reads its head.
    guest.shell("echo 1 > /sys/module/ext4/parameters/dax_read; cp /bin/busybox /mnt/dax/ && /mnt/dax/busybox true");
    guest.shell("umount /mnt/dax");
}
