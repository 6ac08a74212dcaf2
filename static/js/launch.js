// Launch: which of form and text was edited last, searching the settings, resets. What is right is said by the server.
import { say } from "./copy.js";
import "./leaving.js";
import { keep, restore } from "./kept_form.js";

const FRESH = new Set(["csrfmiddlewaretoken", "idempotency_key"]); // a launch from the restored form is a new one
const launch = document.getElementById("launch");
const opened = new Set(); // sections that a person opened stay open when the form comes anew
let searched = false;
let edits = 0; // an answer to a question that is out of date must not overwrite what was typed since
let asked = 0;
let answered = ""; // what was read out of the last check

const form = () => launch.querySelector("form.launch");
const all = (selector) => [...launch.querySelectorAll(selector)];

/** Tell the server where the last edit was made. */
function note(target) {
  const sent = form();
  if (!sent || !target.name || target.type === "hidden") return;
  sent.elements.source.value = target.id === "yaml" ? "yaml" : "form";
  sent.elements.changed.value = target.name;
  edits += 1;
  keep(sent, FRESH);
}

function show(view) {
  for (const body of all("[data-view-body]")) body.hidden = body.dataset.viewBody !== view;
  for (const button of all("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === view));
  for (const node of all(".settings-search, [data-only-changed]")) node.hidden = view !== "form";
  const url = new URL(location);
  if (view === "yaml") url.searchParams.set("view", "yaml");
  else url.searchParams.delete("view");
  history.replaceState(history.state, "", url);
}

/** Only settings that hold every word of the search, and, if asked for, that differ or are wrong. */
function filter() {
  const box = document.getElementById("settings-search");
  if (!box) return;
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const only = launch.querySelector("[data-only-changed]").getAttribute("aria-pressed") === "true";
  let hits = 0;
  for (const section of all("[data-section]")) {
    let here = 0;
    for (const setting of section.querySelectorAll("[data-setting]")) {
      const text = `${setting.dataset.words} ${section.dataset.section}`;
      const wanted = !only || setting.querySelector("[data-differs], [data-wrong]");
      setting.hidden = !wanted || !words.every((word) => text.includes(word));
      here += setting.hidden ? 0 : 1;
    }
    section.hidden = here === 0;
    hits += here;
    if (words.length || only) section.open = here > 0;
    else if (searched) section.open = opened.has(section.dataset.section);
  }
  searched = Boolean(words.length || only);
  if (searched) document.getElementById("view-form").open = true;
  launch.querySelector(".no-hit").hidden = hits > 0;
}

/** An answer says how each setting stands; what stands as before needs no swap. */
function withoutKnown(html) {
  const answer = document.createElement("template");
  answer.innerHTML = html;
  for (const part of answer.content.querySelectorAll("[hx-swap-oob]:is([data-status], .badges, textarea)")) {
    const here = document.getElementById(part.id);
    const alike = part.cloneNode(true);
    alike.removeAttribute("hx-swap-oob");
    if (here?.isEqualNode(alike) && here.value === here.defaultValue) part.remove(); // of a text, what was typed counts
  }
  return answer.innerHTML;
}

/** Draw what the server said: wrong fields, the text that waits, the message of a new revision. */
function mark() {
  for (const status of all("[data-status]")) {
    const widget = document.getElementById(status.dataset.widget);
    if (!widget) continue;
    if ("wrong" in status.dataset) widget.setAttribute("aria-invalid", "true");
    else widget.removeAttribute("aria-invalid");
  }
  const broken = Boolean(launch.querySelector("#yaml-state[data-broken]"));
  for (const node of all("#essentials, #view-form")) node.inert = broken;
  for (const button of all("[data-view=form]")) button.disabled = broken;
  const summary = document.getElementById("summary");
  const message = document.getElementById("message-field");
  if (message && summary) message.hidden = !("changes" in summary.dataset);
}

/** The check in one breath: that it is ready, or what is to mend first. */
function readOut() {
  const parts = all("#summary > .good, #summary > .bad, #summary > .problems li:first-child").map((each) => each.textContent.trim());
  const words = parts.join(". ");
  if (words !== answered) say(words);
  answered = words;
}

function reset(button) {
  const fields = form().elements[button.dataset.reset];
  if (!fields) return;
  const { value } = button.dataset;
  if (fields instanceof RadioNodeList) fields.value = value;
  else if (fields.type === "checkbox") fields.checked = value === "true";
  else fields.value = value;
  const first = fields instanceof RadioNodeList ? [...fields].find((field) => field.checked) ?? fields[0] : fields;
  first.focus();
  note(first);
  window.htmx.trigger(form(), "recheck");
}

function discard() {
  const sent = form();
  sent.elements.source.value = "form";
  sent.elements.changed.value = "yaml";
  edits += 1;
  window.htmx.trigger(sent, "recheck");
}

if (launch) {
  launch.addEventListener("input", (event) => {
    const box = event.target.id === "settings-search";
    if (box) filter();
    if (box || event.target.matches("[hx-get]")) event.stopPropagation(); // these ask by themselves, or nobody
    else note(event.target);
  }, true);
  launch.addEventListener("htmx:configRequest", (event) => { if (event.target === form()) asked = edits; });
  launch.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.requestConfig?.elt !== form()) return;
    if (asked !== edits) detail.shouldSwap = false;
    else detail.serverResponse = withoutKnown(detail.serverResponse);
  });
  launch.addEventListener("click", (event) => {
    const button = event.target.closest("[data-view], [data-reset], [data-only-changed], [data-discard]");
    if (!button) return;
    if ("view" in button.dataset) show(button.dataset.view);
    if ("reset" in button.dataset) reset(button);
    if ("discard" in button.dataset) discard();
    if ("onlyChanged" in button.dataset) {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      filter();
    }
  });
  launch.addEventListener("toggle", (event) => {
    const { section } = event.target.dataset ?? {};
    if (!section || searched) return;
    if (event.target.open) opened.add(section);
    else opened.delete(section);
  }, true);
  launch.addEventListener("click", (event) => { // a problem's link leads into its section
    const link = event.target.closest(".problems a[href^='#']");
    const field = link && document.getElementById(link.hash.slice(1));
    if (!field) return;
    event.preventDefault();
    if (field.closest("[data-view-body=form]")) show("form");
    for (let node = field.closest("details"); node; node = node.parentElement.closest("details")) node.open = true;
    (field.matches("input, select, textarea") ? field : field.querySelector("input, select, textarea"))?.focus();
    field.scrollIntoView({ block: "center" });
  });
  let isSettled = true;
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!launch.contains(event.target) && event.target !== launch) return;
    if (isSettled) queueMicrotask(settle); // an answer has a part for every setting: once, after the last of them
    isSettled = false;
  });
  const settle = () => {
    isSettled = true;
    for (const section of all("[data-section]")) if (opened.has(section.dataset.section)) section.open = true;
    filter();
    mark();
    readOut();
    if (edits && form()) keep(form(), FRESH); // the answer may have changed the text beside the form, or the form
  };
  if (form() && !launch.querySelector("[role=alert]")) restore(form(), FRESH); // before htmx asks what is wrong with it
  mark();
}
