// Paper is white: while a page is printed it and its charts have the light theme, whatever the reader's is.
const root = document.documentElement;
let before = null; // the theme to go back to; "" is the system's

function changed() {
  document.dispatchEvent(new CustomEvent("theme-changed"));
}

document.addEventListener("click", (event) => { if (event.target.closest("[data-print]")) window.print(); });
window.addEventListener("beforeprint", () => {
  if (before !== null) return;
  before = root.dataset.theme ?? "";
  root.dataset.theme = "light";
  changed();
});
window.addEventListener("afterprint", () => {
  if (before === null) return;
  if (before) root.dataset.theme = before;
  else delete root.dataset.theme;
  before = null;
  changed();
  for (const chart of document.querySelectorAll(".js-plotly-plot")) window.Plotly?.Plots.resize(chart);
});
