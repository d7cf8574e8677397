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
