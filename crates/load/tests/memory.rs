//! What a worker costs in memory, besides its buffers: little, and no more for larger files.

use crate::common;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{children, pagelab};

const MIB: u64 = 1 << 20;

/// A run in progress; ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Memory that belongs to a process alone: what comes back when it ends.
fn own_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the process lives");
    let kib = |line: &str| line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    text.lines().filter(|line| line.starts_with("Private_")).filter_map(kib).sum::<u64>() << 10
}

/// Starts a job that runs on and waits until its workers have worked for two seconds: histograms filled, intervals closed.
fn start(options: &str) -> (Running, u32) {
    let fixed = ["--name=j", "--rw=randread", "--time_based", "--runtime=100"];
    let child = pagelab().args(fixed).args(options.split_whitespace()).stdout(Stdio::null()).spawn().expect("starts");
    let running = Running(child);
    let begun = Instant::now();
    let load = loop {
        assert!(begun.elapsed() < Duration::from_secs(30), "the load process did not start");
        if let Some(load) = children(running.0.id()).first() {
            break *load;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    std::thread::sleep(Duration::from_millis(2500));
    (running, load)
}

#[test]
fn a_worker_needs_little_memory_whatever_the_size_of_its_file() {
    let worst = |options: &str| {
        let (_running, load) = start(options);
        let workers = children(load);
        assert_eq!(workers.len(), 4);
        workers.into_iter().map(own_bytes).max().expect("four workers")
    };
    let small = worst("--ioengine=null --bs=4k --numjobs=4 --size=1g");
    // fio's random map would have a bit for each of these 2^37 blocks: 16 GiB for each worker.
    let large = worst("--ioengine=null --bs=4k --numjobs=4 --size=512t");
    println!("a process: {} KiB on 1 GiB, {} KiB on 512 TiB", small >> 10, large >> 10);
    assert!(small < 2 * MIB && large < 2 * MIB, "{small} and {large} bytes");
    assert!(large < small + 256 * 1024, "{small} and {large} bytes: grows with the file");
}

#[test]
fn a_thread_needs_no_more_than_a_process() {
    let of = |workers: u32| {
        let (_running, load) = start(&format!("--ioengine=null --bs=4k --thread --numjobs={workers} --size=1t"));
        own_bytes(load)
    };
    let (few, many) = (of(1), of(17));
    let each = many.saturating_sub(few) / 16;
    println!("a thread: {} KiB", each >> 10);
    assert!(each < 2 * MIB, "{each} bytes");
}
