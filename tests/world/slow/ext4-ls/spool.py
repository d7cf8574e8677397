"""spool.py FOLDER COUNT: a spool through which so many files have gone; 20 are left."""
import os
import sys

folder, count = sys.argv[1], int(sys.argv[2])
os.mkdir(folder)
for number in range(20):
    os.mknod(f"{folder}/kept-{number:08}")
for number in range(count):
    os.mknod(f"{folder}/message-{number:024}.eml")
for number in range(count):
    os.unlink(f"{folder}/message-{number:024}.eml")
