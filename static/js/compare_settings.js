// Settings of the chosen runs against what came of them: a scatter plot with intervals, and parallel coordinates.
import { keepInUrl } from "./address.js";
import { logAxisTicks, quietLayout, symbolOf } from "./chart.js";
import { chooser } from "./chooser.js";
import { amount, colours, escaped, faded } from "./format.js";
import { element } from "./panel_shapes.js";
import * as plot from "./plot.js";

const HEIGHT = 260;
const PAD = { l: 70, r: 70, t: 34, b: 12 };
const MOST_AXES = 8;

const data = document.getElementById("settings-data");
const { columns, runs } = data ? JSON.parse(data.textContent) : { columns: [], runs: [] };
const form = document.getElementById("scatter-form");
const parallel = document.getElementById("parallel");
const kept = new Map(); // key of an axis: the range of it, in pixels, that was dragged

const column = (key) => columns.find((each) => each.key === key);
const isOutcome = (each) => each.lo.length > 0;
const chosen = () => [column(form.elements.sx.value), column(form.elements.sy.value)];

const text = (value) => (typeof value === "string" || Number.isInteger(value) ? String(value) : amount(value));

/** Half an interval beside each value; 0 where it has none or is open. */
function whiskers(each, places, colour) {
  if (!isOutcome(each) || places.every((i) => each.lo[i] === null)) return {};
  const reach = (ends, sign) => places.map((i) => (ends[i] === null ? 0 : Math.max(0, sign * (ends[i] - each.values[i]))));
  return { type: "data", symmetric: false, array: reach(each.hi, 1), arrayminus: reach(each.lo, -1), color: colour, thickness: 1, width: 0 };
}

function axisOf(each, places, colour) {
  const type = { log: "log", words: "category" }[each.scale] ?? "linear";
  const axis = { type, title: { text: escaped(each.label), standoff: 8 }, gridcolor: colour.line, zeroline: false, automargin: true, exponentformat: "SI" };
  const there = places.flatMap((i) => [each.values[i], ...(isOutcome(each) ? [each.lo[i], each.hi[i]] : [])]).filter((value) => value !== null);
  if (type === "category") return { ...axis, range: [-0.5, Math.max(1, new Set(there).size) - 0.5] };
  const [bend, back] = type === "log" ? [Math.log10, (power) => 10 ** power] : [(value) => value, (value) => value];
  const [lo, hi] = there.length ? [Math.min(...there), Math.max(...there)].map(bend) : [0, 1];
  const pad = 0.06 * (hi - lo) || 0.1 * Math.abs(hi) || 1;
  const range = [lo - pad, hi + pad];
  return { ...axis, range, ...(type === "log" && logAxisTicks(range.map(back))) };
}

function drawScatter() {
  const [across, up] = chosen();
  const colour = colours();
  const there = runs.map((_, i) => i).filter((i) => across.values[i] !== null && up.values[i] !== null);
  const away = runs.length - there.length;
  document.getElementById("scatter-words").textContent = `${there.length} run${there.length === 1 ? "" : "s"}: ${up.label.toLowerCase()} over ${across.label}.${away ? ` ${away} without one of the two.` : ""}${up.lo.some((end) => end !== null) ? " Bars: intervals of 90 %." : ""}`;
  const trace = {
    x: there.map((i) => across.values[i]), y: there.map((i) => up.values[i]), mode: "markers", cliponaxis: false,
    error_x: whiskers(across, there, faded(colour.mark, 0.6)), error_y: whiskers(up, there, faded(colour.mark, 0.6)),
    marker: { size: 9, color: there.map((i) => colour[`c${(i % 6) + 1}`]), symbol: there.map(symbolOf), opacity: there.map((i) => (isKept(i) ? 1 : 0.15)) },
    text: there.map((i) => `<b>${escaped(runs[i].label)}</b><br>${escaped(across.label)} ${escaped(text(across.values[i]))}<br>${escaped(up.label)} ${escaped(text(up.values[i]))}`),
    ids: there.map((i) => runs[i].label), hovertemplate: "%{text}<extra></extra>",
  };
  const layout = {
    ...quietLayout(colour), margin: { l: 56, r: 14, t: 10, b: 46 }, dragmode: false,
    xaxis: axisOf(across, there, colour), yaxis: axisOf(up, there, colour),
  };
  plot.draw(document.getElementById("scatter"), [trace], layout);
}

/** Settings first, as many as have room, the chosen outcome last. */
function axes() {
  const [across, up] = chosen();
  const settings = columns.filter((each) => !isOutcome(each));
  const first = settings.includes(across) ? [across, ...settings.filter((each) => each !== across)] : settings;
  return [...first.slice(0, MOST_AXES - 1), up];
}

/** Where values of an axis lie, in pixels from the top; words evenly, in their order. */
function scaleOf(each) {
  const range = [HEIGHT - PAD.b, PAD.t];
  const there = each.values.filter((value) => value !== null);
  if (each.scale === "words") {
    const words = [...new Set(there)].sort();
    return { ticks: words, at: (value) => range[0] + ((words.indexOf(value) + 0.5) / words.length) * (range[1] - range[0]) };
  }
  const bend = each.scale === "log" ? Math.log : (value) => value;
  const [lo, hi] = [Math.min(...there), Math.max(...there)];
  const share = (value) => (hi === lo ? 0.5 : (bend(value) - bend(lo)) / (bend(hi) - bend(lo)));
  return { ticks: hi === lo ? [lo] : [lo, hi], at: (value) => range[0] + share(value) * (range[1] - range[0]) };
}

function isKept(i) {
  return [...kept].every(([key, [from, to]]) => {
    const each = column(key);
    if (each.values[i] === null) return false;
    const at = scaleOf(each).at(each.values[i]);
    return from <= at && at <= to;
  });
}

function drawParallel() {
  if (!parallel) return;
  const shown = axes();
  const width = Math.max(parallel.clientWidth, 90 * shown.length);
  const left = (k) => PAD.l + (k / Math.max(1, shown.length - 1)) * (width - PAD.l - PAD.r);
  const scales = shown.map(scaleOf);
  const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" });
  for (const [i, run] of runs.entries()) {
    let path = "";
    let pen = "M";
    for (const [k, each] of shown.entries()) {
      if (each.values[i] === null) { pen = "M"; continue; }
      path += `${pen}${left(k).toFixed(1)},${scales[k].at(each.values[i]).toFixed(1)}`;
      pen = "L";
    }
    if (!path) continue;
    const drawn = element("path", { d: path, class: `s${(i % 6) + 1}${isKept(i) ? "" : " away"}` });
    drawn.append(element("title", {}, run.label));
    svg.append(drawn);
  }
  for (const [k, each] of shown.entries()) svg.append(axisGroup(each, left(k), scales[k]));
  parallel.replaceChildren(svg);
  sayKept();
}

function axisGroup(each, x, { ticks, at }) {
  const group = element("g", { class: "axis", "data-key": each.key });
  group.append(element("rect", { x: x - 14, y: PAD.t - 6, width: 28, height: HEIGHT - PAD.t - PAD.b + 12 }));
  group.append(element("line", { x1: x, x2: x, y1: PAD.t, y2: HEIGHT - PAD.b }));
  const short = each.label.length > 22 ? `…${each.label.slice(-21)}` : each.label;
  const name = element("text", { x, y: 12, "text-anchor": "middle" }, short);
  name.append(element("title", {}, each.label));
  group.append(name);
  for (const tick of ticks) group.append(element("text", { x: x + 5, y: at(tick) + 3, class: "tick" }, text(tick)));
  const range = kept.get(each.key);
  if (range) group.append(element("rect", { class: "kept", x: x - 6, y: range[0], width: 12, height: Math.max(2, range[1] - range[0]) }));
  return group;
}

function sayKept() {
  const count = runs.filter((_, i) => isKept(i)).length;
  document.getElementById("parallel-clear").hidden = !kept.size;
  document.getElementById("parallel-words").textContent = kept.size ? `${count} of ${runs.length} runs pass there.` : "Drag along an axis to keep the runs that pass there.";
}

function hideRows() {
  for (const row of document.querySelectorAll("#settings-table [data-run]")) {
    const i = runs.findIndex((run) => run.id === row.dataset.run);
    row.hidden = !isKept(i);
  }
}

function dragged(event) {
  const axis = event.target.closest("g.axis");
  if (!axis) return;
  event.preventDefault();
  const top = parallel.querySelector("svg").getBoundingClientRect().top;
  const clamp = (y) => Math.min(HEIGHT - PAD.b + 6, Math.max(PAD.t - 6, y - top));
  const start = clamp(event.clientY);
  const { key } = axis.dataset;
  const move = (next) => {
    const end = clamp(next.clientY);
    kept.set(key, [Math.min(start, end), Math.max(start, end)]);
    drawParallel();
  };
  const over = new AbortController();
  const end = (last) => {
    over.abort();
    if (Math.abs(clamp(last.clientY) - start) < 4) kept.delete(key); // a click alone frees the axis
    drawAll();
  };
  window.addEventListener("pointermove", move, { signal: over.signal });
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, end, { signal: over.signal });
}

function drawAll() {
  drawParallel();
  hideRows(); // not while an axis is dragged: a shorter page may scroll under the pointer
  drawScatter();
}

chooser();
if (form) {
  form.addEventListener("change", ({ target }) => {
    if (target.selectedOptions[0].closest("[data-asks]")) { form.requestSubmit(); return; } // its values are not here yet
    keepInUrl({ sx: form.elements.sx.value, sy: form.elements.sy.value });
    const shown = axes().map((each) => each.key);
    for (const key of [...kept.keys()]) if (!shown.includes(key)) kept.delete(key); // nobody could see why runs are away
    drawAll();
  });
  parallel?.addEventListener("pointerdown", dragged);
  // A finger on an axis drags it, elsewhere the page. Of shapes in a drawing `touch-action` does not say so.
  parallel?.addEventListener("touchstart", (event) => { if (event.target.closest("g.axis")) event.preventDefault(); }, { passive: false });
  document.getElementById("parallel-clear")?.addEventListener("click", () => { kept.clear(); drawAll(); });
  document.addEventListener("theme-changed", drawAll);
  window.addEventListener("resize", drawParallel);
  setTimeout(drawScatter); // once the page is there, each for itself
  setTimeout(drawParallel);
}
