// State that changes without a new page is kept in the address, and sent along by whatever leads on from it.

/** `changes`: name -> value, or a list of values; what is null, "" or empty is dropped. */
export function keepInUrl(changes) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(changes)) {
    const values = [value].flat().filter((one) => one !== null && one !== "").map(String);
    put(url.searchParams, name, values);
    keepInLinks(name, values);
    keepInForms(name, values);
  }
  history.replaceState(null, "", url);
  for (const field of document.querySelectorAll("input[data-address]")) field.value = url.search.slice(1);
}

function put(query, name, values) {
  query.delete(name);
  for (const value of values) query.append(name, value);
}

/** Other tabs, views and axes are links; each carries the same state, but for what it drops. */
function keepInLinks(name, values) {
  for (const link of document.querySelectorAll("main :is(.seg, .tabs) a[href]")) {
    if (link.closest("[data-drops]")?.dataset.drops.split(" ").includes(name)) continue;
    const url = new URL(link.href);
    put(url.searchParams, name, values);
    link.href = url.href;
  }
}

/** So do forms, unless they have a field of their own for it. */
function keepInForms(name, values) {
  for (const form of document.querySelectorAll("main form[method=get]")) {
    for (const field of form.querySelectorAll(`input[type=hidden][name="${name}"]`)) field.remove();
    if (form.elements[name]) continue;
    form.prepend(...values.map((value) => Object.assign(document.createElement("input"), { type: "hidden", name, value })));
  }
}
