// Runs list: what is ticked stays ticked while the table refreshes, sorts and pages; actions on it; what changed.
import "./filterbox.js";
import { inTime } from "./connection.js";
import { holdFocus } from "./focus.js";
import { grouped } from "./format.js";
import { keepAsking } from "./live.js";

const form = document.getElementById("bulk-form");
const dialog = document.getElementById("bulk-dialog");
const ticked = new Set();
let everything = false; // all that the filter leaves, not only what is ticked
let lastTicked = null;

const boxes = () => [...document.querySelectorAll("input[name=run][form=bulk-form]")];
const table = () => document.getElementById("table");
const total = () => Number(table()?.dataset.total ?? 0);
const most = () => ("more" in (table()?.dataset ?? {}) ? `more than ${grouped(total() - 1)}` : `all ${grouped(total())}`); // beyond it nobody counts

function show() {
  const here = boxes();
  for (const box of here) box.checked = everything || ticked.has(box.value);
  const shown = here.filter((box) => box.checked).length;
  const count = everything ? total() : ticked.size;
  form.elements.runs.value = everything ? "" : [...ticked].join(",");
  form.elements.all.value = everything ? "1" : "";
  for (const button of form.querySelectorAll("[data-least]")) button.hidden = count < Number(button.dataset.least);
  document.getElementById("ticked").textContent = words(count, shown);
  offerAll(here, shown);
}

function words(count, shown) {
  if (!count) return "";
  if (everything) return `Chosen: ${most()} that match`;
  return count > shown ? `${grouped(count)} ticked, ${grouped(count - shown)} of them not shown` : `${grouped(count)} ticked`;
}

function offerAll(here, shown) {
  const all = document.getElementById("tick-all");
  all.hidden = everything || !shown || shown < here.length || total() <= here.length;
  all.textContent = `Choose ${most()} that match`;
  document.getElementById("tick-none").hidden = !everything && !ticked.size;
  const page = document.getElementById("tick-page");
  if (!page) return;
  page.checked = here.length > 0 && shown === here.length;
  page.indeterminate = shown > 0 && shown < here.length;
}

function tick(values, on) {
  if (everything) for (const box of boxes()) ticked.add(box.value); // from here on one by one
  everything = false;
  for (const value of values) { if (on) ticked.add(value); else ticked.delete(value); }
  show();
}

function between(first, last) {
  const values = boxes().map((box) => box.value);
  const [from, to] = [values.indexOf(first), values.indexOf(last)].sort((a, b) => a - b);
  return from < 0 ? [last] : values.slice(from, to + 1);
}

document.addEventListener("click", (event) => {
  const box = event.target.closest("input[name=run][form=bulk-form]");
  if (box) {
    tick(event.shiftKey && lastTicked ? between(lastTicked, box.value) : [box.value], box.checked);
    lastTicked = box.value;
  }
  if (event.target.id === "tick-page") tick(boxes().map((one) => one.value), event.target.checked);
  if (event.target.id === "tick-all") { everything = true; show(); }
  if (event.target.id === "tick-none") { everything = false; ticked.clear(); show(); }
  if (event.target.closest("#bulk-dialog [data-cancel]")) { event.preventDefault(); dialog.close(); }
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target === dialog) {
    dialog.showModal();
    (dialog.querySelector("input[name=tag]") ?? dialog.querySelector("[data-cancel]")).focus();
  } else if (form) {
    everything = false; // another filter leaves other runs
    document.getElementById("filter").removeAttribute("aria-invalid");
    show();
  }
});
// The box says what the table shows, also when it was sorted or paged while a wrong filter stood there.
document.addEventListener("htmx:afterSettle", ({ detail, target }) => {
  const asker = detail?.requestConfig?.elt;
  if (form && asker && asker.id !== "filters" && target.id === "runs") document.getElementById("filter").value = form.elements.filter.value;
});
document.addEventListener("htmx:oobAfterSwap", () => {
  const wrong = document.querySelector("[data-filter-error]");
  document.getElementById("filter")?.toggleAttribute("aria-invalid", Boolean(wrong));
  if (wrong) document.getElementById("filter").setAttribute("aria-invalid", "true");
});

// A column goes to the other side of the next one that is shown.
document.getElementById("columns")?.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-move]");
  if (!button) return;
  const item = button.closest("li");
  const shown = [...item.parentElement.children].filter((each) => each.querySelector(":checked"));
  const other = shown[shown.indexOf(item) + Number(button.dataset.move)];
  if (!other) return;
  if (button.dataset.move === "1") other.after(item); else other.before(item);
  button.focus();
  item.dispatchEvent(new Event("change", { bubbles: true }));
});

// The address holds only what differs from the default; with a saved view it says all that was asked for.
document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.elt.id !== "filters") return;
  const data = detail.formData;
  const columns = [...data.getAll("columns"), ...(data.get("setting") ?? "").split(",").map((key) => key.trim())].filter(Boolean);
  data.delete("setting");
  data.delete("columns");
  const chosen = columns.join(",");
  if (data.has("view") || chosen !== document.getElementById("columns").dataset.default) data.append("columns", chosen);
  if (data.has("view")) return;
  for (const [name, value] of [...data]) if (!value) data.delete(name);
});

// --- what changed since ---------------------------------------------------------------------------------------

async function ask() {
  const here = table();
  if (!here?.dataset.cursor) return;
  const known = here.dataset.cursor;
  const headers = { "HX-Request": "true", "X-Cursor": known };
  const response = await fetch(here.dataset.url, { headers, credentials: "same-origin", cache: "no-store", signal: inTime() });
  if (response.redirected || response.status === 401) throw Object.assign(new Error("signed out"), { signedOut: true });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.status === 204 || table() !== here || here.dataset.cursor !== known) return;
  if (response.headers.get("X-Reload")) {
    await reload(here);
    return;
  }
  exchange(await response.text());
  here.dataset.cursor = response.headers.get("X-Cursor");
  here.dataset.live = response.headers.get("X-Live");
}

// Only the table: a dialog that is open stays, and what a saved view was when this page was made stays known.
async function reload(here) {
  const headers = { "HX-Request": "true" };
  const response = await fetch(here.dataset.url, { headers, cache: "no-store", signal: inTime() });
  if (!response.ok || response.redirected || table() !== here) return;
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = parsed.getElementById("table");
  if (!fresh) return;
  const restore = holdFocus();
  here.replaceWith(document.adoptNode(fresh));
  window.htmx.process(fresh);
  settled();
  restore();
}

function settled() {
  document.dispatchEvent(new CustomEvent("htmx:afterSettle")); // ages
  show();
}

function exchange(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const restore = holdFocus();
  for (const row of parsed.querySelectorAll("tr[data-run]")) {
    document.querySelector(`tr[data-run="${row.dataset.run}"]`)?.replaceWith(document.adoptNode(row));
  }
  settled();
  restore();
}

if (form) {
  for (const box of boxes()) if (box.checked) ticked.add(box.value);
  show();
  keepAsking({
    ask,
    ended: () => table()?.dataset.live !== "yes",
  });
}
