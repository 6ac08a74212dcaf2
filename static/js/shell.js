// What every page has: theme toggle, dialogs, copy buttons, ages that stay true, forms that send themselves.
import { ageText } from "./format.js";

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

function showTheme() {
  for (const button of document.querySelectorAll("[data-theme-toggle]")) {
    button.textContent = `Theme: ${currentTheme()}`;
  }
}

async function copyText(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

function refreshAges() {
  for (const node of document.querySelectorAll("time[data-age]")) {
    node.textContent = ageText(new Date(node.dateTime));
    node.title = new Date(node.dateTime).toLocaleString();
  }
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-theme-toggle], [data-copy], [data-open-dialog], [data-close-dialog]");
  if (!target) return;
  if ("themeToggle" in target.dataset) setTheme(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]);
  if ("copy" in target.dataset) copyText(target);
  if ("openDialog" in target.dataset) document.getElementById(target.dataset.openDialog).showModal();
  if ("closeDialog" in target.dataset) target.closest("dialog").close();
});

document.addEventListener("change", (event) => {
  if (event.target.closest("form[data-send-on-change]")) event.target.form.requestSubmit();
});

// A second click while the first is on its way sends nothing; the idempotency key covers the rest.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-send-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-send-once]")) delete form.dataset.sent;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  const search = document.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.focus(); }
});

document.addEventListener("htmx:afterSettle", refreshAges);
document.addEventListener("htmx:beforeRequest", (event) => {
  // Polls rest while nobody looks.
  if (document.hidden && event.detail.elt.matches("[data-poll]")) event.preventDefault();
});
showTheme();
refreshAges();
setInterval(refreshAges, 30_000);
