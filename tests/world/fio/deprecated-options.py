"""Options that fio knows and takes no notice of, in the kernel's file system tests."""

TRUTH = "fio 3.33: 'Option verifysort is deprecated', and the job runs"


def run(w):
    w.needs("fio")
    words = ["--parse-only", "--name=a", "--ioengine=null", "--size=1m", "--verifysort=1", "--verifysort_nr=16"]
    said = w.run("fio", *words)
    w.expect("deprecated" in said.stdout + said.stderr, "fio says nothing")
    said = w.pagelab("run", *words).stderr
    w.expect("verifysort=1: deprecated" in said and "verifysort_nr=16: deprecated" in said, said)
