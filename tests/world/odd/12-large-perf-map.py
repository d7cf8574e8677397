"""A map of 20 MB that names code made at run time."""

import pathlib
import re

TRUTH = "the_hot_one, whose line is the last, has some 70 % (perf)"

PROGRAM = """
import ctypes, mmap, os, sys, time
memory = mmap.mmap(-1, 1 << 16, prot=7)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
code = bytes([0x55, 0x48, 0x89, 0xE5, 0xB9, 0x80, 0x84, 0x1E, 0, 0xFF, 0xC9, 0x75, 0xFC, 0x5D, 0xC3])
memory[256:256 + len(code)] = code
path = f"/tmp/perf-{os.getpid()}.map"
with open(path, "w") as names:
    if sys.argv[2] == "first":
        names.write("%x 40 the_hot_one\\n" % (start + 256))
    names.write("".join("%x 10 filler_function_with_a_name_that_is_long_%d\\n" % (0x10000000 + i * 16, i) for i in range(int(sys.argv[3]))))
    if sys.argv[2] == "last":
        names.write("%x 40 the_hot_one\\n" % (start + 256))
call = ctypes.CFUNCTYPE(None)(start + 256)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    call()
if sys.argv[4] == "gone":
    os.unlink(path)
else:
    print(path)
"""


def run(w):
    program = w.work / "bigmap.py"
    program.write_text(PROGRAM)
    # Longer than what is read while the program runs, and what is kept of it; and removed by the process, which had time.
    forms = {"last": (0.7, "last", 400_000, "stays"), "first": (0.7, "first", 400_000, "stays"), "gone": (1.5, "last", 1000, "gone")}
    for name, words in forms.items():
        recording = w.record("python3", program, *words, name=name)
        share = recording.leaves().get("the_hot_one", 0)
        for path in re.findall(r"/tmp/perf-[0-9]+\.map", recording.stdout):
            pathlib.Path(path).unlink()
        w.expect(share > 10, f"{name}: found {dict(list(recording.leaves().items())[:4])}, needed the_hot_one")
