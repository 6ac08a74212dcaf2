// Formulas in what a model wrote: $…$, \(…\), $$…$$ and \[…\] are drawn by KaTeX once they come into view. What
// it cannot draw, and what a text could hide or spoil the page with, stays as it was written.
const MOST = 2000; // characters of a formula
const MOST_DRAWN = 500; // of one text
const MOST_NODES = 10000; // of all formulas of one text as they are drawn, and
const DEEPEST = 100; // how deep they may lie in each other: more of them hold up the page, or end it
const DELIMITER = /\\[()[\]]|\\[\s\S]|\$\$?/g;
const CLOSES = { "\\(": "\\)", "\\[": "\\]", "$$": "$$", $: "$" };
// Links, pictures, HTML and definitions, which grow without bound; and what makes text unseen or moves it elsewhere:
// so would a comment.
const REFUSED = new RegExp(
  "\\\\(?:href|url|includegraphics|html\\w+|[egx]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand|char" +
    "|phantom|[hv]phantom|smash|[rlc]lap|math[rlc]lap|m?kern|m?skip|hskip|mskip|hspace|raisebox|color|textcolor)(?![A-Za-z])|(?<!\\\\)%",
);
const KATEX = { throwOnError: true, trust: false, strict: "ignore", maxExpand: 200, maxSize: 10 };

/** Every formula of a text: where it begins and ends, its TeX and whether it stands alone on a line. */
export function formulasOf(text) {
  const found = [];
  let open = null;
  for (const { 0: mark, index } of text.matchAll(DELIMITER)) {
    if (open && index - open.index > MOST) open = null;
    const tex = open && mark === CLOSES[open.mark] ? text.slice(open.index + open.mark.length, index) : "";
    const end = index + mark.length;
    if (tex.trim() && (mark !== "$" || isInline(tex, text[end]))) {
      found.push({ first: open.index, end, tex, alone: mark === "$$" || mark === "\\]" });
      open = null;
    } else if (mark in CLOSES && (!open || open.mark === "$" || open.mark === mark)) open = { mark, index };
  }
  return found;
}

/** Whether a text between two dollars is a formula, and no sums of money: "$5 and $6". */
function isInline(tex, after) {
  return !/^\s|\s$|\n/.test(tex) && !/\d/.test(after ?? "");
}

/** A node with the formula, or null where it is to stay text; and what it has cost, in nodes. */
function drawn({ tex, alone }) {
  const refused = { node: null, cost: tex.length };
  if (REFUSED.test(tex)) return refused;
  const node = document.createElement("span");
  node.className = alone ? "formula alone" : "formula";
  node.title = tex;
  try {
    window.katex.render(tex, node, { ...KATEX, displayMode: alone });
  } catch {
    return refused;
  }
  let [cost, depth] = [0, 0];
  for (let level = [node]; level.length; level = level.flatMap(({ children }) => [...children])) {
    cost += level.length;
    depth += 1;
  }
  return { node: depth > DEEPEST ? null : node, cost };
}

/** Draw the formulas of a text; what each stands for is kept in `kept`: node -> fragment. */
function draw(text, kept) {
  const nodes = new Map();
  let left = MOST_NODES;
  for (const formula of formulasOf(text.textContent).slice(0, MOST_DRAWN)) {
    const { node, cost } = drawn(formula);
    left -= cost;
    if (left < 0) break;
    if (node) nodes.set(formula, node);
  }
  for (const [formula, node] of [...nodes].reverse()) {
    const range = rangeOf(text, formula.first, formula.end);
    if (range.cloneContents().querySelector("mark")) node.classList.add("final");
    kept.set(node, range.extractContents());
    range.insertNode(node);
  }
  letScroll(text);
}

/** By keys, too, what is wider than its place. */
function letScroll(text) {
  if (text.scrollWidth > text.clientWidth) text.tabIndex = 0;
  else text.removeAttribute("tabindex");
}

/** From one character of a text to another, whatever nodes it has by now. */
function rangeOf(text, first, end) {
  const range = document.createRange();
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  for (let at = 0, node = walker.nextNode(); node; at += node.length, node = walker.nextNode()) {
    if (at <= first && first < at + node.length) range.setStart(node, first - at);
    if (at < end && end <= at + node.length) {
      range.setEnd(node, end - at);
      break;
    }
  }
  return range;
}

/** The rules first: without them a formula stands there twice. What does not come leaves everything as it was written. */
function loaded({ katex, katexSheet }) {
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: katexSheet });
  const script = Object.assign(document.createElement("script"), { src: katex });
  return Promise.all([style, script].map((part) => new Promise((resolve) => {
    part.onload = part.onerror = resolve;
    document.head.append(part);
  })));
}

function start() {
  const toggle = document.getElementById("formulas");
  const texts = [...document.querySelectorAll(".from-model:not(.words-diff)")];
  const some = texts.filter((text) => formulasOf(text.textContent).length);
  if (!toggle || !some.length) return;
  const kept = new Map();
  let katex = null;
  const seen = new IntersectionObserver(async (entries) => {
    const inView = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
    if (!inView.length) return;
    inView.forEach((text) => seen.unobserve(text));
    await (katex ??= loaded(toggle.dataset));
    for (const text of inView) {
      if (toggle.ariaPressed === "true") draw(text, kept);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }, { rootMargin: "200px" });
  const drawAll = () => some.forEach((text) => seen.observe(text));
  // How wide a formula is shows once its fonts are there.
  document.fonts.addEventListener("loadingdone", () => some.forEach(letScroll));
  const sized = new ResizeObserver((entries) => entries.forEach((entry) => letScroll(entry.target)));
  some.forEach((text) => sized.observe(text));
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    toggle.ariaPressed = toggle.ariaPressed === "true" ? "false" : "true";
    seen.disconnect();
    for (const [node, written] of kept) node.replaceWith(written);
    kept.clear();
    some.forEach(letScroll);
    if (toggle.ariaPressed === "true") drawAll();
  });
  drawAll();
}

start();
