// The budget of the comparison: a slider over stops that the server chose and a field for any other amount, one model.
// What they change is asked of the server shortly after the last move; while one question is out only the newest waits.
import { say as readOut } from "./copy.js";
import { amount } from "./format.js";

const REST = 60; // milliseconds without a move
const MOST_READ = 3; // curves whose numbers are read out

/** `moved(value)` gets every new budget at once, before the server has answered. */
export function budgetSlider({ stops, unit, moved }) {
  const range = document.getElementById("budget-range");
  const field = document.getElementById("budget");
  const state = document.getElementById("odds-state");
  if (!range || !stops.length) return;
  let timer = null;

  function nearest(value) {
    let best = 0;
    for (const index of stops.keys()) {
      if (Math.abs(Math.log(stops[index] / value)) < Math.abs(Math.log(stops[best] / value))) best = index;
    }
    return best;
  }

  function place(value) {
    range.value = String(nearest(value));
    range.setAttribute("aria-valuetext", `${amount(value)} ${unit}`);
  }

  function ask() {
    clearTimeout(timer);
    timer = setTimeout(() => window.htmx.trigger("#odds", "refresh"), REST);
  }

  range.addEventListener("input", () => {
    const value = stops[Number(range.value)];
    field.value = String(value);
    range.setAttribute("aria-valuetext", `${amount(value)} ${unit}`);
    field.removeAttribute("aria-invalid");
    moved(value);
    ask();
  });

  function typed() {
    const value = Number(field.value.replaceAll(",", ""));
    const fine = Number.isFinite(value) && value > 0;
    if (!fine) field.setAttribute("aria-invalid", "true");
    else {
      field.removeAttribute("aria-invalid");
      place(value);
      moved(value);
    }
    ask(); // of a bad one the server says what is wrong
  }
  field.addEventListener("change", typed);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    typed();
  });

  function say(text) {
    state.textContent = text;
    state.hidden = !text;
  }
  for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    document.addEventListener(name, () => say("The server does not answer. The numbers below are those of the last answer."));
  }
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    if (target.id !== "odds") return;
    say("");
    const rows = [...target.querySelectorAll("tbody tr")].slice(0, MOST_READ).map((row) => [...row.cells].map((cell) => cell.innerText).join(", "));
    readOut([target.querySelector("caption")?.textContent, ...rows].join(". ").replace(/\s+/g, " "));
  });
  place(Number(field.value.replaceAll(",", "")) || stops[0]);
}
