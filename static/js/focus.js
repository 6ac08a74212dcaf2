// What a reader without a mouse stands on may be exchanged for its newer self: the focus goes to that, never to nowhere.
const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";

/** Call before the exchange; what it returns is called after it. */
export function holdFocus() {
  const held = document.activeElement;
  if (!held || held === document.body) return () => {};
  const [place, like] = [placeOf(held), likeOf(held)];
  const at = alike(place, like).indexOf(held);
  return () => {
    if (held.isConnected || document.activeElement !== document.body) return;
    const found = alike(place, like);
    const next = found[at] ?? found.at(-1) ?? place.map((id) => document.getElementById(id)).find(Boolean);
    if (next && !next.matches(STOPS)) next.tabIndex = -1;
    next?.focus({ preventScroll: true });
  };
}

/** The ids of what it stands in, from near to far. */
function placeOf(node) {
  const ids = [];
  for (let each = node.parentElement; each; each = each.parentElement) if (each.id) ids.push(each.id);
  return ids;
}

/** What it is and says, and of which row. */
function likeOf(node) {
  const words = node.getAttribute("aria-label") ?? node.textContent.trim();
  const value = node.matches("[type=checkbox], [type=radio]") ? node.value : "";
  return [node.tagName, node.name ?? "", value, words, node.closest("[data-run]")?.dataset.run ?? ""].join("\n");
}

function alike(place, like) {
  const root = place.map((id) => document.getElementById(id)).find(Boolean) ?? document;
  return [...root.querySelectorAll(STOPS)].filter((node) => likeOf(node) === like && node.checkVisibility());
}

let restore = () => {};
document.addEventListener("htmx:beforeSwap", () => { restore = holdFocus(); });
for (const name of ["htmx:afterSwap", "htmx:oobAfterSwap"]) document.addEventListener(name, () => restore());
