//! Engines on memory of their own: SysV segments, memfds, pages of 2 MiB and 1 GiB. `/proc` shows which they use.

use crate::common;

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::mappings::{GIB, HugetlbMount, Line, MIB, Pool, arguments, mapped, piece_lines, watch, worker_of};
use common::{pagelab, refused, run};
use pagelab_load::JobReport;

const SEGMENT: &str = "/SYSV00000000 (deleted)";
const MEMFD: &str = "/memfd:pagelab (deleted)";
const HUGE: &str = "/anon_hugepage (deleted)";

/// The front end under another program, which changes its surroundings first.
fn under(program: &str, words: &[&str], options: &str) -> Output {
    Command::new(program)
        .args(words)
        .args([env!("CARGO_BIN_EXE_pagelab-load"), "--output-format=report"])
        .args(arguments(options))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// The words of a job that was refused before anything ran.
fn refused_words(output: &Output, parts: &[&str]) {
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(output.stdout.is_empty(), "a refused job prints no report");
    for part in parts {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn pieces_of_shm_are_segments_that_are_marked_for_removal() {
    let job = "--ioengine=shm --rw=write --size=16m --map_granularity=2m --time_based --runtime=60";
    let (lines, own, table) = watch(job, |pid| {
        let lines = piece_lines(pid);
        let own = std::fs::read_link(format!("/proc/{pid}/ns/ipc")).ok()?;
        // The table of the worker's namespace: entering it is nsenter's work.
        let enter = ["--ipc", "--target", &pid.to_string(), "cat", "/proc/sysvipc/shm"];
        let table = String::from_utf8(Command::new("nsenter").args(enter).output().ok()?.stdout).ok()?;
        (lines.len() == 8 && table.lines().count() == 9).then_some((lines, own, table))
    });
    for Line { start, end, rights, name, .. } in &lines {
        assert_eq!((end - start, rights.as_str(), name.as_str()), (2 * MIB, "rw-s", SEGMENT));
        assert!(start.is_multiple_of(2 * MIB));
    }
    assert_ne!(own, std::fs::read_link("/proc/self/ns/ipc").expect("read"), "a namespace of its own");
    // Bit 01000 of the permissions is SHM_DEST: the segment goes with the last process that has it.
    assert!(table.lines().skip(1).all(|line| line.split_whitespace().nth(2) == Some("1600")), "{table}");
}

#[test]
fn segments_come_and_go_like_other_pieces() {
    for (resident, left) in [(1, 1), (3, 3)] {
        let report = mapped(&format!(
            "--ioengine=shm --rw=write --size=16m --map_granularity=2m --map_lifetime=evict --map_resident={resident} --loops=2"
        ));
        assert_eq!((report.pieces_mapped, report.pieces_evicted), (16, 16 - left), "resident {resident}");
        let memory = report.at_end.expect("read");
        assert_eq!((memory.vmas, memory.rss_bytes, memory.hugetlb_bytes), (left, left * 2 * MIB, 0));
    }
    let whole = mapped("--ioengine=shm --rw=randrw --size=6m --thread --numjobs=2");
    assert_eq!((whole.pieces_mapped, whole.at_end.expect("read").size_bytes), (1, 6 * MIB));
    // More segments in all than a namespace may have, one after the other.
    let many = mapped("--ioengine=shm --rw=write --size=20m --map_granularity=4k --map_lifetime=evict --map_touch=1");
    assert_eq!((many.pieces_mapped, many.pieces_evicted), (5120, 5119));
}

#[test]
fn who_may_not_make_namespaces_is_told_so_and_leaves_no_segment() {
    // A size that nobody else has.
    let bytes = 1_237 * 4096;
    let output = under(
        "setpriv",
        &["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"],
        &format!("--ioengine=shm --rw=write --size={bytes}"),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: JobReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(
        report.warnings.iter().any(|words| words.contains("IPC namespace") && words.contains("CAP_SYS_ADMIN")),
        "{:?}",
        report.warnings
    );
    assert!(run(&arguments("--ioengine=shm --rw=write --size=4m")).warnings.is_empty(), "with the right, no word");
    let table = std::fs::read_to_string("/proc/sysvipc/shm").expect("read");
    let left = table.lines().any(|line| line.split_whitespace().nth(3) == Some(&bytes.to_string()));
    assert!(!left, "{table}");
}

/// A job in a namespace whose limit stands in for the host's.
fn limited(limit: &str, options: &str) -> Output {
    let script = format!("echo {} > /proc/sys/kernel/{} && exec \"$@\"", &limit[7..], &limit[..6]);
    under("unshare", &["--ipc", "sh", "-c", &script, "sh"], options)
}

#[test]
fn limits_of_segments_hold_and_are_named() {
    let job = "--ioengine=shm --rw=write --size=16m --map_granularity=2m";
    refused_words(
        &limited("shmmax=1048576", job),
        &["job 'j'", "kernel.shmmax is 1048576", "needed 2097152", "sysctl -w kernel.shmmax=2097152"],
    );
    refused_words(
        &limited("shmmni=5", job),
        &["kernel.shmmni is 5, 5 segments", "needed 8", "sysctl -w kernel.shmmni=8", "map_granularity"],
    );
    refused_words(
        &limited("shmall=1000", job),
        &["kernel.shmall is 1000 pages, 512 in use", "needed 4096 pages", "sysctl -w kernel.shmall=4096"],
    );
    // What the words say is enough.
    for limit in ["shmmax=2097152", "shmmni=8", "shmall=4096"] {
        let output = limited(limit, job);
        assert!(output.status.success(), "{limit}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // All workers together have the host's limit, not each of them.
    let output = limited("shmmni=8", &format!("{job} --numjobs=2"));
    refused_words(&output, &["kernel.shmmni is 8, 8 segments"]);
    let buffers = "--ioengine=anon --rw=write --size=16m --bs=8m --iomem=shm";
    refused_words(&limited("shmmax=4194304", buffers), &["kernel.shmmax is 4194304", "kernel.shmmax=8388608"]);
}

#[test]
fn limits_on_the_way_end_the_job_with_words() {
    // Eight pieces would fit, but two stay: the third is one more than there may be.
    let job = "--ioengine=shm --rw=write --size=16m --map_granularity=2m --map_lifetime=evict --map_resident=3";
    let output = limited("shmmni=2", job);
    assert_eq!(output.status.code(), Some(3));
    let report: JobReport = serde_json::from_slice(&output.stdout).expect("a report");
    let failure = report.workers[0].failure.clone().expect("failed");
    assert!(failure.message.contains("kernel.shmmni is 2, 2 segments in use"), "{}", failure.message);
    assert_eq!(report.workers[0].write.bytes, 4 * MIB, "what was done before is reported");
}

#[test]
fn rights_to_lock_memory_are_asked_for_with_the_limit() {
    let without = ["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"];
    let words = [&without[..], &["prlimit", "--memlock=65536:65536"]].concat();
    refused_words(
        &under("setpriv", &words, "--ioengine=anon --rw=write --size=1m --lockmem=1m"),
        &["job 'j': lockmem=1048576", "65536 bytes that may be locked", "needed 1048576", "ulimit -l 1024"],
    );
    // Segments of huge pages are a right, too; group 0 would have it (vm.hugetlb_shm_group).
    let words = [&["--regid=65534", "--clear-groups"], &without[..]].concat();
    let output = under("setpriv", &words, "--ioengine=shm --rw=write --size=2m --hugetlb=2m");
    refused_words(&output, &["no right to hugetlb segments", "CAP_IPC_LOCK", "sysctl -w vm.hugetlb_shm_group="]);
}

/// Where a process's memfd can be opened.
fn memfd_of(pid: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let named = |path: &PathBuf| std::fs::read_link(path).is_ok_and(|target| target.as_os_str() == MEMFD);
    entries.flatten().map(|entry| entry.path()).find(named)
}

#[test]
fn a_memfd_is_one_file_under_all_pieces() {
    let job = "--ioengine=anon --map_backing=memfd --rw=write --size=8m --map_granularity=1m --time_based --runtime=60";
    let lines = watch(job, |pid| Some(piece_lines(pid)).filter(|lines| lines.len() == 8));
    for (piece, line) in lines.iter().enumerate() {
        assert_eq!((line.rights.as_str(), line.name.as_str()), ("rw-s", MEMFD));
        assert_eq!((line.offset, line.end - line.start), (piece as u64 * MIB, MIB));
    }
    // Pieces come and go, written data stay in the file.
    let (held, mapped_now) = watch(&format!("{job} --map_lifetime=evict --map_resident=2"), |pid| {
        let bytes = std::fs::metadata(memfd_of(pid)?).ok()?.blocks() * 512;
        (bytes == 8 * MIB).then(|| (bytes, piece_lines(pid).len()))
    });
    assert!(held == 8 * MIB && mapped_now <= 2, "{mapped_now} pieces mapped");
    // Private: what is written goes into copies, of which there are as many as pages; the file stays zeros.
    let (rights, contents) = watch(&format!("{job} --map_share=private"), |pid| {
        let line = piece_lines(pid).pop()?;
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let anonymous = smaps.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
        let kib: u64 = anonymous.split_whitespace().next()?.parse().ok()?;
        let contents = || std::fs::read(memfd_of(pid)?).ok();
        if kib >= 8192 { Some((line.rights, contents()?)) } else { None }
    });
    assert_eq!((rights.as_str(), contents.len() as u64), ("rw-p", 8 * MIB));
    assert!(contents.iter().all(|byte| *byte == 0), "nothing was written to the file");
    let shared = watch(job, |pid| {
        let contents = std::fs::read(memfd_of(pid)?).ok()?;
        contents.chunks_exact(4096).all(|page| page.iter().any(|byte| *byte != 0)).then_some(contents.len() as u64)
    });
    assert_eq!(shared, 8 * MIB);
    let merged = mapped("--ioengine=anon --map_backing=memfd --rw=write --size=8m --map_granularity=1m --map_merge=1");
    let memory = merged.at_end.expect("read");
    assert_eq!((memory.vmas, memory.rss_bytes, memory.hugetlb_bytes), (1, 8 * MIB, 0));
}

#[test]
fn what_a_pool_lacks_is_said_before_anything_runs() {
    // More pages of 1 GiB than any machine that runs tests has.
    for engine in ["anon", "anon --map_backing=memfd", "shm"] {
        for more in ["", "--map_granularity=1g", "--map_granularity=1g --map_lifetime=evict --map_resident=4096"] {
            let job = format!("--ioengine={engine} --rw=write --bs=2m --size=4t --hugetlb=1g --number_ios=1 {more}");
            let words = refused(&arguments(&job), 3);
            let parts = ["hugetlb pages of 1073741824 bytes", "pages available", "needed 4096 more", "echo "];
            let file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
            if std::path::Path::new(file).exists() {
                for part in parts.into_iter().chain([file, "hugepagesz=1G hugepages="]) {
                    assert!(words.contains(part), "{job}: {part}: {words}");
                }
            } else {
                assert!(words.contains("needed a pool of pages of 1073741824 bytes"), "{words}");
            }
            assert_eq!(words.contains("hugetlb_fallback"), !engine.contains("memfd"), "{words}");
        }
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_the_three_ways_to_map_hugetlb_memory_show_in_maps() {
    let pool = Pool::of(128);
    let mount = HugetlbMount::new();
    let file = mount.path().join("f").display().to_string();
    let forever = "--rw=write --bs=2m --size=256m --time_based --runtime=60";
    for (options, name, rights) in [
        (format!("--ioengine=mmap --filename={file} --unlink=0"), file.as_str(), "rw-s"),
        ("--ioengine=anon --hugetlb=2m".to_owned(), HUGE, "rw-p"),
        ("--ioengine=shm --hugetlb=2m".to_owned(), SEGMENT, "rw-s"),
        ("--ioengine=anon --hugetlb=2m --map_backing=memfd".to_owned(), MEMFD, "rw-s"),
    ] {
        let lines = watch(&format!("{options} {forever}"), |pid| {
            Some(piece_lines(pid)).filter(|lines| !lines.is_empty() && pool.free() == 0)
        });
        let [line] = lines.as_slice() else { panic!("{options}: {lines:?}") };
        println!("{options}: {:x}-{:x} {} {}", line.start, line.end, line.rights, line.name);
        assert_eq!((line.end - line.start, line.rights.as_str(), line.name.as_str()), (256 * MIB, rights, name));
        if options.contains("mmap") {
            // Killed, it left its file, which is its own: the next run uses it and removes it.
            let report = mapped(&format!("{options} --rw=read --size=256m --unlink=1"));
            assert_eq!(report.at_end.expect("read").hugetlb_bytes, 256 * MIB);
        }
        wait_until("the pool to be whole again", || (pool.free(), pool.reserved()) == (128, 0));
        let report = mapped(&format!("{} --rw=write --bs=2m --size=256m", options.replace("--unlink=0", "--unlink=1")));
        let memory = report.at_end.expect("read");
        assert_eq!((memory.vmas, memory.hugetlb_bytes, memory.kernel_page_bytes), (1, 256 * MIB, 2 * MIB), "{options}");
        assert_eq!((memory.rss_bytes, memory.anon_huge_bytes, memory.shmem_pmd_bytes), (0, 0, 0), "{options}");
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_hugetlb_segments_and_memfds_come_and_go_and_fall_back() {
    let pool = Pool::of(6);
    let pieces = "--rw=write --bs=4k --map_granularity=2m --hugetlb=2m";
    let shm = mapped(&format!("--ioengine=shm {pieces} --size=20m --hugetlb_fallback=1"));
    let memory = shm.at_end.expect("read");
    assert_eq!((shm.pieces_fallen_back, memory.hugetlb_bytes, memory.rss_bytes), (4, 12 * MIB, 8 * MIB));
    let evicting = mapped(&format!("--ioengine=shm {pieces} --size=20m --map_lifetime=evict --map_resident=2"));
    assert_eq!((evicting.pieces_mapped, evicting.at_end.expect("read").hugetlb_bytes), (10, 4 * MIB));
    // Pages of a memfd stay in it: ten are needed, whatever is mapped at a time.
    let memfd = format!("--ioengine=anon --map_backing=memfd {pieces} --map_lifetime=evict");
    let words = refused(&arguments(&format!("{memfd} --size=20m")), 3);
    assert!(words.contains("6 pages available") && words.contains("needed 10 more"), "{words}");
    assert!(!words.contains("hugetlb_fallback"), "it has none: {words}");
    assert_eq!(mapped(&format!("{memfd} --size=12m")).at_end.expect("read").hugetlb_bytes, 2 * MIB);
    for engine in ["anon", "shm", "anon --map_backing=memfd"] {
        let words = refused(&arguments(&format!("--ioengine={engine} {pieces} --size=20m")), 3);
        assert!(words.contains("available") && words.contains("hugepages-2048kB/nr_hugepages"), "{engine}: {words}");
    }
    let words = refused(&arguments("--ioengine=anon --rw=write --size=32m --bs=16m --iomem=shmhuge"), 3);
    assert!(words.contains("needed 8 more"), "{words}");
    wait_until("the pool to be whole again", || (pool.free(), pool.reserved()) == (6, 0));
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_pages_of_one_gibibyte_are_mapped_where_the_kernel_has_them() {
    // At run time the kernel has to find two free stretches of 1 GiB; where it does not, what is left to test is the refusal.
    let pool = match Pool::try_of(GIB, 2) {
        Ok(pool) => pool,
        Err(got) => {
            println!("the kernel gave {got} of 2 pages of 1 GiB: only the refusal was tested");
            let words = refused(&arguments("--ioengine=anon --rw=write --bs=2m --size=2g --hugetlb=1g"), 3);
            assert!(words.contains("hugepagesz=1G"), "{words}");
            return;
        }
    };
    for (engine, name) in [("anon", HUGE), ("shm", SEGMENT), ("anon --map_backing=memfd", MEMFD)] {
        let job = format!(
            "--ioengine={engine} --rw=write --bs=2m --size=2g --hugetlb=1g --map_granularity=1g --map_touch=8 --time_based --runtime=60"
        );
        let lines = watch(&job, |pid| Some(piece_lines(pid)).filter(|lines| lines.len() == 2 && pool.free() == 0));
        for line in &lines {
            assert_eq!((line.end - line.start, line.name.as_str()), (GIB, name), "{engine}");
            assert!(line.start.is_multiple_of(GIB), "{engine}: {line:?}");
        }
        wait_until("the pool to be whole again", || (pool.free(), pool.reserved()) == (2, 0));
        let report = mapped(&job.replace("--time_based --runtime=60", "--map_order=strided --map_stride=512m"));
        let memory = report.at_end.expect("read");
        assert_eq!((report.piece_bytes, memory.hugetlb_bytes, memory.kernel_page_bytes), (GIB, 2 * GIB, GIB));
    }
    let words = refused(&arguments("--ioengine=anon --rw=write --bs=2m --size=3g --hugetlb=1g"), 3);
    assert!(words.contains("2 pages available") && words.contains("needed 3 more"), "{words}");
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_hugetlbfs_file_cut_short_is_not_called_an_empty_pool() {
    let _pool = Pool::of(8);
    let mount = HugetlbMount::new();
    let path = mount.path().join("f");
    let job = format!("--filename={} --ioengine=mmap --rw=read --bs=4k --size=16m", path.display());
    let front = pagelab()
        .arg("--output-format=report")
        .args(arguments(&format!("{job} --time_based --runtime=60")))
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    wait_until("the mapping", || worker_of(&front).is_some_and(|pid| !piece_lines(pid).is_empty()));
    std::fs::File::options().write(true).open(&path).expect("open").set_len(4 * MIB).expect("truncate");
    let output = front.wait_with_output().expect("ends by itself");
    assert_eq!(output.status.code(), Some(3));
    let report: JobReport = serde_json::from_slice(&output.stdout).expect("a report nonetheless");
    let failure = report.workers[0].failure.clone().expect("failed");
    assert!(failure.message.contains("made shorter") && !failure.message.contains("echo"), "{}", failure.message);
}
