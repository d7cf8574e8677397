//! Bringing a lab up: packages, initramfs, boot, and whether the guest is as requested.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_output::Lock;

use crate::accel::{self, KVM_CPUS, TCG_CPU, Verdict};
use crate::apt::{Apt, newest_kernel};
use crate::channel::{Channel, Received};
use crate::console;
use crate::error::{LabError, Result};
use crate::event::Event;
use crate::folders::{Folders, make_private, write_whole};
use crate::frame::Kind;
use crate::initramfs::Parts;
use crate::interrupt;
use crate::kmod::{self, Target};
use crate::lab::{self, STATE, State, now_ns};
use crate::modules::Modules;
use crate::options::{Accel, Options, PmemKind};
use crate::qemu::{self, AGENT_SOCKET, INITRAMFS, Machine};
use crate::run::{self, Exit, Limits, SHOWN_BYTES};
use crate::supervisor::{CONSOLE, ENDED, Ended, KEEP, QEMU_LOG, QUIT, SPEC, SUPERVISOR_COMMAND, Spec};

/// How long a command of the lab's own may take in the guest.
const OWN_COMMAND: Duration = Duration::from_mins(1);
/// How often it is looked whether QEMU is still there.
const TURN: Duration = Duration::from_millis(50);
/// An NVDIMM's namespace keeps a part of it for itself: 64 bytes a page, and alignment.
const NAMESPACE_SHARE: f64 = 0.9;

/// A lab that has come up.
pub(crate) struct Up {
    pub(crate) folder: PathBuf,
    pub(crate) state: State,
    /// The supervisor of a lab that ends with this process.
    pub(crate) bound: Option<Supervisor>,
}

/// Brings a lab up.
pub(crate) fn up(folders: &Folders, options: &Options, say: &mut dyn FnMut(Event)) -> Result<Up> {
    options.validate()?;
    let mut options = options.clone();
    // QEMU works in the lab's folder.
    for folder in [&mut options.share, &mut options.mirror].into_iter().flatten() {
        *folder = fs::canonicalize(&*folder).map_err(LabError::io(folder))?;
    }
    let options = &options;
    let qemu = qemu::find(options.qemu.as_deref())?;
    let folder = folders.lab(&options.name)?;
    make_private(&folders.run)?;
    let _turn = claim(&folder, &options.name)?;
    let mut scene = Scene { folder: folder.clone(), keep: false };
    let kernel = prepare(folders, options, &folder, say)?;
    let mut boot = Boot {
        folders,
        options,
        folder: &folder,
        qemu,
        kernel: &kernel.image,
        hung: 0,
        no_kvm: None,
        tried_kvm: false,
    };
    let booted = boot.boot(say)?;
    let state = settle(&boot, &booted, &kernel, say)?;
    write_whole(&folder.join(STATE), &serde_json::to_vec_pretty(&state).unwrap_or_default())?;
    let bound = if options.bound {
        Some(booted.supervisor)
    } else {
        booted.supervisor.let_go()?;
        None
    };
    // QEMU has read it.
    let _ = fs::remove_file(folder.join(INITRAMFS));
    scene.keep = true;
    Ok(Up { folder, state, bound })
}

/// Makes the lab's folder, empty, and holds the lock on it (the folder's own, not that of what runs) while the lab comes
/// up: of two `up` at the same time one is refused.
fn claim(folder: &Path, name: &str) -> Result<Lock> {
    let taken = || LabError::AlreadyUp {
        name: name.to_owned(),
        pid: lab::holder(folder).map_or(0, |holder| holder.supervisor),
    };
    loop {
        make_private(folder)?;
        let turn = Lock::try_take(File::open(folder).map_err(LabError::io(folder))?).map_err(|_| taken())?;
        if lab::is_alive(folder) {
            return Err(taken());
        }
        let found = turn.file().metadata().map_err(LabError::io(folder))?.ino();
        // A `down` or another `up` may have removed it before it was locked.
        if fs::metadata(folder).is_ok_and(|named| named.ino() == found) {
            // What is left of one that ended by itself.
            for entry in fs::read_dir(folder).map_err(LabError::io(folder))?.flatten() {
                fs::remove_file(entry.path()).map_err(LabError::io(folder))?;
            }
            return Ok(turn);
        }
    }
}

/// Removes the lab's folder unless all went well.
struct Scene {
    folder: PathBuf,
    keep: bool,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !self.keep {
            let _ = lab::end(&self.folder);
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A kernel to boot.
struct KernelFiles {
    /// The package with its version.
    title: String,
    image: PathBuf,
    release: String,
}

/// Fetches what is needed and writes the initramfs.
fn prepare(folders: &Folders, options: &Options, folder: &Path, say: &mut dyn FnMut(Event)) -> Result<KernelFiles> {
    let apt = Apt::open(&folders.cache, options.refresh, say)?;
    let package = newest_kernel(&apt, options.vm.kernel)?;
    let kernel = package.unpack(&apt, say)?;
    package.prune_others(&apt, &format!("linux-image-{}.", options.vm.kernel.name()));
    let busybox = apt.unpacked_package("busybox-static", say)?.root.join("bin/busybox");
    let mut modules = Modules::open(&kernel.root, &busybox)?;
    let release = modules.release.clone();
    let target = Target { package: &package, release: &release, series: options.vm.kernel.name() };
    for built in kmod::build(&apt, &folders.cache, &options.vm.modules, target, say)? {
        modules.add(built.module, built.file);
    }
    let image = kernel.root.join(format!("boot/vmlinuz-{release}"));
    if !image.is_file() {
        return Err(LabError::Kernel { kernel: kernel.title, why: format!("it has no boot/vmlinuz-{release}") });
    }
    let config = kernel.root.join(format!("boot/config-{release}"));
    let bytes = Parts::collect(options, modules, &busybox, &apt, say)?.write(&folder.join(INITRAMFS), &config)?;
    say(Event::Built { bytes });
    Ok(KernelFiles { title: kernel.title, image, release })
}

/// One lab being booted.
struct Boot<'a> {
    folders: &'a Folders,
    options: &'a Options,
    folder: &'a Path,
    qemu: PathBuf,
    kernel: &'a Path,
    /// Boots that hung.
    hung: u32,
    no_kvm: Option<String>,
    /// Whether that was found out just now.
    tried_kvm: bool,
}

/// A guest whose agent has answered.
struct Booted {
    supervisor: Supervisor,
    machine: Machine,
    took: Duration,
    /// What the agent says of the guest: `key=value` lines.
    facts: String,
}

impl Boot<'_> {
    /// Boots, by KVM if that works, and again if it hangs.
    fn boot(&mut self, say: &mut dyn FnMut(Event)) -> Result<Booted> {
        if let Some(booted) = self.by_kvm(say)? {
            return Ok(booted);
        }
        if let Some(why) = &self.no_kvm {
            say(Event::NoKvm { why: why.clone() });
        }
        let booted = self.repeat(Machine::Tcg, TCG_CPU, say)?;
        // Only now is it known that it was KVM's fault and not that of kernel, initramfs or QEMU.
        if self.tried_kvm {
            Verdict::write(&self.folders.cache, Machine::Tcg, TCG_CPU, self.no_kvm.clone())?;
        }
        Ok(booted)
    }

    /// `None` if KVM is not to be used; why is in `no_kvm`.
    fn by_kvm(&mut self, say: &mut dyn FnMut(Event)) -> Result<Option<Booted>> {
        match (self.options.vm.accel, self.options.vm.icount_shift) {
            (Accel::Tcg, _) => self.no_kvm = Some("tcg was asked for".to_owned()),
            (Accel::Auto, Some(_)) => self.no_kvm = Some("only an emulator counts instructions".to_owned()),
            (accel, _) => {
                let known = Verdict::read(&self.folders.cache).filter(|_| accel == Accel::Auto);
                match known {
                    Some(verdict) if verdict.machine == Machine::Kvm => {
                        return self.repeat(Machine::Kvm, &verdict.cpu, say).map(Some);
                    }
                    Some(verdict) => {
                        let why = verdict.why.unwrap_or_default();
                        self.no_kvm = Some(format!("{why} (found out since this host came up; try anew: --accel kvm)"));
                    }
                    None => return self.try_kvm(say),
                }
            }
        }
        Ok(None)
    }

    fn try_kvm(&mut self, say: &mut dyn FnMut(Event)) -> Result<Option<Booted>> {
        let must = self.options.vm.accel == Accel::Kvm;
        if let Some(why) = accel::no_kvm() {
            if must {
                let needed = "a processor with virtualisation, and rights to /dev/kvm; or tcg".to_owned();
                return Err(LabError::Option { option: "--accel", found: format!("kvm, but {why}"), needed });
            }
            self.no_kvm = Some(why);
            return Ok(None);
        }
        let mut last = None;
        for cpu in KVM_CPUS {
            let error = match self.once(Machine::Kvm, cpu, 1, self.options.kvm_limit, say) {
                Ok(booted) => {
                    Verdict::write(&self.folders.cache, Machine::Kvm, cpu, None)?;
                    return Ok(Some(booted));
                }
                Err(error @ (LabError::QemuFailed { .. } | LabError::BootHang { .. })) => error,
                // A guest that panics runs: that is not KVM's fault.
                Err(error) => return Err(error),
            };
            last = Some(error);
        }
        let Some(error) = last else { return Ok(None) };
        if must {
            return Err(error);
        }
        let why = match &error {
            LabError::BootHang { limit_s, .. } => format!("a guest did not answer within {limit_s} s under it"),
            LabError::QemuFailed { said, how, .. } => format!("QEMU ended under it ({how}): {}", last_line(said)),
            other => other.to_string(),
        };
        (self.no_kvm, self.tried_kvm) = (Some(why), true);
        Ok(None)
    }

    /// Boots until it works, as often as is allowed.
    fn repeat(&mut self, machine: Machine, cpu: &str, say: &mut dyn FnMut(Event)) -> Result<Booted> {
        let limit = self.options.boot_limit;
        let mut attempt = 1;
        loop {
            match self.once(machine, cpu, attempt, limit, say) {
                Err(LabError::BootHang { limit_s, console, .. }) => {
                    self.hung += 1;
                    say(Event::Hung { attempt, after: limit, last: last_line(&console) });
                    if attempt >= self.options.boot_attempts {
                        return Err(LabError::BootHang { limit_s, attempts: attempt, console });
                    }
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Boots once.
    fn once(
        &self,
        machine: Machine,
        cpu: &str,
        attempt: u32,
        limit: Duration,
        say: &mut dyn FnMut(Event),
    ) -> Result<Booted> {
        say(Event::Booting { machine, attempt, limit });
        let spec = Spec {
            program: self.qemu.clone(),
            arguments: qemu::arguments(self.options, machine, cpu, self.kernel),
            console_bytes: self.options.console_bytes,
        };
        let _ = fs::remove_file(self.folder.join(ENDED));
        write_whole(&self.folder.join(SPEC), &serde_json::to_vec(&spec).unwrap_or_default())?;
        let begin = Instant::now();
        let mut supervisor = Supervisor::start(self.options, self.folder)?;
        let facts = self.await_agent(&mut supervisor, begin + limit)?.ok_or_else(|| LabError::BootHang {
            limit_s: limit.as_secs(),
            attempts: 1,
            console: console::tail(self.folder, CONSOLE, SHOWN_BYTES),
        })?;
        Ok(Booted { supervisor, machine, took: begin.elapsed(), facts })
    }

    /// What the agent says of the guest; `None` if it says nothing until the deadline.
    fn await_agent(&self, supervisor: &mut Supervisor, deadline: Instant) -> Result<Option<String>> {
        let mut channel: Option<Channel> = None;
        while Instant::now() < deadline {
            interrupt::check()?;
            if let Some(why) = supervisor.ended() {
                return Err(self.failed(&why));
            }
            match &mut channel {
                None => {
                    std::thread::sleep(TURN);
                    channel = Channel::connect(self.folder, AGENT_SOCKET).ok();
                }
                Some(open) => match open.receive(deadline) {
                    Ok(Received::Frame(frame)) if frame.kind == Kind::Ready => {
                        return Ok(Some(String::from_utf8_lossy(&frame.payload).into_owned()));
                    }
                    Ok(Received::Frame(_) | Received::Nothing) => {}
                    // QEMU has ended, or is about to.
                    Ok(Received::Closed) | Err(_) => channel = None,
                },
            }
        }
        Ok(None)
    }

    /// Why there is no guest, when QEMU or its supervisor has ended.
    fn failed(&self, why: &str) -> LabError {
        let console = console::tail(self.folder, CONSOLE, SHOWN_BYTES);
        let said = console::tail(self.folder, QEMU_LOG, SHOWN_BYTES);
        if let Some(what) = console::panic_words(&console::since(self.folder, CONSOLE, 0, 64 << 10)) {
            return LabError::GuestPanic { what, console };
        }
        let how = fs::read(self.folder.join(ENDED)).ok();
        if let Some(ended) = how.and_then(|bytes| serde_json::from_slice::<Ended>(&bytes).ok()) {
            return LabError::QemuFailed { how: ended.how, said, console };
        }
        LabError::Supervisor { exe: exe(self.options).display().to_string(), why: why.to_owned() }
    }
}

/// The process that supervises QEMU. Until it is let go it ends with this value, and with this process.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Child,
    /// Closes when this process dies.
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Supervisor {
    fn start(options: &Options, folder: &Path) -> Result<Self> {
        let exe = exe(options);
        let log = folder.join("supervisor.log");
        let errors = File::create(&log).map_err(LabError::io(&log))?;
        let mut command = Command::new(&exe);
        command.arg(SUPERVISOR_COMMAND).arg(folder).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors);
        // SAFETY: two system calls; nothing else happens between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // The lab outlives this process: whoever waits until what this process was given is closed (flock(1),
                // the reader of a pipe) does not wait for the lab. A kernel without the call leaves it as it is.
                libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_uint);
                rustix::process::setsid().map(|_| ()).map_err(std::io::Error::from)
            });
        }
        let mut child = command
            .spawn()
            .map_err(|error| LabError::Supervisor { exe: exe.display().to_string(), why: error.to_string() })?;
        let lifeline = child.stdin.take();
        Ok(Supervisor { child, lifeline, log })
    }

    /// Its output, if it has ended.
    fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                Some(format!("{status}: {}", said.trim()))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// From here on the lab lives without this process.
    fn let_go(mut self) -> Result<()> {
        if let Some(mut lifeline) = self.lifeline.take() {
            lifeline.write_all(&[KEEP]).map_err(LabError::io(&self.log))?;
        }
        Ok(())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Where it was let go the pipe is gone already.
        if let Some(mut lifeline) = self.lifeline.take() {
            let _ = lifeline.write_all(&[QUIT]);
            drop(lifeline);
            let _ = self.child.wait();
        }
    }
}

fn exe(options: &Options) -> PathBuf {
    // The link leads to the running program even after its file was replaced.
    options.supervisor.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

fn last_line(text: &str) -> String {
    text.trim_end().lines().last().unwrap_or("(nothing)").trim().to_owned()
}

/// Compares the guest with the request, and makes its persistent memory usable.
fn settle(boot: &Boot, booted: &Booted, kernel: &KernelFiles, say: &mut dyn FnMut(Event)) -> Result<State> {
    let options = boot.options;
    let fact = |key: &str| booted.facts.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let differs = |what, found: &str, needed: String| LabError::NotAsAsked {
        what,
        found: found.to_owned(),
        needed,
        console: console::tail(boot.folder, CONSOLE, SHOWN_BYTES),
    };
    let release = fact("release").unwrap_or_default();
    if release != kernel.release {
        return Err(differs("the kernel's release", release, kernel.release.clone()));
    }
    let cpus = fact("cpus").unwrap_or_default();
    // Who limits them on the command line asked for fewer.
    let limited = options.vm.cmdline.iter().any(|word| word.starts_with("maxcpus") || word.starts_with("nr_cpus"));
    if cpus != options.vm.cpus.to_string() && !limited {
        return Err(differs("the number of processors", cpus, options.vm.cpus.to_string()));
    }
    let memory_kib: u64 = fact("memory_kib").and_then(|kib| kib.parse().ok()).unwrap_or(0);
    let pmem_bytes = match options.vm.pmem {
        None => None,
        Some(pmem) => {
            if pmem.kind == PmemKind::Nvdimm {
                say(Event::Namespace);
                // Without it the device is raw, and xfs mounts it with `-o dax` but without DAX.
                own(boot, &["ndctl", "create-namespace", "-f", "-e", "namespace0.0", "-m", "fsdax", "--map=mem"])?;
            }
            let sectors = own(boot, &["cat", "/sys/block/pmem0/size"])?;
            let bytes = sectors.trim().parse::<u64>().unwrap_or(0) * 512;
            let least = match pmem.kind {
                PmemKind::Memmap => pmem.bytes,
                PmemKind::Nvdimm => (pmem.bytes as f64 * NAMESPACE_SHARE) as u64,
            };
            if bytes < least || bytes > pmem.bytes {
                return Err(differs("the bytes of /dev/pmem0", &bytes.to_string(), pmem.bytes.to_string()));
            }
            Some(bytes)
        }
    };
    Ok(State {
        options: options.clone(),
        machine: booted.machine,
        no_kvm: boot.no_kvm.clone(),
        kernel_package: kernel.title.clone(),
        release: release.to_owned(),
        cmdline: qemu::cmdline(options),
        cpus: cpus.parse().unwrap_or(0),
        memory_bytes: memory_kib << 10,
        pmem_bytes,
        boot_ms: booted.took.as_millis() as u64,
        hung_boots: boot.hung,
        up_at_ns: now_ns(),
    })
}

/// Runs a command that the lab needs itself; its output.
fn own(boot: &Boot, argv: &[&str]) -> Result<String> {
    let command = run::Command::new(argv.iter().copied());
    let limits = Limits { time: Some(OWN_COMMAND), ..Limits::default() };
    let result = run::run(&boot.options.name, boot.folder, &command, &limits, &mut |_, _| {})?;
    if result.exit == Exit::Status(0) {
        return Ok(String::from_utf8_lossy(&result.stdout.bytes).into_owned());
    }
    let said = String::from_utf8_lossy(&result.stderr.bytes).trim().to_owned();
    Err(LabError::NotAsAsked {
        what: "the persistent memory",
        found: format!("`{}` ended with {:?}: {said}", argv.join(" "), result.exit),
        needed: "status 0".to_owned(),
        console: console::tail(boot.folder, CONSOLE, SHOWN_BYTES),
    })
}
