"""Causes that only the call and the functions tell in which a program waits: pages that are read before a part of them is written, and a
journal that is full. For tuning: the rules were written beside them, after the eighth set had shown what was missing.
"""

from cases import Side, dropped
from kinds import either, kind, perl, python, shell

LEDGER = "{dir}/w-pages.data"
MAKE_LEDGER = [["sh", "-c", f"[ -e {LEDGER} ] || head -c 256M {{dir}}/large.data > {LEDGER}; sync {LEDGER}"], *dropped(LEDGER)]


@kind("tuning", "write.partial", "perl-records", 800, place="device", components=("off.read",), touches=("readahead", "io"),
      truth="Records of 1000 bytes are written where records of a whole page were: each page is read from the disk before a part of it is written.")
def _(n):
    text = (f"open(my $f, '+<', q({LEDGER})); my $b = 'x' x {{bytes}}; "
            f"for my $i (1 .. {n}) {{ sysseek($f, $i * 104729 % 8192 * 32768, 0); syswrite($f, $b) }}")
    return either(perl, text, "{bytes}", (4096, 1000), before=MAKE_LEDGER)


@kind("tuning", "write.partial", "dd-blocks", 800, place="device", components=("off.read",), touches=("readahead", "io"),
      truth="dd writes over a file in blocks of 512 bytes less than 4 KiB: the end of each page is read from the disk, because the next block begins in it.")
def _(n):
    return either(shell, f"dd if=/dev/zero of={LEDGER} bs={{bytes}} count={n} conv=notrunc status=none", "{bytes}", (4096, 3584), before=MAKE_LEDGER)


@kind("tuning", "cache.cold", "reads-then-writes", 400, place="device", components=("off.read",), touches=("readahead", "io"),
      truth="A program reads records that are in the page cache on one side only and writes whole pages of another file on both sides: nothing is read for "
            "a write.")
def _(n):
    text = (f"import os\nf = os.open('{LEDGER}', os.O_RDONLY)\nos.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)\n"
            f"g = os.open('{{dir}}/w-out.data', os.O_RDWR | os.O_CREAT)\n"
            f"for i in range({n}): os.pwrite(g, os.pread(f, 4096, i * 104729 % 8192 * 32768), i * 4096)")
    warm = [*MAKE_LEDGER, ["sh", "-c", f"cat {LEDGER} > /dev/null"]]
    return Side(python(text), before=warm), Side(python(text), before=MAKE_LEDGER)


def on_journal(name, fill, line):
    """A command on an ext4 of 1 KiB blocks, with a journal of 32 MiB and of 1 MiB."""
    folder = f"{{dir}}/w-{name}"
    image = f"{folder}-MIB.img"
    fresh = (f"mkdir -p {folder}; truncate -s 0 {image}; truncate -s 160M {image} && "
             f"mkfs.ext4 -q -F -b 1024 -N 40000 -J size=MIB -E lazy_itable_init=0 {image} && {fill} sync {image}")
    there = (f"d=$(losetup -f --show --direct-io=on {image}) && mount $d {folder} && losetup -d $d || exit 9; cd {folder}; {line}; status=$?; "
             f"cd /; umount {folder}; exit $status")
    return tuple(Side(["unshare", "-m", "sh", "-c", there.replace("MIB", mib)], before=[["sh", "-c", fresh.replace("MIB", mib)]]) for mib in ("32", "1"))


@kind("tuning", "journal.full", "folders", 4000, largest=60, place="journal", components=("off.journal", "off.flush"), touches=("dirty", "io"),
      truth="The journal of the file system has one MiB instead of 32: who makes many folders waits until old blocks are written to their places.")
def _(n):
    return on_journal("folders", "", f"python3 -c 'import os\nfor i in range({n}): os.makedirs(str(i % 97) + \"/\" + str(i))'")


@kind("tuning", "journal.full", "touch-names", 9000, largest=60, place="journal", components=("off.journal", "off.flush"), touches=("dirty", "io"),
      truth="The journal of the file system has one MiB instead of 32: touch(1) makes files and waits until the journal has room again.")
def _(n):
    return on_journal("names", "", f"mkdir -p $(seq 0 49); seq -f %.0f 1 {n} | awk \"{{ print \\$1 % 50 \\\"/n\\\" \\$1 }}\" | xargs touch")
