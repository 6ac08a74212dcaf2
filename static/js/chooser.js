// The search that adds to the comparison: results are plain links, reached with the arrow keys, too.

export function chooser() {
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const links = () => [...found.querySelectorAll("a")];

  // Who types while the page still loads is answered as soon as it has.
  window.addEventListener("load", () => { if (search.value) window.htmx.trigger(search, "ask"); });

  function close() {
    found.replaceChildren();
  }

  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault(); // the first match, never a page without it
      links()[0]?.click();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      links()[0]?.focus();
    } else if (event.key === "Escape") {
      search.value = "";
      close();
    }
  });

  found.addEventListener("keydown", (event) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    if (event.key === "Escape") { search.focus(); close(); return; }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    (all[at + step] ?? (step < 0 ? search : all.at(-1))).focus();
  });

  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".chooser-search")) close();
  });
  document.addEventListener("focusin", (event) => {
    if (!event.target.closest(".chooser-search")) close();
  });
}
