/** Sizes of reads and writes: how many calls moved how much, by powers of two. */

import { chart } from "./chart.js";
import type { IoMaps } from "./document.js";
import { s } from "./dom.js";
import { quantity } from "./format.js";
import { axes } from "./panel.js";
import { linear } from "./scale.js";
import { bySide, shownRuns, type Side } from "./sides.js";
import { word } from "./sources.js";

const WIDTH = 880;
const LEFT = 64;
const RIGHT = 14;
const TOP = 30;
const HEIGHT = 150;
const BOTTOM = 30;
/** Names of sizes below the bars at most. */
const NAMED = 8;

const COLUMNS = [{ name: "side" }, { name: "size from, bytes", isNumber: true }, { name: "reads", isNumber: true }, { name: "writes", isNumber: true }];

/** What is said of operations of each table. */
const ABOUT: Readonly<Record<IoMaps["table"], { what: string; view: string; sql: string }>> = {
  syscalls: {
    what: "Calls that moved anything on files",
    view: "io",
    sql: "SELECT name, power(2, floor(log2(ret))) AS from_bytes, count(*) AS calls FROM syscalls WHERE ret > 0 AND file_id IS NOT NULL AND requested IS NOT NULL GROUP BY name, from_bytes ORDER BY from_bytes, name",
  },
  block_ios: {
    what: "Requests to block devices",
    view: "block",
    sql: "SELECT op, power(2, floor(log2(bytes))) AS from_bytes, count(*) AS requests FROM block_ios WHERE bytes > 0 AND op IN ('read', 'write') GROUP BY op, from_bytes ORDER BY from_bytes, op",
  },
};

/** The figure; none without calls that moved anything. */
export function ioSizes(sides: readonly Side<IoMaps>[], id: string): HTMLElement | null {
  const powers = sides.flatMap(({ of }) => of.sizes.map(([from]) => Math.log2(from)));
  const table = sides[0]?.of.table;
  if (!table || powers.length === 0) return null;
  const [low, high] = [Math.min(...powers), Math.max(...powers)];
  const most = Math.max(1, ...sides.flatMap(({ of }) => of.sizes.flatMap(([, reads, writes]) => [reads, writes])));
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${TOP + HEIGHT + BOTTOM}`, class: "io-sizes" });
  const width = WIDTH / sides.length - LEFT - RIGHT;
  const y = linear(0, most, TOP + HEIGHT, TOP, 4);
  for (const [column, side] of sides.entries()) {
    const left = LEFT + (column * WIDTH) / sides.length;
    const x = linear(low, high + 1, left, left + width);
    const step = Math.ceil((high - low + 1) / NAMED);
    const named = Array.from({ length: high - low + 1 }, (_, place) => low + place).filter((power) => (power - low) % step === 0);
    const centre = Object.assign((power: number) => x(power + 0.5), { ticks: named });
    picture.append(
      s("text", { x: left, y: 16, class: "name" }, `${side.name}: reads filled, writes outlined`),
      axes({ left, top: TOP, width, height: HEIGHT }, { scale: centre, ticks: named, text: (power) => quantity(2 ** power, "bytes", 3) }, { scale: y, ticks: y.ticks, text: (tick) => quantity(tick, "count", 3) }),
    );
    const room = Math.min(60, x(1) - x(0));
    for (const [from, ...counts] of side.of.sizes) {
      for (const [place, direction] of (["read", "write"] as const).entries()) {
        const count = counts[place] ?? 0;
        if (count === 0) continue;
        const middle = centre(Math.log2(from));
        const height = Math.max(1, y(0) - y(count));
        picture.append(
          s("rect", { x: middle + (place === 0 ? -0.42 * room : 0.04 * room), y: y(0) - height, width: 0.38 * room, height, class: `size ${direction}` }, s("title", {}, `${side.name}: ${count} ${direction}s of ${quantity(from, "bytes")} to twice that`)),
        );
      }
    }
  }
  return chart({
    id,
    title: "Sizes of reads and writes",
    about: `${[...new Set(sides.map(({ of }) => ABOUT[of.table].what))].join(" ")}, by what they moved: from a power of two up to twice that.${shownRuns(sides)}`,
    picture,
    table: { columns: COLUMNS, rows: sides.flatMap(({ name, of }) => of.sizes.map((size) => [name, ...size])) },
    data: bySide(sides.map((side) => ({ ...side, of: side.of.sizes, others: [] }))),
    source: {
      command: sides.map(({ dir, of }) => `pagelab show ${word(dir)} ${ABOUT[of.table].view}`).join("\n"),
      sql: ABOUT[table].sql,
      of: sides.filter(({ of }) => of.table === table).map(({ dir }) => dir),
      isBeneath: true,
    },
  });
}
