/** Latency: the quantiles of both sides, each with the interval of their ratio. */

import { chart } from "./chart.js";
import type { Comparison, LatencyChange } from "./document.js";
import { s } from "./dom.js";
import { duration, ratio } from "./format.js";
import { extent, linear } from "./scale.js";
import { SIDES } from "./sources.js";

const WIDTH = 880;
const ROW = 34;
const LEFT = 150;
const RIGHT = 220;

const name = (one: LatencyChange): string => `${one.instance ? `${one.instance} ` : ""}${one.kind} ${one.quantile}`;

/** The picture; none without distributions. */
export function latency(comparison: Comparison, id: string): HTMLElement | null {
  const all = (comparison.latency ?? []).filter((one) => one.base.mean !== null && one.test.mean !== null);
  if (all.length === 0) return null;
  const logs = all.flatMap((one) => [one.base.mean ?? 1, one.test.mean ?? 1]).map((value) => Math.log10(Math.max(1, value)));
  const [low, high] = extent(logs);
  const x = linear(Math.floor(low), Math.max(Math.floor(low) + 1, Math.ceil(high)), LEFT, WIDTH - RIGHT);
  const height = all.length * ROW + 30;
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "latency" });
  for (const tick of x.ticks.filter(Number.isInteger)) {
    picture.append(
      s("line", { x1: x(tick), x2: x(tick), y1: 4, y2: height - 22, class: "grid" }),
      s("text", { x: x(tick), y: height - 6, "text-anchor": "middle", class: "tick" }, duration(10 ** tick)),
    );
  }
  for (const [row, one] of all.entries()) {
    const y = 20 + row * ROW;
    const [base, test] = [Math.log10(Math.max(1, one.base.mean ?? 1)), Math.log10(Math.max(1, one.test.mean ?? 1))];
    picture.append(
      s("text", { x: LEFT - 10, y: y + 4, "text-anchor": "end", class: "name" }, name(one)),
      s("line", { x1: x(base), x2: x(test), y1: y, y2: y, class: one.significant ? "way sure" : "way" }),
      s("circle", { cx: x(base), cy: y, r: 5, class: "run base" }, s("title", {}, `base: ${duration(one.base.mean ?? 0)}`)),
      s("circle", { cx: x(test), cy: y, r: 5, class: "run test" }, s("title", {}, `test: ${duration(one.test.mean ?? 0)}`)),
      s("text", { x: WIDTH - RIGHT + 14, y: y + 4, class: "value" }, one.ratio === null ? "" : `× ${ratio(one.ratio, one.ratio_ci95)}`),
    );
  }
  return chart({
    id,
    title: "Latency",
    about: "Quantiles of both sides, means over their runs, on a logarithmic scale; behind them test over base with its 95 % interval.",
    picture,
    table: {
      columns: [{ name: "quantile" }, { name: "base, ns", isNumber: true }, { name: "test, ns", isNumber: true }, { name: "ratio", isNumber: true }, { name: "from", isNumber: true }, { name: "to", isNumber: true }],
      rows: all.map((one) => [name(one), one.base.mean, one.test.mean, one.ratio, one.ratio_ci95?.[0] ?? null, one.ratio_ci95?.[1] ?? null]),
    },
    data: all,
    source: {
      command: "pagelab compare --json BASE TEST    (latency)",
      sql: "SELECT variant, run, job, direction, kind, low_ns, high_ns, sum(count) AS operations FROM latency GROUP BY variant, run, job, direction, kind, low_ns, high_ns",
      of: SIDES,
      isBeneath: true,
    },
  });
}
