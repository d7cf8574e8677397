//! `kernel.*`, `cpu.*`, `irq.*`, `mm.*` of the whole host, `mount.*`, and `module.*` of the lab's own kernel modules.

use super::{Form, SettingDef, settings};

pub(super) const DEFS: &[SettingDef] = settings! {
    Boot "kernel" at "first two numbers in /proc/sys/kernel/osrelease", High ["identity", "kernel"]
        : "Series of the running kernel (`6.1`): where it differs much of `kconfig.*` and of the defaults follows from it.";
    ReadOnly "kernel.release" at "/proc/sys/kernel/osrelease", Some ["identity", "kernel"] { derived_from: Some("kernel") } : "The running kernel, as `uname -r`.";
    ReadOnly "kernel.version" at "/proc/sys/kernel/version", Low ["identity", "kernel"] { derived_from: Some("kernel.release") } : "Its build: number, preemption model, date.";
    ReadOnly "kernel.arch" at "/proc/sys/kernel/arch", Some ["identity", "cpu"] : "Machine architecture, as `uname -m`.";
    ReadOnly "kernel.page_size_bytes" at "sysconf(_SC_PAGESIZE)", High ["faults", "memory"] : "Bytes of a base page.";
    ReadOnly "kernel.cmdline" at "/proc/cmdline", Low ["kernel"] : "The whole command line; cmdline.* has it by parameter.";
    ReadOnly "kernel.clocksource" at "/sys/devices/system/clocksource/clocksource0/current_clocksource", High ["time", "cpu"]
        : "What clock_gettime reads. Anything but `tsc` (or the paravirtual clocks) makes each reading a system call.";
    ReadOnly "kernel.clocksources" at "/sys/devices/system/clocksource/clocksource0/available_clocksource", Nil ["time"]
        : "The clocks that could be chosen.";
    ReadOnly "kernel.lockdown" at "/sys/kernel/security/lockdown", Nil ["security", "tracing"]
        { form: Form::Choice } : "Lockdown mode: `none`, `integrity` or `confidentiality`; bars some ways of measuring.";
    ReadOnly "kernel.config" at "/proc/config.gz or /boot/config-<release>", Nil ["kernel"]
        : "Present without a value, with the reason, when the kernel's build configuration cannot be read.";

    ReadOnly "cpu.model" at "model name in /proc/cpuinfo", High ["cpu"] : "Processor model.";
    ReadOnly "cpu.microcode" at "microcode in /proc/cpuinfo", Some ["cpu", "security"] : "Microcode revision.";
    ReadOnly "cpu.flags" at "flags in /proc/cpuinfo", Some ["cpu"] : "Features of the processor, sorted.";
    ReadOnly "cpu.online" at "/sys/devices/system/cpu/online", High ["cpu", "sched"] : "Processors in use.";
    ReadOnly "cpu.present" at "/sys/devices/system/cpu/present", Low ["cpu"] : "Processors that are there.";
    ReadOnly "cpu.isolated" at "/sys/devices/system/cpu/isolated", Some ["sched", "cpu"] : "Processors that the scheduler leaves alone.";
    ReadOnly "cpu.nohz_full" at "/sys/devices/system/cpu/nohz_full", Some ["sched", "time"] : "Processors without a tick while one task runs.";
    ReadOnly "cpu.smt.active" at "/sys/devices/system/cpu/smt/active", High ["cpu", "sched"] : "1 if sibling threads are in use.";
    ReadOnly "cpu.smt.control" at "/sys/devices/system/cpu/smt/control", High ["cpu", "sched"] : "Whether sibling threads may be used.";
    ReadOnly "cpu.governor" at "/sys/devices/system/cpu/cpu<cpu>/cpufreq/scaling_governor", High ["cpu"]
        : "Frequency governor; if processors differ, `governor:processors` of each.";
    ReadOnly "cpu.scaling_driver" at "/sys/devices/system/cpu/cpu<cpu>/cpufreq/scaling_driver", Some ["cpu"] : "Frequency driver, likewise.";
    ReadOnly "cpu.scaling_min_freq" at "/sys/devices/system/cpu/cpu<cpu>/cpufreq/scaling_min_freq", Some ["cpu"] : "Lowest frequency allowed, kHz, likewise.";
    ReadOnly "cpu.scaling_max_freq" at "/sys/devices/system/cpu/cpu<cpu>/cpufreq/scaling_max_freq", High ["cpu"] : "Highest frequency allowed, kHz, likewise.";
    ReadOnly "cpu.energy_performance_preference" at "/sys/devices/system/cpu/cpu<cpu>/cpufreq/energy_performance_preference", Some ["cpu"] : "Hint to the processor, likewise.";
    ReadOnly "cpu.boost" at "/sys/devices/system/cpu/cpufreq/boost", High ["cpu"] : "1 if frequencies above nominal are allowed.";
    ReadOnly "cpu.no_turbo" at "/sys/devices/system/cpu/intel_pstate/no_turbo", High ["cpu"] : "1 if turbo is off (intel_pstate).";
    ReadOnly "cpu.pstate_status" at "/sys/devices/system/cpu/intel_pstate/status", Some ["cpu"] : "Mode of intel_pstate.";
    ReadOnly "cpu.cpuidle.driver" at "/sys/devices/system/cpu/cpuidle/current_driver", Some ["cpu", "time"] : "Idle driver.";
    ReadOnly "cpu.cpuidle.governor" at "/sys/devices/system/cpu/cpuidle/current_governor", Some ["cpu", "time"] : "Idle governor.";
    ReadOnly "cpu.vulnerabilities.<name>" at "/sys/devices/system/cpu/vulnerabilities/<name>", Some ["security", "cpu"]
        : "A hardware weakness and the mitigation in force.";
    ReadOnly "cpu.numa_nodes" at "/sys/devices/system/node/online", Some ["numa", "cpu"] : "NUMA nodes in use.";

    ReadOnly "irq.default_affinity" at "/proc/irq/default_smp_affinity", Low ["sched", "io", "net"] : "Processors that interrupts made from now on may go to, a bit mask.";
    ReadOnly "irq.<irq>.affinity" at "/proc/irq/<irq>/smp_affinity_list", Some ["sched", "io", "net", "cpu"] : "Processors that the interrupt may go to.";
    ReadOnly "irq.<irq>.effective_affinity" at "/proc/irq/<irq>/effective_affinity_list", Some ["sched", "io", "net", "cpu"] { state: true }
        : "Processors that it goes to.";

    ReadOnly "mm.fault_around_bytes" at "fault_around_bytes in debugfs", High ["faults", "memory", "fs"]
        : "How much of a file around a read fault is mapped with it, bytes; 4096 maps the one page.";
    ReadOnly "mm.total_bytes" at "MemTotal in /proc/meminfo", Some ["memory", "reclaim"] : "Memory that the kernel manages.";
    ReadOnly "mm.swaps" at "areas in /proc/swaps", Some ["swap", "reclaim"] : "Swap areas with kind, size in KiB and priority, one per line.";
    Host "mm.ksm.run" at "/sys/kernel/mm/ksm/run", Some ["memory", "faults", "cpu"] : "1 while equal pages are being merged; writes to merged ones fault.";
    Host "mm.ksm.pages_to_scan" at "/sys/kernel/mm/ksm/pages_to_scan", Low ["memory", "cpu"] : "Pages that ksmd looks at in one round.";
    Host "mm.ksm.sleep_millisecs" at "/sys/kernel/mm/ksm/sleep_millisecs", Low ["memory", "cpu"] : "Pause of ksmd between rounds.";
    Host "mm.ksm.use_zero_pages" at "/sys/kernel/mm/ksm/use_zero_pages", Low ["memory"] : "Whether pages of zeros are merged with the zero page.";
    Host "mm.ksm.smart_scan" at "/sys/kernel/mm/ksm/smart_scan", Low ["memory"] : "Whether pages that never merged are skipped.";
    Host "mm.ksm.max_page_sharing" at "/sys/kernel/mm/ksm/max_page_sharing", Low ["memory"] : "How many mappings may share one merged page.";
    Host "mm.ksm.merge_across_nodes" at "/sys/kernel/mm/ksm/merge_across_nodes", Low ["memory", "numa"] : "Whether pages of different nodes are merged.";
    Host "mm.ksm.advisor_mode" at "/sys/kernel/mm/ksm/advisor_mode", Low ["memory"] { form: Form::Choice } : "Who tunes ksmd.";
    ReadOnly "mm.ksm.pages_shared" at "/sys/kernel/mm/ksm/pages_shared", Low ["memory"] { state: true } : "Merged pages now.";
    ReadOnly "mm.ksm.pages_sharing" at "/sys/kernel/mm/ksm/pages_sharing", Low ["memory"] { state: true } : "Mappings of merged pages now.";
    ReadOnly "mm.ksm.pages_unshared" at "/sys/kernel/mm/ksm/pages_unshared", Nil ["memory"] { state: true } : "Pages looked at and not merged.";
    ReadOnly "mm.ksm.pages_volatile" at "/sys/kernel/mm/ksm/pages_volatile", Nil ["memory"] { state: true } : "Pages that change too fast to merge.";
    ReadOnly "mm.ksm.pages_skipped" at "/sys/kernel/mm/ksm/pages_skipped", Nil ["memory"] { state: true } : "Pages that smart_scan skipped.";
    ReadOnly "mm.ksm.pages_scanned" at "/sys/kernel/mm/ksm/pages_scanned", Nil ["memory"] { state: true } : "Pages looked at since boot.";
    ReadOnly "mm.ksm.full_scans" at "/sys/kernel/mm/ksm/full_scans", Nil ["memory"] { state: true } : "Rounds over all registered memory since boot.";
    ReadOnly "mm.ksm.general_profit" at "/sys/kernel/mm/ksm/general_profit", Nil ["memory"] { state: true } : "Bytes that merging saves now.";
    ReadOnly "mm.ksm.ksm_zero_pages" at "/sys/kernel/mm/ksm/ksm_zero_pages", Nil ["memory"] { state: true } : "Pages merged with the zero page now.";
    ReadOnly "mm.ksm.stable_node_chains" at "/sys/kernel/mm/ksm/stable_node_chains", Nil ["memory"] { state: true } : "Chains of ksmd's tree.";
    ReadOnly "mm.ksm.stable_node_dups" at "/sys/kernel/mm/ksm/stable_node_dups", Nil ["memory"] { state: true } : "Duplicates in ksmd's tree.";
    ReadOnly "mm.ksm.<name>" at "/sys/kernel/mm/ksm/<name>", Low ["memory"] { catch_all: true } : "Any other figure of KSM that the kernel has.";
    Host "mm.numa.demotion_enabled" at "/sys/kernel/mm/numa/demotion_enabled", Some ["numa", "reclaim"] : "Whether reclaim moves pages to a slower node.";
    Host "mm.swap.vma_ra_enabled" at "/sys/kernel/mm/swap/vma_ra_enabled", Some ["swap", "readahead"] : "Whether swap read-ahead follows the mapping.";
    Host "mm.lru_gen.enabled" at "/sys/kernel/mm/lru_gen/enabled", Some ["reclaim", "memory"] : "Parts of the multi-generational LRU in use, a bit mask.";
    Host "mm.lru_gen.min_ttl_ms" at "/sys/kernel/mm/lru_gen/min_ttl_ms", Some ["reclaim", "memory"] : "Age below which pages are not reclaimed.";
    Host "mm.zswap.enabled" at "/sys/module/zswap/parameters/enabled", Some ["swap", "reclaim"] : "Whether swapped pages are compressed in memory first.";
    Host "mm.zswap.compressor" at "/sys/module/zswap/parameters/compressor", Some ["swap", "cpu"] : "How they are compressed.";
    Host "mm.zswap.max_pool_percent" at "/sys/module/zswap/parameters/max_pool_percent", Low ["swap", "memory"] : "Memory that they may take.";
    Host "mm.zswap.shrinker_enabled" at "/sys/module/zswap/parameters/shrinker_enabled", Low ["swap", "reclaim"] : "Whether cold ones are written out early.";
    ReadOnly "mm.zswap.<name>" at "/sys/module/zswap/parameters/<name>", Low ["swap"] { catch_all: true } : "Any other parameter of zswap that the kernel has.";
    ReadOnly "mm.page_alloc.shuffle" at "/sys/module/page_alloc/parameters/shuffle", Low ["memory"] : "Whether the free lists were shuffled at boot.";

    Host "module.ext4.dax_read" at "/sys/module/ext4/parameters/dax_read", High ["fs", "io"]
        : "Whether files with DAX that are opened from now on are read without an iterator: `Y` or `N` (the lab's module ext4-dax-read).";
    Host "module.ramblk.delay_ns" at "/sys/module/ramblk/parameters/delay_ns", High ["io"] : "Time that each request to the lab's device in memory takes, ns.";
    Host "module.ramblk.fail_every" at "/sys/module/ramblk/parameters/fail_every", Some ["io"] : "One of so many requests to it fails; 0: none.";
    Host "module.ramblk.fail_seed" at "/sys/module/ramblk/parameters/fail_seed", Nil ["io"] : "Which one of them.";

    Process "mount.<mountpoint>.options" at "options in /proc/<pid>/mountinfo; set by mount(2) in a mount namespace of its own", Some ["fs", "io", "writeback"]
        : "Options of the mount and of its file system, sorted; the mount on top where several cover one place. A plan may set those of the mount: `noatime`, `relatime`, `strictatime`, `nodiratime`, `ro`, `nosuid`, `nodev`, `noexec`, `nosymfollow`. A list with `rw` or `ro` is whole: what it does not name is off.";
    ReadOnly "mount.<mountpoint>.fs" at "/proc/<pid>/mountinfo", Some ["fs", "io"] : "Type of the file system.";
    ReadOnly "mount.<mountpoint>.source" at "/proc/<pid>/mountinfo", Low ["fs", "io"] : "Device or what else is mounted.";
};
