// A drawing of the server (webapp/shares/drawing.py) as a chart: on shared pages, and between the lines of reports.
import { band, baseLayout, line, symbolOf } from "./chart.js";
import { amount, colours, faded } from "./format.js";
import * as plot from "./plot.js";

const DASHES = { solid: "solid", dashed: "6px,5px", dotted: "2px,3px" };

const inkOf = (series, colour) => colour[`c${(series % 6) + 1}`];

function traces(drawing, colour) {
  const bands = drawing.bands.flatMap((each) => band(each.x, each.lo, each.hi, faded(inkOf(each.series, colour), 0.14)));
  const lines = drawing.lines.map((each) => line(each.x, each.y, inkOf(each.series, colour), DASHES[each.style]));
  const points = drawing.points.map((each) => pointTrace(each, drawing, colour));
  return [...bands, ...lines, ...points, ...(drawing.target ? targetTraces(drawing.target, colour) : [])];
}

/** A claim with its interval at its target, and what came there. */
function targetTraces({ x, value, lo, hi, words, came }, colour) {
  const whisker = lo === null || hi === null ? {} : { type: "data", symmetric: false, array: [hi - value], arrayminus: [value - lo], color: colour.accent, thickness: 2, width: 6 };
  const claim = {
    name: "claim", x: [x], y: [value], mode: "markers", cliponaxis: false, error_y: whisker,
    marker: { symbol: "diamond", size: 10, color: colour.accent }, text: [words], hovertemplate: "<b>%{text}</b><extra></extra>",
  };
  const outcomes = {
    name: "came", x: came.map(() => x), y: came, mode: "markers", cliponaxis: false,
    marker: { symbol: "square", size: 9, color: colour.c2 }, hovertemplate: "came at <b>%{y:.3f}</b><extra></extra>",
  };
  return [...(value === null ? [] : [claim]), ...(came.length ? [outcomes] : [])];
}

function pointTrace({ x, y, series, role, label }, drawing, colour) {
  return {
    x, y, name: label, mode: "markers", cliponaxis: false, marker: marker(series, role, colour),
    text: x.map((value) => `${amount(value)} ${drawing.x_label.toLowerCase()}`),
    hovertemplate: `<b>%{y:.3f}</b> at %{text}<extra></extra>`,
  };
}

function marker(series, role, colour) {
  if (role === "fitted") return { symbol: symbolOf(series), size: 7, color: inkOf(series, colour), line: { width: 0 } };
  if (role === "outlier") return { symbol: "x-thin", size: 9, line: { color: colour.bad, width: 2 } };
  const ink = role === "after" ? inkOf(series, colour) : colour.mark;
  return { size: 7, color: colour.card, line: { color: ink, width: 1.5 } };
}

function layout(drawing, chart, colour) {
  const axis = { key: drawing.x_label, label: drawing.x_label };
  const found = baseLayout(colour, axis, drawing.scale, drawing.x_range, drawing.y_range);
  found.dragmode = false;
  found.shapes = shapes(drawing, colour);
  found.annotations = ceilingWords(drawing, chart, colour);
  return found;
}

function shapes(drawing, colour) {
  const found = [];
  if (drawing.window) {
    const [x0, x1] = drawing.window;
    found.push({ type: "rect", yref: "y domain", x0, x1, y0: 0, y1: 1, line: { width: 0 }, fillcolor: faded(colour.accent, 0.05), layer: "below" });
  }
  const { ceiling, target } = drawing;
  if (target) found.push({ type: "line", yref: "y domain", x0: target.x, x1: target.x, y0: 0, y1: 1, line: { color: colour.accent, width: 1, dash: "2px,4px" } });
  if (ceiling && ceiling.height !== null) {
    const ink = ceiling.identified ? colour.accent : colour.mark;
    found.push({ type: "line", xref: "x domain", x0: 0, x1: 1, y0: ceiling.height, y1: ceiling.height, line: { color: ink, width: 1, dash: "2px,4px" } });
  }
  return found;
}

function ceilingWords(drawing, chart, colour) {
  const { ceiling } = drawing;
  if (!ceiling) return [];
  const words = chart.clientWidth < 480 ? ceiling.words.replace(/^(forecast )?ceiling /, "") : ceiling.words;
  if (ceiling.height === null) {
    return [{
      xref: "x domain", x: 0.01, xanchor: "left", yref: "y domain", y: 1, yanchor: "top", showarrow: false,
      text: words, font: { color: colour["ink-3"], size: 11 },
    }];
  }
  return [{
    xref: "x domain", x: 0.01, xanchor: "left", y: ceiling.height, yanchor: "bottom", showarrow: false,
    text: ceiling.identified ? words : `↑ ${words}`, font: { color: ceiling.identified ? colour.accent : colour["ink-3"], size: 11 },
  }];
}

/** Draws into `chart`, again whenever the reader's colours change, as long as it is on the page. */
export function keepDrawn(chart, drawing) {
  const draw = () => {
    if (!chart.isConnected) return;
    const colour = colours();
    plot.draw(chart, traces(drawing, colour), layout(drawing, chart, colour));
  };
  document.addEventListener("theme-changed", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
