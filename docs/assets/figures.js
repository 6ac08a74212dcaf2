// Gives each figure of the page, which stands in it as JSON, to Plotly.
for (const data of document.querySelectorAll("script[data-figure]")) {
  const figure = JSON.parse(data.textContent);
  const dark = document.body.dataset.mdColorScheme === "slate";
  const ink = dark ? "#dddddd" : "#333333";
  const grid = "rgba(128,128,128,0.25)";
  const layout = {
    ...figure.layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink },
    legend: { orientation: "h", y: -0.2 },
    xaxis: { ...figure.layout.xaxis, gridcolor: grid },
    yaxis: { ...figure.layout.yaxis, gridcolor: grid },
  };
  Plotly.newPlot(data.dataset.figure, figure.data, layout, { responsive: true, displaylogo: false });
}
