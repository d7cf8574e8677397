//! What fio has and pagelab does not: refused by name, with the reason, never ignored.

/// Options that belong together because one reason holds for all of them.
struct Refusal {
    reason: &'static str,
    names: &'static [&'static str],
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "files are ordinary ones or block devices that nobody locks; name them by filename or filename_format",
        names: &["opendir", "lockfile", "filetype"],
    },
    Refusal {
        reason: "fio's profile tiobench has it, and elsewhere fio ignores it; threads instead of processes are thread=1",
        names: &["threads"],
    },
    Refusal {
        reason: "blocks are chosen by rw, random_distribution, percentage_random and bs",
        names: &["random_sequence_stride", "num_range"],
    },
    Refusal {
        reason: "trims are those of rw=trim, randtrim, trimwrite and randtrimwrite; blocks that are to be verified are not trimmed between",
        names: &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"],
    },
    Refusal {
        reason: "each worker verifies what it has read itself; there are no threads beside it that could be bound",
        names: &["verify_async_cpus"],
    },
    Refusal {
        reason: "all completed writes are verified; it is an option of fio later than 3.33",
        names: &["verify_policy"],
    },
    Refusal {
        reason: "duplicates repeat the contents written before them (dedupe_percentage); there is no set of earlier contents to draw from",
        names: &["dedupe_mode", "dedupe_working_set_percentage", "dedupe_global"],
    },
    Refusal {
        reason: "each worker submits its own operations, and those in flight may overlap where the pattern lets them",
        names: &["serialize_overlap", "io_submit_mode"],
    },
    Refusal {
        reason: "a job does not steer itself by what it measures; set rate, iodepth and runtime, and look at the recording",
        names: &["flow", "flow_id", "flow_sleep", "steadystate_check_interval", "ramp_size"],
    },
    Refusal {
        reason: "of flushes there are fsync, fdatasync, end_fsync, fsync_on_close and sync",
        names: &["end_syncfs", "sync_file_range", "write_barrier", "write_hint", "atomic"],
    },
    Refusal {
        reason: "what may be written is decided outside the job file; name the very target on the command line",
        names: &["allow_mounted_write"],
    },
    Refusal {
        reason: "of logs there are those of write_lat_log, write_bw_log, write_iops_log, write_hist_log and write_iolog; everything else is in the recording: write one with -o DIR and query its tables",
        names: &[
            "per_job_logs",
            "bwavgtime",
            "iopsavgtime",
            "log_entries",
            "log_window_value",
            "log_max_value",
            "log_prio",
            "log_issue_time",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "job_start_clock_id",
            "block_error_percentiles",
            "stats",
            "unified_rw_reporting",
            "unit_base",
        ],
    },
    Refusal {
        reason: "each worker reads the clock itself; latency_sample times one operation in N, gtod_reduce none",
        names: &["gtod_cpu"],
    },
    Refusal {
        reason: "logs that are replayed are those of write_iolog, one for each worker (read_iolog)",
        names: &["replay_skip", "merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters"],
    },
    Refusal {
        reason: "pagelab has no zoned block devices; zonemode=strided has zonesize, zonerange and zoneskip",
        names: &[
            "zonecapacity",
            "read_beyond_wp",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
            "recover_zbd_write_error",
            "write_zone_remainders",
        ],
    },
    Refusal {
        reason: "it is set from outside: numactl, a cgroup, su or /sys/block/DEVICE/queue/scheduler around pagelab",
        names: &["priohint", "cgroup", "cgroup_nodelete", "cgroup_weight", "uid", "gid", "ioscheduler"],
    },
    Refusal {
        reason: "fio's thp=1 makes the mapping private without saying so; write map_advice=hugepage, and map_share=private if that is meant",
        names: &["thp"],
    },
    Refusal {
        reason: "a job file starts no other programs; use prepare and cleanup of an experiment's plan",
        names: &["exec_prerun", "exec_postrun", "profile"],
    },
    Refusal {
        reason: "it belongs to an engine that pagelab does not have",
        names: &[
            "userspace_reap",
            "cmdprio_percentage",
            "cmdprio_class",
            "cmdprio",
            "cmdprio_hint",
            "cmdprio_bssplit",
            "cmd_type",
            "libaio_vectored",
            "md_per_io_size",
            "pi_act",
            "pi_chk",
            "apptag",
            "apptag_mask",
            "write_mode",
            "verify_mode",
            "fdp",
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
            "donorname",
            "inplace",
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
            "stat_type",
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
            "gpu_dev_id",
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
            "sprandom",
            "spr_op",
            "spr_num_regions",
            "spr_cs",
        ],
    },
];

/// Options of the program fio, not of a job.
const PROGRAM_REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "there is no terse layout; --output-format=json is for programs",
        names: &["minimal", "append-terse", "terse-version"],
    },
    Refusal {
        reason: "name the logs in the job: write_bw_log=, write_lat_log=, write_iops_log=",
        names: &["bandwidth-log", "latency-log", "inflate-log"],
    },
    Refusal {
        reason: "the report comes once, at the end or on SIGINT; the recording has every second (-o DIR, then show or query)",
        names: &["status-interval"],
    },
    Refusal {
        reason: "pagelab runs jobs on the machine it is started on",
        names: &["server", "client", "daemonize", "remote-config"],
    },
    Refusal {
        reason: "a recording sees what fio's tracing and probes are for (-o DIR, --observe)",
        names: &["debug", "idle-prof", "trigger", "trigger-file", "trigger-timeout", "trigger-remote"],
    },
    Refusal {
        reason: "it is about how the program fio works inside",
        names: &[
            "aux-path",
            "alloc-size",
            "max-jobs",
            "warnings-fatal",
            "showcmd",
            "crctest",
            "cpuclock-test",
            "merge-blktrace-only",
            "eta-interval",
        ],
    },
];

const ENGINE_REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "of engines with operations in flight there are io_uring and libaio",
        names: &["io_uring_cmd", "posixaio", "libblkio", "xnvme", "windowsaio", "solarisaio"],
    },
    Refusal {
        reason: "it does not read or write a file or memory",
        names: &[
            "page_fault",
            "cpuio",
            "net",
            "netsplice",
            "exec",
            "filecreate",
            "filestat",
            "filedelete",
            "dircreate",
            "dirstat",
            "dirdelete",
            "ftruncate",
            "falloc",
        ],
    },
    Refusal {
        reason: "it needs a library or device that pagelab does not speak to",
        names: &[
            "splice",
            "sg",
            "gfapi",
            "gfapi_async",
            "mtd",
            "nbd",
            "rdma",
            "rados",
            "rbd",
            "pmemblk",
            "dev-dax",
            "libpmem",
            "libzbc",
            "libhdfs",
            "libcufile",
            "http",
            "nfs",
            "e4defrag",
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

fn find(list: &'static [Refusal], name: &str) -> Option<&'static str> {
    list.iter().find(|refusal| refusal.names.contains(&name)).map(|refusal| refusal.reason)
}

/// Why pagelab does not have an option that fio has; `None` if fio does not have it either.
pub fn option(name: &str) -> Option<&'static str> {
    find(REFUSALS, name).or_else(|| find(PROGRAM_REFUSALS, name))
}

/// Why pagelab does not have an engine that fio has.
pub fn engine(name: &str) -> Option<&'static str> {
    // `external:PATH` loads a shared object.
    find(ENGINE_REFUSALS, name.split(':').next().unwrap_or(name))
}

/// Every refused option with its reason, for the docs: (reason, names).
pub fn all() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    REFUSALS.iter().map(|refusal| (refusal.reason, refusal.names))
}

/// Every refused option of the program fio with its reason, for the docs: (reason, names).
pub fn all_of_program() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    PROGRAM_REFUSALS.iter().map(|refusal| (refusal.reason, refusal.names))
}

/// Every refused engine with its reason, for the docs: (reason, names).
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
                assert!(seen.insert(*name), "{name} stands twice");
            }
        }
    }
}
