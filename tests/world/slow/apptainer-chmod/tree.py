"""tree.py FOLDER COUNT: so many empty files, 200 in a folder, none of them writable."""
import os
import sys

folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    if number % 200 == 0:
        os.mkdir(f"{folder}/{number // 200}")
    os.close(os.open(f"{folder}/{number // 200}/{number}", os.O_CREAT | os.O_WRONLY, 0o444))
