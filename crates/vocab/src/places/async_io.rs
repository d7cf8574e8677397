//! io_uring and libaio.

pub(super) const PLACES: &[super::Place] = places! {
    ["io_submit_sqes", "io_submit_sqe", "__do_sys_io_uring_enter"]
        what "taking operations from an io_uring's submission queue and starting them"
        by "io_uring_enter, or the polling thread"
        set ["sysctl.kernel.io_uring_disabled", "io_uring: IORING_SETUP_SQPOLL", "program: iodepth"]
        next "compare operations per call: larger batches cost less";
    ["io_issue_sqe", "__io_issue_sqe", "io_read", "__io_read", "io_write", "io_rw_init_file"]
        what "starting one operation of an io_uring"
        by "each operation; the file's own read or write is below it"
        set ["io_uring: IORING_REGISTER_FILES", "io_uring: IORING_REGISTER_BUFFERS"]
        next "registered files and buffers save looking them up and pinning them each time";
    ["io_queue_iowq", "io_queue_async_work", "io_wq_enqueue", "io_wq_insert_work", "io_wqe_enqueue"]
        what "handing an operation to a worker thread because it would wait"
        by "buffered reads that miss the cache, operations without an asynchronous form, IOSQE_ASYNC"
        set ["io_uring: IORING_REGISTER_IOWQ_MAX_WORKERS", "block.<dev>.read_ahead_kb", "program: O_DIRECT"]
        next "count these (tracepoint io_uring_queue_async_work): many say that the file does not support waiting without a thread";
    ["io_wq_worker", "io_wqe_worker", "io_worker_handle_work", "io_wq_submit_work"]
        what "a worker thread of io_uring that does an operation and may wait in it"
        by "operations that were handed over"
        set ["io_uring: IORING_REGISTER_IOWQ_MAX_WORKERS", "rlimit.nproc"]
        next "the operation's own functions are below it; waits for locks are writers to one file";
    ["io_cqring_wait", "io_cqring_wait_schedule", "io_wake_function"]
        what "waiting until operations of an io_uring have ended"
        by "io_uring_enter with a number of completions to wait for"
        set ["program: iodepth", "io_uring: IORING_SETUP_DEFER_TASKRUN"]
        next "it is the latency of the device or peer: compare operations in flight";
    ["io_sq_thread", "__io_sq_thread", "io_sqpoll_wait_sq"]
        what "the thread that polls submission queues"
        by "IORING_SETUP_SQPOLL; it spins until it was idle for a time"
        set ["io_uring: sq_thread_idle", "io_uring: IORING_SETUP_SQPOLL", "task.affinity"]
        next "see whether it takes the CPU of the program's threads";
    ["tctx_task_work", "tctx_task_work_run", "io_run_task_work", "__io_run_local_work", "io_run_local_work", "io_handle_tw_list", "io_req_task_complete"]
        what "finishing operations in the task that submitted them"
        by "each completion; an interrupt may be needed to make the task do it"
        set ["io_uring: IORING_SETUP_COOP_TASKRUN", "io_uring: IORING_SETUP_DEFER_TASKRUN", "io_uring: IORING_SETUP_SINGLE_ISSUER"]
        next "compare with DEFER_TASKRUN, which does it in batches when the program waits";
    ["io_do_iopoll", "io_iopoll_check", "io_iopoll_try_reap_events"]
        what "polling devices for the completions of an io_uring"
        by "IORING_SETUP_IOPOLL"
        set ["io_uring: IORING_SETUP_IOPOLL", "nvme: poll_queues", "block.<dev>.io_poll"]
        next "without queues for polling in the driver it falls back or fails: see block.<dev>.io_poll";
    ["io_import_iovec", "__io_import_iovec", "io_import_fixed", "io_import_reg_buf", "io_sqe_buffer_register", "io_sqe_buffers_register"]
        what "preparing the buffers of an operation, or registering them"
        by "vectored operations and registered buffers"
        set ["io_uring: IORING_REGISTER_BUFFERS", "rlimit.memlock", "thp.enabled"]
        next "register once and not per operation; huge pages make registered buffers cheaper";
    ["io_uring_cancel_generic", "io_ring_exit_work", "io_uring_try_cancel_requests"]
        what "waiting for or cancelling operations of a ring that is closed"
        by "the end of a process, close of a ring, exec"
        set ["program: iodepth", "io_uring: IORING_REGISTER_IOWQ_MAX_WORKERS"]
        next "see which operations were still in flight, on which file";
    ["io_submit_one", "__do_sys_io_submit", "aio_read", "aio_write", "aio_prep_rw"]
        what "starting operations of libaio"
        by "io_submit"
        set ["sysctl.fs.aio-max-nr", "program: iodepth", "program: O_DIRECT"]
        next "without O_DIRECT the call itself does the I/O and waits: see what is below it";
    ["read_events", "do_io_getevents", "aio_read_events"]
        what "waiting for operations of libaio, or collecting them"
        by "io_getevents and io_pgetevents"
        set ["program: iodepth", "sysctl.fs.aio-max-nr"]
        next "compare events per call: asking for at least a few at once needs fewer calls";
    ["aio_complete", "aio_complete_rw", "lookup_ioctx"]
        what "entering the end of an operation into libaio's ring"
        by "each operation that ends"
        set ["program: iodepth", "irq.<irq>.affinity"]
        next "many threads on one context share its lock: give each its own";
    ["ioctx_alloc", "kill_ioctx", "exit_aio", "aio_setup_ring"]
        what "making or ending a context of libaio; ending waits for a grace period"
        by "io_setup, io_destroy and the end of a process"
        set ["sysctl.fs.aio-max-nr", "mysql: innodb_use_native_aio"]
        next "see whether contexts are made per file or per operation: keep them";
};
