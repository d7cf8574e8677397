"""What /proc/PID/pagemap, /proc/kpageflags and /proc/PID/mem say of a range, page by page, by a reader that shares nothing with
pagelab. Usage: walk.py PID START END; prints one JSON object. Needs root: frame numbers are hidden from others."""

import json
import os
import struct
import sys

PAGE, PARTS = 4096, 512
PRESENT, SWAPPED, FILE, GUARD = 1 << 63, 1 << 62, 1 << 61, 1 << 58
FRAME = (1 << 55) - 1
# include/uapi/linux/kernel-page-flags.h
HEAD, TAIL, HUGE, THP, ZERO_PAGE = 1 << 15, 1 << 16, 1 << 17, 1 << 22, 1 << 24

pid, start, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
kpageflags = os.open("/proc/kpageflags", os.O_RDONLY)
memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)


def flags_of(frame):
    return struct.unpack("Q", os.pread(kpageflags, 8, frame * 8).ljust(8, b"\0"))[0]


def folio_pages(frame):
    """Walks to the head and to the last tail, one frame at a time."""
    if not flags_of(frame) & (HEAD | TAIL):
        return 1
    while not flags_of(frame) & HEAD:
        frame -= 1
    pages = 1
    while flags_of(frame + pages) & TAIL:
        pages += 1
    return pages


count = (end - start) // PAGE
entries = struct.unpack(f"{count}Q", os.pread(pagemap, count * 8, start // PAGE * 8))
sums = dict.fromkeys(["present", "zero_page", "swapped", "guard", "file", "pool", "huge", "base", "zero_parts"], 0)
folios = {}
flags = {}
for entry in entries:
    if entry & PRESENT:
        assert entry & FRAME, "frame numbers are hidden: run as root"
        flags[entry & FRAME] = flags_of(entry & FRAME)


def is_one_huge_page(first):
    """Whether the aligned 2 MiB from this entry on are one transparent huge page, whole and in order."""
    block = entries[first : first + PARTS]
    base = block[0] & FRAME
    return (
        len(block) == PARTS
        and base % PARTS == 0
        and all(entry & PRESENT and entry & FRAME == base + i for i, entry in enumerate(block))
        and all(flags[base + i] & THP and not flags[base + i] & ZERO_PAGE for i in range(PARTS))
        and folio_pages(base) == PARTS
    )


huge = set()
for first in range(-(start // PAGE) % PARTS, count, PARTS):
    if is_one_huge_page(first):
        huge.update(range(first, first + PARTS))

for index, entry in enumerate(entries):
    if entry & GUARD:
        sums["guard"] += PAGE
    elif entry & SWAPPED:
        sums["swapped"] += PAGE
    if not entry & PRESENT:
        continue
    sums["present"] += PAGE
    flag = flags[entry & FRAME]
    if flag & ZERO_PAGE:
        sums["zero_page"] += PAGE
        continue
    sums["file"] += PAGE if entry & FILE else 0
    if flag & HUGE or index in huge:
        sums["pool" if flag & HUGE else "huge"] += PAGE
        if os.pread(memory, PAGE, start + index * PAGE) == bytes(PAGE):
            sums["zero_parts"] += PAGE
        continue
    sums["base"] += PAGE
    size = folio_pages(entry & FRAME) * PAGE
    folios[size] = folios.get(size, 0) + PAGE

print(json.dumps({**sums, "folios": sorted(folios.items())}))
