"""files.py FOLDER COUNT: so many files of 1 MiB that do not compress."""
import pathlib
import random
import sys

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
draw = random.Random(1)
for number in range(count):
    (folder / f"{number:04}").write_bytes(draw.randbytes(1 << 20))
