//! When jobs start and end, how fast they may go, what becomes of errors: counts against fio, order by the report's windows.
//!
//! No test asks how long something took; some ask that it took no less than the options say.

use crate::common::{fio, fio_program, refused, run, totals, try_run};

/// The words of a job and a directory of its own.
fn words(place: &tempfile::TempDir, job: &str) -> Vec<String> {
    let mut words = vec![format!("--directory={}", place.path().display())];
    words.extend(job.split_whitespace().map(str::to_owned));
    words
}

#[test]
fn limited_jobs_do_the_same_work() {
    for job in [
        "--name=j --rw=write --bs=4k --size=256k --rate=2m",
        "--name=j --rw=read --bs=4k --size=256k --rate=10m,1m",
        "--name=j --rw=write --bs=4k --size=128k --rate_iops=400 --rate_process=poisson",
        "--name=j --rw=write --bs=4k --size=128k --rate=1m --rate_min=1k --thinktime=1ms --rate_ignore_thinktime=1",
        "--name=j --rw=write --bs=4k --size=64k --thinktime=500 --thinktime_blocks=4 --thinktime_blocks_type=issue",
        "--name=j --rw=write --bs=4k --size=64k --thinktime=500 --thinktime_spin=200 --thinktime_iotime=1ms",
        "--name=j --rw=write --bs=4k --size=64k --startdelay=10ms-30ms --end_fsync=1",
        "--name=j --rw=write --bs=4k --size=64k --ramp_time=0 --runtime=30 --disable_lat=1 --disable_clat=1 --disable_slat=1",
        "--name=j --rw=write --bs=4k --size=64k --disable_bw_measurement=1 --gtod_reduce=1 --lat_percentiles=1",
        "--name=j --rw=write --bs=4k --size=64k --cpus_allowed=0 --nice=1 --prioclass=2 --prio=7",
        "--name=j --rw=write --bs=4k --size=64k --cpus_allowed=0-1 --cpus_allowed_policy=split --numjobs=2 --cpumask=3",
        "--name=j --rw=write --bs=4k --size=64k --numa_cpu_nodes=0 --numa_mem_policy=bind:0 --description=x --buffered=1 --timeout=60",
        "--name=j --rw=write --bs=4k --size=64k --lockmem=64k --clat_percentiles=0 --percentile_list=50:99.9",
        "--name=j --rw=write --bs=4k --size=64k --iodepth=8 --iodepth_batch=4 --iodepth_batch_complete=2 --iodepth_low=2",
        "--name=a --rw=write --bs=4k --size=64k --name=b --wait_for=a --rw=write --bs=4k --size=64k",
        "--name=a --rw=write --bs=4k --size=64k --name=b --stonewall --new_group=1 --rw=write --bs=4k --size=32k",
        "--name=j --rw=write --bs=4k --size=64k --continue_on_error=all --error_dump=0 --ignore_error=EIO,ENOSPC",
        "--name=j --rw=randread --bs=4k --size=64k --sync=1 --direct=0 --invalidate=0 --group_reporting=1 --numjobs=2 --thread=1",
    ] {
        let (theirs, ours) = (tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir"));
        let expected = fio(theirs.path(), &job.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(totals(&run(&words(&ours, job))), expected, "{job}");
    }
}

#[test]
fn rates_are_not_exceeded() {
    let place = tempfile::tempdir().expect("tempdir");
    // The last of 50 operations of 4 KiB is due after 49 of them at 400 KiB/s: 490 ms.
    for limit in ["--rate=400k", "--rate_iops=100", "--bsrange=4k-4k --rate=400k --nrfiles=2"] {
        let report = run(&words(&place, &format!("--name=j --ioengine=null --rw=read --bs=4k --size=200k {limit}")));
        assert_eq!(report.operations, 50);
        assert!(report.window.expect("measured").duration_ns() >= 490_000_000, "{limit}");
    }
    // Directions have rates of their own: 25 to 50 writes at 100 per second, whatever the reads do.
    let report = run(&words(
        &place,
        "--name=j --ioengine=null --rw=rw --bs=4k --size=400k --rate_iops=1000,100 --number_ios=60",
    ));
    let writes = report.workers[0].write.operations;
    assert!(report.workers[0].read.operations > writes, "while writes wait, reads go on");
    assert!(report.window.expect("measured").duration_ns() >= writes.saturating_sub(2) * 10_000_000);
}

#[test]
fn who_is_too_slow_fails() {
    let place = tempfile::tempdir().expect("tempdir");
    let job =
        "--name=j --ioengine=null --rw=read --bs=4k --size=1g --rate_iops=20 --rate_iops_min=20 --thinktime=200ms";
    let output = try_run(&words(&place, job));
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("rate_iops_min=20 was not met"), "{text}");
}

#[test]
fn waiting_jobs_start_after_those_they_wait_for() {
    let place = tempfile::tempdir().expect("tempdir");
    let job = "--ioengine=null --size=4m --name=a --numjobs=2 --thinktime=20us --name=b --name=c --wait_for=a";
    for threads in ["", "--thread=1 "] {
        let report = run(&words(&place, &format!("{threads}{job}")));
        let window = |name: &str| {
            report.workers.iter().filter(|w| w.name == name).map(|w| w.window.expect("measured")).collect::<Vec<_>>()
        };
        let last = window("a").iter().map(|w| w.end_ns).max().expect("two");
        assert!(window("c")[0].start_ns >= last);
        assert!(window("b")[0].start_ns < last, "who waits for nobody does not wait");
    }
    assert!(refused(&words(&place, "--name=a --size=4k --name=b --wait_for=x --size=4k"), 2).contains("wait_for=x"));
}

#[test]
fn one_end_is_everybodys_end() {
    let place = tempfile::tempdir().expect("tempdir");
    let endless = "--ioengine=null --bs=4k --size=1m --time_based --runtime=1000";
    let ends = |options: &str| run(&words(&place, options));
    // The short job ends, and with it the endless one of its group; not so short that the other has not begun.
    let report =
        ends(&format!("--name=short --ioengine=null --size=64k --thinktime=20ms --exitall=1 --name=long {endless}"));
    assert!(report.workers.iter().all(|worker| worker.failure.is_none() && worker.window.is_some()));
    // Behind the next wall nobody starts if all are to end.
    let report = ends(&format!(
        "--name=short --ioengine=null --size=64k --exitall=1 --exit_what=all --name=long {endless} --name=late --stonewall --ioengine=null --size=64k"
    ));
    assert!(report.workers[2].window.is_none());
    let report = ends(&format!(
        "--name=short --ioengine=null --size=64k --exitall=1 --exit_what=stonewall --name=long {endless} --new_group --name=late --stonewall --ioengine=null --size=64k"
    ));
    assert_eq!(report.workers[2].operations(), 16, "jobs behind the wall go on");
}

/// An operation that fails: the job's end, or one error more; and the others' end if that is asked for.
#[test]
fn errors_end_jobs_or_are_counted() {
    let place = tempfile::tempdir().expect("tempdir");
    // Direct writes of 100 bytes fail with EINVAL on file systems that have direct I/O at all.
    let broken = "--rw=write --bs=100 --size=1000 --direct=1 --filename=f";
    let output = try_run(&words(&place, &format!("--name=j {broken}")));
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).contains("write of 100 bytes at offset 0"));
    for going_on in [
        "--continue_on_error=all --ignore_error=,EINVAL",
        "--continue_on_error=write --ignore_error=,EIO:EINVAL",
        "--ignore_error=,EINVAL",
        "--ignore_error=0,22",
    ] {
        if going_on.contains("=0,") {
            assert!(refused(&words(&place, &format!("--name=j {broken} {going_on}")), 2).contains("no error"));
            continue;
        }
        let report = run(&words(&place, &format!("--name=j {broken} {going_on} --error_dump=1")));
        let worker = &report.workers[0];
        assert_eq!(
            (worker.errors(), worker.first_error, worker.write.operations),
            (10, Some(libc::EINVAL), 0),
            "{going_on}"
        );
    }
    // Errors of writes are not those of reads, and without a list only errors of the medium are gone on after, as in fio.
    for ends in ["--continue_on_error=read", "--continue_on_error=all", "--continue_on_error=write"] {
        let output = try_run(&words(&place, &format!("--name=j {broken} {ends}")));
        assert_eq!(output.status.code(), Some(3), "{ends}");
    }
    let output = try_run(&words(
        &place,
        &format!(
            "--name=j {broken} --exitall_on_error=1 --name=long --ioengine=null --size=1m --time_based --runtime=1000"
        ),
    ));
    assert_eq!(output.status.code(), Some(3), "and the endless job is over, too");
}

/// The logs that fio's tools read: the same files, lines, columns and units.
#[test]
fn logs_are_fios() {
    let job =
        "--name=j --ioengine=null --rw=randrw --bs=4k --size=1m --write_lat_log=x --write_bw_log --write_iops_log=1";
    for (more, columns) in [("", 5), ("--log_offset=1", 6)] {
        let logs = [fio_program(), crate::common::pagelab()].map(|mut program| {
            let place = tempfile::tempdir().expect("tempdir");
            let words = job.replace("--write_bw_log ", "--write_bw_log=y ").replace("_iops_log=1", "_iops_log=z");
            let output = program
                .current_dir(place.path())
                .args(words.split(' '))
                .args(more.split_whitespace())
                .output()
                .expect("runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let mut logs = std::collections::BTreeMap::new();
            for entry in std::fs::read_dir(place.path()).expect("directory") {
                let entry = entry.expect("entry");
                let lines = std::fs::read_to_string(entry.path()).expect("text");
                let rows: Vec<Vec<u64>> = lines
                    .lines()
                    .map(|line| line.split(", ").map(|word| word.parse().expect("a number")).collect())
                    .collect();
                logs.insert(entry.file_name().to_string_lossy().into_owned(), rows);
            }
            logs
        });
        let shape = |logs: &std::collections::BTreeMap<String, Vec<Vec<u64>>>| {
            logs.iter().map(|(name, rows)| (name.clone(), rows.len())).collect::<Vec<_>>()
        };
        assert_eq!(shape(&logs[1]), shape(&logs[0]));
        for (name, rows) in &logs[1] {
            let sized =
                rows.iter().all(|row| row.len() == columns && row[3] == 4096 && row[2] <= 1 && row[columns - 1] == 0);
            assert!(sized, "{name}: {rows:?}");
        }
        // An operation of the log of bandwidth is its bytes over its completion latency; 0 over none, when the clock stood still.
        for logs in &logs {
            for (bw, clat) in logs["y_bw.1.log"].iter().zip(&logs["x_clat.1.log"]) {
                assert_eq!(bw[1], (4096_u64 * 1_000_000).checked_div(clat[1]).unwrap_or(0));
            }
            assert!(logs["z_iops.1.log"].iter().all(|row| row[1] == 1));
        }
    }
    // Means: as many operations as were done, over stretches of at least the length asked for.
    let place = tempfile::tempdir().expect("tempdir");
    let prefix = place.path().join("m").display().to_string();
    let report = run(&words(
        &place,
        &format!(
            "--name=j --ioengine=null --rw=read --bs=4k --size=4m --rate_iops=2000 --write_iops_log={prefix} --log_avg_msec=100"
        ),
    ));
    let text = std::fs::read_to_string(format!("{prefix}_iops.1.log")).expect("made");
    let rows: Vec<Vec<u64>> =
        text.lines().map(|line| line.split(", ").map(|word| word.parse().expect("a number")).collect()).collect();
    let mut before = 0;
    let mut operations = 0.0;
    for row in &rows {
        operations += row[1] as f64 * (row[0] - before) as f64 / 1000.0;
        before = row[0];
    }
    assert!((operations - report.operations as f64).abs() < 0.05 * report.operations as f64, "{operations}: {rows:?}");
    assert!(rows.windows(2).rev().skip(1).all(|pair| pair[1][0] - pair[0][0] >= 99), "{rows:?}");
}
