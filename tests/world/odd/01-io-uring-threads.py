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


def perf_shares(w, *command):
    """Shares of perf's samples in the kernel's threads, and below the kernel's reading of files, in percent."""
    data = w.work / "perf.data"
    w.run("perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "997", "-o", data, "--", *command)
    stacks = w.run("perf", "script", "-i", data, "-F", "comm,ip,sym").stdout.split("\n\n")
    stacks = [stack.strip() for stack in stacks if stack.strip()]
    threads = sum(stack.startswith("iou-") for stack in stacks)
    reading = sum("filemap_read" in stack for stack in stacks)
    return 100 * threads / len(stacks), 100 * reading / len(stacks)


def cpu_time(w, program, data):
    """CPU time of the kernel's threads, in profile, tasks and budget."""
    for mode in ["a", "s"]:
        command = [program, data, mode, 60000, 32768]
        truth, truly_reading = perf_shares(w, *command)
        recording = w.record(*command, name=f"busy-{mode}", status=0, observe="default,cpu")
        rows = recording.sql(
            "select t.comm like 'iou-%' theirs, count(*) n from samples s join "
            "(select task_id, max(comm) filter (where comm like 'iou-%') comm from tasks group by task_id) t "
            "on s.task_id = t.task_id group by 1"
        )
        counts = {bool(row["theirs"]): row["n"] for row in rows}
        share = 100 * counts.get(True, 0) / max(sum(counts.values()), 1)
        w.expect(abs(share - truth) < 15, f"mode {mode}: perf has {truth:.0f} % of samples in the kernel's threads, pagelab {share:.0f} %")
        usage = recording.manifest["rusage"]
        counted = usage["utime_ns"] + usage["stime_ns"]
        tasks = recording.show("tasks")["sums"]["cpu_ns"]
        w.expect(0.9 * counted < tasks < 1.15 * counted + 3e7, f"mode {mode}: wait4 {counted / 1e9:.3f} s, tasks {tasks / 1e9:.3f} s")
        budget = recording.show("budget")
        w.expect(0.9 * counted < budget["kernel_run_ns"] < 1.15 * counted, f"mode {mode}: wait4 {counted} ns, budget {budget['kernel_run_ns']} ns")
        reads = sum(row["pct"] for row in budget["components"] if row["component"].startswith("run.file"))
        reads *= budget["lives_ns"] / budget["run_ns"]
        # Two runs; where a thread of the kernel spins for the next request, how long it does is most of what differs between them.
        times = 2 if mode == "a" else 3
        w.expect(truly_reading / times < reads < truly_reading * times, f"mode {mode}: perf has {truly_reading:.1f} % of samples in reading, RUN has {reads:.1f} %")


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
