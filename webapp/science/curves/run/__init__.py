"""The run page, as data: its figure, the other views of the chart, and the analyses of its tabs."""
