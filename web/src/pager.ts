/** Rows of a table, a page of them at a time: a browser lays out a table as a whole, and one of some hundred rows keeps its reader waiting. */

import { h } from "./dom.js";

/** Rows shown at once. */
export const PAGE_ROWS = 50;

export interface Pager<T> {
  /** The rows that are shown. */
  readonly body: HTMLTableSectionElement;
  /** The buttons to the other rows; hidden where there are none. */
  readonly buttons: HTMLElement;
  /** Shows the first page of these. */
  readonly show: (rows: readonly T[]) => void;
}

/** The rows of the table of that name; `draw` makes one when its page is shown. */
export function pager<T>(name: string, draw: (row: T) => HTMLTableRowElement): Pager<T> {
  const body = h("tbody");
  const said = h("span", { class: "about", role: "status" });
  let rows: readonly T[] = [];
  let first = 0;
  const button = (text: string, label: string, step: number): HTMLButtonElement => {
    const element = h("button", { type: "button", "aria-label": `${label} of ${name}` }, text);
    element.addEventListener("click", () => turn(first + step * PAGE_ROWS));
    return element;
  };
  const earlier = button("Previous", "Previous rows", -1);
  const later = button("Next", "Next rows", 1);
  const buttons = h("div", { class: "pager", role: "group", "aria-label": `Rows of ${name}` }, earlier, said, later);
  const turn = (to: number): void => {
    first = to;
    const end = Math.min(first + PAGE_ROWS, rows.length);
    body.replaceChildren(...rows.slice(first, end).map(draw));
    buttons.hidden = rows.length <= PAGE_ROWS;
    earlier.disabled = first === 0;
    later.disabled = end === rows.length;
    said.textContent = `rows ${first + 1} to ${end} of ${rows.length}`;
  };
  return {
    body,
    buttons,
    show: (wanted) => {
      rows = wanted;
      turn(0);
    },
  };
}
