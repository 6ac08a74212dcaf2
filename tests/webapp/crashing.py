"""Fits that crash, as only a fault of ours would make them."""

import numpy as np

import scaling
from webapp.science.curves import fitting


def crash_fits_of(monkeypatch, *wanted) -> None:
    """Each fit of one of these pass rates [n] raises; without any, every fit does."""
    made = scaling.fit
    doomed = [tuple(np.asarray(y, float)) for y in wanted]

    def crash(x, y, *args, **options):
        if not doomed or any(set(y) <= set(one) for one in doomed):
            raise RuntimeError("made to crash")
        return made(x, y, *args, **options)

    fitting._cached_fit.cache_clear()
    monkeypatch.setattr(scaling, "fit", crash)
