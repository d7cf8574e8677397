/** What is drawn of each side of a comparison, or of one recording alone. */

import type { OverTime } from "./document.js";

export interface Side<T> {
  readonly name: "base" | "test" | "recording";
  readonly dir: string;
  readonly of: T;
}

/** The sides that have a part. */
export function having<T>(sides: readonly Side<OverTime>[], part: (one: OverTime) => T | null): Side<T>[] {
  return sides.flatMap(({ name, dir, of }) => {
    const found = part(of);
    return found === null ? [] : [{ name, dir, of: found }];
  });
}

/** Both sides of a comparison. */
export function bothSides([base, test]: readonly [OverTime | null, OverTime | null]): Side<OverTime>[] {
  const side = (name: "base" | "test", of: OverTime | null): Side<OverTime>[] => (of ? [{ name, dir: of.dir, of }] : []);
  return [...side("base", base), ...side("test", test)];
}

/** Which runs are shown, in words. */
export function shownRuns(sides: readonly Side<unknown>[]): string {
  return sides.length > 1 || sides[0]?.name !== "recording" ? " Of one run of each side, the one in the middle of its primary metric." : "";
}

/** A part by side, for the file. */
export function bySide<T>(sides: readonly Side<T>[]): Record<string, { dir: string; data: T }> {
  return Object.fromEntries(sides.map(({ name, dir, of }) => [name, { dir, data: of }]));
}
