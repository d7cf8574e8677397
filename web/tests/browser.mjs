// Pages in a real browser: what is drawn is what the document says, nothing is asked for, nothing is thrown, and a screen reader finds
// its way. Usage: node tests/browser.mjs SCREENSHOTS PAGE.html...   (Debian's chromium; as root without its sandbox)
// With PAGELAB in the environment, the program, the SQL that the pages show is run, too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { launched } from "./chromium.mjs";
import { drawn as drawnOverTime } from "./drawn.mjs";
import { files } from "./files.mjs";
import { queries } from "./queries.mjs";

const [shots, ...pages] = process.argv.slice(2);
if (!shots || pages.length === 0) {
  console.error("browser.mjs: found too few words; needed a folder for screenshots and pages");
  process.exit(2);
}
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await launched();

/** The page's own document; handed over as text, as a stack of frames may be nested deeper than the browser's protocol goes. */
const documentOf = async (page) => JSON.parse(await page.evaluate(() => document.getElementById("pagelab-document").textContent));

/** Rows of a table, whose pages are turned to the last. */
async function paged(page, selector) {
  const [rows, later] = [page.locator(`${selector} tbody tr`), page.locator(`${selector} button[aria-label^="Next rows"]`)];
  let found = await rows.count();
  while ((await later.isVisible()) && (await later.isEnabled())) {
    await later.click();
    found += await rows.count();
  }
  return found;
}

async function marks(page) {
  const doc = await documentOf(page);
  const [comparison] = doc.comparisons;
  if (!comparison) return;
  const counted = (side) => side.runs.filter((run) => run.excluded === null && run.primary !== null).length;
  const prefix = doc.comparisons.length > 1 ? "1-" : "";
  const count = (selector) => page.locator(selector).count();
  assert.equal(await count(`[id="${prefix}runs"] circle.run.base`), counted(comparison.base), "a dot for each run of the base");
  assert.equal(await count(`[id="${prefix}runs"] circle.run.test`), counted(comparison.test), "and of the test side");
  const moved = (comparison.budget?.components ?? []).filter((one) => one.difference_ns);
  const bars = comparison.budget ? Math.min(moved.length, 9) + 2 + (moved.length > 9 ? 1 : 0) : 0;
  assert.equal(await count(`[id="${prefix}time"] rect.bar`), bars, "a bar for each step of the waterfall");
  assert.equal(await count(`[id="${prefix}why"] article.finding`), comparison.findings.length, "every finding");
  // Bars are as long as their numbers say: the test's over the base's.
  if (comparison.budget) {
    const widths = await page.locator(`[id="${prefix}time"] rect.bar.whole`).evaluateAll((all) => all.map((bar) => Number(bar.getAttribute("width"))));
    const wanted = comparison.budget.test_ns / comparison.budget.base_ns;
    assert.ok(Math.abs(widths[1] / widths[0] / wanted - 1) < 0.02, `bars ${widths} for a ratio of ${wanted}`);
  }
  const search = page.locator(`[id="${prefix}metrics-search"]`);
  await page.locator(`[id="${prefix}metrics-only"]`).uncheck();
  await search.fill("run.");
  const wanted = comparison.metrics.filter((one) => `${one.name}[${one.instance ?? ""}]`.includes("run.")).length;
  assert.equal(await paged(page, `[id="${prefix}metrics"]`), wanted, "the filter finds what the document has");
}

async function zoom(page) {
  for (const flame of await page.locator("svg.flame").all()) {
    const before = await flame.locator("g.frame").count();
    // One that is wide enough to be hit.
    const wide = await flame.locator("g.frame rect").evaluateAll((all) => all.findIndex((one, place) => place > 0 && Number(one.getAttribute("width")) > 20));
    if (wide < 0) continue;
    await flame.locator("g.frame").nth(wide).click();
    await flame.locator("g.frame").first().click();
    assert.equal(await flame.locator("g.frame").count(), before, "zooming in and out again shows the same frames");
  }
  for (const search of await page.locator("input[id$='stacks-search']").all()) await search.fill("ma");
}

/** Every heading of a page has a row in docs/report.md: of the same name, or of what stands before its comma or colon. */
const documented = readFileSync(new URL("../../docs/report.md", import.meta.url), "utf8").split("\n").flatMap((line) => line.match(/^\| ([^|]+) \|/)?.[1] ?? []);
async function headings(page) {
  const found = await page.locator("figure a.title, h3.section").allTextContents();
  const plain = (text) => text.replace(/^.* of every run$/, "every run").replace(/the time of (an operation|a run) went/, "the time went");
  for (const heading of found.map(plain)) assert.ok(documented.includes(heading.split(/[,:]/)[0]), `docs/report.md has no row for "${heading}"`);
}

for (const file of pages) {
  for (const scheme of ["light", "dark"]) {
    const page = await browser.newPage({ viewport: { width: 1000, height: 900 }, colorScheme: scheme });
    const wrong = [];
    page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`thrown: ${error.message}`));
    page.on("dialog", (dialog) => {
      wrong.push(`a script of the recording ran: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => !/^(file|data|blob):/.test(request.url()) && wrong.push(`asked for ${request.url()}`));
    const began = performance.now();
    await page.goto(`file://${resolve(file)}`);
    await page.locator("main h1").waitFor();
    const drawn = Math.round(performance.now() - began);
    const shot = (name) => page.screenshot({ path: join(shots, `${basename(file, ".html")}-${scheme}-${name}.png`), fullPage: name === "all" });
    await shot("first");
    await shot("all");
    await marks(page);
    const doc = await documentOf(page);
    await drawnOverTime(page, doc);
    await headings(page);
    await zoom(page);
    // Files and queries are the same in both schemes.
    if (scheme === "light") {
      await files(page, doc);
      await queries(page, doc);
    }
    // The policy allows no other script; the protocol of the browser runs it beside the page.
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: axe });
    const { result } = await session.send("Runtime.evaluate", { expression: "axe.run().then((found) => JSON.stringify(found.violations))", awaitPromise: true, returnByValue: true });
    const serious = JSON.parse(result.value).filter((one) => ["serious", "critical"].includes(one.impact));
    for (const one of serious) wrong.push(`axe: ${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`);
    console.log(`${file} ${scheme}: drawn after ${drawn} ms; ${wrong.length === 0 ? "nothing wrong" : wrong.join("\n  ")}`);
    if (wrong.length > 0) process.exitCode = 1;
    await page.close();
  }
}
await browser.close();
