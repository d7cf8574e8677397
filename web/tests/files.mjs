// The files that the page makes of each picture: the same buttons everywhere, reached by keyboard, with what they are to hold.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** Of more than ten downloads in quick succession Chromium drops one without a word: it is asked for again. */
async function file(page, button, tries = 3) {
  await button.focus();
  const [download] = await Promise.all([page.waitForEvent("download", { timeout: 5000 }).catch(() => null), page.keyboard.press("Enter")]);
  if (download) return [download.suggestedFilename(), readFileSync(await download.path())];
  if (tries > 1) return file(page, button, tries - 1);
  throw new Error(`no file came of ${await button.getAttribute("aria-label")}`);
}

/** Every picture's files. */
export async function files(page, doc) {
  const figures = await page.locator("figure").all();
  assert.ok(figures.length > 0, "pictures");
  for (const figure of figures) {
    const id = await figure.getAttribute("id");
    const buttons = figure.locator(".buttons button");
    const names = await buttons.allTextContents();
    assert.deepEqual(names, ["CSV", "JSON", "SVG", "PNG"], `buttons of ${id}`);
    const made = new Map();
    for (const [place, name] of names.entries()) {
      const [named, content] = await file(page, buttons.nth(place));
      assert.equal(named, `${id}.${name.toLowerCase()}`);
      made.set(name, content);
    }
    assert.ok(made.get("CSV").includes("\r\n"), `rows of ${id}`);
    assert.match(made.get("SVG").toString(), /^<svg[^]*<\/svg>$/, `drawing of ${id}`);
    assert.deepEqual([...made.get("PNG").subarray(1, 4)], [...Buffer.from("PNG")], `image of ${id}`);
    const data = JSON.parse(made.get("JSON").toString());
    if (id === "latency-over-time" && doc.pictures[0]) assert.deepEqual(data.test.data, doc.pictures[0].over_time[1].latency, "the part of the document");
    if (id === "latency-over-time" && doc.pictures[0]) assert.equal(data.test.others?.length ?? 0, doc.pictures[0].other_runs[1].length, "and the other runs");
    if (id === "off-stacks") assert.deepEqual(data, (doc.pictures[0] ?? doc.recordings[0]).off_cpu.root, "the part of the document");
    if (id === "series" && doc.recordings[0]) assert.deepEqual(data.recording.data, doc.recordings[0].over_time.series, "the part of the document");
    assert.equal(await figure.locator(`.buttons a[href="#${id}"]`).count(), 1, `link of ${id}`);
    assert.ok((await figure.locator("details.table tbody tr").count()) > 0, `table of ${id}`);
  }
}
