// Paper is white and small: while a page is printed it and its charts have the light theme, whatever the reader's is, and
// no chart is wider than the paper or takes all of it.
const root = document.documentElement;
const MOST = { width: 650, height: 300 }; // pixels: A4 upright without its margins and those of a card; as in components.css
let before = null; // the theme to go back to; "" is the system's

/** `most` is null for the screen. */
function changed(most) {
  document.dispatchEvent(new CustomEvent("theme-changed"));
  document.dispatchEvent(new CustomEvent("print-size", { detail: most })); // for plot.js
}

document.addEventListener("click", (event) => { if (event.target.closest("[data-print]")) window.print(); });
window.addEventListener("beforeprint", () => {
  if (before !== null) return;
  before = root.dataset.theme ?? "";
  root.dataset.theme = "light";
  changed(MOST);
});
window.addEventListener("afterprint", () => {
  if (before === null) return;
  if (before) root.dataset.theme = before;
  else delete root.dataset.theme;
  before = null;
  changed(null);
});
