// Forms: some send themselves, some are sent once, all say that they are on their way, and text that nobody has sent
// is not lost without a question.

const SENT_BY = "headroom-sent-by";
const likeOf = ({ name, type, value }) => `${name} ${type === "checkbox" ? value : ""}`;

document.addEventListener("change", (event) => {
  if (event.target.closest("[data-sent-together]")) return; // several are chosen first; a button sends them
  if (!event.target.closest("form[data-send-on-change]")) return;
  sessionStorage.setItem(SENT_BY, likeOf(event.target));
  event.target.form.requestSubmit();
});

// A form that came back is taken up where the mistake is; one that sent itself, at the field that sent it.
const sentBy = sessionStorage.getItem(SENT_BY);
sessionStorage.removeItem(SENT_BY);
const senders = [...document.querySelectorAll("main form[data-send-on-change] :is(input, select)")];
const sender = senders.find((field) => likeOf(field) === sentBy);
if (!location.hash) (document.querySelector("main [aria-invalid=true]") ?? sender)?.focus();

// A second click while the first is on its way sends nothing; the idempotency key covers the rest.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("form[data-send-once]")) {
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
  }
  if (form.method === "post" && !event.defaultPrevented) event.submitter?.setAttribute("aria-busy", "true");
});

window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const button of document.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
});

/** Whether somebody typed into a form and did not send it: any posted form with a text area, or with `data-keep`. */
function hasUnsent(form) {
  if (!form.dataset.typed) return false;
  const fields = form.querySelectorAll("keep" in form.dataset ? "input, textarea, select" : "textarea");
  return [...fields].some((field) => !field.disabled && isChanged(field));
}

function isChanged(field) {
  if (field.type === "hidden" || field.type === "search") return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
  const first = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
  return first !== undefined && field.value !== first.value;
}

// What was chosen before htmx had read the page is asked for once it has; a form that was put back is as it was left.
document.addEventListener("DOMContentLoaded", () => {
  const selects = [...document.querySelectorAll("select[hx-get]")];
  const early = selects.find((select) => isChanged(select) && !select.form?.dataset.restored);
  if (early) window.htmx.trigger(early, "change");
});

document.addEventListener("input", ({ target }) => { if (target.form) target.form.dataset.typed = "yes"; });
document.addEventListener("submit", ({ target }) => { delete target.dataset.typed; });
window.addEventListener("beforeunload", (event) => {
  const forms = document.querySelectorAll("form[method=post]:not([data-forget])");
  if ([...forms].some(hasUnsent)) event.preventDefault();
});
