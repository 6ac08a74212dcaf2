// Times in the reader's own zone: `<time data-age>` says how long ago ("3 h", or "3 h ago" with the value "ago") and stays true, `<time data-moment>` says when.
// Both have the absolute time with its zone as their title.
import { ageText } from "./format.js";

const SHORT = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
const EXACT = { ...SHORT, second: "2-digit", timeZoneName: "short" };

const made = new Map(); // each takes a slow phone 40 ms: on a page without times, none
function written(date, how) {
  if (!made.has(how)) made.set(how, new Intl.DateTimeFormat(undefined, how));
  return made.get(how).format(date);
}

export function refreshTimes() {
  for (const node of document.querySelectorAll("time[data-age], time[data-moment]")) {
    const date = new Date(node.dateTime);
    if (Number.isNaN(date.valueOf())) continue;
    const words = "age" in node.dataset ? ageText(date, node.dataset.age) : written(date, SHORT);
    if (node.textContent !== words) node.textContent = words;
    if (!node.title) node.title = written(date, EXACT);
  }
}

document.addEventListener("htmx:afterSettle", refreshTimes);
setInterval(refreshTimes, 30_000);
refreshTimes();
