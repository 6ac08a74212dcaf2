// Keys without the mouse. An element says its own: `data-hotkey="g r"` is clicked (a field: focused) when its keys are
// pressed one after the other, `data-hotkey-label` is what `?` says of it. Scripts add more with `addKey`. Nothing
// fires while somebody types, with Ctrl, Alt or Cmd held, or while a dialog is open; readers can switch single keys off.

const SETTING = "headroom-keys";
const SEQUENCE_MILLISECONDS = 1_200;
const template = document.getElementById("keys-template");
const own = new Map(); // keys -> {label, run, group}
let pressed = "";
let forget = null;

/** `addKey("t", "Change the theme", changeTheme)`; `keys` may be two with a space between. */
export function addKey(keys, label, run, group = "This page") {
  own.set(keys, { label, run, group });
}

export const keysAreOn = () => localStorage.getItem(SETTING) !== "off";

function isTyping(target) {
  if (!(target instanceof Element)) return false;
  if (target.closest("[contenteditable], textarea, select")) return true;
  const input = target.closest("input");
  return input !== null && !["checkbox", "radio", "range", "button", "submit"].includes(input.type);
}

function visible(element) {
  return element.checkVisibility?.() ?? element.offsetParent !== null;
}

/** Keys -> what they do: those of the page's elements, then those of scripts. */
function actions() {
  const found = new Map();
  for (const element of document.querySelectorAll("[data-hotkey]")) {
    if (!visible(element) && !element.closest("nav, [popover]")) continue;
    const label = element.dataset.hotkeyLabel ?? element.getAttribute("aria-label") ?? element.textContent.trim();
    found.set(element.dataset.hotkey, { label, run: () => use(element), group: element.dataset.hotkeyGroup ?? "This page" });
  }
  for (const [keys, action] of own) found.set(keys, action);
  const search = searchField(); // a page without a field of its own keeps what a script said of "/": the palette
  if (search) found.set("/", { label: "Search on this page", run: () => search.focus(), group: "Everywhere" });
  return found;
}

function searchField() {
  return [...document.querySelectorAll("main input[type=search], main [role=search] input, main [data-search]")].find(visible);
}

function use(element) {
  if (element.matches("input:not([type=checkbox], [type=radio]), textarea, select")) element.focus();
  else element.click();
}

function onKey(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.length !== 1 || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (!keysAreOn() && event.key !== "?") return;
  const known = actions();
  const sequence = pressed ? `${pressed} ${event.key}` : event.key;
  const action = known.get(sequence) ?? known.get(event.key);
  clearTimeout(forget);
  pressed = "";
  if (action) {
    event.preventDefault();
    action.run();
  } else if ([...known.keys()].some((keys) => keys.startsWith(`${event.key} `))) {
    pressed = event.key;
    forget = setTimeout(() => { pressed = ""; }, SEQUENCE_MILLISECONDS);
  }
}

export function showKeys() {
  const dialog = document.getElementById("keys-dialog") ?? build();
  if (dialog.open) return;
  const groups = new Map([["Everywhere", []], ["Go to", []], ["This page", []]]);
  for (const [keys, { label, group }] of actions()) {
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push([keys, label]);
  }
  const sections = [...groups].filter(([, rows]) => rows.length).map(([name, rows]) => section(name, rows));
  document.getElementById("keys-list").replaceChildren(...sections);
  document.getElementById("keys-on").checked = keysAreOn();
  dialog.showModal();
}

/** Made when it is first wanted. */
function build() {
  document.body.append(template.content.cloneNode(true));
  document.getElementById("keys-on").addEventListener("change", ({ target }) => {
    if (target.checked) localStorage.removeItem(SETTING);
    else localStorage.setItem(SETTING, "off");
  });
  return document.getElementById("keys-dialog");
}

function section(name, rows) {
  const node = document.createElement("section");
  const list = document.createElement("dl");
  list.className = "keys";
  for (const [keys, label] of rows) list.append(keyCaps(keys), Object.assign(document.createElement("dd"), { textContent: label }));
  node.append(Object.assign(document.createElement("h3"), { textContent: name }), list);
  return node;
}

function keyCaps(keys) {
  const term = document.createElement("dt");
  for (const [index, key] of keys.split(" ").entries()) {
    if (index) term.append(" then ");
    term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
  }
  return term;
}

document.addEventListener("keydown", onKey);
if (template) addKey("?", "Show the keys", showKeys, "Everywhere");
