// Any chart as PNG, SVG or CSV: buttons `data-download` in an element with `data-chart` (the chart's id) and
// `data-name` (the file's name). The CSV has every value drawn, a row a point; where the server has a fuller table,
// the template links to it instead.

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-download]");
  if (!button) return;
  const { chart, name } = button.closest("[data-chart]").dataset;
  const node = document.getElementById(chart);
  if (button.dataset.download === "csv") save(new Blob([csvOf(node)], { type: "text/csv" }), `${name}.csv`);
  else savePicture(node, name, button.dataset.download);
});

async function savePicture(node, name, format) {
  const { width, height } = node.getBoundingClientRect();
  const ground = getComputedStyle(node.closest(".card") ?? document.body).backgroundColor;
  const layout = { ...node.layout, paper_bgcolor: ground };
  const picture = { data: node.data, layout, config: {} };
  const url = await window.Plotly.toImage(picture, { format, width, height, scale: format === "png" ? 2 : 1 });
  save(await (await fetch(url)).blob(), `${name}.${format}`);
}

/** series, x, y of every trace that the reader can point at (edges of bands have no name). */
export function csvOf(node) {
  const rows = [["series", "x", "y"]];
  for (const [index, trace] of (node.data ?? []).entries()) {
    const series = trace.name ?? `trace ${index + 1}`;
    for (const [at, x] of (trace.x ?? []).entries()) rows.push([series, x, trace.y[at]]);
  }
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

function cell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = /^[=+@\t\r]/.test(text) || /^-\D/.test(text) ? `'${text}` : text; // no formula for a spreadsheet
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
