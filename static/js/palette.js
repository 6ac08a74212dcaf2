// The command palette (Ctrl-K or Cmd-K): pages and actions of this page's template, and what the server finds among
// runs, recipes and studies. A combobox over a listbox: the field keeps the focus, the chosen option is pointed at.
import { copyText, say } from "./copy.js";
import { fetchJson } from "./live.js";

const DEBOUNCE = 120;
const template = document.getElementById("palette-template");
let dialog, field, list, found, status;
const actions = new Map();
let timer = null;
let asked = null;

/** What `data-action="name"` of an option does. */
export function addAction(name, run) {
  actions.set(name, run);
}

const options = () => [...list.querySelectorAll("[role=option]:not([hidden])")];
const chosen = () => options().find((option) => option.getAttribute("aria-selected") === "true");

export function openPalette(text = "") {
  if (!template || dialog?.open) return;
  if (!dialog) build();
  for (const other of document.querySelectorAll("dialog[open]")) other.close();
  field.value = text;
  dialog.showModal();
  narrow();
  ask();
}

/** Pages and actions whose words hold every word that was typed. */
function narrow() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const option of list.querySelectorAll("[data-own]")) {
    const text = option.textContent.toLowerCase();
    option.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of list.querySelectorAll("[role=group]")) group.hidden = !group.querySelector("[role=option]:not([hidden])");
  choose(options()[0]);
}

function choose(option) {
  chosen()?.setAttribute("aria-selected", "false");
  for (const other of list.querySelectorAll("[aria-selected=true]")) other.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({ block: "nearest" });
  if (option) field.setAttribute("aria-activedescendant", option.id);
  else field.removeAttribute("aria-activedescendant");
}

function move(by) {
  const all = options();
  if (!all.length) return;
  const at = all.indexOf(chosen());
  choose(all[(at + by + all.length) % all.length]);
}

async function ask() {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  try {
    const { items } = await fetchJson(`${dialog.dataset.search}?q=${encodeURIComponent(field.value.trim())}`, { signal });
    showFound(items);
  } catch (error) {
    if (signal.aborted) return;
    found.replaceChildren();
    status.textContent = error.signedOut ? error.message : "The server does not answer: pages and actions only.";
  }
}

function showFound(items) {
  const before = chosen();
  found.replaceChildren(...items.map(optionOf));
  found.parentElement.hidden = !items.length;
  if (!before?.isConnected || before.hidden) choose(options()[0]);
  const count = options().length;
  status.textContent = count ? `${count} ${count === 1 ? "entry" : "entries"}` : "Nothing found. Try fewer letters, or the id of a run.";
}

function optionOf({ kind, label, hint, url }, index) {
  const option = document.createElement("div");
  const part = (css, text) => Object.assign(document.createElement("span"), { className: css, textContent: text });
  option.id = `palette-found-${index}`;
  option.setAttribute("role", "option");
  option.setAttribute("aria-selected", "false");
  option.dataset.url = url;
  option.append(part("kind", kind), " ", part("grow", label), " ", part("small muted", hint));
  return option;
}

function run(option, inNewTab) {
  if (!option) return;
  const { url, action, submit } = option.dataset;
  dialog.close();
  if (url && inNewTab) window.open(url, "_blank", "noopener");
  else if (url) location.assign(url);
  else if (submit) document.getElementById(submit).requestSubmit();
  else actions.get(action)?.();
}

/** Made when it is first wanted: most pages are read without it. */
function build() {
  document.body.append(template.content.cloneNode(true));
  [dialog, field, list, found, status] = ["palette", "palette-field", "palette-list", "palette-found", "palette-status"].map((id) => document.getElementById(id));
  field.addEventListener("input", () => { narrow(); clearTimeout(timer); timer = setTimeout(ask, DEBOUNCE); });
  field.addEventListener("keydown", onKey);
  list.addEventListener("click", (event) => run(event.target.closest("[role=option]"), event.ctrlKey || event.metaKey));
  list.addEventListener("mousemove", (event) => {
    const option = event.target.closest("[role=option]");
    if (option && option !== chosen()) choose(option);
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}

function onKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in steps) { event.preventDefault(); move(steps[event.key]); }
  if (event.key === "Enter") { event.preventDefault(); run(chosen(), event.ctrlKey || event.metaKey); }
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || !template) return;
  event.preventDefault();
  if (dialog?.open) dialog.close();
  else openPalette();
});
addAction("copy-link", async () => say((await copyText(location.href)) ? "Link copied" : "The link could not be copied"));
