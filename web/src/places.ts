/** Where in programs and kernel the largest differences are: a line for each component. */

import type { Comparison } from "./document.js";
import { h } from "./dom.js";
import { percent, signedDuration } from "./format.js";

/** The section; none where no place moved for sure, unless the primary differs and no component does for sure. */
export function places(comparison: Comparison, id: string): HTMLElement | null {
  const differs = ["better", "worse", "different"].includes(comparison.primary?.verdict ?? "");
  const lines = (comparison.budget?.places ?? []).flatMap((of) => {
    const told = of.places.filter((place) => place.is_sure || (!of.is_sure && differs));
    if (told.length === 0) return [];
    const doubt = of.is_sure ? "" : " (not for sure: its interval holds 0)";
    const named = told.map((place, at) => [at > 0 && ", ", h("code", {}, place.name), place.share === null ? "" : ` ${percent(place.share)}`]);
    return [h("li", {}, h("code", {}, of.component), ` ${signedDuration(of.difference_ns)}${doubt}: `, named)];
  });
  if (lines.length === 0) return null;
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h3", { id: `${id}-title`, class: "section" }, "Where"), h("ul", {}, lines));
}
