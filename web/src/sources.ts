/** Where the figures of a chart come from: the command that prints them, and the SQL over the same recordings. */

export interface Source {
  /** Prints the same figures. */
  readonly command: string;
  /** Over the tables of the recordings. */
  readonly sql: string;
  /** The recordings, or the words that stand for them. */
  readonly of: readonly string[];
  /** The SQL gives the rows that the figures are made of, as they are not made by sums alone. */
  readonly isBeneath?: boolean;
}

/** Words for the recordings of both sides: which these are is in the table of the runs. */
export const SIDES: readonly string[] = ["BASE", "TEST"];

/** A word as a shell takes it. */
export function word(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The command lines that run the SQL: over both sides at once, or over one recording after the other. */
export function query({ of, sql }: Source): string {
  const lines = of === SIDES ? [of.join(" ")] : of.map(word);
  return lines.map((dirs) => `pagelab query ${dirs} "${sql}"`).join("\n");
}
