"""One law over an axis: what it finds of a law that is known, and what it refuses."""

import numpy as np
import pytest

import scaling
from scaling.axis import fit_axis
from scaling.curve import curve
from scaling.points import InputError
from scaling.simulate import rewards

SIZES = np.array([0.5, 1.5, 3.0, 7.0, 14.0, 32.0])


def truth(size: float) -> dict[str, float]:
    """A ceiling that saturates with size, and a C_mid in proportion to it (the same tokens)."""
    return {"r0": 0.05, "a": 0.7 / (1.0 + 4.0 / size), "b": 1.5, "c_mid": size}


def run(size: float, seed: int = 0, sd: float = 0.004):
    compute = np.linspace(0.1, 5.0, 40) * size
    return compute, rewards(compute, sd=sd, rng=np.random.default_rng(seed), **truth(size))


def law(sizes=SIZES):
    return fit_axis(sizes, [run(size, seed) for seed, size in enumerate(sizes)])


@pytest.mark.parametrize("size", [5.0, 72.0])
def test_the_curve_of_an_unseen_value_is_forecast(size: float) -> None:
    at = np.array([0.5, 1.0, 2.0, 5.0]) * size

    said = law().forecast(size, at)

    came = curve(at, **truth(size))
    assert ((said.lo <= came) & (came <= said.hi)).all()
    assert said.value == pytest.approx(came, abs=0.04)


def test_ceiling_and_efficiency_follow_their_laws() -> None:
    found = law()

    for size in (5.0, 72.0):
        for (value, lo, hi), came in (
            (found.ceiling(size), truth(size)["a"]),
            (found.efficiency(size), truth(size)["c_mid"]),
        ):
            assert lo <= came <= hi and lo <= value <= hi
    assert found.ceiling(1.0) < found.ceiling(10.0) < found.ceiling(70.0)


def test_beyond_the_values_seen_the_interval_grows() -> None:
    found = law()

    near, far = (found.forecast(size, [5.0 * size]) for size in (20.0, 2000.0))

    assert far.hi[0] - far.lo[0] > near.hi[0] - near.lo[0]


def test_runs_that_scatter_around_the_law_widen_it() -> None:
    off = [0.02, -0.02, 0.02, -0.02, 0.02, -0.02]
    scattered = [(c, r + by) for (c, r), by in zip([run(size) for size in SIZES], off, strict=True)]

    smooth, rough = law(), fit_axis(SIZES, scattered)

    one, other = (found.forecast(20.0, [100.0]) for found in (smooth, rough))
    assert other.hi[0] - other.lo[0] > 2.0 * (one.hi[0] - one.lo[0])


def test_seeds_of_one_value_count_for_what_they_differ_by() -> None:
    sizes = np.repeat(SIZES, 3)
    seeds = [run(size, seed) for seed, size in enumerate(sizes)]
    shifted = [(c, np.clip(r + (0.02, 0.0, -0.02)[k % 3], 0.0, 1.0)) for k, (c, r) in enumerate(seeds)]

    alike, apart = (fit_axis(sizes, runs).forecast(20.0, [100.0]) for runs in (seeds, shifted))

    assert apart.hi[0] - apart.lo[0] > 1.5 * (alike.hi[0] - alike.lo[0])
    assert alike.value[0] == pytest.approx(curve(100.0, **truth(20.0)), abs=0.02)


def test_the_unit_and_the_order_do_not_matter_and_nothing_is_random() -> None:
    runs = [run(size, seed) for seed, size in enumerate(SIZES)]

    said = fit_axis(SIZES, runs).forecast(20.0, [50.0])
    again = fit_axis(1e9 * SIZES[::-1], [(1e20 * c, r) for c, r in runs[::-1]]).forecast(2e10, [5e21])

    assert again.value == pytest.approx(said.value, abs=1e-6) and again.lo == pytest.approx(said.lo, abs=1e-6)
    assert (fit_axis(SIZES, runs).forecast(20.0, [50.0]).hi == said.hi).all()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([1.0, 2.0, 2.0], "2 axis values fit any law: at least 3 different ones are needed"),
        ([3.0, 3.0, 3.0], "all runs have the same axis value 3: there is no law to see"),
        ([1.0, 2.0], "2 values of the axis but 3 runs"),
        ([1.0, 2.0, 0.0], "value 0 of the axis is not above zero"),
    ],
)
def test_axes_that_show_no_law_are_refused(sizes: list[float], words: str) -> None:
    with pytest.raises(InputError, match=f"^{words}$"):
        fit_axis(sizes, [run(1.0)] * 3)


def test_a_run_without_a_forecast_is_named() -> None:
    falling = (np.linspace(0.1, 4.0, 40), np.linspace(0.6, 0.2, 40))
    short = (np.arange(1.0, 4.0), np.array([0.1, 0.2, 0.3]))

    with pytest.raises(InputError, match="^the run 7B has no forecast: the pass rate falls"):
        fit_axis([1.0, 2.0, 7.0], [run(1.0), run(2.0), falling], names=["1B", "2B", "7B"])
    with pytest.raises(InputError, match="^the run at axis value 7 has no forecast: only 3 points"):
        fit_axis([1.0, 2.0, 7.0], [run(1.0), run(2.0), short])


def test_bad_questions_are_refused() -> None:
    found = law()

    with pytest.raises(InputError, match="not a list of computes above zero"):
        found.forecast(1.0, [0.0])
    with pytest.raises(InputError, match="value -1 of the axis is not above zero"):
        found.ceiling(-1.0)
    assert scaling.fit_axis is fit_axis
