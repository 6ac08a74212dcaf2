// Comparison: curves overlaid, told apart by colour and by shape. What is chosen is a form whose state is the URL; what
// is hidden, the scale and the budget are kept there, too. Every number comes from the server's payload.
import { keepInUrl } from "./address.js";
import { budgetSlider } from "./budget.js";
import { band, baseLayout, line, symbolOf } from "./chart.js";
import { chooser } from "./chooser.js";
import { colours, escaped, faded, withUnit } from "./format.js";
import * as plot from "./plot.js";

const chart = document.getElementById("chart");
const data = document.getElementById("comparison");
const payload = data ? JSON.parse(data.textContent) : null;
const query = new URLSearchParams(location.search);
const hidden = new Set((query.get("hide") ?? "").split(",").filter(Boolean));
let scale = query.get("scale") === "linear" && payload?.view !== "slope" ? "linear" : "log";
let odds = readJson("odds-data");
let marks = [];
let budget = odds?.budget ?? null;

function readJson(id) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
}

/** The place of a series among all that are chosen: its colour and shape, which hiding others does not change. */
const places = new Map(Object.entries(payload?.places ?? {}));

function look(series) {
  const index = places.get(series.id) ?? 0;
  return { ink: `c${(index % 6) + 1}`, symbol: symbolOf(index) };
}

function seriesTraces(series, colour) {
  const { ink: name, symbol } = look(series);
  const ink = colour[name];
  const { fit, points } = series;
  const traces = [];
  if (fit?.lo) traces.push(...band(fit.x, fit.lo, fit.hi, faded(ink, series.kind === "recipe" ? 0.17 : 0.12), {}, series.label));
  if (fit) traces.push(...fitLines(series, ink));
  if (points) traces.push(pointTrace(series, ink, symbol));
  const speaks = traces.at(-1); // for the series, in the key of a saved picture
  return traces.map((trace) => ({ ...trace, meta: series.id, legendgroup: series.label, showlegend: trace === speaks }));
}

/** Solid as far as points were fitted, dashed beyond. A published curve has no points here: dotted. A single run beside
 * recipes: thin and dash-dotted. */
function fitLines(series, ink) {
  const { fit } = series;
  const width = payload.many ? 1.2 : series.kind === "recipe" ? 2.6 : 2;
  const part = (from, to, dash, what) => {
    const trace = line(fit.x.slice(from, to), fit.y.slice(from, to), ink, dash);
    return { ...trace, name: `${series.label}, ${what}`, line: { ...trace.line, width } };
  };
  if (series.kind === "published" || fit.solid_until === null) return [part(0, fit.x.length, "2px,3px", "curve")];
  const beyond = fit.x.findIndex((x) => x > fit.solid_until);
  const split = beyond < 0 ? fit.x.length : beyond;
  const alone = payload.mixed && series.kind === "run";
  const solid = alone ? "dashdot" : "solid";
  const traces = [part(0, split, solid, "fit"), part(Math.max(0, split - 1), fit.x.length, "6px,5px", "predicted")];
  if (alone) for (const trace of traces) trace.line.width = 1.2;
  return traces;
}

function pointTrace(series, ink, symbol) {
  const { points } = series;
  const { short } = payload.x;
  const seed = (index) => (points.run ? `, ${points.runs[points.run[index]]}` : "");
  const hollow = series.kind === "recipe"; // evaluations of several runs
  return {
    x: points.x, y: points.y, mode: "markers", name: series.label, cliponaxis: false,
    marker: {
      symbol: hollow ? `${symbol}-open` : symbol, size: payload.many ? 4 : hollow ? 5 : 6, color: ink,
      opacity: payload.many ? 0.55 : 0.75,
    },
    text: points.x.map((x, index) => `${withUnit(x, short)}${seed(index)}`),
    hovertemplate: `<b>%{y:.3f}</b> at %{text}<br>${escaped(series.label)}<extra></extra>`,
  };
}

/** What is expected at the budget, with its interval, on the budget's line. */
function oddsTraces(colour) {
  if (!odds || payload.view !== "rate" || odds.budget !== budget || payload.many) return [];
  return odds.rows.filter((row) => row.value !== null && !hidden.has(row.id)).map((row) => {
    const { ink, symbol } = look(row);
    return {
      x: [odds.budget], y: [row.value], mode: "markers", name: `${row.label} at the budget`, meta: row.id, cliponaxis: false,
      error_y: { type: "data", symmetric: false, array: [row.hi - row.value], arrayminus: [row.value - row.lo], color: colour[ink], thickness: 1.6, width: 4 },
      marker: { symbol, size: 9, color: colour[ink], line: { color: colour.card, width: 1.2 } },
      hovertemplate: `<b>${row.text}</b>, 90 % ${row.interval_text}<br>${escaped(row.label)} at ${odds.budget_text}<extra></extra>`,
    };
  });
}

/** Crossings with the interval of where they are. */
function markTraces(colour) {
  if (payload.view !== "rate") return [];
  return marks.filter((mark) => !mark.ids.some((id) => hidden.has(id))).map((mark) => {
    const known = mark.lo !== null && mark.hi !== null;
    const across = known ? { error_x: { type: "data", symmetric: false, array: [mark.hi - mark.x], arrayminus: [mark.x - mark.lo], color: colour["ink-2"], thickness: 1.2, width: 4 } } : {};
    return {
      x: [mark.x], y: [mark.y], mode: "markers", name: `crossing of ${mark.label}`, ...across,
      marker: { symbol: "cross-thin", size: 10, line: { color: colour.ink, width: 1.8 } },
      hovertemplate: `crossing at ${withUnit(mark.x, payload.x.short)}<br>${escaped(mark.label)}<extra></extra>`,
    };
  });
}

function ranges(shown) {
  const xs = shown.flatMap((s) => [...(s.points?.x ?? []), ...(s.fit?.x ?? [])]);
  const ys = shown.flatMap((s) => [...(s.points?.y ?? []), ...(s.fit?.y ?? [])]).filter((y) => y !== null);
  if (budget !== null && xs.length) xs.push(budget);
  if (!xs.length || !ys.length) return { x: [0.01, 1], y: [0, 1] };
  const least = (values) => values.reduce((a, b) => Math.min(a, b));
  const most = (values) => values.reduce((a, b) => Math.max(a, b));
  const [lo, hi] = [least(ys), most(ys)];
  const pad = Math.max(0.02, (hi - lo) * 0.06);
  return { x: [scale === "log" ? least(xs) * 0.9 : 0, most(xs) * 1.05], y: [lo - pad, hi + pad] };
}

function budgetLine(colour) {
  if (budget === null) return { shapes: [], annotations: [] };
  const x = scale === "log" ? Math.log10(budget) : budget;
  return {
    shapes: [{ type: "line", x0: budget, x1: budget, yref: "y domain", y0: 0, y1: 1, line: { color: colour.accent, width: 1.2, dash: "3px,3px" } }],
    annotations: [{
      x, yref: "y domain", y: 0, yanchor: "bottom", xanchor: "right", showarrow: false,
      text: `${withUnit(budget, payload.x.short)} `, font: { color: colour.accent, size: 11 },
    }],
  };
}

function nothingWords() {
  if (payload.series.length && hidden.size) return "Everything is hidden";
  if (payload.view === "rate") return "Nothing to draw as a pass rate: switch to the share of the gain";
  return "No curve with an identified ceiling yet";
}

function draw() {
  if (chart.hidden) return; // no point on this axis: the page says why
  const colour = colours();
  const shown = payload.series.filter((series) => !hidden.has(series.id));
  const traces = shown.flatMap((series) => seriesTraces(series, colour));
  const range = ranges(shown);
  const layout = baseLayout(colour, payload.x, scale, range.x, range.y);
  layout.uirevision = `${payload.x.key} ${payload.view} ${scale} ${[...hidden].join()}`;
  if (payload.view !== "rate") layout.yaxis.title = { text: payload.y_label, standoff: 4 };
  Object.assign(layout, budgetLine(colour));
  if (!traces.length) {
    layout.annotations = [{
      xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, font: { size: 13, color: colour["ink-2"] }, text: nothingWords(),
    }];
  }
  plot.draw(chart, [...traces, ...oddsTraces(colour), ...markTraces(colour)], layout);
  for (const button of document.querySelectorAll("[data-scale]")) {
    button.setAttribute("aria-pressed", String(button.dataset.scale === scale));
  }
  for (const button of document.querySelectorAll("[data-series]")) {
    button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.series)));
  }
}

/** While a series is pointed at, or its button has the focus, the others step back; the data stay as they are. */
let highlighted = null;
function highlight(id) {
  if (id === highlighted || !chart?.data?.length || hidden.has(id)) return;
  highlighted = id;
  const opacity = chart.data.map((trace) => (id === null || trace.meta === undefined || trace.meta === id ? 1 : 0.15));
  plot.fade(chart, opacity);
  for (const row of document.querySelectorAll("[data-row]")) row.classList.toggle("lit", row.dataset.row === id);
}

function listen() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-scale], [data-series]");
    if (!button) return;
    if (button.dataset.scale) {
      scale = button.dataset.scale;
      keepInUrl({ scale: scale === "log" ? null : scale });
    } else {
      const id = button.dataset.series;
      if (!hidden.delete(id)) hidden.add(id);
      highlighted = null;
      keepInUrl({ hide: [...hidden].join(",") });
    }
    draw();
  });
  const legend = document.getElementById("legend") ?? new EventTarget(); // none without a chart
  for (const name of ["pointerover", "focusin"]) {
    legend.addEventListener(name, (event) => highlight(event.target.closest("[data-series]")?.dataset.series ?? null));
  }
  for (const name of ["pointerleave", "focusout"]) legend.addEventListener(name, () => highlight(null));
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "odds") odds = readJson("odds-data");
    else if (event.detail.target.id === "crossing") marks = readJson("crossing-marks") ?? [];
    else return;
    draw();
  });
  document.addEventListener("theme-changed", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

chooser();
if (payload) {
  budgetSlider({
    stops: readJson("stops") ?? [],
    unit: payload.x.short,
    moved(value) {
      budget = value;
      keepInUrl({ budget: String(value) });
      plot.relayout(chart, budgetLine(colours()));
    },
  });
  listen();
  setTimeout(draw); // once the page is there
}
