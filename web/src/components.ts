/** Components of the account of time as bars and as a table. */

import type { Bar } from "./bars.js";
import type { Table } from "./chart.js";
import type { OneComponent } from "./document.js";
import { duration } from "./format.js";

/** The bar of a component; `share` is what the text says of it, in per cent. */
export function componentBar(one: OneComponent, share: number): Bar {
  return { name: one.component, value: one.ns, text: `${duration(one.ns)}, ${share.toFixed(1)} %`, about: one.about, kind: `state-${one.state}` };
}

/** A row for each component. */
export function componentTable(all: readonly OneComponent[]): Table {
  return {
    columns: [{ name: "component" }, { name: "what it is" }, { name: "time, ns", isNumber: true }, { name: "standard error, ns", isNumber: true }, { name: "wall, ns", isNumber: true }],
    rows: all.map((one) => [one.component, one.about, one.ns, one.error_ns, one.wall_ns]),
  };
}
