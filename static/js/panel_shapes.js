// What panels are drawn with: lines, bands, dots and limits as SVG, and what lies between the points of a line.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "path", "text", "title", "line", "rect", "g"]);
const ROOM = 0.4; // of a limit, beyond it
export const PAD = { l: 58, r: 6, t: 8, b: 16 };

export function element(name, attributes = {}, text = "") {
  const node = SHAPES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== "") node.textContent = text;
  return node;
}

/** An exponential mean of what came before, without the pull of its start; breaks stay. */
export function smoothed(values, weight) {
  let mean = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    return mean / mass;
  });
}

const tenth = (pixel) => Math.round(pixel * 10) / 10; // many times faster than toFixed

/** A line, with breaks where there is no value; or its points, each a dot. */
export function pathOf(xs, ys, place, dots = false) {
  let path = "";
  let pen = "M";
  for (const [i, x] of xs.entries()) {
    if (ys[i] === null) { pen = "M"; continue; }
    path += `${pen}${tenth(place.x(x))},${tenth(place.y(ys[i]))}${dots ? "h.1" : ""}`;
    pen = dots ? "M" : "L";
  }
  return dots || /L/.test(path) ? path : `${path}h.1`; // a point alone is a dot
}

export function bandOf({ x, lo, hi }, place) {
  const there = x.map((at, i) => `${tenth(place.x(at))},${tenth(place.y(hi[i]))}`);
  const back = x.map((at, i) => `${tenth(place.x(at))},${tenth(place.y(lo[i]))}`).reverse();
  return there.length > 1 ? `M${[...there, ...back].join("L")}Z` : "";
}

/** From where to where a limit wants to be seen: with some room beyond it. */
export function sightOf({ value, upwards }, [lo, hi]) {
  const room = ROOM * (Math.abs(value) || hi - lo || 1);
  return upwards ? [Math.min(lo, 0), value + room] : [value - room, value];
}

/** The ground beyond a limit, tinted, and the limit. */
export function limitOf({ value, upwards, level, text }, place, width, [lo, hi]) {
  const [top, bottom, at] = [place.y(hi), place.y(lo), place.y(value)];
  const group = element("g", { class: `limit ${level}` });
  const [x, y, height] = [PAD.l, upwards ? top : at, upwards ? at - top : bottom - at];
  group.append(element("rect", { x, y, height: Math.max(0, height), width: width - PAD.l - PAD.r }), element("path", { d: `M${x},${at}H${width - PAD.r}` }));
  group.append(Object.assign(document.createElementNS(SVG, "title"), { textContent: text })); // `element` would make that of a page
  return group;
}

export function ends(values) {
  let [lo, hi] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null) continue;
    if (value < lo) lo = value;
    if (value > hi) hi = value;
  }
  return lo <= hi ? [lo, hi] : null;
}

/** A value between those of a line at a place of the axis; null beyond its ends and in a break. */
export function between(x, y, at) {
  if (!x.length || at < x[0] || at > x.at(-1)) return null;
  let [a, b] = [0, x.length - 1];
  while (b - a > 1) {
    const middle = (a + b) >> 1;
    if (x[middle] <= at) a = middle;
    else b = middle;
  }
  if (x[a] === at || x[b] === at) return x[b] === at ? y[b] : y[a];
  if (y[a] === null || y[b] === null) return null;
  return y[a] + ((y[b] - y[a]) * (at - x[a])) / (x[b] - x[a]);
}
