// Charts inside the tabs of the run page: nodes that survive the swap of their panel (hx-preserve), drawn from the
// payload that the newest fragment brought.
import { SYMBOLS, baseLayout, line } from "./chart.js";
import { colours, withUnit } from "./format.js";
import * as plot from "./plot.js";

const CHARTS = { forms: formsChart, history: historyChart };

/** Draw every chart that the open tab has. */
export function drawTabCharts() {
  for (const node of document.querySelectorAll("[data-tab-chart]")) {
    const data = document.getElementById(node.dataset.tabChart);
    if (!data) continue;
    const payload = JSON.parse(data.textContent);
    const { traces, layout } = CHARTS[payload.kind](payload, colours());
    plot.draw(node, traces, layout);
  }
}

document.addEventListener("htmx:beforeCleanupElement", ({ detail }) => {
  if (detail.elt.matches?.("[data-tab-chart]")) plot.purge(detail.elt);
});

function formsChart({ x, points, lines }, colour) {
  const traces = [pointsTrace(points, x, colour)];
  for (const [index, form] of lines.entries()) {
    const ink = colour[`c${index + 1}`];
    traces.push({ ...line(form.solid.x, form.solid.y, ink), name: form.label });
    traces.push({ ...line(form.dashed.x, form.dashed.y, ink, "6px,5px"), name: `${form.label}, beyond` });
    traces.push(endMark(form, ink, index));
  }
  const ys = [...points.y, ...lines.flatMap((form) => [...form.solid.y, ...form.dashed.y])];
  const last = Math.max(points.x.at(-1), ...lines.map((form) => form.dashed.x.at(-1)));
  return { traces, layout: baseLayout(colour, x, "log", [points.x[0] * 0.8, last * 1.1], padded(ys)) };
}

/** The shape of the form at the end of its line: colours alone do not tell them apart. */
function endMark({ dashed, label }, ink, index) {
  return {
    x: dashed.x.slice(-1), y: dashed.y.slice(-1), mode: "markers", name: `${label}, end`, cliponaxis: false,
    marker: { symbol: SYMBOLS[index], size: 9, color: ink }, hovertemplate: `${label} <b>%{y:.3f}</b><extra></extra>`,
  };
}

function pointsTrace({ x, y }, axis, colour) {
  return {
    x, y, mode: "markers", name: "evaluations", marker: { size: 5, color: colour.mark }, cliponaxis: false,
    text: x.map((value) => withUnit(value, axis.short)), hovertemplate: "<b>%{y:.3f}</b> at %{text}<extra></extra>",
  };
}

function historyChart({ x, known, open }, colour) {
  const middle = open.lo.map((lo, i) => (lo + open.hi[i]) / 2);
  const reach = ({ lo, hi }, y, ink, width) => ({
    type: "data", symmetric: false, array: hi.map((end, i) => end - y[i]), arrayminus: y.map((at, i) => at - lo[i]), color: ink, thickness: 1.2, width,
  });
  const said = (of) => of.x.map((at) => withUnit(at, x.short));
  const traces = [
    {
      x: known.x, y: known.y, error_y: reach(known, known.y, colour.c1, 3), mode: "markers", name: "ceiling", marker: { size: 7, color: colour.c1 }, cliponaxis: false,
      text: known.text, customdata: said(known), hovertemplate: `<b>%{text}</b><br>said at %{customdata}<extra></extra>`,
    },
    {
      x: open.x, y: middle, error_y: reach(open, middle, colour.mark, 3), mode: "markers", name: "not known yet", marker: { size: 7, opacity: 0 },
      text: open.text, customdata: said(open), hovertemplate: `not known yet: <b>%{text}</b><br>said at %{customdata}<extra></extra>`,
    },
  ];
  const xs = [...known.x, ...open.x];
  const ys = [...known.lo, ...known.hi, ...open.lo, ...open.hi];
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  return { traces, layout: baseLayout(colour, x, "log", [from * 0.8, to * 1.25], padded(ys)) };
}

/** A little room around the values. */
function padded(values, least = 0.02) {
  const [lo, hi] = [Math.min(...values), Math.max(...values)];
  const pad = Math.max(least, (hi - lo) * 0.08) || Math.abs(hi) * 0.1 || 1;
  return [lo - pad, hi + pad];
}
