// The example chart on the page of all components: the language of every chart, with invented numbers.
import { CONFIG, band, baseLayout, keepTicks, line } from "./chart.js";
import { colours, faded } from "./format.js";

const chart = document.getElementById("chart");
const { x, y, fit, lo, hi, cutoff } = JSON.parse(document.getElementById("example").textContent);
const until = x.filter((each) => each <= cutoff).length;

function draw() {
  const colour = colours();
  const fitted = { x: x.slice(0, until), y: y.slice(0, until), mode: "markers", name: "fitted", marker: { size: 7, color: colour.c1 } };
  const after = {
    x: x.slice(until), y: y.slice(until), mode: "markers", name: "after the cutoff",
    marker: { size: 7, color: colour.card, line: { color: colour.c2, width: 1.6 } },
  };
  const traces = [
    ...band(x, lo, hi, faded(colour.c1, 0.14)),
    line(x.slice(0, until), fit.slice(0, until), colour.c1),
    line(x.slice(until - 1), fit.slice(until - 1), colour.c1, "6px,5px"), fitted, after,
  ];
  const first = !chart._fullLayout;
  window.Plotly.react(chart, traces, baseLayout(colour, { key: "device_hours", label: "Device-hours" }, "log", [0.45, 9], [0.22, 0.66]), CONFIG);
  if (first) keepTicks(chart);
}

document.addEventListener("theme-changed", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
