"""Saturating compute-performance curves (arXiv 2510.13786): fit, intervals, comparison, forecast, planning.

numpy and scipy only. `scaling.fit(compute, reward)` is the way in; `python -m scaling --help` the command line.

| question | file |
|---|---|
| what is the curve, what are its derivatives? | curve |
| which data are accepted, which are left out? | points, table (files), window (where to start), outliers (crashes) |
| which curve fits best? | solve (least squares), fitting (one), many (thousands), paper (the published way) |
| how noisy are the evaluations? | noise |
| what do the data allow? | ridge, intervals (profile likelihood), models (`Fit`) |
| do they pin the ceiling at all? | identifiability |
| is it a sigmoid? | forms |
| what do several runs of one recipe say? | seeds |
| which recipe is better? | ranking (by forecasts, with seeds) |
| what does Eq. 1 alone say of it? | compare (the paper's rule), recipes (mean curves) |
| what will a run do at more compute? | extrapolate, course (kept for plans); saturates (or nothing at all) |
| and at a model size, batch or length that no run had? | axis |
| was the prediction right? | forecast, calibration (of finished runs), corpus (files of them) |
| what does more compute buy, when to stop? | plan |
| how good is all this? | simulate, and docs/validation.md |
"""

from scaling.axis import AxisLaw, fit_axis
from scaling.curve import FORMS, NAMES
from scaling.extrapolate import Extrapolation, extrapolate
from scaling.fitting import fit
from scaling.many import ManyFits, fit_many
from scaling.models import Fit
from scaling.points import MIN_POINTS, InputError

__all__ = [
    "FORMS",
    "MIN_POINTS",
    "NAMES",
    "AxisLaw",
    "Extrapolation",
    "Fit",
    "InputError",
    "ManyFits",
    "extrapolate",
    "fit",
    "fit_axis",
    "fit_many",
]
