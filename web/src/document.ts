/** What the program puts into the page: types made from its JSON Schema (schema.json, which a test of crates/page holds to what is written). */

import type * as schema from "./schema.js";

export type {
  BudgetComparison,
  Comparison,
  ComponentChange,
  ErrorRate,
  FaultGrid,
  Finding,
  Frame,
  IoMap,
  IoMaps,
  LatencyChange,
  LatencyInterval,
  LatencyOverTime,
  MetricComparison,
  OneComponent,
  OffCpu,
  OneRecording,
  OtherRun,
  OverTime,
  Page,
  PageSizes,
  Pictures,
  Primary,
  Recorders,
  RunEntry,
  Series,
  SeriesCourse,
  SettingDiff,
  SideRuns,
  Verdict,
} from "./schema.js";

/** Lower and upper end. */
export type Interval = readonly [number, number];

/** The document of the page that this script runs in. */
export function embedded(root: Document): schema.Page {
  const element = root.getElementById("pagelab-document");
  if (!element?.textContent) throw new Error("the page holds no document; it was cut off or edited: write it again with pagelab report");
  return JSON.parse(element.textContent) as schema.Page;
}
