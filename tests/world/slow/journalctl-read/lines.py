"""lines.py FIRST COUNT: so many lines of a journal in the export format, one a millisecond."""
import sys

first, count = int(sys.argv[1]), int(sys.argv[2])
for number in range(first, first + count):
    print(f"__REALTIME_TIMESTAMP={1700000000000000 + number * 1000}")
    print(f"__MONOTONIC_TIMESTAMP={1000000 + number * 1000}")
    print("_BOOT_ID=0123456789abcdef0123456789abcdef")
    print("_MACHINE_ID=fedcba9876543210fedcba9876543210")
    print("PRIORITY=6\nSYSLOG_IDENTIFIER=web\n_SYSTEMD_UNIT=web.service")
    print(f"MESSAGE=GET /item/{number} 200 {number * 37 % 5000}\n")
