// What is typed into a form stays with its entry in the browser's history: Back and a reload find it again. The browser
// alone restores some controls and leaves out others (autocomplete="off"), which shows a form that nobody filled in.

/** Remember what stands in the form, but for the fields named in `fresh`, which each answer of the server has anew. */
export function keep(form, fresh) {
  const kept = [...new FormData(form)].filter(([name, value]) => !fresh.has(name) && typeof value === "string");
  history.replaceState({ ...history.state, kept }, "");
}

/** Put back what this entry of the history remembers; false where it remembers nothing, or another form. */
export function restore(form, fresh) {
  const { kept } = history.state ?? {};
  if (!kept || !fits(form, kept)) return false;
  const given = new Map();
  for (const [name, value] of kept) given.set(name, [...(given.get(name) ?? []), value]);
  for (const control of form.elements) {
    if (!control.name || fresh.has(control.name) || control.type === "submit") continue;
    const values = given.get(control.name) ?? [];
    if (control.type === "checkbox" || control.type === "radio") control.checked = values.includes(control.value);
    else if (values.length) [control.value] = values;
  }
  form.dataset.restored = "yes";
  return true;
}

/** Whether every choice that is remembered can still be made: recipes and revisions come and go. */
function fits(form, kept) {
  return kept.every(([name, value]) => {
    const control = form.elements[name];
    return !(control instanceof HTMLSelectElement) || [...control.options].some((option) => option.value === value);
  });
}
