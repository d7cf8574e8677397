// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import type { OneComponent, PageSizes, SeriesCourse } from "../src/document.js";
import { ioMap, offsetText, pairs, shade } from "../src/io-map.js";
import { ioSizes } from "../src/io-sizes.js";
import { latencyOverTime, QUANTILES, sql } from "../src/latency-over-time.js";
import { pageSizes, shown } from "../src/page-sizes.js";
import { apart } from "../src/panel.js";
import { digits, range, series } from "../src/series.js";
import { bySide, having, type RunSide } from "../src/sides.js";
import { query, SIDES, word } from "../src/sources.js";
import { waits } from "../src/waits.js";
import { file, otherRun, overTime } from "./over-time.js";
import { part } from "./part.js";

const sides = (["base", "test"] as const).map((name, place): RunSide => ({ name, dir: `/runs/${name}`, of: overTime(name, place + 1), others: [] }));
/** The same with two other runs on the base and three on the test side, some slower than the typical ones. */
const several = sides.map((side, place): RunSide => ({ ...side, others: Array.from({ length: 2 + place }, (_, other) => otherRun(`/runs/${side.name}-${other}`, other, 3 + other)) }));
const latencies = having(sides, (one) => one.latency);
const severalLatencies = having(several, (one) => one.latency, (one) => one.latency);
const ios = having(sides, (one) => one.io);

describe("latency over time", () => {
  const figure = latencyOverTime(latencies, "l");
  it("has a mark for each quantile of each interval, and a gap where one had no operations", () => {
    for (const side of ["base", "test"]) {
      for (const quantile of QUANTILES) {
        expect(figure?.querySelectorAll(`.mark.${side}.${quantile}`).length).toBe(3);
        expect(figure?.querySelector(`path.line.${side}.${quantile}`)?.getAttribute("d")?.match(/[ML]/g)?.join("")).toBe("MLM");
      }
    }
  });
  it("has both sides on one scale: twice the latency is the same way up everywhere", () => {
    const y = (side: string): number => Number(figure?.querySelector(`.mark.${side}.p50`)?.getAttribute("cy"));
    const p99 = (side: string): number => Number(figure?.querySelector(`.mark.${side}.p99`)?.getAttribute("y"));
    expect(y("base") - y("test")).toBeCloseTo(p99("base") - p99("test"), 6);
    expect(y("base")).toBeGreaterThan(y("test"));
  });
  it("is there only where it was recorded, and says its SQL", () => {
    expect(latencyOverTime([], "l")).toBeNull();
    expect(sql({ interval_ns: 2e9, kind: "clat" })).toMatch(/2000000000\.0.*kind|kind = 'clat'.*2000000000\.0/);
  });
});

describe("other runs of a side", () => {
  const figure = latencyOverTime(severalLatencies, "l");
  const ys = (selector: string): number[] => [...(figure?.querySelector(selector)?.getAttribute("d")?.matchAll(/[ML]-?[\d.]+ (-?[\d.]+)/g) ?? [])].map(([, y]) => Number(y));
  it("are thin lines behind the typical one, on the same scale", () => {
    expect(figure?.querySelectorAll("path.thin.base.p50").length).toBe(2);
    expect(figure?.querySelectorAll("path.thin.test.max").length).toBe(3);
    // A latency of three times the base's, and one of nine: nine times that is twice as far up.
    const [typical] = ys("path.line.base.p50");
    const [p99] = ys("path.line.base.p99");
    const [other] = ys("path.thin.base.p50");
    expect(((typical ?? 0) - (other ?? 0)) * 2).toBeCloseTo((typical ?? 0) - (p99 ?? 0), 1);
    expect(Math.min(...ys("path.thin.test.max"))).toBeGreaterThan(0);
  });
  it("are in the table and in the file, each by its recording", () => {
    const dirs = [...(figure?.querySelectorAll("tbody tr td:nth-child(2)") ?? [])].map((cell) => cell.textContent);
    expect([...new Set(dirs)]).toEqual(["/runs/base", "/runs/base-0", "/runs/base-1", "/runs/test", "/runs/test-0", "/runs/test-1", "/runs/test-2"]);
    expect(bySide(severalLatencies)["test"]?.others?.map((one) => one.dir)).toEqual(["/runs/test-0", "/runs/test-1", "/runs/test-2"]);
  });
  it("are dots where there is one interval alone", () => {
    const one = severalLatencies.map((side) => ({ ...side, others: side.others.map((other) => ({ ...other, of: { ...other.of, courses: other.of.courses.map((course) => ({ ...course, intervals: course.intervals.slice(0, 1) })) } })) }));
    expect(latencyOverTime(one, "l")?.querySelectorAll(".dot.base").length).toBe(2 * 3);
    expect(figure?.querySelectorAll(".dot").length).toBe(0);
  });
  it("have a legend, which lines of one run do not need", () => {
    expect(figure?.querySelector("g.legend")?.textContent).toBe("base: the run in the middlebase: 2 other runstest: the run in the middletest: 3 other runs");
    expect(latencyOverTime(latencies, "l")?.querySelector("g.legend")).toBeNull();
  });
  it("are in each small chart of a metric, and stretch its scale", () => {
    const strip = series(having(several, (one) => one.series, (one) => one.series), "m");
    expect(strip?.querySelectorAll("path.thin.base").length).toBe(2 * 2);
    expect(strip?.querySelectorAll("path.thin.test").length).toBe(2 * 3);
    const alone = series(having(sides, (one) => one.series), "m");
    const top = (figure: HTMLElement | null): string | undefined => [...(figure?.querySelectorAll("svg > g:not(.legend):last-of-type text.tick") ?? [])].map((tick) => tick.textContent ?? "").find((text) => text.endsWith("/s"));
    expect([top(alone), top(strip)]).toEqual(["8/s", "20/s"]);
  });
});

describe("the map of reads and writes", () => {
  it("says whether it is of files or of devices", () => {
    const blocks = ios.map((side) => ({ ...side, of: { ...side.of, table: "block_ios" as const } }));
    const said = (figure: HTMLElement | null): string => figure?.querySelector("figcaption")?.textContent ?? "";
    const text = (figure: HTMLElement | null): string => figure?.querySelector(".sources")?.textContent ?? "";
    expect(said(ioMap(ios, "io"))).toContain("The files with most bytes");
    expect(said(ioMap(blocks, "io"))).toContain("The block devices with most bytes");
    expect([text(ioMap(blocks, "io")), text(ioSizes(blocks, "io"))].every((text) => text.includes("FROM block_ios") && text.includes("/runs/base block"))).toBe(true);
    const [base, test] = [ios[0], blocks[1]];
    if (!base || !test) throw new Error("there are two");
    expect(said(ioMap([base, test], "io"))).toContain("One side has system calls");
    expect(text(ioMap([base, test], "io"))).not.toContain("pagelab query /runs/test");
  });
  it("draws each cell once, reads and writes apart", () => {
    const figure = ioMap(ios, "io");
    const drawn = (direction: string): number => [...(figure?.querySelectorAll(`path.op.${direction}`) ?? [])].reduce((sum, path) => sum + (path.getAttribute("d")?.split("M").length ?? 1) - 1, 0);
    expect(drawn("read")).toBe(2 * 2 * 2);
    expect(drawn("write")).toBe(2 * 2 * 2);
  });
  it("puts files of one name beside each other, the others by rank", () => {
    const [first, second] = ios;
    if (!first || !second) throw new Error("there are two");
    const of = (side: typeof first, names: string[]): typeof first => ({ ...side, of: { ...side.of, files: names.map((name) => file(name)) } });
    const found = pairs([of(first, ["a", "b"]), of(second, ["b", "c", "d"])]);
    expect(found.map((pair) => pair.map(({ map }) => map?.name ?? null))).toEqual([["a", "c"], ["b", "b"], [null, "d"]]);
  });
  it("tells the ends of a range apart that lies far from 0", () => {
    const ends = (low: number, high: number): string[] => [low, high].map(offsetText(low, high));
    expect(ends(0, 64 << 20)).toEqual(["0 B", "64 MiB"]);
    expect(ends(168.25 * 2 ** 30, 168.25 * 2 ** 30 + (32 << 20))).toEqual(["168.3 GiB", "+32 MiB"]);
  });
  it("shades by factors", () => {
    expect([1, 9, 11, 101, 9999].map((count) => shade(count, 10_000))).toEqual([0, 0, 1, 2, 3]);
    expect(shade(1, 1)).toBe(0);
  });
  it("has bars as high as their calls", () => {
    const bars = [...(ioSizes(ios, "s")?.querySelectorAll("rect.size") ?? [])];
    expect(bars.length).toBe(2 * 3);
    const high = (name: string): number => Math.max(...bars.filter((bar) => bar.classList.contains(name)).map((bar) => Number(bar.getAttribute("height"))));
    expect(high("write") / high("read")).toBeCloseTo(900 / 6, 0);
  });
});

describe("series", () => {
  it("break where a value is not known", () => {
    const figure = series(having(sides, (one) => one.series), "m");
    expect([...(figure?.querySelectorAll("path.line.base") ?? [])].map((path) => path.getAttribute("d")?.match(/[ML]/g)?.join(""))).toEqual(["MML", "MLLL"]);
  });
  it("name the ends of a scale so that they differ", () => {
    const GIB = 2 ** 30;
    expect([digits(0, 5, "count"), digits(15.91 * GIB, 15.92 * GIB, "bytes"), digits(15.911 * GIB, 15.912 * GIB, "bytes")]).toEqual([3, 4, 5]);
  });
  it("begin at 0, but for levels that hardly move", () => {
    const course = (kind: string, values: (number | null)[]): SeriesCourse => ({ table: "metrics", name: "x", instance: null, kind, unit: "bytes", values });
    expect(range([course("gauge", [100, 110])])).toEqual([100, 110]);
    expect(range([course("counter", [100, 110])])).toEqual([0, 110]);
    expect(range([course("gauge", [1, 110, null])])).toEqual([0, 110]);
    expect(range([course("gauge", [0, 0])])).toEqual([0, 1]);
  });
});

describe("bars", () => {
  it("are as long as their numbers", () => {
    const sizes = { source: null, sizes: [{ page_size_bytes: 4096, bytes: 3000 }, { page_size_bytes: 2 << 20, bytes: 1000 }], shortfalls: [{ asked: "madvise", reason: "<b>", regions: 1, bytes: 1500 }], address_spaces: [], address_spaces_total: 0 };
    const alone = pageSizes([{ name: "recording", dir: "/r", of: sizes, others: [] }], "p");
    const widths = [...(alone?.querySelectorAll("rect.bar") ?? [])].map((bar) => Number(bar.getAttribute("width")));
    for (const [place, part] of [1, 1 / 3, 0.5].entries()) expect((widths[place] ?? 0) / (widths[0] ?? 1)).toBeCloseTo(part, 6);
    const one = part<OneComponent>({ component: "off.read", state: "off", active: true, about: "a", ns: 5, pct: 1, wall_ns: null, error_ns: 0 });
    expect(waits([{ ...one, state: "run" }], "/r", "w")).toBeNull();
    expect(waits([one, { ...one, state: "ready" }], "/r", "w")?.querySelectorAll("rect.bar").length).toBe(2);
  });
});

describe("page sizes of both sides", () => {
  const sizes = (huge: number, reason: string | null): PageSizes => part<PageSizes>({ source: null, sizes: [{ page_size_bytes: 2 << 20, bytes: huge }, { page_size_bytes: 4096, bytes: 1000 }].filter((one) => one.bytes > 0), shortfalls: reason ? [{ asked: "madvise", reason, regions: 1, bytes: 500 }] : [], address_spaces: [], address_spaces_total: 0 });
  const both = (["base", "test"] as const).map((name, place) => ({ name, dir: `/${name}`, of: place === 0 ? sizes(3000, null) : sizes(0, "no_memory"), others: [] }));
  it("are beside each other, and 0 where a side has none", () => {
    expect(shown(both).map((bar) => [bar.name, bar.value, bar.kind])).toEqual([
      ["base: in pages of 4 KiB", 1000, "got base"],
      ["test: in pages of 4 KiB", 1000, "got test"],
      ["base: in pages of 2 MiB", 3000, "got base"],
      ["test: in pages of 2 MiB", 0, "got test"],
      ["base: madvise not got: no_memory", 0, "lacking base"],
      ["test: madvise not got: no_memory", 500, "lacking test"],
    ]);
  });
  it("say when one side alone has them", () => {
    expect(pageSizes(both.slice(1), "p")?.querySelector("figcaption")?.textContent).toContain("Recorded on test alone.");
    expect(pageSizes([], "p")).toBeNull();
  });
});

describe("sources", () => {
  it("are words of a shell", () => {
    expect([word("/a/b=1"), word("a b"), word("it's $x")]).toEqual(["/a/b=1", "'a b'", `'it'\\''s $x'`]);
    expect(query({ command: "", sql: "SELECT 1", of: SIDES })).toBe('pagelab query BASE TEST "SELECT 1"');
    expect(query({ command: "", sql: "SELECT 1", of: ["/a", "b c"] })).toBe(`pagelab query /a "SELECT 1"\npagelab query 'b c' "SELECT 1"`);
  });
  it("leave names their room", () => {
    expect(apart([10, 12, 50], 13)).toEqual([10, 23, 50]);
    expect(apart([50, 10, 12], 13)).toEqual([50, 10, 23]);
  });
});
