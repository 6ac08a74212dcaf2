"""Names of other trainers' metrics, as their trackers have them."""

import pytest

from headroom.adapters.naming import of_prime_rl, of_tracker


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
