/** Every run as a dot: both sides on one scale, with their means. */

import { chart } from "./chart.js";
import type { Comparison, RunEntry } from "./document.js";
import { s } from "./dom.js";
import { quantity } from "./format.js";
import { extent, linear } from "./scale.js";
import { SIDES } from "./sources.js";

const WIDTH = 880;
const HEIGHT = 120;
const LEFT = 70;

/** Values of the runs that count. */
export function values(runs: readonly RunEntry[]): number[] {
  return runs.flatMap((run) => (run.excluded === null && run.primary !== null ? [run.primary] : []));
}

/** The picture; none where there is nothing to draw. */
export function runs(comparison: Comparison, id: string): HTMLElement | null {
  const primary = comparison.primary;
  const sides = [
    { name: "base", runs: comparison.base.runs, mean: primary?.base_mean ?? null },
    { name: "test", runs: comparison.test.runs, mean: primary?.test_mean ?? null },
  ];
  const all = sides.flatMap((side) => values(side.runs));
  if (!primary || all.length === 0) return null;
  const [low, high] = extent(all);
  const margin = (high - low || Math.abs(high) || 1) * 0.05;
  const x = linear(low - margin, high + margin, LEFT, WIDTH - 20);
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "runs" });
  // So many digits that two ticks are never named the same.
  const step = (x.ticks[1] ?? high) - (x.ticks[0] ?? low);
  const digits = step > 0 ? Math.min(15, Math.max(4, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step)) + 1)) : 4;
  for (const tick of x.ticks) {
    picture.append(
      s("line", { x1: x(tick), x2: x(tick), y1: 8, y2: HEIGHT - 24, class: "grid" }),
      s("text", { x: x(tick), y: HEIGHT - 8, "text-anchor": "middle", class: "tick" }, quantity(tick, primary.unit, digits)),
    );
  }
  for (const [row, side] of sides.entries()) {
    const y = 30 + row * 42;
    picture.append(s("text", { x: LEFT - 12, y: y + 4, "text-anchor": "end", class: "name" }, side.name));
    for (const [place, run] of side.runs.entries()) {
      if (run.primary === null || run.excluded !== null) continue;
      // Runs in the order in which they were made, one a little below the other, so that equal ones do not hide each other.
      const shift = ((place % 5) - 2) * 4;
      picture.append(
        s("circle", { cx: x(run.primary), cy: y + shift, r: 4.5, class: `run ${side.name}` }, s("title", {}, `${side.name}, run ${run.run ?? place + 1}: ${quantity(run.primary, primary.unit)}`)),
      );
    }
    if (side.mean !== null) picture.append(s("line", { x1: x(side.mean), x2: x(side.mean), y1: y - 16, y2: y + 16, class: `mean ${side.name}` }));
  }
  return chart({
    id,
    title: `${primary.metric} of every run`,
    about: `A dot is a run, a line the mean of its side; ${primary.direction === "lower" ? "less is better" : primary.direction === "higher" ? "more is better" : "neither way is better"}.`,
    picture,
    table: {
      columns: [{ name: "side" }, { name: "run" }, { name: `${primary.metric}, ${primary.unit}`, isNumber: true }, { name: "recording" }, { name: "left out" }],
      rows: sides.flatMap((side) => side.runs.map((run, place) => [side.name, run.run ?? place + 1, run.primary, run.dir, run.excluded?.reason ?? ""])),
    },
    data: { primary, base: comparison.base, test: comparison.test },
    source: {
      command: "pagelab compare --each-run BASE TEST",
      sql: "SELECT dir, run, measured_end_ns - measured_start_ns AS elapsed_ns, operations FROM runs",
      of: SIDES,
      isBeneath: true,
    },
  });
}
