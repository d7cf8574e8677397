// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import type { BudgetComparison, Comparison, ComponentChange, MetricComparison, Page, Pictures, SettingDiff } from "../src/document.js";
import { slots } from "../src/fault-map.js";
import { layout, tone, without } from "../src/flame.js";
import { page } from "../src/main.js";
import { EVIL, otherRun, overTime } from "./over-time.js";
import { part } from "./part.js";
import { chosen, label } from "../src/metrics.js";
import { offCpu } from "../src/off-cpu.js";
import { PAGE_ROWS, pager } from "../src/pager.js";
import { places } from "../src/places.js";
import { recorders } from "../src/recorders.js";
import { csv } from "../src/save.js";
import { ticks } from "../src/scale.js";
import { sides } from "../src/settings.js";
import { sentence } from "../src/verdict.js";
import { steps } from "../src/waterfall.js";

const component = (name: string, difference: number, sure = true): ComponentChange => part<ComponentChange>({
  component: name,
  state: "run",
  about: `about ${name}`,
  base_ns: 100,
  test_ns: 100 + difference,
  difference_ns: difference,
  difference_ci95: sure ? [difference * 0.9, difference * 1.1] : [-1, 1],
  share: 0.5,
});

const budget = part<BudgetComparison>({
  per: "run",
  base_ns: 1000,
  test_ns: 1300,
  difference_ns: 300,
  difference_ci95: [250, 350],
  components: [component("run.fault.anonymous", 400), component("off.read", -80, false), component("run.user", -20)],
  missing: [],
  is_lower_bound: false,
});

const metric = (name: string, more: Partial<MetricComparison> = {}): MetricComparison => part<MetricComparison>({
  name,
  instance: null,
  unit: "count/op",
  base: { n: 4, mean: 10, sd: 1 },
  test: { n: 4, mean: 20, sd: 1 },
  p: 0.001,
  q: 0.01,
  ratio: 2,
  ratio_ci95: [1.8, 2.2],
  significant: true,
  note: null,
  ...more,
});

const comparison = part<Comparison>({
  method: "welch",
  base: { label: EVIL, n: 1, runs: [{ dir: EVIL, run: 1, round: null, excluded: null, primary: 1e9, notes: [] }] },
  test: { label: "test", n: 1, runs: [{ dir: "b", run: 1, round: null, excluded: null, primary: 1.3e9, notes: [] }] },
  primary: { metric: "run.elapsed_ns", unit: "ns", base_mean: 1e9, test_mean: 1.3e9, ratio: 1.3, ratio_ci95: [1.25, 1.35], p: 0.001, direction: "lower", verdict: "worse" },
  families: [],
  metrics: [metric(EVIL), metric("vmstat.thp_fault_alloc", { significant: false }), metric("target.rss", { follows_speed: true })],
  budget,
  profile: [{ frame: EVIL, base_ns_per_op: 1, test_ns_per_op: 5, delta_ns_per_op: 4, q: 0.01, significant: true }],
  settings: [{ key: EVIL, base: "always", test: EVIL, note: null }],
  findings: [
    {
      rank: 1,
      cause: "thp.disabled",
      title: "memory is faulted in by base pages",
      confidence: "mechanism",
      summary: EVIL,
      evidence: [EVIL, "second"],
      refuted: [],
      effect: { share: 0.97, share_ci95: [0.9, 1] },
      setting: { key: "thp.enabled", base: "always", test: "never" },
      fixes: [{ reach: "system", text: EVIL, command: "echo always | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" }],
    },
  ],
  considered: [{ cause: "io.direct", outcome: "refuted", reasons: [EVIL] }],
  notes: [EVIL],
  alpha: 0.05,
  exploratory: false,
});

const pictures: Pictures = {
  fault_maps: [
    null,
    { what: EVIL, start: "0x7f0000000000", len_bytes: 4 << 20, huge_bytes: 2 << 20, span_ns: 1e9, last_ns: 9e8, columns: 400, rows: 200, cells: [[0, 0, 5, 0], [399, 199, 1, 2]], faults: 8, mapping_faults: 8, order: "ascending" },
  ],
  recorders: [
    { facts: { host: ["a"], CPUs: ["2"] }, cpu_ns: 4e8, events: { faults: [1000, 0] }, refused: {} },
    { facts: { host: [EVIL], CPUs: ["2"] }, cpu_ns: null, events: { faults: [5000, 7] }, refused: { dax: EVIL } },
  ],
  flame: {
    name: "all",
    base: 100,
    test: 150,
    children: [
      { name: EVIL, base: 100, test: 60 },
      { name: "clear_page_[k]", base: 0, test: 90 },
    ],
  },
  off_cpu: {
    stream: "waits",
    passive: ["off.timer"],
    root: {
      name: "all",
      base: 1000,
      test: 1300,
      children: [
        { name: "off.read", base: 100, test: 300, children: [{ name: EVIL, base: 100, test: 300 }] },
        { name: "off.timer", base: 900, test: 1000, children: [{ name: "off.timer", base: 900, test: 1000 }] },
      ],
    },
  },
  over_time: [overTime("base", 1), overTime("test", 2)],
  other_runs: [[otherRun("base-2", 2, 1)], []],
  page_sizes: [{ source: "smaps", sizes: [{ page_size_bytes: 4096, bytes: 4096 }], shortfalls: [], address_spaces: [], address_spaces_total: 0 }, null],
  notes: [],
};

describe("the waterfall", () => {
  it("goes from the base to the test side without a gap", () => {
    const all = steps(budget);
    expect(all[0]).toMatchObject({ name: "base", from: 0, to: 1000 });
    expect(all.at(-1)).toMatchObject({ name: "test", to: 1300 });
    for (let place = 2; place < all.length - 1; place += 1) expect(all[place]?.from).toBe(all[place - 1]?.to);
    expect(all.at(-2)?.to).toBe(1300);
  });
  it("says which steps are sure", () => {
    expect(steps(budget).map((step) => step.isSure)).toEqual([true, true, false, true, true]);
  });
});

describe("rows a page at a time", () => {
  const draw = (row: number): HTMLTableRowElement => {
    const element = document.createElement("tr");
    element.textContent = String(row);
    return element;
  };
  const texts = (of: Element): (string | null)[] => [...of.children].map((row) => row.textContent);
  it("are all there to be turned to, and back", () => {
    const { body, buttons, show } = pager("numbers", draw);
    const rows = [...Array(2 * PAGE_ROWS + 1).keys()];
    show(rows);
    const [earlier, later] = buttons.querySelectorAll("button");
    if (!earlier || !later) throw new Error("there are two");
    const seen = texts(body);
    expect([seen.length, earlier.disabled, later.disabled]).toEqual([PAGE_ROWS, true, false]);
    for (const _ of [1, 2]) {
      later.click();
      seen.push(...texts(body));
    }
    expect(seen).toEqual(rows.map(String));
    expect([buttons.textContent, later.disabled]).toEqual([`Previousrows ${rows.length} to ${rows.length} of ${rows.length}Next`, true]);
    earlier.click();
    earlier.click();
    expect(texts(body)[0]).toBe("0");
  });
  it("need no buttons where one page holds them, and start anew with others", () => {
    const { body, buttons, show } = pager("numbers", draw);
    show([...Array(PAGE_ROWS + 1).keys()]);
    buttons.querySelectorAll("button")[1]?.click();
    show([7, 8]);
    expect([texts(body), buttons.hidden]).toEqual([["7", "8"], true]);
  });
});

describe("the page", () => {
  const made = page(part<Page>({ format: 1, version: "0", title: EVIL, comparisons: [comparison], pictures: [pictures], recordings: [] }));
  it("shows what would reorder text as a code", () => {
    expect(made.textContent).not.toContain("\u202e");
    expect(made.textContent).toContain("\\u{202e}");
  });
  it("shows names from recordings as text", () => {
    expect(made.querySelectorAll("script, img").length).toBe(0);
    expect((globalThis as { pwned?: number }).pwned).toBeUndefined();
    expect(made.textContent).toContain("<script>globalThis.pwned=1</script>");
  });
  it("says first what happened and why", () => {
    expect(sentence(comparison)).toBe("Test is worse: run.elapsed_ns +30 %: memory is faulted in by base pages (mechanism).");
    expect(made.querySelector("h2")?.textContent).toBe(sentence(comparison));
  });
  it("gives every picture a name, a table and a link", () => {
    const figures = [...made.querySelectorAll("figure")];
    expect(figures.length).toBe(11);
    for (const figure of figures) {
      expect(figure.querySelector("[role=img], svg[role=group]")?.getAttribute("aria-label")).toBeTruthy();
      expect(figure.querySelector("table caption")).toBeTruthy();
      expect([...figure.querySelectorAll(".buttons button")].map((button) => button.textContent)).toEqual(["CSV", "JSON", "SVG", "PNG"]);
      expect(figure.querySelector(`.buttons a[href="#${figure.id}"]`)).toBeTruthy();
      expect(figure.querySelector(".sources")?.textContent).toContain("pagelab query ");
      expect(figure.querySelector(`a[href="#${figure.id}"]`)).toBeTruthy();
    }
  });
  it("has no two elements of one name", () => {
    const ids = [...made.querySelectorAll("[id]")].map((element) => element.id);
    expect(new Set(ids).size).toBe(ids.length);
  });
  it("draws the marks that the document has", () => {
    const drawn = made.querySelectorAll("#runs circle.run");
    expect(drawn.length).toBe(2);
    expect(made.querySelectorAll("#time rect.bar").length).toBe(steps(budget).length);
  });
});

describe("the flame graph", () => {
  const flame = pictures.flame;
  if (!flame) throw new Error("there is one");
  it("is as wide as the larger side of each frame, children within their parents", () => {
    const all = layout(flame);
    expect(all.map((box) => [box.depth, box.frame.name === EVIL ? "evil" : box.frame.name])).toEqual([[0, "all"], [1, "evil"], [1, "clear_page_[k]"]]);
    const [whole, ...children] = all;
    for (const child of children) {
      expect(child.from).toBeGreaterThanOrEqual(whole?.from ?? 1);
      expect(child.to).toBeLessThanOrEqual((whole?.to ?? 0) + 1e-9);
    }
  });
  it("says by its colour what grew, shrank, came and went", () => {
    expect(tone({ name: "", base: 0, test: 90 })).toBe("new");
    expect(tone({ name: "", base: 90, test: 0 })).toBe("gone");
    expect(tone({ name: "", base: 100, test: 150 })).toBe("more");
    expect(tone({ name: "", base: 100, test: 50 })).toBe("less");
    expect(tone({ name: "", base: 100, test: 101 })).toBe("same");
  });
});

describe("the flame graph of waits", () => {
  const off = pictures.off_cpu;
  if (!off) throw new Error("there is one");
  const frames = (figure: HTMLElement, name = ""): string[] => [...figure.querySelectorAll(`g.frame${name} > title`)].map((title) => title.textContent ?? "");
  it("tells waiting for others apart, in words and by a class", () => {
    const figure = offCpu(off, "o", null);
    expect(frames(figure, ".passive").map((text) => text.split(":")[0])).toEqual(["off.timer (for others)", "off.timer"]);
    expect(frames(figure)[0]).toBe("all: 1 us on base, 1.3 us on test, +300 ns a run");
    const alone = offCpu(off, "o", ["/r"]);
    expect(frames(alone)[0]).toBe("all: 1.3 us");
    expect(alone.querySelector(".sources")?.textContent).toContain("pagelab export folded /r --of waits");
  });
  it("leaves it out where that is asked for, and the rest sums to what is left", () => {
    const left = without(off.root, off.passive);
    expect([left.base, left.test, left.children?.map((child) => child.name)]).toEqual([100, 300, ["off.read"]]);
    const figure = offCpu(off, "o", null);
    document.body.append(figure);
    const box = figure.querySelector<HTMLInputElement>("input[type=checkbox]");
    box?.click();
    expect(frames(figure).map((text) => text.split(":")[0])).toEqual(["all", "off.read", expect.stringContaining("<img")]);
    box?.click();
    expect(frames(figure).length).toBe(5);
    figure.remove();
  });
});

describe("the recorder", () => {
  it("tells what it lost, and what the host refused", () => {
    const section = recorders(pictures.recorders, "r");
    expect(section.textContent).toContain("7 of 5 k");
    expect(section.textContent).toContain("dax");
    expect(section.textContent).toContain("not known");
  });
});

describe("metrics", () => {
  it("are found by words, and those that only follow the speed are left out where asked", () => {
    expect(chosen(comparison.metrics, "thp ALLOC", false, "certain").map(label)).toEqual(["vmstat.thp_fault_alloc"]);
    expect(chosen(comparison.metrics, "", true, "certain").length).toBe(1);
    expect(chosen(comparison.metrics, "", false, "name").map(label).at(-1)).toBe("vmstat.thp_fault_alloc");
  });
});

const grid = pictures.fault_maps[1];
if (!grid) throw new Error("there is one");

describe("files and scales", () => {
  it("quote what would end a field", () => {
    const table = { columns: [{ name: "a" }, { name: "b,c" }], rows: [["x\"y", 1], [null, 2.5]] };
    expect(csv({ columns: [{ name: "a" }], rows: [["=HYPERLINK(1)"], [-5]] })).toBe("a\r\n'=HYPERLINK(1)\r\n-5\r\n");
    expect(csv(table)).toBe('a,"b,c"\r\n"x""y",1\r\n,2.5\r\n');
  });
  it("have round ticks", () => {
    expect(ticks(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
    expect(ticks(3, 3, 5)).toEqual([3]);
    expect(ticks(0.3, 0.30000000000000004, 5)).toEqual([0.3]);
    expect(slots({ ...grid, start: "0x1ff000", len_bytes: 4 << 20, huge_bytes: 2 << 20 })).toEqual([4096, 4096 + (2 << 20)]);
  });
  it("lists show the members that differ", () => {
    expect(sides(part<SettingDiff>({ key: "mount./.options", base: "a,b", test: "a,c", note: null, parts: [{ base: "b", test: "c" }] }))).toEqual(["b", "c"]);
    expect(sides(part<SettingDiff>({ key: "x", base: null, test: "1", note: null }))).toEqual(["(not there)", "1"]);
  });
});

describe("places", () => {
  const place = (name: string, share: number, is_sure: boolean) => ({ name, share, is_sure });
  const drawn = (is_sure: boolean, verdict: "worse" | "no_difference") =>
    places(part<Comparison>({
      primary: { verdict },
      budget: { places: [{ component: "off.flush", difference_ns: 2e6, is_sure, places: [place("submit_bio_wait (fsync)", 0.9, is_sure), place(EVIL, 0.05, false)] }] },
    }), "where")?.querySelector("li")?.textContent;

  it("names what moved for sure", () => {
    expect(drawn(true, "worse")).toBe("off.flush +2 ms: submit_bio_wait (fsync) 90 %");
  });

  it("says what did not, where the primary differs alone", () => {
    expect(drawn(false, "worse")).toContain("(not for sure: its interval holds 0): submit_bio_wait (fsync) 90 %, ");
    expect(drawn(false, "no_difference")).toBeUndefined();
  });
});
