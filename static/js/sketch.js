// A chart's first picture: the traces and layout that Plotly would get, as plain SVG with everything in the same place.
// It knows what our charts use, and refuses the rest.

const SVG = "http://www.w3.org/2000/svg";
const MINUS = "−";
const PREFIXES = { [-9]: "n", [-6]: "μ", [-3]: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T" };
const CAP = 0.7; // of a font's size, as Plotly has them: the height of capitals, half of a line, the line of a label below its place
const MIDDLE = 0.35;
const SLICE = 60; // traces drawn at once
const BIG = 1.2; // of the font's size: that of titles
const BENDS = { linear: (value) => value, log: Math.log10 };
const THIN = new Set(["x-thin", "cross-thin", "line-ew"]); // only lines
/** From the middle of a mark on, all relative; `r` is half of its size. */
const SHAPES = {
  circle: (r) => `m${r},0a${r},${r} 0 1,1 ${-2 * r},0a${r},${r} 0 1,1 ${2 * r},0z`,
  square: (r) => `m${r},${r}h${-2 * r}v${-2 * r}h${2 * r}z`,
  diamond: (r, a = 1.3 * r) => `m${a},0l${-a},${a}l${-a},${-a}l${a},${-a}z`,
  x: (r, a = (0.8 * r) / Math.SQRT2) => `m0,${a}l${a},${a}l${a},${-a}l${-a},${-a}l${a},${-a}l${-a},${-a}l${-a},${a}l${-a},${-a}l${-a},${a}l${a},${a}l${-a},${a}l${a},${a}z`,
  "triangle-up": (r, a = (2 * r) / Math.sqrt(3)) => `m${-a},${r / 2}h${2 * a}l${-a},${-1.5 * r}z`,
  "triangle-down": (r, a = (2 * r) / Math.sqrt(3)) => `m${-a},${-r / 2}h${2 * a}l${-a},${1.5 * r}z`,
  "x-thin": (r) => `m${r},${r}l${-2 * r},${-2 * r}m${2 * r},0l${-2 * r},${2 * r}`,
  "cross-thin": (r, a = 1.4 * r) => `m0,${a}v${-2 * a}m${a},${a}h${-2 * a}`,
  "line-ew": (r, a = 1.4 * r) => `m${a},0h${-2 * a}`,
};
const DOT = (r) => `m${-r},.5l.5,-.5l-.5,-.5l-.5,.5z`; // from where a circle ends

let count = 0; // of pictures: names of what they clip by
let pen = null;

function add(parent, name, attributes, text = "") {
  const made = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  if (text) made.textContent = text.replace(/<[^>]*>/g, "").replaceAll("&lt;", "<").replaceAll("&amp;", "&");
  return made;
}

const px = (value) => Math.round(value * 100) / 100;

/** How much room a text takes. */
function sizeOf(text, size, font) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${size}px ${font.family}`;
  const found = pen.measureText(text);
  return { width: found.width, up: Math.round(found.fontBoundingBoxAscent), down: Math.round(found.fontBoundingBoxDescent) };
}

/** Draws into the node, in place of what is there: how its first axes lie, or null for what only Plotly can draw. */
export function sketch(node, traces, layout) {
  const axes = axesOf(node, traces, layout);
  if (!axes) return null;
  const { x, y } = axes;
  const { family, size, color } = layout.font;
  const room = { width: layout.width ?? "100%", height: layout.height ?? "100%" };
  const svg = add(document.createDocumentFragment(), "svg", { class: "sketch", ...room, "font-family": family, "font-size": size, fill: color, "aria-hidden": true });
  const clips = add(svg, "defs", {});
  count += 1;
  for (const axis of Object.values(axes)) {
    if (axis.isX) continue;
    axis.clip = `url(#sketch-${count}-${axis.name})`;
    add(add(clips, "clipPath", { id: `sketch-${count}-${axis.name}` }), "rect", { x: x.start, y: axis.top, width: x.length, height: -axis.length });
  }
  const shapes = (layer) => { for (const shape of layout.shapes ?? []) if ((shape.layer ?? "above") === layer) drawShape(svg, shape, axes); };
  shapes("below");
  for (const axis of Object.values(axes)) drawGrid(svg, axis, axes);
  drawTraces(add(svg, "g", {}), traces, axes);
  shapes("above");
  for (const axis of Object.values(axes)) drawLabels(svg, axis, axes, layout.font);
  for (const note of layout.annotations ?? []) drawNote(svg, note, axes, layout.font);
  node.replaceChildren(svg);
  return { left: x.start, width: x.length, top: y.top, height: -y.length, x: x.at };
}

function axesOf(node, traces, layout) {
  if (traces.some((trace) => !isKnown(trace))) return null;
  const frame = { width: layout.width ?? node.clientWidth, height: layout.height ?? node.clientHeight, margin: { ...layout.margin }, font: layout.font };
  const y2 = traces.some((trace) => trace.yaxis === "y2") ? ["yaxis2"] : [];
  const found = {};
  for (const name of ["yaxis", ...y2, "xaxis"]) { // a vertical one may need more room at the left
    const axis = axisOf(name, layout[name], traces, frame);
    if (!axis) return null;
    found[axis.name] = axis;
  }
  return found;
}

function isKnown({ type = "scatter", marker, fill = "tonexty" }) {
  const symbols = [marker?.symbol ?? "circle"].flat();
  return type === "scatter" && fill === "tonexty" && symbols.every((symbol) => baseOf(symbol) in SHAPES);
}

function axisOf(title, given, traces, frame) {
  const { width, height, margin, font } = frame;
  const isX = title.startsWith("x");
  const name = title.replace("axis", "");
  const [from, to] = given.domain ?? [0, 1];
  const room = height - margin.t - margin.b;
  const axis = { name, isX, given, range: given.range, anchor: given.anchor, start: margin.t + room * (1 - from), length: room * (from - to) };
  if (isX) Object.assign(axis, { start: margin.l, length: width - margin.l - margin.r });
  axis.top = axis.start + axis.length;
  const categories = given.type === "category" ? [...new Set(traces.flatMap((trace) => Array.from(trace[name[0]] ?? [])))] : null;
  axis.bend = categories ? (value) => (categories.includes(value) ? categories.indexOf(value) : NaN) : BENDS[given.type ?? "linear"];
  axis.of = (place) => axis.start + ((place - axis.range[0]) / (axis.range[1] - axis.range[0])) * axis.length;
  axis.at = (value) => (value === null || value === undefined ? NaN : axis.of(axis.bend(value)));
  axis.holds = (pixel) => pixel >= Math.min(axis.start, axis.top) && pixel <= Math.max(axis.start, axis.top);
  axis.ticks = axis.range && axis.bend ? ticksOf(axis, categories) : null;
  if (!axis.ticks?.every(([, text]) => text !== null)) return null;
  axis.sizes = axis.ticks.map(([, text]) => sizeOf(text, font.size, font));
  if (isX) return overlaps(axis) ? null : axis;
  axis.depth = 1 + Math.max(0, ...axis.sizes.map((size) => size.width));
  if (given.automargin) margin.l = Math.round(Math.max(margin.l, axis.depth + (given.title?.standoff ?? 0) + Math.round(BIG * font.size) * CAP));
  return axis;
}

/** Labels that run into each other are turned by Plotly. */
function overlaps({ ticks, sizes, at }) {
  return ticks.some(([value], i) => i > 0 && at(value) - sizes[i].width / 2 < at(ticks[i - 1][0]) + sizes[i - 1].width / 2 + 2);
}

/** [value, text] of each tick; a text is null where it is unknown how Plotly would write it. */
function ticksOf({ given, bend, range, isX, length }, categories) {
  const [lo, hi] = range;
  const slack = (hi - lo) * 1e-4;
  const within = ([value]) => bend(value) >= lo - slack && bend(value) <= hi + slack;
  if (given.tickmode === "array") return given.tickvals.map((value, i) => [value, given.ticktext[i]]).filter(within);
  if (categories) {
    const step = Math.max(1, Math.ceil(((hi - lo) * 13) / Math.abs(length)));
    return categories.map((value) => [value, String(value)]).filter((tick, i) => i % step === 0 && within(tick));
  }
  if (given.type === "log" || given.dtick) return null;
  const most = given.nticks ?? Math.min(9, Math.max(4, Math.abs(length) / (isX ? 80 : 40))) + 1;
  const rough = (hi - lo) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [2, 5, 10].find((size) => size * power >= rough);
  const found = [];
  for (let i = Math.ceil((lo - slack) / step); i * step <= hi + slack; i += 1) found.push([i * step, numberText(i * step, step, given, range)]);
  return found;
}

function numberText(value, step, { tickformat, exponentformat }, range) {
  const [, plus, digits] = tickformat?.match(/^(\+?)\.(\d)f$/) ?? [];
  if (digits) return `${value < 0 ? MINUS : plus}${Math.abs(value).toFixed(digits)}`;
  if (tickformat || ![undefined, "SI"].includes(exponentformat)) return null;
  const power = Math.floor(Math.log10(Math.max(...range.map(Math.abs))) + 0.01);
  const exponent = Math.abs(power) > 3 ? 3 * Math.round((power - 1) / 3) : 0;
  const places = Math.max(0, 2 - Math.floor(Math.log10(step) + 0.01) + exponent);
  const text = String(Number((Math.abs(value) / 10 ** exponent).toFixed(places)));
  if (value === 0) return "0";
  return exponent in PREFIXES ? `${value < 0 ? MINUS : ""}${text}${PREFIXES[exponent]}` : null;
}

function drawGrid(svg, { given, isX, ticks, at, start, top, holds }, axes) {
  const drawn = given.showgrid === false ? [] : ticks.filter(([value]) => value !== 0 || !given.zeroline);
  const lines = drawn.map(([value]) => [at(value), given.gridcolor]).filter(([pixel]) => pixel > Math.min(start, top) + 1 && pixel < Math.max(start, top) - 1);
  if (given.zeroline && holds(at(0))) lines.push([at(0), given.zerolinecolor]);
  const { start: left, length } = axes.x;
  for (const [pixel, stroke] of lines) {
    const d = isX ? `M${px(pixel)},${axes.y.top}V${axes.y.start}` : `M${left},${px(pixel)}h${length}`;
    add(svg, "path", { class: "grid", d, stroke, "shape-rendering": "crispEdges" });
  }
}

function drawLabels(svg, axis, axes, font) {
  const { isX, ticks, at, given, start, length } = axis;
  const bottom = axes[given.anchor ?? "y"]?.start;
  const group = add(svg, "g", { class: `${axis.name}tick`, "text-anchor": isX ? "middle" : "end" });
  for (const [value, text] of ticks) {
    const [x, y] = isX ? [at(value), bottom + 1 + font.size] : [axes.x.start - 1, at(value) + font.size * MIDDLE];
    add(group, "text", { x: px(x), y: px(y) }, text);
  }
  if (!given.title?.text) return;
  const size = Math.round(BIG * font.size);
  const middle = start + length / 2;
  const away = given.title.standoff;
  const depth = 1 + font.size + Math.max(0, ...axis.sizes.map((each) => each.down));
  const [x, y] = isX ? [middle, bottom + depth + away + size * CAP] : [axes.x.start - axis.depth - away - size * MIDDLE, middle];
  const turned = `translate(${px(x)},${px(y)})${isX ? "" : "rotate(-90)"}`;
  add(add(svg, "g", { "font-size": size, "text-anchor": "middle", transform: turned }), "text", { class: `${axis.name}title` }, given.title.text);
}

/** In slices, so that the browser gets a turn between them. */
function drawTraces(layer, traces, axes, from = 0) {
  for (const [i, trace] of traces.slice(from, from + SLICE).entries()) {
    drawTrace(add(layer, "g", { opacity: trace.opacity }), trace, traces[from + i - 1], axes.x, axes[trace.yaxis ?? "y"]);
  }
  if (from + SLICE < traces.length) setTimeout(() => { if (layer.isConnected) drawTraces(layer, traces, axes, from + SLICE); });
}

function drawTrace(group, trace, before, x, y) {
  const at = (one) => Array.from(one.x, (value, i) => [px(x.at(value)), px(y.at(one.y[i]))]);
  const places = at(trace);
  const isThere = (place) => place.every(Number.isFinite);
  if (trace.fill && before) {
    const edge = [...places.filter(isThere), ...at(before).filter(isThere).reverse()];
    if (edge.length) add(group, "path", { class: "fill", d: `M${edge.join("L")}Z`, fill: trace.fillcolor, "clip-path": y.clip });
  }
  for (const name of ["error_x", "error_y"]) if (trace[name]?.array) drawErrors(group, trace, name, places, x, y);
  if (trace.mode.includes("lines") && trace.line?.width) {
    const d = places.map((place, i) => (isThere(place) ? `${i && isThere(places[i - 1]) ? "L" : "M"}${place}` : "")).join("");
    const { color, width, dash } = trace.line;
    if (d) add(group, "path", { class: "line", d, fill: "none", stroke: color, "stroke-width": width, "stroke-dasharray": dashes(dash, width), "clip-path": y.clip });
  }
  if (trace.mode.includes("markers")) drawMarks(group, trace, places, trace.cliponaxis === false ? { x, y } : { clip: y.clip });
}

function dashes(dash = "solid", width = 1) {
  const size = Math.max(width, 3);
  if (dash === "solid") return undefined;
  return dash === "dashdot" ? [3 * size, size, size, size].join() : dash;
}

/** Bars from each mark to the ends of its interval, with a cap at either end. */
function drawErrors(group, trace, name, places, x, y) {
  const { array, arrayminus, color, thickness = 2, width } = trace[name];
  const isX = name === "error_x";
  const axis = isX ? x : y;
  const values = isX ? trace.x : trace.y;
  let d = "";
  for (const [i, [across, up]] of places.entries()) {
    const [end, begin] = [px(axis.at(values[i] + (array[i] ?? 0))), px(axis.at(values[i] - (arrayminus[i] ?? 0)))];
    if (![across, up, end].every(Number.isFinite)) continue;
    const cap = (pixel) => (isX ? `M${pixel},${up - width}v${2 * width}` : `M${across - width},${pixel}h${2 * width}`);
    const open = !Number.isFinite(begin); // below zero on a log axis
    d += `${cap(end)}M${isX ? `${end},${up}H` : `${across},${end}V`}${open ? axis.start : begin}${open ? "" : cap(begin)}`;
  }
  add(group, "path", { class: "error", d, fill: "none", stroke: color, "stroke-width": thickness, "clip-path": y.clip });
}

const baseOf = (symbol) => symbol.replace(/-open|-dot/g, "");

/** Marks that look alike are one path, unless the next would lie on the outline of the one before. */
function drawMarks(group, { marker }, places, { x, y, clip }) {
  const of = (value, i) => (Array.isArray(value) ? value[i] : value);
  const paths = [];
  for (const [i, [across, up]] of places.entries()) {
    if (!Number.isFinite(across + up) || (x && !(x.holds(across) && y.holds(up)))) continue;
    const symbol = of(marker.symbol, i) ?? "circle";
    const [base, isOpen, r, color] = [baseOf(symbol), symbol.includes("-open"), marker.size / 2, of(marker.color, i)];
    const width = marker.line?.width || (isOpen ? 1 : 0);
    const look = {
      fill: isOpen || THIN.has(base) ? "none" : color, opacity: of(marker.opacity, i),
      ...(width && { stroke: isOpen ? color : marker.line.color, "stroke-width": width }),
    };
    const d = `M${across},${up}${SHAPES[base](r)}${symbol.includes("-dot") ? DOT(r) : ""}`;
    const last = paths.at(-1);
    const isAlike = last && Object.keys(look).every((name) => last.look[name] === look[name]);
    if (isAlike && (look.fill === "none" || !width)) last.d += d;
    else paths.push({ look, d });
  }
  for (const { look, d } of paths) add(group, "path", { class: "mark", d, ...look, "clip-path": clip });
}

/** A function from a place of a shape or a note to its pixel: of an axis, of its part of the chart ("x domain"), of all ("paper"). */
function refer(ref, letter, axes, place) {
  const axis = axes[ref === "paper" ? letter : ref.replace(" domain", "")];
  if (ref === "paper" && letter === "y") { // all of the plot, whatever axes share it
    const whole = Object.values(axes).filter(({ isX }) => !isX);
    const [bottom, top] = [Math.max(...whole.map(({ start }) => start)), Math.min(...whole.map((each) => each.top))];
    return (share) => bottom + share * (top - bottom);
  }
  return ref === "paper" || ref.endsWith("domain") ? (share) => axis.start + share * axis.length : axis[place];
}

function drawShape(svg, shape, axes) {
  const { xref = "x", yref = "y", line } = shape;
  const [x, y] = [refer(xref, "x", axes, "at"), refer(yref, "y", axes, "at")];
  let [x0, x1, y0, y1] = [x(shape.x0), x(shape.x1), y(shape.y0), y(shape.y1)];
  const clip = axes[yref.replace(" domain", "")]?.clip;
  if (shape.type === "rect") {
    const [left, top] = [Math.min(x0, x1), Math.min(y0, y1)];
    add(svg, "rect", { class: "shape", x: px(left), y: px(top), width: px(Math.abs(x1 - x0)), height: px(Math.abs(y1 - y0)), fill: shape.fillcolor, "clip-path": clip });
    return;
  }
  const crisp = (pixel) => Math.round(pixel) + (Math.round(line.width % 2) === 1 ? 0.5 : 0);
  if (x0 === x1) x0 = x1 = crisp(x0);
  if (y0 === y1) y0 = y1 = crisp(y0);
  add(svg, "path", { class: "shape", d: `M${px(x0)},${px(y0)}L${px(x1)},${px(y1)}`, stroke: line.color, "stroke-width": line.width, "stroke-dasharray": dashes(line.dash), "clip-path": clip });
}

const SHIFTS = { left: 0.5, bottom: -0.5, right: -0.5, top: 0.5 }; // of a note's own size

function drawNote(svg, note, axes, font) {
  const { xref = "x", yref = "y", borderwidth: edge = 1, borderpad = 1, bgcolor, bordercolor } = note;
  let [x, y] = [refer(xref, "x", axes, "of")(note.x), refer(yref, "y", axes, "of")(note.y)];
  const isOut = (ref, pixel) => ref in axes && !axes[ref].holds(pixel);
  if (isOut(xref, x) || isOut(yref, y)) return;
  const size = note.font?.size ?? font.size;
  const room = sizeOf(note.text, size, font);
  const [width, height] = [room.width, room.up + room.down].map((each) => Math.round(each + 2 * (edge + borderpad)));
  const group = add(svg, "g", { class: "annotation", "text-anchor": "middle", "font-size": size, fill: note.font?.color });
  if (note.showarrow) {
    add(group, "path", { d: `M${px(x)},${px(y)}l${note.ax},${note.ay}`, stroke: note.arrowcolor, "stroke-width": note.arrowwidth });
    [x, y] = [x + note.ax, y + note.ay];
  }
  const left = Math.round(x + (SHIFTS[note.xanchor] ?? 0) * width + (note.xshift ?? 0) - width / 2);
  const top = Math.round(y + (SHIFTS[note.yanchor] ?? 0) * height - (note.yshift ?? 0) - height / 2);
  if (bgcolor) add(group, "rect", { x: left + edge / 2, y: top + edge / 2, width: width - edge, height: height - edge, fill: bgcolor, stroke: bordercolor, "stroke-width": edge });
  add(group, "text", { x: px(left + edge + borderpad + room.width / 2), y: top + edge + borderpad + room.up }, note.text);
}
