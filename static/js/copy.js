// What screen readers read out; copying a text, and saying so on the button that was pressed, too.

/** Read out by a screen reader; `#said` is in base.html. */
export function say(words) {
  const region = document.getElementById("said");
  if (region) region.textContent = words;
}

// A live region that comes with its words is silent: what a swap brings in [data-say] is read out where it says something new.
const toSay = () => [...document.querySelectorAll("[data-say]")].map((node) => node.textContent.replace(/\s+/g, " ").trim()).join(" ");
let told = toSay();
document.addEventListener("htmx:afterSettle", () => {
  const words = toSay();
  if (words && words !== told) say(words);
  told = words;
});

/** Resolves to whether the text is in the clipboard now. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text); // only on localhost and over HTTPS
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "sr";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

/** Copy, and say on the button whether it worked. */
export async function copyFrom(button, text) {
  const done = await copyText(text);
  const words = done ? "Copied" : "Select it and press Ctrl-C";
  say(words);
  if (button.dataset.saying) return;
  const before = button.textContent;
  button.dataset.saying = "yes";
  button.textContent = words;
  setTimeout(() => { button.textContent = before; delete button.dataset.saying; }, 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copyFrom(button, button.dataset.copy);
});
