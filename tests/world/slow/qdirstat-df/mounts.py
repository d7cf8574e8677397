"""mounts.py FOLDER COUNT: so many mounts below the folder."""
import ctypes
import os
import sys

folder, count = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
MS_BIND = 4096
os.makedirs(f"{folder}/volume", exist_ok=True)
for number in range(count):
    at = f"{folder}/pod-{number:06}"
    os.makedirs(at, exist_ok=True)
    if libc.mount(f"{folder}/volume".encode(), at.encode(), None, MS_BIND, None):
        raise OSError(ctypes.get_errno(), at)
