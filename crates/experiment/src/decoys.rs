//! Harmless differences, drawn at random: a test of the attribution.
//!
//! Two systems that differ in one setting alone do not exist: a kernel upgrade changes dozens. A plan with `[decoys]`
//! therefore changes, besides the settings it studies, `count` settings for each variant and for no other, drawn by the
//! seed from a pool. None of them affects a workload that neither runs short of memory, nor opens sockets, nor calls an
//! allocator in its inner loop; an analysis that names one of them as the cause is wrong. Some are chosen to look
//! guilty: they concern memory and mappings.
//!
//! Every decoy is set for every variant: the owner gets one of its two values, the others get the other one, and a coin
//! decides which, so that nothing tells an owner from the rest. Values of environment variables have equal length,
//! because the length of the environment moves the stack, and that alone can change speed (T. Mytkowicz and others,
//! "Producing wrong data without doing anything obviously wrong", 2009).

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::Path;

use pagelab_host::settings::check;
use pagelab_vocab::settings::{Scope, SettingInfo};
use serde::{Deserialize, Serialize};

use crate::error::PlanError;
use crate::plan::{Decoys, FilledVariant};
use crate::random::{Draw, Purpose};

/// A setting with two values that do equally little.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolEntry {
    /// The setting.
    pub key: String,
    /// The values.
    pub values: [String; 2],
}

/// A drawn difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decoy {
    /// The setting.
    pub key: String,
    /// Whether the started process has it, not the host.
    pub process: bool,
    /// The variant that has a value of its own.
    pub owner: String,
    /// Its value for each variant, in the order of the plan.
    pub values: Vec<String>,
}

/// The pool that comes with pagelab. Values stay near the kernel's defaults and above what programs need, so that the
/// host is not worse off while they are in force.
pub const POOL: &[(&str, [&str; 2])] = &[
    ("sysctl.net.core.somaxconn", ["4096", "8192"]),
    ("sysctl.net.core.netdev_max_backlog", ["1000", "2000"]),
    ("sysctl.net.ipv4.tcp_fin_timeout", ["60", "45"]),
    ("sysctl.net.ipv4.tcp_keepalive_time", ["7200", "3600"]),
    ("sysctl.net.ipv4.tcp_keepalive_intvl", ["75", "60"]),
    ("sysctl.net.ipv4.tcp_syn_retries", ["6", "5"]),
    ("sysctl.net.unix.max_dgram_qlen", ["128", "256"]),
    ("sysctl.fs.lease-break-time", ["45", "30"]),
    ("sysctl.fs.inotify.max_queued_events", ["16384", "32768"]),
    ("sysctl.fs.inotify.max_user_instances", ["1024", "2048"]),
    ("sysctl.fs.mqueue.msg_max", ["10", "20"]),
    ("sysctl.fs.aio-max-nr", ["131072", "262144"]),
    ("sysctl.fs.pipe-max-size", ["1048576", "2097152"]),
    ("sysctl.kernel.printk_ratelimit", ["5", "10"]),
    ("sysctl.kernel.printk_ratelimit_burst", ["10", "20"]),
    ("sysctl.kernel.core_uses_pid", ["0", "1"]),
    ("sysctl.kernel.msgmax", ["8192", "16384"]),
    ("sysctl.kernel.shmmni", ["4096", "8192"]),
    ("sysctl.kernel.hung_task_timeout_secs", ["120", "240"]),
    ("sysctl.kernel.keys.maxkeys", ["200", "400"]),
    // These look guilty. They limit or weigh what this workload never reaches.
    ("sysctl.vm.max_map_count", ["131072", "262144"]),
    ("sysctl.vm.overcommit_ratio", ["50", "60"]),
    ("sysctl.vm.admin_reserve_kbytes", ["8192", "16384"]),
    ("sysctl.vm.dirtytime_expire_seconds", ["43200", "21600"]),
    ("sysctl.vm.swappiness", ["60", "50"]),
    ("sysctl.vm.page-cluster", ["3", "2"]),
    ("env.MALLOC_ARENA_MAX", ["2", "4"]),
    ("env.OMP_NUM_THREADS", ["1", "2"]),
    ("env.GOMAXPROCS", ["1", "2"]),
    ("env.GOGC", ["100", "150"]),
    ("env.PYTHONHASHSEED", ["0", "1"]),
    ("env.TZ", ["UTC0", "GMT0"]),
    ("env.LANG", ["en_US.UTF-8", "de_DE.UTF-8"]),
    ("env.LC_COLLATE", ["en_US.UTF-8", "de_DE.UTF-8"]),
    ("env.COLUMNS", ["120", "132"]),
    ("env.HISTSIZE", ["1000", "5000"]),
    ("env.PAGER", ["less", "more"]),
    ("rlimit.msgqueue", ["819200", "409600"]),
    ("rlimit.nofile", ["4096", "8192"]),
];

/// The decoys drawn, and those that could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    /// The differences.
    pub decoys: Vec<Decoy>,
    /// Entries of the pool that this host does not have or will not change.
    pub notes: Vec<String>,
}

/// Draws `wanted.count` differences for each variant, no setting twice, and no setting of the plan itself.
pub fn draw(wanted: &Decoys, root: &Path, seed: u64, variants: &[FilledVariant]) -> Result<Drawn, PlanError> {
    let mut out = Drawn::default();
    let planned: BTreeSet<&String> =
        variants.iter().flat_map(|variant| variant.host.keys().chain(variant.process.keys())).collect();
    let mut usable: Vec<(SettingInfo, [String; 2])> = Vec::new();
    for entry in pool(wanted) {
        match usable_here(root, &entry) {
            Ok(info) if !planned.contains(&info.key) => usable.push((info, entry.values)),
            Ok(_) => {}
            Err(reason) => out.notes.push(format!("harmless difference left out: {}: {reason}", entry.key)),
        }
    }
    let needed = wanted.count * variants.len();
    if usable.len() < needed {
        return Err(PlanError::Host {
            at: wanted.at.clone(),
            what: "decoys.count".to_owned(),
            found: format!("{} settings in the pool that this host lets change", usable.len()),
            needed: format!(
                "{needed}: {} for each of {} variants; lower count to {}, or run as root: sudo pagelab experiment ...",
                wanted.count,
                variants.len(),
                usable.len() / variants.len().max(1)
            ),
        });
    }
    let mut draw = Draw::new(seed, Purpose::Decoys);
    draw.shuffle(&mut usable);
    usable.truncate(needed);
    for (index, (info, [one, other])) in usable.into_iter().enumerate() {
        let owner = index % variants.len().max(1);
        let (own, rest) = if draw.coin() { (one, other) } else { (other, one) };
        let values = (0..variants.len()).map(|at| if at == owner { own.clone() } else { rest.clone() }).collect();
        let owner = variants.get(owner).map(|variant| variant.name.clone()).unwrap_or_default();
        out.decoys.push(Decoy { key: info.key, process: info.def.scope == Scope::Process, owner, values });
    }
    out.decoys.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(out)
}

fn pool(wanted: &Decoys) -> Vec<PoolEntry> {
    if !wanted.pool.is_empty() {
        return wanted.pool.clone();
    }
    let own = |values: &[&str; 2]| values.map(str::to_owned);
    POOL.iter().map(|(key, values)| PoolEntry { key: (*key).to_owned(), values: own(values) }).collect()
}

/// Whether both values can be set here. Opening a file of /proc/sys for writing changes nothing.
fn usable_here(root: &Path, entry: &PoolEntry) -> Result<SettingInfo, String> {
    let [one, other] = &entry.values;
    check(root, &entry.key, one).map_err(|error| error.to_string())?;
    let info = check(root, &entry.key, other).map_err(|error| error.to_string())?;
    if info.def.scope == Scope::Host
        && let Some(path) = info.path()
    {
        let file = root.join(path.trim_start_matches('/'));
        OpenOptions::new().write(true).open(&file).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::document::Place;
    use crate::plan::Work;

    fn variant(name: &str, host: &[(&str, &str)]) -> FilledVariant {
        FilledVariant {
            name: name.to_owned(),
            work: Work::Command(vec!["true".to_owned()]),
            host: host.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            process: BTreeMap::new(),
            boot: None,
            booted: BTreeMap::new(),
        }
    }

    fn wanted(count: usize) -> Decoys {
        Decoys { count, pool: Vec::new(), at: Place { file: PathBuf::from("plan.toml"), line: 9 } }
    }

    /// A host that has every sysctl of the pool.
    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (key, values) in POOL {
            let Some(path) = pagelab_vocab::settings::setting(key).and_then(|info| info.path()) else { continue };
            let file = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            std::fs::write(file, format!("{}\n", values[0])).expect("written");
        }
        root
    }

    #[test]
    fn the_pool_is_fit_for_use() {
        assert!(POOL.len() >= 32);
        let keys: BTreeSet<&str> = POOL.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), POOL.len(), "a key stands twice");
        let root = host();
        for (key, [one, other]) in POOL {
            assert_ne!(one, other, "{key}");
            let entry = PoolEntry { key: (*key).to_owned(), values: [(*one).to_owned(), (*other).to_owned()] };
            let info = usable_here(root.path(), &entry).unwrap_or_else(|reason| panic!("{key}: {reason}"));
            assert_eq!(info.key, *key, "not in the one spelling");
            assert!(!key.starts_with("env.") || one.len() == other.len(), "{key} changes the size of the environment");
        }
    }

    #[test]
    fn every_variant_owns_its_share_and_differs_from_each_other() {
        let root = host();
        for variants in [2usize, 3, 4] {
            let sides: Vec<FilledVariant> = (0..variants).map(|n| variant(&format!("v{n}"), &[])).collect();
            let drawn = draw(&wanted(8), root.path(), 5, &sides).expect("enough in the pool");
            assert_eq!(drawn.decoys.len(), 8 * variants);
            for side in &sides {
                assert_eq!(drawn.decoys.iter().filter(|decoy| decoy.owner == side.name).count(), 8);
            }
            for (one, other) in [(0, 1), (variants - 1, 0)] {
                let differing = drawn.decoys.iter().filter(|decoy| decoy.values[one] != decoy.values[other]).count();
                assert!(differing >= 16, "{differing}");
            }
        }
    }

    #[test]
    fn the_seed_decides_and_planned_settings_are_left_alone() {
        let root = host();
        let sides = [variant("a", &[("sysctl.vm.swappiness", "10")]), variant("b", &[])];
        let of = |seed| draw(&wanted(8), root.path(), seed, &sides).expect("enough").decoys;
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let mut values = BTreeSet::new();
        for seed in 0..40 {
            let drawn = of(seed);
            assert!(drawn.iter().all(|decoy| decoy.key != "sysctl.vm.swappiness"), "the plan's own setting was drawn");
            let found = drawn.iter().find(|decoy| decoy.key == "env.TZ");
            values.extend(found.map(|decoy| decoy.values.clone()));
        }
        assert_eq!(values.len(), 2, "the coin never falls on its other side");
    }

    #[test]
    fn what_the_host_lacks_is_noted_and_too_little_is_an_error() {
        let root = host();
        std::fs::remove_dir_all(root.path().join("proc/sys/net")).expect("removed");
        let sides = [variant("a", &[]), variant("b", &[])];
        let drawn = draw(&wanted(8), root.path(), 1, &sides).expect("enough remains");
        assert!(drawn.decoys.iter().all(|decoy| !decoy.key.starts_with("sysctl.net.")));
        assert_eq!(drawn.notes.len(), POOL.iter().filter(|(key, _)| key.starts_with("sysctl.net.")).count());
        let error = draw(&wanted(18), root.path(), 1, &sides).expect_err("not enough");
        assert_eq!(error.exit_status(), 3);
        assert!(error.to_string().contains("plan.toml:9") && error.to_string().contains("lower count to"), "{error}");
    }
}
