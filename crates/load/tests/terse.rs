//! The terse layout compared with fio's, field by field: programs that read it count fields.

use crate::common;

use std::process::Command;

/// The fields of the first line that has any.
fn fields(text: &str) -> Vec<Vec<String>> {
    let line = |line: &str| line.split(';').map(str::to_owned).collect::<Vec<_>>();
    let is_terse = |text: &&str| ["2;", "3;", "4;", "5;"].iter().any(|begin| text.starts_with(begin));
    text.lines().filter(is_terse).map(line).collect()
}

/// A field without its figures: whole number, number with its count of decimals, with or without a per cent sign.
fn shape(field: &str) -> String {
    let (label, value) = field.split_once("%=").map_or(("", field), |(label, value)| (label, value));
    let (number, percent) = value.strip_suffix('%').map_or((value, ""), |number| (number, "%"));
    let form = match number.split_once('.') {
        Some((whole, decimals)) if whole.parse::<u64>().is_ok() => format!("#.{}", decimals.len()),
        None if number.parse::<u64>().is_ok() => "#".to_owned(),
        _ => number.to_owned(),
    };
    format!("{label}:{form}{percent}")
}

/// A field as a number: a percentile's value, a share without its sign.
fn number(field: &str) -> f64 {
    let (_, value) = field.split_once("%=").unwrap_or(("", field));
    value.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("{field} is no number"))
}

/// Where the fields of a line stand, by the terse output of fio's HOWTO.
struct Layout {
    first_direction: usize,
    directions: usize,
    /// Fields of one direction.
    each: usize,
}

impl Layout {
    fn of(line: &[String]) -> Self {
        match line[0].as_str() {
            "2" => Self { first_direction: 4, directions: 3, each: 41 },
            "3" => Self { first_direction: 5, directions: 2, each: 41 },
            "4" => Self { first_direction: 5, directions: 3, each: 41 },
            "5" => Self { first_direction: 5, directions: 3, each: 47 },
            other => panic!("version {other}"),
        }
    }

    fn direction<'a>(&self, line: &'a [String], at: usize) -> &'a [String] {
        let from = self.first_direction + at * self.each;
        &line[from..from + self.each]
    }

    /// The seven shares of depths, which follow times of the processor, switches of context and faults.
    fn depths<'a>(&self, line: &'a [String]) -> &'a [String] {
        let from = self.first_direction + self.directions * self.each + 5;
        &line[from..from + 7]
    }

    /// The shares of latencies, microseconds and milliseconds.
    fn classes<'a>(&self, line: &'a [String]) -> &'a [String] {
        let from = self.first_direction + self.directions * self.each + 12;
        &line[from..from + 22]
    }
}

/// What a job of these tests says of its blocks, and how many operations of one line are in flight at once.
fn block_kib_and_depth(job: &str) -> (f64, f64) {
    let block_kib = if job.contains("--bs=16k") { 16.0 } else { 4.0 };
    let depth = if job.contains("--iodepth=4") { 4.0 } else { 1.0 };
    (block_kib, if job.contains("--group_reporting") { 2.0 * depth } else { depth })
}

/// What holds of the figures of one direction whatever the clock said: rates are amounts by time, a mean lies between the
/// least and the greatest, percentiles rise, and all latencies together fit into the time.
#[track_caller]
fn assert_consistent(fields: &[String], job: &str) {
    let numbers: Vec<f64> = fields.iter().map(|field| number(field)).collect();
    let [kib, kib_per_second, iops, ms] = numbers[..4] else { panic!("{fields:?}") };
    let (block_kib, depth) = block_kib_and_depth(job);
    let operations = kib / block_kib;
    if ms > 0.0 {
        assert!((kib_per_second - kib * 1000.0 / ms).abs() <= 2.0, "{job}: KiB/s: {fields:?}");
        assert!((iops - operations * 1000.0 / ms).abs() <= 2.0, "{job}: operations per second: {fields:?}");
    }
    // Submission, completion, both: least and greatest are whole microseconds, the mean is not.
    for at in [4, 8, 32] {
        let [least, greatest, mean, deviation] = numbers[at..at + 4] else { panic!("{fields:?}") };
        assert!(least <= mean + 0.001 && mean <= greatest + 1.0, "{job}: mean at {at}: {fields:?}");
        assert!(deviation <= greatest - least + 1.0, "{job}: deviation at {at}: {fields:?}");
        assert!(mean * operations <= (ms + 2.0) * 1000.0 * depth, "{job}: sum of latencies at {at}: {fields:?}");
    }
    // Unused percentiles are `0%=0`. The greatest class may be named by its upper end.
    let used = fields[12..32].iter().zip(&numbers[12..32]).filter(|(field, _)| !field.starts_with("0%="));
    let percentiles: Vec<f64> = used.map(|(_, value)| *value).collect();
    assert!(percentiles.is_sorted(), "{job}: percentiles: {fields:?}");
    let highest = percentiles.last().copied().unwrap_or(0.0);
    assert!(highest <= numbers[9].max(numbers[33]) * 1.05 + 1.0, "{job}: highest percentile: {fields:?}");
    let [least, greatest, share, mean] = numbers[36..40] else { panic!("{fields:?}") };
    assert!(least <= mean + 1.0 && mean <= greatest + 1.0, "{job}: bandwidth: {fields:?}");
    assert!((0.0..=100.0).contains(&share), "{job}: share of the group: {fields:?}");
}

/// Holds the figures of a line to each other, and those that the clock has no part in to fio's.
#[track_caller]
fn assert_figures(ours: &[String], theirs: &[String], job: &str) {
    let layout = Layout::of(ours);
    for at in 0..layout.directions {
        let [our, their] = [ours, theirs].map(|line| layout.direction(line, at));
        // What holds of ours has to hold of fio's, or it is no identity of these fields.
        assert_consistent(their, job);
        assert_consistent(our, job);
        // Where fio measured a latency, there is one. Its null engine takes no time that would be one, and of mixed jobs one
        // direction may not have been drawn.
        let is_measured = |fields: &[String], at: usize| number(&fields[at]) > 0.0;
        if job.contains("=null") || !is_measured(our, 0) || !is_measured(their, 0) {
            continue;
        }
        for greatest in [9, 33] {
            let both = [our, their].map(|fields| is_measured(fields, greatest));
            assert_eq!(both[0], both[1], "{job}: field {greatest}: {our:?}, fio has {their:?}");
        }
    }
    if !job.contains("--iodepth") {
        assert_eq!(layout.depths(ours), layout.depths(theirs), "{job}: depths");
    }
    for line in [theirs, ours] {
        for shares in [layout.depths(line), layout.classes(line)] {
            let sum: f64 = shares.iter().map(|share| number(share)).sum();
            assert!((sum - 100.0).abs() <= 0.5, "{job}: shares of {sum} %: {shares:?}");
        }
    }
}

#[test]
fn fields_are_those_of_fio() {
    for job in [
        "--rw=write --bs=4k",
        "--rw=randrw --bs=4k --numjobs=2 --ioengine=libaio --iodepth=4",
        "--rw=rw --bs=16k --numjobs=2 --group_reporting --description=words",
        "--rw=read --percentile_list=50:99.9 --lat_percentiles=1 --continue_on_error=all",
        "--rw=read --clat_percentiles=0",
        "--rw=read --ioengine=null",
        "--rw=rw --terse-version=4 --numjobs=2",
        "--rw=trimwrite --ioengine=null --terse-version=4 --description=words",
        "--rw=randrw --terse-version=5 --continue_on_error=all",
        "--rw=read --ioengine=null --time_based --runtime=1200ms --rate_iops=500 --terse-version=5",
        "--rw=write --terse-version=2 --description=words",
    ] {
        let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
        let run = |command: &mut Command, place: &tempfile::TempDir, format: &str| {
            let words = ["--name=job one", "--size=64k", format];
            let output = command.current_dir(place.path()).args(words).args(job.split(' ')).output();
            let output = output.expect("fio is installed (apt-get install fio); `make test` does it");
            assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
            fields(&String::from_utf8_lossy(&output.stdout))
        };
        // fio reads its own options anywhere.
        let theirs = run(&mut common::fio_program(), &places[0], "--minimal");
        let ours = run(&mut common::pagelab(), &places[1], "--output-format=terse");
        assert_eq!(ours.len(), theirs.len(), "lines of {job}");
        assert!(!ours.is_empty());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.len(), theirs.len(), "{job}: fields\n{ours:?}\n{theirs:?}");
            for (at, (our, their)) in ours.iter().zip(theirs).enumerate() {
                assert_eq!(shape(our), shape(their), "{job}: field {}: {our}, fio has {their}", at + 1);
            }
            assert_figures(ours, theirs, job);
            // Version of the layout, job, group, error, KiB read and KiB written; of mixed jobs what is read is drawn.
            let exact: &[usize] = match job {
                job if job.contains("version=2") => &[0, 1, 2, 3],
                job if job.contains("=rand") || job.contains("=rw") => &[0, 1, 2, 3, 4],
                job if job.contains("version=5") => &[0, 1, 2, 3, 4],
                _ => &[0, 1, 2, 3, 4, 5, 46],
            };
            for at in exact {
                assert_eq!(ours[*at], theirs[*at], "{job}: field {}", at + 1);
            }
        }
    }
}
