// A thin line at the top while htmx waits for longer than 300 ms, and a busy button; polls are not told.
const AFTER = 300;
const line = document.getElementById("progress-line");
const waiting = new Set();

function show() {
  if (line) line.hidden = waiting.size === 0;
}

function buttonOf(detail) {
  const { elt, requestConfig } = detail;
  const sender = requestConfig?.triggeringEvent?.submitter ?? elt;
  return sender?.closest?.("button, .btn") ?? null;
}

document.addEventListener("htmx:beforeSend", ({ detail }) => {
  if (detail.elt.matches("[data-poll]") || detail.elt.id === "panel") return;
  buttonOf(detail)?.setAttribute("aria-busy", "true");
  setTimeout(() => {
    if (detail.xhr.readyState === XMLHttpRequest.DONE) return;
    waiting.add(detail.xhr);
    show();
  }, AFTER);
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  buttonOf(detail)?.removeAttribute("aria-busy");
  if (waiting.delete(detail.xhr)) show();
});
document.addEventListener("htmx:beforeRequest", (event) => {
  // Polls rest while nobody looks.
  if (document.hidden && event.detail.elt.matches("[data-poll]")) event.preventDefault();
});
