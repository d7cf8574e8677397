// Whether pages are valid HTML, by the W3C's own checker: node check.mjs PAGE...   (Java; Debian's chromium; as root without its sandbox)
// Each is checked as it is written and as it is drawn: with its script run, what the browser holds is written down again.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { launched } from "../tests/chromium.mjs";

const require = createRequire(import.meta.url);
const pages = process.argv.slice(2);
if (pages.length === 0) {
  console.error("check.mjs: found no page; needed the names of pages");
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), "pagelab-html-"));
const browser = await launched();
try {
  const files = [];
  for (const file of pages) {
    const page = await browser.newPage();
    await page.goto(`file://${resolve(file)}`);
    await page.locator("main h1").waitFor();
    // What is closed is part of the page, too.
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
    const drawn = join(folder, `${basename(file, ".html")}-drawn.html`);
    writeFileSync(drawn, await page.content());
    files.push(resolve(file), drawn);
    await page.close();
  }
  const said = execFileSync("java", ["-jar", require("vnu-jar"), "--format", "json", "--exit-zero-always", "--stdout", ...files], { maxBuffer: 1 << 28 });
  const { messages } = JSON.parse(said);
  const errors = messages.filter((one) => one.type !== "info");
  for (const { url, lastLine, message, extract } of errors.slice(0, 20)) console.error(`${basename(url ?? "")}:${lastLine}: ${message}\n    ${(extract ?? "").slice(0, 160)}`);
  console.log(`valid HTML: ${errors.length} errors in ${pages.length} pages, as written and as drawn`);
  if (errors.length > 0) process.exitCode = 1;
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
