"""Saturating compute-performance curves (arXiv 2510.13786): fit, intervals, comparison, forecast, planning.

numpy and scipy only. `scaling.fit(compute, reward)` is the way in.
"""

from scaling.curve import FORMS, NAMES
from scaling.fitting import fit
from scaling.many import ManyFits, fit_many
from scaling.models import Fit
from scaling.points import MIN_POINTS, InputError

__all__ = ["FORMS", "MIN_POINTS", "NAMES", "Fit", "InputError", "ManyFits", "fit", "fit_many"]
