use super::*;
use crate::testing::Root;

/// A host as its kernel writes it down: THP, two pools on one node, one disk, cgroup v2, a small sysctl tree.
fn host() -> Root {
    let root = Root::new();
    let thp = "/sys/kernel/mm/transparent_hugepage";
    root.write(&format!("{thp}/enabled"), "always [madvise] never\n");
    root.write(&format!("{thp}/defrag"), "always defer defer+madvise [madvise] never\n");
    root.write(&format!("{thp}/use_zero_page"), "1\n");
    root.write(&format!("{thp}/khugepaged/scan_sleep_millisecs"), "10000\n");
    root.write(&format!("{thp}/khugepaged/pages_collapsed"), "7\n");
    root.write(&format!("{thp}/hugepages-64kB/enabled"), "always inherit madvise [never]\n");
    root.write(&format!("{thp}/hugepages-64kB/stats/anon_fault_alloc"), "3\n");
    for pool in ["/sys/kernel/mm/hugepages", "/sys/devices/system/node/node0/hugepages"] {
        root.write(&format!("{pool}/hugepages-2048kB/nr_hugepages"), "150\n");
        root.write(&format!("{pool}/hugepages-2048kB/surplus_hugepages"), "22\n");
        root.write(&format!("{pool}/hugepages-2048kB/free_hugepages"), "0\n");
        root.write(&format!("{pool}/hugepages-1048576kB/nr_hugepages"), "1\n");
    }
    root.write("/proc/meminfo", "MemTotal:       24684092 kB\nHugepagesize:       2048 kB\n");
    root.write("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb1 partition\t1048572\t4\t-2\n");
    root.write("/sys/block/sda/queue/scheduler", "none [mq-deadline] kyber bfq \n");
    root.write("/sys/block/sda/queue/read_ahead_kb", "128\n");
    root.write("/sys/block/sda/queue/write_cache", "write back\n");
    root.write("/sys/block/sda/queue/iosched/read_expire", "500\n");
    root.write("/sys/block/sda/queue/independent_access_ranges/0/sector", "0\n");
    root.write("/proc/sys/kernel/osrelease", "6.1.0\n");
    root.write("/proc/sys/kernel/printk", "4\t4\t1\t7\n");
    root.write("/proc/sys/kernel/random/uuid", "00b3c80d-3335-4b8f-81b0-8b67e002072d\n");
    root.write("/proc/sys/kernel/core_modes", "file\npipe\nsocket\n");
    root.write("/proc/sys/vm/swappiness", "60\n");
    root.write("/proc/sys/vm/compact_memory", "must not be read\n");
    root.write("/proc/sys/vm/nr_hugepages", "128\n");
    root.write("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "0\n");
    root.write("/proc/sys/net/ipv4/tcp_fastopen_key", "00000000-11111111-22222222-33333333\n");
    root.write("/proc/sys/net/ipv6/conf/eth0/stable_secret", "must not be read\n");
    root.write("/proc/cmdline", "quiet transparent_hugepage=madvise hugepages=128\n");
    root.write("/boot/config-6.1.0", "CONFIG_TRANSPARENT_HUGEPAGE_MADVISE=y\n# CONFIG_KASAN is not set\n");
    root.write("/proc/cpuinfo", "model name\t: Some Processor\nmicrocode\t: 0x1\nflags\t\t: vme fpu avx2\n");
    root.write("/sys/devices/system/cpu/online", "0-2\n");
    for (cpu, governor) in [(0, "powersave"), (1, "performance"), (2, "powersave")] {
        root.write(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), &format!("{governor}\n"));
    }
    root.write("/sys/devices/system/cpu/vulnerabilities/spectre_v1", "Mitigation: usercopy/swapgs barriers\n");
    root.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    root
}

fn target(root: &Root) {
    root.write_bytes("/proc/42/environ", b"PATH=/bin\0SECRET=hunter2\0PLANNED=yes\0EMPTY=\0no-equals-sign\0=odd\0");
    root.write(
        "/proc/42/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max stack size            8388608              unlimited            bytes     \n\
         Max open files            20000                30000                files     \n\
         Max nice priority         0                    0                    \n",
    );
    root.write("/proc/42/status", "Name:\tx\nTHP_enabled:\t0\n");
    root.write("/proc/42/cgroup", "0::/app/worker\n");
    root.write(
        "/proc/42/mountinfo",
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
         38 31 0:41 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n\
         50 27 0:50 / /srv/a\\040b ro,relatime - tmpfs tmpfs rw,size=4k\n\
         51 50 0:51 / /srv/a\\040b rw,noatime - xfs /dev/sdc rw,attr2\n",
    );
    let group = "/sys/fs/cgroup/app/worker";
    root.write(&format!("{group}/cgroup.controllers"), "cpuset cpu io memory pids hugetlb\n");
    root.write(&format!("{group}/memory.max"), "max\n");
    root.write("/sys/fs/cgroup/app/memory.max", "134217728\n");
    root.write(&format!("{group}/memory.high"), "max\n");
    root.write(&format!("{group}/cpu.max"), "50000 100000\n");
    root.write(&format!("{group}/cpu.weight"), "100\n");
    root.write(
        &format!("{group}/io.max"),
        "8:16 rbps=2097152 wbps=max riops=max wiops=120\n8:0 rbps=1 wbps=max riops=max wiops=max\n",
    );
    root.write(&format!("{group}/hugetlb.2MB.max"), "4194304\n");
    root.write(&format!("{group}/pids.max"), "100\n");
}

struct Found(Vec<Setting>);

impl Found {
    fn get(&self, key: &str) -> Option<&str> {
        self.row(key).and_then(|row| row.value.as_deref())
    }

    fn row(&self, key: &str) -> Option<&Setting> {
        self.0.iter().find(|row| row.key == key)
    }
}

#[test]
fn a_snapshot_holds_every_namespace() {
    let root = host();
    target(&root);
    let options = SnapshotOptions { pid: Some(42), shown_env: vec!["PLANNED".to_owned()], kconfig: true };
    let found = Found(snapshot_with(root.path(), &options));
    for (key, value) in [
        ("thp.enabled", "madvise"),
        ("thp.defrag", "madvise"),
        ("thp.use_zero_page", "1"),
        ("thp.64K.enabled", "never"),
        ("thp.khugepaged.scan_sleep_millisecs", "10000"),
        ("hugetlb.default_size", "2M"),
        ("hugetlb.2M.nr_hugepages", "128"),
        ("hugetlb.2M.surplus_hugepages", "22"),
        ("hugetlb.2M.node0.nr_hugepages", "128"),
        ("hugetlb.1G.nr_hugepages", "1"),
        ("mm.total_bytes", "25276510208"),
        ("mm.swaps", "/dev/sdb1 partition 1048572 -2"),
        ("block.sda.scheduler", "mq-deadline"),
        ("block.sda.write_cache", "write back"),
        ("block.sda.iosched.read_expire", "500"),
        ("sysctl.vm.swappiness", "60"),
        ("sysctl.kernel.printk", "4 4 1 7"),
        ("sysctl.kernel.core_modes", "file\npipe\nsocket"),
        ("sysctl.net.ipv4.conf.eth0/100.rp_filter", "0"),
        ("cmdline.transparent_hugepage", "madvise"),
        ("cmdline.hugepages.2M", "128"),
        ("cmdline.quiet", "set"),
        ("kconfig.TRANSPARENT_HUGEPAGE_MADVISE", "y"),
        ("kconfig.KASAN", "n"),
        ("kernel.config", "/boot/config-6.1.0"),
        ("kernel.release", "6.1.0"),
        ("kernel.lockdown", "integrity"),
        ("cpu.model", "Some Processor"),
        ("cpu.flags", "avx2 fpu vme"),
        ("cpu.governor", "powersave:0,2 performance:1"),
        ("cpu.vulnerabilities.spectre_v1", "Mitigation: usercopy/swapgs barriers"),
        ("mount./.options", "discard,relatime,rw"),
        ("mount./srv/a b.fs", "xfs"),
        ("mount./srv/a b.options", "attr2,noatime,rw"),
        ("env.PATH", "/bin"),
        ("env.PLANNED", "yes"),
        ("rlimit.stack", "8388608:unlimited"),
        ("rlimit.nofile", "20000:30000"),
        ("mm.thp_disable", "1"),
        ("cgroup.memory.max", "max"),
        ("cgroup.memory.max.effective", "134217728"),
        ("cgroup.memory.version", "2"),
        ("cgroup.cpu.max", "50000 100000"),
        ("cgroup.io.max", "8:0 rbps=1 wbps=max riops=max wiops=max\n8:16 rbps=2097152 wbps=max riops=max wiops=120"),
        ("cgroup.hugetlb.2M.max", "4194304"),
        ("cgroup.pids.max", "100"),
    ] {
        assert_eq!(found.get(key), Some(value), "{key}");
        assert_eq!(
            read_of(root.path(), key, Some(42)).as_deref(),
            Ok(if key == "env.PLANNED" { "yes" } else { value }),
            "{key}"
        );
    }
    assert!(found.get("env.SECRET").is_some_and(|value| value.starts_with("masked:") && !value.contains("hunter2")));
    assert!(found.get("sysctl.net.ipv4.tcp_fastopen_key").is_some_and(|value| value.starts_with("masked:")));
    for key in ["sysctl.vm.compact_memory", "sysctl.net.ipv6.conf.eth0.stable_secret", "thp.64K.stats", "env."] {
        assert!(found.row(key).is_none(), "{key} must not be read");
    }
    assert!(!found.0.iter().any(|row| row.value.as_deref().is_some_and(|value| value.contains("must not be read"))));
}

#[test]
fn every_row_is_declared_and_sorted() {
    let root = host();
    target(&root);
    for rows in [snapshot(root.path(), Some(42)), snapshot(Path::new("/"), Some(std::process::id()))] {
        assert!(rows.len() > 60);
        for pair in rows.windows(2) {
            if let [a, b] = pair {
                assert!(a.key < b.key, "{} {}", a.key, b.key);
            }
        }
        for row in &rows {
            let info = vocab::setting(&row.key).unwrap_or_else(|| panic!("{} is not declared", row.key));
            assert_eq!(info.key, row.key, "recorded in its one spelling");
            assert_eq!(row.value.is_some(), row.reason.is_none(), "{row:?}");
            if let Some(path) = info.path() {
                let fallback = row.key == "kernel.arch" && !row.source.starts_with('/');
                assert!(row.source == path || fallback, "{}: {} and {path}", row.key, row.source);
            }
        }
    }
}

#[test]
fn version_one_groups_say_the_same_as_version_two() {
    let root = Root::new();
    root.write("/proc/7/cgroup", "4:memory:/a/b\n2:cpu,cpuacct:/a\n7:blkio:/\n1:name=systemd:/a\n3:cpuset:/\n0::/\n");
    root.write(
        "/proc/7/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         32 31 0:29 /a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
         38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
         36 31 0:36 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );
    let memory = "/sys/fs/cgroup/memory/a/b";
    root.write(&format!("{memory}/memory.limit_in_bytes"), "134217728\n");
    root.write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    root.write(&format!("{memory}/memory.memsw.limit_in_bytes"), "201326592\n");
    root.write(&format!("{memory}/memory.soft_limit_in_bytes"), "9223372036854771712\n");
    root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    root.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    root.write("/sys/fs/cgroup/cpu/cpu.shares", "512\n");
    root.write("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device", "8:16 2097152\n");
    root.write("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device", "8:16 120\n");
    root.write("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-1\n");
    root.write("/sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n");
    root.write("/sys/fs/cgroup/unified/cgroup.procs", "7\n");
    let found = Found(snapshot(root.path(), Some(7)));
    for (key, value) in [
        ("cgroup.memory.version", "1"),
        ("cgroup.memory.max", "134217728"),
        ("cgroup.memory.max.effective", "134217728"),
        ("cgroup.memory.swap.max", "67108864"),
        ("cgroup.memory.soft_limit", "max"),
        ("cgroup.cpu.max", "max 100000"),
        ("cgroup.cpu.weight", "50"),
        ("cgroup.io.max", "8:16 rbps=2097152 wbps=max riops=max wiops=120"),
        ("cgroup.cpuset.cpus.effective", "0-1"),
        ("cgroup.hugetlb.version", "2"),
    ] {
        assert_eq!(found.get(key), Some(value), "{key}");
    }
    assert!(found.row("cgroup.pids.version").is_none(), "on neither hierarchy");
}

#[test]
fn packed_configuration_is_read_and_broken_one_says_why() {
    use std::io::Write;
    let root = Root::new();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(b"CONFIG_HZ=250\n").expect("packed");
    root.write_bytes("/proc/config.gz", &packer.finish().expect("packed"));
    let found = Found(snapshot(root.path(), None));
    assert_eq!(found.get("kconfig.HZ"), Some("250"));
    assert_eq!(found.get("kernel.config"), Some("/proc/config.gz"));

    root.write("/proc/config.gz", "no gzip");
    let found = Found(snapshot(root.path(), None));
    assert!(
        found.row("kernel.config").and_then(|row| row.reason.as_deref()).is_some_and(|why| why.contains("unpacked"))
    );

    std::fs::remove_file(root.at("/proc/config.gz")).expect("removed");
    let found = Found(snapshot(root.path(), None));
    assert!(
        found.row("kernel.config").and_then(|row| row.reason.as_deref()).is_some_and(|why| why.contains("modprobe"))
    );
}

#[test]
fn unreadable_is_null_with_a_reason() {
    let root = host();
    // A folder where a file is expected cannot be read, by root either.
    std::fs::create_dir_all(root.at("/sys/block/sda/queue/nr_requests")).expect("folder");
    let found = Found(snapshot(root.path(), None));
    let row = found.row("block.sda.nr_requests").expect("a row");
    assert!(row.value.is_none() && row.reason.as_deref().is_some_and(|reason| !reason.is_empty()), "{row:?}");
    assert!(matches!(read(root.path(), "block.sda.nr_requests"), Err(SettingError::Unreadable { .. })));
}

#[test]
fn what_a_plan_may_set_is_checked_before_it_runs() {
    let root = host();
    let error = |key: &str, value: &str| check(root.path(), key, value).expect_err("refused").to_string();
    assert!(check(root.path(), "thp.enabled", "always").is_ok());
    assert!(check(root.path(), "env.ANYTHING", "x").is_ok());
    for (key, value, hints) in [
        ("thp.enabled", "alwyas", vec!["one of always, madvise, never"]),
        ("thp.enable", "always", vec!["did you mean 'thp.enabled'?"]),
        ("thpp.enabled", "always", vec!["did you mean 'thp.enabled'?"]),
        ("sysctl.vm.swapiness", "1", vec!["/proc/sys/vm/swapiness", "did you mean 'sysctl.vm.swappiness'?"]),
        ("block.sdaa.read_ahead_kb", "1", vec!["did you mean 'block.sda.read_ahead_kb'?"]),
        ("block.sda.read_ahead", "1", vec!["did you mean 'block.sda.read_ahead_kb'?"]),
        ("hugetlb.4M.nr_hugepages", "1", vec!["only 1G, 2M"]),
        ("hugetlb.2M.nr_hugepages", "many", vec!["a number of pages"]),
        ("kconfig.HZ", "100", vec!["only be recorded"]),
        ("sysctl.vm.drop_caches", "3", vec!["only be recorded"]),
        ("rlimit.memlok", "1", vec!["did you mean 'rlimit.memlock'?"]),
        ("sysctl.vm.swappiness", "1\n2", vec!["one line"]),
    ] {
        let text = error(key, value);
        for hint in hints {
            assert!(text.contains(hint), "{key}={value}: {text}");
        }
    }
    let split = split(root.path(), [("thp.enabled", "never"), ("env.A", "1"), ("hugetlb.2048kB.nr_hugepages", "3")]);
    let split = split.expect("valid");
    assert_eq!(split.host.keys().collect::<Vec<_>>(), ["hugetlb.2M.nr_hugepages", "thp.enabled"]);
    assert_eq!(split.process.keys().collect::<Vec<_>>(), ["env.A"]);
}

#[test]
fn masks_show_differences_and_hide_values() {
    let masks: BTreeSet<String> = (0..1000u32).map(|n| mask(n.to_string().as_bytes())).collect();
    // 1000 draws out of 65,536 collide about 7.6 times; a mask that lost bits would collide far more often.
    assert!(masks.len() > 960, "{}", masks.len());
    assert_eq!(mask(b"same"), mask(b"same"));
    assert!(masks.iter().all(|mask| mask.len() == "masked:0000".len()));
}
