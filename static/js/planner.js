// The planner's chart: expected pass rate against budget, with bands; budget and target as lines.
import { band, baseLayout, line, symbolOf } from "./chart.js";
import { amount, colours, faded } from "./format.js";
import * as plot from "./plot.js";

const chart = document.getElementById("plan-chart");
const data = JSON.parse(document.getElementById("plan-data").textContent);
const HOURS = { key: "device_hours", label: "Device-hours", short: "h" };

function traces(series, index, colour) {
  const own = colour[`c${(index % 6) + 1}`];
  const split = series.x.findIndex((x) => x > series.solid_until);
  const at = split < 0 ? series.x.length : split;
  const drawn = [
    ...band(series.x, series.lo, series.hi, faded(own, 0.1), {}, series.name),
    { ...line(series.x.slice(0, at), series.y.slice(0, at), own), name: `${series.name}, fit` },
  ];
  if (split >= 0) drawn.push({ ...line(series.x.slice(at - 1), series.y.slice(at - 1), own, "6px,5px"), name: `${series.name}, predicted` });
  const end = Math.max(0, at - 1); // the shape stands where the evaluations end
  drawn.push({
    x: [series.x[end]], y: [series.y[end]], mode: "markers", name: `${series.name}, last evaluation`,
    legendgroup: series.name, showlegend: true, marker: { symbol: symbolOf(index), size: 9, color: own },
    hovertemplate: `<b>%{y:.3f}</b> at ${amount(series.x[end])} h<br>${series.name}<extra></extra>`,
  });
  return drawn;
}

function draw() {
  const colour = colours();
  const xs = data.series.flatMap((s) => s.x);
  const ys = data.series.flatMap((s) => [...s.y.filter((y) => y !== null), s.lo.at(-1), s.hi.at(-1)]);
  const [lo, hi] = [Math.min(...ys, data.target), Math.max(...ys, data.target)];
  const pad = Math.max(0.02, (hi - lo) * 0.06);
  const layout = baseLayout(colour, HOURS, "log", [Math.min(...xs) * 0.9, Math.max(...xs)], [lo - pad, hi + pad]);
  const rule = { type: "line", line: { color: colour.accent, width: 1.2, dash: "2px,3px" } };
  layout.shapes = [
    { ...rule, yref: "y domain", y0: 0, y1: 1, x0: data.budget, x1: data.budget },
    { ...rule, xref: "x domain", x0: 0, x1: 1, y0: data.target, y1: data.target },
  ];
  const note = { showarrow: false, font: { size: 11, color: colour.accent }, bgcolor: faded(colour.card, 0.85) };
  layout.annotations = [
    { ...note, x: Math.log10(data.budget), xanchor: "right", yref: "y domain", y: 0.02, yanchor: "bottom", text: `budget ${amount(data.budget)} h` },
    { ...note, xref: "x domain", x: 0, xanchor: "left", y: data.target, yanchor: "bottom", text: `target ${data.target}` },
  ];
  plot.draw(chart, data.series.flatMap((series, index) => traces(series, index, colour)), layout);
}

/** The address holds only what was chosen: no number or run that the server proposed. */
document.getElementById("plan").addEventListener("formdata", ({ formData }) => {
  const form = document.getElementById("plan");
  for (const input of form.querySelectorAll("input[data-default]:not([type=checkbox])")) {
    if (input.value === input.dataset.default) formData.delete(input.name);
  }
  const proposed = form.querySelectorAll("input[name=run][data-default]");
  const ticked = form.querySelectorAll("input[name=run]:checked");
  const untouched = [...proposed].every((box) => box.checked) && ticked.length === proposed.length;
  if (proposed.length && untouched) formData.delete("run");
});

document.addEventListener("theme-changed", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
