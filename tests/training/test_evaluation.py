import itertools
import math
import random
import statistics
from dataclasses import replace

import pytest

from training.evaluation import by_difficulty, evaluation_metrics, pass_at_k, pass_rate, sampling_error
from training.rollouts import Group, Sample
from training.tasks import Prompt


def group(*correct: bool, part: str = "") -> Group:
    return Group(Prompt("p", "", "", part), [Sample([1], correct=c, finished=True) for c in correct])


def test_mean_at_k_and_its_error_between_prompts() -> None:
    mean, stderr = pass_rate([group(True, True), group(True, False), group(False, False)])

    assert mean == pytest.approx(0.5)
    assert stderr == pytest.approx(0.5 / math.sqrt(3))


def test_one_prompt_has_no_error() -> None:
    mean, stderr = pass_rate([group(True, False)])

    assert mean == 0.5
    assert math.isnan(stderr)


def test_metrics_say_how_many() -> None:
    metrics = evaluation_metrics([group(True, True, False), group(False, False, False)])

    assert metrics["eval/pass_rate"] == pytest.approx(1 / 3)
    assert (metrics["eval/n_prompts"], metrics["eval/k"]) == (2, 3)
    assert metrics["eval/truncation_rate"] == metrics["eval/verifier_failure_rate"] == 0


def test_pass_at_k_is_the_share_of_prompts_with_a_correct_sample() -> None:
    metrics = evaluation_metrics([group(True, False), group(False, False), group(True, True)])

    assert metrics["eval/pass_at_k"] == pytest.approx(2 / 3)
    assert metrics["eval/pass_at_k_stderr"] == pytest.approx(1 / 3)
    assert "eval/pass_at_k" not in evaluation_metrics([group(True), group(False)])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(n: int) -> None:
    for correct in range(n + 1):
        samples = [i < correct for i in range(n)]
        for k in range(1, n + 1):
            subsets = list(itertools.combinations(samples, k))
            share = sum(any(subset) for subset in subsets) / len(subsets)
            assert pass_at_k([group(*samples)], k)[0] == pytest.approx(share)


def test_pass_at_k_in_closed_form() -> None:
    some, none = group(*[True] * 2, *[False] * 6), group(*[False] * 8)
    metrics = evaluation_metrics([some, none])

    assert metrics["eval/pass_rate"] == pytest.approx(2 / 8 / 2)
    assert metrics["eval/pass_at_2"] == pytest.approx((1 - 15 / 28) / 2)  # C(6, 2) of C(8, 2) pairs have none
    assert metrics["eval/pass_at_4"] == pytest.approx((1 - 15 / 70) / 2)
    assert metrics["eval/pass_at_4_stderr"] == pytest.approx(
        (1 - 15 / 70) / 2
    )  # two prompts: half their distance
    assert metrics["eval/pass_at_k"] == pytest.approx(1 / 2)
    assert not {"eval/pass_at_1", "eval/pass_at_8"} & metrics.keys()  # pass_rate and pass_at_k


def test_pass_at_one_is_the_pass_rate() -> None:
    groups = [group(True, False, False), group(True, True, False), group(False, False, False)]

    assert pass_at_k(groups, 1) == pytest.approx(pass_rate(groups))


def test_each_part_has_its_own_pass_rate() -> None:
    groups = [
        group(True, True, part="math"),
        group(False, True, part="math"),
        group(False, False, part="code"),
    ]
    metrics = evaluation_metrics(groups)

    assert metrics["eval/pass_rate"] == pytest.approx(0.5)
    assert (metrics["eval/math/pass_rate"], metrics["eval/math/n_prompts"]) == (0.75, 2)
    assert metrics["eval/math/pass_rate_stderr"] == pytest.approx(0.25)
    assert (metrics["eval/code/pass_rate"], metrics["eval/code/n_prompts"]) == (0, 1)


def test_tasks_without_parts_have_no_metrics_of_parts() -> None:
    assert not any(name.count("/") > 1 for name in evaluation_metrics([group(True, True)]))


def test_failures_of_the_verifier_are_a_share_of_the_samples() -> None:
    failed = Group(Prompt("q", "", ""), [Sample([1], failure="timed out after 5 s"), Sample([1])])

    assert evaluation_metrics([group(True, False), failed])["eval/verifier_failure_rate"] == 0.25


def test_noise_over_the_same_prompts_comes_from_within_them() -> None:
    groups = [
        group(True, True, True, True),
        group(False, False, False, False),
        group(True, False, False, False),
    ]

    assert sampling_error(groups) == pytest.approx(math.sqrt(0.25 * 0.75 / 3) / 3)
    assert evaluation_metrics(groups)["eval/pass_rate_sampling_error"] == sampling_error(groups)
    alone = [group(True), group(False)]
    assert math.isnan(sampling_error(alone))
    assert "eval/pass_rate_sampling_error" not in evaluation_metrics(alone)


def test_noise_over_the_same_prompts_is_what_repeated_evaluations_show() -> None:
    rng = random.Random(0)
    chances = [n / 20 for n in range(20)]
    repeated = [[group(*(rng.random() < p for _ in range(4))) for p in chances] for _ in range(100)]

    spread = statistics.stdev(pass_rate(groups)[0] for groups in repeated)

    told = statistics.mean(sampling_error(groups) for groups in repeated)
    assert told == pytest.approx(spread, rel=0.28)  # four standard errors of a spread of 100
    assert pass_rate(repeated[0])[1] > 1.4 * told


def of_difficulty(difficulty: float, *correct: bool) -> Group:
    return replace(group(*correct), prompt=Prompt("p", "", "", difficulty=difficulty))


def test_each_difficulty_has_its_own_pass_rate() -> None:
    groups = [of_difficulty(3, True, False), of_difficulty(2, True, True), of_difficulty(3, False, False)]
    metrics = evaluation_metrics(groups)

    assert metrics["eval/difficulty-2/pass_rate"] == 1
    assert metrics["eval/difficulty-3/pass_rate"] == 0.25
    assert metrics["eval/difficulty-3/n_prompts"] == 2
    assert metrics["eval/pass_rate"] == 0.5


def test_many_difficulties_are_put_together_into_ranges() -> None:
    groups = [of_difficulty(max(0, n - 30) / 4, n % 2 == 0) for n in range(120)]

    found = by_difficulty(list(reversed(groups)))

    assert len(found) <= 12
    assert list(found)[0] == "difficulty-0"
    assert len(found["difficulty-0"]) == 31  # those that are equal stay together
    assert {len(own) for own in list(found.values())[1:]} <= {9, 10, 11}
    assert list(found)[-1] == "difficulty-20-to-22.25"
    assert sum(map(len, found.values())) == 120


def test_prompts_without_difficulty_are_in_no_range() -> None:
    assert list(by_difficulty([group(True, True), of_difficulty(1.5, True)])) == ["difficulty-1.5"]
