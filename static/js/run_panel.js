// The tabs of the run page: which panel is open, when it is asked for again, and its forms. The address holds what the
// panel shows; the panel is always asked for with the whole address, so that it answers the same question as the chart.
import { followLog } from "./log.js";
import { readAnew, showPanels } from "./panels.js";
import { showCurrent } from "./strip.js";
import { drawTabCharts } from "./tab_charts.js";

const OF_RECORDS = new Set(["diagnostics", "machines", "timeline", "log", "attempts"]); // they change with every record
const OF_FITS = new Set(["forms", "window", "history", "plan"]); // heavier: only when the fit or the question changes
const OF_ONE_TAB = ["tab", "node", "until", "attempt", "q", "before", "all"];
const LIVE_MS = 2_500;
const SETTLED_MS = 400; // after the last step of a drag

/** `applyWindow({lo, cutoff})` and `askTarget({target, of})` change the page's question. */
export function followPanel({ ended, applyWindow, askTarget }) {
  let old = false;
  let answeredKey = null;
  let timer = null;

  function refreshIfOld() {
    const tab = openTab();
    if (!OF_RECORDS.has(tab) || document.hidden) return;
    if (tab === "log" ? ended() && !old : !old) return;
    if (tab === "diagnostics" && !isPressed && readAnew()) { old = false; return; }
    if (isBusy()) return;
    old = false;
    if (tab === "log") refreshLog();
    else refresh("panel");
  }

  function refreshSettled() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!OF_FITS.has(openTab())) return;
      if (isBusy()) refreshSettled(); // what is being typed is not swapped away
      else refresh("panel");
    }, SETTLED_MS);
  }

  setInterval(refreshIfOld, LIVE_MS);
  if ("lazy" in document.getElementById("panel").dataset) refresh("panel");
  followForms({ applyWindow, askTarget });
  return {
    isOld() { old = true; },
    /** The chart shows the answer to this; an open analysis follows. */
    answered(what) {
      const key = JSON.stringify(what);
      if (answeredKey !== null && key !== answeredKey) refreshSettled();
      answeredKey = key;
    },
  };
}

const openTab = () => document.getElementById("panel").dataset.tab;

/** An empty panel is asked for as a whole; of a log that is read back, nothing changes. */
function refreshLog() {
  if (!document.getElementById("panel-live")) refresh("panel");
  else if (!followLog() && !new URLSearchParams(location.search).has("before")) refresh("panel-live");
}

// Whether a button of the mouse is down: what is swapped before it comes up again takes the click with it.
let isPressed = false;
document.addEventListener("pointerdown", () => { isPressed = true; }, true);
for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { isPressed = false; }, true);

/** Whether somebody types or clicks in the panel. */
function isBusy() {
  const { activeElement } = document;
  return isPressed || (activeElement.matches("input, select, textarea") && document.getElementById("panel").contains(activeElement) && activeElement.id !== "log-filter");
}

// One at a time: an answer for a region that was swapped meanwhile would go nowhere, and take the chart with it.
const WIDEST_FIRST = ["tabs", "panel", "panel-live"];
let loading = false;
let wanted = new Set();

async function refresh(id) {
  wanted.add(id);
  if (loading) return;
  loading = true;
  while (wanted.size) {
    const next = WIDEST_FIRST.find((each) => wanted.has(each));
    wanted = new Set();
    await load(next, next === "tabs" ? "innerHTML" : "outerHTML");
  }
  loading = false;
}

function load(id, swap) {
  if (!document.getElementById(id)) return Promise.resolve();
  const select = id === "tabs" ? {} : { select: `#${id}` };
  return window.htmx.ajax("GET", `${location.pathname}${location.search}`, { target: `#${id}`, swap, ...select }).catch(() => {});
}

function setQuery(changes) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
}

function followForms({ applyWindow, askTarget }) {
  let typing = null;

  document.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    const link = event.target.closest("a[data-tab], a[data-open-tab], a[data-window], a[data-query-link], a[data-panel]");
    if (!link) return;
    if (link.dataset.tab) { setQuery({ ...emptyOf(OF_ONE_TAB), tab: link.dataset.tab }); return; } // htmx fetches it
    if (link.dataset.panel) { showPanel(event, link.dataset.panel); return; }
    event.preventDefault();
    if (link.dataset.openTab) openTabFrom(link.dataset.openTab);
    else if ("window" in link.dataset) windowOf(link, applyWindow);
    else followQueryLink(link);
  });

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-panel-form]")) return;
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(event.target)].filter(([name]) => event.target.elements[name].type !== "hidden"));
    setQuery(fields);
    if ("target" in fields) askTarget({ target: fields.target, of: fields.of });
    refresh("panel");
  });

  document.addEventListener("input", (event) => {
    const name = event.target.dataset?.query;
    if (!name || event.target.matches("select")) return;
    setQuery({ [name]: event.target.value, before: null });
    clearTimeout(typing);
    typing = setTimeout(() => refresh("panel-live"), 250);
  });

  document.addEventListener("change", (event) => {
    if (!event.target.matches("select[data-query]")) return;
    setQuery({ [event.target.dataset.query]: event.target.value, before: null });
    refresh("panel");
  });
}

const emptyOf = (names) => Object.fromEntries(names.map((name) => [name, null]));

function windowOf(link, applyWindow) {
  const query = new URL(link.href).searchParams;
  const number = (name) => (query.has(name) ? Number(query.get(name)) : null);
  applyWindow({ lo: number("lo"), cutoff: number("cutoff") });
  scrollTo(document.getElementById("chart-box"));
}

function openTabFrom(tab) {
  document.querySelector(`#tabs a[data-tab=${tab}]`).click();
  scrollTo(document.getElementById("tabs"), "start");
}

async function followQueryLink(link) {
  const wanted = new URL(link.href).searchParams; // the rest of the link may be older than the page's question
  setQuery(Object.fromEntries(OF_ONE_TAB.map((name) => [name, wanted.get(name)])));
  await refresh("tabs");
  document.getElementById("panel").focus({ preventScroll: true });
  scrollTo(document.getElementById("tabs"), "start");
}

/** Where the small panel is on the page the link scrolls to it; else it opens the diagnostics. */
function showPanel(event, id) {
  const panel = document.getElementById(id);
  if (!panel) return;
  event.preventDefault();
  scrollTo(panel, "center");
  panel.focus({ preventScroll: true });
}

function scrollTo(node, block = "nearest") {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  node.scrollIntoView({ block, behavior: calm ? "auto" : "smooth" });
}

// A tab is asked for with the question of the page, which its link did not know when it was rendered.
document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (!detail.elt.matches("#tabs a[data-tab]")) return;
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (!OF_ONE_TAB.includes(name)) detail.parameters[name] = value;
  }
});

let logAtEnd = true;
document.addEventListener("htmx:beforeSwap", () => {
  const log = document.getElementById("log");
  logAtEnd = !log || log.scrollHeight - log.scrollTop - log.clientHeight < 24;
});
document.addEventListener("htmx:afterSettle", settle);
document.addEventListener("theme-changed", drawTabCharts);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTabCharts);

function settle() {
  const log = document.getElementById("log");
  if (log && logAtEnd) log.scrollTop = log.scrollHeight;
  showOpenTab();
  drawTabCharts();
  showPanels();
}

function showOpenTab() {
  showCurrent(document.querySelector("#tabs .tabs"));
}
addEventListener("resize", showOpenTab);
settle();
