// Lighthouse's scores of a page that is served: node check.mjs FOLDER URL   (Debian's chromium; as root without its sandbox)
// On a desktop, from loopback. Keeps the whole report in FOLDER/lighthouse.html; fails under 95 of 100.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "chrome-launcher";
import lighthouse, { desktopConfig } from "lighthouse";

const LEAST = 95;
const [folder, url] = process.argv.slice(2);
if (!folder || !url) {
  console.error("check.mjs: found too few words; needed a folder for the report and the address of a page");
  process.exit(2);
}
const chromeFlags = ["--headless=new", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
const chrome = await launch({ chromePath: "/usr/bin/chromium", chromeFlags });
try {
  const { lhr, report } = await lighthouse(url, { port: chrome.port, output: "html", onlyCategories: ["performance", "accessibility"] }, desktopConfig);
  writeFileSync(join(folder, "lighthouse.html"), report);
  if (lhr.runtimeError) throw new Error(`the page was not measured: ${lhr.runtimeError.message}`);
  for (const { title, score } of Object.values(lhr.categories)) {
    const points = Math.round((score ?? 0) * 100);
    console.log(`Lighthouse ${lhr.lighthouseVersion}, ${title}: ${points} of 100`);
    if (points < LEAST) {
      console.error(`  at least ${LEAST} are needed; what costs points is in ${join(folder, "lighthouse.html")}`);
      process.exitCode = 1;
    }
  }
} finally {
  await chrome.kill();
}
