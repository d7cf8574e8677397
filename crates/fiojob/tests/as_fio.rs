//! The language as the installed fio reads it: the same text in both programs, and fio's own figures as the truth.

use std::process::Command;

use pagelab_fiojob::options::{OPTIONS, reported_name};
use pagelab_fiojob::value::Extent;
use pagelab_fiojob::{Direction, JobError, Workload, parse_args, parse_files};

fn arguments(line: &str) -> Result<Workload, JobError> {
    parse_args(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn file(text: &str) -> Result<Workload, JobError> {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("job.fio");
    std::fs::write(&path, text).expect("write");
    parse_files(&[path])
}

/// fio's JSON for a job of the null engine.
fn fio(line: &str) -> serde_json::Value {
    let mut command = Command::new("fio");
    command.args(["--output-format=json", "--name=j", "--ioengine=null"]).args(line.split_whitespace());
    let output = command.output().expect("fio is installed (apt-get install fio)");
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find('{').unwrap_or_else(|| panic!("{line}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&text[start..]).expect("JSON")
}

/// Whether fio takes a job without running it.
fn fio_parses(line: &str) -> bool {
    let mut command = Command::new("fio");
    command.args(["--parse-only", "--name=j", "--ioengine=null"]).args(line.split_whitespace());
    command.output().expect("fio is installed").status.success()
}

#[test]
fn sizes_have_fios_units_in_both_bases() {
    for base in [1024, 1000] {
        for value in
            ["64Ki", "64KI", "64ki", "64KiB", "64kib", "64kb", "64K", "1Mi", "1mi", "1mib", "1MB", "3m", "0x400"]
        {
            let line = format!("--kb_base={base} --rw=read --size=100m --number_ios=1 --bs={value}");
            let told = fio(&line)["jobs"][0]["read"]["io_bytes"].as_u64();
            let read = arguments(&format!("--name=j --ioengine=null {line}")).expect(value).jobs[0].options.bs.read.0;
            assert_eq!(Some(read), told, "kb_base={base} bs={value}");
        }
    }
}

/// Lists where one value is read, or one for each direction; with a word about it.
#[test]
fn the_last_value_of_a_list_holds_and_dashes_part_directions() {
    for (line, bs, operations) in [
        ("--rw=read --size=64k:32k:16k --bs=4k", 4096, 4),
        ("--rw=read --size=8k-16k --bs=4k", 4096, 4),
        ("--rw=write --size=64k --bs=4k-16k", 16384, 4),
        ("--rw=read --size=64k --bs=4k-16k", 4096, 16),
        ("--rw=write --size=64k --bs=4k:8k:16k", 8192, 8),
    ] {
        let told = fio(line);
        let direction = if line.contains("write") { "write" } else { "read" };
        assert_eq!(told["jobs"][0][direction]["total_ios"], operations, "{line}");
        let read = arguments(&format!("--name=j --ioengine=null {line}")).expect(line);
        let options = &read.jobs[0].options;
        let block = if direction == "write" { options.bs.write.0 } else { options.bs.read.0 };
        let bytes = match options.size {
            Some(Extent::Bytes(bytes)) => bytes,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!((block, bytes / block), (bs, operations), "{line}");
        assert_eq!(read.warnings.len(), 1, "{line}: {:?}", read.warnings);
    }
}

/// What nobody means otherwise is read as meant, and what fio would read is said.
#[test]
fn fractions_of_units_are_read_with_a_word() {
    for (size, bytes) in [("1.5k", 1536), ("1024.0M", 1 << 30), ("0.5m", 1 << 19), ("2.25kb", 2304)] {
        let read = arguments(&format!("--name=j --rw=read --bs=512 --size={size}")).expect(size);
        assert_eq!(read.jobs[0].options.size, Some(Extent::Bytes(bytes)), "{size}");
        assert!(read.warnings.iter().any(|said| said.contains("fio reads")), "{size}: {:?}", read.warnings);
    }
    for size in ["1.33k", "1.5", "1.k", ".5k", "1.5.5k"] {
        assert!(arguments(&format!("--name=j --rw=read --size={size}")).is_err(), "{size}");
    }
}

/// fio takes a line's last character for the bracket.
#[test]
fn sections_are_named_as_fio_names_them() {
    for (header, name) in [("[job]", "job"), ("[job]x", "job]"), ("[job 1", "job "), ("[a b] ; c", "a b")] {
        let text = format!("{header}\nioengine=null\nrw=read\nsize=4k\n");
        let read = file(&text).expect(header);
        assert_eq!(read.jobs[0].name.trim(), name.trim(), "{header}");
    }
    assert!(file("[j\nrw=read\n").is_err() && file("[]\nrw=read\n").is_err());
}

/// Options that say how, not what: accepted, and what is done instead is said.
#[test]
fn options_of_manner_are_accepted_with_a_word() {
    for option in [
        "lockfile=exclusive",
        "write_hint=short",
        "log_compression=64k",
        "ioscheduler=none",
        "unit_base=8",
        "per_job_logs=0/1",
    ] {
        let line = format!("--rw=read --size=4k --{option}");
        assert!(option.starts_with("ioscheduler") || fio_parses(&line), "{option}");
        let read = arguments(&format!("--name=j --ioengine=null {line}")).expect(option);
        let name = option.split('=').next().unwrap_or(option);
        assert!(read.warnings.iter().any(|said| said.contains(name)), "{option}: {:?}", read.warnings);
    }
    for engine in ["aio", "linuxaio"] {
        let read = arguments(&format!("--name=j --rw=read --size=4k --ioengine={engine}")).expect(engine);
        assert_eq!(read.jobs[0].options.ioengine.0, "libaio");
    }
}

/// Where fio 3.33 does something else than its manual says, and pagelab what that says: said, and only there.
#[test]
fn what_is_done_otherwise_than_fio_does_it_is_said() {
    let verifies = "--rw=randwrite --verify=crc32c --bs=1k,4k";
    for (line, option, warns) in [
        ("--rw=randread --random_generator=lfsr --random_distribution=zipf:1.2", "random_generator", true),
        ("--rw=randread --random_generator=lfsr", "random_generator", false),
        (&format!("{verifies} --percentage_random=50"), "verify", true),
        (&format!("{verifies} --percentage_random=99"), "verify", true),
        (&format!("{verifies} --percentage_random=100"), "verify", false),
        (&format!("{verifies} --percentage_random=50 --norandommap"), "verify", false),
        ("--rw=randread --percentage_random=50", "verify", false),
    ] {
        let words: Vec<String> =
            format!("--name=j --ioengine=null --size=1m {line}").split(' ').map(str::to_owned).collect();
        let warnings = parse_args(&words).expect(line).warnings;
        let otherwise = warnings.iter().any(|said| said.contains(option) && said.contains("fio "));
        assert_eq!(otherwise, warns, "{line}: {warnings:?}");
    }
}

#[test]
fn the_first_job_that_writes_is_found() {
    let first = |modes: &[&str]| {
        let jobs: Vec<String> = modes.iter().enumerate().map(|(at, mode)| format!("[j{at}]\nrw={mode}\n")).collect();
        let workload = file(&format!("[global]\nioengine=null\nsize=4k\n{}", jobs.concat())).expect("valid");
        workload.first_writer().map(|job| job.name.clone())
    };
    assert_eq!(first(&["read", "randrw", "write"]).as_deref(), Some("j1"));
    assert_eq!(first(&["trim"]).as_deref(), Some("j0"), "a trim is no read");
    assert_eq!(first(&["read", "randread", "write\nverify_only=1\nverify=crc32c"]), None);
}

/// Shares that are not 100 together: the one that stands last counts.
#[test]
fn the_latter_of_two_shares_counts() {
    for (mix, warns) in [
        ("--rwmixread=70 --rwmixwrite=100", true),
        ("--rwmixwrite=20 --rwmixread=0", true),
        ("--rwmixread=0 --rwmixwrite=0", true),
        ("--rwmixread=100 --rwmixwrite=0", false),
    ] {
        let line = format!("--rw=randrw --bs=4k --size=64k {mix}");
        let told = fio(&line)["jobs"][0]["read"]["total_ios"].as_u64().map(|reads| reads * 100 / 16);
        let workload = arguments(&format!("--name=j --ioengine=null {line}")).expect(mix);
        assert_eq!(told, Some(u64::from(workload.jobs[0].options.read_percent())), "{mix}");
        let warned = workload.warnings.iter().any(|warning| warning.contains("overrides"));
        assert_eq!(warned, warns, "{mix}: {:?}", workload.warnings);
    }
    // A job that has another mix than [global] is no contradiction.
    let workload = file("[global]\nsize=1m\nrw=randrw\nrwmixread=70\n[a]\nrwmixwrite=20\n").expect("valid");
    assert_eq!((workload.jobs[0].options.read_percent(), workload.warnings), (80, Vec::new()));
}

#[test]
fn only_parentheses_calculate_and_a_warning_tells_what_is_passed_over() {
    for value in ["1m+1m", "2m*2", "1m/4k", "8k,4k", "8k/4k"] {
        let line = format!("--rw=write --bs={value} --size=64m --number_ios=1");
        let told = fio(&line)["jobs"][0]["write"]["io_bytes"].as_u64();
        let workload = arguments(&format!("--name=j --ioengine=null {line}")).expect(value);
        assert_eq!(Some(workload.jobs[0].options.bs.write.0), told, "{value}");
        let warned = workload.warnings.iter().any(|warning| warning.contains("passed over"));
        assert_eq!(warned, !value.contains(','), "{value}: {:?}", workload.warnings);
    }
    let workload = file("[a]\nioengine=null\nsize=1m\nruntime=30*2\n").expect("valid");
    assert_eq!(workload.jobs[0].options.runtime.0, 30_000_000_000);
    let told =
        "job.fio:4: runtime=30*2: '*2' is passed over, as in fio, which calculates in parentheses only: runtime=(30*2)";
    assert!(workload.warnings.iter().any(|warning| warning.ends_with(told)), "{:?}", workload.warnings);
}

/// Debian builds fio without its grammar of expressions: the truth is the grammar in fio's `exp/expression-parser.y`.
#[test]
fn every_time_of_a_job_is_calculated_with_its_unit_once() {
    let words = "--name=j --ioengine=null --size=1m --time_based --runtime=(2*1) --ramp_time=(4/2) --startdelay=(1+1) \
                 --thinktime=(100*2) --thinktime_iotime=(2*3) --max_latency=(1ms*3) --ss_dur=(2*2) --latency_window=(5*2)";
    let o = arguments(words).expect("valid").jobs[0].options.clone();
    let second = 1_000_000_000;
    assert_eq!([o.runtime.0, o.ramp_time.0, o.startdelay.low_ns], [2 * second; 3]);
    assert_eq!((o.thinktime.0, o.thinktime_iotime.0), (200_000, 6 * second));
    let signed = arguments("--name=j --ioengine=null --size=(4100+(-4.0))").expect("valid").jobs[0].options.size;
    assert_eq!(signed, Some(Extent::Bytes(4096)), "a decimal below 0 is taken from 0");
    assert_eq!((o.max_latency.read.0, o.steadystate_duration.0, o.latency_window.0), (3_000_000, 4 * second, 10_000));
}

#[test]
fn file_names_add_up() {
    let names = |text: &str| file(text).expect("valid").jobs[0].options.filename.clone().0;
    assert_eq!(names("[a]\nsize=3m\nfilename=x\nfilename=y\nfilename=z:w\n").as_deref(), Some("x:y:z:w"));
    assert_eq!(names("[global]\nfilename=x\n[a]\nsize=3m\nfilename=y\n").as_deref(), Some("x:y"));
    let both = file("[global]\nfilename=x\n[a]\nsize=3m\nfilename=y\n[b]\nsize=3m\n").expect("valid");
    assert_eq!(both.jobs[1].options.filename.as_deref(), Some("x"), "what a job adds is its own");
    let line = arguments("--name=j --size=1m --filename=x --rw=read --filename=y").expect("valid");
    assert_eq!(line.jobs[0].options.filename.as_deref(), Some("x:y"));
}

#[test]
fn options_are_reported_by_fios_own_names() {
    let output = Command::new("fio").arg("--cmdhelp=all").output().expect("fio is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).filter(|name| !name.is_empty());
    let mut aliases = Vec::new();
    for name in names {
        let output = Command::new("fio").arg(format!("--cmdhelp={name}")).output().expect("fio is installed");
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(reported_name(name), name, "fio's own name");
        let alias = help.lines().find_map(|line| line.trim().strip_prefix("alias: "));
        aliases.extend(alias.map(|alias| (alias.trim().to_owned(), name.to_owned())));
    }
    assert!(aliases.len() >= 20, "{aliases:?}");
    for (alias, name) in aliases {
        assert_eq!(reported_name(&alias), name);
    }
    // And no option has a name that fio gives to another.
    for def in OPTIONS.iter().filter(|def| !def.extension) {
        assert_eq!(reported_name(def.name), def.fio_name);
    }
}

/// What public job files use, each accepted by fio, with a word where something else is done than was asked for.
#[test]
fn what_public_job_files_use_is_accepted() {
    for (words, warning) in [
        ("--clocksource=gettimeofday", "clock_gettime(CLOCK_MONOTONIC) is read instead"),
        ("--verifysort=1", "deprecated"),
        ("--verifysort_nr=16", "deprecated"),
        ("--flow_watermark=3", "deprecated"),
        ("--bssplit=4k/33:8k/33:16k/33", "99% together"),
        ("--rw=rw --bssplit=4k/50:8k/50,4k/33:8k/66", "99% together"),
        ("--atomic=1", "direct=1 is set"),
        ("--bwavgtime=1000 --iopsavgtime=1000", ""),
        ("--log_unix_epoch=1 --log_max_value=1", ""),
        ("--unified_rw_reporting=1", ""),
        ("--unified_rw_reporting=both", ""),
        ("--exec_prerun=true --exec_postrun=true", ""),
        ("--serialize_overlap=1", ""),
        ("--sync_file_range=wait_before,write:8", ""),
        ("--sync_file_range=write", ""),
        ("--time_based=10 --runtime=1", ""),
        ("--thread=2 --group_reporting=3", ""),
    ] {
        assert!(fio_parses(&format!("--size=1m {words}")), "fio: {words}");
        let workload = arguments(&format!("--name=j --size=1m --filename=f {words}"));
        let workload = workload.unwrap_or_else(|error| panic!("{words}: {error}"));
        let told = workload.warnings.iter().any(|told| told.contains(warning));
        assert!(told || warning.is_empty(), "{words}: {:?}", workload.warnings);
        assert_eq!(warning.is_empty(), workload.warnings.is_empty(), "{words}: {:?}", workload.warnings);
    }
    for engine in ["posixaio", "falloc", "splice", "filecreate", "filestat", "filedelete", "e4defrag"] {
        let donor = if engine == "e4defrag" { " --donorname=d" } else { "" };
        assert!(fio_parses(&format!("--size=1m --ioengine={engine}{donor}")), "fio: {engine}");
        arguments(&format!("--name=j --size=1m --ioengine={engine}{donor}")).expect(engine);
    }
    let size =
        |value: &str| arguments(&format!("--name=j --filename=f --size={value}")).expect(value).jobs[0].options.size;
    assert_eq!((size("0"), size("0%"), size("100%%")), (None, None, Some(Extent::Percent(100))));
}

/// fio draws the sizes of a split from the least share up: what lacks to 100 goes to the last.
#[test]
fn shares_that_are_not_whole_are_drawn_as_fio_draws_them() {
    for split in ["4k/33:8k/33:16k/33", "4k/60:8k/60", "4k/10:8k/10", "1k/20:4k/20:16k/30"] {
        let told = fio(&format!("--rw=randread --norandommap --size=400m --number_ios=20000 --bssplit={split}"));
        let reads = &told["jobs"][0]["read"];
        let mean = reads["io_bytes"].as_f64().expect("bytes") / reads["total_ios"].as_f64().expect("operations");
        let workload =
            arguments(&format!("--name=j --ioengine=null --rw=randread --size=1m --bssplit={split}")).expect(split);
        let lengths = workload.jobs[0].options.lengths(Direction::Read);
        let ours: f64 = lengths.split.iter().map(|(bytes, share)| f64::from(*bytes) * f64::from(*share) / 100.0).sum();
        assert!((ours / mean - 1.0).abs() < 0.03, "{split}: mean of fio {mean}, of pagelab {ours}");
    }
}
