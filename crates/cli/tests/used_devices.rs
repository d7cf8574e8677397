//! The file systems and devices that a recording says the target worked on, beside those of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{json, pagelab, run};

/// An image of a file system, 64 MiB.
fn image(place: &Path) -> String {
    let image = place.join("fs.img");
    fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
    run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image), 0);
    fs::create_dir(place.join("at")).expect("a folder");
    image.to_str().expect("UTF-8").to_owned()
}

/// Writes with dd, each block made safe, from a mount that nobody else sees.
#[test]
#[ignore = "loop: mounts a file system on a loop device"]
fn loop_a_mount_of_the_target_s_own_namespace_is_known_with_its_device() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    let (image, at) = (image(place.path()), place.path().join("at"));
    let script = format!(
        "mount -o loop,nodiratime {image} {at} && dd if=/dev/zero of={at}/data bs=4k count=200 oflag=dsync status=none",
        at = at.display()
    );
    let recording = place.path().join("r");
    let mut record = pagelab();
    record.args(["record", "-q", "-o"]).arg(&recording).args(["--", "unshare", "-m", "sh", "-c", &script]);
    run(&mut record, 0);
    let manifest = fs::read(recording.join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let used = manifest["used"].as_array().expect("a list");
    let of_mount = used.iter().find(|one| one["mountpoint"].as_str() == at.to_str()).expect("the mount is in the list");
    assert_eq!(of_mount["fs"], "ext4", "{used:?}");
    assert!(of_mount["device"].as_str().is_some_and(|device| device.starts_with("loop")), "{used:?}");
    // One write in sixteen is looked at and stands for as many: 200 of 4 KiB are 800 KiB, within five standard deviations.
    let written = of_mount["written_bytes"].as_u64().expect("bytes");
    assert!((100 << 10..2 << 20).contains(&written), "{used:?}");
    let mut query = pagelab();
    query.args(["query", "--format", "json"]).arg(&recording);
    query.arg(format!("select value from settings where key = 'mount.{}.options'", at.display()));
    let rows = json(&query.output().expect("it runs"));
    let options = rows[0]["value"].as_str().unwrap_or_default();
    assert!(options.contains("nodiratime"), "{rows}");
    assert!(!at.join("data").exists(), "the mount went with its namespace");
}

/// Ends with its handle.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a file, which is in the page cache or not, while somebody writes to another device all the time.
#[test]
#[ignore = "host: keeps a loop device busy beside what it compares"]
fn host_a_busier_device_of_somebody_else_s_is_not_the_target_s() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    let (image, at) = (image(place.path()), place.path().join("at"));
    run(Command::new("mount").args(["-o", "loop"]).args([image.as_str()]).arg(&at), 0);
    let busy =
        format!("while :; do dd if=/dev/zero of={}/busy bs=64k count=400 oflag=direct status=none; done", at.display());
    let writer =
        Writer(Command::new("sh").args(["-c", &busy]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh"));
    fs::write(place.path().join("data"), vec![7; 96 << 20]).expect("a file");
    let script = "import os, sys
f = os.open('data', os.O_RDONLY)
os.fsync(f)
if sys.argv[1] == 'cold': os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
while os.read(f, 1 << 20): pass
";
    fs::write(place.path().join("read.py"), script).expect("a script");
    let mut command = pagelab();
    command.args(["compare", "-n", "8", "-o", "set", "--json", "--", "python3 read.py warm", "python3 read.py cold"]);
    let found = json(&command.current_dir(place.path()).output().expect("it runs"));
    drop(writer);
    run(Command::new("umount").arg("-l").arg(&at), 0);
    let causes: Vec<&str> =
        found["findings"].as_array().expect("findings").iter().filter_map(|one| one["cause"].as_str()).collect();
    assert_eq!(causes.first(), Some(&"cache.cold"), "{causes:?}");
    assert!(!causes.contains(&"sync.more"), "{causes:?}");
    // The device whose bytes they are stands in the figure.
    let evidence = found["findings"][0].to_string();
    assert!(evidence.contains("bytes read from the device") && !evidence.contains("(loop"), "{evidence}");
}

/// A control group with a limit of its memory, for the life of a test; none without the controller.
struct Limited(PathBuf);

impl Limited {
    fn new(bytes: u32) -> Option<Self> {
        let of_v1 = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        let tops = [of_v1, ("/sys/fs/cgroup", "memory.max")];
        tops.into_iter().find_map(|(top, limit)| {
            let group = Self(Path::new(top).join(format!("pagelab-moved-{}", std::process::id())));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// What `cgexec` and `systemd-run --scope` do: the program, or one that it starts, goes to another group before it works.
#[test]
fn counters_of_a_group_are_those_of_the_one_that_the_target_moves_to() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder on a disk");
    let file = place.path().join("file");
    let group = Limited::new(24 << 20).expect("the memory controller");
    let enter = format!("echo 0 > {}", group.procs().display());
    let write =
        format!("for i in 1 2 3 4 5 6; do head -c 48M /dev/zero > {0}; rm {0}; sleep 0.1; done", file.display());
    for (name, command, hits) in [
        ("moves", format!("{enter}; {write}"), true),
        ("starts", format!("sh -c '{enter}; {write}'; true"), true),
        ("stays", write.clone(), false),
    ] {
        let dir = place.path().join(name);
        run(
            pagelab().args(["record", "--observe", "metrics,tasks", "-o"]).arg(&dir).args(["--", "sh", "-c", &command]),
            0,
        );
        let found = json(&run(pagelab().args(["show", "--json"]).arg(&dir).args(["metrics", "cgroup.memory."]), 0));
        let series = found["metrics"].as_array().expect("metrics");
        let of =
            |name: &str| series.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {found:#}"));
        let hit = of("cgroup.memory.max_events");
        let rise = hit["last"].as_f64().expect("known") - hit["first"].as_f64().expect("known");
        assert_eq!(rise > 0.0, hits, "{name}: {hit}");
        let memory = of("cgroup.memory.current_bytes")["last"].as_f64().expect("known");
        assert_eq!(memory < f64::from(32 << 20), hits, "{name}: {memory}");
    }
}
