"""old.py MOUNT COUNT: so many old files of 8 KB, with a file that stays between any two of them."""
import os
import shutil
import sys

mount, count = sys.argv[1], int(sys.argv[2])
for folder in ("old", "kept"):
    shutil.rmtree(f"{mount}/{folder}", ignore_errors=True)
os.sync()
for number in range(count):
    for folder in ("old", "kept"):
        if number % 500 == 0:
            os.makedirs(f"{mount}/{folder}/{number // 500}")
        with open(f"{mount}/{folder}/{number // 500}/{number}", "wb") as file:
            file.write(b"x" * 8192)
file = os.open(mount, os.O_RDONLY)
os.fsync(file)
os.sync()
