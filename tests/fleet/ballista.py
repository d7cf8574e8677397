"""A cluster of Ballista on loopback: one scheduler and executors, stock binaries, with an environment that speaks to a store.

Executors ask for work. Where the scheduler gives it out (push-staged, the default), version 55.0.0 does not give out anew what a dead executor
had, until another one comes.
"""

import signal
import subprocess
import time

from stores import await_port, free_port


class Cluster:
    """Scheduler and executors; `url` is what --cluster takes. Each logs into a file of `folder`."""

    def __init__(self, programs, folder, env, executors=2, slots=2):
        self.programs, self.folder, self.slots = programs, folder, slots
        folder.mkdir(parents=True, exist_ok=True)
        # Executors read from the store with the keys of their own environment.
        self.env = {**env, "AWS_ALLOW_HTTP": "true", "RUST_LOG": "warn"}
        self.port, self.executors, self.started = free_port(), [], 0
        self.scheduler = self.start("scheduler", "ballista-scheduler", "--bind-host", "127.0.0.1", "--external-host", "127.0.0.1", "--bind-port", self.port,
                                    "--scheduler-policy", "pull-staged", "--executor-timeout-seconds", 10, "--expire-dead-executor-interval-seconds", 1, "--no-executors-grace-period-seconds", 15)
        await_port(self.scheduler, self.port)
        for _ in range(executors):
            self.add_executor()

    @property
    def url(self):
        return f"df://127.0.0.1:{self.port}"

    def start(self, name, program, *words):
        log = open(self.folder / f"{name}.log", "w")
        return subprocess.Popen([str(word) for word in (self.programs / program, *words)], env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def add_executor(self):
        port, grpc, health = free_port(), free_port(), free_port()
        self.started += 1
        work = self.folder / f"work-{self.started}"
        work.mkdir()
        executor = self.start(f"executor-{self.started}", "ballista-executor", "--scheduler-host", "127.0.0.1", "--scheduler-port", self.port,
                              "--bind-host", "127.0.0.1", "--external-host", "127.0.0.1", "--bind-port", port, "--bind-grpc-port", grpc, "--bind-health-port", health,
                              "--task-scheduling-policy", "pull-staged", "--executor-heartbeat-interval-seconds", 2, "--vcores", self.slots, "--work-dir", work, "--scheduler-connect-timeout-seconds", 20)
        await_port(executor, port)
        self.executors.append(executor)
        time.sleep(1)

    def close(self):
        for process in [*self.executors, self.scheduler]:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
