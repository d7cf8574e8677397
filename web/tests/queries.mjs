// The SQL that the page shows: all of it runs, and where it is to give the same figures it gives those of the document.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

const program = process.env.PAGELAB;

const run = (line) => execFileSync("bash", ["-c", line.replace(/^pagelab/, () => '"$PAGELAB" ')], { encoding: "utf8", maxBuffer: 1 << 28 });

function rows(command, doc) {
  const [comparison] = doc.comparisons;
  const dirs = (side) => comparison?.[side].runs.map((run) => `'${run.dir.replaceAll("'", "'\\''")}'`).join(" ") ?? "";
  const line = command.replace(/^pagelab query BASE TEST /, () => `pagelab query ${dirs("base")} ${dirs("test")} `);
  return JSON.parse(run(`${line} --json`));
}

/** Stacks of waits of one recording: by the command, and where they are of the stream sched by SQL, too. */
function waits(found, command, { stream, root }) {
  const sum = run(command).trim().split("\n").reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  assert.equal(sum, root.test, "stacks of waits by the command");
  if (stream === "sched") assert.equal(found.reduce((sum, row) => sum + Number(row.ns), 0), root.test, "stacks of waits in SQL");
}

function latency(found, of) {
  const wanted = of.courses.flatMap(({ direction, intervals }) => intervals.map((one) => ({ direction, ...one })));
  assert.deepEqual(found.map((row) => [row.direction, row.end_ns, row.count, row.p50_ns, row.p99_ns, row.max_ns].map(String)), wanted.map((one) => [one.direction, one.end_ns, one.count, one.p50_ns, one.p99_ns, one.max_ns].map(String)), "latency over time in SQL");
}

function pageSizes(found, of) {
  assert.deepEqual(found.map((row) => [row.page_size_bytes, row.bytes].map(String)), of.sizes.map((one) => [one.page_size_bytes, one.bytes].map(String)), "page sizes in SQL");
}

/** Every query of a page. */
export async function queries(page, doc) {
  if (!program || doc.comparisons.length > 1 || doc.recordings.length > 1) return;
  for (const figure of await page.locator("figure").all()) {
    const id = await figure.getAttribute("id");
    const lines = ((await figure.locator("details.sources pre").last().textContent()) ?? "").split("\n");
    const found = lines.map((line) => rows(line, doc));
    const sides = [...(doc.pictures[0]?.over_time ?? []), ...(doc.recordings[0] ? [doc.recordings[0].over_time] : [])].filter((one) => one !== null);
    if (id === "latency-over-time") for (const [place, of] of sides.filter((one) => one.latency !== null).entries()) latency(found[place], of.latency);
    const sizes = (doc.pictures[0]?.page_sizes ?? [doc.recordings[0]?.page_sizes]).filter((one) => one);
    if (id === "page-sizes") for (const [place, of] of sizes.entries()) pageSizes(found[place], of);
    if (id === "off-stacks" && doc.recordings[0]) waits(found[0], await figure.locator("details.sources pre").first().textContent(), doc.recordings[0].off_cpu);
  }
}
