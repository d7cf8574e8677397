/** Settings that differ. */

import type { Comparison, SettingDiff } from "./document.js";
import { h } from "./dom.js";

/** Values of both sides; of a list, the members that differ. */
export function sides(diff: SettingDiff): [string, string] {
  const parts = diff.parts ?? [];
  if (parts.length === 0) return [diff.base ?? "(not there)", diff.test ?? "(not there)"];
  const of = (side: "base" | "test"): string => parts.flatMap((part) => part[side] ?? []).join(" ") || "(not there)";
  return [of("base"), of("test")];
}

export function settings(comparison: Comparison, id: string): HTMLElement {
  const named = new Set(comparison.findings.flatMap((finding) => finding.setting?.key ?? []));
  const row = (diff: SettingDiff): HTMLTableRowElement => {
    const [base, test] = sides(diff);
    return h("tr", {}, h("th", { scope: "row" }, diff.key), h("td", {}, h("code", {}, base)), h("td", {}, h("code", {}, test)), h("td", {}, named.has(diff.key) ? "a cause" : (diff.note ?? "")));
  };
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title`, class: "section" }, "Settings"),
    comparison.settings.length === 0
      ? h("p", {}, "No setting differs.")
      : h(
          "div",
          { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Settings that differ" },
          h(
            "table",
            {},
            h("caption", {}, "The most relevant first"),
            h("thead", {}, h("tr", {}, ["setting", "base", "test", "note"].map((name) => h("th", { scope: "col" }, name)))),
            h("tbody", {}, comparison.settings.map(row)),
          ),
        ),
  );
}
