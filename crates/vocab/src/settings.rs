//! Settings: one vocabulary for recordings, plans, doctor and bisect.
//!
//! A key is `namespace.rest`: `thp.enabled`, `hugetlb.2M.nr_hugepages`, `sysctl.vm.swappiness`,
//! `block.sda.read_ahead_kb`, `env.GLIBC_TUNABLES`. A [`SettingDef`] describes one key, or with `<placeholders>` a
//! family of them; [`setting`] finds the description of a key. A key has one spelling: sizes are written `64K`, `2M`,
//! `1G`, and [`setting`] returns the key in that form.
//!
//! In `sysctl.*` a dot separates folders. A dot inside a folder's name is written as a slash, as sysctl(8) does:
//! `sysctl.net.ipv4.conf.eth0/100.rp_filter` is `/proc/sys/net/ipv4/conf/eth0.100/rp_filter`.

mod block;
mod boot;
mod docs;
mod huge;
mod nearest;
mod pattern;
mod process;
mod size;
mod sysctl;
mod sysctl_net;
mod system;

pub use docs::markdown;
pub use nearest::nearest;
pub use pattern::matches;
pub use size::{format_size, parse_size};

/// What a setting can bear on, with its meaning. A setting and a symptom that share a word are relevant to each other.
pub const TOPICS: &[(&str, &str)] = &[
    ("faults", "number and cost of page faults"),
    ("thp", "transparent huge pages"),
    ("hugetlb", "preallocated huge pages"),
    ("memory", "allocation and placement of memory in general"),
    ("reclaim", "freeing memory when it runs short"),
    ("swap", "moving memory to a swap device or compressing it"),
    ("numa", "which node memory and threads are on"),
    ("alloc", "the allocator inside the program"),
    ("readahead", "how much of a file is read before it is asked for"),
    ("writeback", "when and how fast dirty pages are written"),
    ("io", "requests to block devices"),
    ("fs", "file systems and their mounts"),
    ("sched", "which task runs where and for how long"),
    ("cpu", "speed and features of the processor"),
    ("time", "reading clocks and timers"),
    ("net", "networking"),
    ("security", "mitigations and hardening that cost time"),
    ("limits", "ceilings on what a process may use"),
    ("tracing", "measuring and debugging facilities of the kernel"),
    ("identity", "which kernel or host this is, rather than how it is set"),
    ("kernel", "anything else of the kernel"),
    ("process", "anything else of the process"),
];

/// Where a change of the setting takes effect, and so who makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole host, through /sys or /proc; only the guard writes it, and puts it back.
    Host,
    /// The started process and what it starts; nothing outlives it.
    Process,
    /// Decided at boot: set by plans that run in the lab's VM, which boots it so; on a host it can only be read.
    Boot,
    /// Read only: decided at build or boot, or by a tool that pagelab does not stand in for.
    ReadOnly,
}

/// How the text of the source becomes the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The text itself: white space at the ends removed, runs of it inside a line made one space.
    Text,
    /// A list of words with the chosen one in brackets (`always [madvise] never`): the chosen word.
    Choice,
    /// A pool of huge pages: the number less the surplus pages, which the kernel counts into `nr_hugepages`
    /// although nobody set them.
    Pool,
}

/// Whether a snapshot may read and show the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reading {
    /// Read and recorded as it is.
    Plain,
    /// May hold a secret: recorded as a digest too short to search for the value, so that a difference still shows.
    Masked,
    /// Not read: write-only, or reading it does something.
    Never,
}

/// How much the setting can change a workload's speed when it bears on it at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Impact {
    /// No path to speed is known (names, messages, limits that fail rather than slow down).
    Nil,
    /// Little, or only in unusual workloads.
    Low,
    /// Measurable.
    Some,
    /// A known cause of regressions.
    High,
}

impl Impact {
    /// The factor that the impact contributes to [`relevance`].
    pub const fn weight(self) -> f64 {
        match self {
            Impact::Nil => 0.01,
            Impact::Low => 0.1,
            Impact::Some => 0.5,
            Impact::High => 1.0,
        }
    }
}

/// Other settings that the kernel changes when this one is written; the guard records and restores them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Companions {
    /// None known.
    Alone,
    /// The kernel recomputes or resets these; they are put back after the setting itself.
    Rewritten(&'static [&'static str]),
    /// Only one of the set is in force and writing one zeroes the others; zero may be refused when written.
    Exclusive(&'static [&'static str]),
}

impl Companions {
    /// The patterns of the companions, empty for [`Companions::Alone`].
    pub const fn patterns(self) -> &'static [&'static str] {
        match self {
            Companions::Alone => &[],
            Companions::Rewritten(keys) | Companions::Exclusive(keys) => keys,
        }
    }
}

/// The same decision seen through another key, usually the run-time twin of a kernel configuration option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Twin {
    /// The value of this key for which the twin holds; `None`: any value.
    pub when: Option<&'static str>,
    /// The other key; placeholders take the values they have here, `<default>` is the default huge page size.
    pub key: &'static str,
    /// The other key's value then; `None`: the same value as here.
    pub value: Option<&'static str>,
}

/// The twin of one key and value: see [`SettingInfo::equivalent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equivalent {
    /// The other key.
    pub key: String,
    /// Its value, if the value here says it.
    pub value: Option<String>,
}

/// One declared setting, or family of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingDef {
    /// The key, with `<placeholders>` for a family.
    pub pattern: &'static str,
    /// The file it is read from, with the same placeholders, or in words where it is not one file.
    pub source: &'static str,
    /// Who can change it. [`Scope::ReadOnly`] although a file is writable: the change could not be undone.
    pub scope: Scope,
    /// How text becomes value.
    pub form: Form,
    /// Whether the value is read and shown.
    pub reading: Reading,
    /// Differs between any two runs and means nothing: left out of every comparison.
    pub volatile: bool,
    /// A reading of the present state rather than a decision (`free_hugepages`): evidence, but no cause.
    pub state: bool,
    /// Computed by the kernel from this other key unless somebody sets it.
    pub derived_from: Option<&'static str>,
    /// What else a write changes.
    pub companions: Companions,
    /// What it bears on, most direct first; names out of [`TOPICS`].
    pub topics: &'static [&'static str],
    /// How much.
    pub impact: Impact,
    /// The same decision under other keys.
    pub twins: &'static [Twin],
    /// A family that takes whatever no other definition of the namespace describes; only the host knows whether the
    /// key exists.
    pub catch_all: bool,
    /// What it does.
    pub help: &'static str,
}

impl SettingDef {
    /// Whether a plan can set it on a running kernel.
    pub const fn writable(&self) -> bool {
        matches!(self.scope, Scope::Host | Scope::Process)
    }

    const fn base(
        scope: Scope,
        names: (&'static str, &'static str),
        impact: Impact,
        topics: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        SettingDef {
            pattern: names.0,
            source: names.1,
            scope,
            form: Form::Text,
            reading: Reading::Plain,
            volatile: false,
            state: false,
            derived_from: None,
            companions: Companions::Alone,
            topics,
            impact,
            twins: &[],
            catch_all: false,
            help,
        }
    }
}

/// A table of definitions: `host "key" at "source", Impact ["topic"] { field: value } : "help";`.
macro_rules! settings {
    ($($scope:ident $pattern:literal at $source:expr, $impact:ident [$($topic:literal),*]
       $({ $($field:ident : $value:expr),* $(,)? })? : $help:literal;)*) => {
        &[$($crate::settings::SettingDef {
            $($($field: $value,)*)?
            ..$crate::settings::SettingDef::base(
                $crate::settings::Scope::$scope, ($pattern, $source),
                $crate::settings::Impact::$impact, &[$($topic),*], $help)
        }),*]
    };
}
use settings;

/// The description of one key: its definition and what the placeholders stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingInfo {
    /// The key in its one spelling.
    pub key: String,
    /// The definition that describes it.
    pub def: &'static SettingDef,
    /// Placeholder names and what they stand for here.
    pub args: Vec<(&'static str, String)>,
}

impl SettingInfo {
    /// The source with the placeholders filled in: an absolute path, or words.
    pub fn source(&self) -> String {
        pattern::fill(self.def.source, |name| match name {
            "path" => self.key.strip_prefix("sysctl.").map(sysctl_path),
            "folder" => self.arg("size").and_then(parse_size).map(|bytes| format!("{}kB", bytes / 1024)),
            _ => self.arg(name).map(str::to_owned),
        })
    }

    /// The one file that holds the value, absolute, if it is one file that depends on no process.
    pub fn path(&self) -> Option<String> {
        let source = self.source();
        (source.starts_with('/') && !source.contains(['<', ' ', '('])).then_some(source)
    }

    /// What the placeholder `name` stands for.
    pub fn arg(&self, name: &str) -> Option<&str> {
        self.args.iter().find(|(arg, _)| *arg == name).map(|(_, value)| value.as_str())
    }

    /// The keys of the companions, with `*` where any name of that folder is meant. `default_size` is the default huge
    /// page size of the host (the value of `hugetlb.default_size`).
    pub fn companion_keys(&self, default_size: &str) -> Vec<String> {
        let patterns = self.def.companions.patterns();
        patterns.iter().map(|pattern| self.filled(pattern, default_size)).collect()
    }

    /// The same decision under its principal other key, for the value given (`None`: whatever the value, the first).
    /// Takes 2M, the default of x86-64 and of arm64 with 4 KiB pages, as the default huge page size.
    pub fn equivalent(&self, value: Option<&str>) -> Option<Equivalent> {
        self.equivalent_with(value, DEFAULT_HUGE_SIZE)
    }

    /// As [`SettingInfo::equivalent`] with the default huge page size of the host (the value of `hugetlb.default_size`).
    pub fn equivalent_with(&self, value: Option<&str>, default_size: &str) -> Option<Equivalent> {
        let twin = match value {
            None => self.def.twins.first(),
            Some(value) => {
                let exact = self.def.twins.iter().find(|twin| twin.when == Some(value));
                exact.or_else(|| self.def.twins.iter().find(|twin| twin.when.is_none()))
            }
        };
        // A value that switches the option off still speaks about the same run-time key, only not about its value.
        let twin = twin.or(self.def.twins.first())?;
        let holds = value.is_some() && (twin.when.is_none() || twin.when == value);
        let other = holds.then(|| twin.value.or(value).map(|text| text.trim_matches('"').to_owned())).flatten();
        Some(Equivalent { key: self.filled(twin.key, default_size), value: other })
    }

    fn filled(&self, template: &str, default_size: &str) -> String {
        pattern::fill(template, |name| match name {
            "default" => Some(default_size.to_owned()),
            _ => self.arg(name).map(str::to_owned),
        })
    }
}

/// The default huge page size where it is not known from the host: that of x86-64, and of arm64 with 4 KiB pages.
pub const DEFAULT_HUGE_SIZE: &str = "2M";

/// Path below /proc/sys of a sysctl name: dots separate folders, slashes stand for dots.
fn sysctl_path(name: &str) -> String {
    swap_separators(name)
}

/// The `sysctl.*` key of a path below /proc/sys (`vm/swappiness`).
pub fn sysctl_key(path: &str) -> String {
    format!("sysctl.{}", swap_separators(path))
}

fn swap_separators(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect()
}

const TABLES: &[&[SettingDef]] = &[
    huge::DEFS,
    system::DEFS,
    sysctl::DEFS,
    sysctl_net::DEFS,
    block::DEFS,
    process::DEFS,
    boot::CMDLINE,
    boot::KCONFIG,
];

/// Every definition, in the order of the documentation.
pub fn definitions() -> impl Iterator<Item = &'static SettingDef> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The description of a key; `None` if no namespace knows it ([`nearest`] then proposes one), or if its file would not
/// be below the folder of its namespace (`sysctl.kernel.//.//etc`).
///
/// A definition without placeholders wins over a family, a family over a catch-all.
pub fn setting(key: &str) -> Option<SettingInfo> {
    let namespace = key.split('.').next()?;
    let same_space = |def: &&SettingDef| {
        def.pattern.strip_prefix(namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut best: Option<(u8, SettingInfo)> = None;
    for def in definitions().filter(same_space) {
        let rank = u8::from(def.pattern.contains('<')) + 2 * u8::from(def.catch_all);
        if best.as_ref().is_some_and(|(known, _)| *known <= rank) {
            continue;
        }
        if let Some(args) = pattern::capture(def.pattern, key) {
            let canonical = pattern::fill(def.pattern, |name| {
                args.iter().find(|(arg, _)| *arg == name).map(|(_, value)| value.clone())
            });
            best = Some((rank, SettingInfo { key: canonical, def, args }));
        }
    }
    best.map(|(_, info)| info).filter(stays_in_place)
}

/// Whether the file of a key is where its definition says. Keys come out of plans and recordings of others, and root
/// writes the files: a placeholder stands for names in a path, never for a way out of it.
fn stays_in_place(info: &SettingInfo) -> bool {
    let names = |text: &str| {
        let plain = |part: &str| !matches!(part, "" | "." | "..");
        text.split('/').all(plain) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    if let Some(name) = info.key.strip_prefix("sysctl.") {
        return names(&sysctl_path(name));
    }
    let in_path = |name: &str| info.def.source.starts_with('/') && info.def.source.contains(&format!("<{name}>"));
    info.args.iter().all(|(name, value)| match *name {
        // What the kernel calls a device; it is also printed in commands to type.
        "dev" => value == "<dev>" || value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!_-".contains(&byte)),
        _ if in_path(name) => names(value) && !value.contains('/'),
        _ => true,
    })
}

/// How likely a difference in `key` explains a symptom, from 0 to 1, for ranking: the setting's impact, times 1 if its
/// topics hold the first of `symptoms` (most telling first), 2/3 for the second, 1/2 for the third and so on, times
/// 1/20 if they share none. A key with a run-time twin counts as the twin. Volatile keys have 0; a key that no
/// namespace knows counts as [`Impact::Low`] with no shared topic.
pub fn relevance(key: &str, symptoms: &[&str]) -> f64 {
    let Some(info) = setting(key) else {
        return Impact::Low.weight() / 20.0;
    };
    let own = relevance_of(info.def, symptoms);
    let twin = info.equivalent(None).and_then(|twin| setting(&twin.key));
    match twin {
        Some(twin) if !info.def.volatile => own.max(relevance_of(twin.def, symptoms)),
        _ => own,
    }
}

fn relevance_of(def: &SettingDef, symptoms: &[&str]) -> f64 {
    if def.volatile {
        return 0.0;
    }
    let place = symptoms.iter().position(|symptom| def.topics.contains(symptom));
    let overlap = place.map_or(0.05, |place| 2.0 / (2.0 + place as f64));
    // A reading that moves by itself is at most a hint, however near its topic is.
    let certainty = if def.state { 0.2 } else { 1.0 };
    def.impact.weight() * overlap * certainty
}

#[cfg(test)]
mod tests;
