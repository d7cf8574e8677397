import { describe, expect, it } from "vitest";
import { duration, quantity, ratio, signedDuration, significant } from "../src/format.js";

describe("numbers", () => {
  it("have the digits that were asked for, and no more zeros", () => {
    expect([significant(1234.567, 4), significant(0.0012345, 3), significant(100, 3), significant(0, 3), significant(-2.5, 3)]).toEqual(["1235", "0.00123", "100", "0", "-2.5"]);
    expect(significant(1e20, 3)).toBe("1.00e20");
    expect(significant(Number.NaN, 3)).toBe("unknown");
  });
  it("have units", () => {
    expect([duration(1_234_000), duration(12), signedDuration(5e9), signedDuration(-1500)]).toEqual(["1.23 ms", "12 ns", "+5 s", "-1.5 us"]);
    expect(quantity(2 * 1024 * 1024, "bytes/op")).toBe("2 MiB/op");
    expect(quantity(203_500, "count/s")).toBe("203.5 k/s");
    expect(quantity(null, "ns")).toBe("unknown");
    expect(quantity(1, "kibibytes/op")).toBe("1 KiB/op");
  });
  it("are as sure as their interval", () => {
    expect(ratio(0.71699, [0.2899, 1.7731])).toBe("0.72 [0.29, 1.77]");
    expect(ratio(7.2, null)).toBe("7.2");
  });
});
