//! `pagelab doctor PATH` on direct access, against what the kernel does: in lab VMs of both kernels, files of many layouts on ext4
//! and xfs, with and without a stripe of 2 MiB. The prediction for each slot of 2 MiB is made before the file is touched; then one
//! byte of each slot is written, and the tracepoint `fs_dax:dax_pmd_fault_done` says whether one entry mapped it.
//!
//! A minute and a half for each kernel: only in the long form.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use common::{binary, scratch};
use pagelab_lab::{Command, Exit, Kernel, Lab, Limits, Options, Program as GuestProgram, Vm};
use serde_json::Value;

/// Writes one byte of each 2 MiB of a file that is mapped whole at a multiple of 2 MiB.
const TOUCH: &str = r"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
int main(int c, char **v)
{
    int fd = open(v[1], O_RDWR);
    struct stat st;
    if (c < 2 || fstat(fd, &st)) return 1;
    size_t s = 2UL << 20, len = st.st_size;
    char *r = mmap(0, len + s, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = (char *)(((size_t)r + s - 1) & ~(s - 1));
    if (mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return 2;
    for (size_t o = 0; o < len; o += s) at[o] = 1;
    return 0;
}
";

/// `$1` how to make the file system, `$2` a word for it. Each file's prediction and trace go to the shared folder.
const LAYOUTS: &str = r#"
umount /mnt 2>/dev/null
mkdir -p /mnt
$1 /dev/pmem0 && mount -o dax /dev/pmem0 /mnt && cd /mnt || exit 1
fallocate -l 64M aligned
fallocate -l 48M written; dd if=/dev/zero of=written bs=1M count=48 conv=notrunc 2>/dev/null
dd if=/dev/zero of=streamed bs=1M count=48 2>/dev/null
truncate -s 48M holes
i=0; while [ $i -lt 48 ]; do fallocate -o ${i}M -l 1M pieces; fallocate -o ${i}M -l 1M others; i=$((i+1)); done
i=0; while [ $i -lt 24 ]; do fallocate -o $((2*i))M -l 1M halves; i=$((i+1)); done; truncate -s 48M halves
i=0; while [ $i -lt 12 ]; do fallocate -o $((4*i))M -l 2M between; i=$((i+1)); done; truncate -s 48M between
fallocate -l 48M mixed
i=0; while [ $i -lt 24 ]; do dd if=/dev/zero of=mixed bs=1M count=1 seek=$((2*i)) conv=notrunc 2>/dev/null; i=$((i+1)); done
fallocate -l 1M pad; fallocate -l 47M odd
i=0; while [ $i -lt 8 ]; do fallocate -l 3M tail$i; i=$((i+1)); done
sync
for file in *; do
    [ -f $file ] || continue
    pagelab doctor /mnt/$file --json > "/share/$2.$file.json"
    [ -s "/share/$2.$file.json" ] || exit 2
    cd /sys/kernel/tracing; echo 1 > events/fs_dax/dax_pmd_fault_done/enable; echo > trace
    /share/touch /mnt/$file || exit 3
    grep dax_pmd_fault_done trace > "/share/$2.$file.trace"
    cd /mnt
done
cd /
"#;

const FILE_SYSTEMS: [(&str, &str); 4] = [
    ("mkfs.ext4 -q -F -b 4096 -E stride=512", "ext4-striped"),
    ("mkfs.ext4 -q -F -b 4096", "ext4"),
    ("mkfs.xfs -q -f -m reflink=0 -d su=2m,sw=1", "xfs-striped"),
    ("mkfs.xfs -q -f -m reflink=0", "xfs"),
];

/// Which slots one entry mapped. A fault that falls back may be tried twice (under the lock of the mapping, then again).
fn mapped(trace: &str) -> BTreeMap<u64, bool> {
    let mut found = BTreeMap::new();
    for line in trace.lines().filter(|line| line.contains("dax_pmd_fault_done:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "pgoff").expect("the event has it") + 1;
        let page = u64::from_str_radix(words[at].trim_start_matches("0x"), 16).expect("a number");
        let huge = words.last().is_some_and(|word| *word == "NOPAGE");
        *found.entry(page / 512).or_insert(false) |= huge;
    }
    found
}

/// Right and all, by what was predicted, and the slots that were not as predicted.
#[derive(Default)]
struct Held {
    by_reason: BTreeMap<String, (u64, u64)>,
    wrong: Vec<String>,
    files: u64,
}

impl Held {
    /// Holds each slot of each file in the folder against its trace.
    fn take(&mut self, folder: &Path, of: &str) {
        for entry in fs::read_dir(folder).expect("the folder").flatten() {
            let path = entry.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else { continue };
            let document: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("a document");
            assert_eq!(document["file"]["dax"]["active"], true, "{of} {name}");
            let truth = mapped(&fs::read_to_string(path.with_extension("trace")).expect("its trace"));
            self.files += 1;
            for run in document["slots"].as_array().expect("a list") {
                let at = |key: &str| run[key].as_u64().expect("bytes");
                let word = run["reason"].as_str().unwrap_or("possible").to_owned();
                for slot in at("start") >> 21..at("end").div_ceil(2 << 20) {
                    // Where the mapping ends inside the slot the kernel may not even try.
                    let is_huge = truth.get(&slot).copied().unwrap_or(false);
                    let right = run["possible"] == is_huge;
                    let (good, all) = self.by_reason.entry(word.clone()).or_default();
                    (*good, *all) = (*good + u64::from(right), *all + 1);
                    if !right {
                        self.wrong.push(format!("{of} {name} slot {slot}: told {word}, one entry: {is_huge}"));
                    }
                }
            }
        }
    }
}

/// The lab, taken down when the test ends, however it does.
struct Down;

impl Drop for Down {
    fn drop(&mut self) {
        let _ = Lab::down(NAME);
    }
}

const NAME: &str = "doctor-dax";

#[test]
#[ignore = "boots VMs; only in the long form"]
fn long_slots_on_direct_access_are_as_the_kernel_maps_them() {
    let dir = scratch();
    let share = dir.path().join("share");
    fs::create_dir(&share).expect("a folder");
    let source = dir.path().join("touch.c");
    fs::write(&source, TOUCH).expect("written");
    let mut gcc = Program::new("gcc");
    assert!(gcc.args(["-O1", "-static", "-o"]).arg(share.join("touch")).arg(&source).status().expect("gcc").success());
    fs::write(share.join("layouts.sh"), LAYOUTS).expect("written");
    let mut held = Held::default();
    for kernel in Kernel::ALL {
        let options = Options {
            name: NAME.to_owned(),
            vm: Vm { kernel, ..Vm::default() },
            share: Some(share.clone()),
            programs: vec![GuestProgram::stripped(binary())],
            supervisor: Some(binary()),
            ..Options::default()
        };
        let _down = Down;
        let lab = Lab::up(&options, &mut |event| eprintln!("{event}")).expect("up");
        for (mkfs, word) in FILE_SYSTEMS {
            let limits = Limits { time: Some(Duration::from_mins(5)), ..Limits::default() };
            let line = format!("mkdir -p /share/{word} && sh /share/layouts.sh '{mkfs}' {word}/f");
            let result = lab.run(&Command::shell(&line), &limits, &mut |_, _| {}).expect("run");
            assert_eq!(result.exit, Exit::Status(0), "{line}: {}", String::from_utf8_lossy(&result.stderr.bytes));
            held.take(&share.join(word), &format!("{} {word}", lab.state.release));
            fs::remove_dir_all(share.join(word)).expect("removed");
        }
    }
    println!("{} files, right of all by what was told: {:?}", held.files, held.by_reason);
    held.wrong.iter().for_each(|line| println!("{line}"));
    let (right, all) = held.by_reason.values().fold((0, 0), |(a, b), (right, all)| (a + right, b + all));
    assert!(right as f64 >= 0.99 * all as f64, "{right} of {all}");
    for (word, (right, all)) in &held.by_reason {
        assert!(*all >= 20 && *right as f64 >= 0.95 * *all as f64, "{word}: {right} of {all}");
    }
    assert!(held.by_reason.len() >= 6, "{:?}", held.by_reason);
}
