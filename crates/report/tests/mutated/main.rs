//! One absurd number in a recording ended every command that met it, in arithmetic on numbers of files. So thousands of changed
//! recordings go through opening, checking, every view, the causes and a comparison, in one process.
//!
//! The short form tries some hundreds; `PAGELAB_MUTATED=20000` (`make mutated-recordings`) as many as that says, from the seed
//! that `PAGELAB_MUTATED_SEED` names. Each that went wrong is printed with its number: `PAGELAB_MUTATED_FROM` begins there.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

mod base;
mod change;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagelab_analysis::compare::{CompareOptions, compare};
use pagelab_analysis::explain::explain;
use pagelab_recording::{Bound, Bounds, Recording, check};
use pagelab_report::view::page;
use pagelab_views::faultfield::FaultField;
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::sides::{SideRun, changes};
use pagelab_views::view::{
    VIEWS, block, budget, counters, dax, faults, io, latency, loss, maps, metrics, profile, regions, sched, settings,
    summary, syscalls, tasks,
};
use pagelab_views::{faultmap, view};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A recording may take so long, on a machine that others use, too.
const LONGEST: Duration = Duration::from_secs(20);
/// And so much memory.
const MOST_KIB: u64 = 512 << 10;

/// Where something panicked last, in this thread or in one that it waited for.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

/// Largest resident size of this process since it was last asked, in KiB.
fn peak_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    // 5: the peak is what it is now.
    let _ = fs::write("/proc/self/clear_refs", "5");
    kib.unwrap_or_default()
}

/// Asks everything that can be asked of one recording. What is no panic is an answer.
fn look(dir: &Path, good: &Path, wrong: &mut impl FnMut(&str)) {
    let mut ask = |what: &str, ask: &mut dyn FnMut()| {
        if catch_unwind(AssertUnwindSafe(ask)).is_err() {
            wrong(what);
        }
    };
    ask("check", &mut || drop(check(dir)));
    ask("run", &mut || drop(RunData::load(dir)));
    ask("explain", &mut || drop(explain(dir)));
    ask("faultmap", &mut || drop(faultmap::of_dir(dir, None)));
    ask("compare", &mut || {
        drop(compare(&[good.to_owned()], &[dir.to_owned()], &CompareOptions::default()));
    });
    let Ok(recording) = Recording::open(dir) else { return };
    ask("field", &mut || {
        let Ok(Some(field)) = FaultField::of(&recording, &mut Vec::new()) else { return };
        let _ = field.see(&recording, &field.whole(300, 200));
    });
    let since = |ns| Some(Bound::SinceStart(ns));
    let part = Bounds { from: since(100_000_000), to: since(900_000_000) };
    let narrow = part.of(&recording).map(|span| recording.clone().within(span));
    for recording in [Some(&recording), narrow.as_ref().ok()].into_iter().flatten() {
        drawn(recording, &mut ask);
    }
    let whole = Selection { top: Some(0), ..Selection::default() };
    let Ok(other) = Recording::open(good) else { return };
    for named in VIEWS {
        ask(named.name, &mut || {
            let runs = [&other, &recording].map(|recording| {
                let document = view::document(named.name, recording, &whole).ok()?;
                SideRun::new(named.name, recording, document).ok()
            });
            if let [Some(base), Some(test)] = runs {
                drop(changes(named.name, &[base], &[test], &Selection::default()));
            }
        });
    }
}

/// Every view as text and as a document.
fn drawn(recording: &Recording, ask: &mut impl FnMut(&str, &mut dyn FnMut())) {
    let all = Selection::default();
    macro_rules! views {
        ($($name:ident),+) => {
            $( ask(stringify!($name), &mut || {
                if let Ok(answer) = $name::collect(recording, &all) {
                    drop(page(&answer));
                    drop(answer.document());
                }
            }); )+
        };
    }
    views!(
        summary, tasks, faults, maps, dax, syscalls, io, budget, sched, profile, counters, metrics, settings, latency,
        block, regions, loss
    );
}

/// Changes, by seed 1, that ended a view once: products and differences of rows that overflowed.
const FOUND: [u64; 3] = [10_730, 15_435, 17_766];

/// On a thread with the stack of a program's first.
#[test]
fn changed_recordings_end_nothing() {
    let work = std::thread::Builder::new().stack_size(8 << 20).spawn(try_all).unwrap();
    work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn try_all() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
        let text = panic.payload_as_str().unwrap_or_default().to_owned();
        *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = format!("{place}: {text}");
    }));
    let tmp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let bases = [tmp.path().join("closed"), tmp.path().join("killed")];
    base::record(&bases[0], true);
    base::record(&bases[1], false);
    assert!(
        check(&bases[0]).is_ok_and(|report| report.complete && report.problems.is_empty()),
        "{:?}",
        check(&bases[0])
    );
    let (count, seed, from) =
        (number("PAGELAB_MUTATED", 300), number("PAGELAB_MUTATED_SEED", 1), number("PAGELAB_MUTATED_FROM", 0));
    let mut found: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let (mut longest, mut most_kib) = (Duration::ZERO, 0);
    peak_kib();
    let again = FOUND.iter().copied().filter(|_| (seed, from) == (1, 0));
    for n in (from..count.max(from + 1)).chain(again) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1 << 32).wrapping_add(n));
        let dir = tmp.path().join("changed");
        copy(&bases[usize::from(n % 5 == 0)], &dir);
        let said = change::change(&dir, &mut rng);
        if std::env::var_os("PAGELAB_MUTATED").is_some() {
            eprintln!("{n}: {said}");
        }
        let begun = Instant::now();
        let mut note = |what: String| {
            found.entry(what).or_insert_with(|| (0, format!("{n}: {said}"))).0 += 1;
        };
        look(&dir, &bases[0], &mut |what| {
            let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone();
            note(format!("{place} ({what})"));
        });
        let (took, kib) = (begun.elapsed(), peak_kib());
        if took > LONGEST {
            note(format!("{} s", took.as_secs()));
        }
        if kib > MOST_KIB {
            note(format!("{} MiB", kib >> 10));
        }
        (longest, most_kib) = (longest.max(took), most_kib.max(kib));
        fs::remove_dir_all(&dir).unwrap();
    }
    eprintln!(
        "{count} changed recordings: {} kinds of harm, longest {longest:?}, at most {} MiB",
        found.len(),
        most_kib >> 10
    );
    // The hook keeps what a panic would print.
    let _ = std::panic::take_hook();
    assert!(found.is_empty(), "{found:#?}");
}
