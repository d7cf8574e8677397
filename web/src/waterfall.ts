/** Where the difference of two sides is: the way from the base's time to the test side's, component by component. */

import { chart } from "./chart.js";
import type { BudgetComparison, ComponentChange } from "./document.js";
import { s } from "./dom.js";
import { duration, percent, signedDuration } from "./format.js";
import { extent, linear } from "./scale.js";
import { SIDES } from "./sources.js";

/** Steps drawn; the others are one. */
const STEPS = 9;
const WIDTH = 880;
const ROW = 26;
const NAMES = 190;
const VALUES = 210;

export interface Step {
  readonly name: string;
  readonly about: string;
  readonly from: number;
  readonly to: number;
  readonly kind: "whole" | "more" | "less";
  readonly text: string;
  readonly isSure: boolean;
}

const isSure = (one: ComponentChange): boolean => {
  const interval = one.difference_ci95;
  return interval !== null && (interval[0] > 0 || interval[1] < 0);
};

/** The bars, from the base to the test side. */
export function steps(budget: BudgetComparison): Step[] {
  const moved = budget.components.filter((one) => one.difference_ns !== null && one.difference_ns !== 0);
  const shown = moved.slice(0, STEPS);
  let at = budget.base_ns;
  const whole = (name: string, ns: number): Step => ({ name, about: "", from: 0, to: ns, kind: "whole", text: duration(ns), isSure: true });
  const found = [whole("base", budget.base_ns)];
  for (const one of shown) {
    const difference = one.difference_ns ?? 0;
    const share = one.share === null ? "" : `, ${percent(one.share)}`;
    found.push({
      name: one.component,
      about: one.about,
      from: at,
      to: at + difference,
      kind: difference > 0 ? "more" : "less",
      text: signedDuration(difference) + share,
      isSure: isSure(one),
    });
    at += difference;
  }
  const rest = budget.test_ns - at;
  if (moved.length > shown.length) {
    const name = `${moved.length - shown.length} others`;
    found.push({ name, about: "", from: at, to: at + rest, kind: rest > 0 ? "more" : "less", text: signedDuration(rest), isSure: false });
  }
  found.push(whole("test", budget.test_ns));
  return found;
}

/** The picture. */
export function waterfall(budget: BudgetComparison, id: string): HTMLElement {
  const all = steps(budget);
  const [, high] = extent(all.flatMap((step) => [step.from, step.to]));
  const x = linear(0, high, NAMES, WIDTH - VALUES);
  const height = all.length * ROW + 8;
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "waterfall" });
  for (const [row, step] of all.entries()) {
    const top = 4 + row * ROW;
    const left = Math.min(x(step.from), x(step.to));
    const width = Math.max(1.5, Math.abs(x(step.to) - x(step.from)));
    const middle = top + ROW / 2 + 4;
    picture.append(
      s("text", { x: NAMES - 8, y: middle, "text-anchor": "end", class: step.isSure ? "name" : "name unsure" }, step.name),
      s(
        "rect",
        { x: left, y: top + 4, width, height: ROW - 8, class: `bar ${step.kind}${step.isSure ? "" : " unsure"}` },
        s("title", {}, `${step.name}: ${step.text}${step.about ? `; ${step.about}` : ""}`),
      ),
      s("text", { x: WIDTH - VALUES + 10, y: middle, class: "value" }, step.text),
    );
    const next = all[row + 1];
    if (next) picture.append(s("line", { x1: x(step.to), x2: x(step.to), y1: top + 4, y2: top + ROW + 4, class: "link" }));
  }
  const interval = budget.difference_ci95;
  const between = interval ? ` (95 % interval ${signedDuration(interval[0])} to ${signedDuration(interval[1])})` : "";
  return chart({
    id,
    title: `Where the time of ${budget.per === "operation" ? "an operation" : "a run"} went`,
    about:
      `${duration(budget.base_ns)} on base, ${duration(budget.test_ns)} on test, ${signedDuration(budget.difference_ns)}${between}. ` +
      `Pale bars: the interval holds 0.${budget.is_lower_bound ? " A part is missing, so this is a lower bound." : ""}`,
    picture,
    table: {
      columns: [
        { name: "component" },
        { name: "what it is" },
        { name: "base, ns", isNumber: true },
        { name: "test, ns", isNumber: true },
        { name: "difference, ns", isNumber: true },
        { name: "from, ns", isNumber: true },
        { name: "to, ns", isNumber: true },
      ],
      rows: budget.components.map((one) => [
        one.component,
        one.about,
        one.base_ns,
        one.test_ns,
        one.difference_ns,
        one.difference_ci95?.[0] ?? null,
        one.difference_ci95?.[1] ?? null,
      ]),
    },
    data: budget,
    source: {
      command: "pagelab compare --json BASE TEST    (budget.components)",
      sql: "SELECT variant, run, state, call, sum(ns) AS ns FROM waits GROUP BY variant, run, state, call",
      of: SIDES,
      isBeneath: true,
    },
  });
}
