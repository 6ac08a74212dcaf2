// The run page's curve as Plotly traces and layout: fit with band, evaluations by what became of them, ceiling, residuals.
import { band, baseLayout, line, pointTrace, startTrace, windowShape, withError } from "./chart.js";
import { faded, withUnit } from "./format.js";
import { addResiduals } from "./residuals.js";

/** Traces and layout of the run page's figure. */
export function runChart(payload, colour, wanted, narrow) {
  const onlyStart = !payload.points.x.length; // at zero compute: nowhere on a log axis, and no amount to write on any
  const scale = onlyStart ? "linear" : wanted;
  const traces = [...forecastTraces(payload.forecast?.drawn, colour), ...eq1Traces(payload.fit, colour)];
  if (payload.superseded?.x.length) traces.push(supersededTrace(payload, colour));
  for (const role of ["excluded", "fitted", "after"]) traces.push(pointTrace(payload, role, colour));
  if (payload.points.role.includes("outlier")) traces.push(pointTrace(payload, "outlier", colour));
  if (payload.points.role.includes("waiting")) traces.push(pointTrace(payload, "waiting", colour, "not in the fit yet"));
  if (payload.start && scale === "linear") traces.push(startTrace(payload.start, colour));
  const layout = baseLayout(colour, payload.x, scale, xRange(payload, scale), yRange(payload, narrow));
  layout.shapes = shapes(payload, colour);
  layout.annotations = annotations(payload, colour, scale, narrow);
  if (onlyStart) layout.xaxis = { ...layout.xaxis, range: [-1, 1], tickmode: "array", tickvals: [0], ticktext: ["0"] };
  if (payload.after) {
    const said = { title: "actual minus predicted", against: "the prediction", unit: payload.x.short };
    addResiduals({ traces, layout }, payload.after.residuals, said, colour);
  }
  return { traces, layout };
}

/** What earlier attempts reported past a resume: small crosses behind the evaluations that took their place. */
function supersededTrace({ superseded, x }, colour) {
  const words = superseded.step.map((step, index) => `${withUnit(superseded.x[index], x.short)}<br>step ${step} of attempt ${superseded.attempt[index]}, superseded`);
  return {
    x: superseded.x, y: superseded.y, text: words, mode: "markers", type: "scatter", showlegend: false,
    marker: { symbol: "x-thin-open", size: 7, color: colour.mark, opacity: 0.55, line: { color: colour.mark, width: 1.2 } },
    hovertemplate: `<b>%{y:.3f}</b> at %{text}<extra></extra>`,
  };
}

function forecastTraces(drawn, colour) {
  if (!drawn) return [];
  return [
    ...band(drawn.band.x, drawn.band.lo, drawn.band.hi, faded(colour.c1, 0.14)),
    line(drawn.solid.x, drawn.solid.y, colour.c1),
    line(drawn.dashed.x, drawn.dashed.y, colour.c1, "6px,5px"),
  ];
}

/** The paper's curve beside the forecast: thin, and without a band of its own. */
function eq1Traces(fit, colour) {
  if (!fit?.solid) return [];
  const thin = { width: 1.2, color: colour.mark };
  return [
    { ...line(fit.solid.x, fit.solid.y, colour.mark), line: thin },
    { ...line(fit.dashed.x, fit.dashed.y, colour.mark), line: { ...thin, dash: "6px,5px" } },
  ];
}

/** What is drawn to the right: the end of the extrapolation, else a little past the last point. */
function xRange({ points, fit, forecast, superseded }, scale) {
  const first = points.x[0] ?? 1e-3;
  const ends = [forecast?.drawn, fit].map((each) => each?.dashed?.x.at(-1) ?? 0);
  const last = Math.max(points.x.at(-1) ?? 1, ...ends, ...(superseded?.x ?? []));
  return scale === "log" ? [first * 0.8, last * 1.05] : [0, last * 1.03];
}

/** Room for points, curve and ceiling; a band that is wider than that leaves the frame. The ceiling's words stand below
 *  the window's handles, which takes a larger share of a plot that residuals have made lower. */
function yRange({ points, forecast, forecast_ceiling: ceiling, start, superseded, after }, narrow) {
  const drawn = forecast?.drawn;
  const seen = [...points.y, ...(superseded?.y ?? []), ...(drawn?.solid.y ?? []), ...(drawn?.dashed.y ?? [])];
  if (start) seen.push(start.y);
  for (const end of [ceiling.value, ...(ceiling.identified ? [ceiling.lo, ceiling.hi] : [])]) if (end !== null) seen.push(end);
  if (!seen.length) return [0, 1];
  const [lo, hi] = [Math.min(...seen), Math.max(...seen)];
  const pad = Math.max(0.02, (hi - lo) * 0.08);
  return [lo - pad, hi + pad * headroom(narrow, Boolean(after))];
}

function headroom(narrow, residuals) {
  if (residuals) return narrow ? 4.6 : 2.8;
  return narrow ? 3.2 : 1.4;
}

function shapes({ fit, forecast_ceiling: ceiling }, colour) {
  const found = fit ? windowShape({ fit }, colour) : [];
  if (ceiling.value !== null) {
    const top = { type: "line", xref: "x domain", x0: 0, x1: 1, y0: ceiling.value, y1: ceiling.value };
    found.push({ ...top, line: { color: colour.accent, width: 1, dash: "2px,4px" } });
  }
  return found;
}

function annotations({ forecast_ceiling: ceiling, start }, colour, scale, narrow) {
  const found = [];
  if (ceiling.lo !== null) {
    const known = ceiling.identified;
    found.push({
      xref: "x domain", x: 0.01, xanchor: "left", yanchor: known ? "bottom" : "top", showarrow: false,
      ...(known ? { y: ceiling.value } : { yref: "y domain", y: 1, yshift: -28 }), // below the grips of the window
      text: ceilingWords(ceiling, narrow),
      font: { color: known ? colour.accent : colour["ink-3"], size: 11 },
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
      text: `◂ before the first update: ${withError(start.y, start.se)}`, font: { color: colour["ink-3"], size: 11 },
    });
  }
  return found;
}

/** Never a ceiling without its interval, however narrow the chart. */
function ceilingWords(ceiling, narrow) {
  if (!ceiling.identified) return `forecast ceiling ${narrow ? "" : "not known yet, "}${ceiling.interval_text}`;
  return narrow ? `${ceiling.text}, ${ceiling.interval_text}` : `forecast ceiling ${ceiling.text}, ${ceiling.interval_text}`;
}
