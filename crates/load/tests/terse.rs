//! The terse layout compared with fio's, field by field: programs that read it count fields.

use crate::common;

use std::process::Command;

/// The fields of the first line that has any.
fn fields(text: &str) -> Vec<Vec<String>> {
    let line = |line: &str| line.split(';').map(str::to_owned).collect::<Vec<_>>();
    text.lines().filter(|text| text.starts_with("3;")).map(line).collect()
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
    ] {
        let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
        let run = |command: &mut Command, place: &tempfile::TempDir, format: &str| {
            let words = ["--name=job one", "--size=64k", format];
            let output = command.current_dir(place.path()).args(words).args(job.split(' ')).output();
            let output = output.expect("fio is installed (apt-get install fio); `make test` does it");
            assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
            fields(&String::from_utf8_lossy(&output.stdout))
        };
        let theirs = run(&mut common::fio_program(), &places[0], "--minimal");
        let ours = run(&mut common::pagelab(), &places[1], "--output-format=terse");
        assert_eq!(ours.len(), theirs.len(), "lines of {job}");
        assert!(!ours.is_empty());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.len(), theirs.len(), "{job}: fields\n{ours:?}\n{theirs:?}");
            for (at, (our, their)) in ours.iter().zip(theirs).enumerate() {
                // The second is the version.
                assert!(at == 1 || shape(our) == shape(their), "{job}: field {}: {our}, fio has {their}", at + 1);
            }
            // Version of the layout, job, group, error, KiB read and KiB written; of mixed jobs what is read is drawn.
            let exact: &[usize] =
                if job.contains("=rand") || job.contains("=rw") { &[0, 2, 3, 4] } else { &[0, 2, 3, 4, 5, 46] };
            for at in exact {
                assert_eq!(ours[*at], theirs[*at], "{job}: field {}", at + 1);
            }
        }
    }
}
