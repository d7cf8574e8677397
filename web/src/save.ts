/** Files made in the page. Nothing leaves it: they are written by the browser from memory. */

import type { Table } from "./chart.js";

function field(value: string | number | null): string {
  if (value === null) return "";
  // A spreadsheet takes what begins so for a formula.
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Comma-separated values, as RFC 4180 has them. */
export function csv(table: Table): string {
  const lines = [table.columns.map((column) => field(column.name)), ...table.rows.map((row) => row.map(field))];
  return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
}

/** A part of the document as a file. */
export function json(data: unknown): string {
  return `${JSON.stringify(data, null, 1)}\n`;
}

function download(name: string, address: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

export function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  download(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A copy of a picture that needs no style sheet. */
function standalone(picture: SVGSVGElement): string {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  const box = picture.getBoundingClientRect();
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  copyColours(picture, copy);
  return new XMLSerializer().serializeToString(copy);
}

/** The picture as a drawing, with the colours of the page. */
export function saveDrawing(name: string, picture: SVGSVGElement): void {
  save(name, "image/svg+xml", standalone(picture));
}

/** The picture as it is shown, with the colours of the page. */
export async function saveImage(name: string, picture: SVGSVGElement | HTMLCanvasElement): Promise<void> {
  if (picture instanceof HTMLCanvasElement) {
    download(name, picture.toDataURL("image/png"));
    return;
  }
  const box = picture.getBoundingClientRect();
  const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(picture))}`;
  const image = new Image();
  await new Promise<void>((done, failed) => {
    image.onload = () => done();
    image.onerror = () => failed(new Error("the picture cannot be drawn"));
    image.src = address;
  });
  const canvas = document.createElement("canvas");
  const scale = 2;
  canvas.width = box.width * scale;
  canvas.height = box.height * scale;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  download(name, canvas.toDataURL("image/png"));
}

/** Style sheets do not go with a picture: what they say is written into its elements. */
function copyColours(from: Element, to: Element): void {
  const style = getComputedStyle(from);
  for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "opacity"]) {
    to.setAttribute(name, style.getPropertyValue(name));
  }
  for (const [place, child] of [...from.children].entries()) {
    const other = to.children[place];
    if (other) copyColours(child, other);
  }
}
