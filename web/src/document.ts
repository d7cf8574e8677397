/** What the program puts into the page (crates/analysis/src/compare.rs): the parts of `compare --json` that are drawn. */

export type Interval = readonly [number, number];

export interface RunEntry {
  readonly dir: string;
  readonly run: number | null;
  readonly round: number | null;
  readonly excluded: { readonly reason: string } | null;
  readonly primary: number | null;
  readonly notes: readonly string[];
}

export interface SideRuns {
  readonly label: string;
  readonly runs: readonly RunEntry[];
  readonly n: number;
}

export type Verdict = "better" | "worse" | "different" | "no_difference" | "not_tested";

export interface Primary {
  readonly metric: string;
  readonly unit: string;
  readonly base_mean: number | null;
  readonly test_mean: number | null;
  readonly ratio: number | null;
  readonly ratio_ci95: Interval | null;
  readonly p: number | null;
  readonly direction: string;
  readonly verdict: Verdict;
  readonly equivalent_within_pct?: number | null;
}

export interface Figures {
  readonly n: number;
  readonly mean: number | null;
  readonly sd: number | null;
}

export interface Metric {
  readonly name: string;
  readonly instance: string | null;
  readonly unit: string;
  readonly base: Figures;
  readonly test: Figures;
  readonly p: number | null;
  readonly q: number | null;
  readonly ratio: number | null;
  readonly ratio_ci95: Interval | null;
  readonly significant: boolean | null;
  readonly follows_speed?: boolean | null;
  readonly note: string | null;
}

export interface Component {
  readonly component: string;
  readonly state: string;
  readonly about: string;
  readonly base_ns: number | null;
  readonly test_ns: number | null;
  readonly difference_ns: number | null;
  readonly difference_ci95: Interval | null;
  readonly share: number | null;
  readonly significant?: boolean | null;
}

export interface Budget {
  readonly per: string;
  readonly base_ns: number;
  readonly test_ns: number;
  readonly difference_ns: number;
  readonly difference_ci95: Interval | null;
  readonly components: readonly Component[];
  readonly missing: readonly { readonly side: string; readonly part: string; readonly runs: number; readonly reason: string }[];
  readonly is_lower_bound: boolean;
}

export interface Finding {
  readonly rank: number;
  readonly cause: string;
  readonly title: string;
  readonly confidence: string;
  readonly summary: string;
  readonly evidence: readonly string[];
  readonly refuted: readonly string[];
  readonly not_looked_at?: readonly string[];
  readonly effect: { readonly share: number; readonly of?: string; readonly share_ci95: Interval | null } | null;
  readonly setting: { readonly key: string; readonly base: string | null; readonly test: string | null } | null;
  readonly fixes: readonly { readonly reach: string; readonly text: string; readonly command: string }[];
  readonly follow_up?: { readonly state: string; readonly reason: string } | null;
}

export interface SettingDiff {
  readonly key: string;
  readonly base: string | null;
  readonly test: string | null;
  readonly note: string | null;
  readonly parts?: readonly { readonly base: string | null; readonly test: string | null }[];
}

export interface LatencyChange {
  readonly instance: string | null;
  readonly kind: string;
  readonly quantile: string;
  readonly base: Figures;
  readonly test: Figures;
  readonly ratio: number | null;
  readonly ratio_ci95: Interval | null;
  readonly significant: boolean | null;
}

export interface ErrorRate {
  readonly confidence: string;
  readonly findings: number;
  readonly wrong: number;
  readonly wrong_ci95_pct: Interval;
  readonly measured: string;
}

export interface Comparison {
  readonly method: string;
  readonly base: SideRuns;
  readonly test: SideRuns;
  readonly primary: Primary | null;
  readonly families: readonly { readonly name: string; readonly size: number }[];
  readonly metrics: readonly Metric[];
  readonly budget: Budget | null;
  readonly profile: readonly {
    readonly frame: string;
    readonly base_ns_per_op: number | null;
    readonly test_ns_per_op: number | null;
    readonly delta_ns_per_op: number | null;
    readonly q: number | null;
    readonly significant?: boolean | null;
  }[];
  readonly settings: readonly SettingDiff[];
  readonly findings: readonly Finding[];
  readonly considered: readonly { readonly cause: string; readonly outcome: string; readonly reasons: readonly string[] }[];
  readonly notes: readonly string[];
  readonly alpha: number;
  readonly exploratory: boolean;
  readonly unknown?: {
    readonly share: number;
    readonly of?: string;
    readonly components: readonly { readonly component: string; readonly about: string; readonly ns: number; readonly share: number }[];
    readonly record: string;
  } | null;
  readonly stability?: { readonly notes: readonly string[] } | null;
  readonly latency?: readonly LatencyChange[];
  readonly error_rates?: readonly ErrorRate[];
  readonly facts?: { readonly base?: { readonly commands?: readonly string[] }; readonly test?: { readonly commands?: readonly string[] } } | null;
}

export interface FaultGrid {
  readonly what: string;
  readonly start: string;
  readonly len_bytes: number;
  readonly huge_bytes: number;
  readonly span_ns: number;
  readonly last_ns: number;
  readonly columns: number;
  readonly rows: number;
  /** Column, row, faults that found no page, faults on a page that was there. */
  readonly cells: readonly (readonly [number, number, number, number])[];
  readonly faults: number;
  readonly mapping_faults: number;
  readonly order: string | null;
}

export interface Frame {
  readonly name: string;
  /** ns per run. */
  readonly base: number;
  readonly test: number;
  readonly children?: readonly Frame[];
}

export interface Recorders {
  readonly facts: Readonly<Record<string, readonly string[]>>;
  readonly cpu_ns: number | null;
  /** Events seen and lost, by stream. */
  readonly events: Readonly<Record<string, readonly [number, number]>>;
  readonly refused: Readonly<Record<string, string>>;
}

/** Quantiles of the operations of one interval, ns. */
export interface LatencyInterval {
  readonly end_ns: number;
  readonly count: number;
  readonly p50_ns: number;
  readonly p99_ns: number;
  readonly max_ns: number;
}

export interface LatencyOverTime {
  readonly start_ns: number;
  readonly interval_ns: number;
  readonly kind: string;
  readonly courses: readonly { readonly direction: string; readonly intervals: readonly LatencyInterval[] }[];
}

export interface IoMap {
  readonly name: string;
  readonly file_id: number;
  readonly start_ns: number;
  readonly span_ns: number;
  readonly low_bytes: number;
  readonly high_bytes: number;
  readonly columns: number;
  readonly rows: number;
  /** Column, row, reads, writes. */
  readonly cells: readonly (readonly [number, number, number, number])[];
  readonly reads: number;
  readonly writes: number;
}

export interface IoMaps {
  readonly files: readonly IoMap[];
  readonly files_total: number;
  /** Lower end of a power of two, bytes; reads; writes. */
  readonly sizes: readonly (readonly [number, number, number])[];
}

export interface Course {
  readonly table: string;
  readonly name: string;
  readonly instance: string | null;
  readonly kind: string;
  readonly unit: string;
  readonly values: readonly (number | null)[];
}

export interface Series {
  readonly start_ns: number;
  readonly span_ns: number;
  readonly width_ns: number;
  readonly courses: readonly Course[];
}

/** One recording against time. */
export interface OverTime {
  readonly dir: string;
  readonly latency: LatencyOverTime | null;
  readonly io: IoMaps | null;
  readonly series: Series;
}

export interface PageSizes {
  readonly source: string | null;
  readonly sizes: readonly { readonly page_size_bytes: number; readonly bytes: number }[];
  readonly shortfalls: readonly { readonly asked: string; readonly reason: string; readonly regions: number; readonly bytes: number }[];
  readonly address_spaces: readonly {
    readonly mm_id: number;
    readonly pid: number | null;
    readonly comm: string | null;
    readonly bytes: number;
    readonly sizes: readonly { readonly page_size_bytes: number; readonly bytes: number }[];
  }[];
  readonly address_spaces_total: number;
}

export interface Pictures {
  readonly over_time: readonly [OverTime | null, OverTime | null];
  readonly recorders: readonly [Recorders, Recorders];
  readonly fault_maps: readonly [FaultGrid | null, FaultGrid | null];
  readonly flame: Frame | null;
  readonly notes: readonly string[];
}

export interface OneComponent {
  readonly component: string;
  readonly state: string;
  readonly active: boolean;
  readonly about: string;
  readonly ns: number;
  readonly pct: number;
  readonly wall_ns: number | null;
  readonly error_ns: number;
}

export interface Recorded {
  readonly dir: string;
  readonly explanation: {
    readonly label: string | null;
    readonly complete: boolean;
    readonly seconds: number;
    readonly findings: readonly Finding[];
    readonly considered: Comparison["considered"];
    readonly notes: readonly string[];
  };
  readonly summary: {
    readonly command: readonly string[] | null;
    readonly target: string | null;
    readonly host: string | null;
    readonly kernel: string | null;
    readonly cpus: number | null;
    readonly virt: string | null;
    readonly ended_by: string | null;
    readonly overview: {
      readonly elapsed_ns: number | null;
      readonly user_ns: number | null;
      readonly system_ns: number | null;
      readonly minor_faults: number | null;
      readonly major_faults: number | null;
      readonly read_bytes: number | null;
      readonly written_bytes: number | null;
      readonly max_rss_bytes: number | null;
    };
    readonly loss: Readonly<Record<string, { readonly seen?: number; readonly lost?: number }>>;
    readonly probes: readonly unknown[];
  };
  readonly budget: {
    readonly lives_ns: number | null;
    readonly run_ns: number | null;
    readonly ready_ns: number | null;
    readonly off_ns: number | null;
    readonly samples: number;
    readonly components: readonly OneComponent[];
    readonly missing: readonly { readonly part: string; readonly reason: string }[];
  };
  readonly fault_map: FaultGrid | null;
  readonly flame: Frame | null;
  readonly over_time: OverTime;
  readonly page_sizes: PageSizes | null;
  readonly notes: readonly string[];
}

export interface Page {
  readonly format: number;
  readonly version: string;
  readonly title: string;
  /** `pagelab ui` serves it; absent in pages of older versions. */
  readonly served?: boolean;
  readonly comparisons: readonly Comparison[];
  readonly pictures: readonly Pictures[];
  readonly recordings: readonly Recorded[];
}

/** The document of the page that this script runs in. */
export function embedded(root: Document): Page {
  const element = root.getElementById("pagelab-document");
  if (!element?.textContent) throw new Error("the page holds no document; it was cut off or edited: write it again with pagelab report");
  return JSON.parse(element.textContent) as Page;
}
