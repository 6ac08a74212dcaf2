// Completion of @names in text areas with `data-mentions`: a list of the project's people below the field. Arrows choose,
// Enter or Tab take, Escape closes. What is typed by hand works as well.
const MOST = 6;
const people = JSON.parse(document.getElementById("people")?.textContent ?? "[]");
let list = null;
let field = null;
let start = -1;
let active = 0;

function candidate(node) {
  const before = node.value.slice(0, node.selectionStart);
  const match = before.match(/(?:^|[\s(])@([\w.+-]*)$/);
  return match ? { from: before.length - match[1].length, typed: match[1].toLowerCase() } : null;
}

function close() {
  list?.remove();
  field?.removeAttribute("aria-activedescendant");
  field?.setAttribute("aria-expanded", "false");
  list = null;
}

function open(node, names, from) {
  close();
  [field, start, active] = [node, from, 0];
  list = document.createElement("ul");
  list.className = "mentions";
  list.id = "mentions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "People of this project");
  list.replaceChildren(...names.map(option));
  node.insertAdjacentElement("afterend", list);
  node.setAttribute("aria-controls", "mentions");
  node.setAttribute("aria-expanded", "true");
  choose(0);
}

function option(name, index) {
  const item = document.createElement("li");
  item.id = `mention-${index}`;
  item.setAttribute("role", "option");
  item.textContent = `@${name}`;
  item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(name); });
  return item;
}

function choose(index) {
  const items = [...list.children];
  active = (index + items.length) % items.length;
  for (const [at, item] of items.entries()) item.setAttribute("aria-selected", String(at === active));
  field.setAttribute("aria-activedescendant", `mention-${active}`);
}

function take(name) {
  field.setRangeText(`${name} `, start, field.selectionStart, "end");
  const written = field;
  close();
  written.dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("input", ({ target }) => {
  if (!target.matches?.("textarea[data-mentions]")) return;
  const found = candidate(target);
  const names = found ? people.filter((name) => name.toLowerCase().startsWith(found.typed)).slice(0, MOST) : [];
  const isWhole = names.length === 1 && names[0].toLowerCase() === found.typed;
  if (names.length && !isWhole) open(target, names, found.from);
  else close();
});

document.addEventListener("keydown", (event) => {
  if (!list || event.target !== field) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) { event.preventDefault(); choose(active + step); return; }
  if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); take(list.children[active].textContent.slice(1)); return; }
  if (event.key === "Escape") { event.preventDefault(); close(); }
}, true);

document.addEventListener("focusout", () => { if (list) close(); });
