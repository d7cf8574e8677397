/** Offset against time of the reads and writes of the files with most I/O, both sides beside each other on one scale. */

import { chart } from "./chart.js";
import type { IoMap, IoMaps } from "./document.js";
import { s, type Child } from "./dom.js";
import { quantity, time } from "./format.js";
import { axes, type Axis, type Panel } from "./panel.js";
import { extent, linear } from "./scale.js";
import { bySide, shownRuns, type Side } from "./sides.js";
import { word } from "./sources.js";

const WIDTH = 880;
const LEFT = 72;
const RIGHT = 14;
const TOP = 40;
const BETWEEN = 22;
const HEIGHT = 110;
const BOTTOM = 28;
/** Shades from few operations in a cell to many, each step a factor. */
const SHADES = 4;
/** Rows of the table at most, by side: the file has all. */
const LISTED = 300;

const DIRECTIONS = ["read", "write"] as const;
type Direction = (typeof DIRECTIONS)[number];

const operations = (map: IoMap, direction: Direction): number => (direction === "read" ? map.reads : map.writes);
const inCell = (cell: IoMap["cells"][number], direction: Direction): number => (direction === "read" ? cell[2] : cell[3]);

/** The shade of a cell, from 0: a few operations are not to vanish beside thousands. */
export function shade(count: number, most: number): number {
  return Math.min(SHADES - 1, Math.floor((Math.log(count) / Math.log(Math.max(2, most))) * SHADES));
}

/** One file on each side: of one name, or else of one rank. */
export type Pair = readonly { readonly side: Side<IoMaps>; readonly map: IoMap | null }[];

/** The files of all sides, those of one name together. */
export function pairs(sides: readonly Side<IoMaps>[]): Pair[] {
  const [first, second] = sides;
  if (!first) return [];
  if (!second) return first.of.files.map((map) => [{ side: first, map }]);
  const left = [...second.of.files];
  const take = (at: number): IoMap | null => (at < 0 ? null : (left.splice(at, 1)[0] ?? null));
  const named = first.of.files.map((map) => [map, take(left.findIndex((other) => other.name === map.name))] as const);
  const rest = named.map(([map, other]) => [map, other ?? take(0)] as const);
  return [...rest, ...left.map((other) => [null, other] as const)].map(([base, test]) => [{ side: first, map: base }, { side: second, map: test }]);
}

/** Cells as one path for each shade: as many elements as there are cells would be slow. */
function cells(map: IoMap, direction: Direction, across: Axis, up: Axis): SVGPathElement[] {
  const most = Math.max(...map.cells.map((cell) => inCell(cell, direction)));
  const paths = Array.from({ length: SHADES }, () => "");
  const time = (column: number): number => across.scale(map.start_ns + (column / map.columns) * map.span_ns);
  const offset = (row: number): number => up.scale(map.low_bytes + (row / map.rows) * (map.high_bytes - map.low_bytes));
  const [width, height] = [Math.max(1, time(1) - time(0)), Math.max(1, offset(0) - offset(1))];
  for (const cell of map.cells) {
    const count = inCell(cell, direction);
    if (count === 0) continue;
    paths[shade(count, most)] += `M${time(cell[0]).toFixed(1)} ${(offset(cell[1]) - height).toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h-${width.toFixed(1)}z`;
  }
  return paths.flatMap((path, step) => (path ? [s("path", { d: path, class: `op ${direction} shade-${step}` })] : []));
}

/** The lowest offset, and the highest; of a range far from 0, such as a file on a device, how far that is from the lowest. */
export function offsetText(low: number, high: number): (tick: number) => string {
  const span = high - low;
  return (tick) => (tick > low && span < low ? `+${quantity(span, "bytes", 3)}` : quantity(tick, "bytes", span < low ? 4 : 3));
}

const shortName = (name: string, letters: number): string => (name.length > letters ? `…${name.slice(1 - letters)}` : name);

/** The panels of one file: reads above writes, as far as either side has them. */
function one(pair: Pair, top: number, span_ns: number): { parts: Child[]; height: number } {
  const maps = pair.flatMap(({ map }) => map ?? []);
  const shown = DIRECTIONS.filter((direction) => maps.some((map) => operations(map, direction) > 0));
  const [low, high] = extent(maps.flatMap((map) => [map.low_bytes, map.high_bytes]));
  const width = WIDTH / pair.length - LEFT - RIGHT;
  const parts = pair.flatMap(({ side, map }, column): Child[] => {
    const left = LEFT + (column * WIDTH) / pair.length;
    const x = linear(0, span_ns, left, left + width, 3);
    const name = map ? shortName(map.name, Math.floor(width / 8)) : "no such file";
    const heading = s("text", { x: left, y: top + 14, class: "name" }, `${side.name}: ${name}`, s("title", {}, map?.name ?? ""));
    const panels = shown.flatMap((direction, row): Child[] => {
      const panel: Panel = { left, top: top + TOP + row * (HEIGHT + BETWEEN), width, height: HEIGHT };
      const y = linear(low, high, panel.top + HEIGHT, panel.top);
      const up = { scale: y, ticks: [low, high], text: offsetText(low, high) };
      const across = { scale: x, ticks: row === shown.length - 1 ? x.ticks : [], text: time };
      const count = map ? operations(map, direction) : 0;
      return [axes(panel, across, up), s("text", { x: left, y: panel.top - 5, class: "tick" }, `${count} ${direction}s`), map && count > 0 ? cells(map, direction, across, up) : null];
    });
    return [heading, panels];
  });
  return { parts, height: TOP + shown.length * (HEIGHT + BETWEEN) - BETWEEN + BOTTOM };
}

const COLUMNS = [{ name: "side" }, { name: "file" }, { name: "time from, ns", isNumber: true }, { name: "offset from, bytes", isNumber: true }, { name: "reads", isNumber: true }, { name: "writes", isNumber: true }];

function rows(sides: readonly Side<IoMaps>[], most: number): (string | number)[][] {
  const cellsOf = (name: string, map: IoMap): (string | number)[][] =>
    map.cells.map(([column, row, reads, writes]) => [name, map.name, Math.round(map.start_ns + (column / map.columns) * map.span_ns), Math.round(map.low_bytes + (row / map.rows) * (map.high_bytes - map.low_bytes)), reads, writes]);
  return sides.flatMap(({ name, of }) => of.files.flatMap((map) => cellsOf(name, map)).slice(0, most));
}

/** What is said of operations of each table. */
const ABOUT: Readonly<Record<IoMaps["table"], { what: string; not: string; view: string; sql: string }>> = {
  syscalls: {
    what: "The files with most bytes moved.",
    not: "Reads and writes by system calls; what goes through mapped memory is not here.",
    view: "io",
    sql: "SELECT ts, task_id, name, file_id, s.offset, ret AS bytes FROM syscalls s WHERE ret > 0 AND s.offset IS NOT NULL ORDER BY ts",
  },
  block_ios: {
    what: "The block devices with most bytes moved.",
    not: "Requests to the devices, of whoever submitted them; what the page cache had is not here, and files are known of system calls alone (--observe default,syscalls).",
    view: "block",
    sql: "SELECT ts, task_id, device, op, sector * 512 AS from_bytes, bytes FROM block_ios WHERE bytes > 0 AND op IN ('read', 'write') ORDER BY ts",
  },
};

const MIXED = "One side has system calls, the other requests to block devices: their numbers are of different things.";

/** The figure; none without files that offsets are known of. */
export function ioMap(sides: readonly Side<IoMaps>[], id: string): HTMLElement | null {
  const all = pairs(sides);
  const table = sides[0]?.of.table;
  if (!table || all.length === 0) return null;
  const mixed = sides.some(({ of }) => of.table !== table);
  const picture = s("svg", { class: "io-map" });
  const ends = all.flatMap((pair) => pair.flatMap(({ map }) => (map ? [map.start_ns + map.span_ns] : [])));
  const span_ns = Math.max(1, ...ends);
  let top = 0;
  for (const pair of all) {
    const { parts, height } = one(pair, top, span_ns);
    picture.append(s("g", {}, parts));
    top += height;
  }
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${top}`);
  return chart({
    id,
    title: "Reads and writes: offset against time",
    about: `${[...new Set(sides.map(({ of }) => ABOUT[of.table].what))].join(" ")} Upwards the offset, to the right time; the more operations a cell has, the stronger its colour, each step a factor. ${mixed ? MIXED : ABOUT[table].not}${shownRuns(sides)}`,
    picture,
    table: { columns: COLUMNS, rows: rows(sides, LISTED) },
    all: () => ({ columns: COLUMNS, rows: rows(sides, Infinity) }),
    data: bySide(sides),
    source: {
      command: sides.map(({ dir, of }) => `pagelab show ${word(dir)} ${ABOUT[of.table].view}`).join("\n"),
      sql: ABOUT[table].sql,
      of: sides.filter(({ of }) => of.table === table).map(({ dir }) => dir),
      isBeneath: true,
    },
  });
}
