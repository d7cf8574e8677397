//! From text to jobs: inheritance, units, and mistakes that tell where they are.

use pagelab_fiojob::docs;
use pagelab_fiojob::options::OPTIONS;
use pagelab_fiojob::value::Extent;
use pagelab_fiojob::{JobError, Workload, parse_args, parse_files};

fn file(text: &str) -> Result<Workload, JobError> {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("job.fio");
    std::fs::write(&path, text).expect("write");
    parse_files(&[path])
}

fn arguments(line: &str) -> Result<Workload, JobError> {
    parse_args(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn globals_hold_for_the_jobs_below_them() {
    let workload = file("[global]\nbs=8k\nsize=1m\n[a]\nrw=write\n[global]\nbs=16k\n[b]\n[c]\nbs=32k\nname=renamed\n")
        .expect("valid");
    let got: Vec<(&str, u64, Option<Extent>)> =
        workload.jobs.iter().map(|j| (j.name.as_str(), j.options.bs.read.0, j.options.size)).collect();
    let size = Some(Extent::Bytes(1 << 20));
    assert_eq!(got, [("a", 8192, size), ("b", 16384, size), ("renamed", 32768, size)]);
    assert_eq!(workload.jobs[0].given.len(), 1, "inherited options are not the job's own");
    assert_eq!(workload.jobs[2].inherited.len(), 3);
}

#[test]
fn units_follow_kb_base_wherever_it_stands() {
    let workload = file("[a]\nsize=1m\nbs=4k\nkb_base=1000\n").expect("valid");
    assert_eq!(
        (workload.jobs[0].options.size, workload.jobs[0].options.bs.read.0),
        (Some(Extent::Bytes(1_000_000)), 4000)
    );
    let workload = file("[a]\nsize=1m\nbs=4KiB\n").expect("valid");
    assert_eq!(workload.jobs[0].options.bs.read.0, 4000, "as in fio");
    assert!(
        workload.warnings.iter().any(|w| w.contains("job.fio:3") && w.contains("write 4k")),
        "{:?}",
        workload.warnings
    );
}

#[test]
fn the_command_line_makes_the_same_jobs() {
    let from_file = file("[global]\nbs=8k\nsize=1m\n[a]\nrw=write\n[b]\nthread\n").expect("valid");
    for line in [
        "--name=global --bs=8k --size=1m --name=a --rw=write --name=b --thread",
        "--bs 8k --size=1m --name a --rw write --name=b --thread",
    ] {
        let from_line = arguments(line).expect("valid");
        for (a, b) in from_file.jobs.iter().zip(&from_line.jobs) {
            let mut b_options = b.options.clone();
            b_options.name.clone_from(&a.options.name);
            assert_eq!((&a.name, &a.options, a.group), (&b.name, &b_options, b.group));
        }
    }
}

#[test]
fn further_files_wait_for_those_before_them() {
    let directory = tempfile::tempdir().expect("tempdir");
    let paths = ["1.fio", "2.fio"].map(|name| directory.path().join(name));
    std::fs::write(&paths[0], "[global]\nsize=4k\nbs=1k\n[a]\n[b]\n").expect("write");
    std::fs::write(&paths[1], "[c]\nsize=4k\n[d]\nsize=4k\n").expect("write");
    let workload = parse_files(&paths).expect("valid");
    let got: Vec<(bool, u32, u64)> =
        workload.jobs.iter().map(|j| (j.stonewall, j.group, j.options.bs.read.0)).collect();
    assert_eq!(
        got,
        [(false, 0, 1024), (false, 0, 1024), (true, 1, 4096), (false, 1, 4096)],
        "globals end with their file"
    );
}

/// Jobs with one mistake each, the line it stands in (0: none), and what the message says.
const MISTAKES: &[(&str, usize, &[&str])] = &[
    ("[a]\nsize=1m\nrtime=3\n", 3, &["unknown option 'rtime'", "did you mean 'runtime'"]),
    ("[a]\nsize=1m\nverify_policy=fsynced\n", 3, &["option of fio that pagelab does not have", "later than 3.33"]),
    (
        "[a]\nsize=1m\nioengine=rados\n",
        3,
        &[
            "engine of fio",
            "pagelab has: psync, sync, vsync, pvsync, pvsync2, io_uring, libaio, mmap, libpmem, dev-dax, anon, shm, null, posixaio, splice",
        ],
    ),
    ("[a]\nsize=1m\nioengine=psnyc\n", 3, &["unknown ioengine", "did you mean 'psync'"]),
    ("[a]\nrw=randtrims\n", 2, &["rw=randtrims", "did you mean 'randtrim'"]),
    ("[a]\nrw=randread:0\n", 2, &["at least 1 operation"]),
    ("[a]\nsize=1m\nbs=1k,2k,3k,4k\n", 3, &["at most three"]),
    ("[a]\nsize=1m\nbssplit=4k/90:8k/60:1k\n", 3, &["150% together"]),
    ("[a]\nsize=1m\nioengine=e4defrag\n", 3, &["donorname="]),
    ("[a]\nsize=1m\nsync_file_range=wait\n", 3, &["not one of: wait_before, write, wait_after"]),
    ("[a]\nsize=1m\npercentage_sequential=10\n", 3, &["fio 3.33 refuses it, too"]),
    ("[a]\nsize=1m\nbssplit=0/100\n", 3, &["bssplit of reads is 0 bytes"]),
    ("[a]\nsize=1m\nrandom_distribution=zipf:1\n", 3, &["not 1"]),
    ("[a]\nsize=1m\nfile_service_type=sequentiel\n", 3, &["did you mean 'sequential'"]),
    ("[a]\nsize=1m\nrate=1m\nrate_iops=10\n", 4, &["rate and rate_iops"]),
    ("[a]\nsize=1m\nrate=1m\nrate_min=2m\n", 4, &["rate_min=2097152", "more than rate=1048576"]),
    ("[a]\nsize=1m\nnrfiles=0\n", 3, &["nrfiles=0"]),
    ("[a]\nsize=1m\nfilesize=0\n", 3, &["filesize is 0 bytes"]),
    ("[a]\nrw=read\nfill_device=1\n", 3, &["fill_device writes until"]),
    ("[a]\nsize=1m\nioengine=mmap\nfile_append=1\n", 4, &["cannot make a file longer"]),
    ("[a]\nsize=1m\niomem_align=3k\n", 3, &["not a power of two"]),
    ("[a]\nsize=1m\nmem=cudamalloc\n", 3, &["GPU"]),
    ("[a]\nsize=1m\nwait_for=b\n", 1, &["wait_for=b", "no job before"]),
    ("[a]\nsize=1m\nbuffer_pattern=%o\n", 3, &["verify_pattern"]),
    ("[a]\nsize=1m\ncpus_allowed=5-2\n", 3, &["runs backwards"]),
    ("[a]\nsize=1m\nprio=9\n", 3, &["prio=9, at most 7"]),
    ("[a]\nsize=1m\nignore_error=EWHAT\n", 3, &["'EWHAT' is no error"]),
    ("[a]\nsize=1m\nthinktime_blocks=0\n", 3, &["thinktime_blocks=0"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_granularity=64k\nbsrange=4k-8k\n", 4, &["pieces need blocks of one length"]),
    ("[a]\nsize=1m\nioengine=anon\nnrfiles=2\n", 4, &["has no files"]),
    ("[a]\nbs\n", 2, &["a value is needed"]),
    ("[a]\nbs=0\n", 2, &["bs of reads is 0 bytes", "needed 1 to"]),
    ("[a]\nsize=1k\n", 2, &["holds no block of 4096"]),
    ("[a]\nsize=20000000t\n", 2, &["64 bits"]),
    ("[a]\noffset=8191p\nsize=1p\n", 3, &["beyond what a file can have"]),
    ("[a]\nsize=1m\ndirect=1\nbuffered=1\n", 4, &["contradict"]),
    ("[a]\nsize=1m\nnumjobs=0\n", 3, &["numjobs=0", "at least 1"]),
    ("[a]\nsize=1m\nnumjobs=1m\n", 3, &["at most"]),
    ("[a]\nsize=1m\nfilename=:\n", 3, &["names no file"]),
    ("[a]\nsize=1m\nfilename=/a\ndirectory=/b\n", 3, &["choose one"]),
    ("[a]\nioengine=null\n", 1, &["no file to take its size from", "give size="]),
    ("[a]\nsize=1m\nmap_order=descending\n", 3, &["map_order means nothing to ioengine=psync"]),
    ("[a]\nsize=1m\nioengine=anon\nrw=randread\nmap_order=descending\n", 5, &["orders sequential patterns"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_granularity=6k\n", 4, &["not a multiple of the page size"]),
    ("[a]\nsize=1m\nioengine=anon\nbs=8k\nmap_granularity=4k\n", 5, &["a block would lie in two pieces"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_lifetime=evict\n", 4, &["needs map_granularity="]),
    ("[a]\nsize=1m\nioengine=anon\nmap_resident=4\n", 4, &["unless map_lifetime=evict"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_order=strided\n", 4, &["needs map_stride="]),
    ("[a]\nsize=1m\nioengine=anon\nmap_stride=8k\n", 4, &["unless map_order=strided"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_order=strided\nmap_stride=6k\n", 5, &["multiple of the block size of reads"]),
    ("[a]\nsize=4m\nioengine=anon\nhugetlb=2m\nmap_backing=memfd\nhugetlb_fallback=1\n", 6, &["one page size"]),
    ("[a]\nsize=1m\nioengine=shm\nmap_share=private\n", 4, &["segments are shared"]),
    ("[a]\nsize=1m\nioengine=shm\nmap_backing=memfd\n", 4, &["map_backing means nothing to ioengine=shm"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_align=12k\n", 4, &["not a power of two"]),
    ("[a]\nsize=1m\nioengine=anon\nhugetlb=2m\n", 2, &["not a multiple of the hugetlb page"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_touch=8k\n", 4, &["more than a block"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_read_back=1\n", 4, &["map_lifetime=evict"]),
    ("[a]\nsize=1m\ngtod_reduce=1\nlatency_sample=8\n", 4, &["choose one"]),
    ("[a]\nsize=1m\nthinktime=1\nthinktime_spin=2\n", 4, &["cannot be longer"]),
    ("[a]\nsize=1m\nioengine=anon\nmap_granularity=8t\n", 4, &["is above"]),
    ("[global]\nsize=1m\n", 0, &["no job"]),
];

#[test]
fn mistakes_tell_file_line_and_remedy() {
    for (text, line, words) in MISTAKES {
        let error = file(text).expect_err(text).to_string();
        assert!(*line == 0 || error.contains(&format!("job.fio:{line}:")), "{text}: {error}");
        for word in *words {
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

#[test]
fn mistakes_on_the_command_line_tell_the_argument() {
    assert!(
        arguments("--name=a --size=1m --rw=reed")
            .expect_err("wrong")
            .to_string()
            .starts_with("command line, argument 3: rw=reed")
    );
    assert!(arguments("--name=a --bs").expect_err("wrong").to_string().contains("a value is needed"));
    assert!(arguments("-x").is_err());
    assert!(arguments("").is_err());
    assert!(parse_files(&["/nonexistent/x.fio".into()]).expect_err("wrong").to_string().contains("/nonexistent/x.fio"));
}

#[test]
fn what_has_no_effect_is_said() {
    let workload = file(
        "[global]\nmap_granularity=2m\nsize=4m\n[a]\nioengine=psync\n[b]\nioengine=anon\nfilename=x\n[c]\niodepth=8\n",
    )
    .expect("valid");
    for (place, word) in [
        ("job.fio:2", "job 'a': map_granularity has no effect"),
        ("job.fio:8", "filename has no effect"),
        ("job.fio:10", "iodepth=8 has no effect"),
    ] {
        assert!(
            workload.warnings.iter().any(|w| w.contains(place) && w.contains(word)),
            "{word}: {:?}",
            workload.warnings
        );
    }
    let workload = file(
        "[a]\nsize=1m\niodepth_batch=4\nslat_percentiles=1\ncreate_serialize=0\nnorandommap\nrandom_distribution=zipf\n",
    )
    .expect("valid");
    for word in
        ["iodepth_batch=4 has no effect", "slat_percentiles", "create_serialize", "norandommap", "random_distribution"]
    {
        assert!(workload.warnings.iter().any(|w| w.contains(word)), "{word}: {:?}", workload.warnings);
    }
    let quiet = file("[a]\nsize=1m\nioengine=null\ndirect=0\niodepth=1\n").expect("valid");
    assert!(quiet.warnings.is_empty(), "defaults written out have nothing to lose: {:?}", quiet.warnings);
}

/// The job of the published investigation of DAX granularity, with the options that stand for its patch of fio.
#[test]
fn the_published_job_on_a_dax_file_is_read() {
    let text = "[global]\nioengine=mmap\nthread\niodepth=1\nbs=4k\nsize=100g\ntime_based\nruntime=10\noverwrite=1\n\
                direct=0\nfilename=/mnt/pmem/file\n[pieces]\nrw=randread\nmap_granularity=1m\nmap_merge=0\n";
    let workload = file(text).expect("valid");
    let options = &workload.jobs[0].options;
    assert_eq!((options.map_granularity.0, options.runtime.0), (1 << 20, 10_000_000_000));
    assert_eq!(workload.warnings, Vec::<String>::new());
}

#[test]
fn as_many_sections_as_workers_can_run_are_read() {
    let text: String = std::iter::once("[global]\nsize=1m\n".to_owned())
        .chain((0..4096).map(|i| format!("[job{i}]\nbs=4k\n")))
        .collect();
    assert_eq!(file(&text).expect("valid").jobs.len(), 4096);
}

#[test]
fn workloads_survive_json() {
    let workload = file(
        "[global]\nsize=50%\n[a]\nbs=8k,4k\nrw=randrw\nruntime=3\npercentile_list=50:99.9\n[b]\nrate_iops=10,20\n",
    )
    .expect("valid");
    let text = serde_json::to_string(&workload).expect("JSON");
    assert_eq!(serde_json::from_str::<Workload>(&text).expect("read back"), workload);
}

#[test]
fn every_option_has_help_with_its_default() {
    for def in OPTIONS {
        let help = docs::help(def.name).expect("known");
        assert!(def.default.is_empty() || help.contains(def.default), "{help}");
        assert!(def.help.trim().len() > 10, "{} says what it does", def.name);
    }
}

#[test]
fn a_name_in_global_names_no_job() {
    let workload = file("[global]\nname=bench\nrw=write\nsize=1m\n[alpha]\n[beta]\nname=own\n").expect("valid");
    let names: Vec<&str> = workload.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["alpha", "own"]);
    assert!(workload.warnings.iter().any(|w| w.contains("job.fio:2") && w.contains("name=bench")));
}

#[test]
fn the_command_line_is_read_as_getopt_long_only_reads_it() {
    let plain = arguments("--name=x --rw=read --direct=1 --size=64k --bs=8k --group_reporting --nice=-5 --stonewall=0")
        .expect("valid");
    for line in [
        "-name=x -rw=read -direct=1 -size=64k -bs=8k -group_reporting -nice=-5 -stonewall=0",
        "--name x --rw read --direct 1 --size 64k --bs 8k --group_reporting --nice -5 --stonewall 0",
        "-name x -rw read -direct 1 -size 64k -bs 8k -group_report -nice -5 -stonewa=0",
        "-name x -rw read -direct -size 64k -bs 8k -group_report 1 -nice -5",
    ] {
        let read = arguments(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (mut ours, mut theirs) = (read.jobs[0].options.clone(), plain.jobs[0].options.clone());
        (ours.name, theirs.name) = (None, None);
        assert_eq!((&read.jobs[0].name, ours), (&plain.jobs[0].name, theirs), "{line}");
    }
    for line in ["--name=x --size=64k --rw=read --r=1", "-x", "--name=x --size=64k -5"] {
        assert!(arguments(line).is_err(), "{line}");
    }
}

#[test]
fn options_before_a_file_are_its_defaults() {
    let directory = tempfile::tempdir().expect("tempdir");
    let paths = ["1.fio", "2.fio"].map(|name| directory.path().join(name).display().to_string());
    std::fs::write(&paths[0], "[a]\nrw=write\nsize=64k\n[b]\nbs=1k\nsize=64k\n").expect("write");
    std::fs::write(&paths[1], "[c]\nsize=64k\n").expect("write");
    // As fio 3.33 has it: the first file alone takes them, and nobody waits for the command line's own jobs.
    for (line, expected) in [
        (format!("--bs=16k {} {}", paths[0], paths[1]), vec![("a", 16384, 0), ("b", 1024, 0), ("c", 4096, 1)]),
        (format!("{} --bs=16k", paths[0]), vec![("a", 16384, 0), ("b", 1024, 0)]),
        (
            format!("--bs=16k --name=x --size=64k --bs=2k {}", paths[0]),
            vec![("x", 2048, 0), ("a", 16384, 0), ("b", 1024, 0)],
        ),
    ] {
        let workload = arguments(&line).expect("valid");
        let got: Vec<(&str, u64, u32)> =
            workload.jobs.iter().map(|job| (job.name.as_str(), job.options.bs.read.0, job.group)).collect();
        assert_eq!(got, expected, "{line}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let error = file("[global]\nzonemode=zbd\nflow=2\nunified_rw_reporting=0\n[a]\nsize=1m\nrtime=3\nrw=reed\n[b]\nsize=1m\nnumjobs=0\n[c]\nsize=1m\nrate=1m\nrate_iops=1\ndirect=1\nbuffered=1\n")
        .expect_err("wrong")
        .to_string();
    for (line, word) in [
        (2, "zonemode"),
        (3, "flow"),
        (7, "rtime"),
        (8, "rw=reed"),
        (11, "numjobs=0"),
        (15, "rate_iops"),
        (17, "contradict"),
    ] {
        assert!(
            error.lines().any(|l| l.contains(&format!("job.fio:{line}:")) && l.contains(word)),
            "{line} {word}: {error}"
        );
    }
    assert!(error.starts_with("7 mistakes:"), "{error}");
    let garbage = "what\n".repeat(1000);
    assert!(file(&garbage).expect_err("no job file").to_string().lines().count() == 1);
}

#[test]
fn what_asks_for_nothing_is_accepted() {
    let text = "[a]\nsize=1m\nunified_rw_reporting=0\nzonemode=none\nio_submit_mode=inline\ntrim_percentage=0\ntrim_verify_zero=1\nthp=0\natomic=0\n\
                per_job_logs=1\nunit_base=0\noffset=0%\nlatency_target=0\nserialize_overlap=0\nstats=1\nfilename=x\n";
    let workload = file(text).expect("valid");
    assert_eq!(workload.warnings, Vec::<String>::new());
    let workload =
        file("[a]\nsize=1m\nthreads=4\ntime_based\nbssplit=4k/100\nbsrange=1k-4k\n").expect("valid, as in fio");
    for word in ["threads", "time_based", "bsrange"] {
        assert!(workload.warnings.iter().any(|w| w.contains(word)), "{word}: {:?}", workload.warnings);
    }
    assert!(!workload.jobs[0].options.time_based);
    assert!(arguments("--name=a --size=1m --zonemode none --thp=1").expect_err("thp").to_string().contains("'thp'"));
}

/// Threads that submit or verify beside the worker, which pagelab does not have.
#[test]
fn threads_beside_the_worker_are_accepted_where_they_change_nothing() {
    let job = "--name=j --rw=write --size=1m";
    for engine in ["io_uring", "libaio", "posixaio"] {
        let workload = arguments(&format!("{job} --ioengine={engine} --io_submit_mode=offload")).expect(engine);
        assert!(workload.warnings.iter().any(|w| w.contains("io_submit_mode=offload has no effect")), "{engine}");
    }
    for engine in ["psync", "mmap", "null"] {
        let error = arguments(&format!("{job} --ioengine={engine} --io_submit_mode=offload")).expect_err(engine);
        let words = error.to_string();
        assert!(words.contains(&format!("ioengine={engine}")) && words.contains("io_uring"), "{words}");
        assert!(arguments(&format!("{job} --ioengine={engine} --io_submit_mode=inline")).is_ok(), "{engine}");
    }
    let workload =
        arguments(&format!("{job} --verify=md5 --verify_async=2 --verify_async_cpus=0-1")).expect("as in fio");
    for option in ["verify_async has no effect", "verify_async_cpus has no effect"] {
        assert!(workload.warnings.iter().any(|w| w.contains(option)), "{option}: {:?}", workload.warnings);
    }
}
