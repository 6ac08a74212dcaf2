// The bell: its list comes when it is opened, and its count stays true while the page is looked at.
import { fetchJson } from "./live.js";

const EVERY = 30_000;
const button = document.getElementById("bell-button");
const bell = document.getElementById("bell");
const count = document.getElementById("bell-count");
const said = document.getElementById("bell-said");

function show(unread) {
  count.textContent = unread >= 100 ? "99+" : String(unread);
  count.hidden = !unread;
  said.textContent = unread ? " unread" : "";
}

async function ask() {
  if (document.hidden) return;
  try {
    const answer = await fetchJson(button.dataset.unread);
    if (answer) show(answer.unread);
  } catch {
    // The page's own banner says when the server does not answer.
  }
}

if (button) {
  const fill = () => window.htmx.ajax("GET", bell.dataset.list, { target: "#bell-body", source: bell });
  bell.addEventListener("toggle", (event) => { if (event.newState === "open") fill(); });
  if (bell.matches(":popover-open")) document.addEventListener("DOMContentLoaded", fill); // opened before this script ran
  document.addEventListener("htmx:afterSettle", () => {
    const now = bell.querySelector("[data-unread-now]");
    if (now) show(Number(now.dataset.unreadNow));
  });
  // Arrows go through the notices, as through a menu.
  bell.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const all = [...bell.querySelectorAll("button, a")];
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    event.preventDefault();
    next?.focus();
  });
  setInterval(ask, EVERY);
  document.addEventListener("visibilitychange", ask);
}
