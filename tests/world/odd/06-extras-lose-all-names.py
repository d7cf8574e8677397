"""Parts of a file that are compressed in another way, or broken, and the names that the other parts have."""

TRUTH = ".symtab, .dynsym and .gnu_debugdata name alpha, beta, lib_work and hidden_work (nm), whatever is wrong with other parts"


def section_of(w, program, name):
    """Offset and size of a section in the file."""
    for line in w.run("readelf", "-SW", program).stdout.splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 6 and words[1] == name:
            return int(words[4], 16), int(words[5], 16)
    raise AssertionError(f"{program} has no section {name}")


def broken(w, program, section, copy):
    """A copy of the program with other bytes in a section."""
    at, size = section_of(w, program, section)
    content = bytearray(program.read_bytes())
    content[at : at + size] = bytes((7 * i + 13) & 0xFF for i in range(size))
    path = w.work / copy
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def half(w, name, command, functions):
    leaves = w.record(*command, name=name).leaves()
    for function, least in functions.items():
        w.expect(leaves.get(function, 0) > least, f"{name}: found {leaves}, needed more than {least} % in {function}")


def run(w):
    plain = w.compile("plain", "-g", "-gdwarf-5", source="named_work.c")
    ours = {"alpha": 50, "beta": 10}
    for kind in ("zlib", "zstd"):
        packed = w.work / kind
        w.run("objcopy", f"--compress-debug-sections={kind}", plain, packed)
        half(w, kind, (packed, 0.3), ours)
        half(w, f"{kind}-broken", (broken(w, packed, ".debug_info", f"{kind}-broken"), 0.3), ours)
    for section in (".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"):
        name = f"broken{section}"
        half(w, name, (broken(w, plain, section, name), 0.3), ours)

    # The file with what two programs have in common, which dwz moves there, is not installed.
    for name in ("one", "two"):
        w.compile(name, "-g", source="named_work.c")
    w.run("dwz", "-m", "common", "one", "two")
    (w.work / "common").rename(w.work / "elsewhere")
    half(w, "dwz", (w.work / "one", 0.3), ours)

    library = w.work / "libwork.so"
    w.run("gcc", "-O2", "-g", "-shared", "-fPIC", "-o", library, w.source / "named_lib.c")
    w.run("objcopy", "--only-keep-debug", library, "debug")
    w.run("strip", "-g", "debug")
    w.run("xz", "-kf", "debug")
    w.run("strip", "-s", library)
    w.run("objcopy", "--add-section", ".gnu_debugdata=debug.xz", library)
    uselib = w.compile("uselib", "-ldl", source="named_uselib.c")
    half(w, "xz", (uselib, library, 0.5), {"lib_work": 20, "hidden_work": 20})
    wrong = broken(w, library, ".gnu_debugdata", "libbroken.so")
    half(w, "xz-broken", (uselib, wrong, 0.5), {"lib_work": 20})
    reasons = [row for row in w.record(uselib, wrong, 0.5, name="why").show("profile")["unnamed"] if "libbroken" in (row["module"] or "")]
    said = " ".join(reason for row in reasons for reason in row["reasons"])
    w.expect(".gnu_debugdata" in said, f"found {reasons}, needed the section that cannot be read")
