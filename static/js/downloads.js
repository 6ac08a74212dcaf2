// Any chart as a table on the page, as PNG, SVG or CSV, and a link to it as it is: `details[data-values]` and buttons
// `data-download` in an element with `data-chart` (the chart's id) and `data-name` (the file's name). The CSV has every
// value drawn, a row a point; where the server has a fuller table, the template links to it instead.
import { copyFrom, say } from "./copy.js";
import { amount, colours, escaped } from "./format.js";

const LONGEST_NAME = 80;
const MOST_ROWS = 20; // of a series in the table: nobody reads more
const PNG_SCALE = 2;
const MOST_KEYS = 36; // series that colour and shape tell apart
const KEY_HEIGHT = 20;
const TITLE_HEIGHT = 28;
const TITLE_CHARACTER = 7.5; // pixels, about

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-download]");
  if (!button) return;
  const tools = button.closest("[data-chart]");
  const node = document.getElementById(tools.dataset.chart);
  const kind = button.dataset.download;
  if (kind === "link") { await copyFrom(button, linkTo(node)); return; }
  if (!node?.data) { say("There is nothing to download yet"); return; }
  const name = fileName(tools.dataset.name, kind);
  if (kind === "csv") save(new Blob([csvOf(node)], { type: "text/csv;charset=utf-8" }), name);
  else {
    const picture = await pictureOf(node, kind, tools.querySelector("[data-light]")?.checked);
    if (!picture) { say("The picture could not be made: the server does not answer"); return; }
    save(picture, name);
  }
  say(`Saved ${name}`);
});

// A link to the server's own page for sharing takes the chart along as it is now.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-with-state]");
  if (!link) return;
  const address = new URL(link.href);
  const now = new URLSearchParams(location.search);
  for (const name of new Set(now.keys())) {
    address.searchParams.delete(name);
    for (const value of now.getAll(name)) address.searchParams.append(name, value);
  }
  link.href = address;
});

/** The page's address, whose query says how the chart is looked at, with the chart as its place. */
export function linkTo(node) {
  const url = new URL(location);
  if (node?.id) url.hash = node.id;
  return url.href;
}

/** A name that any file system takes: letters, digits, dots, hyphens and underscores of at most 80 characters. */
export function fileName(wanted, extension) {
  const safe = (wanted ?? "").normalize("NFC").replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[.-]+|[.-]+$/g, "");
  const short = [...safe].slice(0, LONGEST_NAME).join("").replace(/[.-]+$/, "");
  const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(short);
  return `${reserved || !short ? `chart${short ? `-${short}` : ""}` : short}.${extension}`;
}

/** The chart as a Blob; `light`: in the colours of the light theme, whatever the page shows. */
async function pictureOf(node, format, light) {
  const { width, height } = node.getBoundingClientRect();
  const { data, layout, below } = withKey(node, width);
  const titled = withTitle(layout, titleOf(node), width);
  const figure = { data, layout: { ...titled, paper_bgcolor: groundOf(node) } };
  const picture = light ? inLightColours(figure) : figure;
  const scale = format === "png" ? PNG_SCALE : 1;
  const plot = await import("./plot.js");
  const url = await plot.picture(picture, { format, width, height: height + below + TITLE_HEIGHT, scale });
  return url && blobOf(url);
}

/** On the page the key stands beside the chart; a picture brings it along, `below` pixels high. A trace with
 * `showlegend` speaks for its series, whose name is its `legendgroup`. */
export function withKey({ data, layout }, width) {
  const names = data.filter((trace) => trace.showlegend).map((trace) => trace.legendgroup);
  if (!names.length || names.length > MOST_KEYS) return { data, layout, below: 0 };
  const widest = 45 + 7 * Math.max(...names.map((name) => name.length)); // as wide as Plotly makes each
  const below = KEY_HEIGHT * Math.ceil(names.length / Math.max(1, Math.floor(width / widest))) + KEY_HEIGHT / 2;
  const keyed = data.map((trace) => ({
    ...trace, showlegend: Boolean(trace.showlegend), legendgroup: undefined, name: trace.showlegend ? trace.legendgroup : trace.name,
  }));
  const legend = { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom", font: { size: 11 } };
  const margin = { ...layout.margin, b: (layout.margin?.b ?? 80) + below };
  return { data: keyed, layout: { ...layout, showlegend: true, legend, margin }, below };
}

/** What the page says around a chart: its own heading, the chart's, and which of the chart's views is pressed. */
function titleOf(node) {
  const card = node.closest("section, aside, .card");
  const view = card?.querySelector("[data-view][aria-pressed=true]");
  const parts = [document.querySelector("h1"), card?.querySelector("h2"), view].map((each) => each?.textContent.trim().replace(/\s+/g, " "));
  return [...new Set(parts.filter(Boolean))].join(" · ");
}

function withTitle(layout, title, width) {
  const most = Math.max(10, Math.floor(width / TITLE_CHARACTER));
  const short = title.length > most ? `${title.slice(0, most - 1)}…` : title;
  const place = { x: 0, xref: "container", xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 10, l: 12 } };
  const margin = { ...layout.margin, t: (layout.margin?.t ?? 100) + TITLE_HEIGHT };
  return { ...layout, margin, title: { text: escaped(short), font: { size: 13, color: colours().ink }, ...place } };
}

function groundOf(node) {
  return getComputedStyle(node.closest(".card") ?? document.body).backgroundColor;
}

/** Every colour of a token in the figure becomes the same token's colour in the light theme. */
function inLightColours(figure) {
  const [now, light] = [colours(), colours("light")];
  const swaps = new Map(Object.keys(now).map((name) => [triple(now[name]), triple(light[name])]));
  const text = JSON.stringify(figure, (_, value) => (ArrayBuffer.isView(value) ? [...value] : value));
  return JSON.parse(text.replace(/(rgba?\()(\d+, \d+, \d+)/g, (all, start, old) => start + (swaps.get(old) ?? old)));
}

const triple = (rgb) => rgb.match(/\d+, \d+, \d+/)[0];

/** A data URL as a Blob, without a request: the page may not ask for addresses that are not the server's. */
function blobOf(url) {
  const [head, body] = [url.slice(5, url.indexOf(",")), url.slice(url.indexOf(",") + 1)];
  const [type] = head.split(";");
  if (!head.endsWith("base64")) return new Blob([decodeURIComponent(body)], { type });
  return new Blob([Uint8Array.from(atob(body), (character) => character.charCodeAt(0))], { type });
}

// A table is made when it is opened: it shows what is drawn then.
document.addEventListener("toggle", ({ target: details }) => {
  if (!details.matches?.("[data-values]") || !details.open) return;
  const tools = details.closest("[data-chart]");
  details.querySelector(".scroll")?.remove();
  details.append(tableOf(document.getElementById(tools.dataset.chart)));
}, true);

function tableOf(node) {
  const [head, ...rows] = evenly(rowsOf(node), (node?.data ?? []).map((trace, at, all) => [nameOf(all, at), rankOf(trace)]));
  const { xaxis, yaxis } = node.layout ?? {};
  const named = { x: xaxis?.title?.text ?? "x", y: yaxis?.title?.text ?? "Value", lo: "From", hi: "To", series: "Series" };
  const box = document.createElement("div");
  Object.assign(box, { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Values of this chart" });
  const table = box.appendChild(document.createElement("table"));
  table.createCaption().textContent = rows.length ? "At most 20 values of a series, evenly chosen." : "Nothing is drawn yet.";
  const heads = table.createTHead().insertRow();
  for (const name of head) heads.append(Object.assign(document.createElement("th"), { scope: "col", textContent: named[name] }));
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const value of row) line.insertCell().textContent = typeof value === "number" ? amount(value) : value ?? "–";
  }
  return box;
}

/** Points first, then curves, then the edges of bands. */
function rankOf({ mode, line }) {
  if (mode?.includes("markers")) return 0;
  return line?.width === 0 ? 2 : 1;
}

/** Of each series at most MOST_ROWS rows, the first and the last among them; the series by their ranks, [name, rank]. */
function evenly([head, ...rows], ranks) {
  const rank = new Map(ranks);
  const series = [...Map.groupBy(rows, ([name]) => name)].sort(([one], [other]) => rank.get(one) - rank.get(other));
  const chosen = series.flatMap(([, all]) => {
    const step = Math.max(1, (all.length - 1) / (MOST_ROWS - 1));
    return all.filter((_, at) => Math.floor(at / step) !== Math.floor((at - 1) / step) || at === all.length - 1);
  });
  return [head, ...chosen];
}

/** Every value drawn as CSV; x of a log axis as it is, not its logarithm. */
export function csvOf(node) {
  return `${rowsOf(node).map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/** series, or a point's own name, x, y of every value drawn below a row of these names, with lo and hi where intervals are. */
function rowsOf(node) {
  const traces = node?.data ?? [];
  const spans = traces.some((trace) => trace.error_y?.array);
  const rows = [["series", "x", "y", ...(spans ? ["lo", "hi"] : [])]];
  for (const [index, trace] of traces.entries()) {
    const series = nameOf(traces, index);
    for (const [at, x] of Array.from(trace.x ?? []).entries()) {
      rows.push([trace.ids?.[at] ?? series, x, trace.y?.[at], ...(spans ? ends(trace, at) : [])]);
    }
  }
  return rows;
}

/** The ends of a value's interval; an open one is empty. */
function ends({ y, error_y: { array, arrayminus } = {} }, at) {
  const [value, down, up] = [y?.[at], arrayminus?.[at] ?? null, array?.[at] ?? null];
  return [down === null ? null : value - down, up === null ? null : value + up];
}

/** What a trace without a name is: the edges of a band come in pairs, the upper filled down to the lower. */
function nameOf(traces, index) {
  const trace = traces[index];
  if (trace.name) return trace.name;
  if (trace.fill === "tonexty") return "band, upper edge";
  if (traces[index + 1]?.fill === "tonexty") return "band, lower edge";
  if (trace.mode === "lines") return (trace.line?.dash ?? "solid") === "solid" ? "curve" : "curve, dashed";
  return `series ${index + 1}`;
}

function cell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = /^[=+@\t\r]/.test(text) || /^-\D/.test(text) ? `'${text}` : text; // no formula for a spreadsheet
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
