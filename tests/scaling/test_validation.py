"""The programs that validate the science are measured themselves: a wrong ruler would praise a wrong interval."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.table1 import published_fits
from benchmarks.validate_intervals import APART, chosen, examine, flagged, main, replicated
from benchmarks.validation import (
    AR1_RHO,
    AR1_SD,
    GENERATIONS,
    NOISES,
    PROMPTS,
    Trial,
    evaluate,
    prompt_rates,
    quantile,
    rate,
    run_all,
    trials,
)
from scaling.cli.options import markdown

MEANS = np.array([0.05, 0.3, 0.61, 0.9])


class Mistaken(Trial):
    """Claims a truth that its points do not come from."""

    def points(self, n: int = 60):
        return Trial(self.row, self.noise, self.times, self.seed).points(n)


def test_the_prompts_rates_average_to_the_pass_rate_and_keep_their_order() -> None:
    rates = prompt_rates(MEANS)

    assert rates.shape == (4, PROMPTS)
    assert rates.mean(axis=1) == pytest.approx(MEANS, abs=2e-5)
    assert (np.diff(rates, axis=1) > 0).all() and (np.diff(rates, axis=0) > 0).all()


def test_a_fixed_set_of_uneven_prompts_is_less_noisy_than_equal_ones() -> None:
    mean = np.full(4000, 0.5)

    seen = evaluate(mean, "binomial", np.random.default_rng(0))

    rates = prompt_rates(mean[:1])[0]
    expected = np.sqrt((rates * (1 - rates)).sum() / GENERATIONS) / PROMPTS
    assert seen.mean() == pytest.approx(0.5, abs=3e-4)
    assert seen.std() == pytest.approx(expected, rel=0.05)
    assert 0.5 < expected / np.sqrt(0.25 / (PROMPTS * GENERATIONS)) < 0.8


def test_the_other_noises_are_what_they_say() -> None:
    mean = np.full(20000, 0.5)

    correlated = evaluate(mean, "ar1", np.random.default_rng(1)) - mean
    falling = evaluate(mean, "heteroscedastic", np.random.default_rng(2)) - mean
    white = evaluate(mean, "white", np.random.default_rng(3)) - mean

    assert correlated.std() == pytest.approx(AR1_SD, rel=0.05)
    assert np.corrcoef(correlated[1:], correlated[:-1])[0, 1] == pytest.approx(AR1_RHO, abs=0.03)
    assert falling[:2000].std() / falling[-2000:].std() == pytest.approx(19.25 / 5.75, rel=0.1)
    assert white.std() == pytest.approx(0.005, rel=0.05)
    assert set(NOISES) == {"binomial", "ar1", "heteroscedastic", "white"}


def test_a_trial_is_its_row_of_table_1() -> None:
    trial = Trial(1, "white", 4.0, (0,), lift=0.03, steeper=2.0, later=3.0)
    row = published_fits()[1]

    compute, reward = trial.points()

    assert compute[-1] == pytest.approx(4 * row.c_mid) and len(compute) == 60
    assert trial.truth(3 * row.c_mid) == pytest.approx(0.5 * (0.1 + row.a + 0.03))
    assert trial.truth(1e12) == pytest.approx(row.a + 0.03)
    assert (reward == trial.points()[1]).all()
    assert [one.published for one in trials(10, "white", 1.0, (5,))] == list(published_fits())
    assert len({one.seed for one in trials(10, "white", 1.0, (5,))}) == 10


def test_a_rate_has_its_binomial_error_and_n() -> None:
    assert rate([True] * 9 + [False]) == "90.0 % ± 9.5 (N 10)"
    assert rate([True] * 10) == "100.0 %, > 79.4 (N 10)"
    assert rate([False] * 10) == "0.0 %, < 20.6 (N 10)"
    assert rate([]) == "- (N 0)"
    assert binom.cdf(0, 10, 0.2057) == pytest.approx(0.1, abs=1e-3)


def test_the_interval_of_a_quantile_covers_it() -> None:
    rng, inside = np.random.default_rng(4), 0
    for _ in range(300):
        text = quantile(rng.random(200), 0.95)
        lo, hi = text.split("(")[1].split(";")[0].split(" to ")
        inside += float(lo) <= 0.95 <= float(hi)

    assert (
        0.85 <= inside / 300 <= 0.99
    )  # at least 90 %, with three standard errors; steps of the binomial add
    assert "open; N 5" in quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.95)
    assert quantile([], 0.5) == "- (N 0)"


def test_one_process_and_more_give_the_same() -> None:
    assert run_all(abs, [-1, 2, -3], 1) == run_all(abs, [-1, 2, -3], 2) == [1, 2, 3]


def test_a_table_is_markdown() -> None:
    lines = markdown("Title", "A note.", ("a", "b"), [("1", "2")]).splitlines()

    assert lines == ["## Title", "", "A note.", "", "| a | b |", "|---|---|", "| 1 | 2 |"]


def test_clean_points_are_judged_right_and_wrong_truths_wrong() -> None:
    bent, unbent = Trial(0, "white", 8.0, (1,)), Trial(0, "white", 0.35, (1,))

    found = examine(bent)

    assert found.identified and found.width < 0.02 and found.error < 0.01
    assert not flagged(bent) and flagged(unbent)
    assert chosen(bent) == "right"
    missed = examine(Mistaken(0, "white", 8.0, (1,), lift=APART))
    assert not missed.covers_a and not missed.covers_later
    assert missed.error == pytest.approx(APART, abs=0.01)


def test_replicated_runs_differ_and_are_repeatable() -> None:
    runs = replicated(Trial(0, "ar1", 4.0, (9,)), 200)

    assert runs == replicated(Trial(0, "ar1", 4.0, (9,)), 200)
    assert np.std([one.lift for one in runs]) == pytest.approx(0.008, rel=0.2)
    assert np.std(np.log([one.later for one in runs])) == pytest.approx(0.15, rel=0.2)
    assert len({one.seed for one in runs}) == 200


def test_the_program_writes_its_tables(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["validate", "--curves", "2", "--only", "choice", "--only", "status"])

    assert main() == 0

    text = capsys.readouterr().out
    assert "2 runs a row, seed 0" in text and "## Which of two recipes" in text
    assert "## Coverage" not in text and text.count("(N 2)") >= 15
