// The run page's other views: log F against log C, and the gain per unit of compute. Every number is the server's.
import { band, baseLayout, line, marker, windowShape } from "./chart.js";
import { faded, withUnit } from "./format.js";

/** log F against log C: points, the line of slope B, and between which lines its interval lies. */
export function slopeChart(payload, colour) {
  const { points, line: fitted } = payload.view;
  const traces = [...band(fitted.x, fitted.lo, fitted.hi, faded(colour.c1, 0.14)), { ...line(fitted.x, fitted.y, colour.c1), name: "slope B" }];
  for (const role of ["excluded", "fitted", "after", "outlier"]) {
    if (role !== "outlier" || points.role.includes(role)) traces.push(slopePoints(payload, role, colour));
  }
  const layout = baseLayout(colour, payload.x, "log", [fitted.x[0] * 0.9, fitted.x.at(-1) * 1.1], spread([...points.y, ...fitted.y]));
  layout.yaxis = { ...layout.yaxis, tickformat: "", title: { text: "log₁₀ F", standoff: 4 } };
  layout.margin = { ...layout.margin, l: 58 };
  layout.shapes = windowShape(payload, colour);
  return { traces, layout };
}

function slopePoints({ view: { points }, x }, role, colour) {
  const chosen = points.role.flatMap((each, index) => (each === role ? [index] : []));
  const pick = (values) => chosen.map((index) => values[index]);
  const reach = (ends, sign) => chosen.map((index) => (ends[index] === null ? 0 : sign * (ends[index] - points.y[index])));
  return {
    name: role, x: pick(points.x), y: pick(points.y), mode: "markers", marker: marker(role, colour),
    error_y: { type: "data", symmetric: false, array: reach(points.hi, 1), arrayminus: reach(points.lo, -1), color: faded(colour.mark, 0.6), thickness: 1, width: 0 },
    text: chosen.map((index) => `pass rate <b>${points.rate[index].toFixed(3)}</b><br>${withUnit(points.x[index], x.short)}, step ${points.step[index]}`),
    hovertemplate: "log₁₀ F <b>%{y:.2f}</b><br>%{text}<extra></extra>",
  };
}

/** The derivative of the fitted curve with its band, on a log axis. */
export function gainChart(payload, colour, scale) {
  const { solid, dashed, band: edges, unit, now } = payload.view;
  const positive = [...solid.y, ...dashed.y].filter((value) => value !== null);
  const [least, most] = [Math.min(...positive), Math.max(...positive)];
  const floor = least / 10;
  const traces = [
    ...band(edges.x, edges.lo.map((value) => value ?? floor), edges.hi.map((value) => value ?? floor), faded(colour.c1, 0.14)),
    gainLine(solid, "solid", payload, colour),
    gainLine(dashed, "6px,5px", payload, colour),
  ];
  const last = dashed.x.at(-1) * 1.03;
  const layout = baseLayout(colour, payload.x, scale, scale === "log" ? [solid.x[0] * 0.8, last] : [0, last], [floor, most]);
  layout.yaxis = {
    type: "log", range: [Math.log10(least / 3), Math.log10(most * 2)], gridcolor: colour.line, exponentformat: "power", dtick: 1, tickfont: { size: 10 },
    title: { text: `pass rate per ${unit}`, standoff: 4 },
  };
  layout.margin = { ...layout.margin, l: 58 };
  layout.shapes = [...windowShape(payload, colour), {
    type: "line", yref: "y domain", x0: now, x1: now, y0: 0, y1: 1, line: { color: colour.c2, width: 1, dash: "2px,3px" },
  }];
  layout.annotations = [{
    x: scale === "log" ? Math.log10(now) : now, yref: "y domain", y: 1, yanchor: "top", xanchor: "right", xshift: -4, showarrow: false,
    text: "newest evaluation", font: { color: colour["ink-3"], size: 11 },
  }];
  return { traces, layout };
}

function gainLine({ x, y }, dash, payload, colour) {
  return {
    ...line(x, y, colour.c1, dash), name: dash === "solid" ? "gain" : "gain, extrapolated", hoverinfo: "all",
    text: x.map((value) => withUnit(value, payload.x.short)), hovertemplate: `<b>%{y:.2g}</b> per ${payload.view.unit}<br>at %{text}<extra></extra>`,
  };
}

function spread(values) {
  const [lo, hi] = [Math.min(...values), Math.max(...values)];
  const pad = (hi - lo) * 0.08 || 1;
  return [lo - pad, hi + pad];
}
