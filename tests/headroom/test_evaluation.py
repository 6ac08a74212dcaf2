import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom.evaluation import evaluation_metrics
from headroom.run import Run


def test_shares_of_prompts_give_mean_and_standard_error() -> None:
    shares = [0.0, 0.25, 1.0, 0.5]

    found = evaluation_metrics(shares, k=4)

    assert found["eval/pass_rate"] == pytest.approx(0.4375)
    assert found["eval/pass_rate_stderr"] == pytest.approx(statistics.stdev(shares) / 2)
    assert (found["eval/n_prompts"], found["eval/k"]) == (4, 4)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_a_mean_alone_claims_no_less_spread_than_the_shares_have(shares: list[float]) -> None:
    known = evaluation_metrics(shares)
    alone = evaluation_metrics(known["eval/pass_rate"], n_prompts=len(shares))

    n = len(shares)  # the shares' own estimate has n - 1 below the line
    assert alone["eval/pass_rate_stderr"] * math.sqrt(n / (n - 1)) >= known["eval/pass_rate_stderr"] - 1e-9


def test_a_known_standard_error_goes_first() -> None:
    assert evaluation_metrics(0.5, n_prompts=100, stderr=0.01)["eval/pass_rate_stderr"] == 0.01
    assert evaluation_metrics([0.5, 0.7], stderr=0.01)["eval/pass_rate_stderr"] == 0.01


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"pass_rate": 1.2, "n_prompts": 3}, "pass_rate must be between 0 and 1, not 1.2"),
        ({"pass_rate": [0.1, math.nan]}, "pass_rate must be between 0 and 1"),
        ({"pass_rate": []}, "pass_rate has no prompt"),
        ({"pass_rate": 0.4}, "n_prompts must be a whole number of at least 1, not None"),
        ({"pass_rate": 0.4, "n_prompts": 2.5}, "n_prompts must be a whole number of at least 1, not 2.5"),
        ({"pass_rate": [0.4], "n_prompts": 2}, "n_prompts is 2, but pass_rate has 1 prompts"),
        ({"pass_rate": [0.4], "k": 0}, "k must be a whole number of at least 1, not 0"),
        ({"pass_rate": [0.4], "stderr": -1}, "stderr must be a number >= 0, not -1"),
    ],
)
def test_what_cannot_be_an_evaluation_is_named(given_: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluation_metrics(**given_)


def test_a_run_records_it_and_never_raises(begin, journal_path, caplog) -> None:
    run: Run = begin()
    run.log_evaluation([1.0, 0.0], step=3, k=2, response_length=12.5, compute={"tokens": 9})
    run.log_evaluation("half", step=4)
    run.log_evaluation(0.5, step=5)

    (line,) = journal_path.read_text().splitlines()
    assert '"eval/response_length":12.5' in line and '"eval/pass_rate":0.5' in line and '"tokens":9' in line
    assert "the evaluation of step 4 is not recorded" in caplog.text
    assert "the evaluation of step 5 is not recorded: n_prompts must be" in caplog.text
