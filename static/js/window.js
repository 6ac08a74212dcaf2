// The two ends of the fitted window: handles over the chart and range inputs below it, both with one model: the index
// of the first and of the last evaluation that is fitted. In a window that holds none, as an address may ask for, the
// first is one past the newest, or the last one before the oldest.
import { withUnit } from "./format.js";
import { scaleOf } from "./plot.js";

const FEWEST = 5; // points that a fit needs

/** `changed({lo, cutoff})` gets x values, or null for "from the first" and "up to the newest". */
export function fittedWindow({ box, chart, controls, changed }) {
  let payload = null;
  let asked = { lo: null, cutoff: null };
  const handles = Object.fromEntries([...box.querySelectorAll(".handle")].map((node) => [node.dataset.end, node]));
  const ranges = { lo: controls.querySelector("#lo-range"), cutoff: controls.querySelector("#cutoff-range") };
  const outputs = { lo: controls.querySelector("#lo-words"), cutoff: controls.querySelector("#cutoff-words") };

  const xs = () => payload.points.x;
  const firstIndex = () => (asked.lo === null ? 0 : xs().filter((x) => x < asked.lo).length);
  const lastIndex = () => (asked.cutoff === null ? xs().length - 1 : xs().filter((x) => x <= asked.cutoff).length - 1);

  function move(end, index) {
    const [first, last] = [firstIndex(), lastIndex()];
    const newest = xs().length - 1;
    if (end === "lo") {
      const to = Math.max(0, Math.min(index, last - FEWEST + 1));
      asked = { ...asked, lo: to <= 0 ? null : xs()[to] };
    } else {
      const to = Math.min(newest, Math.max(index, first + FEWEST - 1));
      asked = { ...asked, cutoff: to >= newest ? null : xs()[to] };
    }
    place();
    changed(asked);
  }

  const pixels = (index) => scaleOf(chart).x(xs()[index]);

  /** Between the last point inside and the first outside, so that it belongs to neither. */
  function edge(end) {
    const inside = end === "lo" ? firstIndex() : lastIndex();
    const outside = end === "lo" ? inside - 1 : inside + 1;
    const [left, right] = [Math.min(inside, outside), Math.max(inside, outside)];
    if (left < 0) return pixels(right) - 8;
    if (right >= xs().length) return pixels(left) + 8;
    return (pixels(left) + pixels(right)) / 2;
  }

  function nearest(px) {
    let best = 0;
    for (let index = 0; index < xs().length; index += 1) {
      if (Math.abs(pixels(index) - px) < Math.abs(pixels(best) - px)) best = index;
    }
    return best;
  }

  function place() {
    const usable = payload !== null && xs().length > FEWEST;
    const drawn = usable && !chart.hidden && scaleOf(chart); // a view that cannot be drawn still has its window
    controls.hidden = !usable;
    for (const node of Object.values(handles)) node.hidden = !drawn;
    if (usable) describe();
    if (!drawn) return;
    const { left, top, width, height } = drawn;
    for (const [end, node] of Object.entries(handles)) {
      const px = edge(end);
      node.hidden = px < left - 12 || px > left + width + 12;
      node.style.left = `${px}px`;
      node.style.top = `${top}px`;
      node.style.height = `${height}px`;
      node.classList.toggle("flip", px < left + 140);
    }
  }

  function describe() {
    const unit = payload.x.short;
    const [first, last, count] = [firstIndex(), lastIndex(), xs().length];
    const from = first < count ? withUnit(xs()[first], unit) : "past the newest";
    const upTo = last < 0 ? "before the first" : withUnit(xs()[last], unit);
    const words = {
      lo: first === 0 ? "nothing" : `${from}, ${first} of ${count} left out`,
      cutoff: last === count - 1 ? `all ${count} evaluations` : `${upTo}, then predict ${count - last - 1} of ${count}`,
    };
    for (const end of ["lo", "cutoff"]) {
      const now = Math.max(0, Math.min(end === "lo" ? first : last, count - 1));
      ranges[end].max = count - 1;
      ranges[end].value = now;
      ranges[end].setAttribute("aria-valuetext", words[end]);
      outputs[end].textContent = words[end];
      Object.entries({ valuemin: 0, valuemax: count - 1, valuenow: now, valuetext: words[end] })
        .forEach(([name, value]) => handles[end].setAttribute(`aria-${name}`, value));
    }
    handles.cutoff.querySelector("span").textContent =
      last === count - 1 ? "all fitted, drag" : last < 0 ? "nothing fitted, drag" : `fitted up to ${upTo}, drag`;
  }

  for (const [end, node] of Object.entries(handles)) {
    node.addEventListener("pointerdown", (event) => {
      node.setPointerCapture(event.pointerId);
      node.classList.add("dragging");
      node.focus();
      event.preventDefault();
    });
    node.addEventListener("pointermove", (event) => {
      if (!node.hasPointerCapture(event.pointerId)) return;
      const index = nearest(event.clientX - box.getBoundingClientRect().left);
      if (index !== (end === "lo" ? firstIndex() : lastIndex())) move(end, index);
    });
    node.addEventListener("pointerup", () => node.classList.remove("dragging"));
    node.addEventListener("keydown", (event) => {
      const now = end === "lo" ? firstIndex() : lastIndex();
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5 }[event.key];
      const to = { Home: 0, End: xs().length - 1 }[event.key] ?? (step === undefined ? undefined : now + step);
      if (to === undefined) return;
      event.preventDefault();
      move(end, to);
    });
    ranges[end].addEventListener("input", () => move(end, Number(ranges[end].value)));
  }

  return {
    place,
    /** A new payload; the question that it answers is `question`. */
    show(newPayload, question) {
      payload = newPayload;
      asked = question;
      place();
    },
  };
}
