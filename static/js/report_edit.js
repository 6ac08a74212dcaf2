// Writing a report: the draft is saved while one types, the preview follows, and two who write at once are told so.
import { addKey } from "./keys.js";
import { purge } from "./plot.js";
import { drawCharts } from "./report_charts.js";

const SAVE_MS = 1200;
const PREVIEW_MS = 600;
const RETRY_MS = 5000;
const form = document.getElementById("editor");
const { title, text, base } = form.elements;
const said = document.getElementById("saved");
const conflict = document.getElementById("conflict");
let stored = { title: title.value, text: text.value };
let theirs = null; // what somebody else saved meanwhile; nothing is sent until one of both is chosen
let saveTimer = null;
let previewTimer = null;
let saving = null;

const changed = () => title.value !== stored.title || text.value !== stored.text;
const token = () => form.elements.csrfmiddlewaretoken.value;

function body() {
  const data = new FormData();
  data.append("title", title.value);
  data.append("text", text.value);
  data.append("base", base.value);
  return data;
}

function post(url, accept) {
  return fetch(url, { method: "POST", body: body(), headers: { "X-CSRFToken": token(), Accept: accept } });
}

/** Sends what is not stored yet; true once all of it is. */
async function save() {
  clearTimeout(saveTimer);
  if (saving) await saving;
  if (theirs || !changed()) return !theirs;
  saving = send();
  const done = await saving;
  saving = null;
  return done && (!changed() || save());
}

async function send() {
  const sent = { title: title.value, text: text.value };
  said.textContent = "Saving …";
  try {
    const answer = await post(form.action, "application/json");
    const found = await answer.json();
    if (answer.status === 409 && found.theirs) return meet(found);
    if (!answer.ok) return fail(found.error?.message ?? "Not saved.");
    base.value = found.draft;
    stored = sent;
    title.defaultValue = sent.title;
    text.defaultValue = sent.text;
    said.textContent = `Saved ${new Date(found.saved_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;
    return true;
  } catch {
    saveTimer = setTimeout(save, RETRY_MS);
    return fail("Not saved: the server does not answer. It is tried again.");
  }
}

function fail(words) {
  said.textContent = words;
  return false;
}

function meet(found) {
  theirs = found.theirs;
  document.getElementById("conflict-words").textContent = found.error.message;
  document.getElementById("their-text").value = theirs.text;
  document.getElementById("conflict-choice").hidden = false;
  conflict.hidden = false;
  conflict.scrollIntoView({ block: "nearest" });
  return fail("Not saved: somebody else saved first.");
}

function settle() {
  base.value = theirs.draft;
  stored = { title: theirs.title, text: theirs.text };
  theirs = null;
  conflict.hidden = true;
}

document.getElementById("keep-mine").addEventListener("click", async () => { settle(); await save(); });
document.getElementById("take-theirs").addEventListener("click", () => {
  const taken = theirs;
  settle();
  title.value = title.defaultValue = taken.title;
  text.value = text.defaultValue = taken.text;
  said.textContent = `The text of ${taken.who}`;
  preview();
});

async function preview() {
  clearTimeout(previewTimer);
  const asked = text.value;
  try {
    const answer = await post(form.dataset.preview, "text/html");
    if (!answer.ok || asked !== text.value) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const shown = document.getElementById("preview");
    for (const chart of shown.querySelectorAll(".report-chart")) purge(chart);
    shown.replaceChildren(...found.body.childNodes);
    drawCharts(shown);
  } catch { /* the banner says that the server does not answer */ }
}

function typed() {
  if (!theirs) said.textContent = "Not saved yet";
  clearTimeout(saveTimer);
  clearTimeout(previewTimer);
  saveTimer = setTimeout(save, SAVE_MS);
  previewTimer = setTimeout(preview, PREVIEW_MS);
}

form.addEventListener("input", typed);
form.addEventListener("submit", (event) => { event.preventDefault(); save(); });
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") { event.preventDefault(); save(); }
});
document.addEventListener("visibilitychange", () => { if (document.hidden) save(); });

// Publishing takes what is stored: what is not yet is stored first.
document.getElementById("publish").addEventListener("submit", async (event) => {
  const publish = event.target;
  if (!changed() && !saving) { publish.elements.base.value = base.value; return; }
  event.preventDefault();
  const button = event.submitter;
  if (await save()) { publish.elements.base.value = base.value; publish.submit(); return; }
  delete publish.dataset.sent;
  button?.removeAttribute("aria-busy");
  document.getElementById("publish-dialog").close();
});

// --- the picker -------------------------------------------------------------------------------------------------
const picker = document.getElementById("picker");
const problem = document.getElementById("picker-error");

function showFields() {
  const what = picker.elements.what.value.replace(" ", "-");
  for (const field of picker.querySelectorAll("[data-for]")) {
    field.hidden = !field.dataset.for.split(" ").includes(what);
    for (const input of field.querySelectorAll("input, select")) input.disabled = field.hidden;
  }
  problem.hidden = true;
}

picker.elements.what.addEventListener("change", showFields);
picker.addEventListener("submit", async (event) => {
  event.preventDefault();
  const query = new URLSearchParams(new FormData(picker));
  const answer = await fetch(`${picker.action}?${query}`, { headers: { Accept: "application/json" } }).catch(() => null);
  const found = answer ? await answer.json() : { error: { message: "The server does not answer." } };
  problem.hidden = Boolean(found.text);
  if (!found.text) { problem.textContent = found.error.message; return; }
  document.getElementById("insert-dialog").close();
  insert(found.text);
});

let placed = false; // whether somebody has been in the text yet
for (const name of ["keyup", "pointerup", "input"]) text.addEventListener(name, () => { placed = true; });

/** A block stands between empty lines, where the text was being written; at its end before anybody wrote. */
function insert(block) {
  const at = placed ? text.selectionEnd : text.value.length;
  const before = text.value.slice(0, at).replace(/\n*$/, "");
  const after = text.value.slice(at).replace(/^\n*/, "");
  text.value = `${before ? `${before}\n\n` : ""}${block}\n\n${after}`;
  const place = text.value.length - after.length;
  text.focus();
  text.setSelectionRange(place, place);
  typed();
  preview();
}

showFields();
addKey("i", "Insert a chart, a table or a number", () => document.getElementById("insert-dialog").showModal());
