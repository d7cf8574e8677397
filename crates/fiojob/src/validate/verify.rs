//! Options that contradict `verify`, and options that have no effect with it.

use crate::model::{Caps, Direction};
use crate::options::JobOptions;
use crate::value::Percent;
use crate::verify::VerifyMethod;
use crate::words::{MapLifetime, MapShare};

/// What contradicts `verify` in a job: the option that tips it over, and the words.
pub(super) fn conflict(o: &JobOptions, caps: Caps) -> Option<(&'static str, String)> {
    if !o.verifies() {
        if o.verify.0 != VerifyMethod::None {
            return None;
        }
        let alone = [("verify_only", o.verify_only), ("verify_state_load", o.verify_state_load)];
        let (option, _) = alone.into_iter().find(|(_, given)| *given)?;
        return Some((option, format!("{option}=1 needs verify=: it says how to verify")));
    }
    if !caps.contains(Caps::BUFFERS) {
        return None;
    }
    conflict_of_layout(o).or_else(|| conflict_of_course(o, caps)).or_else(|| conflict_of_memory(o, caps))
}

/// Headers and patterns against lengths.
fn conflict_of_layout(o: &JobOptions) -> Option<(&'static str, String)> {
    let method = o.verify.0;
    let patterned = matches!(method, VerifyMethod::Pattern | VerifyMethod::PatternHdr);
    if patterned && o.verify_pattern.bytes.is_empty() {
        return Some(("verify", "verify=pattern needs verify_pattern=".to_owned()));
    }
    let (header, interval) = (method.header_bytes(), u64::from(o.verify_interval_bytes()));
    if header == 0 {
        return None;
    }
    if interval <= header {
        let option = if o.verify_interval.0 > 0 { "verify_interval" } else { "bs" };
        return Some((
            option,
            format!("{interval} bytes hold no more than the header, {header}; needed at least {}", header + 1),
        ));
    }
    let reads = o.lengths(Direction::Read);
    let odd = [reads.min_bytes, reads.max_bytes].into_iter().find(|bytes| !u64::from(*bytes).is_multiple_of(interval));
    if let Some(bytes) = odd.filter(|_| !o.rw.0.writes() && !o.bs_unaligned) {
        return Some((
            "bs",
            format!(
                "reads of {bytes} bytes hold no whole number of headers, which lie {interval} bytes apart (verify_interval, or the bs of writes)"
            ),
        ));
    }
    let at = o.verify_offset.0;
    let room = interval - header;
    (at > 0 && !(header..=room).contains(&at)).then(|| {
        let words = if room < header {
            format!("bs or verify_interval of at least {}", 2 * header)
        } else {
            format!("{header} to {room}")
        };
        (
            "verify_offset",
            format!(
                "the header of {header} bytes changes places with data at {at} of {interval} bytes; needed {words}"
            ),
        )
    })
}

/// The part that the order and the lengths of operations leave to be verified.
fn conflict_of_course(o: &JobOptions, caps: Caps) -> Option<(&'static str, String)> {
    let files = caps.contains(Caps::FILES);
    [
        (
            o.verify_only && o.time_based,
            "time_based",
            "verify_only goes once over what was written: leave out time_based",
        ),
        (
            o.verify_state_load && o.changes_files(),
            "verify_state_load",
            "a state is loaded to verify what was written before: add verify_only=1, or read",
        ),
        (
            o.only_verifies() && !files,
            "verify",
            "the engine's memory is empty at the start: there is nothing to verify without writing",
        ),
        (o.map_touch.0 > 0, "map_touch", "what is verified is whole blocks; leave out map_touch"),
    ]
    .into_iter()
    .find(|(wrong, _, _)| *wrong)
    .map(|(_, option, words)| (option, words.to_owned()))
}

/// Memory that does not stay until it is verified.
fn conflict_of_memory(o: &JobOptions, caps: Caps) -> Option<(&'static str, String)> {
    let private = !caps.contains(Caps::FILES) || o.map_share == MapShare::Private;
    let lost = o.changes_files() && private && caps.contains(Caps::MAPS) && o.map_lifetime == MapLifetime::Evict;
    lost.then(|| {
        (
            "map_lifetime",
            "a private piece that is unmapped loses what was written: there is nothing to verify".to_owned(),
        )
    })
}

/// What verifying jobs give and that has no effect: (option, words behind its name).
pub(super) fn without_effect(o: &JobOptions) -> Vec<(&'static str, &'static str)> {
    if !o.verifies() {
        let words = " has no effect, as in fio: trims leave nothing that could be verified; rw=trimwrite verifies what it writes";
        return if o.verify.0 == VerifyMethod::None { Vec::new() } else { vec![("verify", words)] };
    }
    let some = |percent: Option<Percent>| percent.is_some_and(|percent| percent.0 > 0);
    let (compressed, repeated) = (some(o.buffer_compress_percentage), some(o.dedupe_percentage));
    [
        (o.verify_async > 0, "verify_async", " has no effect: each worker verifies what it has read itself"),
        (
            !o.verify_async_cpus.0.is_empty(),
            "verify_async_cpus",
            " has no effect: each worker verifies what it has read itself; cpus_allowed binds it",
        ),
        (
            o.experimental_verify,
            "experimental_verify",
            " has nothing to do: verifying always repeats the way of the writes",
        ),
        (
            o.verify_offset.0 > 0 && o.verify.0.header_bytes() == 0,
            "verify_offset",
            " has no effect: this method has no header that could be moved",
        ),
        (o.zero_buffers, "zero_buffers", " has no effect: verify decides the contents"),
        (repeated, "dedupe_percentage", " has no effect: verify gives each block contents of its own"),
        (
            !o.buffer_pattern.0.is_empty() && !compressed,
            "buffer_pattern",
            " has no effect: verify decides the contents; write verify_pattern",
        ),
    ]
    .into_iter()
    .filter(|(given, _, _)| *given)
    .map(|(_, option, words)| (option, words))
    .collect()
}

#[cfg(test)]
mod tests {
    /// fio runs such jobs, and so does pagelab.
    #[test]
    fn what_verifying_leaves_without_effect_is_said() {
        for (words, says) in [
            ("--rw=randtrim --verify=md5 --filename=/dev/loop0", "trims leave nothing"),
            ("--rw=write --verify=md5 --dedupe_percentage=30", "contents of its own"),
        ] {
            let words: Vec<String> = format!("--name=j --size=1m {words}").split(' ').map(str::to_owned).collect();
            let warnings = crate::parse_args(&words).expect("runs").warnings;
            assert!(warnings.iter().any(|warning| warning.contains(says)), "{words:?}: {warnings:?}");
        }
        let rated: Vec<String> =
            "--name=j --size=1m --rw=randrw --verify=md5 --rate=1m".split(' ').map(str::to_owned).collect();
        assert_eq!(crate::parse_args(&rated).expect("runs").warnings, [""; 0]);
    }

    #[test]
    fn what_cannot_be_verified_is_refused() {
        let check = |words: &str| {
            let words: Vec<String> = format!("--name=j --size=1m {words}").split(' ').map(str::to_owned).collect();
            crate::parse_args(&words).map(|_| ()).map_err(|error| error.to_string())
        };
        for (words, says) in [
            ("--rw=write --verify=crc33", "crc32"),
            ("--rw=write --verify=pattern", "verify_pattern"),
            ("--rw=write --verify=sha256 --bs=104", "at least 105"),
            ("--rw=write --verify=md5 --verify_offset=40", "56 to"),
            ("--rw=write --verify=md5 --bs=100 --verify_offset=60", "at least 112"),
            ("--rw=read --verify=md5 --bs=4k,8k", "apart"),
            ("--rw=read --verify=md5 --ioengine=anon", "empty"),
            ("--rw=write --verify=md5 --ioengine=anon --map_touch=1", "map_touch"),
            ("--rw=write --verify=md5 --ioengine=anon --map_lifetime=evict --map_granularity=64k", "loses"),
            ("--rw=write --verify_only=1", "needs verify="),
            ("--rw=write --verify=md5 --verify_state_load=1", "verify_only=1"),
            ("--rw=write --verify=md5 --verify_only=1 --time_based=1 --runtime=1", "time_based"),
            ("--rw=write --verify=md5 --verify_policy=fsynced", "verify_policy"),
        ] {
            assert!(check(words).expect_err(words).contains(says), "{words}: {:?}", check(words));
        }
        for words in [
            "--rw=write --verify=crc32c-intel --ioengine=null",
            "--rw=write --verify=0 --bs=1",
            "--rw=write --verify=crc7 --bs=42",
        ] {
            assert_eq!(check(words), Ok(()), "{words}");
        }
    }
}
