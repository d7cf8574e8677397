/** The page sizes that memory had, and what was asked for and not got: of one recording, or of one run of each side beside each other. */

import { bars, type Bar } from "./bars.js";
import { chart } from "./chart.js";
import type { PageSizes } from "./document.js";
import { percent, quantity } from "./format.js";
import { bySide, shownRuns, type Side } from "./sides.js";
import { word } from "./sources.js";

const COLUMNS = [{ name: "side" }, { name: "what" }, { name: "page size, bytes", isNumber: true }, { name: "asked for" }, { name: "reason" }, { name: "regions", isNumber: true }, { name: "memory, bytes", isNumber: true }];

type Shortfall = PageSizes["shortfalls"][number];

/** A bar of each side for each of some keys, in the order of the keys. */
function eachSide<K>(sides: readonly Side<PageSizes>[], keys: readonly K[], bar: (key: K, side: Side<PageSizes>) => Bar): Bar[] {
  const named = (one: Bar, side: Side<PageSizes>): Bar => (side.name === "recording" ? one : { ...one, name: `${side.name}: ${one.name}`, kind: `${one.kind} ${side.name}` });
  return keys.flatMap((key) => sides.map((side) => named(bar(key, side), side)));
}

/** A bar for each page size, and one for each reason of there being less than was asked for; what a side has not is 0. */
export function shown(sides: readonly Side<PageSizes>[]): Bar[] {
  const sizes = [...new Set(sides.flatMap(({ of }) => of.sizes.map((one) => one.page_size_bytes)))].sort((a, b) => a - b);
  const got = eachSide(sides, sizes, (size, { of }) => {
    const whole = of.sizes.reduce((sum, one) => sum + one.bytes, 0);
    const bytes = of.sizes.find((one) => one.page_size_bytes === size)?.bytes ?? 0;
    return { name: `in pages of ${quantity(size, "bytes")}`, value: bytes, text: bytes > 0 ? `${quantity(bytes, "bytes")}, ${percent(bytes / whole)}` : "none", about: `${bytes} bytes`, kind: "got" };
  });
  const keyOf = (one: Shortfall): string => `${one.asked} not got: ${one.reason}`;
  const reasons = [...new Set(sides.flatMap(({ of }) => of.shortfalls.map(keyOf)))];
  const lacking = eachSide(sides, reasons, (reason, { of }) => {
    const { bytes, regions } = of.shortfalls.find((one) => keyOf(one) === reason) ?? { bytes: 0, regions: 0 };
    return { name: reason, value: bytes, text: regions > 0 ? `${quantity(bytes, "bytes")} of ${regions} ${regions === 1 ? "region" : "regions"}` : "none", about: `${bytes} bytes in smaller pages or missing`, kind: "lacking" };
  });
  return [...got, ...lacking];
}

function rows({ name, of }: Side<PageSizes>): (string | number | null)[][] {
  const spaces = of.address_spaces.flatMap((space) => space.sizes.map((one) => [name, `${space.comm ?? "unknown"} ${space.pid ?? ""}`.trim(), one.page_size_bytes, "", "", null, one.bytes]));
  return [
    ...of.sizes.map((one) => [name, "all memory", one.page_size_bytes, "", "", null, one.bytes]),
    ...of.shortfalls.map((one) => [name, "not got", null, one.asked, one.reason, one.regions, one.bytes]),
    ...spaces,
  ];
}

/** The figure; none without page sizes. */
export function pageSizes(sides: readonly Side<PageSizes>[], id: string): HTMLElement | null {
  if (sides.length === 0) return null;
  const sources = [...new Set(sides.flatMap(({ of }) => of.source ?? []))].join(", ");
  const lacks = sides.some(({ of }) => of.shortfalls.length > 0);
  const only = sides.length === 1 && sides[0]?.name !== "recording" ? ` Recorded on ${sides[0]?.name ?? ""} alone.` : "";
  return chart({
    id,
    title: "Page sizes of memory",
    about: `Filled: what was there at the last look at each address space${sources ? ` (${sources})` : ""}.${lacks ? " Outlined: what was asked for and is in smaller pages or missing, by reason." : ""}${shownRuns(sides)}${only}`,
    picture: bars(shown(sides), "page-sizes", 330, 200),
    table: { columns: COLUMNS, rows: sides.flatMap(rows) },
    data: bySide(sides),
    source: {
      command: sides.map(({ dir }) => `pagelab show ${word(dir)} regions`).join("\n"),
      sql: "SELECT r.page_size_bytes, sum(r.bytes) AS bytes FROM region_pages r JOIN (SELECT mm_id AS mm, max(ts) AS last FROM region_pages GROUP BY mm_id) l ON r.mm_id = l.mm AND r.ts = l.last WHERE r.bytes > 0 GROUP BY r.page_size_bytes ORDER BY r.page_size_bytes",
      of: sides.map(({ dir }) => dir),
    },
  });
}
