/** Numbers for people: the same words and digits as on the terminal (crates/vocab/src/units.rs). */

/** `digits` significant figures, without an exponent where that can be read. */
export function significant(value: number, digits: number): string {
  if (!Number.isFinite(value)) return "unknown";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size < -5 || size > 15) return value.toExponential(Math.max(0, digits - 1)).replace("e+", "e");
  const text = value.toFixed(Math.min(20, Math.max(0, digits - 1 - size)));
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

const TIMES: readonly (readonly [number, string])[] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "us"],
  [1, "ns"],
];

/** A time in nanoseconds. */
export function duration(ns: number, digits = 3): string {
  if (!Number.isFinite(ns)) return "unknown";
  const [scale, unit] = TIMES.find(([scale]) => Math.abs(ns) >= scale) ?? [1, "ns"];
  return `${significant(ns / scale, digits)} ${unit}`;
}

/** A place on a scale of time: its beginning needs no unit. */
export function time(ns: number): string {
  return ns === 0 ? "0" : duration(ns);
}

/** A time with its sign. */
export function signedDuration(ns: number, digits = 3): string {
  return ns > 0 ? `+${duration(ns, digits)}` : duration(ns, digits);
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const THOUSANDS = ["", " k", " M", " G", " T"];

function scaled(value: number, step: number, names: readonly string[]): [number, string] {
  let place = 0;
  let rest = value;
  while (Math.abs(rest) >= step && place < names.length - 1) {
    rest /= step;
    place += 1;
  }
  return [rest, names[place] ?? ""];
}

/** A value in the unit that a document gives: `ns`, `B`, `bytes/op`, `count/s`, ... */
export function quantity(value: number | null | undefined, unit: string, digits = 4): string {
  if (value === null || value === undefined) return "unknown";
  const [base, per] = unit.split("/", 2);
  const behind = per ? `/${per}` : "";
  if (base === "ns") return duration(value, digits) + behind;
  if (base === "B" || base === "bytes") {
    const [rest, name] = scaled(value, 1024, BINARY);
    return `${significant(rest, digits)} ${name}${behind}`;
  }
  if (base === "kibibytes") return quantity(value * 1024, `bytes${behind}`, digits);
  if (base === "%") return `${significant(value, digits)} %`;
  const [rest, name] = scaled(value, 1000, THOUSANDS);
  const noun = base === "count" || base === "" || base === undefined ? "" : ` ${base.replace("_", " ")}`;
  return `${significant(rest, digits)}${name}${noun}${behind}`;
}

/** A ratio with its interval, with the digits that the interval leaves. */
export function ratio(value: number, interval: readonly [number, number] | null): string {
  if (!interval) return significant(value, 3);
  const half = Math.abs(interval[1] - interval[0]) / 2;
  const decimals = Math.min(6, Math.max(0, half > 0 ? 1 - Math.floor(Math.log10(half)) : 4));
  const show = (one: number): string => one.toFixed(decimals);
  return `${show(value)} [${show(interval[0])}, ${show(interval[1])}]`;
}

/** A share from 0 to 1. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
