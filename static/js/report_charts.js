// The charts of a published report: the server's picture stands there first, and can then be pointed at.
import { keepDrawn } from "./drawing.js";
import "./print.js";

for (const chart of document.querySelectorAll(".report-chart[data-drawing]")) {
  const drawing = JSON.parse(document.getElementById(chart.dataset.drawing).textContent);
  if (drawing.is_empty) continue;
  const words = chart.querySelector("svg")?.getAttribute("aria-label") ?? "";
  chart.replaceChildren();
  chart.classList.add("live");
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", words);
  keepDrawn(chart, drawing);
}
