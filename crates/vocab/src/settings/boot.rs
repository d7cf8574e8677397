//! `cmdline.*` and `kconfig.*`: decided at boot or build, with the run-time key that shows the same decision.
//!
//! A twin stands here only where the kernel source initialises the run-time value from the option. Options whose
//! run-time value depends on more than the option (CONFIG_LRU_GEN_ENABLED, CONFIG_LSM_MMAP_MIN_ADDR) have none.

use super::{SettingDef, Twin, settings};

const LINE: &str = "parameter in /proc/cmdline";
const CONFIG: &str = "/proc/config.gz or /boot/config-<release>";

/// `$value here` gives `$other` at `$key`.
macro_rules! twin {
    ($key:literal) => {
        &[Twin { when: None, key: $key, value: None }]
    };
    ($($when:literal => $key:literal $value:literal),+) => {
        &[$(Twin { when: Some($when), key: $key, value: Some($value) }),+]
    };
}

pub(super) const CMDLINE: &[SettingDef] = settings! {
    Boot "cmdline.transparent_hugepage" at LINE, High ["thp", "faults", "memory"] { twins: twin!("thp.enabled") } : "thp.enabled at boot.";
    Boot "cmdline.transparent_hugepage_shmem" at LINE, High ["thp", "faults", "memory"] { twins: twin!("thp.shmem_enabled") } : "thp.shmem_enabled at boot.";
    Boot "cmdline.thp_anon" at LINE, High ["thp", "faults", "memory"] : "thp.<size>.enabled of each size at boot.";
    Boot "cmdline.thp_shmem" at LINE, High ["thp", "faults", "memory"] : "thp.<size>.shmem_enabled of each size at boot.";
    Boot "cmdline.hugepages.<size>" at LINE, High ["hugetlb", "faults", "memory"]
        { twins: twin!("hugetlb.<size>.nr_hugepages") } : "`hugepages=` after `hugepagesz=<size>`, or of the default size: pages reserved at boot.";
    Boot "cmdline.hugepagesz" at LINE, Low ["hugetlb"] : "Sizes that `hugepages=` spoke of, in order.";
    Boot "cmdline.default_hugepagesz" at LINE, High ["hugetlb", "memory"] { twins: twin!("hugetlb.default_size") } : "The size meant where none is named.";
    Boot "cmdline.hugetlb_free_vmemmap" at LINE, Some ["hugetlb", "memory"]
        { twins: twin!("on" => "sysctl.vm.hugetlb_optimize_vmemmap" "1", "off" => "sysctl.vm.hugetlb_optimize_vmemmap" "0") } : "vm.hugetlb_optimize_vmemmap at boot.";
    Boot "cmdline.numa_balancing" at LINE, High ["numa", "faults", "memory"]
        { twins: twin!("enable" => "sysctl.kernel.numa_balancing" "1", "disable" => "sysctl.kernel.numa_balancing" "0") } : "kernel.numa_balancing at boot.";
    Boot "cmdline.norandmaps" at LINE, Some ["memory", "security"]
        { twins: twin!("set" => "sysctl.kernel.randomize_va_space" "0") } : "No address space randomisation.";
    Boot "cmdline.zswap.enabled" at LINE, Some ["swap", "reclaim"]
        { twins: twin!("1" => "mm.zswap.enabled" "Y", "0" => "mm.zswap.enabled" "N", "Y" => "mm.zswap.enabled" "Y", "N" => "mm.zswap.enabled" "N") } : "mm.zswap.enabled at boot.";
    Boot "cmdline.zswap.compressor" at LINE, Some ["swap", "cpu"] { twins: twin!("mm.zswap.compressor") } : "mm.zswap.compressor at boot.";
    Boot "cmdline.sysctl.<path>" at LINE, Low ["kernel"] { twins: twin!("sysctl.<path>") } : "A sysctl written once the system is up (`sysctl.vm.swappiness=10`).";
    Boot "cmdline.clocksource" at LINE, High ["time", "cpu"] { twins: twin!("kernel.clocksource") } : "kernel.clocksource asked for at boot.";
    Boot "cmdline.tsc" at LINE, High ["time", "cpu"] : "How far the time-stamp counter is trusted.";
    Boot "cmdline.mitigations" at LINE, High ["security", "cpu"] : "All mitigations of processor weaknesses; cpu.vulnerabilities.* shows what came of it.";
    Boot "cmdline.spectre_v2" at LINE, High ["security", "cpu"] : "One of them.";
    Boot "cmdline.retbleed" at LINE, High ["security", "cpu"] : "One of them.";
    Boot "cmdline.pti" at LINE, High ["security", "cpu", "faults"] : "Page-table isolation: each entry to the kernel changes page tables.";
    Boot "cmdline.nopti" at LINE, High ["security", "cpu", "faults"] : "No page-table isolation.";
    Boot "cmdline.init_on_alloc" at LINE, Some ["memory", "security", "faults"]
        { twins: twin!("1" => "kconfig.INIT_ON_ALLOC_DEFAULT_ON" "y", "0" => "kconfig.INIT_ON_ALLOC_DEFAULT_ON" "n") } : "Whether kernel memory is zeroed when taken.";
    Boot "cmdline.init_on_free" at LINE, High ["memory", "security", "faults"]
        { twins: twin!("1" => "kconfig.INIT_ON_FREE_DEFAULT_ON" "y", "0" => "kconfig.INIT_ON_FREE_DEFAULT_ON" "n") } : "Whether memory is zeroed when freed.";
    Boot "cmdline.lsm" at LINE, Some ["security", "fs"] : "Security modules that are asked, in this order.";
    Boot "cmdline.apparmor" at LINE, Some ["security", "fs"] : "Whether AppArmor is on: it matches the path of each file that a confined program opens.";
    Boot "cmdline.selinux" at LINE, Some ["security", "fs"] : "Whether SELinux is on: it checks labels at each access.";
    Boot "cmdline.audit" at LINE, Some ["security", "tracing"] : "Whether calls are audited: each is then matched with the rules.";
    Boot "cmdline.nosmt" at LINE, High ["cpu", "sched"]
        { twins: twin!("set" => "cpu.smt.control" "off", "force" => "cpu.smt.control" "forceoff") } : "Sibling threads off.";
    Boot "cmdline.isolcpus" at LINE, High ["sched", "cpu"] : "Processors kept from the scheduler.";
    Boot "cmdline.nohz_full" at LINE, Some ["sched", "time"] { twins: twin!("cpu.nohz_full") } : "Processors without a tick.";
    Boot "cmdline.noautogroup" at LINE, Some ["sched"] { twins: twin!("set" => "sysctl.kernel.sched_autogroup_enabled" "0") } : "No scheduling group for each session.";
    Boot "cmdline.schedstats" at LINE, Low ["sched", "tracing"]
        { twins: twin!("enable" => "sysctl.kernel.sched_schedstats" "1", "disable" => "sysctl.kernel.sched_schedstats" "0") } : "kernel.sched_schedstats at boot.";
    Boot "cmdline.delayacct" at LINE, Low ["sched", "tracing"] { twins: twin!("set" => "sysctl.kernel.task_delayacct" "1") } : "kernel.task_delayacct at boot.";
    Boot "cmdline.preempt" at LINE, Some ["sched"] : "Preemption model of a kernel built with PREEMPT_DYNAMIC.";
    Boot "cmdline.cpufreq.default_governor" at LINE, High ["cpu"] { twins: twin!("cpu.governor") } : "Frequency governor at boot.";
    Boot "cmdline.intel_pstate" at LINE, High ["cpu"] : "Mode of intel_pstate.";
    Boot "cmdline.intel_idle.max_cstate" at LINE, Some ["cpu", "time"] : "Deepest idle state.";
    Boot "cmdline.processor.max_cstate" at LINE, Some ["cpu", "time"] : "Deepest idle state.";
    Boot "cmdline.idle" at LINE, Some ["cpu", "time"] : "How an idle processor waits.";
    Boot "cmdline.panic" at LINE, Nil ["kernel"] { twins: twin!("sysctl.kernel.panic") } : "kernel.panic at boot.";
    Boot "cmdline.nowatchdog" at LINE, Low ["tracing", "cpu"] { twins: twin!("set" => "sysctl.kernel.watchdog" "0") } : "No lockup detectors.";
    Boot "cmdline.nosoftlockup" at LINE, Low ["tracing"] { twins: twin!("set" => "sysctl.kernel.soft_watchdog" "0") } : "No soft lockup detector.";
    Boot "cmdline.swiotlb" at LINE, Some ["io", "memory"] : "Bounce buffers for devices.";
    Boot "cmdline.iommu" at LINE, Some ["io"] : "Translation of device addresses.";
    Boot "cmdline.mem" at LINE, High ["memory", "reclaim"] : "Memory that the kernel may use.";
    Boot "cmdline.memmap" at LINE, Some ["memory"] : "Ranges of memory taken away or declared persistent.";
    Boot "cmdline.cgroup_disable" at LINE, Some ["memory", "cpu"] : "Controllers switched off.";
    Boot "cmdline.psi" at LINE, Low ["tracing", "sched"] : "Whether pressure is accounted for.";
    Boot "cmdline.<param>" at LINE, Low ["kernel"] { catch_all: true } : "Any other parameter; `set` if it has no value, several values joined by a space.";
};

pub(super) const KCONFIG: &[SettingDef] = settings! {
    ReadOnly "kconfig.TRANSPARENT_HUGEPAGE" at CONFIG, High ["thp", "faults", "memory"] : "Whether the kernel has transparent huge pages.";
    ReadOnly "kconfig.TRANSPARENT_HUGEPAGE_ALWAYS" at CONFIG, High ["thp", "faults", "memory"] { twins: twin!("y" => "thp.enabled" "always") } : "thp.enabled is `always` unless changed.";
    ReadOnly "kconfig.TRANSPARENT_HUGEPAGE_MADVISE" at CONFIG, High ["thp", "faults", "memory"] { twins: twin!("y" => "thp.enabled" "madvise") } : "thp.enabled is `madvise` unless changed.";
    ReadOnly "kconfig.TRANSPARENT_HUGEPAGE_NEVER" at CONFIG, High ["thp", "faults", "memory"] { twins: twin!("y" => "thp.enabled" "never") } : "thp.enabled is `never` unless changed.";
    ReadOnly "kconfig.READ_ONLY_THP_FOR_FS" at CONFIG, Some ["thp", "fs", "memory"] : "Huge pages for program text.";
    ReadOnly "kconfig.HUGETLBFS" at CONFIG, High ["hugetlb", "memory"] : "Whether the kernel has hugetlb pages.";
    ReadOnly "kconfig.HUGETLB_PAGE_OPTIMIZE_VMEMMAP_DEFAULT_ON" at CONFIG, Some ["hugetlb", "memory"]
        { twins: twin!("y" => "sysctl.vm.hugetlb_optimize_vmemmap" "1", "n" => "sysctl.vm.hugetlb_optimize_vmemmap" "0") } : "vm.hugetlb_optimize_vmemmap unless changed.";
    ReadOnly "kconfig.COMPACTION" at CONFIG, Some ["thp", "memory"] : "Whether memory can be compacted.";
    ReadOnly "kconfig.COMPACT_UNEVICTABLE_DEFAULT" at CONFIG, Low ["thp", "memory"] { twins: twin!("sysctl.vm.compact_unevictable_allowed") } : "vm.compact_unevictable_allowed unless changed.";
    ReadOnly "kconfig.DEFAULT_MMAP_MIN_ADDR" at CONFIG, Nil ["security"] { twins: twin!("sysctl.vm.mmap_min_addr") } : "vm.mmap_min_addr unless changed.";
    ReadOnly "kconfig.ARCH_MMAP_RND_BITS" at CONFIG, Low ["memory", "security"] { twins: twin!("sysctl.vm.mmap_rnd_bits") } : "vm.mmap_rnd_bits unless changed.";
    ReadOnly "kconfig.ARCH_MMAP_RND_COMPAT_BITS" at CONFIG, Nil ["memory", "security"] { twins: twin!("sysctl.vm.mmap_rnd_compat_bits") } : "vm.mmap_rnd_compat_bits unless changed.";
    ReadOnly "kconfig.COMPAT_BRK" at CONFIG, Some ["memory", "security"]
        { twins: twin!("y" => "sysctl.kernel.randomize_va_space" "1", "n" => "sysctl.kernel.randomize_va_space" "2") } : "kernel.randomize_va_space unless changed.";
    ReadOnly "kconfig.NUMA_BALANCING_DEFAULT_ENABLED" at CONFIG, High ["numa", "faults", "memory"]
        { twins: twin!("y" => "sysctl.kernel.numa_balancing" "1", "n" => "sysctl.kernel.numa_balancing" "0") } : "kernel.numa_balancing unless changed (1 only on hosts with several nodes).";
    ReadOnly "kconfig.ZSWAP_DEFAULT_ON" at CONFIG, Some ["swap", "reclaim"]
        { twins: twin!("y" => "mm.zswap.enabled" "Y", "n" => "mm.zswap.enabled" "N") } : "mm.zswap.enabled unless changed.";
    ReadOnly "kconfig.ZSWAP_SHRINKER_DEFAULT_ON" at CONFIG, Low ["swap", "reclaim"]
        { twins: twin!("y" => "mm.zswap.shrinker_enabled" "Y", "n" => "mm.zswap.shrinker_enabled" "N") } : "mm.zswap.shrinker_enabled unless changed.";
    ReadOnly "kconfig.ZSWAP_COMPRESSOR_DEFAULT" at CONFIG, Some ["swap", "cpu"] { twins: twin!("mm.zswap.compressor") } : "mm.zswap.compressor unless changed.";
    ReadOnly "kconfig.SCHED_AUTOGROUP" at CONFIG, Some ["sched", "cpu"]
        { twins: twin!("y" => "sysctl.kernel.sched_autogroup_enabled" "1") } : "Whether each session is a scheduling group unless changed.";
    ReadOnly "kconfig.DEFAULT_HUNG_TASK_TIMEOUT" at CONFIG, Nil ["tracing"] { twins: twin!("sysctl.kernel.hung_task_timeout_secs") } : "kernel.hung_task_timeout_secs unless changed.";
    ReadOnly "kconfig.BOOTPARAM_SOFTLOCKUP_PANIC" at CONFIG, Nil ["kernel"]
        { twins: twin!("y" => "sysctl.kernel.softlockup_panic" "1", "n" => "sysctl.kernel.softlockup_panic" "0") } : "kernel.softlockup_panic unless changed.";
    ReadOnly "kconfig.BOOTPARAM_HARDLOCKUP_PANIC" at CONFIG, Nil ["kernel"]
        { twins: twin!("y" => "sysctl.kernel.hardlockup_panic" "1", "n" => "sysctl.kernel.hardlockup_panic" "0") } : "kernel.hardlockup_panic unless changed.";
    ReadOnly "kconfig.PANIC_TIMEOUT" at CONFIG, Nil ["kernel"] { twins: twin!("sysctl.kernel.panic") } : "kernel.panic unless changed.";
    ReadOnly "kconfig.PANIC_ON_OOPS" at CONFIG, Nil ["kernel"]
        { twins: twin!("y" => "sysctl.kernel.panic_on_oops" "1", "n" => "sysctl.kernel.panic_on_oops" "0") } : "kernel.panic_on_oops unless changed.";
    ReadOnly "kconfig.SECURITY_DMESG_RESTRICT" at CONFIG, Nil ["security"]
        { twins: twin!("y" => "sysctl.kernel.dmesg_restrict" "1", "n" => "sysctl.kernel.dmesg_restrict" "0") } : "kernel.dmesg_restrict unless changed.";
    ReadOnly "kconfig.BPF_UNPRIV_DEFAULT_OFF" at CONFIG, Low ["security", "tracing"]
        { twins: twin!("y" => "sysctl.kernel.unprivileged_bpf_disabled" "2", "n" => "sysctl.kernel.unprivileged_bpf_disabled" "0") } : "kernel.unprivileged_bpf_disabled unless changed.";
    ReadOnly "kconfig.BPF_JIT_ALWAYS_ON" at CONFIG, Some ["tracing", "net"] { twins: twin!("y" => "sysctl.net.core.bpf_jit_enable" "1") } : "net.core.bpf_jit_enable cannot be 0.";
    ReadOnly "kconfig.DEFAULT_TCP_CONG" at CONFIG, High ["net"] { twins: twin!("sysctl.net.ipv4.tcp_congestion_control") } : "net.ipv4.tcp_congestion_control unless changed.";
    ReadOnly "kconfig.DEFAULT_NET_SCH" at CONFIG, Some ["net"] { twins: twin!("sysctl.net.core.default_qdisc") } : "net.core.default_qdisc unless changed.";
    ReadOnly "kconfig.LEGACY_TIOCSTI" at CONFIG, Nil ["security"]
        { twins: twin!("y" => "sysctl.dev.tty.legacy_tiocsti" "1", "n" => "sysctl.dev.tty.legacy_tiocsti" "0") } : "dev.tty.legacy_tiocsti unless changed.";
    ReadOnly "kconfig.LDISC_AUTOLOAD" at CONFIG, Nil ["security"]
        { twins: twin!("y" => "sysctl.dev.tty.ldisc_autoload" "1", "n" => "sysctl.dev.tty.ldisc_autoload" "0") } : "dev.tty.ldisc_autoload unless changed.";
    ReadOnly "kconfig.CPU_FREQ_DEFAULT_GOV_PERFORMANCE" at CONFIG, High ["cpu"] { twins: twin!("y" => "cpu.governor" "performance") } : "Frequency governor unless changed.";
    ReadOnly "kconfig.CPU_FREQ_DEFAULT_GOV_POWERSAVE" at CONFIG, High ["cpu"] { twins: twin!("y" => "cpu.governor" "powersave") } : "Frequency governor unless changed.";
    ReadOnly "kconfig.CPU_FREQ_DEFAULT_GOV_USERSPACE" at CONFIG, High ["cpu"] { twins: twin!("y" => "cpu.governor" "userspace") } : "Frequency governor unless changed.";
    ReadOnly "kconfig.CPU_FREQ_DEFAULT_GOV_ONDEMAND" at CONFIG, High ["cpu"] { twins: twin!("y" => "cpu.governor" "ondemand") } : "Frequency governor unless changed.";
    ReadOnly "kconfig.CPU_FREQ_DEFAULT_GOV_CONSERVATIVE" at CONFIG, High ["cpu"] { twins: twin!("y" => "cpu.governor" "conservative") } : "Frequency governor unless changed.";
    ReadOnly "kconfig.CPU_FREQ_DEFAULT_GOV_SCHEDUTIL" at CONFIG, High ["cpu"] { twins: twin!("y" => "cpu.governor" "schedutil") } : "Frequency governor unless changed.";
    ReadOnly "kconfig.INIT_ON_ALLOC_DEFAULT_ON" at CONFIG, Some ["memory", "security", "faults"] : "Whether kernel memory is zeroed when taken, unless the command line says otherwise.";
    ReadOnly "kconfig.INIT_ON_FREE_DEFAULT_ON" at CONFIG, High ["memory", "security", "faults"] : "Whether memory is zeroed when freed, unless the command line says otherwise.";
    ReadOnly "kconfig.LRU_GEN" at CONFIG, Some ["reclaim", "memory"] : "Whether the kernel has the multi-generational LRU.";
    ReadOnly "kconfig.LRU_GEN_ENABLED" at CONFIG, Some ["reclaim", "memory"] : "Whether it is on unless changed.";
    ReadOnly "kconfig.KSM" at CONFIG, Low ["memory"] : "Whether equal pages can be merged.";
    ReadOnly "kconfig.MEMCG" at CONFIG, Some ["memory", "faults"] : "Whether memory is charged to groups.";
    ReadOnly "kconfig.PER_VMA_LOCK" at CONFIG, Some ["faults", "memory"] : "Whether faults of one process can run side by side.";
    ReadOnly "kconfig.HZ" at CONFIG, Some ["sched", "time"] : "Ticks per second.";
    ReadOnly "kconfig.PREEMPT" at CONFIG, Some ["sched"] : "Preemption model.";
    ReadOnly "kconfig.PREEMPT<param>" at CONFIG, Some ["sched"] : "Preemption model.";
    ReadOnly "kconfig.NO_HZ<param>" at CONFIG, Some ["sched", "time"] : "When the tick is left out.";
    ReadOnly "kconfig.MITIGATION_<param>" at CONFIG, Some ["security", "cpu"] : "A mitigation built in.";
    ReadOnly "kconfig.DEBUG_VM" at CONFIG, High ["memory", "faults", "tracing"] : "Checks in memory management.";
    ReadOnly "kconfig.DEBUG_PAGEALLOC" at CONFIG, High ["memory", "faults", "tracing"] : "Unmaps freed pages.";
    ReadOnly "kconfig.PAGE_POISONING" at CONFIG, High ["memory", "faults", "tracing"] : "Can fill freed pages with a pattern.";
    ReadOnly "kconfig.PAGE_TABLE_CHECK" at CONFIG, Some ["memory", "faults", "tracing"] : "Can check every page table entry.";
    ReadOnly "kconfig.KASAN" at CONFIG, High ["memory", "cpu", "tracing"] : "Checks every access of the kernel.";
    ReadOnly "kconfig.KCSAN" at CONFIG, High ["memory", "cpu", "tracing"] : "Looks for data races of the kernel.";
    ReadOnly "kconfig.PROVE_LOCKING" at CONFIG, High ["sched", "cpu", "tracing"] : "Checks every lock of the kernel.";
    ReadOnly "kconfig.LOCK_STAT" at CONFIG, High ["sched", "tracing"] : "Counts waiting for locks.";
    ReadOnly "kconfig.SLUB_DEBUG_ON" at CONFIG, High ["memory", "tracing"] : "Checks every slab object.";
    ReadOnly "kconfig.SLUB_CPU_PARTIAL" at CONFIG, Low ["memory"] : "Spare slabs per processor.";
    ReadOnly "kconfig.BLK_WBT_MQ" at CONFIG, Some ["writeback", "io"] : "Whether write-back throttling is on unless changed.";
    ReadOnly "kconfig.CC_VERSION_TEXT" at CONFIG, Low ["kernel", "cpu"] : "Compiler of the kernel.";
    ReadOnly "kconfig.LOCALVERSION" at CONFIG, Nil ["identity"] : "Suffix of the release.";
    ReadOnly "kconfig.BUILD_SALT" at CONFIG, Nil ["identity"] : "Makes build ids differ.";
    ReadOnly "kconfig.<param>" at CONFIG, Low ["kernel"] { catch_all: true } : "Any other option: `y`, `m`, a number or text; `n` if it is not set.";
};
