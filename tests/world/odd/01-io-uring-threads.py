"""io_uring's kernel threads (iou-wrk-PID, iou-sqp-PID) are threads of the process that no sched_process_fork is raised for."""

TRUTH = (
    "perf stat counts the same page faults as the recording holds, in every mode; perf record has the kernel's threads as tasks "
    "with most of the CPU time; getrusage of the program counts their faults and CPU time as its own"
)

PAGES = 4096
# perf stat also counts the way to the exec, and the dynamic linker's faults differ by some between two runs.
USUAL = 40


def said(done):
    """What the program printed: faults, user_us, system_us."""
    words = done.stdout.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2])}


def faults(w, program, data):
    """Faults on fresh memory, by whoever reads."""
    for mode, name in [("n", None), ("a", "iou-wrk-%"), ("s", "iou-sqp-%")]:
        command = [program, data, mode, PAGES, 4096, "fresh"]
        counted = w.run("perf", "stat", "-e", "faults", "-x,", "--", *command).stderr
        truth = int(next(line for line in counted.splitlines() if ",faults" in line).split(",")[0])
        recording = w.record(*command, name=f"fresh-{mode}", status=0)
        found = recording.sql("select count(*) n from faults")[0]["n"]
        w.expect(abs(found - truth) <= USUAL, f"mode {mode}: perf stat {truth} faults, recorded {found}")
        w.expect("tasks are missing" not in recording.stderr, f"mode {mode}: {recording.stderr}")
        if not name:
            continue
        theirs = f"select task_id from tasks where comm like '{name}'"
        taken = recording.sql(f"select count(*) n from faults where task_id in ({theirs})")[0]["n"]
        w.expect(PAGES <= taken <= PAGES + USUAL, f"mode {mode}: {taken} faults of {name}, needed {PAGES}")
        ops = {row["op"] for row in recording.sql(f"select distinct op from tasks where task_id in ({theirs})")}
        w.expect({"fork", "comm", "exit"} <= ops, f"mode {mode}: rows of tasks: {sorted(ops)}")
        view = recording.show("tasks")
        w.expect(view["sums"]["faults_recorded"] == found, f"the view has {view['sums']}")


PERF_HZ = 997


def perf_shares(w, *command):
    """Share of perf's samples in the kernel's threads, in percent, and time below the kernel's reading of files, in ms."""
    data = w.work / "perf.data"
    w.run("perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", PERF_HZ, "-o", data, "--", *command)
    stacks = w.run("perf", "script", "-i", data, "-F", "comm,ip,sym").stdout.split("\n\n")
    stacks = [stack.strip() for stack in stacks if stack.strip()]
    threads = sum(stack.startswith("iou-") for stack in stacks)
    reading = sum("filemap_read" in stack for stack in stacks)
    return 100 * threads / len(stacks), 1000 * reading / PERF_HZ


OF_KERNEL = "(select task_id from tasks where comm like 'iou-%')"
READING = (
    "select stack_id from stacks where array_has_any(frame_ids, "
    "(select array_agg(frame_id) from frames where symbol = 'filemap_read'))"
)


def cpu_time(w, program, data):
    """CPU time of the kernel's threads, in profile, tasks and budget."""
    for mode in ["a", "s"]:
        command = [program, data, mode, 30000, 262144]
        perf_share, perf_reading_ms = perf_shares(w, *command)
        recording = w.record(*command, name=f"busy-{mode}", status=0, observe="default,cpu")
        theirs = recording.sql(f"select count(*) n from samples where task_id in {OF_KERNEL}")[0]["n"]
        share = 100 * theirs / recording.sql("select count(*) n from samples")[0]["n"]
        w.expect(min(share, perf_share) > 50, f"mode {mode}: perf has {perf_share:.0f} % of samples in the kernel's threads, pagelab {share:.0f} %")
        usage = recording.manifest["rusage"]
        counted = usage["utime_ns"] + usage["stime_ns"]
        tasks = recording.show("tasks")["sums"]["cpu_ns"]
        w.expect(0.9 * counted < tasks < 1.15 * counted + 3e7, f"mode {mode}: wait4 {counted / 1e9:.3f} s, tasks {tasks / 1e9:.3f} s")
        budget = recording.show("budget")
        w.expect(0.9 * counted < budget["kernel_run_ns"] < 1.15 * counted, f"mode {mode}: wait4 {counted} ns, budget {budget['kernel_run_ns']} ns")
        reads_pct = sum(row["pct"] for row in budget["components"] if row["component"].startswith("run.file"))
        reads_ms = reads_pct / 100 * budget["lives_ns"] / 1e6
        reading = recording.sql(f"select sum(weight) n from samples where kstack_id in ({READING})")[0]["n"] or 0
        sampled_ms = reading / recording.sql("select sum(weight) n from samples")[0]["n"] * budget["run_ns"] / 1e6
        # What interrupts a read, and what it allocates, are components of their own.
        w.expect(0.7 * sampled_ms - 20 < reads_ms < 1.2 * sampled_ms + 20, f"mode {mode}: {sampled_ms:.0f} ms of samples in reading, RUN has {reads_ms:.0f} ms")
        w.expect(min(reads_ms, perf_reading_ms) > 0, f"mode {mode}: perf has {perf_reading_ms:.0f} ms of samples in reading, RUN {reads_ms:.0f} ms")
        # Where a thread of the kernel spins for the next request, samples of perf and of pagelab alike come in step with what it does:
        # of 200 ms of reading that are the same in every run perf has 134 to 296, and pagelab 6 to 382. Without spinning they agree.
        if mode == "a":
            w.expect(perf_reading_ms / 2 < reads_ms < perf_reading_ms * 2, f"perf has {perf_reading_ms:.0f} ms of samples in reading, RUN {reads_ms:.0f} ms")


def of_run(w):
    """pagelab's own load by SQPOLL."""
    file = w.work / "load"
    recording = w.work / "load.rec"
    w.pagelab(
        "run", "-o", recording, "--name=sq", "--ioengine=io_uring", "--sqthread_poll=1", "--rw=randread", "--bs=4k", "--iodepth=8",
        "--size=8m", "--time_based", "--runtime=1", f"--filename={file}", "--allow-write", file,
    )
    budget = w.pagelab("show", recording, "budget")
    tasks = w.pagelab("show", recording, "tasks").stdout
    w.expect("iou-sqp-" in tasks, f"no iou-sqp among the tasks:\n{tasks}")
    w.expect(budget.returncode == 0, budget.stderr)


def run(w):
    w.needs("perf")
    program = w.compile("01-io-uring-threads", "-pthread")
    data = w.work / "data"
    data.write_bytes(bytes(1 << 20))
    faults(w, program, data)
    cpu_time(w, program, data)
    of_run(w)
