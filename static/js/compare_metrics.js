// Any metrics of the chosen runs as small multiples with one legend and one cursor. The server thins the lines; nothing is
// computed here but where to draw, and smoothing, which says so. Patterns, axis, columns and what is hidden are in the URL.
import { keepInUrl } from "./address.js";
import { chooser } from "./chooser.js";
import { amount, withUnit } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = { 1: 300, 2: 200, 3: 150 };
const PAD = { l: 52, r: 6, t: 8, b: 16 };
const FAINT_UP_TO = 12; // of so many lines the unsmoothed ones stay in sight
const LEAST_DRAG = 6; // pixels: less is a click

const box = document.getElementById("panels");
const said = document.getElementById("panels-words");
const slider = document.getElementById("smooth");
const edges = ["lo", "hi"].map((name) => document.getElementById(`axis-${name}`)); // fields: the part of the axis that is drawn
const query = new URLSearchParams(location.search);
const hidden = new Set(query.getAll("hide"));
let payload = null;
let drawn = []; // of each panel: its node, cursor, brush, lines and scales
let brushed = null; // panel and place of the axis where the pointer went down

function element(name, attributes = {}, text = "") {
  const node = name === "svg" || name in { path: 1, text: 1, line: 1, rect: 1 } ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

const keep = () => keepInUrl({ hide: [...hidden], smooth: Number(slider.value) ? slider.value : null, lo: edges[0].value, hi: edges[1].value });

/** An exponential mean of what came before, without the pull of its start; breaks stay. */
function smoothed(values, weight) {
  let mean = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    return mean / mass;
  });
}

function pathOf(xs, ys, place) {
  let path = "";
  let pen = "M";
  for (const [i, x] of xs.entries()) {
    if (ys[i] === null) { pen = "M"; continue; }
    path += `${pen}${place.x(x).toFixed(1)},${place.y(ys[i]).toFixed(1)}`;
    pen = "L";
  }
  return /L/.test(path) ? path : `${path}h.1`; // a point alone is a dot
}

function bandOf({ x, lo, hi }, place) {
  const there = x.map((at, i) => `${place.x(at).toFixed(1)},${place.y(hi[i]).toFixed(1)}`);
  const back = x.map((at, i) => `${place.x(at).toFixed(1)},${place.y(lo[i]).toFixed(1)}`).reverse();
  return there.length > 1 ? `M${[...there, ...back].join("L")}Z` : "";
}

function ends(values) {
  let [lo, hi] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null) continue;
    if (value < lo) lo = value;
    if (value > hi) hi = value;
  }
  return lo <= hi ? [lo, hi] : null;
}

/** A number that has room beside a panel. */
const label = (value) => (value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : amount(value));

const shownLines = (panel) => panel.lines.filter((line) => !hidden.has(payload.groups[payload.series[line.series].group].label));

/** One horizontal axis for all panels, so that the cursor is at the same place in each. */
function sharedRange() {
  return ends(payload.panels.flatMap((panel) => panel.lines.flatMap((line) => [line.x[0], line.x.at(-1)].filter((x) => x !== undefined)))) ?? [0, 1];
}

/** The part of it that is asked for; all of it where that is none. */
function chosenRange(all) {
  const [lo, hi] = edges.map((field, i) => (field.value === "" ? all[i] : Number(field.value)));
  return lo < hi ? [lo, hi] : all;
}

/** A line within a part of the axis, up to its ends. */
function within(line, [lo, hi]) {
  const { x } = line;
  if (lo <= x[0] && hi >= x.at(-1)) return line;
  const at = [lo, ...x.filter((one) => one > lo && one < hi), hi].filter((one) => one >= x[0] && one <= x.at(-1));
  const of = (ys) => ys && at.map((one) => between(x, ys, one));
  return { ...line, x: at, y: of(line.y), drawn: of(line.drawn), lo: of(line.lo), hi: of(line.hi) };
}

function draw() {
  const weight = Number(slider.value);
  document.getElementById("smooth-words").textContent = weight ? `${weight}: each drawn point is averaged with those before it` : "off";
  const all = sharedRange();
  const range = chosenRange(all);
  document.getElementById("whole-axis").hidden = range === all;
  const height = HEIGHT[box.className.match(/cols-(\d)/)[1]];
  box.replaceChildren(...payload.panels.map((panel) => frameOf(panel)));
  drawn = payload.panels.map((panel, i) => drawPanel(panel, box.children[i], range, height, weight));
  table();
}

function frameOf(panel) {
  const card = element("section", { class: "card panel" });
  const head = element("div", { class: "row" });
  head.append(element("h2", { class: "grow mono" }, panel.metric), element("span", { class: "small muted readout" }));
  card.append(head, element("svg", { role: "img" }));
  if (panel.note) card.append(element("p", { class: "small faint" }, panel.note));
  return card;
}

function drawPanel(panel, card, range, height, weight) {
  const svg = card.querySelector("svg");
  const width = Math.max(120, svg.clientWidth || card.clientWidth - 24);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const even = (values) => (weight && values ? smoothed(values, weight) : values);
  const lines = shownLines(panel)
    .map((line) => within({ ...line, drawn: even(line.y), lo: even(line.lo), hi: even(line.hi) }, range))
    .filter((line) => line.x.length);
  const faint = weight > 0 && lines.length <= FAINT_UP_TO;
  const heights = ends(lines.flatMap((line) => [...line.drawn, ...(faint ? line.y : []), ...(line.lo ?? []), ...(line.hi ?? [])]));
  svg.setAttribute("aria-label", heights ? `${panel.metric} over ${payload.x.label.toLowerCase()}: ${lines.length} lines between ${amount(heights[0])} and ${amount(heights[1])}` : `${panel.metric}: nothing to draw`);
  if (!heights) {
    svg.append(element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing to draw"));
    return { svg, lines: [], card };
  }
  const flat = heights[1] - heights[0] <= 1e-9 * Math.max(Math.abs(heights[0]), Math.abs(heights[1]));
  const [lo, hi] = flat ? [heights[0] - 1, heights[0] + 1] : heights;
  const place = {
    x: (value) => PAD.l + ((value - range[0]) / (range[1] - range[0] || 1)) * (width - PAD.l - PAD.r),
    y: (value) => height - PAD.b - ((value - lo) / (hi - lo)) * (height - PAD.t - PAD.b),
    at: (pixel) => range[0] + ((pixel - PAD.l) / (width - PAD.l - PAD.r)) * (range[1] - range[0]),
  };
  for (const line of lines) {
    const { group } = payload.series[line.series];
    const of = { class: `s${(group % 6) + 1}`, "data-group": group };
    if (line.lo) svg.append(element("path", { ...of, class: `${of.class} range`, d: bandOf(line, place) }));
    if (faint) svg.append(element("path", { ...of, class: `${of.class} raw`, d: pathOf(line.x, line.y, place) }));
    line.node = element("path", { ...of, d: pathOf(line.x, line.drawn, place) });
    svg.append(line.node);
  }
  for (const [x, y, anchor, text] of [
    ...(flat ? [[PAD.l - 6, place.y(heights[0]) + 4, "end", label(heights[0])]] : [
      [PAD.l - 6, PAD.t + 8, "end", label(heights[1])], [PAD.l - 6, height - PAD.b, "end", label(heights[0])],
    ]),
    [PAD.l, height - 3, "start", amount(range[0])], [width - 2, height - 3, "end", withUnit(range[1], payload.x.short)],
  ]) svg.append(element("text", { x, y, "text-anchor": anchor }, text));
  const cursor = element("line", { class: "cursor", y1: PAD.t, y2: height - PAD.b, visibility: "hidden" });
  const brush = element("rect", { class: "brush", y: PAD.t, height: height - PAD.t - PAD.b, visibility: "hidden" });
  svg.append(brush, cursor);
  return { svg, card, lines, place, cursor, brush };
}

/** A value between those of a line at a place of the axis; null beyond its ends and in a break. */
function between(x, y, at) {
  if (!x.length || at < x[0] || at > x.at(-1)) return null;
  let [a, b] = [0, x.length - 1];
  while (b - a > 1) {
    const middle = (a + b) >> 1;
    if (x[middle] <= at) a = middle;
    else b = middle;
  }
  if (x[a] === at || x[b] === at) return x[b] === at ? y[b] : y[a];
  if (y[a] === null || y[b] === null) return null;
  return y[a] + ((y[b] - y[a]) * (at - x[a])) / (x[b] - x[a]);
}

const valueAt = (line, at) => between(line.x, line.drawn, at);

const panelOf = (event) => drawn.find(({ svg }) => svg === event.target.closest?.("svg"));

function placeOf(here, event) {
  const frame = here.svg.getBoundingClientRect();
  return here.place.at(((event.clientX - frame.left) * here.svg.viewBox.baseVal.width) / frame.width);
}

function press(event) {
  const here = panelOf(event);
  if (!here?.place || event.button !== 0) return;
  brushed = { here, at: placeOf(here, event), x: event.clientX };
  here.svg.setPointerCapture(event.pointerId);
}

function release(event) {
  if (!brushed) return;
  const { here, at, x } = brushed;
  brushed = null;
  for (const { brush } of drawn) brush?.setAttribute("visibility", "hidden");
  if (event.type === "pointerup" && Math.abs(event.clientX - x) >= LEAST_DRAG) {
    zoom([at, placeOf(here, event)].sort((a, b) => a - b).map((one) => String(Number(one.toPrecision(4)))));
  }
}

function zoom(values) {
  for (const [i, field] of edges.entries()) field.value = values[i];
  keep();
  draw();
}

function follow(event) {
  const here = panelOf(event);
  if (!here?.place) { leave(); return; }
  const at = placeOf(here, event);
  if (brushed) for (const { brush, place } of drawn) {
    if (!brush) continue;
    const [a, b] = [place.x(brushed.at), place.x(at)].sort((one, other) => one - other);
    brush.setAttribute("x", a);
    brush.setAttribute("width", b - a);
    brush.setAttribute("visibility", "visible");
  }
  const { top } = here.svg.getBoundingClientRect();
  let nearest = null;
  let least = Infinity;
  for (const line of here.lines) {
    const value = valueAt(line, at);
    const far = value === null ? Infinity : Math.abs(here.place.y(value) - (event.clientY - top));
    if (far < least) [least, nearest] = [far, line];
  }
  for (const panel of drawn) point(panel, at, nearest?.series);
}

/** The cursor, and the value there of the line that is pointed at. */
function point({ place, cursor, card, lines }, at, series) {
  if (!place) return;
  const x = place.x(at);
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  cursor.setAttribute("visibility", "visible");
  const line = lines.find((one) => one.series === series);
  const value = line ? valueAt(line, at) : null;
  card.querySelector(".readout").textContent = value === null ? "" : `${payload.series[series].label}: ${amount(value)}`;
  for (const one of lines) one.node.classList.toggle("lit", one === line);
}

function leave() {
  for (const { cursor, card, lines } of drawn) {
    cursor?.setAttribute("visibility", "hidden");
    card.querySelector(".readout").textContent = "";
    for (const line of lines) line.node.classList.remove("lit");
  }
}

/** The newest value of each line in each panel, once the table is open. */
function table() {
  const details = document.getElementById("panels-table");
  if (!details.open) return;
  const cell = (tag, text, i) => (i && tag === "td" ? element("td", { class: "num" }, text) : element("th", { scope: tag === "td" ? "row" : "col" }, text));
  const row = (tag, texts) => { const tr = element("tr"); tr.append(...texts.map((text, i) => cell(tag, text, i))); return tr; };
  const value = (line) => { const last = line?.drawn.findLast((one) => one !== null) ?? null; return last === null ? "–" : amount(last); };
  const head = element("thead");
  const body = element("tbody");
  head.append(row("th", ["Line", ...payload.panels.map((panel) => panel.metric)]));
  for (const [place, { label, group }] of payload.series.entries()) {
    if (hidden.has(payload.groups[group].label)) continue;
    body.append(row("td", [label, ...drawn.map(({ lines }) => value(lines.find((one) => one.series === place)))]));
  }
  const node = element("table", { class: "rows" });
  node.append(head, body);
  details.querySelector(".scroll").replaceChildren(node);
}

function legend() {
  const node = document.getElementById("legend");
  node.replaceChildren(...payload.groups.map(({ label, runs }, place) => {
    const button = element("button", { type: "button", class: `plain s${(place % 6) + 1}`, "aria-pressed": String(!hidden.has(label)), "data-group": place });
    button.append(element("span", { class: "swatch" }), element("span", {}, runs > 1 ? `${label}, ${runs} runs` : label));
    return button;
  }));
  node.addEventListener("click", (event) => {
    const button = event.target.closest("[data-group]");
    if (!button) return;
    const { label } = payload.groups[button.dataset.group];
    if (!hidden.delete(label)) hidden.add(label);
    button.setAttribute("aria-pressed", String(!hidden.has(label)));
    keep();
    draw();
  });
  const dim = (group) => {
    box.classList.toggle("dimmed", group !== null);
    for (const path of box.querySelectorAll("path[data-group]")) path.classList.toggle("of-group", path.dataset.group === group);
  };
  for (const name of ["pointerover", "focusin"]) node.addEventListener(name, (event) => dim(event.target.closest("[data-group]")?.dataset.group ?? null));
  for (const name of ["pointerleave", "focusout"]) node.addEventListener(name, () => dim(null));
}

function summary() {
  const { panels, matching, unmatched, runs } = payload;
  const words = [panels.length ? `${panels.length === matching ? "" : `The first ${panels.length} of `}${matching} metric${matching === 1 ? "" : "s"} of ${runs} run${runs === 1 ? "" : "s"}.` : "These runs report no such metric."];
  if (matching > panels.length) words.push("Narrow the patterns to see the others.");
  if (unmatched.length && panels.length) words.push(`Nothing is named like ${unmatched.slice(0, 5).join(", ")}.`);
  return words.join(" ");
}

async function start() {
  const answer = await fetch(`${box.dataset.url}${location.search}`, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok) {
    said.textContent = answer?.status === 429 ? "Too many questions at once; load the page again in a moment." : "The metrics could not be read; load the page again.";
    return;
  }
  payload = await answer.json();
  said.textContent = summary();
  for (const id of ["panels-foot", "panels-table"]) document.getElementById(id).hidden = !payload.panels.length;
  legend();
  draw();
  box.addEventListener("pointermove", follow);
  box.addEventListener("pointerleave", leave);
  box.addEventListener("pointerdown", press);
  for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, release);
  for (const [node, name] of [[box, "dblclick"], [document.getElementById("whole-axis"), "click"]]) node.addEventListener(name, () => zoom(["", ""]));
  for (const field of edges) field.addEventListener("change", () => { keep(); draw(); });
  document.getElementById("panels-table").addEventListener("toggle", table);
  slider.addEventListener("input", draw);
  slider.addEventListener("change", keep);
  let settled = null;
  addEventListener("resize", () => { clearTimeout(settled); settled = setTimeout(draw, 150); });
}

chooser();
if (box) start();
