/** Latency over time: quantiles of the operations of each interval, both sides beside each other on one scale. */

import { chart } from "./chart.js";
import type { LatencyInterval, LatencyOverTime } from "./document.js";
import { s } from "./dom.js";
import { duration, time } from "./format.js";
import { apart, axes, line, type Axis, type Panel } from "./panel.js";
import { extent, linear } from "./scale.js";
import { bySide, eachRun, LEGEND, legend, shownRuns, type Side } from "./sides.js";
import { word } from "./sources.js";

const WIDTH = 880;
const LEFT = 64;
/** Room for the names of the lines. */
const RIGHT = 44;
const TOP = 26;
const HEIGHT = 150;
const BOTTOM = 30;
/** Rows of the table at most: the file has all. */
const LISTED = 600;
/** More marks than this hide their line. */
const MARKED = 80;

export const QUANTILES = ["p50", "p99", "max"] as const;
type Quantile = (typeof QUANTILES)[number];

const valueOf = (one: LatencyInterval, quantile: Quantile): number => one[`${quantile}_ns`];
const log = (value: number): number => Math.log10(Math.max(1, value));

/** A mark of its own for each quantile: colours tell the sides. */
function mark(quantile: Quantile, x: number, y: number, name: string, text: string): SVGElement {
  const title = s("title", {}, text);
  if (quantile === "p50") return s("circle", { cx: x, cy: y, r: 3, class: name }, title);
  if (quantile === "p99") return s("rect", { x: x - 2.5, y: y - 2.5, width: 5, height: 5, class: name }, title);
  return s("path", { d: `M${x} ${y - 4}l4 7h-8z`, class: name }, title);
}

/** The points of a line, broken where an interval had no operations. */
function points(intervals: readonly LatencyInterval[], step_ns: number, at: (one: LatencyInterval) => readonly [number, number]): (readonly [number, number] | null)[] {
  return intervals.flatMap((one, place) => {
    const before = intervals[place - 1];
    return before && one.end_ns - before.end_ns > 1.6 * step_ns ? [null, at(one)] : [at(one)];
  });
}

function lines(side: Side<LatencyOverTime>, direction: string, panel: Panel, across: Axis, up: Axis): SVGGElement {
  const intervals = side.of.courses.find((one) => one.direction === direction)?.intervals ?? [];
  const operations = intervals.reduce((sum, one) => sum + one.count, 0);
  const title = intervals.length === 0 ? `${side.name}: no ${direction}s` : `${side.name}: ${operations} ${direction}s`;
  const group = s("g", {}, s("text", { x: panel.left, y: panel.top - 8, class: "name" }, title), axes(panel, across, up));
  for (const { of } of side.others) {
    const others = of.courses.find((one) => one.direction === direction)?.intervals ?? [];
    for (const quantile of QUANTILES) {
      const at = (one: LatencyInterval): readonly [number, number] => [across.scale(one.end_ns), up.scale(log(valueOf(one, quantile)))];
      group.append(line(points(others, of.interval_ns, at), `thin ${side.name} ${quantile}`));
      // One interval makes no line.
      const [only, second] = others;
      if (only && !second) group.append(mark(quantile, ...at(only), `dot ${side.name} ${quantile}`, `${side.name}, another run, ${direction}, to ${duration(only.end_ns)}: ${quantile} ${duration(valueOf(only, quantile))} of ${only.count}`));
    }
  }
  const last = intervals.at(-1);
  const places = apart(QUANTILES.map((quantile) => (last ? up.scale(log(valueOf(last, quantile))) : 0)), 13);
  for (const [row, quantile] of QUANTILES.entries()) {
    const at = (one: LatencyInterval): readonly [number, number] => [across.scale(one.end_ns), up.scale(log(valueOf(one, quantile)))];
    group.append(line(points(intervals, side.of.interval_ns, at), `line ${side.name} ${quantile}`));
    if (intervals.length <= MARKED) {
      for (const one of intervals) group.append(mark(quantile, ...at(one), `mark ${side.name} ${quantile}`, `${side.name}, ${direction}, to ${duration(one.end_ns)}: ${quantile} ${duration(valueOf(one, quantile))} of ${one.count}`));
    }
    if (last) group.append(s("text", { x: across.scale(last.end_ns) + 8, y: (places[row] ?? 0) + 4, class: "tick" }, quantile));
  }
  return group;
}

const COLUMNS = [{ name: "side" }, { name: "recording" }, { name: "direction" }, { name: "interval's end, ns", isNumber: true }, { name: "operations", isNumber: true }, ...QUANTILES.map((name) => ({ name: `${name}, ns`, isNumber: true }))];

function rows(sides: readonly Side<LatencyOverTime>[]): (string | number)[][] {
  return eachRun(sides).flatMap(({ name, dir, of }) => of.courses.flatMap(({ direction, intervals }) => intervals.map((one) => [name, dir, direction, one.end_ns, one.count, ...QUANTILES.map((quantile) => valueOf(one, quantile))])));
}

/** The quantiles again in SQL: a quantile is the upper bound of the bucket that its operation is in. */
export function sql({ interval_ns, kind }: Pick<LatencyOverTime, "interval_ns" | "kind">): string {
  const quantile = (share: number): string => `min(CASE WHEN below >= ceil(${share} * operations) THEN high_ns END)`;
  return (
    "WITH o AS (SELECT ts - (SELECT measured_start_ns FROM runs) AS since, direction, high_ns, count FROM latency " +
    `WHERE kind = '${kind}' AND (thread IS NULL OR job NOT IN (SELECT job FROM latency WHERE thread IS NULL))), ` +
    // Threads write their second up to a quarter of one late.
    `b AS (SELECT greatest(ceil((since - 250000000) / ${interval_ns}.0), 1) AS number, direction, high_ns, max(since) AS end_ns, sum(count) AS count ` +
    "FROM o WHERE since > 0 GROUP BY number, direction, high_ns), " +
    "r AS (SELECT *, sum(count) OVER (PARTITION BY direction, number ORDER BY high_ns) AS below, sum(count) OVER (PARTITION BY direction, number) AS operations FROM b) " +
    `SELECT direction, max(end_ns) AS end_ns, max(operations) AS count, ${quantile(0.5)} AS p50_ns, ${quantile(0.99)} AS p99_ns, max(high_ns) AS max_ns ` +
    "FROM r GROUP BY direction, number ORDER BY direction, number"
  );
}

/** The figure; none without the latency of a load. */
export function latencyOverTime(sides: readonly Side<LatencyOverTime>[], id: string): HTMLElement | null {
  const directions = [...new Set(sides.flatMap(({ of }) => of.courses.map((one) => one.direction)))].sort();
  if (directions.length === 0) return null;
  const all = eachRun(sides).flatMap(({ of }) => of.courses.flatMap((one) => one.intervals));
  const end_ns = Math.max(1, ...all.map((one) => one.end_ns));
  const columns = sides.length;
  const width = WIDTH / columns - LEFT - RIGHT;
  const key = legend(sides, "p50", WIDTH);
  const above = key ? LEGEND : 0;
  const height = above + directions.length * (TOP + HEIGHT + BOTTOM);
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "latency-over-time" }, key);
  for (const [row, direction] of directions.entries()) {
    const intervals = eachRun(sides).flatMap(({ of }) => of.courses.filter((one) => one.direction === direction).flatMap((one) => one.intervals));
    const [low, high] = extent(intervals.flatMap((one) => [log(one.p50_ns), log(one.max_ns)]));
    const floor = Math.floor(low);
    const top = above + row * (TOP + HEIGHT + BOTTOM) + TOP;
    const y = linear(floor, Math.max(floor + 1, Math.ceil(high)), top + HEIGHT, top);
    const up = { scale: y, ticks: y.ticks.filter(Number.isInteger), text: (tick: number) => duration(10 ** tick) };
    for (const [column, side] of sides.entries()) {
      const panel = { left: LEFT + (column * WIDTH) / columns, top, width, height: HEIGHT };
      const x = linear(0, end_ns, panel.left, panel.left + width, 4);
      picture.append(lines(side, direction, panel, { scale: x, ticks: x.ticks, text: time }, up));
    }
  }
  return chart({
    id,
    title: "Latency over time",
    about: `Half of the operations of an interval (p50), 99 % of them (p99) and all (max) took no longer; each point stands at the end of its interval of ${duration(sides[0]?.of.interval_ns ?? 0)}, on a logarithmic scale.${shownRuns(sides)}`,
    picture,
    table: { columns: COLUMNS, rows: rows(sides).slice(0, LISTED) },
    all: () => ({ columns: COLUMNS, rows: rows(sides) }),
    data: bySide(sides),
    source: {
      command: sides.map(({ dir }) => `pagelab show ${word(dir)} latency    (an interval at a time: --from S --to S)`).join("\n"),
      sql: sides[0] ? sql(sides[0].of) : "",
      of: sides.map(({ dir }) => dir),
    },
  });
}
