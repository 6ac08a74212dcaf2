// The charts of a report, on its page, on its link and in its preview.
import "./downloads.js";
import { keepDrawn } from "./drawing.js";
import "./print.js";

/** Draws the charts of a part of the page. */
export function drawCharts(part) {
  for (const chart of part.querySelectorAll(".report-chart")) {
    keepDrawn(chart, JSON.parse(document.getElementById(chart.dataset.drawing).textContent));
  }
}

drawCharts(document);
