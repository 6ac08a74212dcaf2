// Polling that notices when nobody looks, when the server is away, and when there is nothing more to come.
const FAST = 1_000;
const HIDDEN = 10_000;
const ROUNDS_AFTER_END = 6; // a last batch may still be on its way

/**
 * Call `ask()` again and again. It resolves to "changed" or "same", or rejects; `ended()` says whether to slow down
 * and stop. `banner` is told in words when the server does not answer, and cleared when it does again.
 */
export function keepAsking({ ask, ended, banner }) {
  let timer = null;
  let failures = 0;
  let rounds = 0;
  let lastSuccess = new Date();

  async function round() {
    try {
      await ask();
      failures = 0;
      lastSuccess = new Date();
      banner.hidden = true;
    } catch (error) {
      failures += 1;
      if (error.final) { say(error.message); return; }
      say(`The server does not answer. You see the state of ${lastSuccess.toLocaleTimeString()}; trying again.`);
    }
    if (ended()) rounds += 1;
    if (!ended() || rounds <= ROUNDS_AFTER_END || failures) timer = setTimeout(round, wait());
  }

  function wait() {
    if (failures) return Math.min(HIDDEN, FAST * 2 ** Math.min(failures, 4));
    return document.hidden || ended() ? HIDDEN : FAST;
  }

  function say(words) {
    banner.textContent = words;
    banner.hidden = false;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden || (ended() && rounds > ROUNDS_AFTER_END)) return;
    clearTimeout(timer);
    timer = setTimeout(round, 0);
  });
  timer = setTimeout(round, FAST);
}

/** JSON of a URL of ours, or null for "nothing new" (204). An error with `final` will not get better by waiting. */
export async function fetchJson(url) {
  const response = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (response.status === 204) return null;
  if (response.redirected) throw Object.assign(new Error("You have been signed out. Reload the page to sign in again."), { final: true });
  if (response.status === 404) throw Object.assign(new Error("This run is not there any more."), { final: true });
  if (!response.ok) throw Object.assign(new Error(`status ${response.status}`), { status: response.status });
  return response.json();
}
