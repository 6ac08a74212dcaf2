// The filter's box: completions that the server knows, in a list below it. Arrows choose, Enter or Tab take, Escape
// closes; without a choice Enter searches.
const box = document.getElementById("filter");
const list = document.getElementById("completions");
const WAIT = 120;
let found = { items: [] };
let active = -1;
let timer = null;
let asked = 0;
let stale = false; // something was typed since the list was made
let choosing = null; // an arrow that waits for the list

function close() {
  list.hidden = true;
  active = -1;
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}

function option(item, index) {
  const node = document.createElement("li");
  node.id = `completion-${index}`;
  node.setAttribute("role", "option");
  const text = document.createElement("span");
  text.className = "mono";
  text.textContent = item.text;
  const says = document.createElement("span");
  says.className = "small muted";
  says.textContent = item.says;
  node.append(text, says);
  node.addEventListener("pointerdown", (event) => { event.preventDefault(); take(index); });
  return node;
}

function show() {
  if (!found.items.length || document.activeElement !== box) { close(); return; }
  stale = false;
  list.replaceChildren(...found.items.map(option));
  list.hidden = false;
  box.setAttribute("aria-expanded", "true");
  choose(-1);
}

function choose(index) {
  active = index;
  for (const [at, node] of [...list.children].entries()) node.setAttribute("aria-selected", String(at === index));
  if (index < 0) box.removeAttribute("aria-activedescendant");
  else {
    box.setAttribute("aria-activedescendant", `completion-${index}`);
    list.children[index].scrollIntoView({ block: "nearest" });
  }
}

async function ask() {
  const mine = (asked += 1);
  const query = new URLSearchParams({ text: box.value, at: box.selectionStart ?? box.value.length });
  try {
    const response = await fetch(`${box.dataset.complete}?${query}`, { headers: { Accept: "application/json" } });
    if (!response.ok || response.redirected || mine !== asked) return;
    found = await response.json();
    show();
  } catch { close(); } // without completions a filter can still be typed
}

async function chooseFirst() {
  clearTimeout(timer);
  await ask();
  choosing = null;
  if (!list.hidden && !stale) choose(0);
}

function take(index) {
  const item = found.items[index];
  const isField = !/[:=<>~]\s*$/.test(box.value.slice(0, found.from)) && !/,$/.test(box.value.slice(0, found.from));
  const text = isField && !item.text.endsWith(".") ? `${item.text}:` : item.text;
  box.setRangeText(text, found.from, found.to, "end");
  close();
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

function onKey(event) {
  const takes = event.key === "Enter" || event.key === "Tab";
  if (event.key === "ArrowDown" && (list.hidden || stale)) { event.preventDefault(); choosing = chooseFirst(); return; }
  if (takes && choosing) { event.preventDefault(); event.stopPropagation(); choosing.then(() => { if (active >= 0) take(active); }); return; }
  if (list.hidden) return;
  const last = found.items.length - 1;
  if (event.key === "ArrowDown") choose(active >= last ? 0 : active + 1);
  else if (event.key === "ArrowUp") choose(active <= 0 ? last : active - 1);
  else if (event.key === "Escape") close();
  else if (takes && active >= 0 && !stale) take(active);
  else { if (event.key === "Enter") close(); return; }
  event.preventDefault();
  event.stopPropagation();
}

if (box) {
  box.addEventListener("input", () => { stale = true; if (active >= 0) choose(-1); clearTimeout(timer); timer = setTimeout(ask, WAIT); });
  box.addEventListener("keydown", onKey);
  box.addEventListener("blur", close);
}
