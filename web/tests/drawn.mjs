// What is drawn against time, and as bars, held to the page's own document.
import assert from "node:assert/strict";

/** The parts of a page: the prefix of their ids, their sides, and the recording where they are of one alone. */
function parts(doc) {
  const several = doc.comparisons.length > 1;
  const compared = doc.pictures.map((pictures, place) => ({
    prefix: several ? `${place + 1}-` : "",
    sides: [["base", pictures.over_time[0]], ["test", pictures.over_time[1]]].filter(([, of]) => of !== null),
  }));
  const alone = doc.recordings.map((recorded, place) => ({ prefix: doc.recordings.length > 1 ? `r${place + 1}-` : "", sides: [["recording", recorded.over_time]], recorded }));
  return [...compared, ...alone];
}

/** Vertices of a path: of a line its points, of cells their corners. */
const vertices = (d) => [...d.matchAll(/([ML])(-?[\d.]+) (-?[\d.]+)/g)].map(([, , x, y]) => [Number(x), Number(y)]);

/** Places must be one straight function of the values: what is drawn on one scale is drawn by it everywhere. */
function isScale(places, values, what) {
  assert.equal(places.length, values.length, `${what}: as many places as values`);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (least === most) return;
  const [from, to] = [places[values.indexOf(least)], places[values.indexOf(most)]];
  for (const [at, value] of values.entries()) {
    const wanted = from + ((value - least) / (most - least)) * (to - from);
    assert.ok(Math.abs(places[at] - wanted) < 0.2, `${what}: ${value} is at ${places[at]}, not at ${wanted}`);
  }
}

const attributes = (page, selector, name) => page.locator(selector).evaluateAll((all, name) => all.map((one) => one.getAttribute(name) ?? ""), name);

async function latency(page, prefix, sides) {
  const id = `[id="${prefix}latency-over-time"]`;
  const having = sides.filter(([, of]) => of.latency !== null);
  const directions = [...new Set(having.flatMap(([, of]) => of.latency.courses.map((one) => one.direction)))].sort();
  assert.equal(await page.locator(id).count(), having.length > 0 ? 1 : 0, "latency over time where it was recorded");
  for (const [row, direction] of directions.entries()) {
    const [places, values] = [[], []];
    for (const [name, of] of having) {
      const intervals = of.latency.courses.find((one) => one.direction === direction)?.intervals ?? [];
      for (const quantile of ["p50", "p99", "max"]) {
        const d = (await attributes(page, `${id} path.line.${name}.${quantile}`, "d"))[row];
        places.push(...vertices(d).map(([, y]) => y));
        values.push(...intervals.map((one) => Math.log10(one[`${quantile}_ns`])));
      }
    }
    isScale(places, values, `latency of ${direction}s`);
  }
}

async function io(page, prefix, sides) {
  const maps = sides.flatMap(([, of]) => of.io?.files ?? []);
  for (const [direction, place] of [["read", 2], ["write", 3]]) {
    const paths = await attributes(page, `[id="${prefix}io"] path.op.${direction}`, "d");
    const cells = maps.flatMap((map) => map.cells.filter((cell) => cell[place] > 0));
    assert.equal(paths.join("").split("M").length - 1, cells.length, `a mark for each cell with ${direction}s`);
    for (const map of maps) assert.ok(map.cells.reduce((sum, cell) => sum + cell[place], 0) >= map[`${direction}s`], `cells hold all ${direction}s of ${map.name}`);
    for (const [name, of] of sides) {
      const counts = (of.io?.sizes ?? []).map((size) => size[place - 1]).filter((count) => count > 0);
      const column = sides.findIndex(([other]) => other === name);
      const all = await page.locator(`[id="${prefix}io-sizes"] rect.size.${direction}`).evaluateAll((all) => all.map((one) => [one.querySelector("title").textContent, Number(one.getAttribute("height"))]));
      const heights = all.filter(([title]) => title.startsWith(`${name}:`)).map(([, height]) => height);
      const [most, whole] = [Math.max(...counts), Math.max(...heights)];
      assert.equal(heights.length, counts.length, `a bar for each size of ${direction}s of side ${column}`);
      for (const [at, count] of counts.entries()) assert.ok(Math.abs(heights[at] - Math.max(1, (count / most) * whole)) < 0.2, `${count} of ${most} ${direction}s as ${heights[at]} of ${whole}`);
    }
  }
}

async function series(page, prefix, sides) {
  const keys = [...new Set(sides.flatMap(([, of]) => of.series.courses.map((course) => `${course.table} ${course.name}`)))];
  const charts = page.locator(`[id="${prefix}series"] svg > g`);
  assert.equal(await charts.count(), keys.length, "a chart for each metric");
  for (const [place, key] of keys.entries()) {
    const [places, values] = [[], []];
    for (const [name, of] of sides) {
      const course = of.series.courses.find((one) => `${one.table} ${one.name}` === key);
      if (!course) continue;
      const known = course.values.filter((value) => value !== null);
      assert.ok(course.values.length <= 300, `${key}: at most 300 points`);
      places.push(...vertices((await charts.nth(place).locator(`path.line.${name}`).getAttribute("d")) ?? "").map(([, y]) => y));
      values.push(...known);
    }
    isScale(places, values, key);
  }
}

async function bars(page, selector, values, what) {
  const widths = (await attributes(page, `${selector} rect.bar`, "width")).map(Number);
  assert.equal(widths.length, values.length, `${what}: a bar for each`);
  const [most, whole] = [Math.max(...values), Math.max(...widths)];
  for (const [at, value] of values.entries()) assert.ok(Math.abs(widths[at] - Math.max(1, (value / most) * whole)) < 0.2, `${what}: ${value} of ${most} as ${widths[at]} of ${whole}`);
}

/** All of a page. */
export async function drawn(page, doc) {
  for (const { prefix, sides, recorded } of parts(doc)) {
    await latency(page, prefix, sides);
    await io(page, prefix, sides);
    await series(page, prefix, sides);
    if (!recorded) continue;
    const components = recorded.budget.components;
    await bars(page, `[id="${prefix}waits"]`, components.filter((one) => one.state !== "run" && one.ns > 0).slice(0, 20).map((one) => one.ns), "waits");
    const sizes = recorded.page_sizes;
    if (sizes) await bars(page, `[id="${prefix}page-sizes"]`, [...sizes.sizes, ...sizes.shortfalls].map((one) => one.bytes), "page sizes");
  }
}
