"""Names of other trainers' metrics, as their trackers have them."""

import pytest

from headroom.adapters.naming import RENAMED, names_for, of_prime_rl, of_tracker, originals_of


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("train/reward", "train/reward"), ("train/completions/clipped_ratio", "train/truncation_rate"),
        ("train/loss", "train/loss"), ("actor/entropy", "train/entropy"), ("optim/grad_norm", "train/grad_norm"),
        ("reward", "reward"), ("eval/pass_rate", "eval/pass_rate"),
    ],
)  # fmt: skip
def test_of_tracker(theirs: str, ours: str) -> None:
    assert of_tracker(theirs) == ours


def test_of_prime_rl() -> None:
    assert of_prime_rl({"reward/all/mean": 1, "time/step": 2}) == {"train/reward": 1, "time/step": 2}


def test_every_renamed_metric_is_found_by_its_trainers_name() -> None:
    assert all(ours in names_for(original) for original, ours in RENAMED.items())
    assert set(originals_of("train/reward")) == {"reward", "critic/rewards/mean", "reward/all/mean"}


@pytest.mark.parametrize(
    "name", ["eval/pass_rate", "eval/math/pass_rate", "train/entropy", "perf/generator_idle"]
)
def test_our_own_names_mean_nothing_else(name: str) -> None:
    assert names_for(name) == [name]
