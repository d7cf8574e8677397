import { describe, expect, it } from "vitest";
import { part, within } from "../src/zoom.js";

const whole = { from_ns: 0, to_ns: 1000, low: 0, high: 40 };

describe("the view of all faults", () => {
  it("is cut in parts", () => {
    expect(part(whole, [0.25, 0.75], [0, 0.5])).toEqual({ from_ns: 250, to_ns: 750, low: 0, high: 20 });
    expect(part(part(whole, [0.5, 1], [0.5, 1]), [-1, 1], [-1, 1])).toEqual(whole);
  });

  it("stays within the whole, and keeps its size where it can", () => {
    expect(within({ from_ns: -100, to_ns: 100, low: 35, high: 45 }, whole)).toEqual({ from_ns: 0, to_ns: 200, low: 30, high: 40 });
    expect(within({ from_ns: -5000, to_ns: 5000, low: -50, high: 90 }, whole)).toEqual(whole);
    const least = within({ from_ns: 500, to_ns: 500, low: 3, high: 3 }, whole);
    expect(least.to_ns - least.from_ns).toBeGreaterThan(0);
    expect(least.high - least.low).toBeGreaterThan(0);
  });
});
