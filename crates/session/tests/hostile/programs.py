"""Programs that a user may run to harm whoever records them: each maps a file as code, or names code that it makes, in a way
that no compiler and no runtime does, and is busy for a while.

    programs.py all SECONDS      every kind at the same time, each in a process of its own
    programs.py KIND SECONDS     one
"""
import ctypes
import mmap
import os
import struct
import subprocess
import sys
import time

# mov ecx, 50000000; again: dec ecx; jnz again; ret
CODE = b"\xb9" + struct.pack("<I", 50_000_000) + b"\xff\xc9\x75\xfc\xc3"
TEXT_AT = 0x1000
HUGE = 0xFFFF_FFFF_FFFF_F000
TIB = 1 << 40


def section(name, data=b"", kind=1, flags=2, addr=0, claims=None, link=0, entry=0):
    """`claims`: offset and size that the table says, whatever the file has."""
    return dict(name=name, data=data, kind=kind, flags=flags, addr=addr, claims=claims, link=link, entry=entry)


def elf(sections=(), segment=None, shnum=None, first_size=0, shoff=None):
    out = bytearray(0x1000) + CODE.ljust(0x1000, b"\0")
    names, table = b"\0", struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, first_size, 0, 0, 0, 0)
    all_sections = [section(b".text", flags=6, addr=TEXT_AT, claims=(TEXT_AT, len(CODE))), *sections]
    for one in [*all_sections, section(b".shstrtab", kind=3, flags=0)]:
        at = len(names)
        names += one["name"] + b"\0"
        if one["name"] == b".shstrtab":
            one["data"] = names
        offset, size = one["claims"] or (len(out), len(one["data"]))
        addr = one["addr"] if one["addr"] else offset
        if one["data"]:
            out += one["data"] + bytes(-len(one["data"]) % 8)
        table += struct.pack("<IIQQQQIIQQ", at, one["kind"], one["flags"], addr, offset, size, one["link"], 0, 8, one["entry"])
    sections_at = len(out)
    out += table
    count = len(all_sections) + 2
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, TEXT_AT, 64, shoff or sections_at, 0, 64, 56, 1, 64,
                          count if shnum is None else shnum, count - 1)
    load = segment or (0, 0, len(out), len(out))
    header += struct.pack("<IIQQQQQQ", 1, 5, load[0], load[1], load[1], load[2], load[3], 0x1000)
    out[: len(header)] = header
    return bytes(out)


def frame_entries(instructions):
    def entry(ident, body):
        body = struct.pack("<I", ident) + body
        body += bytes((-(len(body) + 4)) % 8)
        return struct.pack("<I", len(body)) + body

    common = entry(0, bytes([1, 0, 1, 0x78, 16]))
    return common + entry(len(common) + 4, struct.pack("<QQ", TEXT_AT, 0x1000) + instructions) + bytes(4)


def expression(operations):
    return b"\x0f" + bytes([len(operations)]) + operations


def table_of(target):
    at, frame = 0x9000, 0x8000
    rows = struct.pack("<ii", TEXT_AT - at, frame + target - at)
    return bytes([1, 0x1B, 0x03, 0x3B]) + struct.pack("<iI", frame - at - 4, 1) + rows


def symbols(value, size, name=1):
    names = b"\0looping\0"
    return [section(b".strtab", names, kind=3, flags=0),
            section(b".symtab", bytes(24) + struct.pack("<IBBHQQ", name, 0x12, 0, 1, value, size), kind=2, flags=0, link=2, entry=24)]


LOOPS = expression(b"\x2f\xfd\xff")
FILES = {
    "plain": lambda: elf(symbols(TEXT_AT, len(CODE))),
    "wrapped_section": lambda: elf([section(b".eh_frame", addr=HUGE, claims=(0, 0x2000))]),
    "wrapped_segment": lambda: elf(segment=(0, HUGE, HUGE, HUGE)),
    "huge_section_table": lambda: elf(shnum=0, first_size=1 << 32),
    "sections_beyond_the_file": lambda: elf(shoff=HUGE),
    "huge_frames": lambda: elf([section(b".eh_frame", claims=(0x2000, TIB))]),
    "frames_beyond_the_file": lambda: elf([section(b".eh_frame", claims=(HUGE, 0x10000))]),
    "expression_that_loops": lambda: elf([section(b".eh_frame", frame_entries(LOOPS), addr=0x8000)]),
    "expression_that_branches": lambda: elf([section(b".eh_frame", frame_entries(expression(b"\x31\x30\x28\xfb\xff")), addr=0x8000)]),
    "hidden_entry": lambda: elf([
        section(b".eh_frame", frame_entries(LOOPS), addr=0x8000),
        section(b".eh_frame_hdr", table_of(0x20), addr=0x9000)]),
    "long_entry": lambda: elf([section(b".eh_frame", frame_entries(b"\x41" * (32 << 20)), addr=0x8000)]),
    "debug_frame_that_loops": lambda: elf([section(b".debug_frame", frame_entries(LOOPS), flags=0)]),
    "wrapped_symbols": lambda: elf(symbols(HUGE, HUGE)),
    "unterminated_names": lambda: elf(symbols(TEXT_AT, len(CODE), name=0x7FFFFFFF)),
    "garbage_debug_info": lambda: elf([*symbols(TEXT_AT, len(CODE)),
        *(section(name, bytes(range(1, 256)) * 64, flags=0)
          for name in (b".debug_info", b".debug_abbrev", b".debug_line", b".debug_str", b".debug_ranges"))]),
    "link_to_a_fifo": lambda: elf([*symbols(TEXT_AT, len(CODE)),
        section(b".gnu_debuglink", b"../../../../../../tmp/pagelab-hostile-fifo".ljust(44, b"\0") + bytes(4), flags=0)]),
    "wrapped_note": lambda: elf([section(b".note.gnu.build-id", struct.pack("<III", 4, 0xFFFFFFF0, 3) + b"GNU\0", kind=7)]),
}
SPARSE = {"huge_section_table", "huge_frames"}


def busy_in(code, seconds):
    function = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)) if isinstance(code, mmap.mmap) else code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        function()


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def map_code(path):
    fd = os.open(path, os.O_RDONLY)
    at = LIBC.mmap(None, 0x2000, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0)
    os.close(fd)
    assert at not in (None, 2**64 - 1), os.strerror(ctypes.get_errno())
    return at


def write(path, content, sparse=False):
    with open(path, "wb") as file:
        file.write(content)
    if sparse:
        os.truncate(path, TIB)


def with_file(kind, seconds):
    path = f"{kind}.so"
    write(path, FILES[kind](), kind in SPARSE)
    busy_in(map_code(path) + TEXT_AT, seconds)


def renamed(replace):
    def run(kind, seconds):
        path = f"{kind}.so"
        write(path, FILES["plain"]())
        at = map_code(path)
        os.unlink(path)
        replace(path)
        busy_in(at + TEXT_AT, seconds)
    return run


def not_utf8(kind, seconds):
    path = b"not\xffutf8.so"
    write(path, FILES["plain"]())
    busy_in(map_code(path) + TEXT_AT, seconds)


def truncated(kind, seconds):
    """The file is shortened and written again all the time, also when the recorder looks up names in it."""
    path = f"{kind}.so"
    content = elf([*symbols(TEXT_AT, len(CODE)), section(b".filler", bytes(1 << 20), flags=0)])
    write(path, content)
    at = map_code(path)
    if os.fork() == 0:
        os.setsid()
        time.sleep(seconds + 1)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            os.truncate(path, 0)
            write(path, content)
        os._exit(0)
    busy_in(at + TEXT_AT, seconds)


def storm(kind, seconds):
    """Large unwind information without a table, in a process that maps and unmaps code all the time."""
    path = f"{kind}.so"
    filler = b"".join(frame_entries(b"\x41" * 40)[:-4] for _ in range(1))
    write(path, elf([section(b".eh_frame", filler * (8 << 20 >> 7), addr=0x8000)]))
    map_code(path)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        at = map_code(path)
        busy_in(at + TEXT_AT, 0)
        LIBC.munmap(ctypes.c_void_p(at), ctypes.c_size_t(0x2000))


def made_code(prepare):
    """Code in no file, and the file that is to name it."""
    def run(kind, seconds):
        at = LIBC.mmap(None, 0x1000, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        ctypes.memmove(at, CODE, len(CODE))
        path = f"/tmp/perf-{os.getpid()}.map"
        try:
            prepare(path, at)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                busy_in(at, 0)
                if kind == "map_that_shrinks":
                    prepare(path, at)
        finally:
            os.unlink(path)
    return run


def many_lines(path, at):
    write(path, b"".join(b"%05x 1 x\n" % n for n in range(900_000)) + b"%x 1000 found\n" % at)


KINDS = {kind: with_file for kind in FILES}
KINDS |= {
    "became_a_fifo": renamed(os.mkfifo),
    "became_a_device_link": renamed(lambda path: os.symlink("/dev/zero", path)),
    "became_a_cycle": renamed(lambda path: os.symlink(path, path)),
    "not_utf8": not_utf8,
    "truncated": truncated,
    "storm": storm,
    "map_fifo": made_code(lambda path, at: os.mkfifo(path)),
    "map_link": made_code(lambda path, at: os.symlink("/dev/zero", path)),
    "map_many_lines": made_code(many_lines),
    "map_long_name": made_code(lambda path, at: write(path, b"%x 1000 " % at + b"n" * (7 << 20) + b"\n")),
    "map_that_shrinks": made_code(lambda path, at: write(path, b"%x 1000 found\n" % at * (1 + time.monotonic_ns() % 20_000))),
}


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2])
    if kind != "all":
        KINDS[kind](kind, seconds)
        return
    if not os.path.exists("/tmp/pagelab-hostile-fifo"):
        os.mkfifo("/tmp/pagelab-hostile-fifo")
    running = {kind: subprocess.Popen([sys.executable, __file__, kind, sys.argv[2]]) for kind in KINDS}
    failed = [kind for kind, process in running.items() if process.wait() != 0]
    os.unlink("/tmp/pagelab-hostile-fifo")
    print("kinds", len(KINDS))
    assert not failed, failed


main()
