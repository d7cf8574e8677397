/** The page: the document that it holds, drawn. It computes nothing, and asks for nothing unless it is served. */

import "./page.css";
import { causes } from "./causes.js";
import { embedded, type Comparison, type Page, type PageSizes, type Pictures } from "./document.js";
import { h } from "./dom.js";
import { faultMap } from "./fault-map.js";
import { onCpu } from "./flame.js";
import { functions } from "./functions.js";
import { latency } from "./latency.js";
import { metrics } from "./metrics.js";
import { offCpu } from "./off-cpu.js";
import { overTime } from "./over-time.js";
import { pageSizes } from "./page-sizes.js";
import { places } from "./places.js";
import { recording } from "./recording.js";
import { recorders } from "./recorders.js";
import { runs } from "./runs.js";
import { settings } from "./settings.js";
import { bothSides, type Side } from "./sides.js";
import { verdict } from "./verdict.js";
import { waterfall } from "./waterfall.js";
import { live } from "./zoom.js";

/** What was not measured, and what a reader must know. */
function missing(comparison: Comparison, ofPictures: readonly string[], id: string): HTMLElement | null {
  const parts = (comparison.budget?.missing ?? []).map((part) => `${part.part} on ${part.side} (${part.runs} runs): ${part.reason}`);
  const notes = [...parts, ...comparison.notes, ...ofPictures];
  if (notes.length === 0) return null;
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title`, class: "section" }, "What was not measured, and what to know"),
    h("ul", {}, notes.map((note) => h("li", {}, note))),
  );
}

/** What a side is: its name, and what it ran. */
function side(name: "base" | "test", label: string, commands: readonly string[] | undefined): HTMLElement {
  const shown = label === name ? "" : ` ${label}`;
  return h("p", { class: "sides" }, h("span", { class: `key ${name}` }, name), shown, (commands ?? []).map((command) => [" ", h("code", {}, command)]));
}

/** Page sizes of the sides that have them. */
function sizes(pictures: Pictures): Side<PageSizes>[] {
  return (["base", "test"] as const).flatMap((name, place) => {
    const [of, dir] = [pictures.page_sizes[place], pictures.over_time[place]?.dir];
    return of && dir ? [{ name, dir, of, others: [] }] : [];
  });
}

function compared(comparison: Comparison, pictures: Pictures | undefined, id: string): HTMLElement {
  const at = (name: string): string => `${id}${name}`;
  return h(
    "article",
    { class: "comparison", id: at("comparison") },
    verdict(comparison),
    side("base", comparison.base.label, comparison.facts?.base?.commands),
    side("test", comparison.test.label, comparison.facts?.test?.commands),
    runs(comparison, at("runs")),
    comparison.budget && waterfall(comparison.budget, at("time")),
    places(comparison, at("where")),
    causes(comparison, at("why")),
    missing(comparison, pictures?.notes ?? [], at("missing")),
    latency(comparison, at("latency")),
    pictures && overTime(bothSides(pictures.over_time, pictures.other_runs), at),
    pictures && pageSizes(sizes(pictures), at("page-sizes")),
    pictures && faultMap(pictures.fault_maps, at("faults")),
    pictures?.flame && onCpu(pictures.flame, at("stacks"), null),
    pictures?.off_cpu && offCpu(pictures.off_cpu, at("off-stacks"), null),
    functions(comparison, at("functions")),
    metrics(comparison, at("metrics")),
    settings(comparison, at("settings")),
    pictures && recorders(pictures.recorders, at("recorder")),
  );
}

/** All of the page. */
export function page(document: Page): HTMLElement {
  const several = document.comparisons.length > 1;
  return h(
    "main",
    {},
    h("h1", {}, document.title),
    document.comparisons.map((comparison, place) => compared(comparison, document.pictures[place], several ? `${place + 1}-` : "")),
    document.recordings.map((one, place) => recording(one, document.recordings.length > 1 ? `r${place + 1}-` : "")),
    h("footer", {}, h("p", {}, `Written by pagelab ${document.version}. ${document.served ? "It asks the pagelab that serves it, and nobody else." : "Everything on this page is in it: it asks for nothing."}`)),
  );
}

/** On paper the evidence of causes is read without a click: what is closed is open while the page is printed. */
function printEvidence(drawn: HTMLElement): void {
  let closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    closed = [...drawn.querySelectorAll<HTMLDetailsElement>(".finding details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });
}

const root = document.getElementById("page");
if (root) {
  try {
    const shown = embedded(document);
    if (shown.format !== 1) throw new Error(`the document has format ${shown.format}, this script draws format 1: write the page again with one pagelab`);
    const drawn = page(shown);
    root.replaceChildren(drawn);
    printEvidence(drawn);
    if (shown.served) void live(drawn);
  } catch (error) {
    root.replaceChildren(h("p", {}, `This page cannot be drawn: ${error instanceof Error ? error.message : String(error)}`));
    throw error;
  }
  // What the link names is there only now.
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}
