"""pushes.py REPOSITORY COUNT: so many pushes of 40 files, each kept as a pack of its own."""
import subprocess
import sys

repository, count = sys.argv[1], int(sys.argv[2])
for push in range(count):
    lines = [f"commit refs/heads/main\ncommitter A <a@example.org> {1700000000 + push} +0000\ndata 4\npush"]
    if push:
        lines.append("from refs/heads/main^0")
    for number in range(40):
        text = f"{push} {number}\n" * 20
        lines.append(f"M 100644 inline {push % 50}/{number}\ndata {len(text)}\n{text}")
    command = ["git", "-C", repository, "-c", "gc.auto=0", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force"]
    subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True)
