// The calibration page's charts: observed coverage with its interval against what was claimed. Numbers are the server's.
import { baseLayout, line } from "./chart.js";
import { colours } from "./format.js";
import * as plot from "./plot.js";

const figure = JSON.parse(document.getElementById("figure")?.textContent ?? "null");
const percent = (value) => `${Math.round(100 * value)} %`;
const TICKS = { tickmode: "array", tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ["0 %", "25 %", "50 %", "75 %", "100 %"] };

function bars(rows, of, ink) {
  return { type: "data", symmetric: false, array: rows.map((row) => row.hi - row[of]), arrayminus: rows.map((row) => row[of] - row.lo), color: ink, thickness: 1.6, width: 5 };
}

function layoutOf(colour, title, yTitle) {
  const layout = baseLayout(colour, { key: title, label: title }, "linear", [0, 1], [-0.02, 1.04]);
  Object.assign(layout.yaxis, TICKS, { title: { text: yTitle, standoff: 6 } });
  layout.margin = { ...layout.margin, l: 62 };
  layout.dragmode = false;
  return layout;
}

function coverage(colour) {
  const { rows } = figure;
  const isLevel = figure.by === "level";
  const x = rows.map((row) => (isLevel ? row.claimed : row.label));
  const layout = layoutOf(colour, isLevel ? "Claimed" : figure.title, "Observed inside");
  const traces = [];
  if (isLevel) {
    Object.assign(layout.xaxis, { range: [0.45, 1.02], tickmode: "array", tickvals: [0.5, 0.6, 0.7, 0.8, 0.9, 1], ticktext: ["50 %", "60 %", "70 %", "80 %", "90 %", "100 %"] });
    traces.push({ ...line([0.4, 1], [0.4, 1], colour.accent, "3px,4px"), name: "as claimed" });
  } else {
    layout.xaxis = { type: "category", range: [-0.5, x.length - 0.5], title: { text: figure.title[0].toUpperCase() + figure.title.slice(1), standoff: 8 }, automargin: true, showgrid: false, zeroline: false };
    traces.push({
      name: "as claimed", x, y: rows.map((row) => row.claimed), mode: "markers", hoverinfo: "skip",
      marker: { symbol: "line-ew", size: 26, line: { color: colour.accent, width: 1.6 } },
    });
  }
  for (const few of [false, true]) traces.push(observed(rows, x, few, colour));
  draw("calibration-chart", traces, layout);
}

function observed(rows, x, few, colour) {
  const chosen = rows.flatMap((row, index) => (row.few === few ? [index] : []));
  const own = chosen.map((index) => rows[index]);
  const ink = few ? colour.mark : colour.c1;
  return {
    name: few ? "too few to say" : "observed", x: chosen.map((index) => x[index]), y: own.map((row) => row.observed), mode: "markers",
    error_y: bars(own, "observed", ink), cliponaxis: false,
    marker: few ? { size: 8, color: colour.card, line: { color: ink, width: 1.6 } } : { size: 9, color: ink },
    text: own.map((row) => `${row.label}: <b>${percent(row.observed)}</b>, ${row.text}<br>claimed ${percent(row.claimed)}`), hovertemplate: "%{text}<extra></extra>",
  };
}

function probabilities(colour) {
  const { bins } = figure;
  const layout = layoutOf(colour, "Probability given", "Happened");
  Object.assign(layout.xaxis, { range: [0, 1], ...TICKS });
  const traces = [{ ...line([0, 1], [0, 1], colour.accent, "3px,4px"), name: "as claimed" }, {
    name: "happened", x: bins.map((one) => one.mean), y: bins.map((one) => one.happened), mode: "markers", cliponaxis: false,
    error_y: bars(bins, "happened", colour.c1), marker: { size: 9, color: colour.c1 },
    text: bins.map((one) => `${one.n} claims`), hovertemplate: "%{text}<extra></extra>",
  }];
  draw("probability-chart", traces, layout);
}

function draw(id, traces, layout) {
  const node = document.getElementById(id);
  if (node) plot.draw(node, traces, layout);
}

function drawAll() {
  if (!figure) return;
  const colour = colours();
  coverage(colour);
  probabilities(colour);
}

document.addEventListener("theme-changed", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
