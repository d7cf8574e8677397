//! What fio has and pagelab does not: refused by name, with the reason, never ignored.

/// Options that belong together because one reason holds for all of them.
struct Refusal {
    reason: &'static str,
    names: &'static [&'static str],
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "a job works on one file; give each file a job of its own",
        names: &[
            "nrfiles", "nr_files", "filesize", "file_service_type", "openfiles", "opendir", "filename_format", "unique_filename", "lockfile",
            "file_append", "filetype",
        ],
    },
    Refusal {
        reason: "block sizes do not vary within a job; use bs, one size per direction",
        names: &["bsrange", "blocksize_range", "bssplit", "bs_unaligned", "blocksize_unaligned", "bs_is_seq_rand", "ba", "blockalign"],
    },
    Refusal {
        reason: "blocks come in plain sequential order or uniformly at random",
        names: &[
            "rw_sequencer", "random_distribution", "percentage_random", "random_generator", "softrandommap", "random_sequence_stride",
            "offset_increment", "offset_align", "num_range",
        ],
    },
    Refusal { reason: "pagelab has no trims", names: &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"] },
    Refusal {
        reason: "pagelab does not verify contents",
        names: &[
            "verify", "do_verify", "verify_only", "verify_interval", "verify_offset", "verify_pattern", "verify_pattern_interval", "verify_fatal",
            "verify_dump", "verify_async", "verify_async_cpus", "verify_backlog", "verify_backlog_batch", "experimental_verify",
            "verify_state_load", "verify_state_save", "verify_header_seed", "verify_write_sequence", "verify_policy",
        ],
    },
    Refusal {
        reason: "contents of buffers are random and the same for every operation",
        names: &[
            "zero_buffers", "refill_buffers", "scramble_buffers", "buffer_pattern", "buffer_compress_percentage", "buffer_compress_chunk",
            "dedupe_percentage", "dedupe_mode", "dedupe_working_set_percentage", "dedupe_global",
        ],
    },
    Refusal {
        reason: "engines complete each operation before the next, so there is no queue to steer",
        names: &[
            "iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete_min", "iodepth_batch_complete", "iodepth_batch_complete_max",
            "iodepth_low", "serialize_overlap", "io_submit_mode",
        ],
    },
    Refusal {
        reason: "the only rates are operations per second with fixed distances; use rate_iops",
        names: &[
            "rate", "rate_min", "ratemin", "rate_process", "rate_cycle", "ratecycle", "rate_ignore_thinktime", "rate_iops_min",
            "thinktime_blocks_type", "thinktime_iotime", "max_latency", "latency_target", "latency_window", "latency_percentile", "latency_run",
            "flow", "flow_id", "flow_sleep", "steadystate", "ss", "steadystate_duration", "ss_dur", "steadystate_ramp_time", "ss_ramp",
            "steadystate_check_interval", "ramp_size",
        ],
    },
    Refusal { reason: "jobs are ordered by stonewall only", names: &["wait_for", "exitall", "exit_what", "exitall_on_error"] },
    Refusal {
        reason: "files are made ready one after the other before the first job starts, and a job's first error ends it",
        names: &[
            "fill_device", "fill_fs", "create_serialize", "create_fsync", "create_only", "allow_file_create", "pre_read", "unlink_each_loop",
            "fsync_on_close", "end_syncfs", "sync_file_range", "write_barrier", "write_hint", "continue_on_error", "ignore_error", "error_dump",
            "atomic",
        ],
    },
    Refusal {
        reason: "what may be written is decided outside the job file; name the very target on the command line",
        names: &["allow_mounted_write"],
    },
    Refusal {
        reason: "everything is in the recording: write one with -o DIR and query its tables",
        names: &[
            "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog", "per_job_logs", "bwavgtime", "iopsavgtime",
            "log_entries", "log_avg_msec", "log_window_value", "log_max_value", "log_hist_msec", "log_hist_coarseness", "log_offset", "log_prio",
            "log_issue_time", "log_compression", "log_compression_cpus", "log_store_compressed", "log_unix_epoch", "log_alternate_epoch",
            "log_alternate_epoch_clock_id", "job_start_clock_id", "block_error_percentiles", "stats", "disk_util", "unified_rw_reporting",
            "significant_figures", "slat_percentiles", "unit_base",
        ],
    },
    Refusal {
        reason: "each latency is either measured or not: latency_sample times one operation in N, gtod_reduce none",
        names: &["disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement", "disable_bw", "gtod_cpu"],
    },
    Refusal {
        reason: "pagelab does not replay logs",
        names: &[
            "read_iolog", "read_iolog_chunked", "replay_no_stall", "replay_redirect", "replay_scale", "replay_align", "replay_time_scale",
            "replay_skip", "merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters",
        ],
    },
    Refusal {
        reason: "pagelab has no zoned block devices",
        names: &[
            "zonemode", "zonesize", "zonecapacity", "zonerange", "zoneskip", "read_beyond_wp", "max_open_zones", "job_max_open_zones",
            "ignore_zone_limits", "zone_reset_threshold", "zone_reset_frequency", "recover_zbd_write_error", "write_zone_remainders",
        ],
    },
    Refusal {
        reason: "where and how workers run is set from outside: taskset, nice, ionice, numactl or a cgroup around pagelab",
        names: &[
            "cpumask", "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy", "nice", "prio", "prioclass", "priohint",
            "cgroup", "cgroup_nodelete", "cgroup_weight", "uid", "gid", "ioscheduler", "lockmem",
        ],
    },
    Refusal {
        reason: "operations are transferred from page-aligned ordinary memory; use ioengine=anon with hugetlb= to study huge pages",
        names: &["mem", "iomem", "iomem_align", "mem_align", "hugepage-size"],
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
            "userspace_reap", "cmdprio_percentage", "cmdprio_class", "cmdprio", "cmdprio_hint", "cmdprio_bssplit", "nowait", "hipri",
            "hipri_percentage", "fixedbufs", "registerfiles", "sqthread_poll", "sqthread_poll_cpu", "nonvectored", "uncached", "force_async",
            "cmd_type", "libaio_vectored", "md_per_io_size", "pi_act", "pi_chk", "apptag", "apptag_mask", "write_mode", "verify_mode", "fdp",
            "fdp_pli", "plids", "plid_select", "dataplacement", "dp_scheme", "hostname", "port", "protocol", "nodelay", "listen", "pingpong",
            "interface", "ttl", "window_size", "mss", "bindname", "verb", "readfua", "writefua", "sg_write_mode", "stream_id", "cpuload",
            "cpuchunks", "cpumode", "exit_on_io_done", "program", "arguments", "grace_time", "std_redirect", "donorname", "inplace",
            "clustername", "rbdname", "pool", "clientname", "busy_poll", "conf", "touch_objects", "volume", "brick", "single-instance",
            "skip_bad", "namenode", "hdfsdirectory", "chunk_size", "stat_type", "http_host", "http_mode", "http_object_mode", "http_user",
            "http_pass", "http_s3_key", "http_s3_keyid", "http_s3_region", "http_s3_security_token", "http_s3_storage_class",
            "http_s3_sse_customer_key", "http_s3_sse_customer_algorithm", "http_swift_auth_token", "http_verbose", "https", "uri", "gpu_dev_ids",
            "gpu_dev_id", "cuda_io", "rocm_io", "nfs_url", "xnvme_async", "xnvme_sync", "xnvme_admin", "xnvme_dev_nsid", "xnvme_dev_subnqn",
            "xnvme_mem", "xnvme_iovec", "libblkio_driver", "libblkio_path", "libblkio_pre_connect_props", "libblkio_num_entries",
            "libblkio_queue_size", "libblkio_pre_start_props", "libblkio_vectored", "libblkio_write_zeroes_on_trim", "libblkio_wait_mode",
            "libblkio_force_enable_completion_eventfd", "no_completion_thread", "rbd_encryption_format", "rbd_encryption_passphrase",
            "object_class", "sprandom", "spr_op", "spr_num_regions", "spr_cs",
        ],
    },
];

const ENGINE_REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "asynchronous engines are not built; each operation is complete before the next starts",
        names: &["libaio", "io_uring", "io_uring_cmd", "posixaio", "libblkio", "xnvme", "windowsaio", "solarisaio"],
    },
    Refusal { reason: "vectored system calls are not built; psync does the same work with one buffer", names: &["vsync", "pvsync", "pvsync2"] },
    Refusal {
        reason: "it does not read or write a file or memory",
        names: &["cpuio", "net", "netsplice", "exec", "filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete", "ftruncate", "falloc"],
    },
    Refusal {
        reason: "it needs a library or device that pagelab does not speak to",
        names: &[
            "splice", "sg", "gfapi", "gfapi_async", "mtd", "nbd", "rdma", "rados", "rbd", "pmemblk", "dev-dax", "libpmem", "libzbc", "libhdfs",
            "libcufile", "http", "nfs", "e4defrag", "guasi", "external", "libiscsi", "libnbd",
        ],
    },
];

fn find(list: &'static [Refusal], name: &str) -> Option<&'static str> {
    list.iter().find(|refusal| refusal.names.contains(&name)).map(|refusal| refusal.reason)
}

/// Why pagelab does not have an option that fio has; `None` if fio does not have it either.
pub fn option(name: &str) -> Option<&'static str> {
    find(REFUSALS, name)
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
        for (_, names) in all().chain(all_engines()) {
            for name in names {
                assert!(seen.insert(*name), "{name} stands twice");
            }
        }
    }
}
