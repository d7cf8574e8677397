//! What the doctor says of this host: each fault that can be made here is made, the doctor says so, its command is typed into a
//! shell as it stands, and the doctor says so no more. What cannot be made here (a kernel without something, persistent memory,
//! fragmented memory) is held to literal text in `doctor/host/rules/tests.rs`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::holder::Holder;
use common::settings::{SetBack, file_of, value};
use pagelab_host::doctor::host::{FreeMemory, look};

const MEMORY: &str = env!("CARGO_BIN_EXE_pagelab-memory-fixture");
const HUGE: usize = 2 << 20;

/// A shell with `sudo` and `pagelab` as findings name them: we are root, and the fixture takes the commands that they give.
struct Shell {
    tools: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        let tools = tempfile::tempdir().expect("a temporary folder");
        for (name, script) in [
            ("sudo", "#!/bin/sh\nexec \"$@\"\n".to_owned()),
            ("pagelab", format!("#!/bin/sh\nexec '{MEMORY}' cli \"$@\"\n")),
        ] {
            let path = tools.path().join(name);
            std::fs::write(&path, script).expect("written");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        }
        Shell { tools }
    }

    fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.env("PATH", format!("{}:/usr/sbin:{path}", self.tools.path().display()));
        command.env("PAGELAB_STATE_DIR", self.tools.path().join("state"));
        command.env("FIXTURE", MEMORY).env("SHELL", "/bin/sh");
        command
    }

    /// What a script says, and whether it ended well.
    fn run(&self, program: &str, arguments: &[&str]) -> (String, bool) {
        let output = self.command(program).args(arguments).stdin(Stdio::null()).output().expect("starts");
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&said).into_owned(), output.status.success())
    }

    /// The finding is said, its command typed, and the finding gone; `before` is a script that comes first, in the same place.
    fn mends(&self, program: &[&str], before: &str, id: &str) {
        let script = format!("{before}exec \"$FIXTURE\" mends {id}");
        let (program, rest) = program.split_first().unwrap_or((&"sh", &[]));
        let arguments: Vec<&str> = rest.iter().copied().chain(["-c", &script]).collect();
        let (said, well) = self.run(program, &arguments);
        print!("{id}: {said}");
        assert!(well, "{id}: {said}");
    }
}

fn write(key: &str, value: &str) {
    std::fs::write(file_of(key), value).unwrap_or_else(|error| panic!("{key} = {value}: {error}"));
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_thp_settings_are_mended_by_the_commands_given() {
    let keys = [
        "sysctl.vm.min_free_kbytes",
        "thp.enabled",
        "thp.2M.enabled",
        "thp.defrag",
        "thp.shmem_enabled",
        "thp.2M.shmem_enabled",
    ];
    let before = SetBack::of(&keys);
    let shell = Shell::new();
    for (faults, id) in [
        (&[("thp.enabled", "never")][..], "thp.never"),
        (&[("thp.enabled", "always"), ("thp.2M.enabled", "never")], "thp.never"),
        (&[("thp.enabled", "madvise")], "thp.by_advice"),
        (&[("thp.enabled", "always"), ("thp.2M.enabled", "madvise")], "thp.by_advice"),
        (&[("thp.enabled", "madvise"), ("thp.2M.enabled", "always")], "thp.size_differs"),
        (&[("thp.shmem_enabled", "never")], "thp.shared_never"),
        (&[("thp.shmem_enabled", "deny")], "thp.shared_never"),
        (&[("thp.shmem_enabled", "always"), ("thp.2M.shmem_enabled", "never")], "thp.shared_never"),
        (&[("thp.shmem_enabled", "deny"), ("thp.2M.shmem_enabled", "never")], "thp.shared_never"),
        (&[("thp.defrag", "never")], "thp.no_direct_compaction"),
        (&[("thp.defrag", "defer")], "thp.no_direct_compaction"),
    ] {
        for (key, value) in faults {
            write(key, value);
        }
        shell.mends(&[], "", id);
        before.put();
        assert_eq!(before.now(), before.0, "{id}");
    }
}

#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_pools_are_mended_by_the_commands_given() {
    let before = SetBack::of(&["hugetlb.2M.nr_overcommit_hugepages", "hugetlb.2M.nr_hugepages"]);
    let shell = Shell::new();
    let pool = |pages: &str| {
        write("hugetlb.2M.nr_overcommit_hugepages", "0");
        write("hugetlb.2M.nr_hugepages", pages);
    };
    pool("0");
    shell.mends(&[], "", "hugetlb.pool_empty");
    assert_eq!(value("hugetlb.2M.nr_hugepages").as_deref(), Some("64"));
    pool("4");
    let holder = Holder::start(&["pool", &(4 * HUGE).to_string()]);
    shell.mends(&[], "", "hugetlb.pool_used_up");
    drop(holder);
    // The command line that the kernel was started with is another one to whoever is in this place.
    pool("4");
    let cmdline = shell.tools.path().join("cmdline");
    std::fs::write(&cmdline, "quiet hugepagesz=2M hugepages=9\n").expect("written");
    let other = format!("mount --bind '{}' /proc/cmdline && ", cmdline.display());
    shell.mends(&["unshare", "--mount", "sh"], &other, "hugetlb.less_than_booted");
    assert_eq!(value("hugetlb.2M.nr_hugepages").as_deref(), Some("9"));
    let had_folder = Path::new("/dev/hugepages").exists();
    shell.mends(&["unshare", "--mount", "sh"], "umount -a -t hugetlbfs; ", "hugetlb.not_mounted");
    if !had_folder {
        std::fs::remove_dir("/dev/hugepages").expect("made by the command, empty outside");
    }
    before.put();
    assert_eq!(before.now(), before.0);
}

/// Control groups made for a test, below one that is there; the innermost goes first.
struct Groups(Vec<PathBuf>);

impl Groups {
    fn make(parent: &Path) -> Self {
        let outer = parent.join(format!("pagelab-test-{}", std::process::id()));
        let inner = outer.join("part");
        std::fs::create_dir(&outer).unwrap_or_else(|error| panic!("{}: {error}", outer.display()));
        let groups = Groups(vec![inner, outer]);
        // On v2 a group's own children get a controller only if it hands it on.
        let _ = std::fs::write(groups.0[1].join("cgroup.subtree_control"), "+hugetlb");
        std::fs::create_dir(&groups.0[0]).expect("inner group");
        groups
    }

    fn write(&self, which: usize, file: &str, text: &str) {
        let path = self.0[which].join(file);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{} = {text}: {error}", path.display()));
    }

    fn enter(&self) -> String {
        format!("echo $$ > '{}' && ", self.0[0].join("cgroup.procs").display())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.0 {
            common::eventually(&format!("{} removed", group.display()), || {
                !group.exists() || std::fs::remove_dir(group).is_ok()
            });
        }
    }
}

/// Where a controller is: the folder of its hierarchy (on v1 that of this process's own group), and its version.
fn hierarchy(controller: &str) -> Option<(PathBuf, u8)> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let point = |fs: &str, option: &str| {
        let line = mounts.lines().rev().find(|line| {
            let Some((_, right)) = line.split_once(" - ") else { return false };
            let mut words = right.split(' ');
            words.next() == Some(fs)
                && (option.is_empty() || words.nth(1).is_some_and(|all| all.split(',').any(|one| one == option)))
        })?;
        line.split(' ').nth(4).map(PathBuf::from)
    };
    if let Some(point) = point("cgroup", controller) {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own
            .lines()
            .find_map(|line| line.split_once(&format!(":{controller}:")).map(|(_, path)| path.to_owned()))?;
        return Some((point.join(own.trim_start_matches('/')), 1));
    }
    let point = point("cgroup2", "")?;
    let there = std::fs::read_to_string(point.join("cgroup.controllers")).ok()?;
    there.split_whitespace().any(|one| one == controller).then_some((point, 2))
}

/// Controllers that a v2 hierarchy hands on, as they were.
struct HandedOn(PathBuf, bool);

impl HandedOn {
    fn hugetlb(root: &Path) -> Self {
        let file = root.join("cgroup.subtree_control");
        let had = std::fs::read_to_string(&file).is_ok_and(|text| text.contains("hugetlb"));
        std::fs::write(&file, "+hugetlb").expect("root of the hierarchy");
        HandedOn(file, had)
    }
}

impl Drop for HandedOn {
    fn drop(&mut self) {
        if !self.1 {
            let _ = std::fs::write(&self.0, "-hugetlb");
        }
    }
}

#[test]
#[ignore = "makes control groups; run by make test with --ignored --test-threads=1"]
fn host_limits_of_groups_are_mended_by_the_commands_given() {
    let shell = Shell::new();
    let mut seen = 0;
    if let Some((root, version)) = hierarchy("hugetlb") {
        let _handed_on = (version == 2).then(|| HandedOn::hugetlb(&root));
        let groups = Groups::make(&root);
        let file = if version == 2 { "hugetlb.2MB.max" } else { "hugetlb.2MB.limit_in_bytes" };
        for (which, bytes) in [(0, "0"), (0, "8388608"), (1, "8388608")] {
            groups.write(which, file, bytes);
            shell.mends(&[], &groups.enter(), "cgroup.hugetlb_limited");
            seen += 1;
        }
        // Both at once, and what is reserved as well.
        groups.write(0, file, "8388608");
        groups.write(1, file, "4194304");
        shell.mends(&[], &groups.enter(), "cgroup.hugetlb_limited");
        groups.write(0, &file.replace("2MB.", "2MB.rsvd."), "4194304");
        shell.mends(&[], &groups.enter(), "cgroup.hugetlb_limited");
    }
    if let Some((root, version)) = hierarchy("memory") {
        let groups = Groups::make(&root);
        let file = if version == 2 { "memory.max" } else { "memory.limit_in_bytes" };
        for which in [0, 1] {
            groups.write(which, file, "536870912");
            shell.mends(&[], &groups.enter(), "cgroup.memory_limited");
            seen += 1;
        }
        // Memory and swap together stand in the way of more memory.
        let both = groups.0[0].join("memory.memsw.limit_in_bytes");
        groups.write(0, file, "536870912");
        if both.exists() && std::fs::write(&both, "536870912").is_ok() {
            shell.mends(&[], &groups.enter(), "cgroup.memory_limited");
            seen += 1;
        }
    }
    println!("{seen} limits");
    assert!(seen > 0, "neither controller is on this host");
}

/// Limits that belong to a shell are mended in that shell.
#[test]
#[ignore = "needs root to raise a hard limit; run by make test with --ignored --test-threads=1"]
fn host_limits_of_a_shell_are_mended_by_the_commands_given() {
    const LOOK: &str = "\"$FIXTURE\" findings | grep -c '^ID$'; ";
    let shell = Shell::new();
    let findings = |id: &str| {
        let report = look(Path::new("/"), std::process::id());
        report.findings.into_iter().find(|finding| finding.id == id).and_then(|finding| finding.fix)
    };
    assert_eq!(findings("rlimit.memlock_small"), None, "the test's own limit is large enough");
    // Root of a container may not raise a hard limit (CAP_SYS_RESOURCE); what needs that is held to literal text elsewhere.
    let (_, may_raise) = shell.run("sh", &["-c", "prlimit --pid $$ --memlock=unlimited:unlimited"]);
    println!("a hard limit can be raised here: {may_raise}");
    for (limit, fix, raises) in [
        ("prlimit --pid $$ --memlock=65536:unlimited; ", "ulimit -l unlimited", true),
        ("prlimit --pid $$ --memlock=65536:4194304; ", "ulimit -S -l 4096", false),
        ("prlimit --pid $$ --memlock=65536:65536; ", "sudo prlimit --pid $$ --memlock=unlimited:unlimited", true),
    ] {
        let look = LOOK.replace("ID", "rlimit.memlock_small");
        let script = format!("{limit}{look}\"$FIXTURE\" fix rlimit.memlock_small; {fix}; {look}");
        if may_raise || !raises {
            let (said, _) = shell.run("sh", &["-c", &script]);
            assert_eq!(said.lines().collect::<Vec<_>>(), ["1", fix, "0"], "{limit}");
        }
    }
    // A shell of its own kind of System V memory: its limits are nobody else's.
    for fault in ["echo 1048576 > /proc/sys/kernel/shmmax; ", "echo 10 > /proc/sys/kernel/shmall; "] {
        shell.mends(&["unshare", "--ipc", "sh"], fault, "sysv.segments_limited");
    }
    // Switched off for a process and all that it starts: the command is a shell without it, into which one types on.
    let look = LOOK.replace("ID", "thp.disabled_for_process");
    let script = format!(
        "{look} fix=$(\"$FIXTURE\" fix thp.disabled_for_process); echo \"$fix\"; printf '%s\\n' '{look}' > typed; \
         sh -c \"$fix\" < typed"
    );
    let mut command = shell.command(MEMORY);
    command.args(["thp-disabled", "sh", "-c", &script]).current_dir(shell.tools.path());
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [before, fix, after] = lines.as_slice() else { panic!("{said} {}", String::from_utf8_lossy(&output.stderr)) };
    assert_eq!((*before, *after), ("1", "0"), "{fix}");
    assert!(fix.starts_with("pagelab hugepages exec"), "{fix}");
}

/// Bytes of this process in transparent huge pages.
fn in_huge_pages() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("rollup");
    let line = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).expect("a line");
    line.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<usize>().ok()).expect("a number") << 10
}

/// Memory of `slots` slots of 2 MiB, each touched once; how many of them came as huge pages. It goes when this is
/// dropped.
struct Touched {
    start: *mut u8,
    bytes: usize,
    got: usize,
}

impl Touched {
    fn slots(count: usize) -> Self {
        let bytes = (count + 1) * HUGE;
        let before = in_huge_pages();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new map; what is touched lies in it, at multiples of 2 MiB from its first one on.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert!(start != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
            assert_eq!(libc::madvise(start, bytes, libc::MADV_HUGEPAGE), 0);
            let start = start.cast::<u8>();
            let first = start.align_offset(HUGE);
            for slot in 0..count {
                start.add(first + slot * HUGE).write_volatile(1);
            }
            start
        };
        Touched { start, bytes, got: (in_huge_pages() - before) / HUGE }
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        // SAFETY: the map that was made above; nothing points into it.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// As many huge pages as the doctor says could be had are asked for, without compaction; at most 2 GiB, for the host's sake.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_as_many_huge_pages_can_be_had_as_the_doctor_says() {
    const MOST: usize = 1024;
    let before = SetBack::of(&["sysctl.vm.min_free_kbytes", "thp.enabled", "thp.2M.enabled", "thp.defrag"]);
    write("thp.enabled", "madvise");
    write("thp.2M.enabled", "inherit");
    write("thp.defrag", "never");
    let free = || -> FreeMemory { look(Path::new("/"), std::process::id()).free_memory.expect("buddyinfo") };
    for asked in [16, 128, MOST] {
        let predicted = usize::try_from(free().huge_pages_now).expect("a number");
        // Where fewer are there than are asked for, some more are tried: those should not be had.
        let tried = if predicted < asked { predicted + 64 } else { asked };
        let touched = Touched::slots(tried);
        let left = usize::try_from(free().huge_pages_now).expect("a number");
        let expected = tried.min(predicted);
        println!(
            "could be had {predicted}, asked {tried}, expected {expected}, got {}, then {left} left (unlisted {:?} bytes)",
            touched.got,
            free().unlisted_bytes
        );
        // Others work on this host meanwhile; lists of single CPUs hold a few.
        assert!(touched.got.abs_diff(expected) <= expected / 50 + 4, "{} of {expected}", touched.got);
        let taken = predicted.saturating_sub(left);
        assert!(
            taken.abs_diff(touched.got) <= touched.got / 4 + 256,
            "{taken} went from the lists for {}",
            touched.got
        );
    }
    before.put();
    assert_eq!(before.now(), before.0);
}
