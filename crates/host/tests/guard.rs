//! What the guard does with a kernel that grants in part, rewrites other settings, refuses, or is changed by others.
//! The kernels here are small models behind the guard's door; `host_guard.rs` asks the real one.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{FIXTURE, Host, eventually};
use pagelab_host::guard::{Door, FixtureDoor, Guard, GuardError, GuardOptions, restore_leftovers_in};
use pagelab_host::settings::SettingError;

const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EROFS: i32 = 30;

fn options(host: &Host, door: Box<dyn Door>) -> GuardOptions {
    GuardOptions { root: host.root(), state_dir: host.state(), helper_exe: PathBuf::from(FIXTURE), door }
}

fn open(host: &Host) -> Guard {
    Guard::open_with(options(host, Box::new(FixtureDoor))).expect("guard opens")
}

/// What a written value does to a model of the kernel.
type Rule = fn(&mut BTreeMap<String, String>, &str, &str) -> io::Result<()>;

/// A kernel in memory. The guard still needs the files to exist, because it asks the host which knobs there are.
#[derive(Clone)]
struct Model {
    values: Arc<Mutex<BTreeMap<String, String>>>,
    rule: Rule,
    journal_full: Arc<Mutex<bool>>,
    puts: Arc<Mutex<Vec<String>>>,
}

impl Model {
    fn new(values: &[(&str, &str)], rule: Rule) -> Self {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Model {
            values: Arc::new(Mutex::new(values)),
            rule,
            journal_full: Arc::new(Mutex::new(false)),
            puts: Arc::default(),
        }
    }

    fn value(&self, key: &str) -> String {
        self.values.lock().expect("unlocked").get(key).cloned().unwrap_or_default()
    }

    fn change(&self, key: &str, value: &str) {
        self.values.lock().expect("unlocked").insert(key.to_owned(), value.to_owned());
    }
}

impl Door for Model {
    fn get(&mut self, root: &Path, key: &str) -> Result<String, SettingError> {
        match self.values.lock().expect("unlocked").get(key) {
            Some(value) => Ok(value.clone()),
            None => FixtureDoor.get(root, key),
        }
    }

    fn put(&mut self, _: &Path, key: &str, value: &str) -> io::Result<()> {
        self.puts.lock().expect("unlocked").push(format!("{key}={value}"));
        (self.rule)(&mut self.values.lock().expect("unlocked"), key, value)
    }

    fn append(&mut self, journal: &mut File, line: &[u8]) -> io::Result<()> {
        if *self.journal_full.lock().expect("unlocked") {
            return Err(io::ErrorKind::StorageFull.into());
        }
        FixtureDoor.append(journal, line)
    }

    fn remove(&mut self, journal: &Path) -> io::Result<()> {
        FixtureDoor.remove(journal)
    }
}

/// Takes every value.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several rules of one type")]
fn plain(values: &mut BTreeMap<String, String>, key: &str, value: &str) -> io::Result<()> {
    values.insert(key.to_owned(), value.to_owned());
    Ok(())
}

#[test]
fn what_was_changed_is_put_back_in_reverse_order() {
    let host = Host::new();
    let before = host.all();
    let mut guard = open(&host);
    let applied = guard.set("sysctl.vm.swappiness", "10").expect("set");
    assert_eq!((applied.previous.as_str(), applied.got.as_str(), applied.granted()), ("60", "10", true));
    let again = guard.set("sysctl.vm.swappiness", "20").expect("set");
    assert_eq!((again.previous.as_str(), again.got.as_str()), ("10", "20"));
    guard.set("thp.enabled", "always").expect("set");
    assert_eq!(host.read("sys/kernel/mm/transparent_hugepage/enabled"), "always");
    let report = guard.restore();
    let order: Vec<String> = report.restored.iter().map(|one| format!("{}={}", one.key, one.to)).collect();
    assert_eq!(order, ["thp.enabled=madvise", "sysctl.vm.swappiness=10", "sysctl.vm.swappiness=60"]);
    assert!(report.is_clean());
    assert_eq!(host.all(), before);
    // The guard goes on: the next variant of an experiment uses the same one.
    guard.set("sysctl.vm.swappiness", "30").expect("set");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "30");
    assert!(guard.close().is_clean());
    assert_eq!(host.all(), before);
    assert_eq!(host.leftovers(), Vec::<String>::new());
}

#[test]
fn several_are_set_together_or_not_at_all() {
    let host = Host::new();
    let mut guard = open(&host);
    guard.set("sysctl.vm.stat_interval", "5").expect("set");
    let before = host.all();
    let wrong = [("thp.enabled", "never"), ("sysctl.vm.swappiness", "10"), ("sysctl.vm.swapiness", "10")];
    assert!(guard.set_all(wrong).is_err());
    assert_eq!(host.all(), before, "what was set before the call stays, what the call set does not");
    let applied = guard.set_all([("thp.enabled", "never"), ("sysctl.vm.swappiness", "10")]).expect("both");
    assert_eq!(applied.len(), 2);
    assert_eq!(guard.close().restored.len(), 3);
    assert_eq!(host.read("proc/sys/vm/stat_interval"), "1");
}

#[test]
fn the_value_found_is_not_written_again() {
    let host = Host::new();
    let model = Model::new(&[("sysctl.vm.swappiness", "60")], plain);
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    let applied = guard.set("sysctl.vm.swappiness", "60").expect("nothing to do");
    assert!(applied.granted() && applied.previous == "60");
    assert!(guard.close().restored.is_empty());
    assert_eq!(*model.puts.lock().expect("unlocked"), Vec::<String>::new());
}

#[test]
fn asked_is_not_got() {
    let host = Host::new();
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    host.write(&format!("{pool}/nr_hugepages"), "3\n");
    host.write(&format!("{pool}/surplus_hugepages"), "0\n");
    let key = "hugetlb.2M.nr_hugepages";
    let model = Model::new(&[(key, "3")], |values, key, value| {
        let granted = value.parse::<u64>().unwrap_or(0).min(40);
        values.insert(key.to_owned(), granted.to_string());
        Ok(())
    });
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    let applied = guard.set("hugetlb.2048kB.nr_hugepages", "1000").expect("granted in part");
    assert_eq!((applied.key.as_str(), applied.requested.as_str(), applied.got.as_str()), (key, "1000", "40"));
    assert!(!applied.granted());
    let report = guard.close();
    assert!(report.is_clean(), "what was got is what is expected on the way back: {report}");
    assert_eq!(model.value(key), "3");
}

#[test]
fn surplus_pages_are_nobodys_setting() {
    let host = Host::new();
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    host.write(&format!("{pool}/nr_hugepages"), "0\n");
    host.write(&format!("{pool}/surplus_hugepages"), "0\n");
    let mut guard = open(&host);
    guard.set("hugetlb.2M.nr_hugepages", "128").expect("set");
    // A program takes 22 surplus pages: the kernel counts them into nr_hugepages.
    host.write(&format!("{pool}/nr_hugepages"), "150\n");
    host.write(&format!("{pool}/surplus_hugepages"), "22\n");
    let report = guard.restore();
    assert!(report.left.is_empty(), "not somebody else's change: {report}");
    assert_eq!(host.read(&format!("{pool}/nr_hugepages")), "0");
}

#[test]
fn what_the_kernel_rewrites_is_put_back_too() {
    let host = Host::new();
    let model =
        Model::new(&[("thp.enabled", "madvise"), ("sysctl.vm.min_free_kbytes", "67584")], |values, key, value| {
            plain(values, key, value)?;
            if key == "thp.enabled" {
                plain(values, "sysctl.vm.min_free_kbytes", if value == "never" { "11000" } else { "22000" })?;
            }
            Ok(())
        });
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    let applied = guard.set("thp.enabled", "never").expect("set");
    let effect = applied.side_effects.first().expect("min_free_kbytes was rewritten");
    assert_eq!((effect.key.as_str(), effect.after.as_deref()), ("sysctl.vm.min_free_kbytes", Some("11000")));
    guard.restore();
    // Switching huge pages back rewrote it once more, to a value of the kernel's; the one found counts.
    assert_eq!(
        (model.value("thp.enabled").as_str(), model.value("sysctl.vm.min_free_kbytes").as_str()),
        ("madvise", "67584")
    );
    // If somebody set it meanwhile, it stays as they set it.
    guard.set("thp.enabled", "never").expect("set");
    model.change("sysctl.vm.min_free_kbytes", "99999");
    let report = guard.restore();
    assert_eq!(report.left.len(), 1, "{report}");
    assert_eq!(model.value("thp.enabled"), "madvise");
}

/// vm.dirty_ratio and vm.dirty_bytes as mm/page-writeback.c has them: writing one zeroes the other, and 0 bytes are
/// refused.
fn dirty(values: &mut BTreeMap<String, String>, key: &str, value: &str) -> io::Result<()> {
    let other = if key.ends_with("bytes") { "sysctl.vm.dirty_ratio" } else { "sysctl.vm.dirty_bytes" };
    if key.ends_with("bytes") && value.parse::<u64>().is_ok_and(|bytes| bytes < 8192) {
        return Err(io::Error::from_raw_os_error(EINVAL));
    }
    if values.get(key).map(String::as_str) != Some(value) {
        plain(values, other, "0")?;
    }
    plain(values, key, value)
}

#[test]
fn settings_that_exclude_each_other_come_back_together() {
    for (ratio, bytes, key, value) in [
        ("20", "0", "sysctl.vm.dirty_bytes", "4194304"),
        ("0", "1048576", "sysctl.vm.dirty_ratio", "5"),
        ("20", "0", "sysctl.vm.dirty_ratio", "5"),
        ("0", "1048576", "sysctl.vm.dirty_bytes", "4194304"),
    ] {
        let host = Host::new();
        host.write("proc/sys/vm/dirty_ratio", "20\n");
        host.write("proc/sys/vm/dirty_bytes", "0\n");
        let model = Model::new(&[("sysctl.vm.dirty_ratio", ratio), ("sysctl.vm.dirty_bytes", bytes)], dirty);
        let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
        guard.set(key, value).expect("set");
        assert_eq!(model.value(key), value);
        let report = guard.restore();
        assert!(report.is_clean(), "{report}");
        assert_eq!(model.value("sysctl.vm.dirty_ratio"), ratio, "{key}");
        assert_eq!(model.value("sysctl.vm.dirty_bytes"), bytes, "{key}");
    }
}

#[test]
fn another_scheduler_brings_its_own_queue() {
    let host = Host::new();
    host.write("sys/block/vda/queue/scheduler", "none [mq-deadline] bfq\n");
    host.write("sys/block/vda/queue/nr_requests", "256\n");
    host.write("sys/block/vda/queue/wbt_lat_usec", "75000\n");
    host.write("sys/block/vda/queue/iosched/read_expire", "123\n");
    let rule: Rule = |values, key, value| {
        plain(values, key, value)?;
        if key == "block.vda.scheduler" {
            plain(values, "block.vda.nr_requests", if value == "mq-deadline" { "64" } else { "512" })?;
            plain(values, "block.vda.iosched.read_expire", if value == "mq-deadline" { "500" } else { "" })?;
        }
        Ok(())
    };
    let found = [
        ("block.vda.scheduler", "mq-deadline"),
        ("block.vda.nr_requests", "256"),
        ("block.vda.iosched.read_expire", "123"),
    ];
    let model = Model::new(&found, rule);
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    guard.set("block.vda.scheduler", "none").expect("set");
    let report = guard.restore();
    assert!(report.is_clean(), "{report}");
    for (key, value) in found {
        assert_eq!(model.value(key), value, "{key}");
    }
}

#[test]
fn a_value_changed_by_somebody_else_is_left_and_reported() {
    let host = Host::new();
    let mut guard = open(&host);
    guard.set("sysctl.vm.swappiness", "10").expect("set");
    guard.set("block.vda.read_ahead_kb", "128").expect("set");
    host.write("proc/sys/vm/swappiness", "77\n");
    let report = guard.restore();
    let left = report.left.first().expect("one left");
    assert_eq!(
        (left.key.as_str(), left.found.as_deref(), left.previous.as_str()),
        ("sysctl.vm.swappiness", Some("77"), "60")
    );
    assert!(report.to_string().contains("somebody else"), "{report}");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "77");
    assert_eq!(host.read("sys/block/vda/queue/read_ahead_kb"), "8192");
    // Somebody who has already put back what was there is nothing to report.
    guard.set("block.vda.read_ahead_kb", "128").expect("set");
    host.write("sys/block/vda/queue/read_ahead_kb", "8192\n");
    assert!(guard.restore().is_clean());
    // A device that is gone cannot be put back, and need not be.
    guard.set("block.vda.read_ahead_kb", "128").expect("set");
    std::fs::remove_dir_all(host.root().join("sys/block/vda")).expect("removed");
    let report = guard.restore();
    assert!(report.left.first().is_some_and(|left| left.why.contains("gone")), "{report}");
}

#[test]
fn one_setting_has_one_guard() {
    let host = Host::new();
    let mut one = open(&host);
    let mut two = open(&host);
    one.set("thp.enabled", "always").expect("set");
    two.set("sysctl.vm.swappiness", "10").expect("another setting is free");
    match two.set("thp.enabled", "never") {
        Err(GuardError::Held { key, holder }) => {
            assert_eq!(key, "thp.enabled");
            assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        }
        other => panic!("not refused: {other:?}"),
    }
    // What the kernel rewrites along with it is held as well: put back by two, it would end at the wrong value.
    assert!(matches!(two.set("sysctl.vm.min_free_kbytes", "70000"), Err(GuardError::Held { .. })));
    assert_eq!(host.read("sys/kernel/mm/transparent_hugepage/enabled"), "always");
    one.restore();
    two.set("thp.enabled", "never").expect("free now");
    assert!(two.close().is_clean());
    assert_eq!(host.read("sys/kernel/mm/transparent_hugepage/enabled"), "madvise");
}

#[test]
fn a_guard_of_another_process_is_waited_out() {
    let host = Host::new();
    let before = host.all();
    let mut other = host.fixture("hold", &["sysctl.vm.swappiness=10"]);
    assert_eq!(other.line(), "held");
    let mut guard = open(&host);
    let error = guard.set("sysctl.vm.swappiness", "20").expect_err("held").to_string();
    assert!(error.contains(&other.pid().to_string()), "{error}");
    other.kill();
    other.wait();
    // The lock is free at once, the value perhaps not yet: what is found must be the host's, not the dead guard's.
    let applied = guard.set("sysctl.vm.swappiness", "20").expect("free");
    assert_eq!(applied.previous, "60");
    assert!(guard.close().is_clean());
    assert_eq!(host.all(), before);
}

#[test]
fn refusals_change_nothing_and_say_why() {
    let host = Host::new();
    host.write("proc/sys/vm/dirty_bytes", "1048576\n");
    host.write("proc/sys/vm/dirty_ratio", "0\n");
    let model = Model::new(&[("sysctl.vm.dirty_ratio", "0"), ("sysctl.vm.dirty_bytes", "1048576")], dirty);
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    let error = guard.set("sysctl.vm.dirty_bytes", "1").expect_err("too small");
    assert!(matches!(&error, GuardError::Refused { found, .. } if found == "1048576"), "{error}");
    assert!(error.to_string().contains("Invalid argument"), "{error}");
    for (key, value, hint) in [
        ("thp.enable", "always", "did you mean 'thp.enabled'?"),
        ("kconfig.HZ", "100", "only be recorded"),
        ("env.PATH", "/bin", "give it to the command"),
        ("sysctl.vm.drop_caches", "3", "only be recorded"),
        ("nothing.known", "1", "unknown setting"),
    ] {
        let error = guard.set(key, value).expect_err("refused").to_string();
        assert!(error.contains(hint), "{error}");
    }
    // The lock of a refused change is free again.
    let mut other = open(&host);
    other.set("sysctl.vm.swappiness", "1").expect("free");
    assert!(guard.close().restored.is_empty());
}

#[test]
fn a_read_only_sysfs_is_told_apart() {
    let host = Host::new();
    let model = Model::new(&[("sysctl.vm.swappiness", "60")], |_, _, _| Err(io::Error::from_raw_os_error(EROFS)));
    let mut guard = Guard::open_with(options(&host, Box::new(model))).expect("opens");
    let error = guard.set("sysctl.vm.swappiness", "10").expect_err("EROFS").to_string();
    assert!(error.contains("Read-only file system") && error.contains("run on the host"), "{error}");
    assert!(guard.close().is_clean());
}

#[test]
fn without_a_journal_nothing_is_changed() {
    let host = Host::new();
    let model = Model::new(&[("sysctl.vm.swappiness", "60")], plain);
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    *model.journal_full.lock().expect("unlocked") = true;
    assert!(matches!(guard.set("sysctl.vm.swappiness", "10"), Err(GuardError::State { .. })));
    assert_eq!(*model.puts.lock().expect("unlocked"), Vec::<String>::new());
    // A state folder that cannot be made is refused before anything else.
    std::fs::write(host.root().join("file"), "").expect("written");
    let mut other = options(&host, Box::new(FixtureDoor));
    other.state_dir = host.root().join("file/below");
    let error = Guard::open_with(other).err().expect("no folder").to_string();
    assert!(error.contains("PAGELAB_STATE_DIR"), "{error}");
}

#[test]
fn without_a_helper_nothing_is_changed() {
    for (exe, hint) in [
        ("/nonexistent/program", "No such file"),
        ("/bin/true", "ended without watching"),
        ("/bin/echo", "answered something else"),
    ] {
        let host = Host::new();
        let mut without = options(&host, Box::new(FixtureDoor));
        without.helper_exe = PathBuf::from(exe);
        let result = Guard::open_with(without).and_then(|mut guard| guard.set("sysctl.vm.swappiness", "10"));
        let error = result.expect_err("no helper").to_string();
        assert!(error.contains(hint), "{error}");
        assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
    }
}

#[test]
fn a_helper_that_was_killed_is_replaced() {
    let host = Host::new();
    let before = host.all();
    let mut fixture = host.fixture("loop", &["sysctl.vm.swappiness=10"]);
    assert_eq!(fixture.line(), "held");
    let pid = fixture.pid();
    let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    eventually("a helper", || !children().trim().is_empty());
    let first = children().trim().to_owned();
    let helper = first.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(helper, rustix::process::Signal::KILL).expect("killed");
    // One look for both: between two looks the dead helper may go, and nobody has come yet.
    eventually("another helper", || {
        let now = children();
        !now.trim().is_empty() && now.trim() != first
    });
    fixture.kill();
    fixture.wait();
    eventually("all back", || host.all() == before && host.leftovers().is_empty());
}

const JOURNAL: &str = concat!(
    r#"{"record":"open","format":1,"boot_id":"BOOT","pid":4194304,"root":"ROOT","command":"pagelab experiment"}"#,
    "\n",
    r#"{"record":"intent","seq":0,"key":"sysctl.vm.swappiness","previous":"60","requested":"10","companions":[]}"#,
    "\n",
    r#"{"record":"applied","seq":0,"got":"10","companions":[]}"#,
    "\n",
);

fn journal(host: &Host, name: &str, boot: &str, text: &str) -> PathBuf {
    std::fs::create_dir_all(host.state()).expect("state folder");
    let path = host.state().join(name);
    let root = host.root();
    std::fs::write(&path, text.replace("BOOT", boot).replace("ROOT", root.to_str().expect("UTF-8"))).expect("written");
    path
}

const THIS_BOOT: &str = "ac924afa-6759-45c0-aae4-80c098bab793";

#[test]
fn leftovers_of_this_boot_are_undone_and_of_another_discarded() {
    let host = Host::new();
    host.write("proc/sys/vm/swappiness", "10\n");
    let path = journal(&host, "journal-4194304-0.jsonl", "00000000-0000-0000-0000-000000000000", JOURNAL);
    let report = restore_leftovers_in(&host.state());
    assert!(report.restored.is_empty() && report.discarded.first().is_some_and(|note| note.contains("earlier boot")));
    assert_eq!(host.read("proc/sys/vm/swappiness"), "10");
    assert!(!path.exists());

    journal(&host, "journal-4194304-0.jsonl", THIS_BOOT, JOURNAL);
    let report = restore_leftovers_in(&host.state());
    assert_eq!(report.restored.len(), 1, "{report}");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
    assert_eq!(host.leftovers(), Vec::<String>::new());
    assert_eq!(restore_leftovers_in(&host.state()), pagelab_host::guard::RestoreReport::default());
}

#[test]
fn journals_cut_short_anywhere_are_understood() {
    // The journal is cut at every byte; the host is as it was at that moment of the guard's life.
    let header_end = JOURNAL.find('\n').expect("a line");
    let root_and_boot =
        |host: &Host| JOURNAL.replace("BOOT", THIS_BOOT).replace("ROOT", host.root().to_str().expect("UTF-8"));
    let host = Host::new();
    let full = root_and_boot(&host);
    let intent_end = full.match_indices('\n').nth(1).expect("two lines").0;
    for cut in 0..=full.len() {
        host.write("proc/sys/vm/swappiness", if cut >= intent_end { "10\n" } else { "60\n" });
        journal(&host, "journal-4194304-0.jsonl", THIS_BOOT, full.get(..cut).expect("ASCII"));
        let report = restore_leftovers_in(&host.state());
        assert!(report.is_clean(), "cut at {cut}: {report}");
        assert_eq!(host.read("proc/sys/vm/swappiness"), "60", "cut at {cut}");
        assert_eq!(host.leftovers(), Vec::<String>::new(), "cut at {cut}");
    }
    assert!(header_end > 0);
}

#[test]
fn what_cannot_be_put_back_is_kept_for_the_next_try() {
    let host = Host::new();
    // The way back is barred at this moment (EBUSY).
    let model = Model::new(&[("sysctl.vm.swappiness", "60")], |values, key, value| {
        if value == "60" { Err(io::Error::from_raw_os_error(EBUSY)) } else { plain(values, key, value) }
    });
    let mut guard = Guard::open_with(options(&host, Box::new(model))).expect("opens");
    guard.set("sysctl.vm.swappiness", "10").expect("set");
    host.write("proc/sys/vm/swappiness", "10\n");
    let report = guard.close();
    let failed = report.failed.first().expect("one failed");
    assert!(failed.reason.contains("busy") && failed.fix.contains("/proc/sys/vm/swappiness"), "{report}");
    // The journal is there, and nobody holds it: `pagelab restore` succeeds where the guard did not.
    assert!(host.leftovers().iter().any(|name| name.starts_with("journal")));
    let report = restore_leftovers_in(&host.state());
    assert_eq!(report.restored.len(), 1, "{report}");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "60");
    assert_eq!(host.leftovers(), Vec::<String>::new());
}

/// Whoever set the value meanwhile would take the changed one for the host's own, and leave it behind.
#[test]
fn an_undo_that_fails_keeps_the_lock() {
    const KEY: &str = "sysctl.vm.swappiness";
    let host = Host::new();
    let model = Model::new(&[(KEY, "60"), ("barred", "yes")], |values, key, value| {
        let is_barred = values.get("barred").is_some_and(|barred| barred == "yes");
        if value == "60" && is_barred { Err(io::Error::from_raw_os_error(EBUSY)) } else { plain(values, key, value) }
    });
    let mut guard = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    guard.set(KEY, "10").expect("set");
    let mut other = Guard::open_with(options(&host, Box::new(model.clone()))).expect("opens");
    for _ in 0..2 {
        let report = guard.restore();
        assert_eq!(report.failed.len(), 1, "{report}");
        assert!(matches!(other.set(KEY, "30"), Err(GuardError::Held { .. })), "after an undo that failed");
        assert_eq!(model.value(KEY), "10");
    }
    model.change("barred", "no");
    assert!(guard.restore().is_clean());
    assert_eq!(other.set(KEY, "30").expect("free now").previous, "60");
    assert!(other.close().is_clean() && guard.close().is_clean());
    assert_eq!(model.value(KEY), "60");
}

#[test]
fn a_living_guard_is_not_a_leftover() {
    let host = Host::new();
    let mut guard = open(&host);
    guard.set("sysctl.vm.swappiness", "10").expect("set");
    let report = restore_leftovers_in(&host.state());
    assert!(report.restored.is_empty() && report.alive.len() == 1, "{report}");
    assert_eq!(host.read("proc/sys/vm/swappiness"), "10");
    assert!(guard.close().is_clean());
}
