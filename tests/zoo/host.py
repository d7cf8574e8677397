"""What a case changes on the host, and how that is put back."""

import os
import pathlib
import time


class Host:
    """Files of the kernel that were written, and are put back."""

    def __init__(self):
        self.before = {}

    def read(self, path):
        text = pathlib.Path(path).read_text().strip()
        chosen = [word[1:-1] for word in text.split() if word.startswith("[")]
        return chosen[0] if chosen else text

    def write(self, path, value):
        for one in (self.TWINS.get(path, path), path):
            self.before.setdefault(one, self.read(one))
        if self.read(path) != value:
            pathlib.Path(path).write_text(value)

    def write_only(self, wanted):
        """These values, and of all else that was written the ones before."""
        for path, value in (self.before | wanted).items():
            self.write(path, value)

    # Of two settings for one limit the kernel sets the other to 0, and takes no 0 back.
    TWINS = {"/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio"}

    def put_back(self):
        for path, value in self.before.items():
            if self.read(path) == value:
                continue
            if value == "0" and path in self.TWINS:
                pathlib.Path(self.TWINS[path]).write_text(self.before[self.TWINS[path]])
            else:
                pathlib.Path(path).write_text(value)
        wrong = [path for path, value in self.before.items() if self.read(path) != value]
        if wrong:
            raise SystemExit(f"zoo: not as before: {wrong}")
        self.before = {}


class Groups:
    """A control group of its own for each run, in whichever version has the controller."""

    ROOT = pathlib.Path("/sys/fs/cgroup")
    # Files of version 1 for limits of version 2.
    V1 = {"memory.max": ("memory", "memory.limit_in_bytes"), "cpu.max": ("cpu", "cpu.cfs_quota_us"), "cpu.max.burst": ("cpu", "cpu.cfs_burst_us"), "io.max": ("blkio", None)}

    def __init__(self, device):
        self.made = set()
        self.device = device

    def make(self, limits):
        """Folders whose cgroup.procs take the run in."""
        folders = []
        for name, value in limits.items():
            controller, file = self.V1[name]
            is_v1 = (self.ROOT / controller).is_dir()
            folder = (self.ROOT / controller if is_v1 else self.ROOT) / "zoo"
            folder.mkdir(exist_ok=True)
            self.made.add(folder)
            folders.append(folder)
            self.limit(folder, name, value, file, is_v1)
        return folders

    def limit(self, folder, name, value, file, is_v1):
        if not is_v1:
            value = f"{self.device} {value}" if name == "io.max" else value
            (folder / name).write_text(value)
        elif name == "io.max":
            for kind in ("read", "write"):
                iops = value.partition("riops=")[2] or "0"
                (folder / f"blkio.throttle.{kind}_iops_device").write_text(f"{self.device} {iops}")
        elif name == "cpu.max":
            quota, period = value.split()
            (folder / "cpu.cfs_period_us").write_text(period)
            (folder / file).write_text("-1" if quota == "max" else quota)
        else:
            (folder / file).write_text(value)

    def remove(self):
        for folder in self.made:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)
        self.made = set()


def device_of(path):
    number = os.stat(path).st_dev
    name = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    disk = name.parent if (name / "partition").exists() else name
    return disk.name, (disk / "dev").read_text().strip()
