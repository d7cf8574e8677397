//! What fio has and pagelab does not: refused by name, with the reason, never ignored.

/// Options that belong together because one reason holds for all of them. Behind a name stands what fio takes when nothing is said,
/// `|` between spellings: with that value the option asks for nothing, and is accepted.
struct Refusal {
    reason: &'static str,
    names: &'static [&'static str],
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "files are ordinary ones or block devices; name them by filename or filename_format",
        names: &["opendir", "filetype"],
    },
    Refusal {
        reason: "blocks are chosen by rw, random_distribution, percentage_random and bs",
        names: &["random_sequence_stride", "num_range"],
    },
    Refusal {
        reason: "trims are those of rw=trim, randtrim, trimwrite and randtrimwrite; blocks that are to be verified are not trimmed between",
        names: &["trim_percentage=0", "trim_verify_zero=1", "trim_backlog=0", "trim_backlog_batch=0"],
    },
    Refusal {
        reason: "all completed writes are verified; it is an option of fio later than 3.33",
        names: &["verify_policy"],
    },
    Refusal {
        reason: "duplicates repeat the contents written before them (dedupe_percentage); there is no set of earlier contents to draw from",
        names: &["dedupe_mode=repeat", "dedupe_working_set_percentage=5", "dedupe_global=0"],
    },
    Refusal {
        reason: "a job does not steer itself by what it measures; set rate, iodepth and runtime, and look at the recording",
        names: &["flow=0", "flow_id=0", "flow_sleep=0", "steadystate_check_interval"],
    },
    Refusal {
        reason: "of flushes there are fsync, fdatasync, sync_file_range, end_fsync, fsync_on_close and sync",
        names: &["end_syncfs=0", "write_barrier=0"],
    },
    Refusal {
        reason: "fio 3.33 refuses it, too: percentage_random is 100 less it, and each operation draws its direction anew",
        names: &["percentage_sequential", "rwmixcycle"],
    },
    Refusal {
        reason: "the time before measuring is given by ramp_time; it is an option of fio later than 3.33",
        names: &["ramp_size=0"],
    },
    Refusal {
        reason: "what may be written is decided outside the job file; name the very target on the command line",
        names: &["allow_mounted_write=0"],
    },
    Refusal {
        reason: "of logs there are those of write_lat_log, write_bw_log, write_iops_log, write_hist_log and write_iolog; everything else is in the recording: write one with -o DIR and query its tables",
        names: &[
            "log_window_value=average",
            "log_prio=0",
            "log_issue_time=0",
            "log_store_compressed=0",
            "job_start_clock_id",
        ],
    },
    Refusal {
        reason: "reports show every job, reads and writes apart, and bandwidth in units of 1024 and of 1000 beside each other",
        names: &["stats=1", "block_error_percentiles=0"],
    },
    Refusal {
        reason: "logs that are replayed are those of write_iolog, one for each worker (read_iolog)",
        names: &["replay_skip", "merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters"],
    },
    Refusal {
        reason: "pagelab has no zoned block devices; zonemode=strided has zonesize, zonerange and zoneskip",
        names: &[
            "zonecapacity=0",
            "read_beyond_wp=0",
            "max_open_zones=0",
            "job_max_open_zones=0",
            "ignore_zone_limits=0",
            "zone_reset_threshold=0",
            "zone_reset_frequency=0",
            "recover_zbd_write_error=0",
            "write_zone_remainders=0",
        ],
    },
    Refusal {
        reason: "it is set from outside: numactl, a cgroup, su or /sys/block/DEVICE/queue/scheduler around pagelab",
        names: &["cgroup", "cgroup_nodelete=0", "cgroup_weight", "uid", "gid"],
    },
    Refusal {
        reason: "fio's thp=1 makes the mapping private without saying so; write map_advice=hugepage, and map_share=private if that is meant",
        names: &["thp=0"],
    },
    Refusal { reason: "a profile is a workload built into fio; write a job", names: &["profile"] },
    Refusal {
        reason: "all operations of a worker have its own I/O priority (prio, prioclass); give different ones to different jobs",
        names: &["cmdprio_percentage=0", "cmdprio_class", "cmdprio=0", "cmdprio_hint", "cmdprio_bssplit"],
    },
    Refusal {
        reason: "it prepares a solid-state disk for fio's own preconditioning; it is an option of fio later than 3.33",
        names: &["sprandom", "spr_op", "spr_num_regions", "spr_cs"],
    },
    Refusal {
        reason: "it belongs to an engine that pagelab does not have",
        names: &[
            "cmd_type",
            "md_per_io_size=0",
            "pi_act",
            "pi_chk",
            "apptag",
            "apptag_mask",
            "write_mode",
            "verify_mode",
            "fdp=0",
            "fdp_pli",
            "plids",
            "plid_select",
            "dataplacement",
            "dp_scheme",
            "hostname",
            "serverip",
            "direct_write_to_pmem",
            "busy_wait_polling",
            "cont",
            "port",
            "protocol",
            "nodelay",
            "listen",
            "pingpong",
            "interface",
            "ttl",
            "window_size",
            "mss",
            "bindname",
            "verb",
            "readfua",
            "writefua",
            "sg_write_mode",
            "stream_id",
            "cpuload",
            "cpuchunks",
            "cpumode",
            "exit_on_io_done",
            "program",
            "arguments",
            "grace_time",
            "std_redirect",
            "clustername",
            "rbdname",
            "pool",
            "clientname",
            "busy_poll",
            "conf",
            "touch_objects",
            "volume",
            "brick",
            "single-instance",
            "skip_bad",
            "namenode",
            "hdfsdirectory",
            "chunk_size",
            "http_host",
            "http_mode",
            "http_object_mode",
            "http_user",
            "http_pass",
            "http_s3_key",
            "http_s3_keyid",
            "http_s3_region",
            "http_s3_security_token",
            "http_s3_storage_class",
            "http_s3_sse_customer_key",
            "http_s3_sse_customer_algorithm",
            "http_swift_auth_token",
            "http_verbose",
            "https",
            "uri",
            "gpu_dev_ids",
            "gpu_dev_id=0",
            "cuda_io",
            "rocm_io",
            "nfs_url",
            "xnvme_async",
            "xnvme_sync",
            "xnvme_admin",
            "xnvme_dev_nsid",
            "xnvme_dev_subnqn",
            "xnvme_mem",
            "xnvme_iovec",
            "libblkio_driver",
            "libblkio_path",
            "libblkio_pre_connect_props",
            "libblkio_num_entries",
            "libblkio_queue_size",
            "libblkio_pre_start_props",
            "libblkio_vectored",
            "libblkio_write_zeroes_on_trim",
            "libblkio_wait_mode",
            "libblkio_force_enable_completion_eventfd",
            "no_completion_thread",
            "rbd_encryption_format",
            "rbd_encryption_passphrase",
            "object_class",
        ],
    },
];

/// Options that say how something is done and not what: they are accepted, and a note says what is done instead.
const INSTEAD: &[Refusal] = &[
    Refusal {
        reason: "files are not locked: workers that share one work on it as they come",
        names: &["lockfile=none"],
    },
    Refusal { reason: "writes carry no hint: the kernel passes none on to most devices", names: &["write_hint=none"] },
    Refusal {
        reason: "logs are written as they grow, without a buffer whose size matters, and not compressed before that",
        names: &["log_entries=1024", "log_compression=0", "log_compression_cpus"],
    },
    Refusal {
        reason: "reports have bandwidth in units of 1024 and of 1000 bytes beside each other",
        names: &["unit_base=0"],
    },
    Refusal { reason: "each worker reads the clock itself", names: &["gtod_cpu"] },
    Refusal {
        reason: "the scheduler stays as it is; set it before: /sys/block/DEVICE/queue/scheduler",
        names: &["ioscheduler"],
    },
    Refusal { reason: "operations carry no hint of a lifetime", names: &["priohint"] },
    Refusal {
        reason: "completions are taken by io_getevents(2), and operations submitted with one buffer each",
        names: &["userspace_reap=0", "libaio_vectored=0"],
    },
];

/// What is done instead of what an option asks that is accepted all the same.
pub fn instead(name: &str) -> Option<&'static str> {
    entry(INSTEAD, name).map(|(refusal, _)| refusal.reason)
}

/// Every option that is accepted so, with what is done instead, for the docs: (what, names).
pub fn all_instead() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    INSTEAD.iter().map(|refusal| (refusal.reason, refusal.names))
}

/// Options that fio 3.33 passes over with a word about it.
const DEPRECATED: &[&str] = &["verifysort", "verifysort_nr", "flow_watermark"];

/// Whether fio takes the option and passes over it.
pub fn is_deprecated(name: &str) -> bool {
    DEPRECATED.contains(&name)
}

/// The options that fio passes over, for the docs.
pub fn deprecated() -> &'static [&'static str] {
    DEPRECATED
}

/// Options of the program fio, not of a job.
const PROGRAM_REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "name the logs in the job: write_bw_log=, write_lat_log=, write_iops_log=",
        names: &["latency-log", "inflate-log"],
    },
    Refusal {
        reason: "pagelab runs jobs on the machine it is started on",
        names: &["server", "client", "daemonize", "remote-config"],
    },
    Refusal {
        reason: "a recording has the idle time of every CPU (-o DIR, --observe metrics)",
        names: &["idle-prof=none"],
    },
    Refusal {
        reason: "a job ends by its own options, by SIGINT or SIGTERM",
        names: &["trigger", "trigger-file", "trigger-timeout", "trigger-remote"],
    },
    Refusal {
        reason: "logs and states of verify go where the job names them, or to the working directory; cd there first",
        names: &["aux-path"],
    },
    Refusal {
        reason: "it runs no job: it tests or converts with what is built into fio",
        names: &["showcmd", "crctest", "cpuclock-test", "memcpytest", "merge-blktrace-only"],
    },
];

const ENGINE_REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "of engines with operations in flight there are io_uring, libaio and posixaio",
        names: &["io_uring_cmd", "libblkio", "xnvme", "windowsaio", "solarisaio"],
    },
    Refusal {
        reason: "it does not read or write a file or memory",
        names: &["page_fault", "cpuio", "net", "netsplice", "exec", "dircreate", "dirstat", "dirdelete", "ftruncate"],
    },
    Refusal {
        reason: "it needs a library or device that pagelab does not speak to",
        names: &[
            "sg",
            "gfapi",
            "gfapi_async",
            "mtd",
            "nbd",
            "rdma",
            "rados",
            "rbd",
            "pmemblk",
            "libzbc",
            "libhdfs",
            "libcufile",
            "http",
            "nfs",
            "guasi",
            "external",
            "cpp_null",
            "dfs",
            "ime_psync",
            "ime_psyncv",
            "ime_aio",
            "libhipfile",
            "librpma_apm_client",
            "librpma_apm_server",
            "librpma_gpspm_client",
            "librpma_gpspm_server",
            "libiscsi",
            "libnbd",
        ],
    },
];

/// The name in an entry of the lists.
pub fn name_of(entry: &'static str) -> &'static str {
    entry.split('=').next().unwrap_or(entry)
}

/// The value in an entry of the lists with which the option is accepted, in each of its spellings; none for most.
fn defaults_of(entry: &'static str) -> impl Iterator<Item = &'static str> {
    entry.split_once('=').map_or("", |(_, values)| values).split('|').filter(|value| !value.is_empty())
}

fn entry(list: &'static [Refusal], name: &str) -> Option<(&'static Refusal, &'static str)> {
    list.iter().find_map(|refusal| {
        let found = refusal.names.iter().find(|entry| name_of(entry) == name)?;
        Some((refusal, *found))
    })
}

/// The entry of an option, in whichever list of options it stands.
fn option_entry(name: &str) -> Option<(&'static Refusal, &'static str)> {
    [REFUSALS, PROGRAM_REFUSALS, INSTEAD].into_iter().find_map(|list| entry(list, name))
}

/// Why pagelab does not have an option that fio has; `None` if fio does not have it either.
pub fn option(name: &str) -> Option<&'static str> {
    if is_deprecated(name) {
        return Some("fio passes over it, and so does pagelab");
    }
    option_entry(name).map(|(refusal, _)| refusal.reason)
}

/// Whether an option that pagelab does not have is given the value that fio takes when nothing is said: it then asks for nothing.
pub fn is_default(name: &str, value: Option<&str>) -> bool {
    if is_deprecated(name) {
        return true;
    }
    let Some((_, entry)) = option_entry(name) else { return false };
    let value = value.unwrap_or("1").trim();
    defaults_of(entry).any(|default| {
        // `0` has many spellings: 0s, 0%, 0k.
        let zero = default == "0"
            && value.starts_with('0')
            && value.trim_start_matches(['0', '.']).chars().all(|c| c.is_ascii_alphabetic() || c == '%');
        value == default || zero
    })
}

/// Why pagelab does not have an engine that fio has.
pub fn engine(name: &str) -> Option<&'static str> {
    // `external:PATH` loads a shared object.
    entry(ENGINE_REFUSALS, name.split(':').next().unwrap_or(name)).map(|(refusal, _)| refusal.reason)
}

/// The names of all options that are refused.
pub fn names() -> impl Iterator<Item = &'static str> {
    let refused = REFUSALS.iter().chain(PROGRAM_REFUSALS).chain(INSTEAD).flat_map(|refusal| refusal.names);
    refused.map(|entry| name_of(entry)).chain(DEPRECATED.iter().copied())
}

/// Every refused option with its reason, for the docs: (reason, entries).
pub fn all() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    REFUSALS.iter().map(|refusal| (refusal.reason, refusal.names))
}

/// Every refused option of the program fio with its reason, for the docs: (reason, entries).
pub fn all_of_program() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    PROGRAM_REFUSALS.iter().map(|refusal| (refusal.reason, refusal.names))
}

/// Every refused engine with its reason, for the docs: (reason, entries).
pub fn all_engines() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    ENGINE_REFUSALS.iter().map(|refusal| (refusal.reason, refusal.names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_refused_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (_, names) in all().chain(all_of_program()).chain(all_engines()) {
            for name in names {
                assert!(seen.insert(name_of(name)), "{name} stands twice");
            }
        }
    }

    #[test]
    fn defaults_ask_for_nothing() {
        for (name, value, default) in [
            ("zonemode", Some("none"), true),
            ("zonemode", Some("strided"), false),
            ("block_error_percentiles", Some("0"), true),
            ("verifysort", Some("1"), true),
            ("latency_window", Some("0s"), true),
            ("trim_percentage", Some("0%"), true),
            ("trim_percentage", Some("05"), false),
            ("stats", None, true),
            ("thp", None, false),
            ("opendir", Some("0"), false),
            ("no_such_option", Some("0"), false),
        ] {
            // Of these some may have become options of pagelab's own.
            if option(name).is_some() || !default {
                assert_eq!(is_default(name, value), default, "{name}={value:?}");
            }
        }
    }

    /// fio prints each option's default; what is accepted here is that.
    #[test]
    fn defaults_are_those_of_fio() {
        for entry in REFUSALS.iter().chain(INSTEAD).flat_map(|refusal| refusal.names) {
            let accepted: Vec<&str> = defaults_of(entry).collect();
            let name = name_of(entry);
            let output = std::process::Command::new("fio").arg(format!("--cmdhelp={name}")).output();
            let output = output.expect("fio is installed (apt-get install fio); `make test` does it");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let told = text.lines().find_map(|line| line.trim().strip_prefix("default: "));
            // Later than 3.33, or without a default: 0 is then what is not set.
            let Some(told) = told.filter(|told| *told != "no default") else { continue };
            assert!(accepted.is_empty() || accepted.contains(&told), "{name}: fio takes {told}, accepted {accepted:?}");
        }
    }
}
