//! What is true of the host and does not change while it is up.

use std::path::Path;

use serde::Serialize;

use crate::files::{cpu_list, names, trimmed};

/// Facts of one host. What could not be found out is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Name of the host.
    pub host: Option<String>,
    /// Kernel release, as `uname -r`.
    pub kernel: Option<String>,
    /// Kernel build, as `uname -v`.
    pub kernel_version: Option<String>,
    /// Machine architecture, as `uname -m`.
    pub arch: String,
    /// Bytes of a base page.
    pub page_size_bytes: u64,
    /// Processors in use.
    pub cpus: Option<u32>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// What the kernel runs in: `none` on bare hardware, else `kvm`, `qemu`, `vmware`, `microsoft`, `oracle`, `xen`,
    /// `amazon`, `google`, ..., or `vm-other` for a hypervisor that does not say its name.
    pub virt: Option<String>,
    /// Identifier drawn by the kernel at boot; settings made at run time live as long as it.
    pub boot_id: Option<String>,
    /// Memory that the kernel manages, bytes.
    pub memory_bytes: Option<u64>,
}

impl Facts {
    /// Reads the facts below `root` (`/` for this host). Page size and, where the kernel does not write it down
    /// (before 6.1), the architecture are those of the running program.
    pub fn read(root: &Path) -> Self {
        let arch = trimmed(root, "/proc/sys/kernel/arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let cpuinfo = trimmed(root, "/proc/cpuinfo");
        Facts {
            host: trimmed(root, "/proc/sys/kernel/hostname"),
            kernel: kernel_release(root),
            kernel_version: trimmed(root, "/proc/sys/kernel/version"),
            arch,
            page_size_bytes: page_size_bytes(),
            cpus: cpus_online(root),
            cpu_model: cpuinfo.as_deref().and_then(cpu_model),
            virt: virt(root),
            boot_id: boot_id(root),
            memory_bytes: meminfo_bytes(root, "MemTotal"),
        }
    }
}

/// Bytes of a base page of the running kernel.
pub fn page_size_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Kernel release, as `uname -r`.
pub fn kernel_release(root: &Path) -> Option<String> {
    trimmed(root, "/proc/sys/kernel/osrelease")
}

/// The identifier of this boot.
pub fn boot_id(root: &Path) -> Option<String> {
    trimmed(root, "/proc/sys/kernel/random/boot_id")
}

/// Number of processors in use.
pub fn cpus_online(root: &Path) -> Option<u32> {
    let online = trimmed(root, "/sys/devices/system/cpu/online")?;
    u32::try_from(cpu_list(&online)?.len()).ok().filter(|count| *count > 0)
}

/// Bytes of the huge page that is meant where no size is named.
pub fn default_huge_page_bytes(root: &Path) -> Option<u64> {
    meminfo_bytes(root, "Hugepagesize").filter(|bytes| *bytes > 0)
}

/// A line of /proc/meminfo in bytes.
pub(crate) fn meminfo_bytes(root: &Path, field: &str) -> Option<u64> {
    let meminfo = trimmed(root, "/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The value of the first line `name : value` of /proc/cpuinfo.
pub(crate) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field.trim() == name).then(|| value.trim()).filter(|value| !value.is_empty())
    })
}

/// Model name, or on arm64, where there is none, implementer and part.
pub(crate) fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(model) = cpuinfo_field(cpuinfo, "model name") {
        return Some(model.to_owned());
    }
    let implementer = cpuinfo_field(cpuinfo, "CPU implementer")?;
    let part = cpuinfo_field(cpuinfo, "CPU part")?;
    Some(format!("implementer {implementer} part {part}"))
}

/// DMI strings and the hypervisor they stand for, as systemd-detect-virt knows them (src/basic/virt.c).
const DMI_VENDORS: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
    ("Apple Virtualization", "apple"),
    ("Google Compute Engine", "google"),
];

/// Vendor strings of CPUID leaf 0x40000000.
#[cfg(target_arch = "x86_64")]
const CPUID_VENDORS: &[(&[u8], &str)] = &[
    (b"XenVMMXenVMM", "xen"),
    (b"KVMKVMKVM", "kvm"),
    (b"Linux KVM Hv", "kvm"),
    (b"TCGTCGTCGTCG", "qemu"),
    (b"VMwareVMware", "vmware"),
    (b"Microsoft Hv", "microsoft"),
    (b"bhyve bhyve ", "bhyve"),
    (b"QNXQVMBSQG", "qnx"),
    (b"ACRNACRNACRN", "acrn"),
    (b"VBoxVBoxVBox", "oracle"),
];

/// What the kernel runs in: /sys/hypervisor if it says so; bare hardware if an x86 processor lacks the `hypervisor`
/// flag (so that a server of a vendor that also makes hypervisors is not taken for one); then DMI, device tree, CPUID
/// (only for this host), and the clocks that hypervisors bring along. `None` if not even /proc/cpuinfo can be read.
pub fn virt(root: &Path) -> Option<String> {
    if let Some(kind) = from_sys_hypervisor(root) {
        return Some(kind);
    }
    let cpuinfo = trimmed(root, "/proc/cpuinfo");
    let flags = cpuinfo.as_deref().and_then(|cpuinfo| cpuinfo_field(cpuinfo, "flags"));
    let flagged = flags.map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    if flagged == Some(false) {
        return Some("none".to_owned());
    }
    let said = from_dmi(root).or_else(|| from_device_tree(root));
    match (said, flagged) {
        (Some(kind), _) => Some(kind),
        (None, Some(_)) => Some(from_cpu(root)),
        // Without flags (arm64) nothing that a hypervisor would have left means that there is none.
        (None, None) => cpuinfo.map(|_| "none".to_owned()),
    }
}

fn from_dmi(root: &Path) -> Option<String> {
    for name in ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"] {
        let Some(text) = trimmed(root, &format!("/sys/class/dmi/id/{name}")) else { continue };
        if let Some((_, virt)) = DMI_VENDORS.iter().find(|(vendor, _)| text.starts_with(vendor)) {
            return Some((*virt).to_owned());
        }
    }
    None
}

fn from_sys_hypervisor(root: &Path) -> Option<String> {
    trimmed(root, "/sys/hypervisor/type")
}

fn from_device_tree(root: &Path) -> Option<String> {
    let compatible = trimmed(root, "/proc/device-tree/hypervisor/compatible")?;
    let first = compatible.split('\0').next().unwrap_or("");
    Some(match first {
        "linux,kvm" => "kvm".to_owned(),
        "xen" => "xen".to_owned(),
        _ if first.contains("vmware") => "vmware".to_owned(),
        _ => "vm-other".to_owned(),
    })
}

/// The kind of a hypervisor that is known to be there.
fn from_cpu(root: &Path) -> String {
    if root == Path::new("/")
        && let Some(virt) = from_cpuid()
    {
        return virt;
    }
    let clocks =
        trimmed(root, "/sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    for clock in clocks.split_whitespace() {
        match clock {
            "kvm-clock" => return "kvm".to_owned(),
            "xen" => return "xen".to_owned(),
            _ if clock.starts_with("hyperv") => return "microsoft".to_owned(),
            _ => {}
        }
    }
    if !names(&root.join("sys/bus/vmbus/devices")).is_empty() {
        return "microsoft".to_owned();
    }
    "vm-other".to_owned()
}

#[cfg(target_arch = "x86_64")]
fn from_cpuid() -> Option<String> {
    // Called only where /proc/cpuinfo shows the hypervisor flag, which promises the leaf.
    let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
    let mut vendor = Vec::with_capacity(12);
    for word in [leaf.ebx, leaf.ecx, leaf.edx] {
        vendor.extend_from_slice(&word.to_le_bytes());
    }
    let found = CPUID_VENDORS.iter().find(|(known, _)| vendor.starts_with(known));
    found.map(|(_, virt)| (*virt).to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn from_cpuid() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Root;

    const CPUINFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Processor\n\
        microcode\t: 0x1\nflags\t\t: fpu vme hypervisor avx2\n\nprocessor\t: 1\nmodel name\t: other\n";

    #[test]
    fn facts_come_from_the_root_given() {
        let root = Root::new();
        root.write("/proc/sys/kernel/hostname", "vm\n");
        root.write("/proc/sys/kernel/osrelease", "6.18.44\n");
        root.write("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n");
        root.write("/proc/sys/kernel/arch", "x86_64\n");
        root.write("/proc/sys/kernel/random/boot_id", "ac924afa-6759-45c0-aae4-80c098bab793\n");
        root.write("/proc/cpuinfo", CPUINFO);
        root.write("/proc/meminfo", "MemTotal:       24684092 kB\nMemFree:        23188444 kB\n");
        root.write("/sys/devices/system/cpu/online", "0-1\n");
        root.write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock \n");
        let facts = Facts::read(root.path());
        assert_eq!(facts.host.as_deref(), Some("vm"));
        assert_eq!(facts.kernel.as_deref(), Some("6.18.44"));
        assert_eq!(facts.arch, "x86_64");
        assert_eq!(facts.cpus, Some(2));
        assert_eq!(facts.cpu_model.as_deref(), Some("Intel(R) Xeon(R) Processor"));
        assert_eq!(facts.virt.as_deref(), Some("kvm"));
        assert_eq!(facts.memory_bytes, Some(24_684_092 * 1024));
        assert!(facts.boot_id.is_some() && facts.page_size_bytes.is_power_of_two());
    }

    #[test]
    fn what_is_missing_is_null() {
        let root = Root::new();
        let facts = Facts::read(root.path());
        assert_eq!((facts.host, facts.kernel, facts.cpus), (None, None, None));
        assert_eq!((facts.cpu_model, facts.virt, facts.memory_bytes), (None, None, None));
    }

    #[test]
    fn hypervisors_are_told_apart() {
        for (file, text, virt) in [
            ("/sys/class/dmi/id/sys_vendor", "QEMU\n", "qemu"),
            ("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n", "amazon"),
            ("/sys/class/dmi/id/product_name", "VMware Virtual Platform\n", "vmware"),
            ("/sys/class/dmi/id/product_name", "VirtualBox\n", "oracle"),
            ("/sys/hypervisor/type", "xen\n", "xen"),
            ("/proc/device-tree/hypervisor/compatible", "linux,kvm\0", "kvm"),
            ("/sys/class/dmi/id/sys_vendor", "Dell Inc.\n", "vm-other"),
        ] {
            let root = Root::new();
            root.write("/proc/cpuinfo", CPUINFO);
            root.write(file, text);
            assert_eq!(super::virt(root.path()).as_deref(), Some(virt), "{file}: {text}");
        }
        let metal = Root::new();
        metal.write("/proc/cpuinfo", &CPUINFO.replace("hypervisor ", ""));
        metal.write("/sys/class/dmi/id/sys_vendor", "Dell Inc.\n");
        assert_eq!(super::virt(metal.path()).as_deref(), Some("none"));
        // Whole machines of a cloud carry its DMI strings too.
        metal.write("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
        assert_eq!(super::virt(metal.path()).as_deref(), Some("none"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("implementer 0x41 part 0xd0c"));
    }
}
