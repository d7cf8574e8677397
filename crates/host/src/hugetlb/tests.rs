//! Pools, mounts and plans on literal kernel text, and on a kernel that grants in part.

use std::fs::File;
use std::io;
use std::path::Path;

use super::mounts::{MountTable, mounts};
use super::plan::plan;
use super::pools::{PoolTable, page_size, pools};
use super::set::{SetRequest, set_with};
use super::shortage::ShortReason;
use super::{HugetlbError, PoolState};
use crate::guard::{Door, FixtureDoor, GuardError, Hold};
use crate::settings::{self, SettingError};
use crate::testing::Root;

const HUGE_2M: u64 = 2 << 20;
const HUGE_1G: u64 = 1 << 30;

/// A host with two nodes and two page sizes: 150 pages of 2 MiB, of which 22 are surplus.
fn host() -> Root {
    let root = Root::new();
    pool(&root, "/sys/kernel/mm/hugepages", 2048, &[150, 40, 22, 10, 128]);
    pool(&root, "/sys/kernel/mm/hugepages", 1_048_576, &[1, 1, 0, 0, 0]);
    pool(&root, "/sys/devices/system/node/node0/hugepages", 2048, &[100, 30, 22]);
    pool(&root, "/sys/devices/system/node/node1/hugepages", 2048, &[50, 10, 0]);
    root.write("/proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\nHugepagesize: 2048 kB\n");
    root.write(
        "/proc/buddyinfo",
        "Node 0, zone   Normal      2      2      1    1    8    9    6    5    6    3   2\n",
    );
    root.write("/proc/sys/kernel/osrelease", "6.1.0\n");
    root.write("/proc/sys/vm/compact_memory", "");
    root.write("/proc/sys/vm/drop_caches", "0\n");
    root.write("/boot/config-6.1.0", "CONFIG_CONTIG_ALLOC=y\n");
    root
}

fn pool(root: &Root, folder: &str, kib: u64, values: &[u64]) {
    let names = ["nr_hugepages", "free_hugepages", "surplus_hugepages", "resv_hugepages", "nr_overcommit_hugepages"];
    for (name, value) in names.iter().zip(values) {
        root.write(&format!("{folder}/hugepages-{kib}kB/{name}"), &format!("{value}\n"));
    }
}

#[test]
fn pools_are_listed_by_size_and_node() {
    let root = host();
    let found = pools(root.path()).expect("pools");
    let [small, large] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((small.size.as_str(), small.is_default), ("2M", true));
    assert_eq!((small.minimum_pages, small.total_pages, small.maximum_pages), (128, 150, 256));
    assert_eq!((small.counters(), small.used_pages()), ((150, 40, 10, 22), 110));
    let nodes: Vec<_> = small.nodes.iter().map(|n| (n.node, n.minimum_pages, n.total_pages, n.free_pages)).collect();
    assert_eq!(nodes, [(0, 78, 100, 30), (1, 50, 50, 10)]);
    assert_eq!((large.size.as_str(), large.is_default, large.nodes.len()), ("1G", false, 0));
    let table = PoolTable(&found).to_string();
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words.get(1), Some(&vec!["2M", "128", "150", "256", "40", "10", "22", "128", "*"]));
    assert_eq!(words.get(3), Some(&vec!["node1", "50", "50", "-", "10", "-", "0", "-"]));
    let json = serde_json::to_value(&found).expect("JSON");
    assert_eq!(json.pointer("/0/nodes/1/free_pages").and_then(serde_json::Value::as_u64), Some(10));
}

#[test]
fn sizes_are_read_as_typed_and_missing_ones_name_those_there_are() {
    let root = host();
    for typed in ["2M", "2048kB", "2MB", "2048K"] {
        assert_eq!(page_size(root.path(), typed).ok(), Some(HUGE_2M), "{typed}");
    }
    assert_eq!(page_size(root.path(), "1G").ok(), Some(HUGE_1G));
    let error = page_size(root.path(), "16M").expect_err("not there").to_string();
    assert!(error.contains("2M, 1G") && error.contains("needed 16M") && error.contains("type:"), "{error}");
    let error = page_size(root.path(), "huge").expect_err("no size").to_string();
    assert!(error.contains("`huge`") && error.contains("2048kB"), "{error}");
    let none = Root::new();
    let error = pools(none.path()).expect_err("no pools").to_string();
    assert!(error.contains("CONFIG_HUGETLBFS"), "{error}");
}

/// A kernel with a limited number of pages, some of them only after compaction or once caches are dropped.
struct Stingy {
    has: u64,
    after_compaction: u64,
    after_drop: u64,
    compacted: bool,
    dropped: bool,
    refuses: Option<i32>,
}

impl Stingy {
    fn new(has: u64, after_compaction: u64, after_drop: u64) -> Self {
        Stingy { has, after_compaction, after_drop, compacted: false, dropped: false, refuses: None }
    }
}

impl Door for Stingy {
    fn get(&mut self, root: &Path, key: &str) -> Result<String, SettingError> {
        settings::read(root, key)
    }

    fn put(&mut self, root: &Path, key: &str, value: &str) -> io::Result<()> {
        if let Some(errno) = self.refuses {
            return Err(io::Error::from_raw_os_error(errno));
        }
        match key {
            "sysctl.vm.compact_memory" => self.compacted = true,
            "sysctl.vm.drop_caches" => self.dropped = true,
            _ => {
                let most = match (self.compacted, self.dropped) {
                    (_, true) => self.after_drop,
                    (true, false) => self.after_compaction,
                    _ => self.has,
                };
                let pages = value.parse::<u64>().expect("a number").min(most);
                return FixtureDoor.put(root, key, &pages.to_string());
            }
        }
        Ok(())
    }

    fn append(&mut self, journal: &mut File, line: &[u8]) -> io::Result<()> {
        FixtureDoor.append(journal, line)
    }

    fn remove(&mut self, journal: &Path) -> io::Result<()> {
        FixtureDoor.remove(journal)
    }
}

fn empty_pool() -> Root {
    let root = host();
    pool(&root, "/sys/kernel/mm/hugepages", 2048, &[0, 0, 0, 0, 0]);
    root
}

fn request(pages: u64) -> SetRequest {
    SetRequest { page_bytes: HUGE_2M, pages, node: None, overcommit: false, drop_caches: false }
}

#[test]
fn what_was_granted_is_read_back_and_the_tries_are_told() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let set = |root: &Root, door: &mut Stingy, request: &SetRequest| {
        set_with(root.path(), state.path(), door, request).expect("set")
    };
    let whole = set(&empty_pool(), &mut Stingy::new(100, 100, 100), &request(100));
    assert_eq!((whole.granted_pages, whole.granted(), whole.compacted), (100, true, false));
    assert_eq!((whole.before.total_pages, whole.after.total_pages), (0, 100));
    assert_eq!(whole.undo, "pagelab hugepages set 2M 0");
    let compacted = set(&empty_pool(), &mut Stingy::new(60, 100, 100), &request(100));
    assert_eq!((compacted.granted_pages, compacted.compacted, compacted.dropped_caches), (100, true, false));
    // Nothing is dropped unless that was asked for.
    let mut door = Stingy::new(60, 80, 100);
    let short = set(&empty_pool(), &mut door, &request(100));
    assert_eq!((short.granted_pages, short.dropped_caches, door.dropped), (80, false, false));
    let shortage = short.shortage.as_ref().expect("20 are missing");
    assert_eq!((shortage.missing_pages, shortage.reason), (20, ShortReason::Fragmented));
    let text = short.to_string();
    assert!(text.contains("asked for 100 pages, got 80") && text.contains("7 free pieces"), "{text}");
    let dropping = SetRequest { drop_caches: true, ..request(100) };
    let dropped = set(&empty_pool(), &mut Stingy::new(60, 80, 100), &dropping);
    assert_eq!((dropped.granted_pages, dropped.dropped_caches), (100, true));
    // The locks are given back.
    assert_eq!(std::fs::read_dir(state.path()).expect("state folder").count(), 0);
}

#[test]
fn more_than_memory_is_refused_before_anything_is_written() {
    let state = tempfile::tempdir().expect("a temporary folder");
    for (pages, word) in [(1_500, "MemAvailable"), (3_000, "MemTotal"), (u64::MAX, "MemTotal")] {
        let root = empty_pool();
        let error = set_with(root.path(), state.path(), &mut FixtureDoor, &request(pages)).expect_err("too much");
        assert!(
            matches!(&error, HugetlbError::TooMuch { most_pages: 1024, of_what, .. } if of_what.contains(word)),
            "{error}"
        );
        assert!(error.to_string().contains("type: pagelab hugepages set 2M 1024"), "{error}");
        assert_eq!(PoolState::read(root.path(), HUGE_2M).expect("pool").total_pages, 0);
    }
    // Overcommit is a limit, no memory.
    let root = empty_pool();
    let most = SetRequest { overcommit: true, ..request(1_000_000) };
    let report = set_with(root.path(), state.path(), &mut FixtureDoor, &most).expect("set");
    assert_eq!(
        (report.granted_pages, report.after.overcommit_pages, report.after.total_pages),
        (1_000_000, 1_000_000, 0)
    );
}

#[test]
fn nodes_have_their_own_part() {
    let (root, state) = (host(), tempfile::tempdir().expect("a temporary folder"));
    let ask = |request: SetRequest| set_with(root.path(), state.path(), &mut FixtureDoor, &request);
    let report = ask(SetRequest { node: Some(1), ..request(60) }).expect("set");
    assert_eq!((report.key.as_str(), report.granted_pages), ("hugetlb.2M.node1.nr_hugepages", 60));
    assert_eq!(report.undo, "pagelab hugepages set 2M 50 --node 1");
    let error = ask(SetRequest { node: Some(7), ..request(1) }).expect_err("no node").to_string();
    assert!(error.contains("found nodes 0, 1, needed node 7"), "{error}");
    let error = ask(SetRequest { node: Some(1), overcommit: true, ..request(1) }).expect_err("both").to_string();
    assert!(error.contains("--node"), "{error}");
    let error = ask(SetRequest { page_bytes: 64 << 10, ..request(1) }).expect_err("no size").to_string();
    assert!(error.contains("2M, 1G"), "{error}");
}

/// What a node has counts for its part of the pool, whatever the other one has.
#[test]
fn more_than_a_node_has_is_refused() {
    let (root, state) = (host(), tempfile::tempdir().expect("a temporary folder"));
    for (node, total, free) in [(0, 3_145_728, 2_097_152), (1, 1_048_576, 204_800)] {
        root.write(
            &format!("/sys/devices/system/node/node{node}/meminfo"),
            &format!(
                "Node {node} MemTotal: {total} kB\nNode {node} MemFree: {free} kB\nNode {node} Active(file): 0 kB\n\
                 Node {node} Inactive(file): 4096 kB\n"
            ),
        );
    }
    let ask = |node, pages| {
        set_with(root.path(), state.path(), &mut FixtureDoor, &SetRequest { node: Some(node), ..request(pages) })
    };
    // 50 pages are there, and 204 MiB for 102 more.
    for (pages, word) in [(153, "without swapping"), (700, "in all")] {
        let error = ask(1, pages).expect_err("too much");
        assert!(matches!(&error, HugetlbError::TooMuch { most_pages: 152, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(word) && text.contains("type: pagelab hugepages set 2M 152 --node 1"), "{text}");
    }
    let of = |node: usize| PoolState::read(root.path(), HUGE_2M).expect("pool").nodes[node].minimum_pages;
    assert_eq!((of(0), of(1)), (78, 50), "nothing was changed");
    let report = ask(1, 152).expect("fits");
    assert_eq!((report.granted_pages, report.notes), (152, Vec::new()), "surplus pages are on the other node");
    ask(0, 700).expect("fits on the other node");
    // A file does not know its surplus pages, so that they count for those written to it.
    assert_eq!((of(0), of(1)), (700 - 22, 152));
}

/// A pool that this control group may not use is set all the same, and that is said with the command.
#[test]
fn a_limit_of_the_control_group_is_told() {
    let (root, state) = (empty_pool(), tempfile::tempdir().expect("a temporary folder"));
    let pid = std::process::id();
    root.write(&format!("/proc/{pid}/cgroup"), "0::/job/part\n");
    root.write(&format!("/proc/{pid}/mountinfo"), "32 1 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    for (group, most) in [("job", "8388608"), ("job/part", "max")] {
        root.write(&format!("/sys/fs/cgroup/{group}/cgroup.controllers"), "hugetlb\n");
        root.write(&format!("/sys/fs/cgroup/{group}/hugetlb.2MB.max"), &format!("{most}\n"));
        root.write(&format!("/sys/fs/cgroup/{group}/hugetlb.2MB.rsvd.max"), "max\n");
        root.write(&format!("/sys/fs/cgroup/{group}/hugetlb.1GB.max"), "0\n");
    }
    let ask = |pages| set_with(root.path(), state.path(), &mut FixtureDoor, &request(pages)).expect("set");
    let report = ask(5);
    let [note] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
    assert!(note.contains("may use 8388608 bytes of the pool's 10485760"), "{note}");
    assert!(note.contains("type: echo max | sudo tee /sys/fs/cgroup/job/hugetlb.2MB.max"), "{note}");
    assert!(report.to_string().contains(note), "{report}");
    assert_eq!(ask(4).notes, Vec::<String>::new(), "the group may use all of it");
}

#[test]
fn refusals_say_who_may_and_where() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let refused = |errno, request: &SetRequest| {
        let mut door = Stingy { refuses: Some(errno), ..Stingy::new(0, 0, 0) };
        set_with(empty_pool().path(), state.path(), &mut door, request).expect_err("refused").to_string()
    };
    let text = refused(libc::EACCES, &request(5));
    assert!(text.contains("needed root; type: sudo pagelab hugepages set 2M 5"), "{text}");
    let text = refused(libc::EROFS, &request(5));
    assert!(text.contains("read-only"), "{text}");
    let text = refused(libc::EINVAL, &SetRequest { overcommit: true, page_bytes: HUGE_1G, ..request(1) });
    assert!(text.contains("cannot be added on demand"), "{text}");
}

/// While a guard holds the pool for a measurement, a lasting change is refused; afterwards it is made.
#[test]
fn a_pool_that_a_guard_holds_is_left() {
    let (root, state) = (empty_pool(), tempfile::tempdir().expect("a temporary folder"));
    root.write("/proc/sys/kernel/random/boot_id", "ac924afa-6759-45c0-aae4-80c098bab793\n");
    let hold = Hold::take(root.path(), state.path(), &mut FixtureDoor, "hugetlb.2M.node0.nr_hugepages");
    let hold = hold.expect("free");
    let ask = || set_with(root.path(), state.path(), &mut FixtureDoor, &request(5));
    match ask() {
        Err(HugetlbError::Guard(GuardError::Held { key, holder })) => {
            assert!(key.starts_with("hugetlb.2M.") && holder.contains("pid"), "{key} {holder}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(PoolState::read(root.path(), HUGE_2M).expect("pool").total_pages, 0);
    drop(hold);
    assert_eq!(ask().expect("free again").granted_pages, 5);
}

/// A guard that was killed left the pool changed: that is undone before the lasting change is made, and never after.
#[test]
fn what_a_dead_guard_left_is_settled_first() {
    let (root, state) = (empty_pool(), tempfile::tempdir().expect("a temporary folder"));
    let boot = "ac924afa-6759-45c0-aae4-80c098bab793";
    root.write("/proc/sys/kernel/random/boot_id", boot);
    pool(&root, "/sys/kernel/mm/hugepages", 2048, &[64, 64, 0, 0, 0]);
    let header = serde_json::json!({
        "record": "open", "format": 1, "boot_id": boot, "pid": 4_000_000, "root": root.path(), "command": "pagelab run",
    });
    let change = |key: &str| {
        serde_json::json!({
            "record": "intent", "seq": 0, "key": key, "previous": "3", "requested": "64", "companions": [],
        })
    };
    let journal = state.path().join("journal-4000000-0.jsonl");
    std::fs::write(&journal, format!("{header}\n{}\n", change("hugetlb.2M.nr_hugepages"))).expect("written");
    let report = set_with(root.path(), state.path(), &mut FixtureDoor, &request(5)).expect("set");
    assert_eq!((report.before.total_pages, report.after.total_pages), (3, 5));
    assert_eq!(report.undo, "pagelab hugepages set 2M 3");
    assert!(!journal.exists());
    // One that somebody else still undoes, or that cannot be undone, keeps the pool from being changed.
    std::fs::write(&journal, format!("{header}\n{}\n", change("hugetlb.2M.nr_hugepages"))).expect("written");
    let held = File::open(&journal).expect("open");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let error = set_with(root.path(), state.path(), &mut FixtureDoor, &request(9)).expect_err("held").to_string();
    assert!(error.contains("pagelab restore") && error.contains("journal-4000000"), "{error}");
    assert_eq!(PoolState::read(root.path(), HUGE_2M).expect("pool").total_pages, 5);
}

#[test]
fn mounts_carry_the_options_that_the_kernel_lists() {
    let root = Root::new();
    root.write(
        "/proc/self/mountinfo",
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
         60 27 0:50 / /dev/hugepages rw,nosuid - hugetlbfs hugetlbfs rw,pagesize=2M\n\
         61 27 0:51 / /srv/two\\040words ro - hugetlbfs none rw,uid=7,gid=8,mode=1777,nr_inodes=9,pagesize=1024M,size=2147483648,min_size=1073741824\n",
    );
    let found = mounts(root.path()).expect("mounts");
    let [plain, full] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((plain.size.as_deref(), plain.page_bytes, plain.mode.as_str()), (Some("2M"), Some(HUGE_2M), "755"));
    assert_eq!((plain.size_bytes, plain.min_bytes, plain.inodes, plain.writable), (None, None, None, true));
    assert_eq!((full.mountpoint.as_str(), full.size.as_deref()), ("/srv/two words", Some("1G")));
    assert_eq!((full.size_bytes, full.min_bytes, full.inodes), (Some(2 << 30), Some(1 << 30), Some(9)));
    assert_eq!((full.uid, full.gid, full.mode.as_str(), full.writable), (7, 8, "1777", false));
    assert!(full.usage.is_none() && full.usage_reason.is_some());
    assert!(MountTable(&found).to_string().contains("/srv/two words"));
    root.write("/proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n");
    assert_eq!(MountTable(&mounts(root.path()).expect("none")).to_string(), "no hugetlbfs is mounted\n");
}

#[test]
fn a_plan_has_room_for_what_is_in_use_and_says_what_to_write_where() {
    let root = host();
    // 110 pages are touched and 10 promised; 100 MB are 47.7 pages.
    let found = plan(root.path(), 100_000_000, None).expect("plan");
    assert_eq!((found.needed_pages, found.pool_pages, found.growth_pages), (48, 168, 40));
    assert_eq!((found.fits_now, found.fits_after_boot), (Some(true), Some(true)));
    let text = |kind: &str| {
        let ways = found.lasting.iter().chain(&found.mount);
        ways.filter(|way| way.kind == kind).map(|way| way.text.clone()).collect::<String>()
    };
    assert_eq!(text("sysctl"), "vm.nr_hugepages = 168\n");
    assert_eq!(text("kernel_cmdline"), "hugepagesz=2M hugepages=168");
    assert_eq!(text("tmpfiles"), "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 168\n");
    assert!(text("fstab").contains("pagesize=2M") && text("systemd_unit").contains("echo 168 >"));
    assert_eq!(found.make_default, None);
    // The other size has no sysctl, and the boot loader comes first.
    let large = plan(root.path(), (3 << 30) + 1, Some(HUGE_1G)).expect("plan");
    assert_eq!((large.needed_pages, large.fits_now, large.fits_after_boot), (4, Some(false), Some(false)));
    assert_eq!(large.lasting.first().map(|way| way.kind), Some("kernel_cmdline"));
    assert!(large.lasting.iter().all(|way| way.kind != "sysctl"));
    assert_eq!(large.make_default.as_deref(), Some("default_hugepagesz=1G hugepagesz=1G hugepages=4"));
    assert!(large.to_string().contains("does not fit this host"), "{large}");
    // More than is available now: the boot loader comes first for the small size, too.
    let much = plan(root.path(), 3 << 30, None).expect("plan");
    assert_eq!((much.fits_now, much.fits_after_boot), (Some(false), Some(true)));
    assert_eq!(much.lasting.first().map(|way| way.kind), Some("kernel_cmdline"));
    assert_eq!(found.lasting.first().map(|way| way.kind), Some("sysctl"));
    assert!(much.to_string().contains("does not fit now: 2147483648 bytes are available"), "{much}");
    assert!(plan(root.path(), 0, None).is_err() && plan(root.path(), 1, Some(4096)).is_err());
    assert!(plan(root.path(), u64::MAX, None).is_ok_and(|plan| plan.fits_after_boot == Some(false)));
}
