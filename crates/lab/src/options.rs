//! The options of a lab.
//!
//! [`VmArgs`] are those of the VM as people write them, on the command line or in a plan; [`Vm`] is what they mean. Both are
//! declared here only: `pagelab lab up` has `VmArgs` among its arguments, a plan's `[lab]` is read into them.
//!
//! How to add an option of the VM: a field of [`VmArgs`] with its help, one of [`Vm`], a line in [`VmArgs::vm`], and a check in
//! [`Vm::validate`].

use std::path::PathBuf;
use std::time::Duration;

use pagelab_vocab::nearest::hint_for;
use pagelab_vocab::units::parse_size;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{LabError, Result};

const MIB: u64 = 1 << 20;
/// Less than this and the initramfs leaves the guest no room to work in.
const LEAST_MEMORY: u64 = 256 * MIB;
/// A 2 MiB page is the unit of DAX, and a device takes a little for itself.
const LEAST_PMEM: u64 = 16 * MIB;
/// The kernel cuts its command line off beyond this (COMMAND_LINE_SIZE on x86); some of it is the lab's own.
const LONGEST_CMDLINE: usize = 1800;

/// That a word is none of the known ones.
fn unknown(option: &'static str, found: &str, known: &[&str]) -> LabError {
    let near = hint_for(found, known.iter().copied());
    let needed = match known {
        [first @ .., last] => format!("{} or {last}{near}", first.join(", ")),
        [] => near,
    };
    LabError::Option { option, found: format!("{found:?}"), needed }
}

/// Which of the distribution's kernels boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Kernel {
    /// The kernel of Debian 12.
    #[default]
    #[serde(rename = "6.1")]
    V6_1,
    /// The kernel of its backports suite.
    #[serde(rename = "6.12")]
    V6_12,
}

impl Kernel {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        }
    }

    /// From what was typed.
    pub fn parse(text: &str) -> Result<Self> {
        let kernel = Self::ALL.into_iter().find(|kernel| kernel.name() == text);
        kernel.ok_or_else(|| unknown("--kernel", text, &Self::ALL.map(Self::name)))
    }
}

/// How QEMU runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM where it has booted a guest since this host came up, or does so now; else TCG.
    #[default]
    Auto,
    /// The processor itself; fails where that does not boot.
    Kvm,
    /// Emulated.
    Tcg,
}

impl Accel {
    /// From what was typed.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            _ => Err(unknown("--accel", text, &["auto", "kvm", "tcg"])),
        }
    }
}

/// How the persistent memory comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PmemKind {
    /// `memmap=` on the kernel's command line: memory that the kernel takes for persistent.
    #[default]
    Memmap,
    /// An NVDIMM of QEMU's, with a namespace of mode fsdax.
    Nvdimm,
}

impl PmemKind {
    /// From what was typed.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "memmap" => Ok(Self::Memmap),
            "nvdimm" => Ok(Self::Nvdimm),
            _ => Err(unknown("--pmem-kind", text, &["memmap", "nvdimm"])),
        }
    }
}

/// Emulated persistent memory: /dev/pmem0 in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pmem {
    /// Its size, a multiple of 128 MiB.
    pub bytes: u64,
    /// How it comes to be.
    pub kind: PmemKind,
}

/// A program that the guest gets from the host, with its shared libraries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// A path, or a name that is looked for in the usual folders. It is found in the guest under its last part, in
    /// /usr/bin.
    pub path: PathBuf,
    /// Leave out debug information, which is most of it. Its symbols stay: samples and stacks in the guest are named by them.
    pub strip: bool,
}

impl Program {
    /// With everything that is in it.
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Program { path: path.into(), strip: false }
    }

    /// Without debug information.
    pub fn stripped(path: impl Into<PathBuf>) -> Self {
        Program { path: path.into(), strip: true }
    }
}

/// The VM of a lab, as people write it.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct VmArgs {
    /// The distribution's 6.1, or the 6.12 of its backports.
    #[arg(long, default_value_t = Self::default().kernel)]
    #[serde(deserialize_with = "kernel_name")]
    pub kernel: String,
    /// Further kernel parameters, separated by blanks; may be given again.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_more")]
    pub cmdline: Vec<String>,
    /// Guest RAM, without persistent memory.
    #[arg(long, default_value_t = Self::default().memory, value_name = "SIZE")]
    #[serde(deserialize_with = "size")]
    pub memory: String,
    /// Processors.
    #[arg(long, default_value_t = Self::default().cpus)]
    pub cpus: u32,
    /// Persistent memory, /dev/pmem0 in the guest; `none` for none.
    #[arg(long, default_value_t = Self::default().pmem, value_name = "SIZE")]
    #[serde(deserialize_with = "size")]
    pub pmem: String,
    /// `memmap`: memory that the kernel takes for persistent; `nvdimm`: a device of QEMU's with a namespace of mode fsdax.
    #[arg(long, default_value_t = Self::default().pmem_kind, value_name = "KIND")]
    pub pmem_kind: String,
    /// Count instructions: each takes 2^SHIFT ns of the guest's time.
    #[arg(long, value_name = "SHIFT")]
    pub icount: Option<u8>,
    /// `auto`: KVM where it boots a guest, else emulation; `kvm`; `tcg`.
    #[arg(long, default_value_t = Self::default().accel)]
    pub accel: String,
    /// A kernel module beyond those that every lab has, or one of pagelab's own, which is built first: `ramblk`,
    /// `ext4-dax-read`; may be given again.
    #[arg(long = "module", value_name = "NAME")]
    #[serde(deserialize_with = "one_or_more")]
    pub modules: Vec<String>,
    /// A program of the host for the guest, with its libraries; may be given again.
    #[arg(long = "program", value_name = "PATH")]
    #[serde(deserialize_with = "one_or_more")]
    pub programs: Vec<PathBuf>,
}

impl Default for VmArgs {
    fn default() -> Self {
        VmArgs {
            kernel: Kernel::default().name().to_owned(),
            cmdline: Vec::new(),
            memory: "1G".to_owned(),
            cpus: 2,
            pmem: "1G".to_owned(),
            pmem_kind: "memmap".to_owned(),
            icount: None,
            accel: "auto".to_owned(),
            modules: Vec::new(),
            programs: Vec::new(),
        }
    }
}

impl VmArgs {
    /// What they mean.
    ///
    /// # Errors
    /// [`LabError::Option`] about the first one that means nothing, or that no VM can have.
    pub fn vm(&self) -> Result<Vm> {
        let kind = PmemKind::parse(&self.pmem_kind)?;
        let pmem_bytes = match self.pmem.as_str() {
            "none" => 0,
            text => bytes("--pmem", text, "\"none\", or ")?,
        };
        let vm = Vm {
            kernel: Kernel::parse(&self.kernel)?,
            cmdline: self.cmdline.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect(),
            memory_bytes: bytes("--memory", &self.memory, "")?,
            cpus: self.cpus,
            pmem: (pmem_bytes > 0).then_some(Pmem { bytes: pmem_bytes, kind }),
            icount_shift: self.icount,
            accel: Accel::parse(&self.accel)?,
            modules: self.modules.clone(),
        };
        if self.programs.iter().any(|program| program.to_string_lossy().trim().is_empty()) {
            let needed = "the name or path of a program of this host".to_owned();
            return Err(LabError::Option { option: "--program", found: "an empty name".to_owned(), needed });
        }
        vm.validate()?;
        Ok(vm)
    }
}

/// A size of the VM. `or` is what may stand there instead.
fn bytes(option: &'static str, text: &str, or: &str) -> Result<u64> {
    parse_bytes(option, text).map_err(|_| LabError::Option {
        option,
        found: format!("{text:?}"),
        needed: format!("{or}a size such as \"512M\" or \"1G\": bytes, or a number with K, M, G or T"),
    })
}

/// Without quotes a kernel's series is a number for TOML, and 6.10 the same as 6.1.
fn kernel_name<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    let known = Kernel::ALL.map(Kernel::name).join(" or ");
    String::deserialize(deserializer).map_err(|_| D::Error::custom(format_args!("{known}, in quotes")))
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a size such as \"512M\" or \"1G\", or bytes")]
    enum Size {
        Text(String),
        Bytes(u64),
    }
    Ok(match Size::deserialize(deserializer)? {
        Size::Text(text) => text,
        Size::Bytes(bytes) => bytes.to_string(),
    })
}

fn one_or_more<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "text in quotes, or a list of them in [ ]")]
    enum Texts<T> {
        One(T),
        List(Vec<T>),
    }
    Ok(match Texts::deserialize(deserializer)? {
        Texts::One(text) => vec![text],
        Texts::List(list) => list,
    })
}

/// The VM of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// The kernel.
    pub kernel: Kernel,
    /// Parameters for the kernel, after the lab's own.
    pub cmdline: Vec<String>,
    /// Memory without the persistent one, bytes.
    pub memory_bytes: u64,
    /// Processors.
    pub cpus: u32,
    /// Persistent memory.
    pub pmem: Option<Pmem>,
    /// Count instructions: every guest instruction takes `2^shift` ns of the guest's time.
    pub icount_shift: Option<u8>,
    /// How instructions are run.
    pub accel: Accel,
    /// Kernel modules for the guest's modprobe, beyond those that every lab has. `ramblk` and `ext4-dax-read` are the
    /// lab's own and are built first.
    pub modules: Vec<String>,
}

/// What [`VmArgs::default`] means.
impl Default for Vm {
    fn default() -> Self {
        Vm {
            kernel: Kernel::default(),
            cmdline: Vec::new(),
            memory_bytes: 1 << 30,
            cpus: 2,
            pmem: Some(Pmem { bytes: 1 << 30, kind: PmemKind::Memmap }),
            icount_shift: None,
            accel: Accel::Auto,
            modules: Vec::new(),
        }
    }
}

impl Vm {
    /// Whether there can be such a VM.
    ///
    /// # Errors
    /// [`LabError::Option`] about the first option that cannot be.
    pub fn validate(&self) -> Result<()> {
        if self.memory_bytes < LEAST_MEMORY || !self.memory_bytes.is_multiple_of(MIB) {
            return refuse("--memory", format!("{} bytes", self.memory_bytes), "256M or more, in whole MiB");
        }
        if !(1..=64).contains(&self.cpus) {
            return refuse("--cpus", self.cpus.to_string(), "1 to 64");
        }
        // 128 MiB is the unit in which the kernel manages persistent memory.
        if let Some(pmem) = self.pmem
            && (pmem.bytes < LEAST_PMEM || !pmem.bytes.is_multiple_of(128 * MIB))
        {
            return refuse("--pmem", format!("{} bytes", pmem.bytes), "a multiple of 128M");
        }
        if let Some(shift) = self.icount_shift {
            if shift > 10 {
                return refuse(
                    "--icount",
                    shift.to_string(),
                    "0 to 10, the guest's ns per instruction as a power of two",
                );
            }
            if self.accel == Accel::Kvm {
                return refuse("--accel", "kvm together with --icount".to_owned(), "tcg: only an emulator counts");
            }
        }
        if self.cmdline.iter().map(|word| word.len() + 1).sum::<usize>() > LONGEST_CMDLINE {
            return refuse("--cmdline", self.cmdline.join(" "), "at most 1800 bytes");
        }
        if let Some(bad) = self.cmdline.iter().find(|word| word.contains(['\n', '\0'])) {
            return refuse("--cmdline", format!("{bad:?}"), "one line");
        }
        if let Some(bad) = self.modules.iter().find(|name| !is_word(name)) {
            return refuse("--module", bad.clone(), "the name of a kernel module");
        }
        Ok(())
    }
}

/// What a lab is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Its name: letters, digits, `-` and `_`. There may be one lab of each name.
    pub name: String,
    /// Its VM.
    #[serde(flatten)]
    pub vm: Vm,
    /// A folder of the host that the guest sees as /share, to read and to write.
    pub share: Option<PathBuf>,
    /// A folder of the host that the guest sees under the same path. What the guest writes there stays in its memory.
    #[serde(default)]
    pub mirror: Option<PathBuf>,
    /// Programs of the host for the guest, beyond mkfs.ext4, mkfs.xfs and, for an NVDIMM, ndctl.
    pub programs: Vec<Program>,
    /// The lab ends with the value that [`crate::Lab::up`] gives, and with this process, however that ends.
    #[serde(default)]
    pub bound: bool,
    /// How long one boot may take.
    pub boot_limit: Duration,
    /// How often a boot that hangs is tried.
    pub boot_attempts: u32,
    /// How long KVM has to boot a guest before it counts as not working.
    pub kvm_limit: Duration,
    /// Bytes of the guest's console that are kept, its end; about twice as many lie on disk.
    pub console_bytes: u64,
    /// Read the package lists anew even if they are not old.
    pub refresh: bool,
    /// QEMU; `None` is `qemu-system-x86_64` in PATH.
    pub qemu: Option<PathBuf>,
    /// The program that is started as `PROGRAM __lab DIR`; `None` is the running one.
    pub supervisor: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            name: "default".to_owned(),
            vm: Vm::default(),
            share: None,
            mirror: None,
            programs: Vec::new(),
            bound: false,
            // A boot takes 6 to 16 s on an idle host; this one may be compiling.
            boot_limit: Duration::from_secs(90),
            boot_attempts: 3,
            kvm_limit: Duration::from_secs(10),
            console_bytes: MIB,
            refresh: false,
            qemu: None,
            supervisor: None,
        }
    }
}

impl Options {
    /// Whether this can be; nothing is looked up but the folders named.
    ///
    /// # Errors
    /// [`LabError::Option`] about the first option that cannot be.
    pub fn validate(&self) -> Result<()> {
        check_name(&self.name)?;
        self.vm.validate()?;
        if let Some(share) = &self.share
            && (!share.is_dir() || share.to_string_lossy().contains(['\n', '\0']))
        {
            return refuse("--share", share.display().to_string(), "a folder");
        }
        if let Some(mirror) = &self.mirror
            && let Err(needed) = check_mirror(mirror)
        {
            return refuse("--mirror", mirror.display().to_string(), &needed);
        }
        if self.boot_attempts == 0 || self.boot_limit.is_zero() {
            return refuse(
                "--boot-limit",
                format!("{} times {:?}", self.boot_attempts, self.boot_limit),
                "more than 0",
            );
        }
        Ok(())
    }
}

fn refuse(option: &'static str, found: String, needed: &str) -> Result<()> {
    Err(LabError::Option { option, found, needed: needed.to_owned() })
}

/// Folders of the guest's own, over which nothing may be mounted.
const GUESTS_OWN: [&str; 11] = ["bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "share", "sys"];

/// Whether the guest can have a folder of the host under the same path. Its init script names it in single quotes.
fn check_mirror(path: &std::path::Path) -> std::result::Result<(), String> {
    let mut parts = path.components().skip(1).map(|part| part.as_os_str().to_string_lossy());
    let (first, second) = (parts.next(), parts.next());
    if !path.is_absolute() || !path.is_dir() {
        return Err("an absolute path of a folder".to_owned());
    }
    if path.to_str().is_none_or(|text| text.contains(['\'', '\n', '\\', ':', ','])) {
        return Err("a path without quotes, backslashes, colons, commas and newlines".to_owned());
    }
    match (first.as_deref(), second) {
        // Shared memory of the host; the guest has a folder of that name too.
        (Some("dev"), Some(_)) => Ok(()),
        (None | Some("usr"), None) => Err("a folder below the root".to_owned()),
        (Some(first), _) if GUESTS_OWN.contains(&first) => {
            Err(format!("a folder elsewhere: /{first} is the guest's own"))
        }
        _ => Ok(()),
    }
}

/// Whether a lab may have this name: it becomes the name of a folder.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if is_word(name) && name.len() <= 64 {
        return Ok(());
    }
    Err(LabError::Option {
        option: "--name",
        found: format!("{name:?}"),
        needed: "1 to 64 letters, digits, `-` or `_`".to_owned(),
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Bytes of a size that was typed for an option.
pub fn parse_bytes(option: &'static str, text: &str) -> Result<u64> {
    parse_size(text).map_err(|error| LabError::Option { option, found: error.found, needed: error.needed.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in
            [("512M", 512 * MIB), ("1G", 1 << 30), ("2t", 2u64 << 40), ("4096", 4096), ("3k", 3072), ("1GB", 1 << 30)]
        {
            assert_eq!(parse_bytes("--memory", text).expect(text), bytes);
        }
        for text in ["", "G", "1.5G", "1XB", "-1", "99999999T", "1é"] {
            let error = parse_bytes("--memory", text).expect_err(text).to_string();
            assert!(error.starts_with("--memory: found "), "{error}");
        }
    }

    #[test]
    fn what_is_written_by_default_means_the_default() {
        assert_eq!(VmArgs::default().vm().expect("can be"), Vm::default());
    }

    #[test]
    fn the_vm_stands_among_the_other_options_in_documents() {
        let document = serde_json::to_value(Options::default()).expect("JSON");
        for key in ["kernel", "cmdline", "memory_bytes", "cpus", "pmem", "icount_shift", "accel", "modules", "name"] {
            assert!(document.get(key).is_some(), "{key}: {document}");
        }
        assert_eq!(serde_json::from_value::<Options>(document).expect("options"), Options::default());
    }

    #[test]
    fn no_persistent_memory_has_two_spellings() {
        for pmem in ["none", "0"] {
            let written = VmArgs { pmem: pmem.to_owned(), ..VmArgs::default() };
            assert_eq!(written.vm().expect(pmem).pmem, None);
        }
    }

    /// The option, and what makes it wrong.
    type Case = (&'static str, fn(&mut Options));

    #[test]
    fn what_cannot_be_is_refused_with_the_option() {
        let with = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.validate().map_err(|error| (error.kind(), error.to_string()))
        };
        with(|_| {}).expect("the default");
        let cases: [Case; 10] = [
            ("--name", |options| options.name = "../x".into()),
            ("--name", |options| options.name = String::new()),
            ("--memory", |options| options.vm.memory_bytes = 1 << 20),
            ("--cpus", |options| options.vm.cpus = 0),
            ("--pmem", |options| options.vm.pmem = Some(Pmem { bytes: 1 << 20, kind: PmemKind::Memmap })),
            ("--icount", |options| options.vm.icount_shift = Some(11)),
            ("--accel", |options| (options.vm.icount_shift, options.vm.accel) = (Some(0), Accel::Kvm)),
            ("--cmdline", |options| options.vm.cmdline = vec!["a\nb".into()]),
            ("--share", |options| options.share = Some("/nonexistent/folder".into())),
            ("--module", |options| options.vm.modules = vec!["../../x".into()]),
        ];
        for (option, change) in cases {
            let (kind, text) = with(change).expect_err(option);
            assert!(kind == "option" && text.starts_with(option), "{option}: {text}");
        }
        assert_eq!(Kernel::parse("5.10").expect_err("no such kernel").exit_status(), 2);
    }
}
