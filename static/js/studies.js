// The page of a study: three charts drawn from the server's payload, kept fresh while runs go on.
import { SYMBOLS, band, baseLayout, line } from "./chart.js";
import { amount, colours, faded, logTicks } from "./format.js";
import { fetchJson, keepAsking } from "./live.js";
import * as plot from "./plot.js";

const HOURS = { key: "device_hours", label: "Device-hours", short: "h" };
const node = (id) => document.getElementById(id);
const results = node("results");
let figures = JSON.parse(node("figures").textContent);
let version = results.dataset.version;
let live = results.dataset.live === "yes";

const ink = (series, colour) => colour[`c${series.series + 1}`];
const symbol = (series) => SYMBOLS[series.series] + (series.hollow ? "-open" : "");
const dash = (series) => (series.hollow ? "2px,3px" : "solid");

function show(id, traces, layout, empty, colour) {
  const chart = node(id);
  if (!chart) return;
  if (!traces.length) {
    layout.annotations = [{ xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, text: empty, font: { size: 13, color: colour["ink-2"] } }];
  }
  plot.draw(chart, traces, layout);
}

function extent(values, fallback) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  return known.length ? [Math.min(...known), Math.max(...known)] : fallback;
}

function padded([lo, hi], share = 0.06) {
  const pad = Math.max(0.01, (hi - lo) * share);
  return [lo - pad, hi + pad];
}

function drawOverlay(colour) {
  const traces = figures.overlay.flatMap((series) => overlayTraces(series, colour));
  const xs = extent(figures.overlay.flatMap((s) => [...s.points.x, ...(s.curve?.x ?? [])]), [0.01, 1]);
  const ys = extent(figures.overlay.flatMap((s) => [...s.points.y, ...(s.curve?.y ?? [])]), [0, 1]);
  const layout = baseLayout(colour, HOURS, "log", [xs[0] * 0.85, xs[1] * 1.1], padded(ys));
  show("overlay-chart", traces, layout, "No evaluation yet", colour);
}

function overlayTraces(series, colour) {
  const own = ink(series, colour);
  const { points, curve } = series;
  const traces = [];
  if (curve?.lo) traces.push(...band(curve.x, curve.lo, curve.hi, faded(own, 0.12), {}, series.label));
  if (curve) {
    const split = curve.x.findIndex((x) => x > curve.solid_until);
    const at = split < 0 ? curve.x.length : split;
    traces.push({ ...line(curve.x.slice(0, at), curve.y.slice(0, at), own, dash(series)), name: `${series.label}, fit` });
    if (split >= 0) traces.push({ ...line(curve.x.slice(at - 1), curve.y.slice(at - 1), own, "6px,5px"), name: `${series.label}, predicted` });
  }
  if (points.x.length) {
    traces.push({
      x: points.x, y: points.y, mode: "markers", name: series.label, legendgroup: series.label, showlegend: true, cliponaxis: false,
      marker: { symbol: symbol(series), size: 5, color: own, opacity: 0.7 },
      text: points.x.map((x, i) => `${amount(x)} h, seed ${points.seed[i]}`),
      hovertemplate: `<b>%{y:.3f}</b> at %{text}<br>${series.label}<extra></extra>`,
    });
  }
  return traces;
}

function logAxis(range, title, colour) {
  const [tickvals, ticktext] = logTicks(range[0], range[1], window.innerWidth < 720 ? 5 : 7);
  return { type: "log", range: range.map(Math.log10), title: { text: title, standoff: 6 }, tickmode: "array", tickvals, ticktext, gridcolor: colour.line, zeroline: false };
}

function drawSlopes(colour) {
  const { rows } = figures.slopes;
  const xs = extent(rows.flatMap((row) => [...row.line.x, ...row.points.x]), [0.1, 10]);
  const ys = extent(rows.flatMap((row) => [...row.line.y, ...row.points.y]), [0.1, 10]);
  const layout = baseLayout(colour, HOURS, "log", [xs[0] * 0.85, xs[1] * 1.15], [0, 1]);
  layout.yaxis = logAxis([ys[0] / 1.5, ys[1] * 1.5], "F(R) = C^B", colour);
  layout.margin = { ...layout.margin, l: 60 };
  const traces = rows.flatMap((row) => [
    {
      x: row.points.x, y: row.points.y, mode: "markers", name: row.label, legendgroup: row.label, showlegend: true,
      marker: { symbol: symbol(row), size: 5, color: ink(row, colour), opacity: 0.45 },
      hovertemplate: `${row.label}<extra></extra>`,
    },
    { ...line(row.line.x, row.line.y, ink(row, colour), dash(row)), name: `${row.label}, B ${row.B_text}` },
  ]);
  show("slopes-chart", traces, layout, "No shared ceiling yet", colour);
}

/** Error bars from a value to the ends of its interval; an open end has none. */
function bars(points, of) {
  const upTo = (end) => points.map((p) => (p[of][end] === null ? null : Math.abs(p[of][end] - p[of].value)));
  return { type: "data", symmetric: false, array: upTo("hi"), arrayminus: upTo("lo"), thickness: 1.4, width: 4 };
}

function axisTraces(figure, of, axes, colour, linked) {
  const known = figure.points.filter((p) => p[of]);
  const own = colour[of === "B" ? "c2" : "c1"];
  return known.length ? [{
    x: known.map((p) => p.x), y: known.map((p) => p[of].value), error_y: { ...bars(known, of), color: own },
    mode: linked ? "lines+markers" : "markers", name: of === "B" ? "B" : "forecast ceiling", ...axes,
    line: { color: faded(own, 0.45), width: 1 },
    marker: { symbol: known.map((p) => (p.is_base ? "diamond" : of === "B" ? "square" : "circle")), size: 8, color: own },
    text: known.map((p) => p.label), hovertemplate: "<b>%{y:.3f}</b> %{text}<extra></extra>",
  }] : [];
}

/** The law over the axis: its line with the band of one more run. */
function lawTraces(curve, axes, colour) {
  const [x, y, lo, hi] = [curve.map((p) => p.value), ...["value", "lo", "hi"].map((end) => curve.map((p) => p.ceiling[end]))];
  return [...band(x, lo, hi, faded(colour.c1, 0.12), axes, "law"), { ...line(x, y, colour.c1, "solid", axes), name: "law" }];
}

function drawAxis(colour) {
  const figure = figures.axis;
  if (!figure || !node("axis-chart")) return;
  const curve = figures.law?.curve ?? [];
  const numbers = extent(figure.numeric ? [...figure.points.map((p) => p.x), ...curve.map((p) => p.value)] : [], [1, 10]);
  const title = figures.law?.unit ? `${figure.title}, ${figures.law.unit}` : figure.title;
  const axis = { key: "axis", label: title, short: "" };
  const range = figure.log ? [numbers[0] / 1.25, numbers[1] * 1.25] : padded(numbers, 0.1);
  const layout = baseLayout(colour, axis, figure.log ? "log" : "linear", range, [0, 1]);
  if (!figure.numeric) layout.xaxis = { type: "category", range: [-0.5, figure.points.length - 0.5], title: { text: title, standoff: 8 }, showgrid: false, zeroline: false };
  if (figure.numeric) Object.assign(layout.xaxis, { tickmode: "array", tickvals: figure.points.map((p) => p.x), ticktext: figure.points.map((p) => amount(p.x).replace(/\.0+$/, "")) });
  const spanOf = (said) => padded(extent(said.flatMap((one) => (one ? [one.value, one.lo, one.hi] : [])), [0, 1]), 0.12);
  const ceilings = spanOf([...figure.points.map((p) => p.forecast), ...curve.map((p) => p.ceiling)]);
  const law = curve.length ? lawTraces(curve, { yaxis: "y" }, colour) : [];
  const efficiencies = axisTraces(figure, "B", { yaxis: "y2" }, colour, figure.numeric);
  const both = efficiencies.length > 0; // an axis without a trace is not drawn, and the other would hang above nothing
  layout.yaxis = { domain: both ? [0.54, 1] : [0, 1], title: { text: "Forecast ceiling", standoff: 6 }, range: ceilings, gridcolor: colour.line, zeroline: false, nticks: 5 };
  if (both) layout.yaxis2 = { domain: [0, 0.44], title: { text: "B", standoff: 6 }, range: spanOf(figure.points.map((p) => p.B)), gridcolor: colour.line, zeroline: false, nticks: 5 };
  layout.xaxis.anchor = both ? "y2" : "y";
  layout.margin = { ...layout.margin, l: 60 };
  const traces = [...law, ...axisTraces(figure, "forecast", { yaxis: "y" }, colour, figure.numeric && !law.length), ...efficiencies];
  show("axis-chart", traces, layout, "No forecast yet", colour);
}

function draw() {
  const colour = colours();
  drawOverlay(colour);
  drawSlopes(colour);
  drawAxis(colour);
}

/** Only regions whose text changed are written, so that focus and reading are left alone. */
async function ask() {
  const query = new URLSearchParams(location.search);
  query.set("since", version);
  const next = await fetchJson(`${results.dataset.state}?${query}`);
  if (next === null) return;
  const focused = results.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  for (const [id, html] of Object.entries(next.html)) if (node(id)) node(id).innerHTML = html;
  if (focused) results.querySelector(`a[href="${focused}"]`)?.focus();
  ({ version, live, figures } = next);
  results.dataset.version = version;
  document.dispatchEvent(new CustomEvent("htmx:afterSettle"));
  draw();
}

document.addEventListener("theme-changed", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
keepAsking({ ask, ended: () => !live });
