/** The first thing on the page: what happened, in a sentence, and how sure that is. */

import { called } from "./causes.js";
import type { Comparison, Primary, Verdict } from "./document.js";
import { h } from "./dom.js";
import { quantity, ratio, significant } from "./format.js";

const WORDS: Readonly<Record<Verdict, string>> = {
  worse: "Test is worse",
  better: "Test is better",
  different: "Test is different",
  no_difference: "No difference was shown",
  not_tested: "Not tested",
};

/** The change of the primary metric in per cent; positive where the test side's value is larger. */
export function change(primary: Primary): string | null {
  if (primary.ratio === null) return null;
  const percent = 100 * (primary.ratio - 1);
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${significant(Math.abs(percent), 3)} %`;
}

/** The verdict in a sentence, with the first cause. */
export function sentence(comparison: Comparison): string {
  const primary = comparison.primary;
  if (!primary) return "No primary metric: nothing was decided.";
  const changed = change(primary);
  const shown = primary.verdict === "no_difference" || primary.verdict === "not_tested" ? "" : changed ? ` ${changed}` : "";
  const first = comparison.findings[0];
  const part = first?.effect?.of === "components" ? ", but a part of the time differs" : "";
  const most = shown === "" ? undefined : comparison.unknown?.components[0];
  const cause = first ? `${part}: ${first.title} (${called(first)})` : most ? `: no known cause; most of it ${most.component} (${most.about})` : "";
  return `${WORDS[primary.verdict]}: ${primary.metric}${shown}${cause}.`;
}

/** The head of a comparison. */
export function verdict(comparison: Comparison): HTMLElement {
  const primary = comparison.primary;
  const facts: [string, string][] = [];
  if (primary) {
    facts.push(["base", quantity(primary.base_mean, primary.unit)], ["test", quantity(primary.test_mean, primary.unit)]);
    if (primary.ratio !== null) facts.push(["ratio, 95 % interval", ratio(primary.ratio, primary.ratio_ci95)]);
    if (primary.p !== null) facts.push(["p", significant(primary.p, 2)]);
    if (typeof primary.equivalent_within_pct === "number") facts.push(["equivalent within", `${significant(primary.equivalent_within_pct, 2)} %`]);
  }
  facts.push(["runs", `${comparison.base.n} and ${comparison.test.n}`], ["method", comparison.method === "welch" ? "Welch's test" : "within rounds"]);
  const cautions = comparison.stability?.notes ?? [];
  return h(
    "header",
    { class: `verdict ${primary?.verdict ?? "not_tested"}` },
    h("h2", {}, sentence(comparison)),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    comparison.exploratory && h("p", { class: "caution" }, "Exploratory: runs were added after looking at a result."),
    cautions.map((note) => h("p", { class: "caution" }, note)),
  );
}
