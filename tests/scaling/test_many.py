"""Many curves in one call: the same optimum as one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scaling
from benchmarks.table1 import published_fits
from scaling.curve import NAMES
from scaling.simulate import rewards
from tests.deep import examples


def simulated(count: int, *, form: str = "sigmoid", seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Curves of Table 1's shapes with 8 to 80 points, observed up to 1, 2, 4 or 8 times C_mid."""
    rng = np.random.default_rng(seed)
    curves = []
    for i in range(count):
        row, n = published_fits()[i % 10], int(rng.integers(8, 80))
        compute = np.linspace(1 / n, 1, n) * rng.choice([1.0, 2.0, 4.0, 8.0]) * row.c_mid
        shape = {"r0": rng.uniform(0, 0.3), "a": row.a, "b": row.b, "c_mid": row.c_mid}
        curves.append((compute, rewards(compute, **shape, sd=0.01, rng=rng, form=form)))
    return curves


@pytest.mark.long_form
@pytest.mark.parametrize("form", scaling.FORMS)
def test_each_curve_has_the_sum_of_squares_of_its_own_fit(form: str) -> None:
    curves = simulated(examples(90), form=form)
    close = 1e-2 if form == "power" else 1e-5  # its threshold makes a basin at each point

    many = scaling.fit_many(curves, form=form)

    for i, curve in enumerate(curves):
        one = scaling.fit(*curve, form=form)
        assert many.n[i] == one.n
        if one.params is not None:
            assert many.sse[i] == pytest.approx(one.sse, rel=close)
            assert many.r2[i] == pytest.approx(one.r2, rel=close)
        if one.status == "ok":
            found = [many.params[name][i] for name in NAMES]
            assert found == pytest.approx(list(one.params.values()), rel=20 * close, abs=1e-6)


def test_neighbours_do_not_matter() -> None:
    curves = simulated(70)

    together, alone = scaling.fit_many(curves), scaling.fit_many(curves[69:])

    for name in NAMES:
        assert together.params[name][69] == pytest.approx(alone.params[name][0], rel=1e-6)


def test_start_and_a_fixed_r0_enter_as_in_a_single_fit() -> None:
    curves = simulated(6)
    starts = [[0.1], [], [0.2, 0.25], [0.0], [0.3], [0.1, 0.1, 0.1]]

    many = scaling.fit_many(curves, r0_observed=starts)
    held = scaling.fit_many(curves, r0=0.15)

    for i, curve in enumerate(curves):
        one = scaling.fit(*curve, r0_observed=starts[i])
        assert [many.params[name][i] for name in NAMES] == pytest.approx(
            list(one.params.values()), rel=1e-3, abs=1e-6
        )
        assert many.sse[i] == pytest.approx(one.sse, rel=1e-6)
        assert held.params["R0"][i] == pytest.approx(0.15)
        assert held.sse[i] == pytest.approx(scaling.fit(*curve, r0=0.15).sse, rel=1e-5)


def test_what_is_no_curve_is_not_a_number_and_its_fit_says_why() -> None:
    compute, falling = np.arange(1.0, 21.0), np.linspace(0.6, 0.1, 20)

    many = scaling.fit_many([(compute, falling), (compute, np.full(20, 0.3)), simulated(1)[0]])

    assert np.isnan(many.params["A"]).tolist() == [True, True, False]
    assert many.fit(0).status == many.fit(1).status == "failed"
    assert many.fit(2).params["A"] == pytest.approx(many.params["A"][2], rel=1e-4)
    assert len(many) == 3 and len(scaling.fit_many([])) == 0


def test_a_bad_curve_is_named_and_nothing_is_fitted() -> None:
    good = simulated(1)[0]

    with pytest.raises(scaling.InputError, match="curve 1: point 2: compute -1 is not above zero"):
        scaling.fit_many([good, ([1, 2, -1, 3, 4], [0.1, 0.2, 0.3, 0.4, 0.5])])
    with pytest.raises(scaling.InputError, match="1 curves but 2 lists"):
        scaling.fit_many([good], r0_observed=[[], []])
    with pytest.raises(scaling.InputError, match="unknown form"):
        scaling.fit_many([good], form="cubic")


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e30), st.floats(0, 1)), min_size=5, max_size=20),
    st.sampled_from(scaling.FORMS),
)
def test_all_parameters_are_finite_or_none_is(points, form) -> None:
    many = scaling.fit_many([([c for c, _ in points], [r for _, r in points])], form=form)

    found = np.array([many.params[name][0] for name in NAMES] + [many.sse[0]])
    assert np.isfinite(found).all() or np.isnan(found).all()
    if np.isfinite(found).all():
        assert (
            -1e-12 <= found[0] <= found[1] + 1e-12 and found[1] <= 1 + 1e-12 and found[2] > 0 and found[3] > 0
        )
