"""volume.py FOLDER FILES BLOCKS whole|pieces: a volume of small files, and a database of so many blocks in one extent or in as many."""
import os
import sys

folder, files, blocks, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.mkdir(folder)
for number in range(files):
    if number % 500 == 0:
        os.mkdir(f"{folder}/{number // 500}")
    with open(f"{folder}/{number // 500}/{number}", "wb") as file:
        file.write(b"x" * 4096)
database, beside = (os.open(path, os.O_CREAT | os.O_RDWR) for path in (f"{folder}/data.mdb", f"{folder}.beside"))
if how == "whole":
    os.posix_fallocate(database, 0, blocks * 4096)
else:
    # Another file grows in turns with it.
    for block in range(blocks):
        for file in (database, beside):
            os.posix_fallocate(file, block * 4096, 4096)
for block in range(0, blocks, 256):
    os.pwrite(database, os.urandom(4096 * min(256, blocks - block)), block * 4096)
os.fsync(database)
os.sync()
