/**
 * All faults of a recording, zoomed into. Only a page that `pagelab ui` serves has this: each step asks the server for the cells of
 * its window, down to single faults. The window is in the server's own units: ns since the first fault, and slots.
 */

import { h } from "./dom.js";
import { duration, significant } from "./format.js";

/** What `api/faults` says of a recording. */
interface Field {
  readonly dir: string;
  readonly faults: number;
  readonly slots: number;
  readonly span_ns: number;
  readonly huge_bytes: number;
  readonly notes: readonly string[];
}

interface FaultPoint {
  readonly t_ns: number;
  readonly height_q20: number;
  readonly addr: string;
  readonly ip: string;
  readonly task: string;
  readonly protection: boolean;
}

/** What `api/see` says of a window. */
interface Seen {
  readonly faults: number;
  readonly columns: number;
  readonly rows: number;
  readonly cells: readonly (readonly [number, number, number])[];
  readonly points: readonly FaultPoint[] | null;
  readonly notes: readonly string[];
}

export interface View {
  readonly from_ns: number;
  readonly to_ns: number;
  readonly low: number;
  readonly high: number;
}

const WIDTH = 880;
const HEIGHT = 400;
/** Cells asked for, across and up: two pixels each. */
const COLUMNS = WIDTH / 2;
const ROWS = HEIGHT / 2;
const ONE = 2 ** 20;
/** Points in the table. */
const LISTED = 50;

/** A part of a view: `across` and `up` are the places of its ends in parts of it, from the left and from the bottom. */
export function part(view: View, across: readonly [number, number], up: readonly [number, number]): View {
  const [time, slots] = [view.to_ns - view.from_ns, view.high - view.low];
  return {
    from_ns: Math.round(view.from_ns + across[0] * time),
    to_ns: Math.round(view.from_ns + across[1] * time),
    low: view.low + up[0] * slots,
    high: view.low + up[1] * slots,
  };
}

/** A view moved and cut so that it lies within the whole; one that is larger becomes the whole. */
export function within(view: View, whole: View): View {
  const cut = (from: number, to: number, most: number): [number, number] => {
    const size = Math.min(to - from, most);
    const start = Math.min(Math.max(from, 0), most - size);
    return [start, start + size];
  };
  const [from_ns, to_ns] = cut(view.from_ns, Math.max(view.to_ns, view.from_ns + 1), whole.to_ns);
  const [low, high] = cut(view.low, Math.max(view.high, view.low + 1 / 512), whole.high);
  return { from_ns: Math.round(from_ns), to_ns: Math.round(to_ns), low, high };
}

async function asked<T>(address: string, signal?: AbortSignal): Promise<T> {
  const answer = await fetch(address, signal ? { signal } : {});
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as T;
}

/** Cells darker the more faults they have, on a scale of logarithms; single faults as dots. */
function draw(canvas: HTMLCanvasElement, seen: Seen, view: View): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const colour = getComputedStyle(canvas).getPropertyValue("--base").trim() || "#0072b2";
  context.clearRect(0, 0, WIDTH, HEIGHT);
  context.fillStyle = colour;
  if (seen.points) {
    for (const point of seen.points) {
      const x = ((point.t_ns - view.from_ns) / Math.max(1, view.to_ns - view.from_ns)) * WIDTH;
      const y = HEIGHT - ((point.height_q20 / ONE - view.low) / (view.high - view.low)) * HEIGHT;
      context.beginPath();
      context.arc(x, y, 2.5, 0, 2 * Math.PI);
      context.fill();
    }
    return;
  }
  const most = seen.cells.reduce((most, [, , faults]) => Math.max(most, faults), 1);
  const [width, height] = [WIDTH / seen.columns, HEIGHT / seen.rows];
  for (const [column, row, faults] of seen.cells) {
    context.globalAlpha = 0.2 + 0.8 * (Math.log(1 + faults) / Math.log(1 + most));
    context.fillRect(column * width, HEIGHT - (row + 1) * height, Math.max(1, width), Math.max(1, height));
  }
  context.globalAlpha = 1;
}

function table(points: readonly FaultPoint[]): HTMLElement {
  const head = ["time", "address", "instruction", "task", "page"];
  const row = (point: FaultPoint): HTMLElement =>
    h("tr", {}, [duration(point.t_ns), point.addr, point.ip, point.task, point.protection ? "there" : "missing"].map((text) => h("td", {}, text)));
  const more = points.length > LISTED ? `The first ${LISTED} of ${points.length} faults` : `${points.length} faults`;
  return h(
    "div",
    { class: "scrolls" },
    h("table", {}, h("caption", {}, more), h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, points.slice(0, LISTED).map(row))),
  );
}

/** The picture of one recording at a time, with what moves it. */
class Zoom {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { width: WIDTH, height: HEIGHT, tabindex: 0, role: "img", class: "zoom" });
  private readonly said = h("p", { class: "about", role: "status" });
  private readonly listed = h("div", {});
  private recording = 0;
  private field: Field | null = null;
  private whole: View = { from_ns: 0, to_ns: 1, low: 0, high: 1 };
  private view = this.whole;
  private pending: AbortController | null = null;
  private pressed: { x: number; y: number } | null = null;

  constructor(recordings: readonly { readonly recording: number; readonly dir: string }[], id: string) {
    const choice = h("select", { id: `${id}-recording` }, recordings.map((one) => h("option", { value: one.recording }, one.dir)));
    choice.addEventListener("change", () => void this.open(Number(choice.value)));
    const button = (name: string, text: string, move: () => View): HTMLButtonElement => {
      const made = h("button", { type: "button", "aria-label": name, title: name }, text);
      made.addEventListener("click", () => void this.show(move()));
      return made;
    };
    this.element = h(
      "section",
      { id, "aria-labelledby": `${id}-title` },
      h("h3", { id: `${id}-title`, class: "section" }, "All faults, zoomed into"),
      h("p", { class: "about" }, "Time against the slots that were touched, without the gaps between them. Drag a rectangle, turn the wheel, or press + - 0 and the arrows."),
      h("p", {}, h("label", { for: `${id}-recording` }, "recording "), choice),
      h(
        "p",
        { class: "buttons" },
        button("zoom in", "+", () => this.zoomed(0.25)),
        button("zoom out", "−", () => this.zoomed(-0.5)),
        button("show all", "all", () => this.whole),
        button("earlier", "←", () => this.moved(-0.5, 0)),
        button("later", "→", () => this.moved(0.5, 0)),
        button("higher", "↑", () => this.moved(0, 0.5)),
        button("lower", "↓", () => this.moved(0, -0.5)),
      ),
      this.canvas,
      this.said,
      this.listed,
    );
    this.listen();
    if (recordings[0]) void this.open(recordings[0].recording);
  }

  private zoomed(by: number): View {
    return part(this.view, [by, 1 - by], [by, 1 - by]);
  }

  private moved(across: number, up: number): View {
    return part(this.view, [across, 1 + across], [up, 1 + up]);
  }

  private listen(): void {
    const place = (event: MouseEvent): { x: number; y: number } => {
      const box = this.canvas.getBoundingClientRect();
      const inside = (value: number): number => Math.min(1, Math.max(0, value));
      return { x: inside((event.clientX - box.left) / box.width), y: inside(1 - (event.clientY - box.top) / box.height) };
    };
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const size = event.deltaY < 0 ? 0.5 : 2;
      void this.show(part(this.view, [x - x * size, x + (1 - x) * size], [y - y * size, y + (1 - y) * size]));
    });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.pressed = place(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const [from, to] = [this.pressed, place(event)];
      this.pressed = null;
      if (!from || Math.abs(from.x - to.x) < 0.01 || Math.abs(from.y - to.y) < 0.01) return;
      void this.show(part(this.view, [Math.min(from.x, to.x), Math.max(from.x, to.x)], [Math.min(from.y, to.y), Math.max(from.y, to.y)]));
    });
    const keys: Readonly<Record<string, () => View>> = {
      "+": () => this.zoomed(0.25),
      "-": () => this.zoomed(-0.5),
      "0": () => this.whole,
      ArrowLeft: () => this.moved(-0.5, 0),
      ArrowRight: () => this.moved(0.5, 0),
      ArrowUp: () => this.moved(0, 0.5),
      ArrowDown: () => this.moved(0, -0.5),
    };
    this.canvas.addEventListener("keydown", (event) => {
      const move = keys[event.key];
      if (!move) return;
      event.preventDefault();
      void this.show(move());
    });
  }

  private async open(recording: number): Promise<void> {
    this.recording = recording;
    this.said.textContent = "reading the faults ...";
    try {
      this.field = await asked<Field>(`api/faults?recording=${recording}`);
    } catch (error) {
      this.field = null;
      this.said.textContent = error instanceof Error ? error.message : String(error);
      return;
    }
    if (this.field.faults === 0) {
      this.said.textContent = "no faults were recorded";
      return;
    }
    this.whole = { from_ns: 0, to_ns: this.field.span_ns, low: 0, high: this.field.slots };
    await this.show(this.whole);
  }

  private async show(wanted: View): Promise<void> {
    if (!this.field || this.field.faults === 0) return;
    const view = within(wanted, this.whole);
    this.pending?.abort();
    const pending = new AbortController();
    this.pending = pending;
    const began = performance.now();
    const words = new URLSearchParams({ recording: String(this.recording), columns: String(COLUMNS), rows: String(ROWS) });
    for (const [name, value] of Object.entries(view)) words.set(name, String(value));
    try {
      const seen = await asked<Seen>(`api/see?${words.toString()}`, pending.signal);
      this.view = view;
      draw(this.canvas, seen, view);
      this.tell(seen, performance.now() - began);
    } catch (error) {
      if (!pending.signal.aborted) this.said.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private tell(seen: Seen, ms: number): void {
    const { from_ns, to_ns, low, high } = this.view;
    const text = `${seen.faults.toLocaleString("en")} faults from ${duration(from_ns)} to ${duration(to_ns)}, slots ${significant(low, 6)} to ${significant(high, 6)} of ${this.field?.slots ?? 0}`;
    this.said.textContent = [text, ...seen.notes, ...(this.field?.notes ?? [])].join("; ");
    this.canvas.setAttribute("aria-label", text);
    this.element.dataset["faults"] = String(seen.faults);
    this.element.dataset["points"] = String(seen.points?.length ?? "");
    this.element.dataset["ms"] = ms.toFixed(1);
    this.element.dataset["step"] = String(Number(this.element.dataset["step"] ?? 0) + 1);
    this.listed.replaceChildren(...(seen.points && seen.points.length > 0 ? [table(seen.points)] : []));
  }
}

/** Puts the picture at the end of the page, and draws the page again when a recording has come. */
export async function live(main: HTMLElement): Promise<void> {
  const recordings = await asked<{ recording: number; dir: string }[]>("api/recordings");
  main.append(new Zoom(recordings, "zoom").element);
  const state = await asked<string>("api/state");
  const EVERY_MS = 2000;
  setInterval(() => {
    asked<string>("api/state").then(
      (now) => {
        if (now !== state) location.reload();
      },
      () => undefined,
    );
  }, EVERY_MS);
}
