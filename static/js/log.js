// The live end of a job's log: new lines are appended, the oldest shown ones go, and what the reader looks at stays.
import { grouped } from "./format.js";
import { fetchJson } from "./live.js";

const MOST_SHOWN = 5_000; // lines
let isAsking = false;

/** Whether the open log is the live end of a kept one; if so, what came since is appended. False: swap it as a whole. */
export function followLog() {
  const log = document.getElementById("log");
  if (!log?.dataset.cursor) return false;
  if (!isAsking) append(log);
  return true;
}

async function append(log) {
  isAsking = true;
  try {
    let answer;
    do {
      answer = await fetchJson(`${log.dataset.lines}?after=${log.dataset.cursor}`);
      if (answer.anew) { delete log.dataset.cursor; return; } // only the job's end is known: swapped from now on
      show(log, answer);
    } while (answer.more && log.isConnected);
  } catch { // the page's own poll says what is wrong
  } finally {
    isAsking = false;
  }
}

function show(log, { lines, total }) {
  if (!lines.length) return;
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  log.append(...lines.map(([number, text]) => lineOf(number, text)));
  log.dataset.cursor = lines.at(-1)[0];
  if (isAtEnd) {
    while (log.childElementCount > MOST_SHOWN) log.firstElementChild.remove();
    log.scrollTop = log.scrollHeight;
  }
  const counted = document.getElementById("log-total");
  if (counted) counted.textContent = grouped(total);
}

function lineOf(number, text) {
  const line = document.createElement("span");
  line.className = "line";
  line.dataset.n = number;
  line.textContent = `${text}\n`;
  return line;
}
