// Polling that notices when nobody looks, when the server is away, and when there is nothing more to come.
import { fine, inTime, notAnswering, tellSignedOut, trouble } from "./connection.js";

const FAST = 1_000;
const HIDDEN = 10_000;
const ROUNDS_AFTER_END = 6; // a last batch may still be on its way
const LEAVING_MS = 10_000; // a form was sent: the next page is on its way, and what this one shows may be gone

let leavingUntil = 0;
addEventListener("submit", (event) => {
  if (!event.defaultPrevented && event.target.method === "post") leavingUntil = Date.now() + LEAVING_MS;
});
addEventListener("pageshow", () => { leavingUntil = 0; });

/**
 * Call `ask()` again and again. It resolves to "changed" or "same", or rejects; `ended()` says whether to slow down
 * and stop. The page's banner says when the server does not answer, and is cleared when it does again.
 */
export function keepAsking({ ask, ended }) {
  const source = Symbol("poll");
  let timer = null;
  let failures = 0;
  let rounds = 0;

  async function round() {
    if (Date.now() < leavingUntil) {
      timer = setTimeout(round, FAST);
      return;
    }
    try {
      await ask();
      failures = 0;
      fine(source);
    } catch (error) {
      failures += 1;
      if (error.signedOut) tellSignedOut();
      else trouble(source, error.final ? error.message : notAnswering());
      if (error.final && !error.signedOut) return;
    }
    if (ended()) rounds += 1;
    if (!ended() || rounds <= ROUNDS_AFTER_END || failures) timer = setTimeout(round, wait());
  }

  function wait() {
    if (failures) return Math.min(HIDDEN, FAST * 2 ** Math.min(failures, 4));
    return document.hidden || ended() ? HIDDEN : FAST;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden || (ended() && rounds > ROUNDS_AFTER_END)) return;
    clearTimeout(timer);
    timer = setTimeout(round, 0);
  });
  timer = setTimeout(round, FAST);
}

/** JSON of a URL of ours, or null for "nothing new" (204). An error with `final` will not get better by waiting. */
export async function fetchJson(url, options = {}) {
  const headers = { Accept: "application/json" };
  const response = await fetch(url, { headers, credentials: "same-origin", signal: inTime(), ...options });
  if (response.status === 204) return null;
  if (response.redirected || response.status === 401) {
    throw Object.assign(new Error("You have been signed out. Reload the page to sign in again."), { final: true, signedOut: true });
  }
  if (response.status === 404) throw Object.assign(new Error("What this page shows is not there any more."), { final: true });
  if (!response.ok) throw Object.assign(new Error(`status ${response.status}`), { status: response.status });
  return response.json();
}
