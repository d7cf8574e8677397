/** The figures that have a scale of time, of one recording or of both sides of a comparison. */

import { ioMap } from "./io-map.js";
import { ioSizes } from "./io-sizes.js";
import { latencyOverTime } from "./latency-over-time.js";
import { series } from "./series.js";
import { having, type RunSide } from "./sides.js";

/** Those that there is anything of. */
export function overTime(sides: readonly RunSide[], at: (name: string) => string): (HTMLElement | null)[] {
  const io = having(sides, (one) => one.io);
  return [
    latencyOverTime(having(sides, (one) => one.latency, (one) => one.latency), at("latency-over-time")),
    ioMap(io, at("io")),
    ioSizes(io, at("io-sizes")),
    series(having(sides, (one) => one.series, (one) => one.series), at("series")),
  ];
}
