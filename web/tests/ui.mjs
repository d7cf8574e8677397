// The page that `pagelab ui` serves, in a real browser: from the whole down to single faults, and back. Each picture holds what the
// server says of its window, nothing is thrown, nothing is asked of anybody else. Usage: node tests/ui.mjs SCREENSHOTS ADDRESS
import assert from "node:assert/strict";
import { join } from "node:path";
import { launched } from "./chromium.mjs";

const [shots, address] = process.argv.slice(2);
if (!shots || !address) {
  console.error("ui.mjs: found too few words; needed a folder for screenshots and the address that pagelab ui printed");
  process.exit(2);
}
const browser = await launched();
const page = await browser.newPage({ viewport: { width: 1000, height: 1000 } });
const wrong = [];
page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
page.on("pageerror", (error) => wrong.push(`thrown: ${error.message}`));
page.on("request", (request) => !request.url().startsWith(address) && !/^(data|blob):/.test(request.url()) && wrong.push(`asked for ${request.url()}`));
const began = performance.now();
await page.goto(address);
await page.locator("main h1").waitFor();
const drawn = Math.round(performance.now() - began);

const section = page.locator("section#zoom");
const said = async () => section.evaluate((element) => ({ ...element.dataset }));
const step = async (move) => {
  const before = move ? Number((await said()).step ?? 0) : 0;
  await move?.();
  await page.waitForFunction((before) => Number(document.getElementById("zoom")?.dataset.step ?? 0) > before, before, { timeout: 120_000 });
  return said();
};
// The first picture comes by itself.
await section.waitFor();
const whole = await step(null);
const field = await page.evaluate(async () => (await fetch("api/faults?recording=0")).json());
assert.equal(Number(whole.faults), field.faults, "the whole has all faults");
await page.screenshot({ path: join(shots, "ui-whole.png"), fullPage: true });
await section.screenshot({ path: join(shots, "ui-picture.png") });
const times = [];
let last = whole;
// Towards the cell with most faults: the wheel keeps what is under the pointer where it is.
const [column, row] = await page.evaluate(async ({ slots, span_ns }) => {
  const words = new URLSearchParams({ recording: "0", from_ns: "0", to_ns: String(span_ns), low: "0", high: String(slots), columns: "440", rows: "200" });
  const seen = await (await fetch(`api/see?${words}`)).json();
  const [column, row] = seen.cells.reduce((most, cell) => (cell[2] > most[2] ? cell : most));
  return [(column + 0.5) / seen.columns, (row + 0.5) / seen.rows];
}, field);
await section.locator("canvas").scrollIntoViewIfNeeded();
const canvas = await section.locator("canvas").boundingBox();
await page.mouse.move(canvas.x + canvas.width * column, canvas.y + canvas.height * (1 - row));
for (let steps = 0; last.points === "" && steps < 40; steps += 1) {
  last = await step(() => page.mouse.wheel(0, -100));
  times.push(Number(last.ms));
}
assert.ok(Number(last.points) > 0 && Number(last.points) === Number(last.faults) && Number(last.points) <= 1000, `single faults at the end: ${JSON.stringify(last)}`);
await page.screenshot({ path: join(shots, "ui-faults.png"), fullPage: true });
const rows = await section.locator("tbody tr").count();
assert.equal(rows, Math.min(50, Number(last.points)), "a row for each of the first");
const ink = () => section.locator("canvas").evaluate((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((byte, place) => place % 4 === 3 && byte > 0));
assert.ok(await ink(), "dots are drawn");
await step(() => page.getByRole("button", { name: "zoom in" }).click());
await section.locator("canvas").focus();
const back = await step(() => page.keyboard.press("0"));
assert.equal(back.faults, whole.faults, "0 shows all again");
const box = await section.locator("canvas").boundingBox();
const dragged = await step(async () => {
  await page.mouse.move(box.x + box.width * 0.25, box.y + box.height * 0.25);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.75);
  await page.mouse.up();
});
assert.ok(Number(dragged.faults) < Number(whole.faults), "a rectangle is a part");
assert.deepEqual(wrong, []);
await browser.close();
times.sort((a, b) => a - b);
console.log(`ui: drawn in ${drawn} ms; ${field.faults} faults; ${times.length} steps to ${last.faults} of them, median ${times[times.length >> 1]} ms, slowest ${times.at(-1)} ms`);
