// How long a page takes to answer: node bench/interactions.mjs PAGE.html...   (Debian's chromium; as root without its sandbox)
// Clicks, typed letters and changed choices are real input. What is measured is the browser's own event timing: from the input to the next
// picture, in steps of 8 ms. The slowest of each kind is printed; one of more than 100 ms is a failure.
import { resolve } from "node:path";
import { launched } from "../tests/chromium.mjs";

const LIMIT_MS = 100;
const pages = process.argv.slice(2);
if (pages.length === 0) {
  console.error("interactions.mjs: found no page; needed the names of pages");
  process.exit(2);
}
const browser = await launched();

const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))));

/** Does one thing to what is in view and waits for the pictures that follow; gives the longest time from an input to its picture. */
async function timed(page, one, act) {
  await one.scrollIntoViewIfNeeded();
  await settled(page);
  await page.evaluate(() => (globalThis.slowest = 0));
  await act();
  await settled(page);
  return page.evaluate(() => globalThis.slowest);
}

for (const file of pages) {
  const page = await browser.newPage({ viewport: { width: 1000, height: 900 } });
  const began = performance.now();
  await page.goto(`file://${resolve(file)}`);
  await page.locator("main h1").waitFor();
  const drawn = performance.now() - began;
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null);
  // The browser has done what loading leaves behind: nobody clicks before that.
  await page.evaluate(() => new Promise((done) => requestIdleCallback(done)));
  // Events of less than 16 ms are not told: they are quick. Where a picture shows no change, the browser tells the time of the next that
  // does, however much later: so an answer has come, too, when the picture after the first is begun.
  await page.evaluate(() => {
    const next = new Map();
    for (const type of ["pointerdown", "pointerup", "click", "keydown", "keypress", "beforeinput", "input", "keyup"])
      addEventListener(type, ({ timeStamp }) => requestAnimationFrame(() => requestAnimationFrame(() => next.set(timeStamp, performance.now() - timeStamp))), true);
    new PerformanceObserver((list) => {
      for (const { startTime, duration } of list.getEntries()) globalThis.slowest = Math.max(globalThis.slowest, Math.min(duration, Math.ceil(next.get(startTime) ?? duration)));
    }).observe({ type: "event", durationThreshold: 16 });
  });
  const found = new Map();
  const note = (kind, ms) => found.set(kind, [...(found.get(kind) ?? []), ms]);
  const slow = [];
  const each = async (kind, selector, most, act) => {
    const all = await page.locator(selector).all();
    for (const one of all.slice(0, most)) {
      if (!(await one.isVisible())) continue;
      const ms = await timed(page, one, () => act(one));
      note(kind, ms);
      if (ms > LIMIT_MS) slow.push(await one.evaluate((element) => `${element.closest("[id]")?.id}: ${element.textContent.slice(0, 30)}`));
    }
  };
  for (const flame of await page.locator("svg.flame").all()) {
    // Frames that are wide enough to be hit, from the root upwards.
    const places = await flame.locator("g.frame rect").evaluateAll((all) => all.map((one, place) => [place, Number(one.getAttribute("width"))]).filter(([, width]) => width > 30).map(([place]) => place));
    for (const place of places.slice(0, 8)) {
      const frames = flame.locator("g.frame");
      if (place >= (await frames.count())) continue;
      note("a click on a frame", await timed(page, frames.nth(place), () => frames.nth(place).click({ position: { x: 8, y: 5 } })));
      note("a click on the root", await timed(page, frames.first(), () => frames.first().click({ position: { x: 8, y: 5 } })));
    }
  }
  for (const [kind, selector, word] of [["a letter in a search of stacks", "input[id$='stacks-search']", "pag"], ["a letter in a search of metrics", "input[id$='metrics-search']", "run"]]) {
    for (const letter of word) await each(kind, selector, 4, (one) => one.pressSequentially(letter));
    for (const one of await page.locator(selector).all()) await one.fill("");
  }
  await each("a change of order", "select", 4, async (one) => {
    const values = await one.locator("option").evaluateAll((all) => all.map((option) => option.value));
    for (const value of values.slice(0, 3)) await one.selectOption(value);
  });
  await each("a box", "input[type=checkbox]", 6, (one) => one.click());
  await each("a table opened", "details > summary", 40, (one) => one.click());
  let slowest = 0;
  for (const [kind, all] of found) {
    slowest = Math.max(slowest, ...all);
    const sorted = all.toSorted((a, b) => a - b);
    console.log(`  ${kind}: ${all.length}, median ${sorted[sorted.length >> 1] || "under 16"} ms, slowest ${sorted.at(-1) || "under 16"} ms`);
  }
  console.log(`${file}: first paint after ${paint === null ? "?" : Math.round(paint)} ms, drawn after ${Math.round(drawn)} ms; slowest answer ${slowest || "under 16"} ms`);
  if (slow.length > 0) console.log(`  slow: ${slow.join("; ")}`);
  if (slowest > LIMIT_MS) process.exitCode = 1;
  await page.close();
}
await browser.close();
