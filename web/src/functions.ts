/** Functions that take more or less time on CPUs. */

import { chart } from "./chart.js";
import type { Comparison } from "./document.js";
import { s } from "./dom.js";
import { signedDuration } from "./format.js";
import { linear } from "./scale.js";
import { SIDES } from "./sources.js";

/** Time by innermost function. */
const INNERMOST =
  "SELECT i.variant, i.run, f.symbol, sum(i.weight) AS ns " +
  "FROM (SELECT s.variant, s.run, s.weight, t.frame_ids[1] AS innermost FROM samples s " +
  "JOIN (SELECT DISTINCT stack_id, frame_ids FROM stacks) t ON t.stack_id = coalesce(s.kstack_id, s.ustack_id)) i " +
  "JOIN (SELECT DISTINCT frame_id, symbol FROM frames) f ON f.frame_id = i.innermost GROUP BY i.variant, i.run, f.symbol ORDER BY ns DESC";

const SHOWN = 16;
const WIDTH = 880;
const ROW = 22;
const NAMES = 360;
const VALUES = 120;

/** The picture; none without a profile of both sides. */
export function functions(comparison: Comparison, id: string): HTMLElement | null {
  const moved = comparison.profile.filter((one) => one.delta_ns_per_op !== null && one.delta_ns_per_op !== 0);
  if (moved.length === 0) return null;
  const shown = moved.slice(0, SHOWN);
  const most = Math.max(...shown.map((one) => Math.abs(one.delta_ns_per_op ?? 0)));
  const x = linear(-most, most, NAMES, WIDTH - VALUES);
  const height = shown.length * ROW + 8;
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "functions" });
  picture.append(s("line", { x1: x(0), x2: x(0), y1: 2, y2: height - 2, class: "grid" }));
  for (const [row, one] of shown.entries()) {
    const delta = one.delta_ns_per_op ?? 0;
    const y = 4 + row * ROW;
    const isSure = one.significant === true;
    const short = one.frame.length > 48 ? `${one.frame.slice(0, 47)}…` : one.frame;
    picture.append(
      s("text", { x: NAMES - 8, y: y + 15, "text-anchor": "end", class: isSure ? "name" : "name unsure" }, short, s("title", {}, one.frame)),
      s("rect", { x: Math.min(x(0), x(delta)), y: y + 3, width: Math.max(1, Math.abs(x(delta) - x(0))), height: ROW - 6, class: `bar ${delta > 0 ? "more" : "less"}${isSure ? "" : " unsure"}` }),
      s("text", { x: WIDTH - VALUES + 8, y: y + 15, class: "value" }, signedDuration(delta)),
    );
  }
  return chart({
    id,
    title: "Functions",
    about: "Time in each function itself, test less base, from the samples of the profile. Pale: not significant in its family.",
    picture,
    table: {
      columns: [{ name: "function" }, { name: "base, ns", isNumber: true }, { name: "test, ns", isNumber: true }, { name: "difference, ns", isNumber: true }, { name: "q", isNumber: true }],
      rows: moved.slice(0, 500).map((one) => [one.frame, one.base_ns_per_op, one.test_ns_per_op, one.delta_ns_per_op, one.q]),
    },
    data: moved,
    source: { command: "pagelab compare --json BASE TEST    (profile)", sql: INNERMOST, of: SIDES, isBeneath: true },
  });
}
