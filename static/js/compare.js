// Comparison: curves overlaid, told apart by colour and by shape. The choice is a form whose state is the URL.
import { CONFIG, SYMBOLS, band, baseLayout, keepTicks, line } from "./chart.js";
import { amount, colours, faded } from "./format.js";

const form = document.getElementById("choice");
const chart = document.getElementById("chart");
const data = document.getElementById("comparison");
let scale = new URLSearchParams(location.search).get("scale") === "linear" ? "linear" : "log";

function send() {
  for (const select of form.querySelectorAll("select")) if (!select.value) select.disabled = true;
  form.requestSubmit();
}
form.addEventListener("change", send);
form.addEventListener("click", (event) => {
  const button = event.target.closest("[data-remove]");
  if (!button) return;
  button.closest(".chip").remove();
  send();
});

function seriesTraces(series, index, colour, short) {
  const ink = colour[`c${(index % 6) + 1}`];
  const published = series.kind === "published";
  const traces = [];
  const { fit, points } = series;
  if (fit?.lo) traces.push(...band(fit.x, fit.lo, fit.hi, faded(ink, 0.12)));
  if (fit) traces.push(...fitLines(fit, ink, published));
  if (points) {
    traces.push({
      x: points.x, y: points.y, mode: "markers", name: series.label, cliponaxis: false,
      marker: { symbol: SYMBOLS[index % 6], size: 6, color: ink, opacity: 0.75 },
      text: points.x.map((x) => `${amount(x)} ${short}`),
      hovertemplate: `<b>%{y:.3f}</b> at %{text}<br>${series.label}<extra></extra>`,
    });
  }
  return traces;
}

/** Solid as far as points were fitted, dashed beyond; a published curve has no points here and is dotted. */
function fitLines(fit, ink, published) {
  if (published || fit.solid_until === null) return [line(fit.x, fit.y, ink, "2px,3px")];
  const split = fit.x.findIndex((x) => x > fit.solid_until);
  const at = split < 0 ? fit.x.length : split;
  return [line(fit.x.slice(0, at), fit.y.slice(0, at), ink), line(fit.x.slice(at - 1), fit.y.slice(at - 1), ink, "6px,5px")];
}

function ranges(payload) {
  const xs = payload.series.flatMap((s) => [...(s.points?.x ?? []), ...(s.fit?.x ?? [])]);
  const ys = payload.series.flatMap((s) => [...(s.points?.y ?? []), ...(s.fit?.y ?? [])]);
  if (!xs.length) return { x: [0.01, 1], y: [0, 1] };
  const [lo, hi] = [Math.min(...ys), Math.max(...ys)];
  const pad = Math.max(0.02, (hi - lo) * 0.06);
  return { x: [scale === "log" ? Math.min(...xs) * 0.9 : 0, Math.max(...xs) * 1.03], y: [lo - pad, hi + pad] };
}

function draw() {
  const payload = JSON.parse(data.textContent);
  const colour = colours();
  const traces = payload.series.flatMap((series, index) => seriesTraces(series, index, colour, payload.x.short));
  const range = ranges(payload);
  const layout = baseLayout(colour, payload.x, scale, range.x, range.y);
  if (!traces.length) {
    layout.annotations = [{
      xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, font: { size: 13, color: colour["ink-2"] },
      text: payload.view === "rate" ? "Nothing to draw as a pass rate: switch to the share of the gain" : "No curve with an identified ceiling yet",
    }];
  }
  const first = !chart._fullLayout;
  window.Plotly.react(chart, traces, layout, CONFIG);
  if (first) keepTicks(chart);
  for (const button of document.querySelectorAll("[data-scale]")) {
    button.setAttribute("aria-pressed", String(button.dataset.scale === scale));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-scale]");
  if (!button) return;
  scale = button.dataset.scale;
  const url = new URL(location);
  if (scale === "log") url.searchParams.delete("scale");
  else url.searchParams.set("scale", scale);
  history.replaceState(null, "", url);
  draw();
});
if (data) {
  document.addEventListener("theme-changed", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
