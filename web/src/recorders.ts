/** Where the runs were made, and what recording them cost and lost. */

import type { Recorders } from "./document.js";
import { h } from "./dom.js";
import { duration, quantity } from "./format.js";

/** The section. */
export function recorders(sides: readonly [Recorders, Recorders], id: string): HTMLElement {
  const both = <T>(of: (side: Recorders) => T): [T, T] => [of(sides[0]), of(sides[1])];
  const names = [...new Set(sides.flatMap((side) => Object.keys(side.facts)))];
  const rows: [string, string, string][] = names.map((name) => [name, ...both((side) => (side.facts[name] ?? ["not known"]).join(", "))]);
  rows.push(["recorder's CPU time, mean of a run", ...both((side) => (side.cpu_ns === null ? "not known" : duration(side.cpu_ns)))]);
  const streams = [...new Set(sides.flatMap((side) => Object.keys(side.events)))].sort();
  for (const stream of streams) {
    const lost = (side: Recorders): string => {
      const [seen, lost] = side.events[stream] ?? [0, 0];
      return `${quantity(lost, "count")} of ${quantity(seen, "count")} lost`;
    };
    rows.push([`events of ${stream}`, ...both(lost)]);
  }
  const refused = [...new Set(sides.flatMap((side) => Object.keys(side.refused)))];
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title`, class: "section" }, "Host and recorder"),
    h(
      "div",
      { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Host and recorder of both sides" },
      h(
        "table",
        {},
        h("caption", {}, "Over all runs that count. The recorder's time holds loading its probes and closing the recording, beside the program's own time."),
        h("thead", {}, h("tr", {}, ["", "base", "test"].map((name) => h("th", { scope: "col" }, name || h("span", { class: "hidden" }, "what"))))),
        h("tbody", {}, rows.map(([name, base, test]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, base), h("td", {}, test)))),
      ),
    ),
    refused.length > 0 && h("p", {}, "Refused by the host: ", refused.map((name, place) => [place > 0 && "; ", h("code", {}, name), `: ${sides[0].refused[name] ?? sides[1].refused[name] ?? ""}`])),
  );
}
