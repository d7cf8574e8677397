//! `readahead.reduced`: files are read from the device in smaller pieces, and the reader waits for each.

use pagelab_vocab::terminal::shell_word;

use crate::rules::chain::{CaseParts, Chain, Verdict};
use crate::rules::effect;
use crate::rules::evidence::{RunEvidence, SettingChange, SideEvidence};
use crate::rules::finding::{Fix, Reach, SettingSubject};
use crate::rules::scene::Scene;
use crate::rules::{About, Effect, Manual, Rule, SideName};
use pagelab_views::mappings::bytes;

/// The rule.
pub(super) struct ReadaheadReduced;

const ABOUT: About = About {
    cause: "readahead.reduced",
    looks_at: "disk.reads, disk.read_bytes and disk.read_ns of each device, block.<dev>.read_ahead_kb and max_sectors_kb, the time \
               in which the program was not on a CPU, target.io.rchar and load.bytes",
    holds_if: &[
        "read_ahead_kb (or max_sectors_kb) of a device is smaller on the slower side",
        "that device's mean read request is smaller there by at least a third, in every run, and no larger than twice the smaller limit",
        "the other side's requests exceed that limit, and both read the same number of bytes per unit of work, within 25 %",
        "at least 1 MiB was read from the device",
    ],
    refuted_by: &[
        "random access: requests do not grow with the limit, or the side that reads ahead more reads more bytes for the same work",
        "reads served from the page cache: the device gave less than 5 % of what the program read",
        "O_DIRECT: its requests do not follow read-ahead, so they would be equal",
        "the program did not wait longer for it: less than 5 % of the lost time (upper end of the interval)",
    ],
    alone: "a limit of at most 32 KiB (the kernel's default is 128), requests no larger than twice that, and at least a \
            fifth of the time spent waiting; whether the access was sequential cannot be told then",
};

/// Least bytes read from the device for its requests to mean anything.
const LEAST_BYTES: f64 = 1_048_576.0;
/// Requests of a reader without read-ahead are one page, or a little more where folios are larger.
const LEAST_LIMIT_BYTES: f64 = 8192.0;
/// A lone recording is suspected below this limit, KiB.
const SUSPECT_KB: f64 = 32.0;

/// The keys that bound a request, most direct first.
fn keys(device: &str) -> [String; 2] {
    [format!("block.{device}.read_ahead_kb"), format!("block.{device}.max_sectors_kb")]
}

/// The limit on one side, bytes.
fn limit(side: &SideEvidence, device: &str) -> Option<f64> {
    let values: Vec<f64> = keys(device).iter().filter_map(|key| side.setting(key)?.parse::<f64>().ok()).collect();
    let least = values.into_iter().reduce(f64::min)?;
    Some((least * 1024.0).max(LEAST_LIMIT_BYTES))
}

fn read_bytes(run: &RunEvidence, device: &str) -> Option<f64> {
    run.events("disk.read_bytes", Some(device))
}

/// Bytes that the program asks for in a read call, on average.
fn call_bytes(run: &RunEvidence) -> Option<f64> {
    let calls = run.events("target.io.syscr", None).filter(|calls| *calls > 0.0)?;
    Some(run.events("target.io.rchar", None)? / calls)
}

/// Bytes of a mean read request.
fn request(run: &RunEvidence, device: &str) -> Option<f64> {
    let reads = run.events("disk.reads", Some(device))?;
    (reads > 0.0).then(|| read_bytes(run, device).map(|bytes| bytes / reads)).flatten()
}

/// Bytes that the program read, from the cache or not.
fn wanted_bytes(run: &RunEvidence) -> Option<f64> {
    run.events("target.io.rchar", None).filter(|n| *n > 0.0).or_else(|| run.events("load.bytes", None))
}

/// The device concerned: of those whose limit is smaller on the slower side (alone: of all that were read from), the
/// one with most bytes read.
fn device(scene: &Scene<'_>) -> Option<(String, SettingSubject)> {
    let candidates: Vec<(String, SettingSubject)> = match &scene.evidence.contrast {
        Some(contrast) => contrast.differing.iter().filter_map(|change| reduced(scene, change)).collect(),
        None => suspects(scene),
    };
    let weight = |device: &str| scene.slow.median(|run| read_bytes(run, device)).unwrap_or(0.0);
    candidates.into_iter().reduce(|best, next| if weight(&next.0) > weight(&best.0) { next } else { best })
}

fn reduced(scene: &Scene<'_>, change: &SettingChange) -> Option<(String, SettingSubject)> {
    let (device, field) = change.key.strip_prefix("block.")?.split_once('.')?;
    if !matches!(field, "read_ahead_kb" | "max_sectors_kb") {
        return None;
    }
    let number = |value: &Option<String>| value.as_deref()?.parse::<f64>().ok();
    let (base, test) = (number(&change.base)?, number(&change.test)?);
    let smaller = match scene.slow.name {
        SideName::Test => test < base,
        SideName::Base => base < test,
    };
    let subject =
        SettingSubject { key: change.key.clone(), base: change.base.clone(), test: change.test.clone(), differs: true };
    smaller.then(|| (device.to_owned(), subject))
}

fn suspects(scene: &Scene<'_>) -> Vec<(String, SettingSubject)> {
    let all = scene.slow.settings.iter().filter_map(|(key, value)| {
        let device = key.strip_prefix("block.")?.strip_suffix(".read_ahead_kb")?;
        let small = value.parse::<f64>().is_ok_and(|kb| kb <= SUSPECT_KB);
        let read = scene.slow.median(|run| read_bytes(run, device))?;
        let subject = SettingSubject { key: key.clone(), base: None, test: Some(value.clone()), differs: false };
        (small && read > 0.0).then(|| (device.to_owned(), subject))
    });
    all.collect()
}

impl Rule for ReadaheadReduced {
    fn cause(&self) -> &'static str {
        ABOUT.cause
    }

    fn manual(&self) -> Manual {
        Manual::from(&ABOUT)
    }

    fn examine(&self, scene: &Scene<'_>) -> Verdict {
        let Some((device, setting)) = device(scene) else {
            return Verdict::Refuted(vec![nothing_smaller(scene)]);
        };
        let mut chain = Chain::default();
        chain.say(said(&setting, scene));
        volume_link(scene, &device, &mut chain);
        request_links(scene, &device, &mut chain);
        if let Some(fast) = scene.fast {
            same_bytes_link(scene, fast, &device, &mut chain);
        }
        cache_refuter(scene, &device, &mut chain);
        let effect = effect::effect(scene, &effect::reads(scene, &ABOUT, &device));
        let effect = if scene.fast.is_some() {
            chain.supports(
                told_times(scene, &device),
                format!("disk.read_ns says how long the reads of {device} took, which bounds what they can have cost"),
                "",
                "how long the reads of the device took (disk.read_ns): other waiting may be among the time off the CPU; it",
            );
            effect::material_link(scene, effect, None, &mut chain)
        } else {
            alone_links(effect.as_ref(), &mut chain);
            effect
        };
        chain.close(scene, |scene| parts(scene, &device, setting, effect))
    }
}

/// Whether every run knows how long the reads of `device` took; `None` if not.
fn told_times(scene: &Scene<'_>, device: &str) -> Option<bool> {
    let told = |run: &RunEvidence| run.events("disk.read_ns", Some(device)).is_some();
    let all = [Some(scene.slow), scene.fast].into_iter().flatten().all(|side| side.runs.iter().all(told));
    all.then_some(true)
}

fn nothing_smaller(scene: &Scene<'_>) -> String {
    match scene.fast {
        Some(_) => format!("read_ahead_kb and max_sectors_kb of no device are smaller on {}", scene.slow.word()),
        None => format!("no device that was read from has a read_ahead_kb of {SUSPECT_KB:.0} or less"),
    }
}

fn volume_link(scene: &Scene<'_>, device: &str, chain: &mut Chain) {
    let read = scene.slow.median(|run| read_bytes(run, device));
    let said = bytes(read.unwrap_or(0.0) as u64);
    chain.needs(
        read.map(|read| read >= LEAST_BYTES),
        format!("{}: {said} were read from {device} in the measured time", scene.slow.word()),
        format!("{}: only {said} were read from {device} in the measured time", scene.slow.word()),
        "disk.read_bytes",
    );
}

fn request_links(scene: &Scene<'_>, device: &str, chain: &mut Chain) {
    let of = |side: &SideEvidence| side.values(|run| request(run, device));
    let slow = of(scene.slow);
    let mean = scene.slow.median(|run| request(run, device));
    // A call that asks for more than the limit is not cut down to it.
    let bound = limit(scene.slow, device).map(|limit| limit.max(scene.slow.median(call_bytes).unwrap_or(0.0)));
    let said = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| bytes(value as u64));
    chain.needs(
        mean.zip(bound).map(|(mean, bound)| mean <= 2.0 * bound),
        format!("{}: a read request of {device} has {} on average, at most twice what the limit, or a call, allows ({})", scene.slow.word(), said(mean), said(bound)),
        format!("{}: a read request of {device} has {} on average, more than twice what the limit, or a call, allows ({}): the limit does not bind", scene.slow.word(), said(mean), said(bound)),
        "size of read requests",
    );
    let Some(fast) = scene.fast else { return };
    let other = of(fast);
    let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
    let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
    // Sizes of requests are nearly constant from run to run, so the sides must not overlap at all.
    let apart = most(&slow).zip(least(&other)).map(|(slow, fast)| fast > slow);
    let medians = mean.zip(fast.median(|run| request(run, device)));
    let grown = apart.zip(medians).map(|(apart, (slow, fast))| apart && fast >= 1.5 * slow);
    let exceeds = medians.zip(bound).map(|((_, fast), bound)| fast > bound);
    let fast_said = said(fast.median(|run| request(run, device)));
    chain.needs(
        grown,
        format!("{}: {fast_said}, larger in every run", fast.word()),
        format!(
            "{}: {fast_said}; requests did not grow with the limit, so the access is random or O_DIRECT",
            fast.word()
        ),
        "size of read requests of the other side",
    );
    chain.refuter(
        exceeds.map(|exceeds| !exceeds),
        format!(
            "random access or O_DIRECT: the requests of {} ({fast_said}) stay below the smaller limit too",
            fast.word()
        ),
        "random access or O_DIRECT, whose requests would not follow the limit",
        "size of read requests of the other side",
    );
}

/// Bytes that the device read for the work. The work of a run can be measured in several ways, and a mixed one by some
/// of them only: by bytes the program read, by operations, by runs. One that agrees is enough; read-ahead on random
/// access shows in all of them, as unrequested bytes on the side that reads ahead more.
fn same_bytes_link(scene: &Scene<'_>, fast: &SideEvidence, device: &str, chain: &mut Chain) {
    let by_wanted = |side: &SideEvidence| side.median(|run| Some(read_bytes(run, device)? / wanted_bytes(run)?));
    let by_work = |side: &SideEvidence| scene.per_work(side, |run| read_bytes(run, device));
    let by_run = |side: &SideEvidence| side.median(|run| read_bytes(run, device));
    let per_work = format!("per {}", scene.evidence.per());
    let ways = [
        ("for each byte that the program read", by_wanted(scene.slow).zip(by_wanted(fast))),
        (per_work.as_str(), by_work(scene.slow).zip(by_work(fast))),
        ("in a run", by_run(scene.slow).zip(by_run(fast))),
    ];
    let known: Vec<(&str, f64, f64)> =
        ways.iter().filter_map(|(way, rates)| rates.map(|(s, f)| (*way, s, f))).collect();
    let agree = known.iter().find(|(_, slow, fast)| *slow <= fast * 1.25 && *fast <= slow * 1.25);
    let said = agree.or(known.first()).map_or_else(String::new, |(way, slow, fast_rate)| {
        let number = |n: f64| if n < 100.0 { format!("{n:.3}") } else { format!("{n:.0}") };
        format!("{} {way} on {}, {} on {}", number(*slow), scene.slow.word(), number(*fast_rate), fast.word())
    });
    chain.refuter(
        if known.is_empty() { None } else { Some(agree.is_none()) },
        format!("bytes read from {device} for the same work differ ({said}): read-ahead in vain, or other work"),
        format!("read-ahead in vain (random access) or other work: the device gave the same bytes ({said})"),
        "bytes per unit of work",
    );
}

fn cache_refuter(scene: &Scene<'_>, device: &str, chain: &mut Chain) {
    let share = scene.slow.median(|run| Some(read_bytes(run, device)? / wanted_bytes(run)?));
    let said = share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
    chain.refuter(
        share.map(|share| share < 0.05),
        format!("the page cache served the reads: {device} gave {said} of what the program read"),
        format!("reads served from the page cache: {device} gave {said} of what the program read"),
        "what the program read (target.io.rchar)",
    );
}

fn alone_links(effect: Option<&Effect>, chain: &mut Chain) {
    let share = effect.map(|effect| effect.share);
    let said = share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
    chain.needs(
        share.map(|share| share >= 0.2),
        format!("{said} of the time was spent off the CPU"),
        format!("only {said} of the time was spent off the CPU"),
        "time off the CPU",
    );
    chain.supports(None, "", "", "whether files were read in sequence (needs the stream syscalls)");
}

fn said(setting: &SettingSubject, scene: &Scene<'_>) -> String {
    let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
    if scene.fast.is_some() {
        format!("{} is {} on base and {} on test", setting.key, show(&setting.base), show(&setting.test))
    } else {
        format!("{} is {}", setting.key, show(&setting.test))
    }
}

fn parts(scene: &Scene<'_>, device: &str, setting: SettingSubject, effect: Option<Effect>) -> CaseParts {
    let size =
        |side: &SideEvidence| side.median(|run| request(run, device)).map_or_else(String::new, |n| bytes(n as u64));
    let against = scene.fast.map_or_else(String::new, |fast| format!(", where {} reads {}", fast.word(), size(fast)));
    CaseParts {
        summary: format!(
            "{}: {} reads {device} in pieces of {}{against}, because {}",
            scene.movement(),
            scene.slow.word(),
            size(scene.slow),
            said(&setting, scene)
        ),
        numbers: vec![
            scene.number(&format!("bytes per read request of {device}"), "B", |run| request(run, device)),
            scene.work_number(&format!("reads of {device}"), "", |run| run.events("disk.reads", Some(device))),
            scene.work_number(&format!("bytes read from {device}"), "B", |run| read_bytes(run, device)),
            scene.work_number("time off the CPU", "ns", effect::waiting_time),
        ],
        fixes: fixes(device, &setting, scene),
        effect,
        mapping: None,
        setting: Some(setting),
        together_with: Vec::new(),
    }
}

fn fixes(device: &str, setting: &SettingSubject, scene: &Scene<'_>) -> Vec<Fix> {
    let fix = |reach, text: &str, command: String| Fix { reach, text: text.to_owned(), command };
    let before = match scene.slow.name {
        SideName::Test => setting.base.clone(),
        SideName::Base => setting.test.clone(),
    };
    let value = if scene.fast.is_some() { before } else { None }.unwrap_or_else(|| "128".to_owned());
    let field = setting.key.rsplit('.').next().unwrap_or("read_ahead_kb");
    vec![
        fix(
            Reach::File,
            "tell the kernel which part of the file will be read, ahead of the reads",
            "readahead(fd, offset, length);   /* or posix_fadvise(fd, offset, length, POSIX_FADV_WILLNEED) */"
                .to_owned(),
        ),
        fix(
            Reach::File,
            "or say that the file is read in sequence, which doubles the window of this file",
            "posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);".to_owned(),
        ),
        fix(
            Reach::Device,
            "set the device's limit back; it holds for every file on it until the next boot",
            format!(
                "echo {} | sudo tee {}",
                shell_word(&value),
                shell_word(&format!("/sys/block/{device}/queue/{field}"))
            ),
        ),
        fix(
            Reach::System,
            "and keep it over reboots with a udev rule",
            format!(
                "echo {} | sudo tee {}",
                shell_word(&format!("ACTION==\"add|change\", KERNEL==\"{device}\", ATTR{{queue/{field}}}=\"{value}\"")),
                shell_word(&format!("/etc/udev/rules.d/60-{device}-readahead.rules"))
            ),
        ),
    ]
}
