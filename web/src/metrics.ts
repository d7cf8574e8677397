/** The metrics: a table that can be searched and sorted, with both sides of each drawn on one line. */

import type { Comparison, MetricComparison } from "./document.js";
import { h, s } from "./dom.js";
import { quantity, ratio, significant } from "./format.js";
import { pager } from "./pager.js";

const STRIP = 120;

export type Order = "certain" | "name" | "ratio";

export function label(metric: MetricComparison): string {
  return metric.instance === null ? metric.name : `${metric.name}[${metric.instance}]`;
}

/** How large a change is: from or to nothing it is the largest. */
const size = (metric: MetricComparison): number => {
  const { base, test } = { base: metric.base.mean, test: metric.test.mean };
  if (base === null || test === null) return -1;
  if ((base === 0) !== (test === 0)) return Infinity;
  return metric.ratio !== null && metric.ratio > 0 ? Math.abs(Math.log(metric.ratio)) : 0;
};

/** The metrics that are asked for, in order. */
export function chosen(metrics: readonly MetricComparison[], text: string, onlySignificant: boolean, order: Order): MetricComparison[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = metrics.filter((metric) => {
    if (onlySignificant && (metric.significant !== true || metric.follows_speed === true)) return false;
    const name = label(metric).toLowerCase();
    return words.every((word) => name.includes(word));
  });
  if (order === "name") wanted.sort((a, b) => (label(a) < label(b) ? -1 : 1));
  else if (order === "ratio") wanted.sort((a, b) => (size(a) === size(b) ? 0 : size(b) - size(a)));
  return wanted;
}

/** Means and spreads of both sides as two bars on one scale. */
function strip(metric: MetricComparison): SVGSVGElement {
  const picture = s("svg", { viewBox: `0 0 ${STRIP} 20`, class: "strip", "aria-hidden": "true" });
  const ends = [metric.base, metric.test].flatMap((side) => (side.mean === null ? [] : [side.mean - 2 * (side.sd ?? 0), side.mean + 2 * (side.sd ?? 0)]));
  if (ends.length === 0) return picture;
  const low = Math.min(...ends);
  const span = Math.max(...ends) - low || 1;
  const x = (value: number): number => 4 + ((value - low) / span) * (STRIP - 8);
  for (const [row, side] of [metric.base, metric.test].entries()) {
    if (side.mean === null) continue;
    const y = 6 + row * 8;
    const name = row === 0 ? "base" : "test";
    const sd = side.sd ?? 0;
    picture.append(
      s("line", { x1: x(side.mean - 2 * sd), x2: x(side.mean + 2 * sd), y1: y, y2: y, class: `spread ${name}` }),
      s("circle", { cx: x(side.mean), cy: y, r: 2.5, class: `run ${name}` }),
    );
  }
  return picture;
}

function row(metric: MetricComparison): HTMLTableRowElement {
  const state = metric.significant === true ? (metric.follows_speed ? "as the speed" : "differs") : metric.significant === false ? "" : "not tested";
  return h(
    "tr",
    { class: state === "differs" ? "differs" : undefined },
    h("th", { scope: "row" }, label(metric)),
    h("td", { class: "number" }, quantity(metric.base.mean, metric.unit)),
    h("td", { class: "number" }, quantity(metric.test.mean, metric.unit)),
    h("td", {}, strip(metric)),
    h("td", { class: "number" }, metric.ratio === null ? "" : ratio(metric.ratio, metric.ratio_ci95)),
    h("td", { class: "number" }, metric.q === null ? "" : significant(metric.q, 2)),
    h("td", {}, state, metric.note && h("span", { class: "note", title: metric.note }, " (note)")),
  );
}

/** The section. */
export function metrics(comparison: Comparison, id: string): HTMLElement {
  const { body, buttons, show } = pager("Metrics", row);
  const count = h("p", { class: "about", role: "status" });
  const search = h("input", { type: "search", id: `${id}-search`, placeholder: "vmstat thp" });
  const only = h("input", { type: "checkbox", id: `${id}-only` });
  only.checked = comparison.metrics.some((metric) => metric.significant === true && metric.follows_speed !== true);
  const order = h("select", { id: `${id}-order` }, h("option", { value: "certain" }, "most certain first"), h("option", { value: "ratio" }, "largest change first"), h("option", { value: "name" }, "by name"));
  const draw = (): void => {
    const wanted = chosen(comparison.metrics, search.value, only.checked, order.value as Order);
    show(wanted);
    count.textContent = `${wanted.length} of ${comparison.metrics.length} metrics`;
  };
  for (const [element, event] of [[search, "input"], [only, "change"], [order, "change"]] as const) element.addEventListener(event, draw);
  draw();
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title`, class: "section" }, "Metrics"),
    h(
      "div",
      { class: "filters", role: "search", "aria-label": "Metrics" },
      h("label", { for: `${id}-search` }, "Name ", search),
      h("label", { for: `${id}-only` }, only, " only those that differ"),
      h("label", { for: `${id}-order` }, "Order ", order),
    ),
    count,
    h(
      "div",
      { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Metrics of both sides" },
      h(
        "table",
        { class: "metrics" },
        h("caption", {}, "Means of both sides; bars are two standard deviations of the runs to either side"),
        h("thead", {}, h("tr", {}, ["metric", "base", "test", "spread", "ratio, 95 % interval", "q", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "hidden" }, "state"))))),
        body,
      ),
    ),
    buttons,
  );
}
