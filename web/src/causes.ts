/** Causes with their evidence, and what no cause claims. */

import type { Comparison, ErrorRate, Finding } from "./document.js";
import { h } from "./dom.js";
import { duration, percent } from "./format.js";

function record(rates: readonly ErrorRate[], confidence: string): string | null {
  const rate = rates.find((one) => one.confidence === confidence);
  return rate ? `wrong in ${rate.wrong} of ${rate.findings} known cases, at most ${rate.wrong_ci95_pct[1].toFixed(0)} % (${rate.measured})` : null;
}

/** The word of a finding's confidence; what was seen once is of one side, and says of which. */
export function called(finding: Finding): string {
  return finding.confidence === "seen_once" ? `seen once on ${finding.side}` : finding.confidence;
}

function list(title: string, items: readonly string[], ordered = false): HTMLElement | null {
  if (items.length === 0) return null;
  const rows = items.map((item) => h("li", {}, item));
  return h("section", {}, h("h4", {}, title), ordered ? h("ol", { class: "chain" }, rows) : h("ul", {}, rows));
}

function one(finding: Finding, rates: readonly ErrorRate[], id: string, isCompared: boolean): HTMLElement {
  const effect = finding.effect;
  const share = effect
    ? `${shareOfLoss(effect)}${effect.share_ci95 ? ` (95 % interval ${percent(effect.share_ci95[0])} to ${percent(effect.share_ci95[1])})` : ""}`
    : null;
  const setting = finding.setting;
  return h(
    "article",
    { class: "finding", id },
    h("h3", {}, h("a", { href: `#${id}` }, `${finding.rank}. ${finding.cause}`), " ", h("span", { class: `word ${finding.confidence}` }, called(finding))),
    h("p", {}, `${finding.summary}.`),
    share && h("p", {}, h("strong", {}, share)),
    setting && h(
        "p",
        {},
        "Setting ",
        h("code", {}, setting.key),
        ": ",
        isCompared && [h("code", {}, setting.base ?? "not set"), " on base, "],
        h("code", {}, setting.test ?? "not set"),
        isCompared && " on test",
      ),
    finding.follow_up && h("p", {}, `Toggled: ${finding.follow_up.state.replace("_", " ")}: ${finding.follow_up.reason}`),
    h(
      "details",
      { open: finding.rank === 1 },
      h("summary", {}, "Evidence"),
      list("Chain", finding.evidence, true),
      list("Ruled out", finding.refuted),
      list("Not looked at", finding.not_looked_at ?? []),
      h("p", { class: "about" }, record(rates, finding.confidence)),
    ),
    finding.fixes.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, "What mends it"),
        h("ol", {}, finding.fixes.map((fix) => h("li", {}, `${fix.text} (${fix.reach})`, h("pre", { tabindex: "0" }, fix.command)))),
      ),
  );
}

/** What was found, whether by comparing or in one recording. */
export interface Diagnosis {
  readonly findings: readonly Finding[];
  readonly considered: Comparison["considered"];
  readonly unknown?: Comparison["unknown"];
  readonly error_rates?: readonly ErrorRate[];
}

/** The part of the loss that a cause takes. Where other parts fell, that is more than all of it. */
function shareOfLoss({ share, of }: { readonly share: number; readonly of: string }): string {
  const what = lostTime(of);
  if (share <= 0) return `a part of ${what} that is not known: other parts of its time fell`;
  return share > 1 ? `all of ${what} (${percent(share)}: other parts fell)` : `${percent(share)} of ${what}`;
}

/** What shares are of: as in the terminal. */
function lostTime(of: string | undefined): string {
  return of === "components" ? "the time by which components rose" : of === "time" ? "the time" : "the lost time";
}

/** The section of causes of a comparison. */
export function causes(comparison: Comparison, id: string): HTMLElement {
  return diagnosis(comparison, comparison.no_cause ?? "No cause was found.", id);
}

/** The section of causes; `none` stands there without any. */
export function diagnosis(comparison: Diagnosis, none: string, id: string, isCompared = true): HTMLElement {
  const rates = comparison.error_rates ?? [];
  const left = comparison.unknown;
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title`, class: "section" }, "Why"),
    comparison.findings.length === 0 && h("p", {}, none),
    comparison.findings.map((finding) => one(finding, rates, `${id}-${finding.rank}`, isCompared)),
    left &&
      h(
        "p",
        { class: "unknown" },
        `${percent(left.share)} of ${lostTime(left.of)} is claimed by no cause. It is ${left.components.length === 0 ? "spread over many components" : "in "}`,
        left.components.map((part, place) => [place > 0 && ", ", h("code", {}, part.component), ` (${duration(part.ns)}, ${percent(part.share)})`]),
        ". What tells more: ",
        h("code", {}, `pagelab record ${left.record}`),
      ),
    (left?.places ?? []).map((place) =>
      h(
        "p",
        { class: "unknown" },
        h("code", {}, place.component),
        ` (${percent(place.share)}), `,
        h("code", {}, place.place),
        `: ${place.what}. It is brought about by ${place.brought_about_by}. It is governed by ${place.settings.join(", ")}. Next: ${place.next}.`,
      ),
    ),
    comparison.considered.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `All ${comparison.considered.length} causes that were looked for`),
        h(
          "table",
          {},
          h("caption", {}, "Causes and what became of them"),
          h("thead", {}, h("tr", {}, ["cause", "outcome", "reasons"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, comparison.considered.map((one) => h("tr", {}, h("td", {}, one.cause), h("td", {}, one.outcome.replace("_", " ")), h("td", {}, one.reasons.join("; "))))),
        ),
      ),
  );
}
