"""What may be overwritten, for many files that another program laid out."""

TRUTH = "all files that would be overwritten are named at once, nothing is touched, and a folder or a pattern allows them"


def run(w):
    names = [f"f{number}" for number in range(4)] + ["w_bw.1.log"]

    def lay_out():
        for name in names:
            (w.work / name).write_bytes(b"7" * 65536)

    job = ["--name=w", "--rw=write", "--bs=64k", "--size=1m", "--filename=f0:f1:f2:f3", "--write_bw_log=w"]
    lay_out()
    said = w.pagelab("run", "-q", *job, status=2).stderr
    w.expect(all(f"--allow-write {name}" in said for name in names), said)
    w.expect(all((w.work / name).read_bytes() == b"7" * 65536 for name in names), "something was written")
    for allowed in (["--allow-write", "."], ["--allow-write", "f[0-3]", "--allow-write", "*.log"]):
        lay_out()
        w.pagelab("run", "-q", *allowed, *job)
        w.expect(all((w.work / f"f{number}").stat().st_size == 256 << 10 for number in range(4)), f"{allowed}")
    lay_out()
    said = w.pagelab("run", "-q", "--allow-write", "f[0-2]", *job, status=2).stderr
    w.expect("f3" in said and "w_bw.1.log" in said and "f1:" not in said, said)
