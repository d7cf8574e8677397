//! What public job files use beyond the common: each job under fio and under pagelab, with the same figures and the same files.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{document, fio_program, pagelab, same_operations};

/// Runs a job in `place`; gives its first job of the JSON and the words on standard error.
fn run(program: &str, place: &Path, words: &str) -> (serde_json::Value, String) {
    let mut command = if program == "fio" { fio_program() } else { pagelab() };
    let output = command
        .current_dir(place)
        .arg("--output-format=json")
        .args(words.split_whitespace())
        .output()
        .expect("fio is installed (apt-get install fio); `make test` does it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {words}: {said}{}", String::from_utf8_lossy(&output.stdout));
    (document(&output)["jobs"][0].clone(), said)
}

/// Names and lengths of the files in a folder, at any depth.
fn files(place: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut folders = vec![place.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("entry");
            if entry.file_type().expect("a type").is_dir() {
                folders.push(entry.path());
                continue;
            }
            let name = entry.path().strip_prefix(place).expect("within").display().to_string();
            found.insert(name, entry.metadata().expect("metadata").len());
        }
    }
    found
}

/// Operations and bytes by direction, which must be those of fio; and the files that are left.
fn same(words: &str) {
    let results = ["fio", "pagelab"].map(|program| {
        let place = tempfile::tempdir().expect("tempdir");
        let (job, _) = run(program, place.path(), words);
        let figures: Vec<u64> = ["read", "write", "trim"]
            .iter()
            .flat_map(|direction| ["total_ios", "io_bytes"].map(|key| job[*direction][key].as_u64().unwrap_or(0)))
            .collect();
        (figures, files(place.path()))
    });
    assert_eq!(results[1], results[0], "{words}");
    assert!(results[0].0.iter().sum::<u64>() > 0, "{words}");
}

#[test]
fn engines_do_the_same_amounts() {
    for words in [
        "--name=j --ioengine=posixaio --rw=randread --size=1m --bs=16k --iodepth=8",
        "--name=j --ioengine=posixaio --rw=write --size=1m --bs=16k --iodepth=4 --nrfiles=4 --fsync=8",
        "--name=j --ioengine=posixaio --rw=randwrite --size=1m --bs=4k --iodepth=64 --numjobs=1 --direct=1",
        "--name=j --ioengine=splice --rw=write --size=1m --bs=256k",
        "--name=j --ioengine=splice --rw=randread --size=1m --bs=16k",
        "--name=j --ioengine=falloc --rw=write --size=1m --bs=64k",
        "--name=j --ioengine=falloc --rw=randtrim --size=1m --bs=64k",
        "--name=j --ioengine=filecreate --rw=read --filesize=4k --bs=4k --nrfiles=20 --openfiles=1",
        "--name=j --ioengine=filecreate --rw=write --size=80k --bs=4k --nrfiles=20 --create_on_open=1 --fallocate=none",
        "--name=j --ioengine=filestat --rw=read --filesize=4k --bs=4k --nrfiles=20 --stat_type=lstat",
        "--name=j --ioengine=filestat --rw=randread --filesize=4k --nrfiles=20 --stat_type=statx --openfiles=1",
        "--name=j --filename=/dev/null --rw=write --size=1m --bs=64k",
        "--name=j --filename=/dev/zero --rw=randread --size=1m --bs=64k",
        "--name=j --filename=/dev/zero --rw=read --size=1m --bs=64k --ioengine=sync",
        "--name=ep/h/host --rw=write --size=1m --bs=64k --numjobs=1",
        "--name=j --filename=new/folder/file --rw=write --size=1m --bs=64k",
        "--name=j --filename=x --filename=y --rw=write --filename=z --size=3m --bs=64k",
        "--filename=x --name=j --filename=y --rw=randread --size=1m --bs=64k",
        "--name=j --rw=write --size=1m --bs=64k --atomic=1",
        "--name=j --rw=randwrite --size=1m --bs=4k --ioengine=libaio --direct=1 --iodepth=16 --serialize_overlap=1 --norandommap",
    ] {
        same(words);
    }
}

#[test]
fn posixaio_writes_what_its_buffers_hold() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--name=j --ioengine=posixaio --rw=randwrite --size=1m --bs=4k --iodepth=16 --verify=crc32c --filename=f";
    let (ours, _) = run("pagelab", place.path(), job);
    assert_eq!((ours["write"]["total_ios"].as_u64(), ours["error"].as_u64()), (Some(256), Some(0)));
    // And fio finds it right.
    let check = "--name=j --ioengine=psync --rw=read --size=1m --bs=4k --verify=crc32c --filename=f";
    assert_eq!(run("fio", place.path(), check).0["error"], 0);
    let splice = job.replace("posixaio", "splice").replace("filename=f", "filename=g");
    assert_eq!(run("pagelab", place.path(), &splice).0["error"], 0);
    assert_eq!(run("fio", place.path(), &check.replace("filename=f", "filename=g")).0["error"], 0);
}

/// Files that were laid out are looked up and removed; those of others never.
#[test]
fn files_are_removed_only_if_they_are_pagelabs() {
    let lay_out = "--name=j --create_only=1 --rw=write --filesize=4k --nrfiles=10";
    let delete = "--name=j --ioengine=filedelete --rw=write --filesize=4k --nrfiles=10 --openfiles=1";
    for program in ["fio", "pagelab"] {
        let place = tempfile::tempdir().expect("tempdir");
        run(program, place.path(), lay_out);
        assert_eq!(files(place.path()).len(), 10);
        let (job, _) = run(program, place.path(), delete);
        assert_eq!((job["write"]["total_ios"].as_u64(), job["write"]["clat_ns"]["N"].as_u64()), (Some(10), Some(10)));
        assert!(files(place.path()).is_empty(), "{program}");
    }
    let place = tempfile::tempdir().expect("tempdir");
    run("fio", place.path(), lay_out);
    let output = pagelab().current_dir(place.path()).args(delete.split(' ')).output().expect("starts");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), files(place.path()).len()), (Some(2), 10), "{words}");
    assert!(words.contains("10 files are refused") && words.contains("--allow-write j.0.9"), "{words}");
    // A file that filecreate made is pagelab's, one that was there is not.
    std::fs::write(place.path().join("k.0.0"), "precious").expect("write");
    run("pagelab", place.path(), "--name=k --ioengine=filecreate --rw=write --filesize=4k --nrfiles=2");
    assert_eq!(std::fs::read_to_string(place.path().join("k.0.0")).expect("there"), "precious");
    let job = "--name=k --ioengine=filedelete --rw=write --filesize=4k --nrfiles=2";
    let output = pagelab().current_dir(place.path()).args(job.split(' ')).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.path().join("k.0.0").exists());
}

#[test]
fn commands_run_before_and_after() {
    for program in ["fio", "pagelab"] {
        let place = tempfile::tempdir().expect("tempdir");
        let mut command = if program == "fio" { fio_program() } else { pagelab() };
        let output = command
            .current_dir(place.path())
            .args(["--output-format=json", "--name=j", "--rw=write", "--size=64k", "--filename=f"])
            .args(["--exec_prerun=echo before", "--exec_postrun=stat -c %s f"])
            .output()
            .expect("starts");
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        let text = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
        assert!(text("j.prerun.txt").starts_with("before"), "{program}: {}", text("j.prerun.txt"));
        let after = text("j.postrun.txt");
        assert!(after.contains("65536"), "{program}: {after}");
    }
    let place = tempfile::tempdir().expect("tempdir");
    let output = pagelab()
        .current_dir(place.path())
        .args(["--output-format=json", "--name=j", "--rw=write", "--size=64k", "--exec_prerun=false"])
        .output()
        .expect("starts");
    assert!(!output.status.success());
    assert_eq!(document(&output)["jobs"][0]["write"]["total_ios"], 0);
}

/// `bs_is_seq_rand`: the one size is that of sequential blocks, the other that of random ones, whichever direction they have.
#[test]
fn buffers_hold_the_longer_of_sequential_and_random_blocks() {
    for words in [
        "--name=j --rw=write --bs=8k,1k --bs_is_seq_rand=1 --size=64k",
        "--name=j --rw=write --bs=1k,8k --bs_is_seq_rand=1 --size=64k",
        "--name=j --rw=randwrite --norandommap --bs=1k,8k --bs_is_seq_rand=1 --size=64k",
    ] {
        same(words);
    }
    // With a map of the blocks that came fio ends before the size.
    for (words, direction, operations) in [
        ("--rw=randread --bs=1k,4k", "read", 16),
        ("--rw=randwrite --bs=16k,4k --ioengine=psync", "write", 16),
        ("--rw=randwrite --bs=1k,4k --ioengine=libaio --iodepth=4", "write", 16),
    ] {
        let place = tempfile::tempdir().expect("tempdir");
        let (job, _) = run("pagelab", place.path(), &format!("--name=j --bs_is_seq_rand=1 --size=64k {words}"));
        let (done, bytes) = (job[direction]["total_ios"].as_u64(), job[direction]["io_bytes"].as_u64());
        assert_eq!((done, bytes), (Some(operations), Some(65536)), "{words}");
    }
}

/// `per_job_logs=0`: workers of one job, and jobs one after the other, write into one log, and each line is whole.
#[test]
fn workers_share_a_log() {
    for (words, lines) in [
        ("--name=j --rw=write --bs=4k --size=64k --numjobs=2", 32),
        ("--rw=write --bs=4k --size=64k --name=j --name=k --stonewall", 32),
        // More lines than a buffer holds.
        ("--name=j --ioengine=null --rw=write --bs=4k --size=64m --numjobs=3 --thread", 3 * 16384),
    ] {
        for program in ["fio", "pagelab"] {
            let place = tempfile::tempdir().expect("tempdir");
            run(program, place.path(), &format!("--per_job_logs=0 --write_bw_log=lg --write_lat_log=lg {words}"));
            let names: Vec<String> = files(place.path()).into_keys().filter(|name| name.starts_with("lg")).collect();
            assert_eq!(names, ["lg_bw.log", "lg_clat.log", "lg_lat.log", "lg_slat.log"], "{program} {words}");
            for name in ["lg_bw.log", "lg_clat.log"] {
                let log = log(place.path(), name);
                assert_eq!(log.len(), lines, "{program} {words}: {name}");
                assert!(log.iter().all(|(_, _, direction)| *direction == 1), "{program} {words}: {name}");
            }
        }
    }
}

/// What another run left in a shared log goes; what another program left stays.
#[test]
fn shared_logs_begin_empty() {
    let place = tempfile::tempdir().expect("tempdir");
    let words = "--name=j --rw=write --bs=4k --size=64k --numjobs=2 --per_job_logs=0 --write_bw_log=lg";
    for _ in 0..2 {
        run("pagelab", place.path(), words);
        assert_eq!(log(place.path(), "lg_bw.log").len(), 32);
    }
    std::fs::remove_file(place.path().join("lg_bw.log")).expect("there");
    std::fs::write(place.path().join("lg_bw.log"), "precious").expect("writes");
    let output = pagelab().current_dir(place.path()).args(words.split(' ')).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(place.path().join("lg_bw.log")).expect("there"), "precious");
}

/// A latency that is not measured has no log.
#[test]
fn latencies_that_are_switched_off_have_no_log() {
    for off in ["", "--disable_lat=1", "--disable_clat=1", "--disable_slat=1"] {
        let words = format!("--name=j --rw=write --bs=4k --size=64k --write_lat_log=lg {off}");
        let names = ["fio", "pagelab"].map(|program| {
            let place = tempfile::tempdir().expect("tempdir");
            run(program, place.path(), &words);
            files(place.path()).into_keys().collect::<Vec<_>>()
        });
        assert_eq!(names[1], names[0], "{off}");
    }
}

/// Calls of a kind, as strace counts them.
fn calls(program: &str, call: &str, words: &str) -> Vec<String> {
    let place = tempfile::tempdir().expect("tempdir");
    let binary = if program == "fio" { "fio" } else { env!("CARGO_BIN_EXE_pagelab-load") };
    let status = std::process::Command::new("strace")
        .current_dir(place.path())
        .args(["-f", "-qq", "-o", "trace", "-e", &format!("trace={call}"), binary, "--output-format=json"])
        .args(words.split_whitespace())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("strace is installed (apt-get install strace)");
    assert!(status.success(), "{program} {words}");
    let text = std::fs::read_to_string(place.path().join("trace")).expect("a trace");
    let of_call = text.lines().filter_map(|line| line.find(&format!("{call}(")).map(|at| &line[at..]));
    // Without the descriptor, which differs.
    of_call.map(|line| line.split_once(", ").map_or(line, |(_, rest)| rest).to_owned()).collect()
}

#[test]
fn ranges_are_written_back_as_by_fio() {
    for words in [
        "--name=j --rw=write --size=256k --bs=4k --sync_file_range=write:8",
        "--name=j --rw=write --size=256k --bs=4k --sync_file_range=wait_before,write:16 --thread",
        "--name=j --rw=write --size=64k --bs=4k --sync_file_range=wait_before,write,wait_after:5 --loops=2",
    ] {
        let (theirs, ours) = (calls("fio", "sync_file_range", words), calls("pagelab", "sync_file_range", words));
        assert_eq!(ours, theirs, "{words}");
        assert!(theirs.len() > 2, "{words}");
    }
}

#[test]
fn one_file_given_in_parts_is_served_in_turn() {
    same_operations("--rw=write --bs=4k --size=64k --filename=a --filename=b:c");
    same_operations("--rw=write --bs=4k --size=64k --ioengine=posixaio --nrfiles=2");
}

/// The lines of a log: (time, value, direction).
fn log(place: &Path, name: &str) -> Vec<(u64, u64, u64)> {
    let text = std::fs::read_to_string(place.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let number = |word: Option<&str>| word.and_then(|word| word.trim().parse().ok()).expect("a number");
    text.lines()
        .map(|line| {
            let mut words = line.split(',');
            (number(words.next()), number(words.next()), number(words.next()))
        })
        .collect()
}

#[test]
fn logs_have_fios_times_and_lengths() {
    let job = "--name=j --rw=randwrite --size=1m --time_based --runtime=2 --rate_iops=200 --bs=4k --filename=f";
    let now =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    for program in ["fio", "pagelab"] {
        let place = tempfile::tempdir().expect("tempdir");
        let before = now();
        run(
            program,
            place.path(),
            &format!(
                "{job} --write_lat_log=l --write_bw_log=l --write_iops_log=l --log_avg_msec=1000 --bwavgtime=500 --iopsavgtime=250 --log_unix_epoch=1"
            ),
        );
        let after = now();
        let [lat, bw, iops] = ["l_lat.1.log", "l_bw.1.log", "l_iops.1.log"].map(|name| log(place.path(), name));
        for (time, _, _) in lat.iter().chain(&bw).chain(&iops) {
            assert!((before..=after).contains(time), "{program}: {time} within {before} to {after}");
        }
        assert!((1..=3).contains(&lat.len()), "{program}: {lat:?}");
        assert!((3..=5).contains(&bw.len()), "{program}: {bw:?}");
        assert!((6..=10).contains(&iops.len()), "{program}: {iops:?}");
    }
    let place = tempfile::tempdir().expect("tempdir");
    let lines = |more: &str| {
        run("pagelab", place.path(), &format!("{job} --write_lat_log=m --log_avg_msec=1000 {more}"));
        log(place.path(), "m_clat.1.log").iter().map(|line| line.1).max().unwrap_or(0)
    };
    let (job_report, _) =
        run("pagelab", place.path(), &format!("{job} --write_lat_log=m --log_avg_msec=1000 --log_max_value=1"));
    let greatest = log(place.path(), "m_clat.1.log").iter().map(|line| line.1).max();
    assert_eq!(greatest, job_report["write"]["clat_ns"]["max"].as_u64());
    assert!(lines("") > 0);
}

#[test]
fn directions_are_reported_together() {
    for (value, keys) in [
        ("mixed", &["mixed"][..]),
        ("1", &["mixed"]),
        ("both", &["read", "write", "trim", "mixed"]),
        ("none", &["read", "write", "trim"]),
    ] {
        let words = format!("--name=j --rw=rw --size=1m --bs=4k --filename=f --unified_rw_reporting={value}");
        let found = ["fio", "pagelab"].map(|program| {
            let place = tempfile::tempdir().expect("tempdir");
            let (job, _) = run(program, place.path(), &words);
            let directions: Vec<&str> =
                ["read", "write", "trim", "mixed"].into_iter().filter(|key| job.get(key).is_some()).collect();
            let mixed = job
                .get("mixed")
                .map(|mixed| (mixed["total_ios"].as_u64(), mixed["io_bytes"].as_u64(), mixed["clat_ns"]["N"].as_u64()));
            (directions.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), mixed)
        });
        assert_eq!(found[1], found[0], "{value}");
        assert_eq!(found[1].0, keys, "{value}");
    }
}

#[test]
fn the_bandwidth_of_all_jobs_goes_into_logs() {
    let job = "--bandwidth-log --name=j --rw=write --size=64m --rate=4m --time_based --runtime=3 --bs=64k --numjobs=2 --eta=always";
    for program in ["fio", "pagelab"] {
        let place = tempfile::tempdir().expect("tempdir");
        // Not as JSON: fio writes a line for each status that it prints.
        let mut command = if program == "fio" { fio_program() } else { pagelab() };
        let done = command.current_dir(place.path()).args(job.split_whitespace()).output().expect("starts");
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
        let lines = log(place.path(), "agg-write_bw.log");
        assert!((3..=8).contains(&lines.len()), "{program}: {lines:?}");
        let middle: Vec<u64> = lines.iter().skip(1).take(lines.len() - 2).map(|line| line.1).collect();
        let mean = middle.iter().sum::<u64>() / middle.len() as u64;
        assert!((6 << 10..=10 << 10).contains(&mean), "{program}: {mean} KiB/s, of two jobs of 4 MiB/s: {lines:?}");
        assert!(lines.iter().all(|line| line.2 == 1), "{program}: {lines:?}");
        assert!(place.path().join("agg-read_bw.log").exists() && place.path().join("agg-trim_bw.log").exists());
    }
}

/// ext4's blocks move to those of the donor, and the file holds what it held.
#[test]
fn blocks_are_moved_and_contents_stay() {
    let place = tempfile::tempdir_in("/var/tmp").expect("tempdir");
    let kind = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(place.path()).output().expect("stat");
    if !String::from_utf8_lossy(&kind.stdout).contains("ext") {
        println!("/var/tmp is no ext4: nothing to move");
        return;
    }
    run("pagelab", place.path(), "--name=w --rw=write --size=1m --bs=64k --verify=crc32c --filename=f --end_fsync=1");
    let before = std::fs::read(place.path().join("f")).expect("there");
    for more in ["--inplace=1", "--inplace=0"] {
        let words = format!(
            "--name=d --ioengine=e4defrag --donorname=f.donor --rw=write --size=1m --filesize=1m --bs=64k --filename=f {more}"
        );
        let (job, _) = run("pagelab", place.path(), &words);
        assert_eq!((job["write"]["total_ios"].as_u64(), job["error"].as_u64()), (Some(16), Some(0)), "{more}");
        assert!(std::fs::read(place.path().join("f")).expect("there") == before, "{more}");
    }
    // Somebody else's file is no donor.
    std::fs::write(place.path().join("precious"), "precious").expect("write");
    let words =
        "--name=d --ioengine=e4defrag --donorname=precious --rw=write --size=1m --bs=64k --filename=f --inplace=1";
    let output = pagelab().current_dir(place.path()).args(words.split(' ')).output().expect("starts");
    assert!(!output.status.success());
    assert_eq!(std::fs::read_to_string(place.path().join("precious")).expect("there"), "precious");
}
