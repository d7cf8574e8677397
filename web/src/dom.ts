/** Making elements. Text from a recording only ever becomes a text node or an attribute, so it cannot become markup. */

export type Child = Node | string | number | null | undefined | false | readonly Child[];
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** What moves or reorders the text around it: controls, marks of direction, halves of a character. As on a terminal it is shown as a code. */
const ACTIVE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Cs}/gu;

/** Text of a recording as it may stand among other text. */
export function shown(text: string): string {
  return text.replace(ACTIVE, (one) => `\\u{${(one.codePointAt(0) ?? 0).toString(16)}}`);
}

/** Sets attributes; those that are false or undefined are left as they are. */
export function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : typeof value === "number" ? String(value) : shown(value));
  }
}

function fill(element: Element, attributes: Attributes, children: readonly Child[]): void {
  set(element, attributes);
  append(element, children);
}

export function append(parent: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child as readonly Child[]);
    else parent.append(child instanceof Node ? child : shown(String(child as string | number)));
  }
}

/** An HTML element. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag) as SVGElementTagNameMap[K];
  fill(element, attributes, children);
  return element;
}
