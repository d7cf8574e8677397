/** One recording by itself: what was run, where its time went, what may be wrong with it. */

import { bars } from "./bars.js";
import { diagnosis } from "./causes.js";
import { chart } from "./chart.js";
import { componentBar, componentTable } from "./components.js";
import type { OneComponent, OneRecording } from "./document.js";
import { h } from "./dom.js";
import { oneFaultMap } from "./fault-map.js";
import { onCpu } from "./flame.js";
import { quantity } from "./format.js";
import { offCpu } from "./off-cpu.js";
import { overTime } from "./over-time.js";
import { pageSizes } from "./page-sizes.js";
import { word } from "./sources.js";
import { waits } from "./waits.js";

const SHOWN = 14;
const NAMES = 190;
const VALUES = 170;

/** The sentence at the top. */
export function sentence(recorded: OneRecording): string {
  const { explanation, budget } = recorded;
  const first = explanation.findings[0];
  if (first) return `${first.title} (${first.confidence}).`;
  const most = budget.components[0];
  return most ? `Most of its time went into ${most.component}: ${most.about}.` : "Nothing stands out.";
}

function components(all: readonly OneComponent[], dir: string, id: string): HTMLElement {
  const shown = all.slice(0, SHOWN).map((one) => componentBar(one, one.pct));
  return chart({
    id,
    title: "Where the time of its tasks went",
    about: "Sums over all tasks. run: on a CPU, by what it was spent on; ready: waiting for one (outlined); off: waiting for something else.",
    picture: bars(shown, "components", NAMES, VALUES),
    table: componentTable(all),
    data: all,
    source: {
      command: `pagelab show ${word(dir)} budget --top 0`,
      sql: "SELECT state, call, sum(ns) AS ns FROM waits WHERE state IN ('run', 'ready', 'off') GROUP BY state, call ORDER BY ns DESC",
      of: [dir],
      isBeneath: true,
    },
  });
}

/** The section of a recording. */
export function recording(recorded: OneRecording, id: string): HTMLElement {
  const { summary, explanation, budget } = recorded;
  const at = (name: string): string => `${id}${name}`;
  const facts: [string, string][] = [];
  const add = (name: string, value: number | null, unit: string): void => {
    if (value !== null) facts.push([name, quantity(value, unit)]);
  };
  const overview = summary.overview;
  add("elapsed", overview.elapsed_ns, "ns");
  add("user", overview.user_ns, "ns");
  add("kernel", overview.system_ns, "ns");
  add("faults", overview.minor_faults, "count");
  add("major faults", overview.major_faults, "count");
  add("read", overview.read_bytes, "bytes");
  add("written", overview.written_bytes, "bytes");
  add("largest resident size", overview.max_rss_bytes, "bytes");
  const where = [summary.host, summary.kernel && `Linux ${summary.kernel}`, summary.cpus !== null && `${summary.cpus} CPUs`, summary.virt].filter(Boolean).join(", ");
  const missing = [...budget.missing.map((part) => `${part.part}: ${part.reason}`), ...explanation.notes, ...recorded.notes];
  if (explanation.no_mappings) missing.push(explanation.no_mappings.text);
  const lost = Object.entries(summary.loss).flatMap(([stream, counted]) => (counted.lost ? [`${counted.lost} of ${counted.seen ?? 0} events of ${stream} were lost`] : []));
  const unsaid = [...new Set([...lost, ...missing])];
  return h(
    "article",
    { class: "comparison", id: at("recording") },
    h(
      "header",
      { class: "verdict" },
      h("h2", {}, sentence(recorded)),
      h("p", {}, h("code", {}, summary.command?.join(" ") ?? summary.target ?? recorded.dir)),
      h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("p", { class: "about" }, where),
      !explanation.complete && h("p", { class: "caution" }, "The recorder did not reach a clean end: what came last is missing."),
    ),
    budget.components.length > 0 && components(budget.components, recorded.dir, at("time")),
    diagnosis(explanation, "No rule found a cause in this recording alone. Another one to compare it with shows more: pagelab compare GOOD BAD", at("why"), false),
    waits(budget.components, recorded.dir, at("waits")),
    overTime([{ name: "recording", dir: recorded.dir, of: recorded.over_time, others: [] }], at),
    recorded.page_sizes && pageSizes([{ name: "recording", dir: recorded.dir, of: recorded.page_sizes, others: [] }], at("page-sizes")),
    recorded.fault_map && oneFaultMap(recorded.fault_map, [recorded.dir], at("faults")),
    recorded.flame && onCpu(recorded.flame, at("stacks"), [recorded.dir]),
    recorded.off_cpu && offCpu(recorded.off_cpu, at("off-stacks"), [recorded.dir]),
    unsaid.length > 0 &&
      h(
        "section",
        { id: at("missing"), "aria-labelledby": at("missing-title") },
        h("h3", { id: at("missing-title"), class: "section" }, "What was not measured, and what to know"),
        h("ul", {}, unsaid.map((note) => h("li", {}, note))),
      ),
  );
}
