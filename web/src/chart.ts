/** A picture with what belongs to it: its data as a table and as files, the picture as files, where it is from, and a link of its own. */

import { h, type Child } from "./dom.js";
import { pager } from "./pager.js";
import { csv, json, save, saveDrawing, saveImage } from "./save.js";
import { query, type Source } from "./sources.js";

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
  /** The part of the document that is drawn. */
  readonly data: unknown;
  readonly source: Source;
}

/** The rows as a table with a caption, and the buttons to those that are not shown. */
export function tableElement(title: string, caption: string, table: Table): HTMLElement[] {
  const cell = (value: string | number | null, column: Column | undefined): HTMLTableCellElement =>
    h("td", { class: column?.isNumber ? "number" : undefined }, value === null ? "not known" : value);
  const { body, buttons, show } = pager<Table["rows"][number]>(title, (row) => h("tr", {}, row.map((value, place) => cell(value, table.columns[place]))));
  show(table.rows);
  const heads = table.columns.map((column) => h("th", { scope: "col", class: column.isNumber ? "number" : undefined }, column.name));
  const element = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body);
  return [h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": `Table of ${title}` }, element), buttons];
}

/** The row of files and the link, the same below every picture. */
function tools(options: ChartOptions): HTMLElement {
  const { id, title, picture, table, data } = options;
  const button = (text: string, act: () => void): HTMLButtonElement => {
    const element = h("button", { type: "button", "aria-label": `${text} file of ${title}` }, text);
    element.addEventListener("click", act);
    return element;
  };
  const buttons: Child[] = [
    button("CSV", () => save(`${id}.csv`, "text/csv", csv((options.all ?? ((): Table => table))()))),
    button("JSON", () => save(`${id}.json`, "application/json", json(data))),
    picture instanceof SVGSVGElement && button("SVG", () => saveDrawing(`${id}.svg`, picture)),
    button("PNG", () => void saveImage(`${id}.png`, picture)),
  ];
  return h("div", { class: "buttons", role: "group", "aria-label": `Files of ${title}` }, buttons, h("a", { href: `#${id}`, "aria-label": `Link to ${title}` }, "Link"));
}

/** How to get the figures without the page. */
function sources(source: Source, title: string): HTMLElement {
  const line = (name: string, command: string): Child => [h("p", { class: "about" }, name), h("pre", { tabindex: "0", role: "group", "aria-label": `${name} ${title}` }, command)];
  return h(
    "details",
    { class: "sources" },
    h("summary", {}, "Command and SQL"),
    line("The same figures:", source.command),
    line(source.isBeneath ? "The rows that they are made of:" : "The same in SQL:", query(source)),
  );
}

/** The figure. */
export function chart(options: ChartOptions): HTMLElement {
  const { id, title, about, picture, table } = options;
  picture.setAttribute("role", options.isInteractive ? "group" : "img");
  picture.setAttribute("aria-label", `${title}. ${about}`);
  return h(
    "figure",
    { id },
    h("figcaption", {}, h("a", { href: `#${id}`, class: "title" }, title), " ", h("span", { class: "about" }, about)),
    h("div", { class: "picture", tabindex: "0", role: "group", "aria-label": title }, picture),
    tools(options),
    h("details", { class: "table" }, h("summary", {}, "Table"), tableElement(title, options.all ? `${title}: the first rows; the CSV file has all` : title, table)),
    sources(options.source, title),
  );
}
