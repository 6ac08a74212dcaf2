// The strip below a curve: evaluations minus what a fit says of them, with the band around zero.
import { band, marker } from "./chart.js";
import { faded, withUnit } from "./format.js";

const CURVE = [0.3, 1]; // of the chart's height
const STRIP = [0, 0.2];

/** Adds the strip to a chart with one y-axis. `residuals`: x, y, lo, hi and, where both are drawn, role of each ("fitted"
 * or "after"); `title` stands above the strip, `against` in the words of each mark; `unit` is that of x. */
export function addResiduals({ traces, layout }, residuals, { title, against, unit }, colour) {
  const axes = { yaxis: "y2" };
  traces.push(...band(residuals.x, residuals.lo, residuals.hi, faded(colour.c1, 0.14), axes));
  const roles = residuals.role ?? residuals.x.map(() => "after");
  for (const role of ["fitted", "after"]) {
    if (roles.includes(role)) traces.push({ ...axes, ...marks(residuals, roles, role, { against, unit }, colour) });
  }
  layout.yaxis.domain = CURVE;
  layout.yaxis2 = {
    domain: STRIP, anchor: "x", range: rangeOf(residuals), gridcolor: colour.line, nticks: 4, tickformat: "+.2f",
    zeroline: true, zerolinecolor: colour["ink-3"], zerolinewidth: 1,
  };
  layout.xaxis.anchor = "y2";
  layout.annotations.push({
    xref: "x domain", x: 0, xanchor: "left", yref: "y2 domain", y: 1, yanchor: "bottom", showarrow: false,
    text: title, font: { color: colour["ink-3"], size: 11 },
  });
}

/** Every mark and the band, with room for the marks' own size, and zero. */
function rangeOf({ y, lo, hi }) {
  const seen = [0, ...y, ...lo, ...hi].filter(Number.isFinite);
  const [least, most] = [Math.min(...seen), Math.max(...seen)];
  const pad = (most - least) * 0.08 || 0.01;
  return [least - pad, most + pad];
}

function marks({ x, y }, roles, role, { against, unit }, colour) {
  const chosen = roles.flatMap((each, index) => (each === role ? [index] : []));
  return {
    name: role === "after" ? "residuals" : "residuals, fitted", x: chosen.map((i) => x[i]), y: chosen.map((i) => y[i]), mode: "markers", marker: { ...marker(role, colour), size: 6 },
    text: chosen.map((i) => withUnit(x[i], unit)), hovertemplate: `%{y:+.3f} against ${against}, at %{text}<extra></extra>`,
  };
}
