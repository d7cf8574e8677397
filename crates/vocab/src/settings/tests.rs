use super::*;

#[test]
fn every_definition_is_sound() {
    let mut seen = std::collections::BTreeSet::new();
    for def in definitions() {
        assert!(seen.insert(def.pattern), "{} is declared twice", def.pattern);
        assert!(!def.topics.is_empty() && def.help.ends_with('.'), "{}", def.pattern);
        for topic in def.topics {
            assert!(TOPICS.iter().any(|(name, _)| name == topic), "{}: topic {topic}", def.pattern);
        }
        assert!(!(def.writable() && def.reading == Reading::Never), "{} could not be put back", def.pattern);
        assert!(!(def.volatile && def.scope == Scope::Host), "{} cannot be held at a value", def.pattern);
        if def.scope == Scope::Host {
            assert!(def.source.starts_with("/sys/") || def.source.starts_with("/proc/"), "{}", def.pattern);
        }
    }
}

#[test]
fn twins_and_companions_are_declared_keys() {
    for def in definitions() {
        let twins = def.twins.iter().map(|twin| twin.key);
        let companions = def.companions.patterns().iter().copied();
        for key in twins.chain(companions).chain(def.derived_from) {
            let key = key
                .replace("<default>", "2M")
                .replace(".*.", ".node0.")
                .replace(".*", ".any")
                .replace("<path>", "vm.x");
            let key = key.replace("<dev>", "sda").replace("<size>", "2M");
            let info = setting(&key).unwrap_or_else(|| panic!("{}: {key} is not declared", def.pattern));
            let alias = key.starts_with("sysctl.") && info.def.catch_all;
            assert!(
                !info.def.catch_all || alias || info.arg("name") == Some("any"),
                "{}: {key} is a guess",
                def.pattern
            );
        }
        // A companion is put back by writing it, so it has to be writable itself.
        for pattern in def.companions.patterns() {
            let key = pattern.replace("<default>", "2M").replace(".*.", ".node0.").replace(".*", ".any");
            let key = key.replace("<dev>", "sda").replace("<size>", "2M");
            assert!(setting(&key).is_some_and(|info| info.def.writable()), "{}: {key}", def.pattern);
        }
    }
}

#[test]
fn keys_resolve_to_their_files() {
    for (key, path) in [
        ("thp.enabled", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ("thp.64K.enabled", "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"),
        ("thp.khugepaged.scan_sleep_millisecs", "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"),
        ("hugetlb.1G.nr_hugepages", "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"),
        ("hugetlb.2M.node1.nr_hugepages", "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"),
        ("sysctl.vm.swappiness", "/proc/sys/vm/swappiness"),
        ("sysctl.net.ipv4.conf.eth0/100.rp_filter", "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"),
        ("sysctl.kernel.panic_on_oops", "/proc/sys/kernel/panic_on_oops"),
        ("block.nvme0n1.read_ahead_kb", "/sys/block/nvme0n1/queue/read_ahead_kb"),
        ("block.sda.iosched.read_expire", "/sys/block/sda/queue/iosched/read_expire"),
        ("cpu.vulnerabilities.meltdown", "/sys/devices/system/cpu/vulnerabilities/meltdown"),
        ("mm.ksm.run", "/sys/kernel/mm/ksm/run"),
        ("module.ext4.dax_read", "/sys/module/ext4/parameters/dax_read"),
    ] {
        let info = setting(key).unwrap_or_else(|| panic!("{key}"));
        assert_eq!(info.path().as_deref(), Some(path), "{key}");
        assert_eq!(info.key, key);
    }
    for key in ["env.PATH", "rlimit.nofile", "cgroup.memory.max", "kconfig.HZ", "mount./.options", "mm.thp_disable"] {
        assert_eq!(setting(key).unwrap_or_else(|| panic!("{key}")).path(), None, "{key} is not one file");
    }
    for key in ["", "thp", "thp.", "nonsense.key", "hugetlb.many.nr_hugepages", "rlimit.bogus", "mm.bogus", "cpu.bogus"]
    {
        assert!(setting(key).is_none(), "{key:?} is not a setting");
    }
    assert_eq!(setting("hugetlb.2048kB.nr_hugepages").map(|info| info.key).as_deref(), Some("hugetlb.2M.nr_hugepages"));
    assert_eq!(sysctl_key("net/ipv4/conf/eth0.100/rp_filter"), "sysctl.net.ipv4.conf.eth0/100.rp_filter");
}

#[test]
fn special_definitions_win_over_families() {
    assert!(setting("sysctl.kernel.random.uuid").is_some_and(|info| info.def.volatile));
    assert!(setting("sysctl.fs.file-nr").is_some_and(|info| info.def.volatile));
    assert!(setting("sysctl.kernel.pty.nr").is_some_and(|info| info.def.volatile));
    assert!(setting("sysctl.kernel.pty.max").is_some_and(|info| !info.def.volatile));
    assert!(setting("sysctl.vm.drop_caches").is_some_and(|info| !info.def.writable()));
    assert!(setting("hugetlb.2M.free_hugepages").is_some_and(|info| info.def.state));
    assert!(setting("env.SECRET_TOKEN").is_some_and(|info| info.def.reading == Reading::Masked));
    assert!(setting("env.GLIBC_TUNABLES").is_some_and(|info| info.def.reading == Reading::Plain));
    assert_eq!(setting("sysctl.vm.min_free_kbytes").and_then(|info| info.def.derived_from), Some("thp.enabled"));
}

#[test]
fn build_time_keys_name_their_run_time_twin() {
    let twin = |key: &str, value: Option<&str>| {
        setting(key).and_then(|info| info.equivalent(value)).map(|twin| (twin.key, twin.value))
    };
    let pair = |key: &str, value: Option<&str>| Some((key.to_owned(), value.map(str::to_owned)));
    assert_eq!(twin("kconfig.TRANSPARENT_HUGEPAGE_ALWAYS", Some("y")), pair("thp.enabled", Some("always")));
    assert_eq!(twin("kconfig.TRANSPARENT_HUGEPAGE_MADVISE", Some("y")), pair("thp.enabled", Some("madvise")));
    // Not set says which key it is about, and nothing about its value: one of the others is set.
    assert_eq!(twin("kconfig.TRANSPARENT_HUGEPAGE_ALWAYS", Some("n")), pair("thp.enabled", None));
    assert_eq!(twin("cmdline.transparent_hugepage", Some("never")), pair("thp.enabled", Some("never")));
    assert_eq!(twin("cmdline.hugepages.1G", Some("4")), pair("hugetlb.1G.nr_hugepages", Some("4")));
    assert_eq!(twin("cmdline.sysctl.vm.swappiness", Some("10")), pair("sysctl.vm.swappiness", Some("10")));
    assert_eq!(
        twin("kconfig.DEFAULT_TCP_CONG", Some("\"bbr\"")),
        pair("sysctl.net.ipv4.tcp_congestion_control", Some("bbr"))
    );
    assert_eq!(twin("sysctl.vm.nr_hugepages", Some("8")), pair("hugetlb.2M.nr_hugepages", Some("8")));
    let info = setting("sysctl.vm.nr_hugepages").expect("declared");
    let with = info.equivalent_with(Some("8"), "1G").expect("a twin");
    assert_eq!(with.key, "hugetlb.1G.nr_hugepages");
    assert_eq!(twin("sysctl.vm.swappiness", Some("60")), None);
}

#[test]
fn relevance_ranks_the_cause_before_harmless_differences() {
    let harmless = [
        "sysctl.vm.stat_interval",
        "sysctl.kernel.hostname",
        "sysctl.net.ipv4.tcp_fin_timeout",
        "sysctl.kernel.printk",
        "env.SOME_VARIABLE",
        "env.LANG",
        "thp.khugepaged.scan_sleep_millisecs",
        "sysctl.fs.pipe-max-size",
        "rlimit.core",
        "kconfig.SOUND",
        "sysctl.kernel.random.uuid",
        "hugetlb.2M.free_hugepages",
        "unheard.of",
    ];
    let fault_symptoms = ["faults", "thp", "memory"];
    let readahead_symptoms = ["readahead", "io"];
    for other in harmless {
        for cause in
            ["thp.enabled", "kconfig.TRANSPARENT_HUGEPAGE_ALWAYS", "mm.thp_disable", "cmdline.transparent_hugepage"]
        {
            assert!(relevance(cause, &fault_symptoms) > 2.0 * relevance(other, &fault_symptoms), "{cause} and {other}");
        }
        assert!(
            relevance("block.vda.read_ahead_kb", &readahead_symptoms) > 2.0 * relevance(other, &readahead_symptoms),
            "{other}"
        );
    }
    assert!(relevance("thp.enabled", &fault_symptoms) > relevance("block.vda.read_ahead_kb", &fault_symptoms));
    assert!(relevance("block.vda.read_ahead_kb", &readahead_symptoms) > relevance("thp.enabled", &readahead_symptoms));
    assert!(relevance("sysctl.kernel.random.uuid", &fault_symptoms).abs() < f64::EPSILON);
    for def in definitions() {
        let score = relevance(def.pattern, &fault_symptoms);
        assert!((0.0..=1.0).contains(&score), "{}", def.pattern);
    }
}

#[test]
fn docs_page_is_what_the_registry_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    if std::env::var_os("PAGELAB_BLESS").is_some() {
        std::fs::write(&path, markdown()).expect("docs/settings.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == markdown(), "docs/settings.md is not what the registry says; run: make docs");
    for line in markdown().lines().filter(|line| line.starts_with("| `")) {
        let pipes = line.replace("\\|", "").matches('|').count();
        assert_eq!(pipes, 7, "{line}");
    }
}

/// Names that lead astray, the separators, and what stands in real keys.
fn parts() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let known = prop_oneof![
        Just("sysctl"),
        Just("kernel"),
        Just("vm"),
        Just("net"),
        Just("ipv6"),
        Just("conf"),
        Just("thp"),
        Just("block"),
        Just("hugetlb"),
        Just("mm"),
        Just("ksm"),
        Just("cpu"),
        Just("vulnerabilities"),
        Just("2M"),
        Just("node0"),
        Just("iosched"),
        Just("khugepaged"),
        Just("usermodehelper"),
        Just("tcp_"),
        Just("printk"),
        Just("module"),
        Just("cgroup"),
        Just("x"),
        Just("etc"),
        Just(".."),
        Just("."),
        Just("/"),
        Just("//"),
        Just("/."),
        Just("./"),
        Just(""),
        Just("\u{0}"),
        Just(" "),
        Just("\n"),
        Just("%2f"),
        Just("\u{2024}"),
        Just("~"),
        Just("sda;reboot;#"),
    ];
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => "[a-z./]{0,12}", 1 => ".{0,6}"]
}

proptest::proptest! {
    /// Whatever key is accepted, its file lies below the folder of its namespace.
    #[test]
    fn the_file_of_a_key_stays_below_its_folder(
        first in proptest::sample::select(vec!["sysctl.", "thp.", "block.", "hugetlb.", "mm.", "cpu.", "module.", "kernel.", ""]),
        parts in proptest::collection::vec(parts(), 1..10),
        separators in proptest::collection::vec(proptest::sample::select(vec![".", "/", "", "//", "./", "/."]), 10),
    ) {
        let mut key = first.to_owned();
        for (part, separator) in parts.iter().zip(&separators) {
            key.push_str(part);
            key.push_str(separator);
        }
        let Some(path) = setting(&key).and_then(|info| info.path()) else { return Ok(()) };
        let below = path.strip_prefix("/proc/sys/").or_else(|| path.strip_prefix("/sys/"));
        let inside = below.is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")));
        proptest::prop_assert!(inside || matches!(path.as_str(), "/proc/cmdline"), "{key:?} is {path:?}");
        proptest::prop_assert!(!path.contains(|c: char| c.is_control() || c.is_whitespace()), "{key:?} is {path:?}");
    }
}

#[test]
fn keys_that_leave_their_folder_are_no_settings() {
    for key in [
        "sysctl.kernel.//.//.//.tmp.pagelab-poc.victim",
        "sysctl.//.//.//.etc.passwd",
        "sysctl.kernel..printk",
        "sysctl.kernel./.printk",
        "sysctl.kernel.printk.",
        "sysctl..kernel",
        "thp./../../../../etc/passwd",
        "thp.2M./..",
        "block.sda/../../../etc.read_ahead_kb",
        "block.sda;reboot;#.read_ahead_kb",
        "block.sda.iosched./etc",
        "mm.ksm.a/b",
        "cpu.vulnerabilities.a/../b",
        "sysctl.kernel.a b",
        "sysctl.kernel.a\nb",
        "sysctl.net.ipv6.conf.//.stable_secret",
    ] {
        assert!(setting(key).is_none(), "{key:?} is {:?}", setting(key).and_then(|info| info.path()));
    }
    // A dot in a name of the kernel's is no way out.
    let info = setting("sysctl.net.ipv6.conf.eth0/100.disable_ipv6").expect("an interface");
    assert_eq!(info.path().as_deref(), Some("/proc/sys/net/ipv6/conf/eth0.100/disable_ipv6"));
    for device in ["nvme0n1", "dm-0", "cciss!c0d0", "md_d0"] {
        assert!(setting(&format!("block.{device}.read_ahead_kb")).is_some(), "{device}");
    }
}

#[test]
fn what_runs_code_or_cannot_be_taken_back_is_not_written() {
    for key in [
        "sysctl.kernel.core_pattern",
        "sysctl.kernel.modprobe",
        "sysctl.kernel.usermodehelper.bset",
        "sysctl.kernel.usermodehelper.inheritable",
        "sysctl.kernel.kexec_load_limit_panic",
        "sysctl.kernel.modules_disabled",
        "sysctl.kernel.sysrq",
        "sysctl.vm.memfd_noexec",
        "sysctl.kernel.yama.ptrace_scope",
    ] {
        let info = setting(key).unwrap_or_else(|| panic!("{key}"));
        assert!(info.def.scope == Scope::ReadOnly && !info.def.catch_all, "{key}: {}", info.def.help);
    }
    for key in ["sysctl.kernel.of_my_own", "sysctl.dev.raid.speed_limit_max", "sysctl.user.max_user_namespaces"] {
        assert!(setting(key).is_some_and(|info| info.def.catch_all), "{key}");
    }
}
