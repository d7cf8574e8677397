/** What tasks waited for when they were off their CPUs. */

import { bars } from "./bars.js";
import { chart } from "./chart.js";
import type { OneComponent } from "./document.js";
import { duration } from "./format.js";
import { word } from "./sources.js";

const SHOWN = 20;

/** The figure; none where no task waited, or nobody recorded it. */
export function waits(components: readonly OneComponent[], dir: string, id: string): HTMLElement | null {
  const all = components.filter((one) => one.state !== "run" && one.ns > 0);
  if (all.length === 0) return null;
  const whole = all.reduce((sum, one) => sum + one.ns, 0);
  const shown = all.slice(0, SHOWN).map((one) => ({
    name: one.component,
    value: one.ns,
    text: `${duration(one.ns)}, ${((100 * one.ns) / whole).toFixed(1)} %`,
    about: one.about,
    kind: `state-${one.state}`,
  }));
  return chart({
    id,
    title: "Waiting",
    about: "Time of all tasks off their CPUs, by what they waited for, and ready without a CPU (outlined).",
    picture: bars(shown, "waits", 220, 160),
    table: {
      columns: [{ name: "component" }, { name: "what it is" }, { name: "time, ns", isNumber: true }, { name: "standard error, ns", isNumber: true }, { name: "wall, ns", isNumber: true }],
      rows: all.map((one) => [one.component, one.about, one.ns, one.error_ns, one.wall_ns]),
    },
    data: all,
    source: {
      command: `pagelab show ${word(dir)} budget --top 0`,
      sql: "SELECT state, call, off_state, w.by, sum(ns) AS ns, sum(times) AS times FROM waits w WHERE state IN ('off', 'ready') GROUP BY state, call, off_state, w.by ORDER BY ns DESC",
      of: [dir],
      isBeneath: true,
    },
  });
}
