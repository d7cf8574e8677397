/** What tasks waited for when they were off their CPUs. */

import { bars } from "./bars.js";
import { chart } from "./chart.js";
import { componentBar, componentTable } from "./components.js";
import type { OneComponent } from "./document.js";
import { word } from "./sources.js";

const SHOWN = 20;

/** The figure; none where no task waited, or nobody recorded it. */
export function waits(components: readonly OneComponent[], dir: string, id: string): HTMLElement | null {
  const all = components.filter((one) => one.state !== "run" && one.ns > 0);
  if (all.length === 0) return null;
  const whole = all.reduce((sum, one) => sum + one.ns, 0);
  const shown = all.slice(0, SHOWN).map((one) => componentBar(one, (100 * one.ns) / whole));
  return chart({
    id,
    title: "Waiting",
    about: "Time of all tasks off their CPUs, by what they waited for, and ready without a CPU (outlined).",
    picture: bars(shown, "waits", 220, 160),
    table: componentTable(all),
    data: all,
    source: {
      command: `pagelab show ${word(dir)} budget --top 0`,
      sql: "SELECT state, call, off_state, w.by, sum(ns) AS ns, sum(times) AS times FROM waits w WHERE state IN ('off', 'ready') GROUP BY state, call, off_state, w.by ORDER BY ns DESC",
      of: [dir],
      isBeneath: true,
    },
  });
}
