/** From values to places on a picture. */

export interface Scale {
  (value: number): number;
  readonly ticks: readonly number[];
}

/** Round steps: about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((step) => step >= rough) ?? rough;
  // Steps that the numbers themselves cannot take would go on for ever.
  if (!(step > 4 * Number.EPSILON * Math.max(Math.abs(low), Math.abs(high)))) return [low];
  const found: number[] = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9; place += 1) found.push(place * step);
  return found;
}

/** Values from `low` to `high` onto places from `from` to `to`. */
export function linear(low: number, high: number, from: number, to: number, count = 5): Scale {
  const span = high - low || 1;
  const scale = (value: number): number => from + ((value - low) / span) * (to - from);
  return Object.assign(scale, { ticks: ticks(low, high, count) });
}

/** The least and the largest of some values; 0 and 1 without any. */
export function extent(values: readonly number[]): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [0, 1];
}
