//! A glossary of places: what the time in a function is, what brings it about, which settings govern it, where to look next.
//!
//! [`place`] answers for a function of the kernel or of a program. An entry stands for one place: its names are those of its
//! function over releases, or of functions that are parts of one thing. It says what the time there mostly is; the account of time
//! ([`crate::budget`]) is made by [`crate::mechanisms`] alone.
//!
//! # Names
//!
//! Every name of the kernel was looked for among the functions of a running 6.18 (x86-64, `/proc/kallsyms`). A name that it lacks is
//! that of another release, of code that was inlined there, or of a driver or module that it has not: NVMe, SCSI, device mapper, md,
//! AppArmor, IMA, LRU generations. Those were written down from knowledge of the source, a few of them looked up in public copies of
//! it; no kernel 6.1 or 6.12 was asked.
//!
//! Names of programs are those of their sources over several releases, written down from knowledge of these and not looked for in
//! binaries. Distributions strip symbols that are not exported, so that some show only where debugging information is installed.
//!
//! # How to add a place
//!
//! 1. Put it into the file of its subsystem: names, `what` the time is, what it is brought about `by`, what is `set`, what is `next`.
//!    A name that ends in `*` stands for all that begin so.
//! 2. For a program's function say `in` which modules the name counts.
//! 3. If all time there is of one cause (`vocab::causes`), say so: `time of "gc.more"`. Its rule asks for these places.
//! 4. Name settings by their keys where pagelab records them, and else as `program: option`.
//! 5. No full stop at the end. A place without settings or a next look does not compile.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::mechanisms;

/// The modules of a place: none for the kernel.
macro_rules! modules_of {
    () => {
        &[]
    };
    ($modules:ident) => {
        $modules
    };
}

/// The cause of a place: none unless said.
macro_rules! cause_of {
    () => {
        None
    };
    ($cause:literal) => {
        Some($cause)
    };
}

/// Rows `["name", ...] (in MODULES) (time of "cause") what "..." by "..." set ["...", ...] next "...";`.
macro_rules! places {
    ($([$($name:literal),+] $(in $modules:ident)? $(time of $cause:literal)?
       what $what:literal
       by $by:literal
       set [$($setting:literal),+]
       next $next:literal;)*) => {
        &[$($crate::places::Place {
            names: &[$($name),+],
            module: modules_of!($($modules)?),
            cause: cause_of!($($cause)?),
            what: $what,
            brought_about_by: $by,
            settings: &[$($setting),+],
            next: $next,
        }),*]
    };
}

mod allocators;
mod async_io;
mod block;
mod btrfs;
mod cache;
mod codecs;
mod crypto;
mod databases;
mod ext4;
mod faults;
mod glibc;
mod huge;
mod layers;
mod numa;
mod pages;
mod reclaim;
mod runtimes;
mod space;
mod swap;
mod tasks;
mod waits;
mod watchers;
mod writeback;
mod xfs;

/// A function, or several that are one thing, and what is known about time in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Names of the function; one that ends in `*` stands for all that begin so.
    pub names: &'static [&'static str],
    /// Shared objects and programs in which the names count, without version (`libc.so`); [`ANYWHERE`] if the names tell enough.
    /// Empty for the kernel.
    pub module: &'static [&'static str],
    /// The cause that all time there is of, where it can be a cause by itself: garbage is collected, data are decompressed.
    pub cause: Option<&'static str>,
    /// What the time there is.
    pub what: &'static str,
    /// What brings it about.
    pub brought_about_by: &'static str,
    /// Settings that govern it: keys and patterns of [`crate::settings`], or `program: option`.
    pub settings: &'static [&'static str],
    /// What to look at next.
    pub next: &'static str,
}

impl Place {
    /// Whether its names count in a module; none is the kernel.
    fn counts_in(&self, module: Option<&str>) -> bool {
        match module {
            None => self.module.is_empty(),
            Some(module) => self.module.iter().any(|known| *known == "*" || is_module(known, module)),
        }
    }
}

/// The modules of names that tell their origin by themselves, because the library may be linked into any program.
pub const ANYWHERE: &[&str] = &["*"];

/// The places of the kernel by subsystem.
const KERNEL: &[&[Place]] = &[
    faults::PLACES,
    huge::PLACES,
    reclaim::PLACES,
    swap::PLACES,
    cache::PLACES,
    writeback::PLACES,
    ext4::PLACES,
    xfs::PLACES,
    btrfs::PLACES,
    layers::PLACES,
    block::PLACES,
    async_io::PLACES,
    space::PLACES,
    tasks::PLACES,
    waits::PLACES,
    numa::PLACES,
    pages::PLACES,
    watchers::PLACES,
    crypto::PLACES,
];

/// The places of programs and their libraries.
const PROGRAMS: &[&[Place]] = &[glibc::PLACES, allocators::PLACES, runtimes::PLACES, databases::PLACES, codecs::PLACES];

/// Every place: those of the kernel, then those of programs.
pub fn places() -> impl Iterator<Item = &'static Place> {
    KERNEL.iter().chain(PROGRAMS).copied().flatten()
}

/// The places of each full name.
static BY_NAME: LazyLock<HashMap<&str, Vec<&Place>>> = LazyLock::new(|| {
    let mut places_of: HashMap<&str, Vec<&Place>> = HashMap::new();
    for place in places() {
        for name in place.names.iter().filter(|name| !name.ends_with('*')) {
            places_of.entry(*name).or_default().push(place);
        }
    }
    places_of
});

/// The beginnings of names, the longest first.
static BY_BEGINNING: LazyLock<Vec<(&str, &Place)>> = LazyLock::new(|| {
    let beginnings =
        |place: &'static Place| place.names.iter().filter_map(move |name| Some((name.strip_suffix('*')?, place)));
    let mut all: Vec<(&str, &Place)> = places().flat_map(beginnings).collect();
    all.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
    all
});

/// The place of a function. `module` is the file that it is from, with or without its folder, and none for the kernel.
///
/// A full name wins over a beginning, and a longer beginning over a shorter one. Endings of compilers (`.isra.0`, `.cold`), the marks
/// of kernel frames in folded stacks (`_[k]`), versions of symbols (`@plt`) and parameters of C++ are no part of a name.
pub fn place(function: &str, module: Option<&str>) -> Option<&'static Place> {
    let function = function.trim();
    let unmarked = function.strip_suffix("_[k]").or_else(|| function.strip_suffix("[k]"));
    let module = module.and_then(program_module).filter(|_| unmarked.is_none());
    let forms = match module {
        None => vec![mechanisms::plain_name(unmarked.unwrap_or(function)).to_owned()],
        Some(_) => program_forms(function),
    };
    let named = forms.iter().find_map(|form| by_name(form, module));
    named.or_else(|| forms.iter().find_map(|form| by_beginning(form, module)))
}

/// The place of a full name. Where several modules match, the named one wins over [`ANYWHERE`].
fn by_name(name: &str, module: Option<&str>) -> Option<&'static Place> {
    let here = BY_NAME.get(name)?.iter().copied().filter(|place| place.counts_in(module));
    here.min_by_key(|place| place.module == ANYWHERE)
}

fn by_beginning(name: &str, module: Option<&str>) -> Option<&'static Place> {
    let fits = |(beginning, place): &&(&str, &Place)| name.starts_with(*beginning) && place.counts_in(module);
    BY_BEGINNING.iter().find(fits).map(|(_, place)| *place)
}

/// The forms under which a program's function may stand in the glossary, the most exact first: as it is, without endings of
/// compilers, and as the qualified name of C++ without parameters and arguments of templates, with and without the type before it.
fn program_forms(function: &str) -> Vec<String> {
    let name = function.split_once('@').map_or(function, |(name, _)| name);
    let named = name.replace("(anonymous namespace)::", "");
    let end = named.find(['(', '<']).unwrap_or(named.len());
    let qualified = named[..end].trim_end();
    let last_word = qualified.rsplit(' ').next().unwrap_or(qualified);
    Vec::from([name, mechanisms::plain_name(name), qualified, last_word].map(str::to_owned))
}

/// The file name of a program's module; none for modules of the kernel (`[kernel.kallsyms]`, `[xfs]`, `xfs.ko`).
fn program_module(module: &str) -> Option<&str> {
    /// Regions of a process that are no files.
    const REGIONS: [&str; 7] = ["[vdso]", "[vsyscall]", "[vvar", "[heap", "[stack", "[anon", "[unknown]"];
    let path = module.trim();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = path.rsplit('/').next().unwrap_or(path);
    let in_brackets = file.starts_with('[') && !REGIONS.iter().any(|region| file.starts_with(region));
    let is_kernel = in_brackets || file.starts_with("vmlinux") || file.split('.').any(|part| part == "ko");
    (!is_kernel).then_some(file)
}

/// Whether a file is the known module in some version: `libc.so.6`, `libpython3.11.so.1.0`, `python3.11`.
fn is_module(known: &str, file: &str) -> bool {
    let begins_version = |first: char| first.is_ascii_digit() || matches!(first, '.' | '-' | '_');
    file.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(begins_version))
}

#[cfg(test)]
mod tests {
    #[test]
    fn causes_of_places_are_causes() {
        let of: BTreeSet<&str> = places().filter_map(|place| place.cause).collect();
        assert_eq!(of, BTreeSet::from(["data.compressed", "gc.more"]));
        assert!(of.iter().all(|cause| crate::causes::cause(cause).is_some()), "{of:?}");
        let of = |function: &str, module: Option<&str>| place(function, module).and_then(|place| place.cause);
        assert_eq!(of("visit_decref", Some("libpython3.11.so.1.0")), Some("gc.more"));
        assert_eq!(of("MarkSweep::follow_array_chunk(objArrayOopDesc*, int)", Some("libjvm.so")), Some("gc.more"));
        let dispatch =
            "void OopOopIterateDispatch<AdjustPointerClosure>::Table::oop_oop_iterate<ObjArrayKlass>(oopDesc*)";
        assert_eq!(of(dispatch, Some("libjvm.so")), Some("gc.more"));
        assert_eq!(of("lzma_main", None), Some("data.compressed"));
        assert_eq!(of("squashfs_readahead", None), None, "it waits for the device as well");
        assert_eq!(of("inflate", Some("libz.so.1")), None, "the program's own");
    }

    use std::collections::BTreeSet;

    use super::*;
    use crate::settings;

    /// Keys of the glossary that the registry knows as any other of their family.
    const ANY_OTHER: &[&str] = &[
        "cmdline.audit_backlog_limit",
        "cmdline.cgroup.memory",
        "cmdline.cgroup_favordynmods",
        "cmdline.clearcpuid",
        "cmdline.enforcing",
        "cmdline.ima_appraise",
        "cmdline.ima_policy",
        "cmdline.percpu_alloc",
        "cmdline.rcu_nocbs",
        "cmdline.rcupdate.rcu_expedited",
        "cmdline.rcupdate.rcu_normal",
        "cmdline.rcutree.blimit",
        "cmdline.slab_nomerge",
        "cmdline.slub_debug",
        "kconfig.CRYPTO_AES_NI_INTEL",
        "kconfig.FS_ENCRYPTION_INLINE_CRYPT",
        "kconfig.FS_VERITY",
        "kconfig.FUTEX_PRIVATE_HASH",
        "kconfig.PARAVIRT_SPINLOCKS",
        "kconfig.SQUASHFS_DECOMP_MULTI_PERCPU",
        "kconfig.SQUASHFS_FRAGMENT_CACHE_SIZE",
        "kconfig.VMAP_STACK",
        "sysctl.dev.raid.speed_limit_max",
        "sysctl.fs.fanotify.max_queued_events",
        "sysctl.fs.xfs.xfssyncd_centisecs",
    ];

    fn count(areas: &[&[Place]]) -> usize {
        areas.iter().map(|area| area.len()).sum()
    }

    #[test]
    fn the_glossary_is_large_enough() {
        assert!(count(KERNEL) >= 150, "{}", count(KERNEL));
        assert!(count(PROGRAMS) >= 80, "{}", count(PROGRAMS));
        assert_eq!(places().count(), count(KERNEL) + count(PROGRAMS));
        assert!(KERNEL.iter().copied().flatten().all(|place| place.module.is_empty()));
        assert!(PROGRAMS.iter().copied().flatten().all(|place| !place.module.is_empty()));
    }

    #[test]
    fn a_name_stands_for_one_place_of_a_module() {
        let mut known = BTreeSet::new();
        for place in places() {
            for name in place.names {
                assert!(!name.trim_end_matches('*').is_empty(), "{place:?}");
                // Methods of Go have a star of their own: `runtime.(*mheap).alloc`.
                let before_end = name.strip_suffix('*').unwrap_or(name).replace("(*", "");
                assert!(!before_end.contains('*'), "{name}: a star ends a name");
                let modules = if place.module.is_empty() { &[""][..] } else { place.module };
                for module in modules {
                    assert!(known.insert((*name, *module)), "{name} of {module:?} is there twice");
                }
            }
        }
    }

    #[test]
    fn texts_are_there_and_end_without_a_full_stop() {
        for place in places() {
            for text in [place.what, place.brought_about_by, place.next].iter().chain(place.settings) {
                assert!(
                    !text.is_empty() && text.trim() == *text && !text.ends_with('.'),
                    "{:?}: {text:?}",
                    place.names
                );
                assert!(!text.contains("  "), "{:?}: {text:?}", place.names);
            }
            assert!(!place.names.is_empty() && !place.settings.is_empty(), "{place:?}");
            let distinct: BTreeSet<&str> = place.settings.iter().copied().collect();
            assert_eq!(distinct.len(), place.settings.len(), "{:?}", place.names);
        }
    }

    #[test]
    fn settings_are_keys_of_the_registry_or_options_of_a_program() {
        let mut others = BTreeSet::new();
        for place in places() {
            for key in place.settings {
                if let Some((program, option)) = key.split_once(": ") {
                    assert!(!program.is_empty() && !option.is_empty(), "{key}");
                    continue;
                }
                let declared = settings::definitions().any(|setting| setting.pattern == *key);
                let read_as_family = settings::setting(key).is_some_and(|info| !info.def.catch_all);
                if !declared && !read_as_family {
                    assert!(settings::setting(key).is_some(), "{key} is in no registry");
                    others.insert(*key);
                }
            }
        }
        let expected: BTreeSet<&str> = ANY_OTHER.iter().copied().collect();
        assert_eq!(others, expected, "misspelt, or to be added here");
    }

    #[test]
    fn functions_of_the_kernel_are_found_by_every_spelling() {
        let what = |function: &str| place(function, None).map(|place| place.what);
        let clearing = what("clear_page_erms");
        assert!(clearing.is_some());
        for function in ["clear_page_rep", "clear_page_erms_[k]", "clear_page_erms[k]", "clear_page_erms.cold"] {
            assert_eq!(what(function), clearing, "{function}");
        }
        assert_eq!(what("finish_task_switch.isra.0_[k]"), what("__schedule"));
        assert_eq!(what("compact_zone.constprop.0"), what("kcompactd"));
        assert_eq!(what("bpf_prog_affae3981c39db1d_sys_exit"), what("bpf_trace_run2"));
        assert_eq!(what("nobody_knows_it"), None);
        assert_eq!(what(""), None);
        for module in ["[kernel.kallsyms]", "[ext4]", "/lib/modules/6.18.0/kernel/fs/ext4/ext4.ko.xz", "vmlinux"] {
            assert_eq!(place("ext4_map_blocks", Some(module)), place("ext4_map_blocks", None), "{module}");
        }
        assert_eq!(place("clear_page_erms_[k]", Some("libc.so.6")), place("clear_page_erms", None), "the mark decides");
    }

    #[test]
    fn functions_of_programs_count_in_their_modules() {
        let libc = place("malloc", Some("/usr/lib/x86_64-linux-gnu/libc.so.6")).expect("known");
        assert!(libc.what.contains("C library"), "{libc:?}");
        assert_eq!(place("malloc@plt", Some("libc-2.31.so")), Some(libc));
        let jemalloc = place("malloc", Some("/usr/lib/libjemalloc.so.2")).expect("known");
        assert!(jemalloc.what.starts_with("jemalloc"), "{jemalloc:?}");
        assert_eq!(place("malloc", None), None, "the kernel has none");
        assert_eq!(place("malloc", Some("/opt/program")), None);
        assert_eq!(place("clear_page_erms", Some("libc.so.6")), None);
        let copy = place("__memmove_avx_unaligned_erms", Some("libc.so.6")).expect("a beginning");
        assert_eq!(place("memcpy", Some("libc.so.6")), Some(copy));
        assert!(place("XLogFlush", Some("/usr/lib/postgresql/17/bin/postgres (deleted)")).is_some());
        assert_eq!(place("XLogFlush", Some("postgrest")), None);
        assert!(place("_PyEval_EvalFrameDefault", Some("/usr/bin/python3.11")).is_some());
        assert!(place("_PyEval_EvalFrameDefault", Some("libpython3.13.so.1.0")).is_some());
        assert!(place("__vdso_clock_gettime", Some("[vdso]")).is_some());
        assert!(place("runtime.(*mheap).alloc.func1", Some("/usr/bin/dockerd")).is_some());
    }

    #[test]
    fn names_of_cpp_are_found_with_and_without_parameters() {
        let of = |function: &str| place(function, Some("/opt/store/server"));
        let write = of("rocksdb::DBImpl::WriteImpl").expect("known");
        for function in [
            "rocksdb::DBImpl::WriteImpl(rocksdb::WriteOptions const&, rocksdb::WriteBatch*)",
            "rocksdb::DBImpl::WriteImpl(rocksdb::WriteOptions const&) [clone .cold]",
            "rocksdb::(anonymous namespace)::DBImpl::WriteImpl(int)",
        ] {
            assert_eq!(of(function), Some(write), "{function}");
        }
        assert_eq!(of("rocksdb::DBImpl::WriteWithCallback(int)"), Some(write), "a beginning");
        let log = of("rocksdb::DBImpl::WriteToWAL(rocksdb::WriteBatch const&, int)").expect("known");
        assert_ne!(log, write, "a full name wins over a beginning");
        let list = of("rocksdb::InlineSkipList<rocksdb::MemTableRep::KeyComparator const&>::Insert(char const*)");
        assert_eq!(list, of("rocksdb::MemTable::Add(unsigned long)"));
        let sort = of("void std::__introsort_loop<int*, long>(int*, int*, long)");
        assert!(sort.is_some_and(|place| place.what.contains("sorting")), "{sort:?}");
        let new = of("operator new(unsigned long)");
        assert!(new.is_some_and(|place| place.names.contains(&"operator new")), "{new:?}");
    }

    #[test]
    fn longer_beginnings_win() {
        for pair in BY_BEGINNING.windows(2) {
            assert!(pair[0].0.len() >= pair[1].0.len());
        }
        let of = |function: &str| place(function, Some("mysqld")).map(|place| place.names[0]);
        assert_eq!(of("log_wait_for_write(log_t&, unsigned long)"), Some("log_write_up_to"));
        assert_eq!(of("lock_wait_suspend_thread(que_thr_t*)"), Some("lock_rec_lock*"));
    }
}
