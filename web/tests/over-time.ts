/** A recording against time, for tests. */

import type { IoMap, OtherRun, OverTime } from "../src/document.js";

/** A name that would be markup, and reorders the text around it. */
export const EVIL = `<img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script>\u202e`;

export const file = (name: string, more: Partial<IoMap> = {}): IoMap => ({
  name,
  file_id: 1,
  start_ns: 0,
  span_ns: 1e9,
  low_bytes: 0,
  high_bytes: 64 << 20,
  columns: 160,
  rows: 60,
  cells: [[0, 0, 5, 0], [10, 3, 1, 2], [159, 59, 0, 900]],
  reads: 6,
  writes: 902,
  ...more,
});

/** Latencies are `factor` microseconds. */
export function overTime(dir: string, factor: number): OverTime {
  const interval = (second: number): { end_ns: number; count: number; p50_ns: number; p99_ns: number; max_ns: number } => ({ end_ns: second * 1e9, count: 100 * second, p50_ns: 1000 * factor, p99_ns: 9000 * factor, max_ns: 90_000 * factor });
  return {
    dir,
    latency: { start_ns: 5, interval_ns: 1e9, kind: "lat", courses: [{ direction: "read", intervals: [interval(1), interval(2), interval(4)] }] },
    io: { table: "syscalls", files: [file(EVIL), file("/other")], files_total: 9, sizes: [[4096, 6, 2], [65536, 0, 900]] },
    series: {
      start_ns: 5,
      span_ns: 4e9,
      width_ns: 1e9,
      courses: [
        { table: "metrics", name: "psi.io.some_ns", instance: null, kind: "counter", unit: "ns/s", values: [1e6, null, 3e6, 4e6] },
        { table: "counters", name: "cycles", instance: null, kind: "counter", unit: "count/s", values: [1, 2, 3, 4 * factor] },
      ],
    },
  };
}

/** Another run of the same side. */
export function otherRun(dir: string, run: number, factor: number): OtherRun {
  const { latency, series } = overTime(dir, factor);
  return { dir, run, latency, series };
}
