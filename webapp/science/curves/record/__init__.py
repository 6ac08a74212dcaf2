"""How good forecasts were: every run is forecast from parts of its compute, and judged by how it ended.

Nobody freezes anything: `keeping` does it in the background, `reading` tells how good they were, and `recalibrating`
widens the intervals of a project by that.
"""
