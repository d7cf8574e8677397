//! The engines on persistent memory, in lab VMs that emulate it: `libpmem` on ext4 with direct access, `dev-dax` on a namespace
//! without a file system. What is written is verified, by pagelab and by fio's engines of the same names, which take the library.
//!
//! The short form boots Linux 6.1, the long form (PAGELAB_TEST_FULL=1) 6.12 as well.

use crate::common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{binary, pagelab, run, scratch};
use pagelab_lab::{Command, Exit, Kernel, Lab, Limits, Options, Program as GuestProgram, Vm};
use serde_json::Value;

const NAME: &str = "lab-pmem";

/// Slots of 2 MiB of a job: the guest's processor is emulated, and each block is checked several times by two programs.
const SLOTS: u64 = 8;

/// What the report says of a job of one file that lies in 2 MiB pages.
fn all_huge() -> String {
    format!("got: base=0 2M={SLOTS} 1G=0 mixed=0 swapped=0 untouched=0 untold=0")
}

/// The lab, taken down when the test ends, however it does.
struct Down;

impl Drop for Down {
    fn drop(&mut self) {
        let _ = Lab::down(NAME);
    }
}

/// Runs a line in the guest; its status, and both outputs behind each other.
fn shell(lab: &Lab, line: &str) -> (Exit, String) {
    let limits = Limits { time: Some(Duration::from_mins(3)), ..Limits::default() };
    let result = lab.run(&Command::shell(line), &limits, &mut |_, _| {}).expect("run");
    let said = [&result.stdout, &result.stderr].map(|out| String::from_utf8_lossy(&out.bytes).into_owned());
    (result.exit, said.concat())
}

/// The same for lines that must end well; both outputs.
fn done(lab: &Lab, line: &str) -> String {
    let (exit, said) = shell(lab, line);
    assert_eq!(exit, Exit::Status(0), "{line}: {said}");
    said
}

/// Slots of 2 MiB that one entry mapped whole and those that were mapped page by page, by the kernel's tracepoints.
fn slots_by_faults(recording: &Path) -> (u64, u64) {
    let output = run(pagelab().arg("show").arg(recording).args(["dax", "--json"]), 0);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let number = |key: &str| document["data"][key].as_u64().or(document[key].as_u64()).expect("a number");
    (number("huge_slots"), number("small_slots"))
}

fn libpmem_on_ext4(lab: &Lab, share: &Path) {
    done(lab, "mkfs.ext4 -q -F -b 4096 -E stride=512 /dev/pmem0 && mount -o dax /dev/pmem0 /mnt");
    let size = SLOTS << 21;
    let job = format!("--name=j --ioengine=libpmem --filename=/mnt/file --bs=64k --size={size} --verify=crc32c");
    let said =
        done(lab, &format!("pagelab run {job} --rw=randwrite --sync=1 --direct=1 --observe dax -o /share/random.rec"));
    assert!(said.contains("durable by: cl") && !said.contains("MAP_SYNC"), "{said}");
    assert!(said.contains("err= 0"), "{said}");
    assert_eq!(slots_by_faults(&share.join("random.rec")), (SLOTS, 0), "each 2 MiB is mapped by one entry: {said}");
    assert!(said.contains(&all_huge()), "{said}");
    // fio finds what was written as it should be (by another engine: its libpmem fills a file anew before it reads), and the other
    // way round.
    done(lab, &format!("fio {job} --ioengine=mmap --rw=read"));
    done(lab, &format!("fio {job} --rw=randwrite --do_verify=0 --sync=1 --direct=1 --randseed=7"));
    done(lab, &format!("pagelab run {job} --rw=read"));
    // Bytes that are wrong are found.
    done(lab, "printf wrong | dd of=/mnt/file bs=1 seek=5000000 conv=notrunc 2>/dev/null");
    let (exit, said) = shell(lab, &format!("pagelab run {job} --rw=read"));
    assert_ne!(exit, Exit::Status(0), "{said}");
    // Without direct access the same job says that it has none.
    done(lab, "umount /mnt && mount /dev/pmem0 /mnt && rm /mnt/file");
    let said = done(lab, &format!("pagelab run {job} --rw=write --end_fsync=1 2>&1"));
    assert!(said.contains("durable by: msync=1") && said.contains("could not be mapped with MAP_SYNC"), "{said}");
    done(lab, "umount /mnt");
}

fn dev_dax(lab: &Lab) {
    let kept = format!("--name=j --ioengine=dev-dax --filename=/dev/dax0.0 --size={} --verify=crc32c", SLOTS << 21);
    // The guest has no udev that would load the drivers.
    done(lab, "modprobe -a dax_pmem device_dax");
    done(lab, "ndctl create-namespace -f -e namespace0.0 --mode=devdax --map=mem && ls /dev/dax0.0");
    let (exit, said) = shell(lab, &format!("pagelab run {kept} --rw=write --bs=2m"));
    assert!(exit == Exit::Status(2) && said.contains("--allow-write /dev/dax0.0"), "{said}");
    for (bs, rw) in [("2m", "write"), ("4k", "randwrite"), ("64k", "randrw"), ("1000", "write")] {
        let job = format!("{kept} --bs={bs} --rw={rw}");
        let said = done(lab, &format!("pagelab run {job} --allow-write=/dev/dax0.0"));
        assert!(
            said.contains("durable by: cl") && said.contains("err= 0") && said.contains(&all_huge()),
            "{job}: {said}"
        );
        if rw != "randrw" {
            done(lab, &format!("fio {kept} --bs={bs} --rw=read"));
        }
    }
    done(lab, &format!("fio {kept} --bs=4k --rw=randwrite --do_verify=0"));
    done(lab, &format!("pagelab run {kept} --bs=4k --rw=read"));
    // What cannot be: an engine of system calls, a device that somebody else has mapped. What lies beyond the end is left out, as by fio.
    let (exit, said) = shell(lab, "pagelab run --name=j --filename=/dev/dax0.0 --rw=read --size=1m");
    assert!(exit == Exit::Status(2) && said.contains("use ioengine=dev-dax"), "{said}");
    let (exit, said) = shell(lab, "pagelab run --name=j --ioengine=dev-dax --filename=/dev/dax0.0 --rw=read --size=2g");
    assert!(exit == Exit::Status(0) && said.contains("and not 2147483648: the job works on these"), "{said}");
    let long =
        "--name=k --ioengine=dev-dax --filename=/dev/dax0.0 --rw=read --bs=4k --size=64m --time_based --runtime=60";
    let line = format!(
        "fio {long} >/dev/null 2>&1 & pid=$!; sleep 5; pagelab run {kept} --rw=write --bs=2m --allow-write=/dev/dax0.0; \
         status=$?; kill $pid; wait; exit $status"
    );
    let (exit, said) = shell(lab, &line);
    assert!(exit == Exit::Status(2) && said.contains("has it mapped"), "{said}");
}

#[test]
#[ignore = "boots VMs: takes both processors for a minute"]
fn vm_engines_on_persistent_memory_write_what_fio_reads() {
    let kernels = match std::env::var_os("PAGELAB_TEST_FULL") {
        Some(_) => Kernel::ALL.to_vec(),
        None => vec![Kernel::V6_1],
    };
    let dir = scratch();
    for kernel in kernels {
        let share = dir.path().join(kernel.name());
        fs::create_dir(&share).expect("a folder");
        let options = Options {
            name: NAME.to_owned(),
            // pagelab as tests build it, and fio with its libraries, are unpacked into memory.
            vm: Vm { kernel, memory_bytes: 2 << 30, ..Vm::default() },
            share: Some(share.clone()),
            programs: vec![GuestProgram::stripped(binary()), GuestProgram::whole("fio"), GuestProgram::whole("ndctl")],
            supervisor: Some(binary()),
            ..Options::default()
        };
        let _down = Down;
        let lab = Lab::up(&options, &mut |event| eprintln!("{event}")).expect("up");
        libpmem_on_ext4(&lab, &share);
        dev_dax(&lab);
    }
}
