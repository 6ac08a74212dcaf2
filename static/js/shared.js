// A shared chart, for readers without an account: it has none of the shell; the colours follow the reader's system.
import "./copy.js";
import "./downloads.js";
import { keepDrawn } from "./drawing.js";
import "./print.js";
import "./times.js";

const chart = document.getElementById("chart");
if (chart) keepDrawn(chart, JSON.parse(document.getElementById("drawing").textContent));
