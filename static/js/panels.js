// Any metrics as small multiples with one legend and one cursor: on Compare, and in the diagnostics of a run. The server thins
// the lines; nothing is computed here but where to draw, and smoothing, which says so. All of the layout is in the URL, on a page
// with other questions under names with a prefix.
import { keepInUrl } from "./address.js";
import { amount, amountIn, grouped, withUnit } from "./format.js";
import { PAD, bandOf, between, element, ends, limitOf, pathOf, sightOf, smoothed } from "./panel_shapes.js";

const HEIGHT = { 1: 300, 2: 200, 3: 150 };
const FAINT_UP_TO = 12; // of so many lines the unsmoothed ones stay in sight
const LEAST_DRAG = 6; // pixels: less is a click
const SETTLED_MS = 150;
const SLICE_MS = 10; // of drawing before the browser gets a turn

let root = null;
let box = null;
let fields = null; // of the form
let hidden = null; // labels of groups
let payload = null;
let drawn = []; // of each panel: its node, cursor, brush, lines and scales
let pointed = null; // where the pointer is, if over a panel: it stays there when lines are drawn again
let brushed = null; // panel and place of the axis where the pointer went down
let rounds = 0; // of drawing so far: an older one is given up
let asked = 0; // questions so far: only the newest is answered

function keep() {
  const { m, x, cols, smooth, lo, hi } = fields;
  const state = {
    m: m.value.trim(), x: x.value === "step" ? null : x.value, cols: cols.value === "3" ? null : cols.value, hide: [...hidden],
    smooth: Number(smooth.value) ? smooth.value : null, lo: lo.value, hi: hi.value,
  };
  keepInUrl(Object.fromEntries(Object.entries(state).map(([name, value]) => [root.dataset.prefix + name, value])));
}

/** Its colour, and beyond six recipes dashes: no two of eighteen look alike. */
const classOf = (group) => `s${(group % 6) + 1} dash${Math.floor(group / 6) % 3}`;

const shownLines = (panel) => panel.lines.filter((line) => !hidden.has(payload.groups[payload.series[line.series].group].label));

/** One horizontal axis for all panels, so that the cursor is at the same place in each. */
function sharedRange() {
  return ends(payload.panels.flatMap((panel) => panel.lines.flatMap((line) => [line.x[0], line.x.at(-1)].filter((x) => x !== undefined)))) ?? [0, 1];
}

/** The part of it that is asked for; all of it where that is none. */
function chosenRange(all) {
  const [lo, hi] = [fields.lo, fields.hi].map((field, i) => (field.value === "" ? all[i] : Number(field.value)));
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

/** Draws every panel, those in view first, with turns for the browser between them. */
async function draw() {
  if (!payload || !root.isConnected) return;
  const round = rounds += 1;
  const weight = Number(fields.smooth.value);
  document.getElementById("smooth-words").textContent = weight ? `${weight}: each drawn point is averaged with those before it` : "off";
  const range = chosenRange(sharedRange());
  document.getElementById("whole-axis").hidden = !fields.lo.value && !fields.hi.value;
  foldedForm();
  box.className = `panels cols-${fields.cols.value}`;
  const cards = new Map([...box.children].map((card) => [card.dataset.metric, card]));
  const wanted = payload.panels.map((panel) => cards.get(panel.metric) ?? frameOf(panel));
  if (wanted.some((card, i) => box.children[i] !== card) || wanted.length !== box.children.length) box.replaceChildren(...wanted);
  const height = HEIGHT[fields.cols.value];
  drawn = wanted.map((card) => ({ svg: card.querySelector("svg"), card, lines: [] }));
  for (const [i, card] of wanted.entries()) sayBeside(payload.panels[i], card, height); // all cards have their size before the first is drawn
  const widths = drawn.map(({ svg, card }) => Math.max(120, svg.clientWidth || card.clientWidth - 24));
  let since = -Infinity; // not in the turn in which the answer was read
  for (const i of inViewFirst(wanted)) {
    if (performance.now() - since > SLICE_MS) {
      await new Promise((next) => setTimeout(next));
      if (round !== rounds || !root?.isConnected) return; // the tab may have gone meanwhile
      since = performance.now();
    }
    drawn[i] = drawPanel(payload.panels[i], wanted[i], range, [widths[i], height], weight);
  }
  if (pointed) follow(pointed);
  table();
}

function sayBeside(panel, card, height) {
  card.querySelector(".latest").innerHTML = panel.said_html ?? "";
  const note = card.querySelector("p");
  note.textContent = panel.note;
  note.hidden = !panel.note;
  card.querySelector("svg").setAttribute("height", height);
}

function inViewFirst(cards) {
  const far = cards.map((card) => { const { top, bottom } = card.getBoundingClientRect(); return bottom < 0 || top > innerHeight; });
  return [...cards.keys()].sort((a, b) => far[a] - far[b]);
}

/** What stays while its lines are drawn again: who has come to it by the keyboard is not sent away. */
function frameOf(panel) {
  const card = element("section", { class: "card panel", "data-metric": panel.metric, tabindex: -1, ...(panel.id && { id: panel.id }) });
  const head = element("div", { class: "row" });
  const title = element("h2", { class: panel.title ? "grow" : "grow mono" });
  title.append(element("button", { type: "button", class: "plain", title: "This metric alone", "data-pattern": panel.metric }, panel.title ?? panel.metric));
  head.append(title, element("span", { class: "small muted readout" }), element("span", { class: "latest" }));
  card.append(head, element("svg", { role: "img" }), element("p", { class: "small faint", hidden: "" }));
  return card;
}

/** A value as its panel says it: shares of a run's diagnostics in percent, as their newest value above the line. */
const valueOf = (panel, value) => (panel?.in_percent ? `${Number((100 * value).toPrecision(3))} %` : amount(value));

function drawPanel(panel, card, range, [width, height], weight) {
  const svg = card.querySelector("svg");
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const even = (values) => (weight && values ? smoothed(values, weight) : values);
  const lines = shownLines(panel)
    .map((line) => within({ ...line, drawn: even(line.y), lo: even(line.lo), hi: even(line.hi) }, range))
    .filter((line) => line.x.length);
  const faint = weight > 0 && lines.length <= FAINT_UP_TO;
  const seen = ends(lines.flatMap((line) => [...line.drawn, ...(faint ? line.y : []), ...(line.lo ?? []), ...(line.hi ?? [])]));
  const heights = seen && ends([...seen, ...(panel.limits ?? []).flatMap((limit) => sightOf(limit, seen))]);
  svg.setAttribute("aria-label", seen ? `${panel.label ?? panel.metric} over ${payload.x.label.toLowerCase()}: ${lines.length} line${lines.length === 1 ? "" : "s"} between ${valueOf(panel, seen[0])} and ${valueOf(panel, seen[1])}` : `${panel.metric}: nothing to draw`);
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
  for (const limit of panel.limits ?? []) svg.append(limitOf(limit, place, width, [lo, hi]));
  const dots = payload.x.is_metric && payload.by === "run";
  for (const line of lines) {
    const { group } = payload.series[line.series];
    const of = { class: classOf(group), "data-group": group };
    if (line.lo) svg.append(element("path", { ...of, class: `${of.class} range`, d: bandOf(line, place) }));
    if (faint) svg.append(element("path", { ...of, class: `${of.class} raw${dots ? " dots" : ""}`, d: pathOf(line.x, line.y, place, dots) }));
    line.node = element("path", { ...of, class: `${of.class}${dots && !weight ? " dots" : ""}`, d: pathOf(line.x, line.drawn, place, dots && !weight) });
    svg.append(line.node);
  }
  const marks = (panel.marks ?? []).filter(([x]) => x >= range[0] && x <= range[1]);
  if (marks.length) svg.append(element("path", { class: "alarming", d: pathOf(marks.map(([x]) => x), marks.map(([, y]) => y), place, true) }));
  for (const [x, y, anchor, text] of [
    ...(flat ? [[PAD.l - 6, place.y(heights[0]) + 4, "end", valueOf(panel, heights[0])]] : [
      [PAD.l - 6, PAD.t + 8, "end", valueOf(panel, heights[1])], [PAD.l - 6, height - PAD.b, "end", valueOf(panel, heights[0])],
    ]),
    [PAD.l, height - 3, "start", amountIn(range[0], payload.x.short)], [width - 2, height - 3, "end", withUnit(range[1], payload.x.short)],
  ]) svg.append(element("text", { x, y, "text-anchor": anchor }, text));
  const cursor = element("line", { class: "cursor", y1: PAD.t, y2: height - PAD.b, visibility: "hidden" });
  const brush = element("rect", { class: "brush", y: PAD.t, height: height - PAD.t - PAD.b, visibility: "hidden" });
  svg.append(brush, cursor);
  return { svg, card, lines, place, cursor, brush, panel };
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
    zoom([at, placeOf(here, event)].sort((a, b) => a - b).map((one) => String(Number(one.toPrecision(6)))));
  }
}

/** A part of the axis is read anew, where the lines were thinned. */
function zoom([lo, hi]) {
  fields.lo.value = lo;
  fields.hi.value = hi;
  keep();
  if (payload.isAll && payload.panels.every((panel) => panel.whole)) draw();
  else load();
}

function follow(event) {
  const here = panelOf(event);
  if (!here?.place) { leave(); return; }
  pointed = { target: here.svg, clientX: event.clientX, clientY: event.clientY };
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
function point({ place, cursor, card, lines, panel }, at, series) {
  if (!place) return;
  const x = place.x(at);
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  cursor.setAttribute("visibility", "visible");
  const line = lines.find((one) => one.series === series);
  const value = line ? valueAt(line, at) : null;
  card.querySelector(".readout").textContent = value === null ? "" : `${payload.series[series].label}: ${valueOf(panel, value)}`;
  for (const one of lines) one.node.classList.toggle("lit", one === line);
}

function leave() {
  pointed = null;
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
  const value = (panel, line) => { const last = line?.drawn.findLast((one) => one !== null) ?? null; return last === null ? "–" : valueOf(panel, last); };
  const head = element("thead");
  const body = element("tbody");
  head.append(row("th", ["Line", ...payload.panels.map((panel) => panel.metric)]));
  for (const [place, { label, group }] of payload.series.entries()) {
    if (hidden.has(payload.groups[group].label)) continue;
    body.append(row("td", [label, ...drawn.map(({ panel, lines }) => value(panel, lines.find((one) => one.series === place)))]));
  }
  const node = element("table", { class: "rows" });
  node.append(head, body);
  details.querySelector(".scroll").replaceChildren(node);
}

function legend() {
  const node = document.getElementById("panels-legend");
  node.hidden = payload.series.length < 2;
  node.replaceChildren(...payload.groups.map(({ label, runs }, place) => {
    const button = element("button", { type: "button", class: `plain ${classOf(place)}`, "aria-pressed": String(!hidden.has(label)), "data-group": place });
    button.append(element("span", { class: "swatch" }), element("span", {}, runs > 1 ? `${label}, ${runs} runs` : label));
    return button;
  }));
}

function followLegend() {
  const node = document.getElementById("panels-legend");
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

/** Every metric, as an axis and as a panel of its own. */
function offer({ names, reported, x }) {
  if (root.dataset.offered === names.join(" ") && fields.x.value === x.key) return; // nothing under the hand of who chooses
  root.dataset.offered = names.join(" ");
  const known = names.includes(x.key) || !x.is_metric ? names : [x.key, ...names];
  document.getElementById("panels-names").replaceChildren(...known.map((name) => element("option", { value: name }, name)));
  fields.x.value = x.key;
  const details = root.querySelector(".names");
  details.hidden = !names.length;
  details.querySelector("summary").textContent = reported;
  details.querySelector("p").replaceChildren(...names.flatMap((name) => [element("button", { type: "button", class: "plain link mono", "data-pattern": name }, name), " "]));
}

/** What the form says, where it is folded. */
function foldedForm() {
  const { panels, x } = payload;
  const part = [["from", fields.lo.value], ["to", fields.hi.value]].filter(([, end]) => end).map((words) => ` ${words.join(" ")}`);
  root.querySelector(".fold > summary").textContent = `${panels.length} panel${panels.length === 1 ? "" : "s"} over ${x.is_metric ? x.label : x.label.toLowerCase()}${part.join("")}`;
}

function summary() {
  const { panels, matching, unmatched, runs, problem } = payload;
  const words = [problem, panels.length ? `${panels.length === matching ? "" : `The first ${panels.length} of `}${grouped(matching)} metric${matching === 1 ? "" : "s"} of ${runs} run${runs === 1 ? "" : "s"}.` : "These runs report no such metric."];
  if (matching > panels.length) words.push("Narrow the patterns to see the others.");
  if (unmatched.length && panels.length) words.push(`Nothing is named like ${unmatched.slice(0, 5).join(", ")}.`);
  return words.join(" ").trim();
}

async function load() {
  const question = asked += 1;
  const isAll = fields.lo.value === "" && fields.hi.value === "";
  const answer = await fetch(`${root.dataset.url}${location.search}`, { headers: { Accept: "application/json" } }).catch(() => null);
  const found = answer?.ok ? await answer.json().catch(() => null) : null;
  if (question !== asked || brushed || !root?.isConnected) return; // the tab may have gone meanwhile
  const said = document.getElementById("panels-words");
  if (!found) {
    said.textContent = answer?.status === 429 ? "Too many questions at once; load the page again in a moment." : "The metrics could not be read; load the page again.";
    return;
  }
  const isFirst = payload === null;
  payload = { ...found, isAll };
  if (said.textContent !== summary()) said.textContent = summary(); // which is read out
  for (const id of ["panels-foot", "panels-table"]) document.getElementById(id).hidden = !payload.panels.length;
  offer(payload);
  legend();
  draw();
  if (isFirst && location.hash.startsWith("#metric-")) document.getElementById(location.hash.slice(1))?.focus(); // an alarm leads there
}

function followForm() {
  const ask = () => { keep(); load(); };
  const { form } = fields.m;
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  for (const field of [fields.lo, fields.hi]) field.addEventListener("change", () => zoom([fields.lo.value, fields.hi.value]));
  fields.x.addEventListener("change", () => { for (const field of [fields.lo, fields.hi]) field.value = ""; ask(); });
  fields.cols.addEventListener("change", () => { keep(); draw(); });
  fields.smooth.addEventListener("input", draw);
  fields.smooth.addEventListener("change", keep);
  document.getElementById("whole-axis").addEventListener("click", () => zoom(["", ""]));
  root.addEventListener("click", (event) => {
    const { pattern } = event.target.closest("[data-pattern]")?.dataset ?? {};
    if (pattern === undefined) return;
    fields.m.value = fields.m.value === pattern ? "" : pattern; // a second time: back to the usual ones
    ask();
  });
}

/** Draw the panels that the page has now, and follow what is done to them. */
export function showPanels() {
  const here = document.getElementById("panels-root");
  if (here !== root) start(here);
}

/** Ask for them again; whether there are any. */
export function readAnew() {
  if (root && !brushed) load();
  return root !== null;
}

function start(here) {
  [root, payload, drawn, pointed, brushed] = [here, null, [], null, null];
  rounds += 1;
  if (!root) return;
  box = document.getElementById("panels");
  fields = root.querySelector("form").elements;
  root.querySelector(".fold").open = matchMedia("(min-width: 721px)").matches; // always in sight there
  hidden = new Set(new URLSearchParams(location.search).getAll(`${root.dataset.prefix}hide`));
  followForm();
  followLegend();
  box.addEventListener("pointermove", follow);
  box.addEventListener("pointerleave", leave);
  box.addEventListener("pointerdown", press);
  for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, release);
  box.addEventListener("dblclick", () => zoom(["", ""]));
  document.getElementById("panels-table").addEventListener("toggle", table);
  load();
}

let settled = null;
addEventListener("resize", () => { clearTimeout(settled); settled = setTimeout(() => { if (root?.isConnected) draw(); }, SETTLED_MS); });
