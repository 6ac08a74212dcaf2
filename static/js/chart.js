// The chart's language (shared by the run page and the comparison), as Plotly traces and layout. Nothing is computed
// here but where to draw: every number comes from the server's payload.
import { faded, logTicks, withUnit } from "./format.js";

export const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "x"];

/** The shape of a series by its place: as `shape_path` in webapp/pages/marks.py, no two of 36 share colour and shape. */
export const symbolOf = (place) => SYMBOLS[(place + Math.floor(place / 6)) % 6];
const MARGIN = { l: 46, r: 14, t: 10, b: 40 };

/** What every chart has: no ground of its own, our type, no legend (it is in the page). */
export const quietLayout = (colour) => ({
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: colour["ink-3"] },
  showlegend: false,
  hovermode: "closest",
  hoverlabel: { bgcolor: colour.card, bordercolor: colour.line, font: { color: colour.ink, size: 12 } },
});

/** Layout of a chart over compute: quiet grid, axes and their ranges. */
export function baseLayout(colour, axis, scale, xRange, yRange) {
  return {
    ...quietLayout(colour),
    uirevision: `${axis.key} ${scale}`,
    margin: MARGIN,
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

/** Ticks of a log axis between two values, as many as have room. */
export function logAxisTicks([from, to]) {
  const most = window.innerWidth < 720 ? 6 : 9; // more would be turned, into each other and the title
  const [tickvals, ticktext] = logTicks(from, to, most);
  return { tickmode: "array", tickvals, ticktext };
}

/** Two traces: the lower edge, and the upper filled down to it. Where a chart has several, `of` says whose it is: files of the chart name it. */
export function band(x, lo, hi, fill, axes = {}, of = "") {
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", ...axes };
  const named = (which) => (of ? { name: `${of}, band, ${which} edge` } : {});
  return [{ ...edge, ...named("lower"), y: lo }, { ...edge, ...named("upper"), y: hi, fill: "tonexty", fillcolor: fill }];
}

export function line(x, y, colour, dash = "solid", axes = {}) {
  return { x, y, mode: "lines", line: { color: colour, width: 2, dash }, hoverinfo: "skip", ...axes };
}

/** A point of a role: colour and shape change together. */
export function marker(role, colour) {
  if (role === "outlier") return { symbol: "x-thin", size: 9, color: colour.bad, line: { color: colour.bad, width: 2 } };
  if (role === "fitted") return { size: 7, color: colour.c1, line: { width: 0 } };
  if (role === "waiting") return { symbol: "circle-open-dot", size: 8, color: colour.c1, line: { color: colour.c1, width: 1.4 } };
  const edge = role === "after" ? { color: colour.c2, width: 1.6 } : { color: colour.mark, width: 1.2 };
  return { size: 7, color: colour.card, line: edge };
}

/** A measured pass rate with its standard error, where that is known. */
export const withError = (rate, se) => (se === null || se === undefined ? rate.toFixed(3) : `${rate.toFixed(3)} ± ${se.toFixed(3)}`);

/** The evaluations of a role, each with its value, standard error and place; `says` gives a further line to the words. */
export function pointTrace({ points, x }, role, colour, says = "") {
  const chosen = points.role.flatMap((each, index) => (each === role ? [index] : []));
  const pick = (values) => chosen.map((index) => values[index]);
  const words = chosen.map((index) => {
    return `<b>${withError(points.y[index], points.se[index])}</b><br>${withUnit(points.x[index], x.short)}, step ${points.step[index]}${says && `<br>${says}`}`;
  });
  return {
    name: role, x: pick(points.x), y: pick(points.y), mode: "markers", marker: marker(role, colour),
    text: words, hovertemplate: "%{text}<extra></extra>", cliponaxis: false, customdata: chosen,
  };
}

/** The evaluation before the first update, at zero: a log axis has no place for it. */
export function startTrace(start, colour) {
  return {
    name: "start", x: [0], y: [start.y], mode: "markers", cliponaxis: false,
    marker: { ...marker("excluded", colour), symbol: "square" },
    hovertemplate: `<b>${withError(start.y, start.se)}</b><br>before the first update<extra></extra>`,
  };
}

/** The ground of the fitted window, shaded. */
export function windowShape({ fit }, colour) {
  if (!fit) return [];
  const [lo, hi] = fit.window;
  const window = { type: "rect", yref: "y domain", x0: lo, x1: hi, y0: 0, y1: 1, line: { width: 0 } };
  return [{ ...window, fillcolor: faded(colour.accent, 0.05), layer: "below" }];
}
