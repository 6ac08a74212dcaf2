// What every page has: themes, dialogs, times, forms, keys, the palette, and word of the server. Each has its module.
import "./times.js";
import "./copy.js";
import "./focus.js";
import "./forms.js";
import "./progress.js";
import "./connection.js";
import "./print.js";
import { addKey, showKeys } from "./keys.js";
import { addAction, openPalette } from "./palette.js";

// MLflow's clients print such addresses of a run and of its experiment. What stands behind # never reaches the server.
const printed = location.hash.match(/^#\/experiments\/(\w+)(?:\/runs\/([0-9a-f]{32})(?![0-9a-f]))?/);
if (printed) location.replace(printed[2] ? `/runs/${printed[2]}` : `/runs?filter=experiment:${printed[1]}`);

const THEMES = ["system", "light", "dark"];

function currentTheme() {
  return document.documentElement.dataset.theme ?? "system";
}

function setTheme(theme) {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("headroom-theme");
  } else {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("headroom-theme", theme);
  }
  showTheme();
  document.dispatchEvent(new CustomEvent("theme-changed"));
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]);
}

function showTheme() {
  for (const button of document.querySelectorAll("[data-theme-toggle]")) button.textContent = `Theme: ${currentTheme()}`;
}

/** Rows closer to each other, in this browser. */
function nextDensity() {
  const compact = document.documentElement.dataset.density !== "compact";
  if (compact) document.documentElement.dataset.density = "compact";
  else delete document.documentElement.dataset.density;
  localStorage.setItem("headroom-density", compact ? "compact" : "");
  showDensity();
}

function showDensity() {
  for (const button of document.querySelectorAll("[data-density-toggle]")) button.textContent = `Rows: ${document.documentElement.dataset.density ?? "roomy"}`;
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-theme-toggle], [data-density-toggle], [data-open-palette], [data-open-keys]");
  if (!target) return;
  if ("themeToggle" in target.dataset) nextTheme();
  if ("densityToggle" in target.dataset) nextDensity();
  if ("openPalette" in target.dataset) openPalette();
  if ("openKeys" in target.dataset) showKeys();
});

// A theme that is chosen in one tab is the theme of all.
window.addEventListener("storage", (event) => {
  if (event.key === "headroom-theme" || event.key === null) setTheme(event.newValue ?? "system");
});

if (document.querySelector("[data-theme-toggle]")) addKey("t", "Change the theme", nextTheme, "Everywhere");
if (document.getElementById("palette-template")) {
  addKey("Ctrl-K", "Command palette", () => openPalette(), "Everywhere");
  addKey("/", "Search everything", () => openPalette(), "Everywhere");
}
addAction("theme", nextTheme);
addAction("keys", showKeys);
showTheme();
showDensity();
