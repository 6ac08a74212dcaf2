"""The program that chooses the priors of the forecast."""

import numpy as np
import pytest

from benchmarks.tune_forecast import RANGES, cases_of, main, prior_of, score, task_scores
from scaling.calibration import Curve
from scaling.extrapolate import PRIOR, Posterior


def curve(task: str, seed: int = 0) -> Curve:
    compute = np.linspace(0.05, 1.0, 20)
    noise = np.random.default_rng(seed).normal(0.0, 0.005, 20)
    return Curve("made", task, f"{task}-{seed}", compute, 0.2 + 0.5 * compute / (compute + 0.3) + noise)


def test_the_score_is_that_of_the_draws() -> None:
    (case, *_) = cases_of([curve("a")])
    draws = Posterior(case.data).draws(np.array([case.at]))[:, 0]

    crps, interval = score(case, PRIOR)

    pairs = np.abs(draws[:, None] - draws[None, :]).mean()
    assert crps == pytest.approx(np.abs(draws - case.came).mean() - 0.5 * pairs)
    lo, hi = np.quantile(draws, [0.05, 0.95])
    outside = max(lo - case.came, 0.0) + max(case.came - hi, 0.0)
    assert interval == pytest.approx(hi - lo + 20.0 * outside)


def test_a_run_is_judged_as_if_it_had_ended_earlier_too() -> None:
    cases = cases_of([curve("a")])

    assert {case.end for case in cases} == {0.5, 0.75, 1.0}, "7 of 20 evaluations are too few"
    assert max(case.data.compute[-1] for case in cases if case.end == 0.5) <= 0.75 * 0.5
    assert all(0.875 * case.end < case.at <= case.end for case in cases)


def test_tasks_count_alike_however_many_runs_they_have() -> None:
    few, many = [curve("a")], [curve("b", seed) for seed in range(3)]

    tasks, scores = task_scores(cases_of(few + many), [PRIOR])

    assert tasks == ["made, a", "made, b"]
    assert scores[0, 0] == pytest.approx(task_scores(cases_of(few), [PRIOR])[1][0, 0])


def test_numbers_between_0_and_1_span_the_ranges() -> None:
    low, high = prior_of(np.zeros(len(RANGES))), prior_of(np.ones(len(RANGES)))

    assert (low.kappa, high.kappa) == (pytest.approx((-0.1, 0.1)), pytest.approx((0.3, 0.5)))
    assert [one.discrepancy[1] for one in (low, high)] == [(0.008, 1.0, 0.3), (0.03, 8.0, 3.0)]


def test_the_program_prints_a_row_a_task_and_the_best_prior(tmp_path, capsys) -> None:
    lines = [
        f"{one.run},{task},{c},{min(r, 1.0)}"
        for task in ("a", "b")
        for one in [curve(task)]
        for c, r in zip(one.compute, one.reward, strict=True)
    ]
    file = tmp_path / "made.csv"
    file.write_text("\n".join(["run,task,compute,reward", *lines]) + "\n")

    assert main(["--corpus", str(file), "--tries", "3"]) == 0

    out = capsys.readouterr().out
    assert "| made, a |" in out and "| made, b |" in out and "Prior(nu=" in out
    assert main(["--corpus", str(tmp_path / "none.csv")]) == 2
