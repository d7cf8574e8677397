/** A rectangle with two axes, which lines or cells are drawn into. */

import { s } from "./dom.js";
import type { Scale } from "./scale.js";

export interface Panel {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Axis {
  readonly scale: Scale;
  readonly ticks: readonly number[];
  readonly text: (tick: number) => string;
}

/** Border, lines at the ticks of the upward axis, and the texts of both. */
export function axes(panel: Panel, across: Axis, up: Axis): SVGGElement {
  const { left, top, width, height } = panel;
  const group = s("g", {}, s("rect", { x: left, y: top, width, height, class: "border" }));
  for (const tick of up.ticks) {
    const y = up.scale(tick);
    group.append(s("line", { x1: left, x2: left + width, y1: y, y2: y, class: "grid" }), s("text", { x: left - 6, y: y + 4, "text-anchor": "end", class: "tick" }, up.text(tick)));
  }
  for (const tick of across.ticks) group.append(s("text", { x: across.scale(tick), y: top + height + 16, "text-anchor": "middle", class: "tick" }, across.text(tick)));
  return group;
}

/** A line through points; a gap where one is null. */
export function line(points: readonly (readonly [number, number] | null)[], name: string): SVGPathElement {
  let isBroken = true;
  let path = "";
  for (const point of points) {
    if (point) path += `${isBroken ? "M" : "L"}${point[0].toFixed(2)} ${point[1].toFixed(2)}`;
    isBroken = point === null;
  }
  return s("path", { d: path, class: name });
}

/** Places of texts one below the other, each as near to where it is wanted as the others leave room. */
export function apart(wanted: readonly number[], room: number): number[] {
  const order = wanted.map((_, place) => place).sort((a, b) => (wanted[a] ?? 0) - (wanted[b] ?? 0));
  const found = [...wanted];
  let last = -Infinity;
  for (const place of order) {
    last = Math.max(wanted[place] ?? 0, last + room);
    found[place] = last;
  }
  return found;
}
