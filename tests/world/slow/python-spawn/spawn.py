"""spawn.py MIB COUNT plain|preexec: a parent of so many MiB that starts so many small programs."""
import subprocess
import sys

mib, count, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
model = bytearray(b"m" * (1 << 20)) * mib
for number in range(count):
    model[number << 12] = number % 256
    subprocess.run(["/bin/true"], check=True, preexec_fn=(lambda: None) if how == "preexec" else None)
