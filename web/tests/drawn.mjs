// What is drawn against time, and as bars, held to the page's own document.
import assert from "node:assert/strict";

/** The parts of a page: the prefix of their ids, their sides, and the recording where they are of one alone. */
function parts(doc) {
  const several = doc.comparisons.length > 1;
  const compared = doc.pictures.map((pictures, place) => ({
    prefix: several ? `${place + 1}-` : "",
    sides: [["base", pictures.over_time[0], pictures.other_runs[0]], ["test", pictures.over_time[1], pictures.other_runs[1]]].filter(([, of]) => of !== null),
    sizes: [["base", pictures.page_sizes[0]], ["test", pictures.page_sizes[1]]].filter(([, of]) => of !== null),
    flames: [["stacks", pictures.flame], ["off-stacks", pictures.off_cpu?.root ?? null]],
  }));
  const alone = doc.recordings.map((recorded, place) => ({
    prefix: doc.recordings.length > 1 ? `r${place + 1}-` : "",
    sides: [["recording", recorded.over_time, []]],
    sizes: recorded.page_sizes ? [["recording", recorded.page_sizes]] : [],
    flames: [["stacks", recorded.flame], ["off-stacks", recorded.off_cpu?.root ?? null]],
    recorded,
  }));
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
    for (const [name, of, others] of having) {
      const behind = others.filter((one) => one.latency !== null);
      assert.ok(behind.length < 10, "at most ten runs of a side");
      const intervals = of.latency.courses.find((one) => one.direction === direction)?.intervals ?? [];
      for (const quantile of ["p50", "p99", "max"]) {
        const d = (await attributes(page, `${id} path.line.${name}.${quantile}`, "d"))[row];
        places.push(...vertices(d).map(([, y]) => y));
        values.push(...intervals.map((one) => Math.log10(one[`${quantile}_ns`])));
        const thin = await attributes(page, `${id} path.thin.${name}.${quantile}`, "d");
        assert.equal(thin.length, directions.length * behind.length, "a thin line for each other run");
        for (const [number, other] of behind.entries()) {
          const found = other.latency.courses.find((one) => one.direction === direction)?.intervals ?? [];
          assert.ok(found.length <= 100, "at most 100 points to a thin line");
          places.push(...vertices(thin[row * behind.length + number]).map(([, y]) => y));
          values.push(...found.map((one) => Math.log10(one[`${quantile}_ns`])));
        }
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
  const keys = [...new Set(sides.flatMap(([, of, others]) => [of, ...others].flatMap((run) => run.series.courses.map((course) => `${course.table} ${course.name}`))))];
  const charts = page.locator(`[id="${prefix}series"] svg > g:not(.legend)`);
  assert.equal(await charts.count(), keys.length, "a chart for each metric");
  for (const [place, key] of keys.entries()) {
    const [places, values] = [[], []];
    for (const [name, of, others] of sides) {
      const courseOf = (run) => run.series.courses.find((one) => `${one.table} ${one.name}` === key);
      const behind = others.flatMap((run) => courseOf(run) ?? []);
      const thin = await charts.nth(place).locator(`path.thin.${name}`).evaluateAll((all) => all.map((one) => one.getAttribute("d") ?? ""));
      assert.equal(thin.length, behind.length, `${key}: a thin line for each other run`);
      for (const [number, other] of behind.entries()) {
        assert.ok(other.values.length <= 100, `${key}: at most 100 points to a thin line`);
        places.push(...vertices(thin[number]).map(([, y]) => y));
        values.push(...other.values.filter((value) => value !== null));
      }
      const course = courseOf(of);
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
  for (const [at, value] of values.entries()) assert.ok(Math.abs(widths[at] - (value > 0 ? Math.max(1, (value / most) * whole) : 0)) < 0.2, `${what}: ${value} of ${most} as ${widths[at]} of ${whole}`);
}

/** Values of the bars of page sizes, in their order: each size on each side, then each reason. */
function pageSizes(sides) {
  const sizes = [...new Set(sides.flatMap(([, of]) => of.sizes.map((one) => one.page_size_bytes)))].sort((a, b) => a - b);
  const reasons = [...new Set(sides.flatMap(([, of]) => of.shortfalls.map((one) => `${one.asked} ${one.reason}`)))];
  const got = sizes.flatMap((size) => sides.map(([, of]) => of.sizes.find((one) => one.page_size_bytes === size)?.bytes ?? 0));
  const lacking = reasons.flatMap((reason) => sides.map(([, of]) => of.shortfalls.find((one) => `${one.asked} ${one.reason}` === reason)?.bytes ?? 0));
  return [...got, ...lacking];
}

const WIDTH = 880;

/** The outermost frames of a flame graph, as wide as their times; and that what waits for others can be left out. */
async function flames(page, prefix, all) {
  for (const [id, root] of all) {
    const figure = page.locator(`[id="${prefix}${id}"]`);
    assert.equal(await figure.count(), root ? 1 : 0, `${id} where there is one`);
    if (!root) continue;
    const drawn = () => figure.locator("g.frame").evaluateAll((all) => all.map((one) => [one.querySelector("rect"), one]).map(([box, one]) => ({ y: Number(box.getAttribute("y")), width: Number(box.getAttribute("width")), name: one.querySelector("title").textContent })));
    const [lowest, ...others] = await drawn();
    assert.match(lowest.name, /^all: /);
    const size = (frame) => Math.max(frame.base, frame.test);
    const children = root.children ?? [];
    const whole = Math.max(size(root), children.reduce((sum, child) => sum + size(child), 0));
    const wanted = children.map((child) => [child.name, (size(child) / whole) * WIDTH]).filter(([, width]) => width >= 1);
    const outermost = others.filter((frame) => frame.y === lowest.y - 18);
    assert.equal(outermost.length, wanted.length, `${id}: outermost frames`);
    for (const [at, [name, width]] of wanted.entries()) assert.ok(Math.abs(outermost[at].width - Math.max(0.5, width - 0.5)) < 0.1, `${id}: ${name} is ${outermost[at].width} wide, not ${width}`);
    const box = figure.locator("input[type=checkbox]");
    if ((await box.count()) === 0) continue;
    const pale = await figure.locator("g.frame.passive").count();
    await box.check();
    assert.equal(await figure.locator("g.frame.passive").count(), 0, "what waits for others is left out");
    await box.uncheck();
    assert.equal(await figure.locator("g.frame.passive").count(), pale, "and is there again");
  }
}

/** Stacks of waits sum to the account, to a nanosecond a stack, where both are of the stream waits. */
function account({ off_cpu, budget }) {
  if (off_cpu?.stream !== "waits") return;
  const near = (found, wanted, what) => assert.ok(Math.abs(found - wanted) <= 1000, `${what}: ${found} ns in stacks, ${wanted} in the account`);
  near(off_cpu.root.test, budget.off_ns, "off CPUs");
  for (const frame of off_cpu.root.children) near(frame.test, budget.components.find((one) => one.component === frame.name).ns, frame.name);
}

/** All of a page. */
export async function drawn(page, doc) {
  for (const { prefix, sides, sizes, flames: graphs, recorded } of parts(doc)) {
    await latency(page, prefix, sides);
    await io(page, prefix, sides);
    await series(page, prefix, sides);
    await flames(page, prefix, graphs);
    if (sizes.length > 0) await bars(page, `[id="${prefix}page-sizes"]`, pageSizes(sizes), "page sizes");
    if (!recorded) continue;
    account(recorded);
    const components = recorded.budget.components;
    await bars(page, `[id="${prefix}waits"]`, components.filter((one) => one.state !== "run" && one.ns > 0).slice(0, 20).map((one) => one.ns), "waits");
  }
}
