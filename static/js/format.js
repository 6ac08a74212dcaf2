// Words for ages, and colours of the tokens as Plotly wants them. Numbers come formatted from the server.

/** "now", "4 min", "3 h", "2 d" since `date`, or in the form "ago" "just now", "4 min ago". */
export function ageText(date, form = "", now = new Date()) {
  const minutes = Math.floor((now - date) / 60_000);
  if (minutes < 1) return form === "ago" ? "just now" : "now";
  const ago = form === "ago" ? " ago" : "";
  if (minutes < 60) return `${minutes} min${ago}`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h${ago}`;
  return `${Math.floor(minutes / 1440)} d${ago}`;
}

/** The colours in force, resolved: custom properties keep `light-dark()` unevaluated until they are used. `scheme` "light" or
 * "dark" asks for that theme, whatever the page shows. */
export function colours(scheme = "") {
  const probe = document.createElement("i");
  probe.style.colorScheme = scheme;
  document.body.append(probe);
  const names = ["paper", "card", "line", "ink", "ink-2", "ink-3", "mark", "accent", "bad", "warn", "c1", "c2", "c3", "c4", "c5", "c6"];
  const found = {};
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

/** `rgb(r, g, b)` with an alpha. */
export function faded(rgb, alpha) {
  return rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

/** A whole number as the server writes it: "14,900". `toLocaleString` loads its rules first, which takes 40 ms. */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/** An amount with three significant digits, as the server writes it: "14,900", "0.0123", "1.20e21", "1e-6". */
export function amount(value) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e6) return value.toExponential(2).replace("e+", "e");
  if (Math.abs(value) >= 1000) return grouped(Number(value.toPrecision(3)));
  if (Math.abs(value) < 1e-4) return Number(value.toPrecision(3)).toExponential();
  return value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
}

const COUNTED = new Set(["steps", "tokens"]); // come in whole numbers

/** An amount that has this unit: "58.0" of hours, "58" of steps. */
export function amountIn(value, unit) {
  const size = Math.abs(value);
  if (!COUNTED.has(unit) || size < 1 || size >= 1000) return amount(value);
  return value.toFixed(size >= 10 || Number.isInteger(value) ? 0 : 1);
}

/** The same with its unit, as the server writes it: "58.0 h", "58 steps", "1 step". */
export function withUnit(value, unit) {
  return `${amountIn(value, unit)} ${COUNTED.has(unit) && value === 1 ? unit.slice(0, -1) : unit}`;
}

/** Ticks of a log axis between two values: 1, 2, 5 of each decade, thinned to at most `most`; [values, texts].
 *  Where fewer than two lie between, as with points that share one compute, round numbers between the ends. */
export function logTicks(from, to, most = 9) {
  const all = [];
  for (let decade = Math.floor(Math.log10(from)); decade <= Math.log10(to); decade += 1) {
    for (const digit of [1, 2, 5]) all.push(Number((digit * 10 ** decade).toPrecision(1)));
  }
  let shown = all.filter((value) => value >= from && value <= to);
  if (shown.length < 2) shown = roundNumbers(from, to);
  if (shown.length > most) shown = shown.filter((value) => /^1/.test(value.toExponential()));
  return [shown, shown.map(tickText)];
}

/** Up to five multiples of 1, 2 or 5 times a power of ten from `from` to `to`. */
function roundNumbers(from, to) {
  const rough = (to - from) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((size) => size * power).find((size) => size >= rough * (1 - 1e-9));
  const found = [];
  for (let at = Math.ceil(from / step); at * step <= to; at += 1) found.push(Number((at * step).toPrecision(6)));
  return found;
}

/** A tick: 0.01, 20, 5k, or 2e18. */
export function tickText(value) {
  if (value >= 1e6 || value < 1e-4) return Number(value.toPrecision(4)).toExponential().replace("e+", "e");
  if (value >= 1000) return `${value / 1000}k`;
  return String(value);
}

/** Titles and labels are people's words; Plotly would read some markup in them. */
export function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
