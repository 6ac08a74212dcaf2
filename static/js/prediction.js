// The page of a prediction: draws its chart, keeps it fresh as points and words arrive, and ties comments to points.
import { keepAsking, fetchJson } from "./live.js";
import { whenLive } from "./plot.js";
import { draw } from "./prediction_chart.js";
import "./prediction_mentions.js";
import { drawTabCharts } from "./tab_charts.js";
import { withUnit } from "./format.js";

const chart = document.getElementById("chart");
const talk = document.getElementById("talk");
const address = chart.dataset.address; // a form that was refused is answered at an address of its own
if (location.pathname !== address) history.replaceState(null, "", address);
let payload = JSON.parse(document.getElementById("figure").textContent);
let look = new URLSearchParams(location.search).get("look") === "target" ? "target" : "whole";
let scale = new URLSearchParams(location.search).get("scale") === "linear" ? "linear" : "log";

function show() {
  draw(chart, payload, scale, look);
  document.getElementById("outcome-key").hidden = !payload.outcomes.length;
  for (const button of document.querySelectorAll("button[data-scale], button[data-look]")) {
    button.setAttribute("aria-pressed", String([scale, look].includes(button.dataset.scale ?? button.dataset.look)));
  }
  const after = document.getElementById("after-sentence");
  if (after.textContent !== payload.after_sentence) after.textContent = payload.after_sentence;
  fillPoints();
}

// --- a comment about a point: chosen on the chart, or in the list of points --------------------------------------

const select = () => document.getElementById("anchor");
const WORDS = { excluded: "known, not fitted", fitted: "known", after: "came since" };

function fillPoints() {
  const node = select();
  if (!node || node.options.length === payload.points.x.length + 1) return;
  const chosen = node.value;
  const { x, y, role } = payload.points;
  const options = x.map((at, index) => new Option(`${y[index].toFixed(3)} at ${withUnit(at, payload.x.short)} (${WORDS[role[index]]})`, `${at},${y[index]}`));
  node.replaceChildren(new Option("the prediction as a whole", ""), ...options);
  node.value = chosen || node.dataset.chosen || "";
  if (node.selectedIndex < 0) node.value = "";
}

function pick(index) {
  const node = select();
  if (!node) return;
  node.value = `${payload.points.x[index]},${payload.points.y[index]}`;
  const field = document.getElementById("comment-text");
  field.scrollIntoView({ block: "center" });
  field.focus({ preventScroll: true });
}

show();
whenLive(chart, () => {
  chart.on("plotly_click", ({ points }) => {
    const point = points.find((each) => each.customdata !== undefined);
    if (point) pick(point.customdata);
  });
  chart.on("plotly_clickannotation", ({ annotation }) => {
    const thread = document.getElementById(annotation.name ?? "");
    if (!thread) return;
    thread.scrollIntoView({ block: "center" });
    thread.focus({ preventScroll: true });
  });
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-scale], button[data-look]");
  if (!button) return;
  scale = button.dataset.scale ?? scale;
  look = button.dataset.look ?? look;
  const url = new URL(location);
  for (const [name, value, usual] of [["scale", scale, "log"], ["look", look, "whole"]]) {
    if (value === usual) url.searchParams.delete(name); else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
  show();
});

document.addEventListener("theme-changed", () => { show(); drawTabCharts(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { show(); drawTabCharts(); });

// --- what arrives while the page is open -----------------------------------------------------------------------------

/** Whether somebody writes or stands in the region: it is not swapped away under them. */
function isBusy(region) {
  if (region.contains(document.activeElement) && document.activeElement !== region) return true;
  return [...region.querySelectorAll("textarea")].some((field) => field.value !== field.defaultValue);
}

let kept = {}; // regions that wait until nobody is busy in them

function writeRegions(html) {
  kept = { ...kept, ...html };
  for (const [id, text] of Object.entries(kept)) {
    const region = document.getElementById(id);
    if (!region || isBusy(region)) continue;
    region.innerHTML = text;
    delete kept[id];
    window.htmx.process(region);
  }
  document.dispatchEvent(new CustomEvent("htmx:afterSettle"));
}

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target.id !== "talk" && detail.target.id !== "panel") return;
  drawTabCharts();
  fillPoints();
});

// After a comment the numbers on the chart change: asked for at once, not at the next round.
talk?.addEventListener("htmx:afterSettle", () => { ask().catch(() => {}); });

async function ask() {
  const next = await fetchJson(`${address}/figure?since=${encodeURIComponent(payload.version)}`);
  if (next === null) { if (Object.keys(kept).length) writeRegions({}); return; }
  const wasScored = payload.outcomes.length;
  payload = next.figure;
  show();
  if (payload.outcomes.length !== wasScored) refreshRecord();
  writeRegions(next.html);
}

/** The record counts what was scored just now. */
function refreshRecord() {
  if (document.querySelector("#tabs [aria-current]")?.dataset.tab === "record") window.htmx.ajax("GET", `${address}?tab=record`, { target: "#tabs", swap: "innerHTML" });
}

const panel = document.getElementById("panel");
if (panel && "lazy" in panel.dataset) window.addEventListener("load", () => window.htmx.trigger(panel, "wanted"));
keepAsking({ ask, ended: () => payload.ended });
