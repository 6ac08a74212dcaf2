// The form that freezes a fit: the claim is drawn as it is typed. Numbers that the person typed are kept; until then they
// are the forecast's own and follow the target. The server says all of it (templates/predictions/_preview.html).
import { draw } from "./prediction_chart.js";

const form = document.getElementById("claim-form");
const chart = document.getElementById("preview-chart");
const own = form.elements.own;
const OWN = new Set(["value", "lo_claim", "hi_claim", "probability"]);

function redraw() {
  const data = document.getElementById("preview-figure");
  if (data) draw(chart, JSON.parse(data.textContent), "log");
}

form.addEventListener("input", ({ target }) => {
  if (!OWN.has(target.name)) return;
  own.value = "1";
  document.getElementById(`${target.id}_error`)?.remove(); // was of what stood there
});

// An answer that was asked for before the person typed would put the forecast's own numbers over theirs.
let askedAsOwn = "";
form.addEventListener("htmx:configRequest", ({ detail }) => { askedAsOwn = detail.parameters.own; });
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  if (event.detail.target.id === "claim-values" && own.value !== askedAsOwn) event.detail.shouldSwap = false;
});

form.addEventListener("click", (event) => {
  if (!event.target.closest("[data-use-fit]")) return;
  own.value = "";
  window.htmx.trigger(form, "fits");
});

document.addEventListener("htmx:afterSettle", redraw);
document.addEventListener("theme-changed", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
redraw();
