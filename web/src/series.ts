/** Metrics and counted events over the measured time: a strip of small lines, both sides in each on one scale. */

import { chart } from "./chart.js";
import type { SeriesCourse, Series } from "./document.js";
import { s } from "./dom.js";
import { quantity, time } from "./format.js";
import { axes, line } from "./panel.js";
import { extent, linear, type Scale } from "./scale.js";
import { bySide, eachRun, LEGEND, legend, shownRuns, type Side } from "./sides.js";
import { word } from "./sources.js";

const WIDTH = 880;
const COLUMNS = 3;
const LEFT = 78;
const RIGHT = 14;
const TOP = 36;
const HEIGHT = 70;
const BOTTOM = 30;
/** Rows of the table at most: the file has all. */
const LISTED = 400;
/** A level that moves by less than this part of itself is drawn on a scale that does not begin at 0. */
const STEADY = 0.2;

const keyOf = (course: SeriesCourse): string => `${course.table} ${course.name}`;

/** The scale of a line chart: from 0, but for a level that hardly moves. */
export function range(courses: readonly SeriesCourse[]): [number, number] {
  const [low, high] = extent(courses.flatMap((course) => course.values.flatMap((value) => value ?? [])));
  const isSteady = courses.every((course) => course.kind === "gauge") && low > 0 && high - low < STEADY * high;
  return isSteady ? [low, high > low ? high : low * 1.01] : [0, high > 0 ? high : 1];
}

/** Digits with which the ends of a scale are told apart. */
export function digits(low: number, high: number, unit: string): number {
  return [3, 4, 5].find((digits) => quantity(low, unit, digits) !== quantity(high, unit, digits)) ?? 6;
}

/** Points of a line, each in the middle of its piece. */
function points(series: Series, course: SeriesCourse, x: Scale, y: Scale): (readonly [number, number] | null)[] {
  const middle = (place: number): number => (place * series.width_ns + Math.min(series.span_ns, (place + 1) * series.width_ns)) / 2;
  return course.values.map((value, place) => (value === null ? null : [x(middle(place)), y(value)]));
}

/** One small chart. */
function small(sides: readonly Side<Series>[], key: string, place: number, span_ns: number, above: number): SVGGElement {
  const of = (series: Series): { series: Series; course: SeriesCourse }[] => series.courses.filter((course) => keyOf(course) === key).map((course) => ({ series, course }));
  const found = sides.flatMap((side) => of(side.of).map((one) => ({ ...one, kind: `line series ${side.name}` })));
  const behind = sides.flatMap((side) => side.others.flatMap((other) => of(other.of).map((one) => ({ ...one, kind: `thin series ${side.name}` }))));
  const room = WIDTH / COLUMNS;
  const panel = { left: LEFT + (place % COLUMNS) * room, top: above + TOP + Math.floor(place / COLUMNS) * (TOP + HEIGHT + BOTTOM), width: room - LEFT - RIGHT, height: HEIGHT };
  const [low, high] = range([...behind, ...found].map(({ course }) => course));
  const x = linear(0, span_ns, panel.left, panel.left + panel.width, 3);
  const y = linear(low, high, panel.top + HEIGHT, panel.top);
  const unit = (found[0] ?? behind[0])?.course.unit ?? "";
  const name = key.slice(key.indexOf(" ") + 1);
  return s(
    "g",
    {},
    s("text", { x: panel.left - LEFT + 4, y: panel.top - 16, class: "name" }, name),
    axes(panel, { scale: x, ticks: x.ticks, text: time }, { scale: y, ticks: [low, high], text: (tick) => (tick === 0 ? "0" : quantity(tick, unit, digits(low, high, unit))) }),
    [...behind, ...found].map(({ series, course, kind }) => line(points(series, course, x, y), kind)),
  );
}

const TABLE = [{ name: "side" }, { name: "recording" }, { name: "metric or event" }, { name: "unit" }, { name: "from, ns", isNumber: true }, { name: "value", isNumber: true }];

function rows(sides: readonly Side<Series>[]): (string | number | null)[][] {
  return eachRun(sides).flatMap(({ name, dir, of }) => of.courses.flatMap((course) => course.values.map((value, place) => [name, dir, course.name, course.unit, place * of.width_ns, value])));
}

/** The figure; none where nothing was sampled. */
export function series(sides: readonly Side<Series>[], id: string): HTMLElement | null {
  const keys = [...new Set(eachRun(sides).flatMap(({ of }) => of.courses.map(keyOf)))];
  if (keys.length === 0) return null;
  const span_ns = Math.max(1, ...eachRun(sides).map(({ of }) => of.span_ns));
  const legended = legend(sides, "series", WIDTH);
  const above = legended ? LEGEND : 0;
  const height = above + Math.ceil(keys.length / COLUMNS) * (TOP + HEIGHT + BOTTOM);
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "series" }, legended);
  for (const [place, key] of keys.entries()) picture.append(small(sides, key, place, span_ns, above));
  const names = (table: string): string => keys.flatMap((key) => (key.startsWith(`${table} `) ? [`'${key.slice(table.length + 1)}'`] : [])).join(", ");
  const metrics = names("metrics");
  const lines = sides.length > 1 ? " Solid: base; dashed: test." : "";
  return chart({
    id,
    title: "Metrics and counters over time",
    about: `In the measured time: what grows as its increase per second, levels as their means.${lines} Scales begin at 0, but for levels that hardly move. What stays 0 is left out.${shownRuns(sides)}`,
    picture,
    table: { columns: TABLE, rows: rows(sides).slice(0, LISTED) },
    all: () => ({ columns: TABLE, rows: rows(sides) }),
    data: bySide(sides),
    source: {
      command: sides.map(({ dir }) => `pagelab show ${word(dir)} metrics    (their values over the whole time)`).join("\n"),
      sql: metrics ? `SELECT ts, name, value FROM metrics WHERE instance IS NULL AND name IN (${metrics}) ORDER BY name, ts` : `SELECT ts, name, value, enabled_ns, running_ns FROM counters WHERE task_id IS NULL AND name IN (${names("counters")}) ORDER BY name, ts`,
      of: sides.map(({ dir }) => dir),
      isBeneath: true,
    },
  });
}
