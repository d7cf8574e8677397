/** Flame graphs: stacks of one recording, or of both sides in one picture, each frame as wide as the larger of them. */

import { chart } from "./chart.js";
import type { Frame } from "./document.js";
import { h, s, set, shown } from "./dom.js";
import { duration, signedDuration } from "./format.js";
import { SIDES, word, type Source } from "./sources.js";

const WIDTH = 880;
const ROW = 18;
/** Rows drawn: deeper frames appear when one is zoomed into. */
const ROWS = 36;
/** Frames that are thinner appear when one below them is zoomed into: a tower of slivers would make the picture high, and be seen by nobody. */
const LEAST = 1;
/** Stacks in the table: the file has all. */
const LISTED = 300;
const HOW = "Click a frame, or press Enter, to zoom into it; arrows go from frame to frame.";
/** Width of a letter. */
const LETTER = 6.6;
/** Time by stack. */
const SAMPLES = "SELECT variant, run, event, kstack_id, ustack_id, sum(weight) AS ns FROM samples GROUP BY variant, run, event, kstack_id, ustack_id";
/** Changes of less than this part of a frame are no change. */
const SAME = 0.05;

export interface Box {
  readonly frame: Frame;
  readonly depth: number;
  /** From 0 to 1. */
  readonly from: number;
  readonly to: number;
}

const size = (frame: Frame): number => Math.max(frame.base, frame.test);

/** Where each frame lies. Children of a frame may together be larger than it is, where one has what the other lost: then all shrink. */
export function layout(root: Frame): Box[] {
  const boxes: Box[] = [];
  const place = (frame: Frame, depth: number, from: number, to: number): void => {
    boxes.push({ frame, depth, from, to });
    const children = frame.children ?? [];
    const sum = children.reduce((sum, child) => sum + size(child), 0);
    const scale = sum > 0 ? (to - from) / Math.max(sum, size(frame)) : 0;
    let at = from;
    for (const child of children) {
      const width = size(child) * scale;
      place(child, depth + 1, at, at + width);
      at += width;
    }
  };
  place(root, 0, 0, 1);
  return boxes;
}

export type Tone = "same" | "more" | "less" | "new" | "gone";

export function tone(frame: Frame): Tone {
  if (frame.base === 0) return "new";
  if (frame.test === 0) return "gone";
  const change = (frame.test - frame.base) / size(frame);
  return Math.abs(change) < SAME ? "same" : change > 0 ? "more" : "less";
}

const change = (frame: Frame): string => `${duration(frame.base)} on base, ${duration(frame.test)} on test, ${signedDuration(frame.test - frame.base)} a run`;

/** The functions by what they and their callees spend, each once per stack: the table of the picture. */
function listed(root: Frame, isAlone: boolean, most: number): (string | number)[][] {
  const rows: (string | number)[][] = [];
  const walk = (frame: Frame, stack: string): void => {
    const path = stack ? `${stack};${frame.name}` : frame.name;
    rows.push(isAlone ? [path, Math.round(frame.test)] : [path, Math.round(frame.base), Math.round(frame.test), Math.round(frame.test - frame.base)]);
    for (const child of frame.children ?? []) walk(child, path);
  };
  walk(root, "");
  const size = (row: (string | number)[]): number => Math.abs(Number(row.at(-1)));
  return rows.sort((a, b) => size(b) - size(a)).slice(0, most);
}

/** The tree without some of its outermost frames. */
export function without(root: Frame, names: readonly string[]): Frame {
  const children = root.children ?? [];
  const rest = children.filter((child) => !names.includes(child.name));
  const gone = children.filter((child) => names.includes(child.name));
  const left = (side: "base" | "test"): number => gone.reduce((left, child) => left - child[side], root[side]);
  return { ...root, base: left("base"), test: left("test"), children: rest };
}

/** These frames and all below them. */
function below(frames: readonly Frame[]): Set<Frame> {
  const found = new Set<Frame>();
  const add = (frame: Frame): void => {
    found.add(frame);
    frame.children?.forEach(add);
  };
  frames.forEach(add);
  return found;
}

export interface FlameOptions {
  readonly id: string;
  readonly title: string;
  readonly about: string;
  /** Of one recording: its times are those of the test side. */
  readonly isAlone: boolean;
  /** Outermost frames that are drawn pale, and can be left out. */
  readonly passive: readonly string[];
  /** A class of the picture. */
  readonly kind: "on" | "off";
  readonly source: Source;
}

/** The figure of the time on CPUs of both sides, or of one recording. */
export function onCpu(root: Frame, id: string, dirs: readonly string[] | null): HTMLElement {
  return flame(root, {
    id,
    title: "Stacks on CPUs",
    about: dirs
      ? "Each frame is as wide as the time on CPUs in it and in what it called, from the samples of the profile."
      : "Each frame is as wide as the side that spent more in it; orange: more on test, green: less, hatched: on one side only. From the samples of all runs, per run.",
    isAlone: dirs !== null,
    passive: [],
    kind: "on",
    source: { command: dirs ? dirs.map((dir) => `pagelab export folded ${word(dir)}`).join("\n") : "pagelab export folded RUN    (of each run)", sql: SAMPLES, of: dirs ?? SIDES, isBeneath: true },
  });
}

/** The checkbox that leaves passive frames out; none without such frames. */
function choice(id: string, passive: readonly string[], act: (isLeftOut: boolean) => void): HTMLElement | null {
  if (passive.length === 0) return null;
  const box = h("input", { type: "checkbox", id: `${id}-passive` });
  box.addEventListener("change", () => act(box.checked));
  return h("label", { for: `${id}-passive` }, box, " without waiting for others");
}

/** A frame is zoomed into with the pointer or the keyboard; arrows go to its neighbours. One listener for all: there may be a thousand. */
function listen(picture: SVGSVGElement, zoom: (place: number) => void): void {
  const at = (event: Event): SVGGElement | null => (event.target as Element).closest<SVGGElement>("g.frame");
  const zoomTo = (group: SVGGElement | null): void => {
    if (group) zoom([...picture.children].indexOf(group));
  };
  picture.addEventListener("click", (event) => zoomTo(at(event)));
  picture.addEventListener("keydown", (event) => {
    const group = at(event);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      zoomTo(group);
    }
    const next = event.key === "ArrowRight" ? group?.nextElementSibling : event.key === "ArrowLeft" ? group?.previousElementSibling : null;
    if (next) {
      event.preventDefault();
      (next as SVGGElement).focus();
    }
  });
}

/** What a frame is drawn by. Kept for the next picture: making a thousand anew takes longer than all else. */
interface Rectangle {
  readonly group: SVGGElement;
  readonly title: SVGTitleElement;
  readonly box: SVGRectElement;
  readonly text: SVGTextElement;
}

function rectangle(): Rectangle {
  // The title is its name to a screen reader too: a label beside the text, which is cut short, would be a second one.
  const [title, box, text] = [s("title"), s("rect", { height: ROW - 1 }), s("text")];
  return { group: s("g", { role: "button" }, title, box, text), title, box, text };
}

/** Draws a frame in a picture of that height. */
function place({ group, title, box, text }: Rectangle, { depth, from, to }: Box, height: number, kind: string, name: string, about: string): void {
  const [x, width, y] = [from * WIDTH, (to - from) * WIDTH, height - (depth + 1) * ROW];
  set(group, { class: `frame ${kind}`, tabindex: depth === 0 ? 0 : -1 });
  set(box, { x, y, width: Math.max(0.5, width - 0.5) });
  title.textContent = shown(about);
  const letters = Math.floor((width - 6) / LETTER);
  text.textContent = letters > 2 ? shown(name.length > letters ? `${name.slice(0, letters - 1)}…` : name) : "";
  set(text, { x: x + 3, y: y + 13 });
}

/** The figure. */
export function flame(whole: Frame, options: FlameOptions): HTMLElement {
  const { id, title, about, isAlone, passive, kind, source } = options;
  const outermost = (whole.children ?? []).filter((child) => passive.includes(child.name));
  const pale = below(outermost);
  let root = whole;
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${ROWS * ROW}`, class: `flame ${kind}` });
  const said = h("p", { class: "about", role: "status" });
  const search = h("input", { type: "search", id: `${id}-search`, placeholder: "function" });
  const nameOf = (frame: Frame): string => (outermost.includes(frame) ? `${frame.name} (for others)` : frame.name);
  const saidOf = (frame: Frame): string => `${nameOf(frame)}: ${isAlone ? duration(frame.test) : change(frame)}`;
  let top = whole;
  let boxes: Box[] = [];
  const pool: Rectangle[] = [];
  /** Marks the frames whose names hold what is searched. */
  const mark = (): void => {
    const wanted = search.value.trim().toLowerCase();
    let found = 0;
    for (const [place, { frame }] of boxes.entries()) {
      const hit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
      if (hit) found = Math.max(found, size(frame));
      picture.children[place]?.classList.toggle("hit", hit);
    }
    said.textContent = wanted ? `${duration(found)} a run in the widest frame of that name` : `${saidOf(top)}. ${top === root ? HOW : "The lowest frame zooms out."}`;
  };
  const draw = (): void => {
    boxes = layout(top).filter((box) => box.depth < ROWS && (box.to - box.from) * WIDTH >= LEAST);
    const height = (Math.max(0, ...boxes.map((box) => box.depth)) + 1) * ROW;
    picture.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    while (pool.length < boxes.length) pool.push(rectangle());
    for (const [at, box] of boxes.entries()) {
      const [{ frame }, drawn] = [box, pool[at]];
      if (drawn) place(drawn, box, height, `${isAlone ? "plain" : tone(frame)}${pale.has(frame) ? " passive" : ""}`, nameOf(frame), saidOf(frame));
    }
    while (picture.children.length > boxes.length) picture.lastElementChild?.remove();
    picture.append(...pool.slice(picture.children.length, boxes.length).map((drawn) => drawn.group));
    mark();
  };
  listen(picture, (place) => {
    const frame = boxes[place]?.frame;
    if (!frame) return;
    top = frame === top ? root : frame;
    draw();
    (picture.firstElementChild as SVGGElement | null)?.focus({ preventScroll: true });
  });
  search.addEventListener("input", mark);
  draw();
  const times = isAlone ? ["time, ns"] : ["base, ns", "test, ns", "difference, ns"];
  const columns = [{ name: "stack" }, ...times.map((name) => ({ name, isNumber: true }))];
  const figure = chart({
    id,
    title,
    about,
    picture,
    table: { columns, rows: listed(whole, isAlone, LISTED) },
    all: () => ({ columns, rows: listed(whole, isAlone, Infinity) }),
    isInteractive: true,
    data: whole,
    source,
  });
  const passiveChoice = choice(id, passive, (isLeftOut) => {
    root = isLeftOut ? without(whole, passive) : whole;
    top = root;
    draw();
  });
  figure.insertBefore(h("div", { class: "filters" }, h("label", { for: `${id}-search` }, "Search ", search), passiveChoice, said), figure.querySelector(".picture"));
  return figure;
}
