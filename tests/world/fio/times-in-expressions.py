"""Times in expressions, as the kernel's file system tests have them."""

import json

TRUTH = "by fio's grammar (exp/expression-parser.y) the unit is applied once to what stands in parentheses; outside of them fio 3.33 reads the first number"


def run(w):
    w.needs("fio")
    job = ["--output-format=json", "--name=a", "--ioengine=null", "--size=1m", "--time_based", "--rate_iops=100"]
    for runtime, operations in {"(2*1)": 200, "(4/4)": 100, "(1s*1)": 100, "(500ms+500ms)": 100}.items():
        done = json.loads(w.pagelab("run", "-q", *job, f"--runtime={runtime}", timeout=20).stdout)["jobs"][0]["read"]
        w.expect(abs(done["total_ios"] - operations) <= 5, f"runtime={runtime}: {done['total_ios']} operations in {done['runtime']} ms")
    text = w.run("fio", *job, "--runtime=1*3").stdout
    theirs = json.loads(text[text.index("{") :])["jobs"][0]["read"]["total_ios"]
    ours = w.pagelab("run", "-q", *job, "--runtime=1*3", timeout=20)
    found = json.loads(ours.stdout)["jobs"][0]["read"]["total_ios"]
    w.expect(abs(found - theirs) <= 5, f"runtime=1*3: fio does {theirs} operations, pagelab {found}")
    checked = w.pagelab("run", "--parse-only", *job[1:], "--runtime=1*3").stderr
    w.expect("passed over" in checked, f"nothing tells that *3 is not read: {checked}")
