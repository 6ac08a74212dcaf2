// Every chart of a page goes through here. Until somebody points at a chart, touches it or comes to it by the keyboard it is a sketch of plain SVG;
// then Plotly is loaded and draws all of them. Its 1.5 MB hold a slow phone for seconds, and most readers only look.
import { logAxisTicks } from "./chart.js";
import { sketch } from "./sketch.js";

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
const SIGNS = ["pointerover", "pointerdown", "focusin", "keydown"]; // that somebody wants a chart, or what stands beside it
const POINTING = ["pointerover", "pointermove", "click"];
const DRAWN = "chart-drawn"; // said by a chart's node after each drawing

const sketches = new Map(); // node of each chart that is not Plotly's yet -> how its axes lie
const wanted = new WeakMap(); // node -> what is to be done with it once it is Plotly's
let loading = null;
let pointed = null; // the newest of the pointer while Plotly is loaded

/** Draw into a node, or anew. `node.data` and `node.layout` are what it shows. */
export function draw(node, traces, layout) {
  if (window.Plotly) { drawLive(node, traces, layout); return; }
  Object.assign(node, { data: traces, layout });
  if (sketches.has(node)) { redraw(node); return; }
  sketches.set(node, null);
  resized.observe(node); // for the first time once the page is laid out
}

/** Parts of the layout by their names. */
export function relayout(node, changes) {
  if (node._fullLayout) { window.Plotly.relayout(node, changes); return; }
  Object.assign(node.layout, changes);
  redraw(node);
}

/** One opacity for each trace. */
export function fade(node, opacity) {
  if (node._fullLayout) { window.Plotly.restyle(node, { opacity }); return; }
  node.data = node.data.map((trace, i) => ({ ...trace, opacity: opacity[i] }));
  redraw(node);
}

/** Forget a chart whose node goes, or is drawn anew. */
export function purge(node) {
  if (node._fullLayout) window.Plotly.purge(node);
  sketches.delete(node);
  resized.unobserve(node);
}

/** A figure as a data URL; null where Plotly cannot be loaded. */
export async function picture(figure, options) {
  await load();
  return window.Plotly ? window.Plotly.toImage({ ...figure, config: {} }, options) : null;
}

/** Call `then()` once the chart is Plotly's, which has events to listen to. */
export function whenLive(node, then) {
  if (node._fullLayout) then();
  else wanted.set(node, then);
}

/** Where the first axes of a chart lie in its node, in pixels, and the place of a value along the horizontal one; null before it is drawn. */
export function scaleOf(node) {
  if (!node._fullLayout) return sketches.get(node) ?? null;
  const { xaxis, yaxis } = node._fullLayout;
  return { left: xaxis._offset, width: xaxis._length, top: yaxis._offset, height: yaxis._length, x: (value) => xaxis._offset + xaxis.d2p(value) };
}

/** On paper no chart is wider or higher than fits; `detail` is null for the screen. */
document.addEventListener("print-size", ({ detail: most }) => {
  for (const node of [...sketches.keys(), ...document.querySelectorAll(".js-plotly-plot")].filter((each) => each.clientWidth)) {
    relayout(node, most ? { width: Math.min(node.clientWidth, most.width), height: most.height } : { width: null, height: null, autosize: true });
  }
});

function redraw(node) {
  if (window.Plotly || !node.clientWidth) return; // it is on its way, or hidden: drawn when it has a size
  const place = sketch(node, node.data, node.layout);
  sketches.set(node, place && { ...place, size: sizeOf(node) });
  if (place) node.dispatchEvent(new Event(DRAWN));
  else load();
}

const sizeOf = (node) => `${node.clientWidth} ${node.clientHeight}`;

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (sketches.has(target) && sketches.get(target)?.size !== sizeOf(target)) setTimeout(window.Plotly ? comeAlive : redraw, 0, target);
  }
});

function drawLive(node, traces, layout) {
  const isNew = !node._fullLayout;
  if (isNew) {
    purge(node);
    node.replaceChildren();
  }
  window.Plotly.react(node, traces, layout, CONFIG);
  if (!isNew) return;
  keepTicks(node);
  node.on("plotly_afterplot", () => node.dispatchEvent(new Event(DRAWN)));
  node.dispatchEvent(new Event(DRAWN));
  wanted.get(node)?.();
}

/** After a zoom the ticks of a log axis are chosen anew. */
function keepTicks(node) {
  node.on("plotly_relayout", (change) => {
    const touched = Object.keys(change).some((name) => name.startsWith("xaxis.") && !name.includes("tick"));
    const axis = node._fullLayout.xaxis;
    if (!touched || axis.type !== "log") return;
    const { tickvals, ticktext } = logAxisTicks(axis.range.map((power) => 10 ** power));
    window.Plotly.relayout(node, { "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext });
  });
}

// --- Plotly ---------------------------------------------------------------------------------------------------------

for (const sign of SIGNS) document.addEventListener(sign, (event) => {
  if (![...sketches.keys()].some((node) => node.parentElement?.contains(event.target))) return;
  follow(event);
  load();
});

/** One request for all; after one that failed the next sign asks again. */
function load() {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = document.getElementById("plotly.js-style-global").dataset.plotly;
    script.addEventListener("load", done);
    script.addEventListener("error", failed);
    document.head.append(script);
    for (const name of POINTING) document.addEventListener(name, follow);
  }).then(() => {
    for (const node of [...sketches.keys()]) comeAlive(node);
    pointAgain();
  }, () => { loading = null; });
  return loading;
}

function comeAlive(node) {
  if (!node.isConnected) purge(node);
  else if (node.clientWidth) drawLive(node, node.data, node.layout);
}

function follow(event) {
  if (event instanceof MouseEvent && pointed?.type !== "click") pointed = event; // no key, no focus
}

/** What the pointer did while Plotly was loaded is told to its chart: where it is, and a click. */
function pointAgain() {
  for (const name of POINTING) document.removeEventListener(name, follow);
  if (!pointed) return;
  const { clientX, clientY, type } = pointed;
  const target = document.elementFromPoint(clientX, clientY);
  if (!target?.closest(".js-plotly-plot")) return;
  const names = ["mousemove", ...(type === "click" ? ["mousedown", "mouseup", "click"] : [])];
  for (const name of names) target.dispatchEvent(new MouseEvent(name, { bubbles: true, view: window, clientX, clientY }));
}
