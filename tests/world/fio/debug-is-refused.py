"""`--debug=` of fio's program is refused with what to do instead, and not silently taken."""

TRUTH = "fio prints its debugging lines; a program that prints none of them has to say so"


def run(w):
    said = w.pagelab("run", "--debug=io,file", "--name=a", "--rw=write", "--size=64k", status=2).stderr
    w.expect("--observe syscalls" in said and "write_iolog" in said, f"the refusal names nothing instead: {said}")
    w.expect(not (w.work / "a.0.0").exists(), "the job ran")
