// The run page: draws the payload, keeps it fresh, and asks again when the question (axis, view, window) changes.
import { holdFocus } from "./focus.js";
import { colours } from "./format.js";
import { fetchJson, keepAsking } from "./live.js";
import * as plot from "./plot.js";
import { runChart } from "./run_chart.js";
import { followPanel } from "./run_panel.js";
import { gainChart, slopeChart } from "./views.js";
import { fittedWindow } from "./window.js";

const chart = document.getElementById("chart");
const box = document.getElementById("chart-box");
const OVERALL = "eval/pass_rate";

let payload = JSON.parse(document.getElementById("figure").textContent);
const question = { ...payload.asked }; // what the server understood of the address
let scale = new URLSearchParams(location.search).get("scale") === "linear" ? "linear" : "log";
let asking = false;
let askAgain = false;

const handles = fittedWindow({ box, chart, controls: document.getElementById("window-controls"), changed: ask });
const panel = followPanel({ ended: () => payload.ended, applyWindow: ask, askTarget });

function ask(changes) {
  Object.assign(question, changes);
  keepUrl();
  return refit();
}

/** One request at a time; what was asked meanwhile is asked afterwards, with the newest question only. */
async function refit() {
  if (asking) { askAgain = true; return; }
  asking = true;
  try {
    do {
      askAgain = false;
      show(await fetchJson(figureUrl(question)));
    } while (askAgain);
  } catch (error) {
    if (error.final) throw error; // otherwise the poll says so, and brings the answer when it can
    payload.version = null;
  } finally {
    asking = false;
  }
}

/** A target that cannot be read stays in the form, with the reason; the page goes on with the last good one. */
async function askTarget({ target, of }) {
  try {
    const next = await fetchJson(figureUrl({ ...question, target, of }));
    Object.assign(question, { target, of });
    show(next);
  } catch (error) {
    if (error.status !== 400) payload.version = null;
  }
}

function figureUrl(asked, since = null) {
  const { robust, superseded, ...rest } = asked;
  const switches = { robust: robust ? 1 : null, superseded: superseded ? 1 : null };
  const wanted = Object.entries({ ...rest, ...switches, since }).filter(([, value]) => value !== null && value !== "");
  return `${location.pathname}/figure?${new URLSearchParams(wanted)}`;
}

function keepUrl() {
  const url = new URL(location);
  const { x, metric, view, robust, superseded, lo, cutoff } = question;
  const wanted = {
    x: x === "device_hours" ? null : x, metric: metric === OVERALL ? null : metric, view: view === "curve" ? null : view,
    scale: scale === "log" ? null : scale, robust: robust ? 1 : null,
    superseded: superseded ? 1 : null, lo, cutoff,
  };
  for (const [name, value] of Object.entries(wanted)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
}

function show(next) {
  payload = next;
  draw();
  showWords();
  panel.answered([payload.fit?.digest ?? payload.points.x.length, question]);
}

function draw() {
  const nothing = Boolean(payload.empty);
  const why = nothing ? "" : payload.view.why;
  document.getElementById("chart-empty").hidden = !nothing;
  document.getElementById("view-empty").hidden = !why;
  document.getElementById("unknown").hidden = nothing || !payload.unknown;
  document.querySelector(".chart-foot").hidden = nothing || Boolean(why);
  chart.hidden = nothing || Boolean(why);
  if (!chart.hidden) drawChart();
  handles.show(payload, { lo: question.lo, cutoff: question.cutoff });
}

const NARROW = 480; // pixels below which the chart says less
let isNarrow = false;
const CHARTS = { curve: runChart, slope: slopeChart, gain: gainChart };

function drawChart() {
  const view = payload.view.key;
  isNarrow = chart.clientWidth < NARROW;
  const { traces, layout } = CHARTS[view](payload, colours(), scale, isNarrow);
  layout.uirevision = `${view} ${payload.x.key} ${scale}`; // a zoom survives what arrives, not another question
  const seen = view === "curve" ? "" : `${payload.view_labels[view]}: `;
  chart.setAttribute("aria-label", `${seen}${payload.metric_label} against ${payload.x.label.toLowerCase()}`);
  plot.draw(chart, traces, layout);
}

const at = (path) => path.split(".").reduce((value, name) => value?.[name], payload);

function showWords() {
  for (const node of document.querySelectorAll("[data-text]")) write(node, String(at(node.dataset.text) ?? ""));
  for (const node of document.querySelectorAll("[data-html]")) writeHtml(node, at(node.dataset.html) ?? "");
  for (const node of document.querySelectorAll("[data-show^=actions]")) node.hidden = !at(node.dataset.show);
  for (const node of document.querySelectorAll("[data-views]")) node.hidden = !node.dataset.views.split(" ").includes(payload.view.key);
  const state = document.getElementById("state");
  state.dataset.state = payload.state;
  write(state, `${payload.state_label.toLowerCase()}, attempt ${payload.attempt}`);
  document.getElementById("reason").hidden = !payload.state_reason;
  document.getElementById("refused").hidden = !payload.refused;
  document.getElementById("reason").className = `note ${{ failed: "bad", lost: "warn" }[payload.state] ?? ""}`;
  document.getElementById("alarm").hidden = !payload.alarm;
  document.getElementById("alarm").className = `pill ${payload.alarm_level}`;
  document.getElementById("ceiling").classList.toggle("words", !payload.forecast_ceiling.identified);
  document.getElementById("copy-summary").dataset.copy = payload.summary;
  const progress = document.getElementById("progress");
  progress.hidden = payload.progress.share === null;
  progress.querySelector("rect").setAttribute("width", 100 * (payload.progress.share ?? 0));
  document.getElementById("after").hidden = !payload.after;
  document.getElementById("hindsight").hidden = !payload.hindsight || Boolean(payload.after);
  const freeze = document.getElementById("freeze"); // a prediction rests on a fit
  if (freeze) freeze.hidden = !payload.fit;
  document.getElementById("view-sentence").hidden = !payload.view.sentence;
  showLeftOut();
  showControls();
  showParameters();
  showCurves();
}

function showLeftOut() {
  const { left_out: out } = payload;
  document.getElementById("left-out").hidden = !out;
  document.getElementById("outlier-key").hidden = !payload.points.role.includes("outlier") || payload.view.key === "gain";
  document.getElementById("waiting-key").hidden = !payload.waiting;
  document.getElementById("superseded-key").hidden = !payload.superseded?.x.length || payload.view.key !== "curve";
  document.getElementById("legend").classList.toggle("unfitted", !payload.forecast?.drawn);
  if (out) write(document.getElementById("robust"), out.robust ? "Use every evaluation" : "Fit without");
}

function showControls() {
  pressed("view", payload.view.key);
  pressed("x", payload.x.key);
  const superseded = document.getElementById("superseded");
  superseded.hidden = !payload.attempts_overlap || payload.view.key !== "curve";
  superseded.setAttribute("aria-pressed", String(payload.superseded !== null));
  const isSlope = payload.view.key === "slope"; // log F is a line against log C only
  pressed("scale", isSlope ? "log" : scale);
  for (const button of document.querySelectorAll("[data-scale=linear]")) button.disabled = isSlope;
}

/** A run on a mixture of tasks has a curve for each part; parts may appear with the first evaluation. */
function showCurves() {
  const select = document.getElementById("curve");
  const known = [...select.options].map((option) => option.value).join("\n");
  if (known !== payload.curves.map((curve) => curve.metric).join("\n")) {
    select.replaceChildren(...payload.curves.map((curve) => new Option(curve.label, curve.metric)));
  }
  select.value = payload.metric;
  document.getElementById("curve-choice").hidden = payload.curves.length < 2;
}

/** Only what changed is written: a live region reads out what is written. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The same for markup of the server; what the reader has opened stays open. */
const written = new WeakMap();
function writeHtml(node, html) {
  if (written.get(node) === html) return;
  written.set(node, html);
  const open = [...node.querySelectorAll("details")].map((details) => details.open);
  const restore = holdFocus();
  node.innerHTML = html;
  restore();
  for (const [index, details] of node.querySelectorAll("details").entries()) details.open = open[index] ?? false;
}

function showParameters() {
  const rows = (payload.fit?.rows ?? []).map((row) => {
    const tr = document.createElement("tr");
    const [name, value, interval] = ["td", "td", "td"].map((tag) => tr.appendChild(document.createElement(tag)));
    name.innerHTML = row.html_name; // one of four constants of the server
    name.title = row.meaning;
    value.textContent = row.value_text;
    interval.textContent = row.interval_text;
    value.className = "num";
    interval.className = "num muted small";
    return tr;
  });
  document.getElementById("parameters").replaceChildren(...rows);
}

function pressed(attribute, value) {
  for (const button of document.querySelectorAll(`button[data-${attribute}]`)) {
    button.setAttribute("aria-pressed", String(button.dataset[attribute] === value));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-x], button[data-view], button[data-scale], #show-hindsight, #robust, #superseded");
  if (!button) return;
  if (button.dataset.x) {
    ask({ x: button.dataset.x, lo: null, cutoff: null }); // a window in hours says nothing about tokens
  } else if (button.dataset.view) {
    ask({ view: button.dataset.view });
  } else if (button.dataset.scale) {
    scale = button.dataset.scale;
    keepUrl();
    draw();
    showControls();
  } else if (button.id === "superseded") {
    ask({ superseded: payload.superseded === null });
  } else if (button.id === "robust") {
    ask({ robust: !payload.left_out.robust });
  } else {
    ask({ lo: null, cutoff: payload.hindsight.cutoff });
  }
});

chart.addEventListener("chart-drawn", handles.place);
document.getElementById("curve").addEventListener("change", (event) => ask({ metric: event.target.value }));
document.addEventListener("theme-changed", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("resize", () => { if (!chart.hidden && chart.clientWidth < NARROW !== isNarrow) draw(); });
show(payload);

keepAsking({
  ended: () => payload.ended,
  ask: async () => {
    if (asking) return;
    const url = figureUrl(question, payload.version); // no version: the fit of these points is awaited
    const next = await fetchJson(url);
    if (next === null || asking || url !== figureUrl(question, payload.version)) return; // another question was answered meanwhile
    if (!payload.waiting || !next.waiting) panel.isOld();
    show(next);
  },
});
