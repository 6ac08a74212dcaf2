import numpy as np
import pytest

import scaling
from benchmarks.table1 import published_fits
from scaling.curve import curve
from scaling.simulate import noise, rewards
from scaling.window import MAX_SHARE, propose, sensitivity
from tests.deep import examples

TRUTH = {"r0": 0.4, "a": 0.61, "b": 1.92, "c_mid": 2542.0}
TURN = 800.0


def clean(seed: int, *, rho: float = 0.0, n: int = 40):
    row = published_fits()[seed % 10]
    compute = np.linspace(1 / n, 1.0, n) * row.c_mid * (2, 4, 8)[seed % 3]
    rng = np.random.default_rng(seed)
    return compute, rewards(compute, r0=0.1, a=row.a, b=row.b, c_mid=row.c_mid, sd=0.01, rng=rng, rho=rho)


def two_phases(seed: int = 0, sd: float = 0.005, n: int = 60):
    """A fast, linear rise to the sigmoid, which it meets at TURN."""
    compute = np.linspace(100.0, 10000.0, n)
    meets = float(curve(TURN, **TRUTH))
    reward = np.where(compute < TURN, 0.1 + (meets - 0.1) * compute / TURN, curve(compute, **TRUTH))
    return compute, reward + noise(n, sd, np.random.default_rng(seed))


@pytest.mark.long_form
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_a_clean_sigmoid_is_left_whole(rho: float) -> None:
    cut = [propose(*clean(seed, rho=rho)) for seed in range(examples(24))]

    assert sum(proposal.lo is not None for proposal in cut) <= 1  # at a chance of 1 in 200 each


@pytest.mark.deep
def test_evaluations_that_are_only_noisier_at_first_are_kept() -> None:
    compute, cut = np.linspace(0.02, 3.0, 50) * 2542.0, 0
    for seed in range(20):
        error = np.random.default_rng(seed).normal(0.0, 1.0, 50) * np.linspace(0.02, 0.005, 50)
        cut += (
            propose(compute, np.clip(curve(compute, **{**TRUTH, "r0": 0.1}) + error, 0.0, 1.0)).lo is not None
        )

    assert cut <= 1  # without the scatter of the early points about 1 in 7 is cut


def test_a_clean_sigmoid_without_noise_is_left_whole() -> None:
    compute = np.linspace(100.0, 10000.0, 40)

    proposal = propose(compute, curve(compute, **TRUTH))

    assert proposal.lo is None and proposal.reason.startswith("every point is used")


@pytest.mark.parametrize("seed", range(4))
def test_an_early_fast_phase_is_left_out(seed: int) -> None:
    compute, reward = two_phases(seed)

    proposal = propose(compute, reward)

    early = int((compute < TURN).sum())
    dropped = int((compute < proposal.lo).sum())
    assert early - 1 <= dropped <= early + 2
    assert f"the first {dropped} of 60 points are left out" in proposal.reason and "Chow" in proposal.reason
    chosen = next(start for start in proposal.table if start.lo == proposal.lo)
    assert chosen.criterion == min(start.criterion for start in proposal.table) < 0


def test_leaving_it_out_brings_the_ceiling_back() -> None:
    whole, cut = [], []
    for seed in range(4):
        compute, reward = two_phases(seed)
        window = propose(compute, reward).window
        whole.append(scaling.fit(compute, reward).params["A"])
        cut.append(scaling.fit(compute, reward, window=window).params["A"])

    assert abs(np.mean(cut) - TRUTH["a"]) < 0.004 < abs(np.mean(whole) - TRUTH["a"])


def test_never_more_than_the_stated_share_is_left_out() -> None:
    compute, reward = two_phases()

    few = propose(compute, reward, max_share=0.04)

    assert max(start.dropped for start in few.table) == 2
    assert max(start.dropped for start in propose(compute, reward).table) == int(MAX_SHARE * 60)
    assert few.lo is None or "the most that may be left out (4 %)" in few.reason
    with pytest.raises(scaling.InputError, match="max_share"):
        propose(compute, reward, max_share=1.0)


def test_the_unit_and_the_order_do_not_matter() -> None:
    compute, reward = two_phases()
    order = np.random.default_rng(3).permutation(len(compute))

    here, there = propose(compute, reward), propose(1e6 * compute[order], reward[order])

    assert there.lo == pytest.approx(1e6 * here.lo)


def test_few_points_or_no_curve_are_left_whole() -> None:
    compute, reward = clean(0, n=10)

    assert "too few" in propose(compute, reward).reason
    assert "cannot be fitted" in propose(compute=np.arange(1.0, 31.0), reward=np.full(30, 0.3)).reason


def test_points_of_one_compute_stay_together() -> None:
    compute, reward = two_phases()
    twice, again = np.repeat(compute, 2), np.repeat(reward, 2)

    dropped = [
        start.dropped for start in propose(twice, again + noise(120, 0.004, np.random.default_rng(1))).table
    ]

    assert all(k % 2 == 0 for k in dropped)


def test_the_table_of_windows_shows_a_with_its_interval() -> None:
    compute, reward = clean(2, n=60)

    found = sensitivity(compute, reward, [(None, None), (compute[3], None), (None, compute[40])])

    assert [row.n for row in found.rows] == [60, 57, 41]
    for row in found.rows:
        assert row.a_interval[0] < row.a < row.a_interval[1]
        assert row.b_interval[0] < row.b < row.b_interval[1]
    assert found.moves == pytest.approx(np.ptp([row.a for row in found.rows]))
    assert found.width == pytest.approx(np.diff(found.rows[0].a_interval)[0])
    assert f"A moves by {found.moves:.3f}" in found.verdict


def test_the_verdict_says_when_a_depends_on_the_window() -> None:
    clean_curve = clean(2, n=60)
    wrong = two_phases()

    steady = sensitivity(*clean_curve, [(None, None), (clean_curve[0][1], None)])
    moved = sensitivity(*wrong, [(900.0, None), (None, None)])

    assert "matters less than the noise" in steady.verdict
    assert moved.moves > moved.width and "A depends on the window" in moved.verdict


def test_windows_that_do_not_identify_a_ceiling_say_so() -> None:
    compute, reward = clean(2, n=60)
    short = (None, compute[8])

    found = sensitivity(compute, reward, [(None, None), short, (None, compute[1])])

    assert found.rows[1].a is None and found.rows[1].a_interval[1] is None
    assert found.rows[2].status == "failed" and "at least 5" in found.rows[2].message
    one = sensitivity(compute, reward, [(None, None), short])
    assert "1 of 2 windows does not identify A" in one.verdict
    assert found.moves is None and "2 of 3 windows do not identify A" in found.verdict
    assert "nothing to compare with" in sensitivity(compute, reward, [short, (None, None)]).verdict
    with pytest.raises(scaling.InputError, match="no windows"):
        sensitivity(compute, reward, [])
