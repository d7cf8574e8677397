//! Block devices that hold something, on real loop devices: what other people's tools put there is found and not written over.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fio_program, refused, run, totals};

/// Runs a tool; its output.
pub(crate) fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let words = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {words}");
    words
}

/// A loop device over a sparse file, gone when dropped.
struct Loop {
    path: PathBuf,
    _image: tempfile::TempDir,
}

impl Loop {
    fn new(bytes: u64) -> Self {
        // Not on tmpfs: some tools refuse devices there.
        let image = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let file = image.path().join("image");
        std::fs::File::create(&file).and_then(|file| file.set_len(bytes)).expect("an image");
        let words = tool("losetup", &["--partscan", "--find", "--show", file.to_str().expect("UTF-8")]);
        Self { path: PathBuf::from(words.trim()), _image: image }
    }

    fn name(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// Undoes something when dropped, before the device goes.
pub(crate) struct Undo(pub(crate) &'static str, pub(crate) String);

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(self.0).arg(&self.1).status();
    }
}

fn writing(path: &Path) -> Vec<String> {
    let filename = format!("--filename={}", path.display());
    ["--name=j", "--rw=write", "--bs=64k", "--size=1m", "--direct=1"]
        .map(str::to_owned)
        .into_iter()
        .chain([filename])
        .collect()
}

fn allowed(path: &Path) -> Vec<String> {
    writing(path).into_iter().chain([format!("--allow-write={}", path.display())]).collect()
}

/// The device as it is; to see that nothing was written.
fn contents(device: &Loop) -> Vec<u8> {
    std::fs::read(&device.path).expect("reading the device")
}

/// `make` puts something there that pagelab calls `what`.
fn is_found(bytes: u64, what: &str, make: impl FnOnce(&str)) {
    let device = Loop::new(bytes);
    make(device.name());
    let before = contents(&device);
    let words = refused(&writing(&device.path), 2);
    assert!(words.contains(what) && words.contains("--allow-write"), "{words}");
    assert_eq!(contents(&device), before, "{what}: refused, and written to nevertheless");
    // A flag that names another target allows nothing here.
    let mut other = writing(&device.path);
    other.push("--allow-write=/dev/zero".to_owned());
    refused(&other, 2);
    assert_eq!(contents(&device), before);
    // Named by the user it is written, and the report names its earlier contents.
    let report = run(&allowed(&device.path));
    assert_eq!(totals(&report)[2], 16);
    assert!(report.warnings.iter().any(|warning| warning.contains(what)), "{:?}", report.warnings);
    assert_ne!(contents(&device), before);
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_file_systems_and_volumes_are_not_written_over() {
    is_found(16 << 20, "ext4", |device| {
        tool("mkfs.ext4", &["-q", "-F", device]);
    });
    is_found(512 << 20, "xfs", |device| {
        tool("mkfs.xfs", &["-q", device]);
    });
    is_found(16 << 20, "swap", |device| {
        tool("mkswap", &[device]);
    });
    is_found(16 << 20, "LVM", |device| {
        tool("pvcreate", &["-q", "-y", device]);
    });
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_partition_tables_are_not_written_over() {
    for (label, what) in [("dos", "MBR partition table"), ("gpt", "GPT partition table")] {
        is_found(16 << 20, what, |device| {
            let script = format!("label: {label}\nsize=4MiB\n");
            let mut child = Command::new("sfdisk")
                .args(["-q", device])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("sfdisk");
            std::io::Write::write_all(&mut child.stdin.take().expect("piped"), script.as_bytes()).expect("script");
            assert!(child.wait().expect("sfdisk").success());
        });
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_devices_in_use_are_never_written() {
    let in_use = |device: &Loop| {
        let before = contents(device);
        for arguments in [writing(&device.path), allowed(&device.path)] {
            let words = refused(&arguments, 2);
            assert!(words.contains("in use"), "{words}");
        }
        assert_eq!(contents(device), before);
    };
    let device = Loop::new(16 << 20);
    tool("mkfs.ext4", &["-q", "-F", device.name()]);
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path().to_str().expect("UTF-8").to_owned();
    {
        tool("mount", &["-o", "ro", device.name(), &place]);
        let _mounted = Undo("umount", place);
        in_use(&device);
    }
    let device = Loop::new(16 << 20);
    tool("mkswap", &[device.name()]);
    {
        tool("swapon", &[device.name()]);
        let _on = Undo("swapoff", device.name().to_owned());
        in_use(&device);
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_empty_devices_need_to_be_named() {
    let device = Loop::new(16 << 20);
    let words = refused(&writing(&device.path), 2);
    assert!(words.contains("block device") && words.contains("--allow-write"), "{words}");
    let report = run(&allowed(&device.path));
    assert_eq!(totals(&report)[2], 16);
    assert_eq!(report.warnings, Vec::<String>::new());
    // Reading needs no permission.
    let filename = format!("--filename={}", device.name());
    let reading = ["--name=j", "--rw=read", "--bs=64k", "--size=1m", &filename].map(str::to_owned);
    assert_eq!(totals(&run(&reading))[0], 16);
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_device_under_another_name_is_not_written() {
    let device = Loop::new(16 << 20);
    tool("mkfs.ext4", &["-q", "-F", device.name()]);
    let before = contents(&device);
    let directory = tempfile::tempdir().expect("a directory");
    let (path, aside) = (directory.path().join("own"), directory.path().join("aside"));
    let filename = format!("--filename={}", path.display());
    let job = ["--name=j", "--rw=write", "--size=64k", "--loops=3000", filename.as_str()];
    let rounds = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 100 } else { 8 };
    let stopped = (0..rounds).filter(|_| {
        let done = std::sync::atomic::AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    // Where there is no file yet, there is nothing to move.
                    if std::fs::rename(&path, &aside).is_ok() {
                        let _ = std::os::unix::fs::symlink(&device.path, &path);
                        std::thread::yield_now();
                        let _ = std::fs::rename(&aside, &path);
                    }
                }
            });
            let output = common::try_run(&job);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            output
        });
        for left in [&path, &aside] {
            let _ = std::fs::remove_file(left);
        }
        assert_eq!(contents(&device), before, "written to");
        !output.status.success()
    });
    assert!(stopped.count() > 0, "the neighbour never came between");
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_device_is_the_jobs_alone_while_it_runs() {
    use std::os::unix::fs::OpenOptionsExt as _;
    let device = Loop::new(16 << 20);
    let claim = || std::fs::File::options().read(true).custom_flags(libc::O_EXCL).open(&device.path);
    drop(claim().expect("free before"));
    let mut job = allowed(&device.path);
    let filename = format!("--filename={}", device.name());
    job.extend(["--name=k", "--rw=read", "--stonewall", "--runtime=60", "--time_based", &filename].map(str::to_owned));
    let mut child = common::pagelab().args(&job).stdout(std::process::Stdio::null()).spawn().expect("starts");
    // It is taken before the first write, and stays taken while another job only reads. A claim before that would be one
    // that the job has to respect.
    while contents(&device).iter().all(|byte| *byte == 0) {
        assert_eq!(child.try_wait().expect("wait"), None, "it ended");
        std::thread::yield_now();
    }
    let error = claim().expect_err("taken");
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::KILL)
        .expect("kill");
    child.wait().expect("wait");
    // Its workers die with it.
    while claim().is_err() {
        std::thread::yield_now();
    }
}

/// Blocks are given up by every engine that trims: written blocks read as zeros, and the image has a hole there.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_trims_give_up_what_the_device_holds() {
    let device = Loop::new(16 << 20);
    let filename = format!("--filename={}", device.name());
    let job = |words: &str| -> Vec<String> {
        let words = words.split(' ').map(str::to_owned);
        ["--name=j".to_owned(), filename.clone()].into_iter().chain(words).collect()
    };
    let allow = format!("--allow-write={}", device.name());
    let allowed = |words: &str| run(&job(words).into_iter().chain([allow.clone()]).collect::<Vec<_>>());
    let words = refused(&job("--rw=trim --bs=64k --size=1m"), 2);
    assert!(words.contains("--allow-write"), "{words}");
    let words = refused(&job("--rw=trim --bs=64k --size=1m --readonly"), 2);
    assert!(words.contains("--readonly"), "{words}");
    for engine in ["psync", "sync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring"] {
        allowed("--rw=write --bs=64k --size=4m --end_fsync=1");
        let report = allowed(&format!("--ioengine={engine} --rw=randtrim --bs=64k --offset=1m --size=1m --iodepth=8"));
        let trim = &report.workers[0].trim;
        assert_eq!((trim.operations, trim.bytes, trim.lat.count), (16, 1 << 20, 16), "{engine}");
        let contents = contents(&device);
        assert!(contents[1 << 20..2 << 20].iter().all(|byte| *byte == 0), "{engine}");
        assert!(contents[..1 << 20].iter().any(|byte| *byte != 0), "{engine}");
        let report = allowed(&format!(
            "--ioengine={engine} --rw=randtrimwrite --bs=64k --size=1m --iodepth=4 --verify=crc32c --direct=1"
        ));
        let worker = &report.workers[0];
        assert_eq!((worker.trim.operations, worker.write.operations, worker.read.operations), (16, 16, 16), "{engine}");
        assert_eq!(worker.mismatches(), 0, "{engine}");
    }
    let output = fio_program()
        .args(job("--rw=trim --bs=64k --size=1m --output-format=json"))
        .output()
        .expect("fio is installed (apt-get install fio); `make test` does it");
    let theirs = common::document(&output);
    assert_eq!(theirs["jobs"][0]["trim"]["total_ios"], 16);
    let ours = allowed("--rw=trim --bs=64k --size=1m");
    assert_eq!(ours.workers[0].trim.operations, 16);
}
