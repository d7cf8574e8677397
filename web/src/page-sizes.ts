/** The page sizes that memory had, and what was asked for and not got. */

import { bars, type Bar } from "./bars.js";
import { chart } from "./chart.js";
import type { PageSizes } from "./document.js";
import { percent, quantity } from "./format.js";
import { word } from "./sources.js";

const COLUMNS = [{ name: "what" }, { name: "page size, bytes", isNumber: true }, { name: "asked for" }, { name: "reason" }, { name: "regions", isNumber: true }, { name: "memory, bytes", isNumber: true }];

/** A bar for each page size, and one for each reason of there being less than was asked for. */
function shown({ sizes, shortfalls }: PageSizes): Bar[] {
  const whole = sizes.reduce((sum, one) => sum + one.bytes, 0);
  const got = sizes.map((one) => ({
    name: `in pages of ${quantity(one.page_size_bytes, "bytes")}`,
    value: one.bytes,
    text: `${quantity(one.bytes, "bytes")}, ${percent(one.bytes / Math.max(1, whole))}`,
    about: `${one.bytes} bytes`,
    kind: "got",
  }));
  const lacking = shortfalls.map((one) => ({
    name: `${one.asked} not got: ${one.reason}`,
    value: one.bytes,
    text: `${quantity(one.bytes, "bytes")} of ${one.regions} ${one.regions === 1 ? "region" : "regions"}`,
    about: `${one.bytes} bytes in smaller pages or missing`,
    kind: "lacking",
  }));
  return [...got, ...lacking];
}

/** The figure; none without page sizes. */
export function pageSizes(sizes: PageSizes, dir: string, id: string): HTMLElement {
  const spaces = sizes.address_spaces.flatMap((space) => space.sizes.map((one) => [`${space.comm ?? "unknown"} ${space.pid ?? ""}`.trim(), one.page_size_bytes, "", "", null, one.bytes]));
  return chart({
    id,
    title: "Page sizes of memory",
    about: `Filled: what was there at the last look at each address space${sizes.source ? ` (${sizes.source})` : ""}.${sizes.shortfalls.length > 0 ? " Outlined: what was asked for and is in smaller pages or missing, by reason." : ""}`,
    picture: bars(shown(sizes), "page-sizes", 330, 200),
    table: {
      columns: COLUMNS,
      rows: [
        ...sizes.sizes.map((one) => ["all memory", one.page_size_bytes, "", "", null, one.bytes]),
        ...sizes.shortfalls.map((one) => ["not got", null, one.asked, one.reason, one.regions, one.bytes]),
        ...spaces,
      ],
    },
    data: sizes,
    source: {
      command: `pagelab show ${word(dir)} regions`,
      sql: "SELECT r.page_size_bytes, sum(r.bytes) AS bytes FROM region_pages r JOIN (SELECT mm_id AS mm, max(ts) AS last FROM region_pages GROUP BY mm_id) l ON r.mm_id = l.mm AND r.ts = l.last WHERE r.bytes > 0 GROUP BY r.page_size_bytes ORDER BY r.page_size_bytes",
      of: [dir],
    },
  });
}
