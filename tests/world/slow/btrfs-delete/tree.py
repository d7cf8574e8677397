"""tree.py FOLDER COUNT: so many files of 6 KB, which are extents of their own, 300 in a folder."""
import os
import sys

folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    if number % 300 == 0:
        os.mkdir(f"{folder}/{number // 300}")
    with open(f"{folder}/{number // 300}/{number}", "wb") as file:
        file.write(b"%06d" % number * 1000)
