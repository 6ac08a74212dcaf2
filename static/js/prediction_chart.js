// A prediction's chart as Plotly traces and layout: the frozen curve, what was known, what came since, the claim, its
// outcomes, and the numbers of the comments. Every number comes from the server's payload.
import { band, baseLayout, line, pointTrace, startTrace, windowShape } from "./chart.js";
import { colours, faded } from "./format.js";
import * as plot from "./plot.js";
import { addResiduals } from "./residuals.js";

const NARROW = 480;
const NAMES = { excluded: "known when frozen, not fitted", fitted: "known when frozen", after: "came since" };

/** Draw the payload into a node; `scale` is "log" or "linear". */
export function draw(node, payload, scale = "log", look = "whole") {
  const { traces, layout } = predictionChart(payload, colours(), scale, node.clientWidth < NARROW, look);
  plot.draw(node, traces, layout);
}

export function predictionChart(payload, colour, scale, narrow, look = "whole") {
  const traces = [];
  if (payload.rival?.solid) traces.push(...rivalTraces(payload.rival, colour));
  if (payload.fit?.solid) traces.push(...fitTraces(payload.fit, colour));
  for (const role of ["excluded", "fitted", "after"]) traces.push(pointTrace(payload, role, colour, NAMES[role]));
  if (payload.start && scale === "linear") traces.push(startTrace(payload.start, colour));
  if (payload.claim && payload.claim.value !== null) traces.push(claimTrace(payload, colour));
  if (payload.outcomes.some((one) => one.actual !== null)) traces.push(outcomeTrace(payload, colour));
  const layout = baseLayout(colour, payload.x, scale, ...rangesOf(payload, scale, look));
  layout.uirevision = `${scale} ${look}`;
  layout.shapes = shapes(payload, colour);
  layout.annotations = [...claimWords(payload, colour, narrow, scale), ...numbers(payload, colour, scale)];
  if (payload.residuals) {
    const said = { title: "evaluation minus frozen curve", against: "the frozen curve", unit: payload.x.short };
    addResiduals({ traces, layout }, payload.residuals, said, colour);
  }
  return { traces, layout };
}

function fitTraces(fit, colour) {
  return [
    ...band(fit.band.x, fit.band.lo, fit.band.hi, faded(colour.c1, 0.14)),
    { ...line(fit.solid.x, fit.solid.y, colour.c1), name: "frozen curve" },
    { ...line(fit.dashed.x, fit.dashed.y, colour.c1, "6px,5px"), name: "frozen extrapolation" },
  ];
}

function rivalTraces(rival, colour) {
  return [
    ...band(rival.band.x, rival.band.lo, rival.band.hi, faded(colour.c3, 0.1)),
    { ...line(rival.solid.x, rival.solid.y, colour.c3), name: rival.label },
    { ...line(rival.dashed.x, rival.dashed.y, colour.c3, "6px,5px"), name: `${rival.label}, beyond` },
  ];
}

/** The whisker of the claim, at its target. */
function claimTrace({ claim }, colour) {
  const [hi, lo] = [claim.hi === null ? 0 : claim.hi - claim.value, claim.lo === null ? 0 : claim.value - claim.lo];
  return {
    name: "claim", x: [claim.x], y: [claim.value], mode: "markers", cliponaxis: false,
    error_y: { type: "data", symmetric: false, array: [hi], arrayminus: [lo], color: colour.accent, thickness: 3, width: 8 },
    marker: { symbol: "diamond", size: 11, color: colour.accent, line: { color: colour.card, width: 1 } },
    text: [claim.text], hovertemplate: "claimed <b>%{text}</b><extra></extra>",
  };
}

function outcomeTrace({ outcomes, claim }, colour) {
  const shown = outcomes.filter((one) => one.actual !== null);
  const arm = (one, end) => (one[end] === null ? 0 : Math.abs(one[end] - one.actual));
  return {
    name: "outcome", x: shown.map(() => claim.x), y: shown.map((one) => one.actual), mode: "markers", cliponaxis: false,
    error_y: { type: "data", symmetric: false, array: shown.map((one) => arm(one, "hi")), arrayminus: shown.map((one) => arm(one, "lo")), color: colour.c2, thickness: 1.6, width: 5 },
    marker: { symbol: shown.map((one) => (one.good ? "square" : "x")), size: 10, color: colour.c2, line: { color: colour.card, width: 1 } },
    text: shown.map((one) => `${one.label} ${one.text}`), hovertemplate: "%{text}<extra></extra>",
  };
}

/** The whole curve, or what lies near the target: there the interval of a claim can be seen. */
function rangesOf(payload, scale, look) {
  const [x, y] = [xRange(payload, scale), yRange(payload)];
  if (look !== "target" || !payload.claim) return [x, y];
  const near = [Math.min(payload.known_until, payload.claim.x) * 0.6, x[1]];
  const keep = ({ x: xs, y: ys }) => ys.filter((_, index) => xs[index] >= near[0]);
  const cut = (drawn) => (drawn?.solid ? { ...drawn, solid: { x: [], y: keep(drawn.solid) }, dashed: { x: [], y: keep(drawn.dashed) } } : drawn);
  const seen = { ...payload, start: null, points: { ...payload.points, y: keep(payload.points) }, fit: cut(payload.fit), rival: cut(payload.rival) };
  return [near, yRange(seen, 0.006)];
}

function xRange({ points, fit, claim, known_until: known }, scale) {
  const first = points.x[0] ?? (known || 1) / 10;
  const last = Math.max(points.x.at(-1) ?? 0, fit?.dashed?.x.at(-1) ?? 0, (claim?.x ?? 0) * 1.08, first * 2);
  return scale === "log" ? [first * 0.8, last * 1.05] : [0, last * 1.03];
}

function yRange({ points, fit, claim, outcomes, start, rival }, least = 0.02) {
  const seen = [...points.y];
  for (const drawn of [fit, rival]) if (drawn?.solid) seen.push(...drawn.solid.y, ...drawn.dashed.y);
  if (claim) seen.push(claim.value, claim.lo, claim.hi);
  for (const one of outcomes) seen.push(one.actual, one.lo, one.hi);
  if (start) seen.push(start.y);
  const known = seen.filter((value) => value !== null && value !== undefined);
  if (!known.length) return [0, 1];
  const [lo, hi] = [Math.min(...known), Math.max(...known)];
  const pad = Math.max(least, (hi - lo) * 0.08);
  return [lo - pad, hi + pad * 1.8];
}

function shapes(payload, colour) {
  const found = payload.fit?.window ? windowShape(payload, colour) : [];
  const upright = (x, style) => ({ type: "line", yref: "y domain", x0: x, x1: x, y0: 0, y1: 1, line: { width: 1, ...style }, layer: "below" });
  if (payload.known_until) found.push(upright(payload.known_until, { color: colour["ink-3"], dash: "2px,3px" }));
  const { claim } = payload;
  if (!claim) return found;
  found.push(upright(claim.x, { color: colour.accent, dash: "2px,4px" }));
  if (claim.statement === "ceiling" && claim.lo !== null && claim.hi !== null) {
    const box = { type: "rect", x0: payload.known_until, xref: "x", x1: claim.x, y0: claim.lo, y1: claim.hi, line: { width: 0 }, layer: "below" };
    found.push({ ...box, fillcolor: faded(colour.accent, 0.1) });
  }
  return found;
}

const place = (x, scale) => (scale === "log" ? Math.log10(x) : x);

function claimWords({ claim, known_until: known, fit }, colour, narrow, scale) {
  const quiet = { showarrow: false, font: { color: colour["ink-3"], size: 11 }, yref: "y domain", xref: "x" };
  const found = [];
  if (known && fit) found.push({ ...quiet, x: place(known, scale), xanchor: "right", xshift: -4, y: 0, yanchor: "bottom", text: narrow ? "known" : "known when frozen" });
  if (claim) found.push({ ...quiet, font: { color: colour.accent, size: 11 }, x: place(claim.x, scale), xanchor: "right", xshift: -6, y: 1, yanchor: "top", text: narrow ? "target" : `target: ${claim.text}` });
  return found;
}

/** Threads that are about a point: their numbers above it, which lead to them. */
function numbers({ anchors }, colour, scale) {
  return anchors.map(({ thread, number, x, y, resolved }) => ({
    x: place(x, scale), y, xref: "x", yref: "y", text: String(number), name: `thread-${thread}`, captureevents: true,
    showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: colour["ink-3"], ax: 0, ay: -26, borderpad: 3, borderwidth: 1,
    bordercolor: resolved ? colour.line : colour.accent, bgcolor: colour.card,
    font: { size: 11, color: resolved ? colour["ink-3"] : colour.accent },
  }));
}
