//! The commands of README.md, word for word, as an ordinary user with sudo runs them one after another in a folder of their
//! own. A command that does not work as it stands there is a bug of the program first, and of the page second.
//!
//! User and sudoers entry live in a mount namespace with an overlay on /etc, and are gone with it. What the page leaves to
//! the reader (a program, a job file, process numbers, a database's file) has a stand-in.

use crate::common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{copy_binary, scratch};
use tempfile::TempDir;

/// What becomes of a command here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is run to its end.
    Run,
    /// It is begun; what follows is done while it runs.
    Begin,
    /// It ends what was begun, after it has been run itself.
    RunAndAwait,
    /// It is begun, told to end with SIGUSR2 as the page says, and awaited.
    BeginAndKeep,
    /// It changes settings of the host for a while.
    Host,
    /// It is run with --dry-run: the whole takes minutes.
    Dry,
    /// It takes minutes, or a VM; the test of the same name carries it out.
    Elsewhere(&'static str),
}

/// How each command begins, in the order of the page.
const COMMANDS: &[(&str, How)] = &[
    ("make demo", How::Elsewhere("tools/demo, by make test; companions::host_the_demo_names_thp demands its cause")),
    ("make build && sudo make install", How::Elsewhere("make_install_puts_the_program_where_sudo_looks")),
    ("make test", How::Elsewhere("this is it")),
    ("make experiments ", How::Elsewhere("tests/reproduce.rs; half an hour")),
    ("sudo pagelab record -o good.rec", How::Run),
    ("pagelab show good.rec summary", How::Run),
    ("pagelab show good.rec budget", How::Run),
    ("pagelab show good.rec profile", How::Run),
    ("pagelab export flamegraph", How::Run),
    ("sudo pagelab record --observe", How::Run),
    ("pagelab show all.rec syscalls", How::Run),
    ("pagelab show all.rec io", How::Run),
    ("pagelab show --base good.rec", How::Run),
    ("sudo pagelab record -o db.rec", How::Begin),
    ("sudo pagelab record -o slice.rec", How::BeginAndKeep),
    ("sudo pagelab mark warm", How::RunAndAwait),
    ("sudo pagelab watch -p 4711", How::Run),
    ("sudo pagelab run job.fio", How::Run),
    ("sudo pagelab run --name=cache", How::Run),
    ("pagelab run --name=check", How::Run),
    ("pagelab run --cmdhelp", How::Run),
    ("sudo pagelab compare -n 10 --setting", How::Host),
    ("pagelab compare -n 5 --value", How::Run),
    ("sudo pagelab compare -n 10 --observe", How::Run),
    ("pagelab compare good.rec all.rec", How::Run),
    ("pagelab report good.rec all.rec", How::Run),
    ("pagelab ui good.rec all.rec", How::Elsewhere("tests/ui.rs: it serves until it is ended")),
    ("pagelab trend nights", How::Elsewhere("tests/trend.rs: weeks of nights")),
    ("sudo pagelab compare old.rec new.rec --confirm", How::Elsewhere("tests/confirm.rs: an allocator's variable")),
    ("sudo pagelab experiment experiments/thp-regression", How::Dry),
    ("sudo pagelab experiment experiments/read-paths", How::Dry),
    ("pagelab doctor", How::Run),
    ("sudo pagelab doctor /var/lib/db/data", How::Run),
    ("sudo pagelab doctor --pid $(pidof", How::Run),
    ("sudo pagelab doctor --pid 4711", How::Run),
    ("sudo pagelab hugepages set", How::Host),
    ("pagelab hugepages plan", How::Run),
    ("sudo pagelab hugepages exec", How::Run),
    ("sudo pagelab hugepages conformance", How::Elsewhere("tests/hugepages.rs")),
    ("pagelab lab up", How::Elsewhere("tests/lab.rs: a VM")),
    ("pagelab lab run", How::Elsewhere("tests/lab.rs: a VM")),
    ("pagelab lab down", How::Elsewhere("tests/lab.rs: a VM")),
    ("sudo pagelab experiment experiments/two-kernels", How::Elsewhere("tests/lab_plans.rs: VMs")),
    ("sudo pagelab reproduce", How::Elsewhere("tests/reproduce.rs")),
    ("make experiments &&", How::Elsewhere("tests/reproduce.rs; half an hour")),
    ("pagelab fleet compact set fleet", How::Run),
    ("pagelab fleet compare fleet", How::Elsewhere("crates/fleet/tests/compact.rs: many hosts")),
    ("pagelab query set", How::Run),
    ("pagelab mcp set", How::Run),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The indented lines of the page.
fn commands() -> Vec<String> {
    let text = fs::read_to_string(workspace().join("README.md")).expect("README.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    lines.map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_command_of_the_page_is_known_here() {
    let commands = commands();
    let known: Vec<&str> = COMMANDS.iter().map(|(begin, _)| *begin).collect();
    assert_eq!(commands.len(), known.len(), "{commands:#?}");
    for (command, begin) in commands.iter().zip(known) {
        assert!(command.starts_with(begin), "found {command:?}, needed the one that begins {begin:?}");
    }
}

#[test]
fn make_install_puts_the_program_where_sudo_looks() {
    let dir = scratch();
    let (root, workspace) = (dir.path().join("root"), workspace());
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.current_dir(&workspace).args(["--no-print-directory", target]).arg(format!("DESTDIR={}", root.display()));
        make.arg(format!("PAGELAB={}", common::binary().display()));
        common::run(&mut make, 0);
    };
    make("install");
    let installed = root.join("usr/local/bin/pagelab");
    common::run(Command::new(&installed).arg("--version"), 0);
    assert!(root.join("usr/local/share/man/man1/pagelab-record.1").is_file());
    assert!(
        root.join("usr/local/share/bash-completion/completions/pagelab").metadata().expect("it is there").len() > 1000
    );
    make("uninstall");
    assert!(!installed.exists() && !root.join("usr/local/share/man/man1/pagelab-record.1").exists());
}

/// A user called reader, who may use sudo, in a namespace and a folder of their own.
struct Reader {
    dir: TempDir,
    namespace: Child,
    standing: Vec<Child>,
    replaced: Vec<(&'static str, String)>,
    slice: Option<PathBuf>,
}

impl Reader {
    fn new() -> Self {
        let dir = scratch();
        let home = dir.path();
        fs::set_permissions(home, fs::Permissions::from_mode(0o755)).expect("ours");
        for name in ["bin", "etc", "work", "home"] {
            fs::create_dir(home.join(name)).expect("ours");
        }
        copy_binary(&home.join("bin/pagelab"));
        let mut namespace = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep infinity"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is there");
        // Its first line says that the namespace is there.
        let mut byte = [0];
        let mut out = namespace.stdout.take().expect("a pipe");
        std::io::Read::read_exact(&mut out, &mut byte).expect("root may unshare");
        let mut reader = Self { dir, namespace, standing: Vec::new(), replaced: Vec::new(), slice: None };
        let shown = reader.dir.path().display().to_string();
        let setup = format!(
            "set -e; mount -t overlay overlay -o lowerdir=/etc,upperdir={shown}/etc,workdir={shown}/work /etc
             useradd --no-create-home --home-dir {shown}/home --shell /bin/bash reader
             echo 'reader ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/reader
             echo 'Defaults:reader secure_path=\"{shown}/bin:/usr/sbin:/usr/bin:/sbin:/bin\"' >> /etc/sudoers.d/reader
             chmod 440 /etc/sudoers.d/reader; chown reader: {shown}/home"
        );
        let done = reader.inside(&["sh", "-c", &setup]).status().expect("it runs");
        assert!(done.success(), "needed: useradd, sudo and overlayfs; try: make setup-test");
        reader.stand_in();
        reader
    }

    /// A command of root's in the namespace.
    fn inside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.namespace.id().to_string(), "--"]).args(words);
        command
    }

    /// A command line of the reader's, in their folder.
    fn typed(&self, line: &str) -> Command {
        let shown = self.dir.path().display();
        let line = format!("cd {shown}/home && export PATH={shown}/bin:$PATH && {line}");
        self.inside(&["su", "reader", "-c", &line])
    }

    /// What the page leaves to the reader.
    fn stand_in(&mut self) {
        let home = self.dir.path().join("home");
        // Busy for many periods of the sampling clock, of which one is 10 ms.
        let program = "#!/bin/sh\nhead -c 20000000 /dev/zero > written; cat written > /dev/null\nrm written\n\
                       head -c 100000000 /dev/zero | md5sum > /dev/null\necho took 1.5 ms\n";
        fs::write(home.join("your-program"), program).expect("ours");
        fs::set_permissions(home.join("your-program"), fs::Permissions::from_mode(0o755)).expect("ours");
        fs::write(home.join("job.fio"), "[job]\nrw=randread\nbs=4k\nsize=4m\n").expect("ours");
        fs::write(home.join("data"), vec![1; 8 << 20]).expect("ours");
        std::os::unix::fs::symlink(workspace().join("experiments"), home.join("experiments")).expect("ours");
        fs::copy("/bin/sleep", self.dir.path().join("bin/postgres")).expect("a program of that name");
        let made = self.typed("pagelab compare -n 2 -o set -- true true >/dev/null 2>&1").status().expect("it runs");
        assert!(made.success());
        for _ in 0..2 {
            let sleeper = self.typed("exec postgres 600").spawn().expect("it runs");
            self.standing.push(sleeper);
        }
        let until = Instant::now() + Duration::from_secs(30);
        let pids = loop {
            let pids = self.pids_of("postgres");
            if pids.len() == 2 {
                break pids;
            }
            assert!(Instant::now() < until, "two stand-ins were begun, found {pids:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        self.replaced = vec![
            ("4711,4712", format!("{},{}", pids[0], pids[1])),
            ("4711", pids[0].clone()),
            ("/var/lib/db/data", home.join("data").display().to_string()),
        ];
        if !Path::new("/sys/fs/cgroup/system.slice").is_dir() {
            // A machine without systemd; the second version may be mounted next to the first.
            let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
            let root =
                roots.into_iter().find(|root| root.join("cgroup.procs").is_file()).expect("a cgroup file system");
            let slice = root.join(format!("pagelab-readme-{}", std::process::id()));
            fs::create_dir(&slice).expect("root may");
            fs::write(slice.join("cgroup.procs"), &pids[0]).expect("root may");
            self.replaced.push(("/sys/fs/cgroup/system.slice", slice.display().to_string()));
            self.slice = Some(slice);
        }
    }

    /// Processes whose program is the copy of that name in this reader's folder.
    fn pids_of(&self, name: &str) -> Vec<String> {
        let program = self.dir.path().join("bin").join(name);
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let here = |pid: &String| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(here).collect()
    }

    fn as_typed(&self, command: &str) -> String {
        let mut line = command.to_owned();
        for (from, to) in &self.replaced {
            line = line.replace(from, to);
        }
        line
    }

    /// Runs a command of the page, and demands that it does well.
    #[track_caller]
    fn runs(&self, line: &str) {
        let output = self.typed(line).stdin(Stdio::null()).output().expect("su runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // A finding of the doctor is a measured answer.
        let well = output.status.success() || (line.contains(" doctor") && output.status.code() == Some(1));
        assert!(well, "$ {line}\n{}\n{out}\n{err}", output.status);
        let answers = [" show ", " doctor", " compare ", " query ", " plan ", "--cmdhelp"];
        let is_silent = out.trim().is_empty() && answers.iter().any(|word| line.contains(word));
        assert!(!is_silent, "$ {line}\nno answer\n{err}");
    }

    /// What the commands have written is there and what it is said to be.
    fn has_what_was_written(&self) {
        for recording in ["good.rec", "all.rec", "db.rec"] {
            self.runs(&format!("pagelab check {recording}"));
        }
        let home = self.dir.path().join("home");
        let read = |name: &str| fs::read_to_string(home.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read("good.svg").contains("<svg"), "a flame graph");
        assert!(read("why.html").to_lowercase().contains("<!doctype html"), "a page");
        let report: serde_json::Value = serde_json::from_str(&read("report.json")).expect("one document");
        assert_eq!(report["jobs"][0]["jobname"], "job", "{report:#}");
        for recording in ["slice.rec", "run.rec", "cache.rec"] {
            assert!(home.join(recording).join("manifest.json").is_file(), "{recording}");
        }
    }

    fn begin(&self, line: &str, recording: &str) -> Child {
        let mut child = self.typed(line).stdin(Stdio::null()).spawn().expect("su runs");
        let manifest = self.dir.path().join("home").join(recording).join("manifest.json");
        let until = Instant::now() + Duration::from_mins(1);
        while !manifest.exists() {
            let ended = child.try_wait().expect("ours");
            assert!(ended.is_none() && Instant::now() < until, "$ {line}\nbegan no recording: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// Tells the recorder of a recording to keep what it has.
    fn keep(&self, recording: &str) {
        for pid in self.pids_of("pagelab") {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if words.split(|byte| *byte == 0).any(|word| word == recording.as_bytes()) {
                let told = Command::new("kill").args(["-USR2", &pid]).status().expect("kill is there");
                assert!(told.success());
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for pid in self.pids_of("postgres") {
            let _ = Command::new("kill").arg(pid).status();
        }
        for child in &mut self.standing {
            let _ = child.wait();
        }
        if let Some(slice) = &self.slice {
            let _ = fs::remove_dir(slice);
        }
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

#[track_caller]
fn ended_well(mut child: Child, line: &str) {
    let status = child.wait().expect("ours");
    assert!(status.success(), "$ {line}\n{status}");
}

#[test]
fn the_commands_of_the_page_work_word_for_word() {
    let reader = Reader::new();
    let mut begun: Vec<(Child, String)> = Vec::new();
    for (command, (_, how)) in commands().iter().zip(COMMANDS) {
        let line = reader.as_typed(command);
        let _ = writeln!(std::io::stderr(), "$ {line}");
        match how {
            How::Run => reader.runs(&line),
            How::Begin => begun.push((reader.begin(&line, "db.rec"), line)),
            How::BeginAndKeep => {
                let child = reader.begin(&line, "slice.rec");
                reader.keep("slice.rec");
                ended_well(child, &line);
            }
            How::RunAndAwait => {
                reader.runs(&line);
                for (child, line) in begun.drain(..) {
                    ended_well(child, &line);
                }
            }
            How::Dry => reader.runs(&format!("{} --dry-run", line.split(" #").next().unwrap_or(&line).trim())),
            How::Host | How::Elsewhere(_) => {}
        }
    }
    reader.has_what_was_written();
}

/// The two that change settings of this machine: page sizes for the runs of an experiment, which it puts back, and a pool.
#[test]
#[ignore = "changes settings of the host"]
fn host_the_commands_of_the_page_that_change_settings_work() {
    let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    let thp = "/sys/kernel/mm/transparent_hugepage/enabled";
    let read = |path: &str| fs::read_to_string(path).expect("it is there");
    let before = (read(pool), read(thp));
    let reader = Reader::new();
    for (command, _) in commands().iter().zip(COMMANDS).filter(|(_, (_, how))| *how == How::Host) {
        reader.runs(&reader.as_typed(command));
    }
    assert_eq!(read(thp), before.1, "an experiment leaves the host as it was");
    fs::write(pool, &before.0).expect("root");
}
