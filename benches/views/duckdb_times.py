"""Answers queries for benches/views: one query per line of standard input, one line of seconds and answer each.

The first argument is the number of threads. Times are of execute and fetch; a connection is open, as in a notebook.
"""

import sys
import time
from decimal import Decimal

import duckdb

connection = duckdb.connect()
connection.execute(f"SET threads = {int(sys.argv[1])}")
print(duckdb.__version__, flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    rows = connection.execute(line).fetchall()
    seconds = time.perf_counter() - start
    total = sum(value for row in rows for value in row if isinstance(value, (int, float, Decimal)))
    print(f"{seconds} {len(rows)} {total}", flush=True)
