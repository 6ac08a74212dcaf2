// Runs list: what is ticked stays ticked while the table refreshes; comparing needs two.
const button = document.getElementById("compare-selected");
const ticked = new Set();

function boxes() {
  return document.querySelectorAll("input[name=run][form=compare-form]");
}

function show() {
  for (const box of boxes()) box.checked = ticked.has(box.value);
  const count = [...boxes()].filter((box) => box.checked).length;
  button.disabled = count < 2;
  button.textContent = count ? `Compare selected (${count})` : "Compare selected";
}

document.addEventListener("change", (event) => {
  if (!event.target.matches("input[name=run][form=compare-form]")) return;
  if (event.target.checked) ticked.add(event.target.value);
  else ticked.delete(event.target.value);
  show();
});
document.addEventListener("htmx:afterSwap", show);
document.addEventListener("htmx:configRequest", ({ detail }) => { // the address holds only what filters
  for (const [name, value] of [...detail.formData]) if (!value) detail.formData.delete(name);
});
if (button) {
  for (const box of boxes()) if (box.checked) ticked.add(box.value);
  show();
}
