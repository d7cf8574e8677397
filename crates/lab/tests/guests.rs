//! Labs that really boot. A guest takes both processors of a small host for some 10 s, and the cache of packages is shared, hence
//! `vm_`: one at a time. The short form boots once; the long form (PAGELAB_TEST_FULL=1) takes both kernels and everything
//! that can go wrong.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use pagelab_lab::{
    Accel, Command, Event, Exit, Folders, Kernel, Lab, LabError, Limits, Machine, Options, Pmem, PmemKind, Result,
    RunResult, Vm,
};

const FIXTURE: &str = env!("CARGO_BIN_EXE_pagelab-lab-fixture");
const GIB: u64 = 1 << 30;

/// The test's own folders of running labs; the cache is that of the host, so that packages are fetched once.
struct Labs {
    folder: tempfile::TempDir,
    folders: Folders,
}

impl Labs {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = Folders { run: folder.path().join("run"), ..Folders::find() };
        // What a process of its own sees as `PAGELAB_LAB_DIR`.
        fs::create_dir_all(&folders.cache).expect("the cache");
        std::os::unix::fs::symlink(&folders.cache, folder.path().join("cache")).expect("a link");
        Labs { folder, folders }
    }

    fn up(&self, options: &Options) -> Result<Lab> {
        Lab::up_in(&self.folders, options, &mut |event| eprintln!("{}: {event}", options.name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Nothing is left: no process that uses these folders, no file in them.
    fn assert_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !processes(self.folder.path()).is_empty() {
            assert!(Instant::now() < deadline, "still there: {:?}", processes(self.folder.path()));
            std::thread::sleep(Duration::from_millis(20));
        }
        let left: Vec<_> = fs::read_dir(&self.folders.run).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        assert!(!mounts.contains(&self.folder.path().display().to_string()), "{mounts}");
        assert!(!self.folders.cache.join("tmp").exists(), "a temporary folder in the cache");
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        for name in Lab::names_in(&self.folders) {
            let _ = Lab::down_in(&self.folders, &name);
        }
    }
}

/// Processes whose working directory or command line refers to the folder.
fn processes(folder: &Path) -> Vec<String> {
    let text = folder.display().to_string();
    let entries = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let lines = entries.filter_map(|process| {
        let line = String::from_utf8_lossy(&fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
        let here = fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        (!line.is_empty() && (here || line.contains(&text))).then_some(line)
    });
    lines.collect()
}

fn options(name: &str) -> Options {
    Options { name: name.to_owned(), supervisor: Some(FIXTURE.into()), ..Options::default() }
}

/// Runs a shell line that has to succeed; its output.
fn shell(lab: &Lab, line: &str) -> String {
    let result = run(lab, line, 60);
    let [out, err] = [&result.stdout, &result.stderr].map(|output| String::from_utf8_lossy(&output.bytes).into_owned());
    if result.timed_out {
        // What waits in the kernel, and what runs: a guest may hang in part.
        let waiting = run(lab, "echo w > /proc/sysrq-trigger; ps; sleep 1", 30);
        panic!(
            "{line}: not done after 60 s: {out}{err}{}{}{}",
            result.console,
            String::from_utf8_lossy(&waiting.stdout.bytes),
            waiting.console
        );
    }
    assert_eq!(result.exit, Exit::Status(0), "{line}: {out}{err}{}", result.console);
    out
}

fn run(lab: &Lab, line: &str, seconds: u64) -> RunResult {
    let limits = Limits { time: Some(Duration::from_secs(seconds)), ..Limits::default() };
    lab.run(&Command::shell(line), &limits, &mut |_, _| {}).expect(line)
}

/// Puts a file system with DAX on the device, maps a file of it, and looks how the kernel mapped it.
fn assert_dax(lab: &Lab, fs: &str) {
    let make = match fs {
        "ext4" => "mkfs.ext4 -q -F -b 4096 -E stride=512 /dev/pmem0",
        _ => "mkfs.xfs -q -f -m reflink=0 -d su=2m,sw=1 /dev/pmem0",
    };
    // `x` maps the file and touches each 2 MiB: the tracepoint says how each fault was served.
    let line = format!(
        "umount /mnt 2>/dev/null; {make} && mount -t {fs} -o dax /dev/pmem0 /mnt && grep ' /mnt {fs} .*dax=always' /proc/mounts \
         && cd /sys/kernel/tracing && echo 1 > events/fs_dax/dax_pmd_fault_done/enable && echo > trace \
         && /share/touch /mnt/file 64; status=$?; grep -c NOPAGE trace; exit $status"
    );
    let said = shell(lab, &line);
    assert!(said.trim_end().ends_with("\n64"), "{fs}: 64 slots of 2 MiB should have been mapped whole: {said}");
}

/// A program for the guest: makes a file of a number of 2 MiB slots and touches each through an aligned mapping.
fn build_touch(folder: &Path) {
    let source = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n\
         int main(int n, char **a) { size_t s = 2 << 20, slots = atoi(a[2]), len = s * slots;\n\
         int fd = open(a[1], O_RDWR | O_CREAT, 0600); if (fd < 0 || posix_fallocate(fd, 0, len)) return 1;\n\
         char *r = mmap(0, len + s, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
         char *at = (char *)(((size_t)r + s - 1) & ~(s - 1));\n\
         if (mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return 2;\n\
         for (size_t i = 0; i < slots; i++) at[i * s] = 1; return n - 3; }\n";
    let file = folder.join("touch.c");
    fs::write(&file, source).expect("written");
    let built = Program::new("gcc").args(["-O1", "-static", "-o"]).arg(folder.join("touch")).arg(&file).status();
    assert!(built.expect("gcc").success());
}

/// An emulated guest hangs once in some dozens of boots, at its first commands, too. That is no fault of the test's subject unless
/// it does so twice in a row.
fn unless_hung(test: fn()) {
    let Err(panic) = std::panic::catch_unwind(test) else { return };
    let words = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    if !words.contains("not done after") && !words.contains("GuestHang") {
        std::panic::resume_unwind(panic);
    }
    eprintln!("the guest hung, once more in a new one: {words}");
    test();
}

#[test]
#[ignore = "boots a VM: takes both processors for some 20 s"]
fn vm_a_lab_comes_up_runs_commands_and_leaves_nothing() {
    unless_hung(comes_up_runs_commands_and_leaves_nothing);
}

fn comes_up_runs_commands_and_leaves_nothing() {
    let labs = Labs::new();
    let share = labs.path("share, too");
    fs::create_dir(&share).expect("a folder");
    fs::write(share.join("in"), "from the host\n").expect("written");
    build_touch(&share);
    // As it is typed: a path from where the program runs.
    let here = std::env::current_dir().expect("a folder");
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(share.strip_prefix("/").expect("absolute"));
    // As flock(1) leaves one behind for its children.
    let lock = labs.path("lock");
    fs::write(&lock, "").expect("written");
    let name = std::ffi::CString::new(lock.as_os_str().as_encoded_bytes()).expect("a path");
    // SAFETY: the path ends with a zero; the descriptor is closed below.
    let inherited = unsafe { libc::open(name.as_ptr(), libc::O_RDONLY) };
    assert!(inherited >= 0);
    let lab = labs.up(&Options { share: Some(relative), ..options("short") }).expect("up");
    // SAFETY: it was opened above and is used by nobody else.
    unsafe { libc::close(inherited) };
    let status = Lab::status_in(&labs.folders, "short").expect("status").expect("there");
    for pid in [status.pid, status.qemu_pid].into_iter().flatten() {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").flatten();
        let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        assert!(!open.contains(&lock), "{pid} keeps what `up` was given: {open:?}");
    }
    assert!(lab.state.release.starts_with("6.1."), "{}", lab.state.release);
    assert_eq!((lab.state.cpus, lab.state.pmem_bytes), (2, Some(GIB)));
    assert_eq!(lab.state.machine == Machine::Tcg, lab.state.no_kvm.is_some(), "{:?}", lab.state.no_kvm);
    eprintln!("boot: {} ms by {}", lab.state.boot_ms, lab.state.machine.name());

    // A second one of the same name is refused; the first is found by whoever knows its name.
    assert_eq!(labs.up(&options("short")).expect_err("there is one").kind(), "already_up");
    let lab = Lab::open_in(&labs.folders, &lab.state.options.name).expect("open");
    let status = Lab::status_in(&labs.folders, "short").expect("status").expect("there");
    assert!(status.alive && status.qemu_pid.is_some() && status.ended.is_none(), "{status:?}");

    // Output, exit status, signal, time limit; files in and out.
    let result = run(&lab, "echo out; echo err >&2; cat /share/in; uname -r > /share/out; exit 7", 30);
    assert_eq!((result.exit, result.timed_out), (Exit::Status(7), false));
    assert_eq!(result.stdout.bytes, b"out\nfrom the host\n");
    assert_eq!((result.stderr.bytes.as_slice(), result.stderr.dropped_bytes()), (&b"err\n"[..], 0));
    assert_eq!(fs::read_to_string(share.join("out")).expect("from the guest").trim(), lab.state.release);
    assert_eq!(run(&lab, "kill -15 $$", 30).exit, Exit::Signal(15));
    let late = run(&lab, "echo begun; setsid sleep 86400 & sleep 86400", 2);
    assert!(late.timed_out && late.exit == Exit::Signal(9) && late.stdout.bytes == b"begun\n", "{late:?}");
    assert!(late.took < Duration::from_secs(10), "{:?}", late.took);
    assert_eq!(shell(&lab, "ps | grep -c '[s]leep 86400' || true"), "0\n", "its descendants are gone too");
    let missing = lab.run(&Command::new(["/nonexistent"]), &Limits::default(), &mut |_, _| {});
    assert_eq!(missing.expect_err("no such program").kind(), "not_started");
    let big = Limits { stdout_bytes: 1000, ..Limits::default() };
    let big = lab.run(&Command::shell("dd if=/dev/zero bs=1M count=20"), &big, &mut |_, _| {}).expect("run");
    assert_eq!((big.stdout.bytes.len(), big.stdout.dropped_bytes()), (1000, (20 << 20) - 1000));
    // What the kernel says meanwhile is in the result; there is no network.
    assert!(run(&lab, "echo hello from the test > /dev/kmsg; sleep 1", 30).console.contains("hello from the test"));
    assert_eq!(shell(&lab, "ls /sys/class/net"), "lo\n");

    assert_dax(&lab, "ext4");
    killed_runs_take_their_command_along(&labs, &lab);

    assert!(Lab::down_in(&labs.folders, "short").expect("down"));
    assert!(!Lab::down_in(&labs.folders, "short").expect("down"), "there is none any more");
    assert_eq!(Lab::open_in(&labs.folders, "short").expect_err("none").kind(), "not_up");
    labs.assert_nothing_left();
}

/// A `run` in a process of its own, killed with a signal that it cannot see.
fn killed_runs_take_their_command_along(labs: &Labs, lab: &Lab) {
    let mut client = Program::new(FIXTURE)
        .args(["run", &lab.state.options.name, "600", "sleep 86399; echo never"])
        .env("PAGELAB_LAB_DIR", labs.folder.path())
        .spawn()
        .expect("a client");
    // Only one client at a time can look: the command is begun within a moment.
    std::thread::sleep(Duration::from_secs(2));
    let busy = Limits { wait: Duration::from_millis(100), ..Limits::default() };
    let busy = lab.run(&Command::new(["true"]), &busy, &mut |_, _| {}).expect_err("the other one runs");
    assert_eq!(busy.kind(), "busy", "{busy}");
    client.kill().expect("killed");
    client.wait().expect("dead");
    assert_eq!(shell(lab, "ps | grep -c '[s]leep 86399' || true"), "0\n");
    interrupted(labs, &["run", &lab.state.options.name, "600", "echo begun >&2; sleep 86399"], "begun");
    assert_eq!(shell(lab, "ps | grep -c '[s]leep 86399' || true"), "0\n");
}

/// The program is interrupted once it has said a word, and ends by itself.
fn interrupted(labs: &Labs, arguments: &[&str], word: &str) {
    let mut program = Program::new(FIXTURE);
    program.args(arguments).env("PAGELAB_LAB_DIR", labs.folder.path()).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut program = program.spawn().expect("the fixture");
    await_line(&mut program, word);
    signal("-INT", program.id());
    let begin = Instant::now();
    assert_eq!(program.wait().expect("ended").code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
#[ignore = "starts QEMU, if only to kill it"]
fn vm_an_up_that_dies_or_fails_leaves_nothing() {
    let labs = Labs::new();
    // Killed while the guest boots: as by Ctrl-C, but with a signal that nobody can handle.
    let options = Options { vm: Vm { accel: Accel::Tcg, ..Vm::default() }, ..options("killed") };
    let mut up = Program::new(FIXTURE);
    up.arg("up").arg(serde_json::to_string(&options).expect("JSON")).env("PAGELAB_LAB_DIR", labs.folder.path());
    let mut up = up.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("up");
    await_line(&mut up, "booting");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes(labs.folder.path()).iter().any(|line| line.contains("qemu-system")) {
        assert!(Instant::now() < deadline, "QEMU did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    up.kill().expect("killed");
    up.wait().expect("dead");
    let deadline = Instant::now() + Duration::from_secs(5);
    while !processes(labs.folder.path()).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", processes(labs.folder.path()));
        std::thread::sleep(Duration::from_millis(20));
    }
    labs.assert_nothing_left();
    assert_eq!(Lab::status_in(&labs.folders, "killed").expect("status"), None);
    // Ctrl-C, as the command line handles it.
    interrupted(&labs, &["up", &serde_json::to_string(&options).expect("JSON")], "booting");
    labs.assert_nothing_left();

    // A QEMU that ends at once, and one that is not there.
    let error = labs.up(&Options { qemu: Some("/bin/false".into()), ..options.clone() }).expect_err("no QEMU");
    assert!(error.kind() == "qemu_failed" && error.exit_status() == 3, "{error}");
    labs.assert_nothing_left();
    let error = labs.up(&Options { qemu: Some("no-such-qemu".into()), ..options.clone() }).expect_err("no QEMU");
    assert_eq!(error.to_string(), "no-such-qemu: not found on this host; type: apt-get install qemu-system-x86");
    labs.assert_nothing_left();
    // A guest that hangs, in each attempt; a guest whose kernel panics before the agent speaks.
    let hang = Options {
        vm: Vm { cmdline: vec!["rdinit=/bin/sleep".into(), "--".into(), "86398".into()], ..options.vm.clone() },
        // An emulated guest says its first line after some 4 s, on a busy machine after 8.
        boot_limit: Duration::from_secs(20),
        boot_attempts: 2,
        ..options.clone()
    };
    let error = labs.up(&hang).expect_err("it hangs");
    assert!(matches!(&error, LabError::BootHang { attempts: 2, console, .. } if !console.is_empty()), "{error}");
    labs.assert_nothing_left();
    let cmdline = vec!["rdinit=/nonexistent".into(), "init=/nonexistent".into()];
    let panic = Options { vm: Vm { cmdline, ..options.vm.clone() }, ..options };
    let error = labs.up(&panic).expect_err("it panics");
    assert!(
        matches!(&error, LabError::GuestPanic { what, console } if !what.is_empty() && !console.is_empty()),
        "{error}"
    );
    labs.assert_nothing_left();
}

/// Reads the program's output until a line has the word; the rest is read and thrown away.
fn await_line(program: &mut Child, word: &str) {
    let mut lines = BufReader::new(program.stderr.take().expect("a pipe")).lines().map_while(std::result::Result::ok);
    for line in lines.by_ref() {
        eprintln!("{line}");
        if line.contains(word) {
            std::thread::spawn(move || lines.count());
            return;
        }
    }
    panic!("it never said {word}");
}

#[test]
#[ignore = "mounts a small tmpfs"]
fn vm_a_full_disk_is_said() {
    let labs = Labs::new();
    let small = labs.path("small");
    fs::create_dir(&small).expect("a folder");
    let mount = |arguments: &[&str]| Program::new(arguments[0]).args(&arguments[1..]).arg(&small).status();
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=8m", "none"]).expect("mount").success());
    let folders = Folders { cache: small.join("cache"), run: small.join("run") };
    let cache = Lab::up_in(&folders, &options("full"), &mut |_| {});
    // The cache elsewhere, but no room for the initramfs.
    let folders = Folders { run: small.join("run"), ..Folders::find() };
    let run = Lab::up_in(&folders, &options("full"), &mut |_| {});
    let left = Lab::names_in(&folders);
    assert!(mount(&["umount"]).expect("umount").success());
    for error in [cache.expect_err("no room"), run.expect_err("no room")] {
        assert!(error.kind() == "no_space" && error.exit_status() == 3, "{error}");
        assert!(error.to_string().contains("PAGELAB_LAB_DIR"), "{error}");
    }
    assert!(left.is_empty(), "{left:?}");
    labs.assert_nothing_left();
}

#[test]
#[ignore = "takes packages out of the host's cache of them, which is needed to boot"]
fn vm_packages_are_checked_and_missing_ones_are_said() {
    let labs = Labs::new();
    // Everything up to the boot, which fails at once.
    let options = Options {
        qemu: Some("/bin/false".into()),
        vm: Vm { accel: Accel::Tcg, ..Vm::default() },
        ..options("packages")
    };
    let up = |folders: &Folders| {
        let mut said = Vec::new();
        let error = Lab::up_in(folders, &options, &mut |event| said.push(event)).expect_err("no QEMU");
        (error, said)
    };
    assert_eq!(up(&labs.folders).0.kind(), "qemu_failed");
    let packages = fs::read_dir(labs.folders.cache.join("packages")).expect("packages").flatten();
    let busybox =
        packages.map(|entry| entry.path()).find(|path| path.display().to_string().contains("/busybox-static_"));
    let busybox = busybox.expect("it was fetched");
    let whole = fs::read(&busybox).expect("read");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&busybox, damaged).expect("written");
    let (_, said) = up(&labs.folders);
    assert!(said.iter().any(|event| matches!(event, Event::Damaged { file } if file.contains("busybox"))), "{said:?}");
    assert!(fs::read(&busybox).expect("read") == whole, "it was fetched anew");
    assert!(!up(&labs.folders).1.iter().any(|event| matches!(event, Event::Damaged { .. })));

    // Lists that are fresh, and empty: a mirror that does not have it.
    let cache = labs.path("empty cache");
    fs::create_dir_all(cache.join("apt")).expect("a folder");
    fs::copy(labs.folders.cache.join("apt/lab.sources"), cache.join("apt/lab.sources")).expect("copied");
    fs::write(cache.join("apt/read"), "").expect("written");
    let (error, said) = up(&Folders { cache, ..labs.folders.clone() });
    assert!(error.kind() == "package_not_found" && error.exit_status() == 3, "{error}, {said:?}");
    assert!(error.to_string().starts_with("package linux-image-6.1.*-amd64: not found in the lists of"), "{error}");
    labs.assert_nothing_left();
}

#[test]
#[ignore = "boots a VM three times; only in the long form"]
fn long_both_kernels_and_both_kinds_of_pmem_give_dax() {
    unless_hung(both_kernels_and_both_kinds_of_pmem_give_dax);
}

fn both_kernels_and_both_kinds_of_pmem_give_dax() {
    let labs = Labs::new();
    let share = labs.path("share");
    fs::create_dir(&share).expect("a folder");
    build_touch(&share);
    for (kernel, kind) in
        [(Kernel::V6_1, PmemKind::Nvdimm), (Kernel::V6_12, PmemKind::Memmap), (Kernel::V6_12, PmemKind::Nvdimm)]
    {
        let pmem = Some(Pmem { bytes: GIB, kind });
        let vm = Vm { kernel, pmem, ..Vm::default() };
        let lab = labs.up(&Options { vm, share: Some(share.clone()), ..options("dax") }).expect("up");
        eprintln!("{} {kind:?}: boot {} ms, {:?} bytes", lab.state.release, lab.state.boot_ms, lab.state.pmem_bytes);
        assert!(lab.state.release.starts_with(&format!("{}.", kernel.name())), "{}", lab.state.release);
        assert_dax(&lab, "ext4");
        assert_dax(&lab, "xfs");
        assert!(Lab::down_in(&labs.folders, "dax").expect("down"));
        labs.assert_nothing_left();
    }
}

#[test]
#[ignore = "boots a VM that counts; only in the long form"]
fn long_instructions_are_counted() {
    let labs = Labs::new();
    let counting = Options {
        vm: Vm { icount_shift: Some(0), cpus: 1, ..Vm::default() },
        boot_limit: Duration::from_mins(4),
        ..options("count")
    };
    let lab = labs.up(&counting).expect("up");
    eprintln!("boot: {} ms", lab.state.boot_ms);
    let cost = |line: &str| {
        let before = lab.instructions().expect("asked").expect("counted");
        shell(&lab, line);
        lab.instructions().expect("asked").expect("counted") - before
    };
    let (first, again) = (cost("sort -n /proc/kallsyms | md5sum"), cost("sort -n /proc/kallsyms | md5sum"));
    eprintln!("the same twice: {first} and {again} instructions");
    let apart = first.abs_diff(again) as f64 / first as f64;
    assert!(apart < 0.02, "the same work takes the same instructions: {first}, {again}");
    let (short, long) = (
        cost("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"),
        cost("i=0; while [ $i -lt 8000 ]; do i=$((i+1)); done"),
    );
    eprintln!("2000 rounds: {short} instructions, 8000: {long}");
    assert!(long > short, "more work takes more instructions: {short}, {long}");
    assert!(Lab::down_in(&labs.folders, "count").expect("down"));
    labs.assert_nothing_left();
}

#[test]
#[ignore = "boots a VM four times and breaks it; only in the long form"]
fn long_what_breaks_in_the_guest_is_said() {
    let labs = Labs::new();
    let lab = labs.up(&options("break")).expect("up");
    // A guest that prints 1 GiB, one that fills its disk: both are the command's affair, and the lab goes on.
    let limits = Limits { stdout_bytes: 1 << 20, time: Some(Duration::from_mins(5)), ..Limits::default() };
    let flood = lab.run(&Command::shell("dd if=/dev/zero bs=1M count=1024"), &limits, &mut |_, _| {}).expect("run");
    assert_eq!((flood.stdout.bytes.len(), flood.stdout.written_bytes), (1 << 20, GIB));
    eprintln!("1 GiB of output: {:?}", flood.took);
    let full = run(&lab, "dd if=/dev/zero of=/tmp/fill bs=1M; status=$?; rm -f /tmp/fill; exit $status", 120);
    assert!(full.exit == Exit::Status(1), "{full:?}");
    assert!(String::from_utf8_lossy(&full.stderr.bytes).contains("No space left on device"), "{full:?}");
    let noisy = "for i in $(seq 3000); do echo \"$i: a line for the console that is rather long, as lines go\"; done > /dev/console";
    shell(&lab, noisy);
    let kept: u64 = fs::read_dir(labs.folders.run.join("break"))
        .expect("the folder")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("console"))
        .map(|entry| entry.metadata().expect("there").len())
        .sum();
    assert!(kept <= 2 * options("x").console_bytes + 64, "{kept}");
    // A panic.
    let gone = |line: &str| {
        let lab = Lab::open_in(&labs.folders, "break").expect("open");
        lab.run(&Command::shell(line), &Limits::default(), &mut |_, _| {}).expect_err(line)
    };
    let error = gone("echo c > /proc/sysrq-trigger; sleep 60");
    assert!(matches!(&error, LabError::GuestPanic { what, .. } if what == "sysrq triggered crash"), "{error}");
    let status = Lab::status_in(&labs.folders, "break").expect("status").expect("there");
    assert!(!status.alive && status.ended.is_some() && status.console.contains("Kernel panic"), "{status:?}");
    assert_eq!(Lab::open_in(&labs.folders, "break").expect_err("dead").kind(), "guest_panic");
    // Switched off from inside; `up` on top of what is left.
    labs.up(&options("break")).expect("up again");
    let error = gone("poweroff -f; sleep 60");
    assert!(matches!(&error, LabError::GuestGone { how, .. } if how.contains("exit status 0")), "{error}");
    // QEMU killed; a guest that does not answer; a supervisor killed.
    labs.up(&options("break")).expect("up again");
    let qemu = || Lab::status_in(&labs.folders, "break").expect("status").expect("there").qemu_pid.expect("QEMU");
    signal("-STOP", qemu());
    let lab = Lab::open_in(&labs.folders, "break").expect("open");
    let limits = Limits { silence: Duration::from_secs(3), ..Limits::default() };
    let hung = lab.run(&Command::shell("true"), &limits, &mut |_, _| {}).expect_err("it is stopped");
    assert!(matches!(hung, LabError::GuestHang { .. }), "{hung}");
    assert!(Lab::down_in(&labs.folders, "break").expect("down, although it does not listen"));
    labs.assert_nothing_left();
    labs.up(&options("break")).expect("up again");
    signal("-KILL", Lab::status_in(&labs.folders, "break").expect("status").expect("there").pid.expect("it"));
    let deadline = Instant::now() + Duration::from_secs(5);
    while Lab::status_in(&labs.folders, "break").expect("status").expect("there").alive {
        assert!(Instant::now() < deadline, "QEMU outlived its supervisor");
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = Lab::open_in(&labs.folders, "break").expect_err("dead");
    assert!(matches!(&error, LabError::GuestGone { how, .. } if how.contains("killed")), "{error}");
    assert!(Lab::down_in(&labs.folders, "break").expect("down"));
    labs.assert_nothing_left();
}

fn signal(name: &str, pid: u32) {
    assert!(Program::new("kill").arg(name).arg(pid.to_string()).status().expect("kill").success());
}
