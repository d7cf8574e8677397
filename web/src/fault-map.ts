/** Address against time: every fault on one mapping, both sides beside each other on one scale. */

import { chart } from "./chart.js";
import type { FaultGrid } from "./document.js";
import { s } from "./dom.js";
import { duration, quantity } from "./format.js";
import { linear } from "./scale.js";
import { SIDES, word } from "./sources.js";

const WIDTH = 880;
const HEIGHT = 300;
const GAP = 60;
/** Room for the first and the last tick. */
const MARGIN = 16;
/** Fewer dots than this are drawn large: a lone one is overlooked. */
const FEW = 8;
const TOP = 26;
const BOTTOM = 26;
/** Lines of the grid of huge pages at most. */
const LINES = 64;

/** Where huge pages can begin, bytes behind the lowest address shown. */
export function slots(map: FaultGrid): number[] {
  const huge = map.huge_bytes;
  if (!(huge > 0) || map.len_bytes / huge > LINES) return [];
  const found: number[] = [];
  for (let at = (huge - Number(BigInt(map.start) % BigInt(huge))) % huge; at <= map.len_bytes; at += huge) found.push(at);
  return found;
}

function side(map: FaultGrid | null, name: string, left: number, width: number, span_ns: number): SVGGElement {
  const group = s("g", {});
  const title = map ? `${name}: ${map.faults} of ${map.mapping_faults} faults, ${quantity(map.len_bytes, "bytes")}, in ${duration(map.last_ns)}` : `${name}: no faults were recorded on such a mapping`;
  group.append(s("text", { x: left, y: 16, class: "name" }, title));
  const bottom = HEIGHT - BOTTOM;
  group.append(s("rect", { x: left, y: TOP, width, height: bottom - TOP, class: "border" }));
  const x = linear(0, span_ns, left, left + width, 3);
  for (const tick of x.ticks) group.append(s("text", { x: x(tick), y: HEIGHT - 8, "text-anchor": "middle", class: "tick" }, duration(tick)));
  if (!map) return group;
  const y = linear(0, map.len_bytes, bottom, TOP);
  for (const at of slots(map)) group.append(s("line", { x1: left, x2: left + width, y1: y(at), y2: y(at), class: "grid" }));
  const least = map.cells.length < FEW ? 6 : 1.5;
  const [cellWidth, cellHeight] = [Math.max(least, width / map.columns), Math.max(least, (bottom - TOP) / map.rows)];
  // One path for each kind: as many elements as there are cells would be slow.
  const path = { fill: "", other: "" };
  for (const [column, row, fills, others] of map.cells) {
    const box = `M${(left + (column / map.columns) * width).toFixed(1)} ${(bottom - (row / map.rows) * (bottom - TOP) - cellHeight).toFixed(1)}h${cellWidth.toFixed(1)}v${cellHeight.toFixed(1)}h-${cellWidth.toFixed(1)}z`;
    if (fills > 0) path.fill += box;
    else if (others > 0) path.other += box;
  }
  if (path.fill) group.append(s("path", { d: path.fill, class: `fault ${name}` }));
  if (path.other) group.append(s("path", { d: path.other, class: "fault other" }));
  return group;
}

/** The figure of one recording. */
export function oneFaultMap(map: FaultGrid, of: readonly string[], id: string): HTMLElement {
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "fault-map" });
  picture.append(side(map, "recording", MARGIN, WIDTH - 2 * MARGIN, map.span_ns));
  return figure(map, picture, of, [["recording", map]], id);
}

/** The figure; none where neither side has a mapping with faults. */
export function faultMap(maps: readonly [FaultGrid | null, FaultGrid | null], id: string): HTMLElement | null {
  const [base, test] = maps;
  const one = test ?? base;
  if (!one) return null;
  const width = (WIDTH - GAP) / 2 - MARGIN;
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "fault-map" });
  picture.append(side(base, "base", MARGIN, width, one.span_ns), side(test, "test", MARGIN + width + GAP, width, one.span_ns));
  return figure(one, picture, SIDES, [["base", base], ["test", test]], id);
}

function figure(one: FaultGrid, picture: SVGSVGElement, of: readonly string[], sides: readonly (readonly [string, FaultGrid | null])[], id: string): HTMLElement {
  const orders = sides.flatMap(([name, map]) => (map?.order ? [` On ${name} they come in ${map.order} order.`] : []));
  return chart({
    id,
    title: "Faults: address against time",
    about:
      `${one.what}, from ${one.start} on. Upwards the address, each side from its own, lines where huge pages can begin (${quantity(one.huge_bytes, "bytes")}); ` +
      `to the right time. A dot is a fault.${orders.join("")}`,
    picture,
    table: {
      columns: COLUMNS,
      rows: sides.flatMap(([name, map]) => rows(name, map, LISTED)),
    },
    all: () => ({ columns: COLUMNS, rows: sides.flatMap(([name, map]) => rows(name, map, Infinity)) }),
    data: Object.fromEntries(sides),
    source: { command: of.map((dir) => `pagelab show ${word(dir)} faults`).join("\n"), sql: "SELECT run, ts, addr, error_code FROM faults ORDER BY ts", of, isBeneath: true },
  });
}

/** Rows of the table at most, by side: the file has them all. */
const LISTED = 400;
const COLUMNS = [{ name: "side" }, { name: "time from, ns", isNumber: true }, { name: "offset from, bytes", isNumber: true }, { name: "faults that found no page", isNumber: true }, { name: "other faults", isNumber: true }];

function rows(name: string, map: FaultGrid | null, most: number): (string | number)[][] {
  if (!map) return [];
  return map.cells.slice(0, most).map(([column, row, fills, others]) => [name, Math.round((column / map.columns) * map.span_ns), Math.round((row / map.rows) * map.len_bytes), fills, others]);
}
