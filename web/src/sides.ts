/** What is drawn of each side of a comparison, or of one recording alone. */

import { s } from "./dom.js";
import type { OtherRun, OverTime } from "./document.js";

type SideName = "base" | "test" | "recording";

/** A run of a side beside the typical one. */
export interface Other<T> {
  readonly dir: string;
  readonly of: T;
}

export interface Side<T> {
  readonly name: SideName;
  readonly dir: string;
  readonly of: T;
  /** Drawn as thin lines behind it. */
  readonly others: readonly Other<T>[];
}

/** A side with the runs that are drawn against time. */
export interface RunSide {
  readonly name: SideName;
  readonly dir: string;
  readonly of: OverTime;
  readonly others: readonly OtherRun[];
}

/** The sides that have a part; `ofOther` is the same part of the other runs, where these have one. */
export function having<T>(sides: readonly RunSide[], part: (one: OverTime) => T | null, ofOther: (one: OtherRun) => T | null = () => null): Side<T>[] {
  return sides.flatMap(({ name, dir, of, others }) => {
    const found = part(of);
    if (found === null) return [];
    const behind = others.flatMap((other) => {
      const of = ofOther(other);
      return of === null ? [] : [{ dir: other.dir, of }];
    });
    return [{ name, dir, of: found, others: behind }];
  });
}

/** Both sides of a comparison. */
export function bothSides([base, test]: readonly [OverTime | null, OverTime | null], [baseOthers, testOthers]: readonly [readonly OtherRun[], readonly OtherRun[]]): RunSide[] {
  const side = (name: "base" | "test", of: OverTime | null, others: readonly OtherRun[]): RunSide[] => (of ? [{ name, dir: of.dir, of, others }] : []);
  return [...side("base", base, baseOthers), ...side("test", test, testOthers)];
}

/** Which runs are shown, in words. */
export function shownRuns(sides: readonly Side<unknown>[]): string {
  if (sides.length === 1 && sides[0]?.name === "recording") return "";
  const others = sides.some((side) => side.others.length > 0);
  return others ? " Strong lines: of each side the run in the middle of its primary metric; thin lines: its other runs, at most nine." : " Of one run of each side, the one in the middle of its primary metric.";
}

/** Room that the legend takes above a picture. */
export const LEGEND = 22;

/** What strong and thin lines are, above a picture; none where there are no thin ones. `name` is the class of lines of the picture. */
export function legend(sides: readonly Side<unknown>[], name: string, width: number): SVGGElement | null {
  if (sides.every((side) => side.others.length === 0)) return null;
  const SAMPLE = 26;
  const room = width / (2 * sides.length);
  const entries = sides.flatMap((side) => [
    { kind: `line ${side.name} ${name}`, text: `${side.name}: the run in the middle` },
    { kind: `thin ${side.name} ${name}`, text: `${side.name}: ${side.others.length} other ${side.others.length === 1 ? "run" : "runs"}` },
  ]);
  return s(
    "g",
    { class: "legend" },
    entries.map(({ kind, text }, place) => {
      const x = 4 + place * room;
      return [s("line", { x1: x, x2: x + SAMPLE, y1: 10, y2: 10, class: kind }), s("text", { x: x + SAMPLE + 6, y: 14, class: "tick" }, text)];
    }),
  );
}

/** The runs of all sides, each with the name of its side: first the typical one. */
export function eachRun<T>(sides: readonly Side<T>[]): { readonly name: SideName; readonly dir: string; readonly of: T }[] {
  return sides.flatMap(({ name, dir, of, others }) => [{ name, dir, of }, ...others.map((other) => ({ name, ...other }))]);
}

/** A part by side, for the file. */
export function bySide<T>(sides: readonly Side<T>[]): Record<string, { dir: string; data: T; others?: { dir: string; data: T }[] }> {
  return Object.fromEntries(
    sides.map(({ name, dir, of, others }) => {
      const more = others.map((other) => ({ dir: other.dir, data: other.of }));
      return [name, { dir, data: of, ...(more.length > 0 ? { others: more } : {}) }];
    }),
  );
}
