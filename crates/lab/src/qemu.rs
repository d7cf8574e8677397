//! How QEMU is started.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::options::{Options, PmemKind};
use crate::tool;

/// The program, if no other is named.
const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// The port that the agent looks for.
const PORT_NAME: &str = "org.pagelab.agent";
/// Memory that does not fit below this address lies above it: QEMU is told where to divide the memory.
const DIVIDE: u64 = 4 << 30;
/// No more memory than this lies below; above it is the room of devices.
const MOST_BELOW: u64 = 2 << 30;

/// Sockets of a lab, in its folder, which is QEMU's working directory: their paths may not be long.
pub(crate) const AGENT_SOCKET: &str = "agent.sock";
pub(crate) const QMP_SOCKET: &str = "qmp.sock";
pub(crate) const INITRAMFS: &str = "initramfs.cpio";

/// How the instructions of a guest are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Machine {
    /// By the processor itself.
    Kvm,
    /// Emulated.
    Tcg,
}

impl Machine {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Finds QEMU.
pub(crate) fn find(asked: Option<&Path>) -> Result<PathBuf> {
    let name = asked.unwrap_or(Path::new(PROGRAM));
    tool::find(name)
        .ok_or_else(|| LabError::ProgramMissing { program: name.display().to_string(), package: PACKAGE.to_owned() })
}

/// The kernel's command line.
pub(crate) fn cmdline(options: &Options) -> String {
    // A panic ends QEMU at once (with -no-reboot), which is how the host learns of it.
    let mut text = String::from("console=ttyS0 panic=-1");
    if let Some(pmem) = options.vm.pmem
        && pmem.kind == PmemKind::Memmap
    {
        let _ = write!(text, " memmap={}M!{}M", pmem.bytes >> 20, DIVIDE >> 20);
    }
    for word in &options.vm.cmdline {
        text.push(' ');
        text.push_str(word);
    }
    text
}

/// QEMU's arguments. `cpu` is the value of `-cpu`.
pub(crate) fn arguments(options: &Options, machine: Machine, cpu: &str, kernel: &Path) -> Vec<String> {
    let memory = Memory::of(options);
    let mut arguments = ["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned).to_vec();
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    add("-display", "none".to_owned());
    // QEMU runs as root: what a guest could make it do beyond its own work is refused by the kernel.
    add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".to_owned());
    add("-name", format!("pagelab-lab-{}", options.name));
    add(
        "-accel",
        match (machine, options.vm.icount_shift) {
            (Machine::Kvm, _) => "kvm".to_owned(),
            // With a thread for each processor QEMU 7.2 loses an interrupt from one to the other now and then: a guest that attaches
            // BPF programs, which takes thousands, then waits in smp_call_function_many_cond() for ever.
            (Machine::Tcg, _) => "tcg,thread=single".to_owned(),
        },
    );
    if let Some(shift) = options.vm.icount_shift {
        // With `sleep=off` an idle guest would run from tick to tick as fast as it can, and count that.
        add("-icount", format!("shift={shift},sleep=on"));
    }
    add("-cpu", cpu.to_owned());
    add("-smp", options.vm.cpus.to_string());
    let nvdimm = if memory.nvdimm > 0 { ",nvdimm=on" } else { "" };
    add("-machine", format!("pc,max-ram-below-4g={}M{nvdimm}", memory.below >> 20));
    let slots = if memory.nvdimm > 0 {
        format!(",slots=1,maxmem={}M", (memory.total + memory.nvdimm + (4 << 30)) >> 20)
    } else {
        String::new()
    };
    add("-m", format!("{}M{slots}", memory.total >> 20));
    if memory.nvdimm > 0 {
        add("-object", format!("memory-backend-ram,id=pmem,size={}M", memory.nvdimm >> 20));
        add("-device", "nvdimm,memdev=pmem,id=nvdimm".to_owned());
    }
    add("-kernel", kernel.display().to_string());
    add("-initrd", INITRAMFS.to_owned());
    add("-append", cmdline(options));
    // The supervisor reads it and keeps its end.
    add("-serial", "stdio".to_owned());
    add("-qmp", format!("unix:{QMP_SOCKET},server=on,wait=off"));
    add("-device", "virtio-serial-pci".to_owned());
    add("-chardev", format!("socket,id=agent,path={AGENT_SOCKET},server=on,wait=off"));
    add("-device", format!("virtserialport,chardev=agent,name={PORT_NAME}"));
    // With `none` a guest would make real links and real setuid files of root's in the shared folder. With `mapped`,
    // owner, mode and kind of the files it makes are attributes of plain files.
    let folders = [
        ("share", "security_model=mapped-xattr,multidevs=remap", &options.share),
        ("mirror", "security_model=none,multidevs=remap,readonly=on", &options.mirror),
    ];
    for (tag, how, folder) in folders {
        let Some(folder) = folder else { continue };
        // A comma within a value is written twice.
        let path = folder.display().to_string().replace(',', ",,");
        add("-fsdev", format!("local,id={tag},path={path},{how}"));
        add("-device", format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
    }
    arguments
}

/// Where memory lies, in bytes.
struct Memory {
    /// Below 4 GiB.
    below: u64,
    /// All that is ordinary to QEMU, `memmap` included.
    total: u64,
    /// Bytes of an NVDIMM.
    nvdimm: u64,
}

impl Memory {
    /// Memory for `memmap` begins at 4 GiB exactly: aligned for the largest pages, and clear of firmware, kernel and
    /// initramfs, which are below.
    fn of(options: &Options) -> Self {
        let below = options.vm.memory_bytes.min(MOST_BELOW);
        let (memmap, nvdimm) = match options.vm.pmem.map(|pmem| (pmem.kind, pmem.bytes)) {
            Some((PmemKind::Memmap, bytes)) => (bytes, 0),
            Some((PmemKind::Nvdimm, bytes)) => (0, bytes),
            None => (0, 0),
        };
        Memory { below, total: options.vm.memory_bytes + memmap, nvdimm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Pmem, Vm};

    fn line(options: &Options, machine: Machine) -> String {
        arguments(options, machine, "max", Path::new("/k")).join(" ")
    }

    #[test]
    fn persistent_memory_lies_where_the_kernel_is_told() {
        let mut options = Options { vm: Vm { memory_bytes: 512 << 20, ..Vm::default() }, ..Options::default() };
        let text = line(&options, Machine::Tcg);
        assert!(text.contains("-m 1536M ") && text.contains("max-ram-below-4g=512M "), "{text}");
        assert!(text.contains("memmap=1024M!4096M"), "{text}");
        options.vm.memory_bytes = 3 << 30;
        let text = line(&options, Machine::Tcg);
        assert!(text.contains("-m 4096M ") && text.contains("max-ram-below-4g=2048M "), "{text}");
        options.vm.pmem = Some(Pmem { bytes: 256 << 20, kind: PmemKind::Nvdimm });
        let text = line(&options, Machine::Tcg);
        assert!(text.contains("-m 3072M,slots=1,maxmem=7424M ") && text.contains(",nvdimm=on"), "{text}");
        assert!(text.contains("size=256M") && !text.contains("memmap"), "{text}");
        options.vm.pmem = None;
        assert!(!line(&options, Machine::Tcg).contains("nvdimm"));
    }

    #[test]
    fn there_is_no_network_and_emulation_has_one_thread() {
        let options = Options { vm: Vm { icount_shift: Some(3), ..Vm::default() }, ..Options::default() };
        let text = line(&options, Machine::Tcg);
        assert!(text.contains("-icount shift=3,sleep=on") && text.contains("tcg,thread=single"), "{text}");
        assert!(!text.contains("-net") && text.starts_with("-nodefaults"), "{text}");
        assert!(line(&Options::default(), Machine::Tcg).contains("tcg,thread=single"));
        assert!(line(&Options::default(), Machine::Kvm).contains("-accel kvm "));
    }

    #[test]
    fn the_process_is_named_after_its_lab() {
        let options = Options { name: "mine".to_owned(), ..Options::default() };
        let text = line(&options, Machine::Tcg);
        assert!(text.contains(" -name pagelab-lab-mine "), "{text}");
    }

    #[test]
    fn a_comma_in_the_shared_folder_is_no_option() {
        let options = Options {
            share: Some("/a,b".into()),
            vm: Vm { cmdline: vec!["x=1".into()], ..Vm::default() },
            ..Options::default()
        };
        let text = line(&options, Machine::Tcg);
        assert!(text.contains("path=/a,,b,security_model"), "{text}");
        assert!(text.contains(" x=1 ") && !text.contains("readonly"), "{text}");
        let text = line(&Options { mirror: Some("/a".into()), ..options }, Machine::Tcg);
        assert!(text.contains("id=mirror,path=/a,security_model=none,multidevs=remap,readonly=on"), "{text}");
    }
}
