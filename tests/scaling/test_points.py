import numpy as np
import pytest

import scaling
from scaling.points import prepare, rising

C = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
R = [0.1, 0.2, 0.3, 0.4, 0.45, 0.47]


@pytest.mark.parametrize(
    "compute, reward, row, reason",
    [
        pytest.param([*C[:5], 0.0], R, 5, "compute 0 is not above zero", id="zero-compute"),
        pytest.param([-1.0, *C[1:]], R, 0, "compute -1 is not above zero", id="negative-compute"),
        pytest.param(C, [*R[:2], float("nan"), *R[3:]], 2, "reward nan is not a finite number", id="nan"),
        pytest.param([*C[:5], float("inf")], R, 5, "compute inf is not a finite number", id="infinite"),
        pytest.param(C, [*R[:5], 1.5], 5, "reward 1.5 is not between 0 and 1", id="above-one"),
        pytest.param(C, R[:5], None, "6 computes but 5 rewards", id="lengths"),
        pytest.param(C[:3], R[:3], None, "only 3 points: at least 5 are needed", id="three-points"),
        pytest.param([], [], None, "no points: at least 5 are needed", id="none"),
        pytest.param(["a", *C[1:]], R, None, "compute is not a list of numbers", id="text"),
        pytest.param([C, C], [R, R], None, "compute is not a flat list", id="table"),
    ],
)
def test_bad_points_are_refused_by_row_and_reason(compute, reward, row, reason) -> None:
    with pytest.raises(scaling.InputError) as caught:
        scaling.fit(compute, reward)

    assert caught.value.row == row
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"window": (5.0, 2.0)}, "the window 5:2 is empty"),
        ({"work": C[:5]}, "6 computes but 5 of work"),
        ({"work": [0.0, *C[1:]]}, "work 0 is not above zero"),
        ({"work": [*C[:4], 6.0, 5.0]}, "work 5 is less than at less compute"),
        ({"window": (3.0, None)}, "only 4 points in the window (6 given)"),
        ({"window": (float("nan"), None)}, "an end of the window is not a number"),
        ({"level": 1.0}, "level 1.0 is not between 0 and 1"),
        ({"r0": 1.5}, "r0 1.5 is not in [0, 1)"),
        ({"r0": float("nan")}, "r0 nan is not a finite number"),
        ({"form": "cubic"}, "unknown form 'cubic'"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"method": "paper", "form": "power"}, "the paper's method fits the sigmoid"),
        ({"stderr": [0.01]}, "6 computes but 1 standard errors"),
        ({"stderr": [-0.01] * 6}, "stderr -0.01 is below zero"),
        ({"r0_observed": [2.0]}, "r0_observed 2 is not between 0 and 1"),
    ],
)
def test_bad_options_are_refused(options, reason) -> None:
    with pytest.raises(scaling.InputError) as caught:
        scaling.fit(C, R, **options)

    assert caught.value.reason.startswith(reason)


def test_the_digest_depends_on_the_points_used_and_on_nothing_else() -> None:
    whole = prepare(C, R)
    shuffled = prepare(C[::-1], R[::-1])
    windowed = prepare([*C, 100.0], [*R, 0.9], window=(None, 50.0))

    assert whole.digest == shuffled.digest == windowed.digest
    assert whole.digest != prepare(C, [*R[:5], 0.48]).digest
    assert whole.digest != prepare(C, R, r0_observed=[0.1]).digest


def test_work_stays_with_its_points() -> None:
    order = [3, 0, 5, 1, 4, 2]
    data = prepare(np.take(C, order), np.take(R, order), work=np.take(C, order) ** 2, window=(2.0, None))

    assert data.work == pytest.approx(np.array(C[1:]) ** 2)
    assert data.of(data.reward > 0.25).work == pytest.approx([9.0, 16.0, 25.0, 36.0])


def test_work_that_is_not_known_throughout_is_none() -> None:
    for work in ([1.0, np.nan, 3.0], [0.0, 1.0, 2.0], [1.0, 3.0, 2.0]):
        assert rising(np.array(work)) is None
    assert rising(np.array([1.0, 1.0, 2.0])) is not None


def test_inputs_are_never_written_to() -> None:
    c, r = np.array(C[::-1]), np.array(R[::-1])

    scaling.fit(c, r)

    assert c.tolist() == C[::-1] and r.tolist() == R[::-1]
