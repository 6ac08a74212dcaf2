// The chart's language (shared by the run page and the comparison), as Plotly traces and layout. Nothing is computed
// here but where to draw: every number comes from the server's payload.
import { amount, faded, logTicks } from "./format.js";

export const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
export const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "x"];
const MARGIN = { l: 46, r: 14, t: 10, b: 40 };

/** Layout that every chart has: quiet grid, our type, no legend (it is in the page). */
export function baseLayout(colour, axis, scale, xRange, yRange) {
  return {
    uirevision: `${axis.key} ${scale}`,
    margin: MARGIN,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: colour["ink-3"] },
    showlegend: false,
    hovermode: "closest",
    hoverlabel: { bgcolor: colour.card, bordercolor: colour.line, font: { color: colour.ink, size: 12 } },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: {
      type: scale,
      range: scale === "log" ? xRange.map(Math.log10) : xRange,
      title: { text: axis.label, standoff: 8 },
      showgrid: false,
      zeroline: false,
      ticks: "",
      ...(scale === "log" ? logAxisTicks(xRange) : { tickmode: "auto", nticks: 8, exponentformat: "SI" }),
    },
    yaxis: { range: yRange, gridcolor: colour.line, zeroline: false, nticks: 7, tickformat: yRange[1] - yRange[0] > 0.4 ? ".1f" : ".2f" },
  };
}

function logAxisTicks([from, to]) {
  const [tickvals, ticktext] = logTicks(from, to);
  return { tickmode: "array", tickvals, ticktext };
}

/** After a zoom the ticks of a log axis are chosen anew. */
export function keepTicks(node) {
  node.on("plotly_relayout", (change) => {
    const touched = Object.keys(change).some((name) => name.startsWith("xaxis.") && !name.includes("tick"));
    const axis = node._fullLayout.xaxis;
    if (!touched || axis.type !== "log") return;
    const { tickvals, ticktext } = logAxisTicks(axis.range.map((power) => 10 ** power));
    window.Plotly.relayout(node, { "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext });
  });
}

/** Two traces: the lower edge, and the upper filled down to it. */
export function band(x, lo, hi, fill, axes = {}) {
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", ...axes };
  return [{ ...edge, y: lo }, { ...edge, y: hi, fill: "tonexty", fillcolor: fill }];
}

export function line(x, y, colour, dash = "solid", axes = {}) {
  return { x, y, mode: "lines", line: { color: colour, width: 2, dash }, hoverinfo: "skip", ...axes };
}

/** Traces and layout of the run page's figure. */
export function runChart(payload, colour, scale, narrow) {
  const traces = payload.fit?.solid ? fitTraces(payload.fit, colour) : [];
  for (const role of ["excluded", "fitted", "after"]) traces.push(pointTrace(payload, role, colour));
  for (const role of ["outlier", "waiting"]) if (payload.points.role.includes(role)) traces.push(pointTrace(payload, role, colour));
  if (payload.start && scale === "linear") traces.push(startTrace(payload.start, colour));
  const layout = baseLayout(colour, payload.x, scale, xRange(payload, scale), yRange(payload));
  layout.shapes = shapes(payload, colour);
  layout.annotations = annotations(payload, colour, scale, narrow);
  if (payload.after) addResiduals(payload.after.residuals, traces, layout, colour);
  return { traces, layout };
}

function fitTraces(fit, colour) {
  return [
    ...band(fit.band.x, fit.band.lo, fit.band.hi, faded(colour.c1, 0.14)),
    line(fit.solid.x, fit.solid.y, colour.c1),
    line(fit.dashed.x, fit.dashed.y, colour.c1, "6px,5px"),
  ];
}

/** A point of a role: colour and shape change together. */
export function marker(role, colour) {
  if (role === "outlier") return { symbol: "x-thin", size: 9, color: colour.bad, line: { color: colour.bad, width: 2 } };
  if (role === "fitted") return { size: 7, color: colour.c1, line: { width: 0 } };
  if (role === "waiting") return { symbol: "circle-open-dot", size: 8, color: colour.c1, line: { color: colour.c1, width: 1.4 } };
  const edge = role === "after" ? { color: colour.c2, width: 1.6 } : { color: colour.mark, width: 1.2 };
  return { size: 7, color: colour.card, line: edge };
}

function pointTrace({ points, x }, role, colour) {
  const chosen = points.role.flatMap((each, index) => (each === role ? [index] : []));
  const pick = (values) => chosen.map((index) => values[index]);
  const words = chosen.map((index) => {
    const se = points.se[index];
    const error = se === null ? "" : ` ± ${se.toFixed(3)}`;
    return `<b>${points.y[index].toFixed(3)}</b>${error}<br>${amount(points.x[index])} ${x.short}, step ${points.step[index]}${role === "waiting" ? "<br>not in the fit yet" : ""}`;
  });
  return {
    name: role, x: pick(points.x), y: pick(points.y), mode: "markers", marker: marker(role, colour),
    text: words, hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
  };
}

function startTrace(start, colour) {
  return {
    name: "start", x: [0], y: [start.y], mode: "markers", cliponaxis: false,
    marker: { ...marker("excluded", colour), symbol: "square" },
    hovertemplate: `<b>${start.y.toFixed(3)}</b><br>before the first update<extra></extra>`,
  };
}

/** What is drawn to the right: the end of the extrapolation, else a little past the last point. */
function xRange({ points, fit }, scale) {
  const first = points.x[0] ?? 1e-3;
  const last = Math.max(points.x.at(-1) ?? 1, fit?.dashed?.x.at(-1) ?? 0);
  return scale === "log" ? [first * 0.8, last * 1.05] : [0, last * 1.03];
}

/** Room for points, curve and ceiling; a band that is wider than that leaves the frame. */
function yRange({ points, fit, ceiling, start }) {
  const seen = [...points.y, ...(fit?.solid?.y ?? []), ...(fit?.dashed?.y ?? [])];
  if (start) seen.push(start.y);
  for (const end of [ceiling.value, ceiling.lo, ceiling.hi]) if (end !== null) seen.push(end);
  if (!seen.length) return [0, 1];
  const [lo, hi] = [Math.min(...seen), Math.max(...seen)];
  const pad = Math.max(0.02, (hi - lo) * 0.08);
  return [lo - pad, hi + pad * 1.4];
}

/** The ground of the fitted window, shaded. */
export function windowShape({ fit }, colour) {
  if (!fit) return [];
  const [lo, hi] = fit.window;
  const window = { type: "rect", yref: "y domain", x0: lo, x1: hi, y0: 0, y1: 1, line: { width: 0 } };
  return [{ ...window, fillcolor: faded(colour.accent, 0.05), layer: "below" }];
}

function shapes({ fit, ceiling }, colour) {
  if (!fit) return [];
  const found = windowShape({ fit }, colour);
  const height = ceiling.identified ? ceiling.value : ceiling.lo;
  if (height !== null) {
    const ink = ceiling.identified ? colour.accent : colour.mark;
    const top = { type: "line", xref: "x domain", x0: 0, x1: 1, y0: height, y1: height };
    found.push({ ...top, line: { color: ink, width: 1, dash: "2px,4px" } });
  }
  return found;
}

function annotations({ fit, ceiling, start }, colour, scale, narrow) {
  const found = [];
  const height = ceiling.identified ? ceiling.value : ceiling.lo;
  if (fit && height !== null) {
    found.push({
      xref: "x domain", x: 0.01, xanchor: "left", y: height, yanchor: "bottom", showarrow: false,
      text: ceilingWords(ceiling, narrow),
      font: { color: ceiling.identified ? colour.accent : colour["ink-3"], size: 11 },
    });
  }
  if (start && scale === "log") {
    found.push({
      xref: "x domain", x: 0, xanchor: "right", xshift: 4, y: start.y, yanchor: "middle", showarrow: false,
      text: "◂", font: { color: colour["ink-3"], size: 11 },
    });
  }
  if (start && scale === "log" && !narrow) {
    found.push({
      xref: "x domain", x: 0.01, xanchor: "left", yref: "y domain", y: 0, yanchor: "bottom", showarrow: false,
      text: `◂ before the first update: ${start.y.toFixed(3)}`, font: { color: colour["ink-3"], size: 11 },
    });
  }
  return found;
}

/** Never a ceiling without its interval, however narrow the chart. */
function ceilingWords(ceiling, narrow) {
  if (!ceiling.identified) return narrow ? `↑ ${ceiling.interval_text}` : `↑ ceiling not identified yet, ${ceiling.interval_text}`;
  return narrow ? `${ceiling.text}, ${ceiling.interval_text}` : `ceiling ${ceiling.text}, ${ceiling.interval_text}`;
}

/** A strip below the chart: later points minus what was predicted for them, with the band around zero. */
function addResiduals(residuals, traces, layout, colour) {
  const axes = { yaxis: "y2" };
  traces.push(...band(residuals.x, residuals.lo, residuals.hi, faded(colour.c1, 0.14), axes));
  traces.push({
    ...axes, name: "residuals", x: residuals.x, y: residuals.y, mode: "markers", marker: { ...marker("after", colour), size: 6 },
    hovertemplate: "%{y:+.3f} against the prediction<extra></extra>",
  });
  layout.yaxis.domain = [0.3, 1];
  layout.yaxis2 = {
    domain: [0, 0.2], anchor: "x", gridcolor: colour.line, nticks: 4, tickformat: "+.2f",
    zeroline: true, zerolinecolor: colour["ink-3"], zerolinewidth: 1,
  };
  layout.xaxis.anchor = "y2";
  layout.annotations.push({
    xref: "x domain", x: 0, xanchor: "left", yref: "y2 domain", y: 1, yanchor: "bottom", showarrow: false,
    text: "actual minus predicted", font: { color: colour["ink-3"], size: 11 },
  });
}
