"""pipes.py COUNT MIB: holds so many pipes open, then moves so many MiB through one more."""
import os
import resource
import sys

count, mib = int(sys.argv[1]), int(sys.argv[2])
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 4096), limit))
held = [os.pipe() for _ in range(count)]
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    os.close(reads)
    block = bytes(65536)
    for _ in range(mib * 16):
        left = memoryview(block)
        while left:
            left = left[os.write(writes, left):]
    os._exit(0)
os.close(writes)
while os.read(reads, 65536):
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
