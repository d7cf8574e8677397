// Pictures of single sections of pages: node tests/sections.mjs WIDTH OUT.png PAGE.html#SECTION [OUT.png PAGE.html#SECTION]...
// (Debian's chromium; as root without its sandbox). A section that the page does not have is an error that names those it has.
import { resolve } from "node:path";
import { launched } from "./chromium.mjs";

const [width, ...pairs] = process.argv.slice(2);
if (!(Number(width) > 0) || pairs.length === 0 || pairs.length % 2 !== 0) {
  console.error("sections.mjs: needed the width in pixels, then pairs of a picture to write and a section of a page: 1000 why.png page.html#why");
  process.exit(2);
}
const browser = await launched();
const page = await browser.newPage({ viewport: { width: Number(width), height: 900 } });
// As on paper: without what belongs to the screen.
await page.emulateMedia({ media: "print", colorScheme: "light" });
for (let place = 0; place < pairs.length; place += 2) {
  const [picture, address] = [pairs[place], pairs[place + 1]];
  const [file, section] = address.split("#");
  await page.goto(`file://${resolve(file)}`);
  await page.locator("main h1").waitFor();
  const found = page.locator(`[id="${section}"]`).first();
  if ((await found.count()) === 0) {
    const there = await page.locator("section[id], header[id], article[id]").evaluateAll((all) => all.map((one) => one.id));
    console.error(`sections.mjs: found no section #${section} in ${file}; it has ${there.join(", ")}`);
    process.exitCode = 1;
    continue;
  }
  // What opens on a click says nothing in a picture.
  await found.locator("details").evaluateAll((all) => all.forEach((one) => one.remove()));
  await found.screenshot({ path: picture });
}
await browser.close();
