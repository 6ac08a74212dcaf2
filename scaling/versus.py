"""How likely one curve of Eq. 1 lies above another anywhere along the compute axis.

The rule of the paper (`scaling.compare`) judges ceilings. A budget ends before the ceiling, so here both curves
are drawn from what their data allow (`scaling.draws`, with its flat prior) and compared where the budget ends. The two
runs count as independent, and as one seed each: nothing here knows how far another seed would be.
"""

import numpy as np

from scaling.draws import draws
from scaling.models import Fit

N = 4000  # draws of each curve: probabilities are good to about 0.01


def probability_above(a: Fit, b: Fit, compute: float, *, n: int = N, seed: int = 0) -> float:
    """P(curve of `a` > curve of `b`) at `compute` (> 0; infinity is the ceiling), a tie counting half.

    Where a ceiling is not identified and `compute` lies far beyond the points, this rests on the prior.
    Raises ValueError for a failed fit or a compute that is not above zero.
    """
    if not compute > 0:
        raise ValueError("a comparison needs a compute above zero")
    rng = np.random.default_rng(seed)
    first, second = (np.sort(draws(one, n, rng).predict(compute)[:, 0]) for one in (a, b))
    below = np.searchsorted(second, first, side="left") + np.searchsorted(second, first, side="right")
    return float(below.mean() / (2.0 * n))
