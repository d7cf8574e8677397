/** Bars to the right, each with its name before it and its value behind. */

import { s } from "./dom.js";
import { linear } from "./scale.js";

const WIDTH = 880;
const ROW = 24;

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly text: string;
  /** What it is, in a sentence. */
  readonly about: string;
  readonly kind: string;
}

/** The picture: `names` and `values` are the room for the texts, `name` its class. */
export function bars(all: readonly Bar[], name: string, names: number, values: number): SVGSVGElement {
  const x = linear(0, Math.max(1, ...all.map((bar) => bar.value)), names, WIDTH - values);
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${all.length * ROW + 6}`, class: name });
  const letters = Math.floor(names / 7.4);
  for (const [row, bar] of all.entries()) {
    const y = 3 + row * ROW;
    const short = bar.name.length > letters ? `${bar.name.slice(0, letters - 1)}…` : bar.name;
    picture.append(
      s("text", { x: names - 8, y: y + 16, "text-anchor": "end", class: "name" }, short),
      s("rect", { x: names, y: y + 4, width: bar.value > 0 ? Math.max(1, x(bar.value) - names) : 0, height: ROW - 8, class: `bar ${bar.kind}` }, s("title", {}, `${bar.name}: ${bar.about}`)),
      s("text", { x: WIDTH - values + 8, y: y + 16, class: "value" }, bar.text),
    );
  }
  return picture;
}
