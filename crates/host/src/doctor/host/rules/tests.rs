//! Each rule on literal kernel text: one thing is changed on a healthy host, and one thing is said.

use std::collections::BTreeSet;
use std::path::Path;

use super::RULES;
use crate::doctor::host::look;
use crate::doctor::{Finding, Level};
use crate::testing::Root;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// A host with nothing to be said of.
fn healthy() -> Root {
    let root = Root::new();
    for (path, text) in [
        (format!("{THP}/enabled"), "[always] madvise never\n"),
        (format!("{THP}/defrag"), "always defer defer+madvise [madvise] never\n"),
        (format!("{THP}/shmem_enabled"), "always within_size [advise] never deny force\n"),
        (format!("{THP}/hugepages-2048kB/enabled"), "always [inherit] madvise never\n"),
        (format!("{POOL}/nr_hugepages"), "4\n"),
        (format!("{POOL}/free_hugepages"), "4\n"),
        (format!("{POOL}/resv_hugepages"), "0\n"),
        (format!("{POOL}/surplus_hugepages"), "0\n"),
        (format!("{POOL}/nr_overcommit_hugepages"), "0\n"),
        ("/proc/meminfo".to_owned(), "MemTotal: 8388608 kB\nHugepagesize: 2048 kB\n"),
        ("/proc/buddyinfo".to_owned(), "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 500\n"),
        ("/proc/self/mountinfo".to_owned(), MOUNTS),
        ("/proc/7/mountinfo".to_owned(), MOUNTS),
    ] {
        root.write(&path, text);
    }
    root
}

const MOUNTS: &str = "22 1 0:20 / /dev/hugepages rw - hugetlbfs none rw,pagesize=2M\n";

fn ids(root: &Path) -> Vec<&'static str> {
    look(root, 7).findings.iter().map(|finding| finding.id).collect()
}

#[test]
fn of_a_healthy_host_there_is_nothing_to_say() {
    assert_eq!(ids(healthy().path()), [] as [&str; 0]);
}

/// One thing is changed on a healthy host, and one thing is said.
#[test]
fn each_rule_sees_its_own_fault_and_no_other() {
    for (path, text, id) in [
        (format!("{THP}/enabled"), "always madvise [never]\n", "thp.never"),
        (format!("{THP}/enabled"), "always [madvise] never\n", "thp.by_advice"),
        (format!("{THP}/shmem_enabled"), "always within_size advise never [deny] force\n", "thp.shared_never"),
        (format!("{THP}/defrag"), "always [defer] defer+madvise madvise never\n", "thp.no_direct_compaction"),
        (format!("{POOL}/nr_hugepages"), "0\n", "hugetlb.pool_empty"),
        (format!("{POOL}/resv_hugepages"), "4\n", "hugetlb.pool_used_up"),
        ("/proc/cmdline".to_owned(), "quiet hugepagesz=2M hugepages=8\n", "hugetlb.less_than_booted"),
        ("/proc/7/mountinfo".to_owned(), "22 1 0:20 / / rw - ext4 /dev/sda rw\n", "hugetlb.not_mounted"),
        ("/proc/buddyinfo".to_owned(), "Node 0, zone Normal 90000 0 0 0 0 0 0 0 0 0 1\n", "memory.fragmented"),
        ("/proc/7/limits".to_owned(), LIMITS, "rlimit.memlock_small"),
        ("/sys/bus/nd/devices/namespace0.0/size".to_owned(), "1048576\n", "dax.namespace_mode"),
    ] {
        let root = healthy();
        root.write("/sys/bus/nd/devices/namespace0.0/mode", "raw\n");
        root.write(&path, text);
        let found = ids(root.path());
        assert_eq!(found, [id], "{path}: {text}");
    }
}

const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max locked memory         65536                65536                bytes     \n";

#[test]
fn the_rule_of_a_size_stands_above_the_rule_for_all() {
    let root = healthy();
    root.write(&format!("{THP}/hugepages-2048kB/enabled"), "always inherit madvise [never]\n");
    assert_eq!(ids(root.path()), ["thp.never", "thp.size_differs"]);
    let found = look(root.path(), 7).findings;
    assert!(found[0].found.contains("hugepages-2048kB") && found[0].fix.is_some(), "{found:?}");
}

#[test]
fn problems_come_first_and_an_empty_host_has_none() {
    let root = healthy();
    root.write(&format!("{THP}/defrag"), "always defer defer+madvise madvise [never]\n");
    root.write(&format!("{POOL}/free_hugepages"), "0\n");
    assert_eq!(ids(root.path()), ["hugetlb.pool_used_up", "thp.no_direct_compaction"]);
    assert_eq!(ids(Root::new().path()), [] as [&str; 0], "what cannot be read is not judged");
}

const CONFIG: &str = "/boot/config-6.1.0";
const RELEASE: (&str, &str) = ("/proc/sys/kernel/osrelease", "6.1.0\n");
const ND: &str = "/sys/bus/nd/devices";
const GROUP_V1: &str = "/sys/fs/cgroup/hugetlb/job/part";
const GROUP_V2: &str = "/sys/fs/cgroup/unified/job/part";
const GROUP_MEMORY: &str = "/sys/fs/cgroup/memory/job";

/// A process in groups of both hierarchies, none of which has a limit.
fn in_groups() -> Root {
    let root = healthy();
    root.write("/proc/7/cgroup", "4:memory:/job\n3:hugetlb:/job/part\n0::/job/part\n");
    let mounts = [
        "30 1 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        "31 1 0:31 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n",
        "32 1 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    ];
    root.write("/proc/7/mountinfo", &format!("{MOUNTS}{}", mounts.concat()));
    for folder in ["/sys/fs/cgroup/hugetlb", "/sys/fs/cgroup/hugetlb/job", GROUP_V1] {
        root.write(&format!("{folder}/hugetlb.2MB.limit_in_bytes"), "9223372036852678656\n");
        root.write(&format!("{folder}/hugetlb.2MB.usage_in_bytes"), "2097152\n");
    }
    for folder in ["/sys/fs/cgroup/memory", GROUP_MEMORY] {
        root.write(&format!("{folder}/memory.limit_in_bytes"), "9223372036854771712\n");
        root.write(&format!("{folder}/memory.memsw.limit_in_bytes"), "9223372036854771712\n");
        root.write(&format!("{folder}/memory.usage_in_bytes"), "1000\n");
    }
    root
}

/// The same with hugetlb on the other hierarchy, as where memory is still on v1.
fn in_groups_v2() -> Root {
    let root = in_groups();
    root.write("/proc/7/cgroup", "4:memory:/job\n0::/job/part\n");
    for folder in ["/sys/fs/cgroup/unified/job", GROUP_V2] {
        root.write(&format!("{folder}/cgroup.controllers"), "hugetlb\n");
        for name in ["max", "rsvd.max"] {
            root.write(&format!("{folder}/hugetlb.2MB.{name}"), "max\n");
        }
        for name in ["current", "rsvd.current"] {
            root.write(&format!("{folder}/hugetlb.2MB.{name}"), "4194304\n");
        }
    }
    root
}

/// A namespace of persistent memory that has nothing wrong.
fn with_namespace() -> Root {
    let root = healthy();
    for (path, text) in [
        ("namespace0.0/mode", "memory\n"),
        ("namespace0.0/size", "1073741824\n"),
        ("namespace0.0/holder", "pfn0.1\n"),
        ("pfn0.1/align", "2097152\n"),
    ] {
        root.write(&format!("{ND}/{path}"), text);
    }
    root.write(RELEASE.0, RELEASE.1);
    root.write(CONFIG, "CONFIG_FS_DAX=y\nCONFIG_FS_DAX_PMD=y\n");
    root
}

/// The finding that one file's text causes on a host with no other finding.
fn said(root: &Root, path: &str, text: &str) -> Finding {
    assert_eq!(ids(root.path()), [] as [&str; 0], "before {path} is written");
    root.write(path, text);
    let found = look(root.path(), 7).findings;
    let [finding] = found.as_slice() else { panic!("{path}: {text:?}: {found:#?}") };
    finding.clone()
}

/// Host, file and text, with the finding that they make, its level, and words of its command.
type Case = (fn() -> Root, String, &'static str, &'static str, Level, &'static str);

fn cases() -> Vec<Case> {
    [cases_of_memory(), cases_of_limits(), cases_of_dax()].concat()
}

fn cases_of_memory() -> Vec<Case> {
    use Level::{Note, Problem};
    let thp = |file: &str| format!("{THP}/{file}");
    let pool = |file: &str| format!("{POOL}/{file}_hugepages");
    vec![
        (healthy, thp("enabled"), "always madvise [never]", "thp.never", Problem, "echo madvise | sudo tee"),
        (healthy, thp("enabled"), "always [madvise] never", "thp.by_advice", Note, "echo always | sudo tee"),
        (healthy, thp("shmem_enabled"), "always [never] deny", "thp.shared_never", Note, "echo advise | sudo tee"),
        (healthy, thp("shmem_enabled"), "never [deny] force", "thp.shared_never", Note, "echo advise | sudo tee"),
        (healthy, thp("hugepages-2048kB/shmem_enabled"), "[never]", "thp.shared_never", Note, "2048kB/shmem_enabled"),
        (healthy, thp("defrag"), "always [defer] never", "thp.no_direct_compaction", Note, "echo madvise | sudo tee"),
        (healthy, thp("defrag"), "always defer [never]", "thp.no_direct_compaction", Note, "echo madvise | sudo tee"),
        (healthy, pool("nr"), "0", "hugetlb.pool_empty", Note, "sudo pagelab hugepages set 2M 64"),
        (healthy, pool("resv"), "4", "hugetlb.pool_used_up", Problem, "sudo pagelab hugepages set 2M 5"),
        (healthy, "/proc/cmdline".into(), "hugepages=8", "hugetlb.less_than_booted", Problem, "hugepages set 2M 8"),
        (healthy, "/proc/7/mountinfo".into(), "", "hugetlb.not_mounted", Note, "mount -t hugetlbfs none"),
        (
            healthy,
            "/proc/buddyinfo".into(),
            "Node 0, zone Normal 90000",
            "memory.fragmented",
            Problem,
            "compact_memory",
        ),
        (
            healthy,
            "/proc/buddyinfo".into(),
            "Node 0, zone N 90000 0 0 0 0 0 0 0 0 1",
            "memory.fragmented",
            Note,
            "compact",
        ),
    ]
}

fn cases_of_limits() -> Vec<Case> {
    use Level::{Note, Problem};
    let group = |folder: &str, file: &str| format!("{folder}/{file}");
    vec![
        (
            healthy,
            "/proc/7/status".into(),
            "Name:\tx\nTHP_enabled:\t0",
            "thp.disabled_for_process",
            Problem,
            "exec --heap thp",
        ),
        (healthy, "/proc/7/limits".into(), LIMITS, "rlimit.memlock_small", Note, "sudo prlimit --pid $$"),
        (healthy, "/proc/7/limits".into(), SOFT_LIMITS, "rlimit.memlock_small", Note, "ulimit -S -l 8192"),
        (healthy, "/proc/7/limits".into(), NO_HARD_LIMIT, "rlimit.memlock_small", Note, "ulimit -l unlimited"),
        (
            healthy,
            "/proc/sys/kernel/shmmax".into(),
            "4194304",
            "sysv.segments_limited",
            Note,
            "sysctl kernel.shmmax=184",
        ),
        (healthy, "/proc/sys/kernel/shmall".into(), "1000", "sysv.segments_limited", Note, "sysctl kernel.shmall=184"),
        (
            in_groups,
            group(GROUP_V1, "hugetlb.2MB.limit_in_bytes"),
            "8388608",
            "cgroup.hugetlb_limited",
            Note,
            "echo -1 |",
        ),
        (in_groups, group(GROUP_V1, "hugetlb.2MB.limit_in_bytes"), "0", "cgroup.hugetlb_limited", Problem, "echo -1 |"),
        (in_groups_v2, group(GROUP_V2, "hugetlb.2MB.max"), "8388608", "cgroup.hugetlb_limited", Note, "echo max |"),
        (in_groups_v2, group(GROUP_V2, "hugetlb.2MB.max"), "4194304", "cgroup.hugetlb_limited", Problem, "echo max |"),
        (in_groups_v2, group(GROUP_V2, "hugetlb.2MB.rsvd.max"), "8388608", "cgroup.hugetlb_limited", Note, "rsvd.max"),
        // A limit of a group above binds as well.
        (
            in_groups_v2,
            "/sys/fs/cgroup/unified/job/hugetlb.2MB.max".into(),
            "6291456",
            "cgroup.hugetlb_limited",
            Note,
            "unified/job/hugetlb",
        ),
        (
            in_groups,
            group(GROUP_MEMORY, "memory.limit_in_bytes"),
            "1073741824",
            "cgroup.memory_limited",
            Note,
            "echo -1 |",
        ),
    ]
}

fn cases_of_dax() -> Vec<Case> {
    use Level::Problem;
    vec![
        (
            with_namespace,
            format!("{ND}/namespace0.0/mode"),
            "raw",
            "dax.namespace_mode",
            Problem,
            "ndctl create-namespace",
        ),
        (
            with_namespace,
            format!("{ND}/namespace0.0/mode"),
            "safe",
            "dax.namespace_mode",
            Problem,
            "ndctl create-namespace",
        ),
        (with_namespace, format!("{ND}/pfn0.1/align"), "4096", "dax.namespace_align", Problem, "--align=2M"),
        (with_namespace, CONFIG.into(), "CONFIG_FS_DAX=y", "dax.not_built", Problem, "grep -l CONFIG_FS_DAX_PMD=y"),
        (
            with_namespace,
            CONFIG.into(),
            "# CONFIG_FS_DAX is not set",
            "dax.not_built",
            Problem,
            "grep -l CONFIG_FS_DAX",
        ),
    ]
}

const SOFT_LIMITS: &str = "Max locked memory         65536                8388608              bytes     \n";
const NO_HARD_LIMIT: &str = "Max locked memory         65536                unlimited            bytes     \n";

/// Level, finding, need, reason and command: nothing is left to guess.
fn has_all_five(finding: &Finding) {
    let texts = [&finding.found, &finding.needed, &finding.why];
    assert!(texts.iter().all(|text| text.len() > 5), "{finding:?}");
    let fix = finding.fix.as_deref().unwrap_or_else(|| panic!("no command: {finding:?}"));
    // A shell takes it as it stands.
    let checked = std::process::Command::new("sh").args(["-n", "-c", fix]).status().expect("sh");
    assert!(checked.success() && !fix.contains('<'), "{fix}");
}

#[test]
fn each_rule_speaks_with_level_found_needed_why_and_command() {
    let mut seen = BTreeSet::new();
    for (host, path, text, id, level, words) in cases() {
        let finding = said(&host(), &path, text);
        assert_eq!((finding.id, finding.level), (id, level), "{path}: {text}");
        has_all_five(&finding);
        let fix = finding.fix.as_deref().unwrap_or_default();
        assert!(fix.contains(words), "{id}: {words:?} in {fix}");
        seen.insert(id);
    }
    // Two rules need more than one file to be otherwise.
    let differs = healthy();
    differs.write(&format!("{THP}/enabled"), "always [madvise] never\n");
    differs.write(&format!("{THP}/hugepages-2048kB/enabled"), "[always] inherit madvise never\n");
    let unbuilt = healthy();
    std::fs::remove_dir_all(unbuilt.at(THP)).expect("removed");
    unbuilt.write(RELEASE.0, RELEASE.1);
    unbuilt.write(CONFIG, "# CONFIG_TRANSPARENT_HUGEPAGE is not set\n");
    for (root, id) in [(differs, "thp.size_differs"), (unbuilt, "thp.not_built")] {
        let found = look(root.path(), 7).findings;
        assert_eq!(found.iter().map(|finding| finding.id).collect::<Vec<_>>(), [id]);
        found.iter().for_each(has_all_five);
        seen.insert(id);
    }
    assert_eq!(seen.len(), RULES.len(), "a rule that no text makes speak; these do: {seen:?}");
}

/// Where several groups are limited, the least counts, and the command lifts all of them.
#[test]
fn of_several_groups_the_least_limit_counts() {
    let root = in_groups();
    root.write(&format!("{GROUP_V1}/hugetlb.2MB.limit_in_bytes"), "8388608\n");
    root.write("/sys/fs/cgroup/hugetlb/job/hugetlb.2MB.limit_in_bytes", "4194304\n");
    root.write(&format!("{GROUP_MEMORY}/memory.limit_in_bytes"), "1073741824\n");
    root.write(&format!("{GROUP_MEMORY}/memory.memsw.limit_in_bytes"), "1073741824\n");
    let report = look(root.path(), 7);
    let of = |controller: &str| report.cgroup_limits.iter().find(|limit| limit.controller == controller).expect("one");
    let huge = of("hugetlb");
    assert_eq!((huge.version, huge.max_bytes, huge.used_bytes), (1, Some(4 << 20), Some(2 << 20)));
    assert_eq!(huge.file, "/sys/fs/cgroup/hugetlb/job/hugetlb.2MB.limit_in_bytes");
    assert!(huge.lift().contains("hugetlb/job/hugetlb") && huge.lift().contains("job/part/hugetlb"), "{}", huge.lift());
    // Memory and swap together come first: the kernel refuses memory beyond them.
    let memory = of("memory").lift();
    assert!(memory.find("memsw") < memory.find("memory.limit"), "{memory}");
    let text = report.to_string();
    for line in ["LIMIT cgroup v1 hugetlb 2M: 4194304 bytes, 2097152 used", "LIMIT cgroup v1 memory: 1073741824 bytes"]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// Everything that a host has to be asked for has its line.
#[test]
fn people_see_all_of_it() {
    let root = in_groups_v2();
    for (path, text) in [
        (format!("{THP}/hugepages-64kB/enabled"), "always inherit madvise [never]\n"),
        (format!("{THP}/hugepages-2048kB/shmem_enabled"), "always [inherit] advise never\n"),
        (format!("{THP}/khugepaged/max_ptes_none"), "511\n"),
        (format!("{THP}/khugepaged/scan_sleep_millisecs"), "10000\n"),
        ("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages".to_owned(), "3\n"),
        ("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages".to_owned(), "2\n"),
        ("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/surplus_hugepages".to_owned(), "0\n"),
        (
            "/proc/self/mountinfo".to_owned(),
            "22 1 0:20 / /mnt/h rw - hugetlbfs none rw,pagesize=2M,size=8388608,min_size=4194304\n",
        ),
        ("/proc/cmdline".to_owned(), "quiet transparent_hugepage=madvise\n"),
        (CONFIG.to_owned(), "CONFIG_HUGETLBFS=y\nCONFIG_TRANSPARENT_HUGEPAGE=y\n"),
        (RELEASE.0.to_owned(), RELEASE.1),
        ("/proc/sys/kernel/shmmax".to_owned(), "18446744073692774399\n"),
        ("/proc/sys/vm/hugetlb_shm_group".to_owned(), "27\n"),
        (
            "/proc/7/limits".to_owned(),
            "Max locked memory unlimited unlimited bytes\nMax address space unlimited unlimited bytes\n",
        ),
        ("/proc/pagetypeinfo".to_owned(), "Number of blocks type Unmovable Movable\nNode 0, zone Normal 4 500\n"),
        ("/sys/bus/dax/devices/dax0.0/size".to_owned(), "1073741824\n"),
    ] {
        root.write(&path, text);
    }
    let text = look(root.path(), 7).to_string();
    for line in [
        "SIZES enabled: inherit 2M; never 64K",
        "SIZES shmem_enabled: inherit 2M",
        "KHUGE scan_sleep_millisecs 10000, max_ptes_none 511",
        "POOL  2M: 4 pages, 4 free, 0 reserved, 0 surplus, 0 on demand (the default size)",
        "POOL  2M on node1: 3 pages, 2 free, 0 surplus",
        "FREE  node 0 Normal: 2000 MiB, 1000 huge pages; pieces of 1, 2, 4, ... pages: 0 0 0 0 0 0 0 0 0 0 500",
        "BLOCK node 0 Normal of 2M: 500 movable, 4 unmovable",
        "SUBPOOL /mnt/h of 2M: size 8M, min_size 4M; used: not this host",
        "LIMIT cgroup v2 hugetlb 2M: no limit, 4194304 used",
        "LIMIT cgroup v2 hugetlb 2M reserved: no limit",
        "LIMIT locked memory unlimited:unlimited, address space unlimited:unlimited",
        "SYSV  shmmax 18446744073692774399, hugetlb_shm_group 27",
        "BOOT  cmdline.* transparent_hugepage=madvise",
        "BOOT  kconfig.* HUGETLBFS=y TRANSPARENT_HUGEPAGE=y",
        "DAX   dax0.0: 1G",
        "CAN   ",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
}
