/** Stacks of the time off CPUs: what tasks waited for, and where. */

import type { OffCpu } from "./document.js";
import { flame } from "./flame.js";
import { SIDES, word } from "./sources.js";

/** Time until woken by stack: of rows of `sched` their own, of `waits` what the stacks stand for. */
const SQL: Readonly<Record<OffCpu["stream"], string>> = {
  sched: "SELECT variant, run, state, kstack_id, ustack_id, sum(dur - coalesce(CAST(runqueue_ns AS BIGINT), 0)) AS ns FROM offcpu WHERE dur IS NOT NULL AND coalesce(state, '') NOT LIKE 'R%' GROUP BY variant, run, state, kstack_id, ustack_id ORDER BY ns DESC",
  waits: "SELECT variant, run, off_state, iowait, call, s.by, kstack_id, sum(weight_ns) AS weight_ns FROM wait_stacks s GROUP BY variant, run, off_state, iowait, call, s.by, kstack_id ORDER BY weight_ns DESC",
};

const FROM: Readonly<Record<OffCpu["stream"], string>> = {
  sched: "From every switch (the stream sched), with the stacks of kernel and program.",
  waits: "From sums of waits, divided by the kernel stacks that were taken of some (the stream waits); with --observe default,sched the program's stacks are there, too.",
};

/** The figure of both sides, or of one recording. */
export function offCpu(off: OffCpu, id: string, dirs: readonly string[] | null): HTMLElement {
  const width = dirs ? "Each frame is as wide as the time off CPUs in it, until the task was woken" : "Each frame is as wide as the side that waited longer in it, until the task was woken; orange: more on test, green: less, hatched: on one side only";
  const sides = dirs ? "" : " Per run, of all runs.";
  return flame(off.root, {
    id,
    title: "Stacks off CPUs",
    about: `${width}. The lowest frames are the components of the account; pale: waiting for others (for each other, for requests, for a time), which is no loss by itself.${sides} ${FROM[off.stream]}`,
    isAlone: dirs !== null,
    passive: off.passive,
    kind: "off",
    source: {
      command: dirs ? dirs.map((dir) => `pagelab export folded ${word(dir)} --of waits`).join("\n") : "pagelab export folded RUN --of waits    (of each run)",
      sql: SQL[off.stream],
      of: dirs ?? SIDES,
      isBeneath: true,
    },
  });
}
