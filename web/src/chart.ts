/** A picture with what belongs to it: its data as a table, as a file, the picture as a file, and a link of its own. */

import { append, h, type Child } from "./dom.js";
import { csv, save, saveDrawing, saveImage } from "./save.js";

export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
}

export interface Table {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly (string | number | null)[])[];
}

export interface ChartOptions {
  /** The fragment of its link, and the name of its files. */
  readonly id: string;
  readonly title: string;
  /** What it shows, in a sentence: read instead of the picture by those who do not see it. */
  readonly about: string;
  readonly picture: SVGSVGElement | HTMLCanvasElement;
  readonly table: Table;
  /** All rows, for the file, where the table shows the first ones only. */
  readonly all?: () => Table;
  /** It can be used: then it is no picture to a screen reader. */
  readonly isInteractive?: boolean;
  /** The command that prints the same numbers. */
  readonly command?: string;
}

/** The rows as a table with a caption. */
export function tableElement(caption: string, table: Table): HTMLTableElement {
  const cell = (value: string | number | null, column: Column | undefined): HTMLTableCellElement =>
    h("td", { class: column?.isNumber ? "number" : undefined }, value === null ? "not known" : value);
  return h(
    "table",
    {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, table.columns.map((column) => h("th", { scope: "col", class: column.isNumber ? "number" : undefined }, column.name)))),
    h("tbody", {}, table.rows.map((row) => h("tr", {}, row.map((value, place) => cell(value, table.columns[place]))))),
  );
}

/** The figure. */
export function chart(options: ChartOptions): HTMLElement {
  const { id, title, about, picture, table } = options;
  picture.setAttribute("role", options.isInteractive ? "group" : "img");
  picture.setAttribute("aria-label", `${title}. ${about}`);
  const button = (text: string, act: () => void): HTMLButtonElement => {
    const element = h("button", { type: "button" }, text);
    element.addEventListener("click", act);
    return element;
  };
  const buttons: Child[] = [
    button("CSV", () => save(`${id}.csv`, "text/csv", csv((options.all ?? ((): Table => table))()))),
    picture instanceof SVGSVGElement && button("SVG", () => saveDrawing(`${id}.svg`, picture)),
    button("PNG", () => void saveImage(`${id}.png`, picture)),
  ];
  const figure = h(
    "figure",
    { id },
    h("figcaption", {}, h("a", { href: `#${id}`, class: "title" }, title), " ", h("span", { class: "about" }, about)),
    h("div", { class: "picture", tabindex: "0", role: "group", "aria-label": title }, picture),
  );
  append(figure, [
    h("details", {}, h("summary", {}, "Data"), options.command && h("p", {}, "The same numbers: ", h("code", {}, options.command)), h("div", { class: "buttons" }, buttons), h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": `Data of ${title}` }, tableElement(options.all ? `${title}: the first rows; the file has all` : title, table))),
  ]);
  return figure;
}
