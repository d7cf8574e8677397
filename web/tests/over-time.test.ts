// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import type { OneComponent, SeriesCourse } from "../src/document.js";
import { ioMap, pairs, shade } from "../src/io-map.js";
import { ioSizes } from "../src/io-sizes.js";
import { latencyOverTime, QUANTILES, sql } from "../src/latency-over-time.js";
import { pageSizes } from "../src/page-sizes.js";
import { apart } from "../src/panel.js";
import { range, series } from "../src/series.js";
import { having, type Side } from "../src/sides.js";
import { query, SIDES, word } from "../src/sources.js";
import { waits } from "../src/waits.js";
import { file, overTime } from "./over-time.js";
import { part } from "./part.js";

const sides = (["base", "test"] as const).map((name, place): Side<ReturnType<typeof overTime>> => ({ name, dir: `/runs/${name}`, of: overTime(name, place + 1) }));
const latencies = having(sides, (one) => one.latency);
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

describe("the map of reads and writes", () => {
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
    const widths = [...pageSizes(sizes, "/r", "p").querySelectorAll("rect.bar")].map((bar) => Number(bar.getAttribute("width")));
    for (const [place, part] of [1, 1 / 3, 0.5].entries()) expect((widths[place] ?? 0) / (widths[0] ?? 1)).toBeCloseTo(part, 6);
    const one = part<OneComponent>({ component: "off.read", state: "off", active: true, about: "a", ns: 5, pct: 1, wall_ns: null, error_ns: 0 });
    expect(waits([{ ...one, state: "run" }], "/r", "w")).toBeNull();
    expect(waits([one, { ...one, state: "ready" }], "/r", "w")?.querySelectorAll("rect.bar").length).toBe(2);
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
