// One banner says whatever stands between this page and its server: it does not answer, the reader has been signed
// out, or it could not do what was asked. It goes away by itself when that is over.
//
// Who notices trouble calls `trouble(source, words)`, and `fine(source)` once it is over. htmx and a sign of life every
// 20 seconds are watched here; polls of scripts tell by themselves (live.js).

const SIGN_OF_LIFE = "/alive";
const EVERY = 20_000;
const RETRY_FIRST = 1_000;
const RETRY_MOST = 10_000;
const PATIENCE = 10_000; // for a sign of life, which takes the server no time
const LONGEST = 30_000; // for anything else, as htmx waits (base.html)

const banner = document.getElementById("banner");
const troubles = new Map();
const unanswered = new Map(); // element -> a GET of htmx that got no answer
let lastAnswer = new Date();
let failures = 0;
let timer = null;
let signedOut = false;

export function trouble(source, words) {
  troubles.set(source, words);
  show();
}

export function fine(source) {
  lastAnswer = new Date();
  if (troubles.delete(source)) show();
}

/** "You see the state of 12:01:44": until then the server answered. */
export function notAnswering() {
  return `The server does not answer. You see the state of ${lastAnswer.toLocaleTimeString()}; trying again.`;
}

/** A signal that ends a request without an answer: a server that hangs, or a line that died silently, never refuses. */
export function inTime(milliseconds = LONGEST) {
  const waiting = new AbortController();
  setTimeout(() => waiting.abort(), milliseconds);
  return waiting.signal;
}

/** Nothing on this page will work until somebody signs in again; what was typed stays. */
export function tellSignedOut() {
  signedOut = true;
  again(EVERY);
  trouble("signed out", "You have been signed out. What you typed is still here: sign in again in another tab, or");
}

function show() {
  if (!banner) return;
  const words = troubles.get("signed out") ?? [...troubles.values()].at(-1) ?? "";
  if (banner.dataset.words !== words) {
    banner.dataset.words = words;
    banner.replaceChildren(words);
    if (troubles.has("signed out")) banner.append(" ", signInLink());
  }
  banner.hidden = !words;
}

function signInLink() {
  const link = document.createElement("a");
  link.className = "link";
  link.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "here.";
  return link;
}

/** Ask for a sign of life, soon again while there is none. */
async function look() {
  clearTimeout(timer);
  if (document.hidden || !banner) return;
  try {
    const headers = { Accept: "application/json" };
    const response = await fetch(SIGN_OF_LIFE, { headers, cache: "no-store", signal: inTime(PATIENCE) });
    if (response.status === 401 || response.redirected) { tellSignedOut(); return; }
    if (response.status >= 500) throw new Error(`status ${response.status}`);
    answered();
  } catch {
    failures += 1;
    trouble("server", notAnswering());
  }
  again(failures ? Math.min(RETRY_MOST, RETRY_FIRST * 2 ** (failures - 1)) : EVERY);
}

function again(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(look, milliseconds);
}

function answered() {
  failures = 0;
  if (signedOut) { signedOut = false; fine("signed out"); }
  fine("server");
  for (const [element, request] of unanswered) {
    unanswered.delete(element);
    if (element.isConnected) window.htmx.ajax("GET", request.path, { source: element, target: request.target });
  }
}

function lost(detail) {
  const { verb, path } = detail.requestConfig ?? {};
  const isPoll = detail.elt?.matches("[data-poll]"); // asks again by itself
  if (verb === "get" && !isPoll) unanswered.set(detail.elt, { path, target: detail.target }); // its values are read anew
  if (verb && verb !== "get") trouble("unsent", "The server does not answer: this was not sent. Try it again in a moment.");
  trouble("server", notAnswering());
  if (!failures) { failures = 1; again(RETRY_FIRST); }
}

const WORDS = {
  403: "The server refused this. Reload the page and try again.",
  404: "What you asked for is not there any more. Reload the page to see what is.",
  429: "Too many requests in a short time. Wait a moment and try again.",
};

document.addEventListener("htmx:sendError", ({ detail }) => lost(detail));
document.addEventListener("htmx:timeout", ({ detail }) => lost(detail));
document.addEventListener("htmx:responseError", ({ detail }) => {
  const { status } = detail.xhr;
  if (status === 401) tellSignedOut();
  else if (status === 502 || status === 503 || status === 504) lost(detail);
  else trouble("answer", WORDS[status] ?? `The server could not do this (${status}). The reason is in its log.`);
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (!detail.successful) return;
  unanswered.delete(detail.elt);
  for (const source of ["server", "unsent", "answer"]) fine(source);
});

// Signing out in one tab is said in the others at once.
const tabs = "BroadcastChannel" in window ? new BroadcastChannel("headroom") : null;
tabs?.addEventListener("message", ({ data }) => { if (data === "signed out") tellSignedOut(); else if (data === "signed in") look(); });
document.addEventListener("submit", (event) => { if (event.target.matches("[data-sign-out]")) tabs?.postMessage("signed out"); });

if (banner) {
  tabs?.postMessage("signed in");
  document.addEventListener("visibilitychange", () => { if (!document.hidden) again(0); });
  window.addEventListener("online", () => again(0));
  window.addEventListener("offline", () => { trouble("server", notAnswering()); again(RETRY_FIRST); });
  again(EVERY);
}
