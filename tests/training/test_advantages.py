import pytest
import torch

from training.advantages import group_advantages, has_variance

REWARDS = torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
PROMPTS = torch.tensor([5, 5, 2, 2, 8, 8])


def test_batch_norm_divides_by_the_std_of_all_advantages() -> None:
    advantages = group_advantages(REWARDS, PROMPTS, norm="batch")

    std = (4 / 6) ** 0.5  # of (1, -1, 0, 0, 1, -1)
    assert advantages.tolist() == pytest.approx([1 / std, -1 / std, 0, 0, 1 / std, -1 / std])


def test_prompt_norm_divides_by_the_std_of_the_prompt() -> None:
    rewards = torch.tensor([3.0, 1.0, 1.0, 1.0, 0.0, 10.0])

    assert group_advantages(rewards, PROMPTS, norm="prompt").tolist() == pytest.approx([1, -1, 0, 0, -1, 1])


def test_no_norm_centres_alone() -> None:
    assert group_advantages(REWARDS, PROMPTS, norm="none").tolist() == [1, -1, 0, 0, 1, -1]


def test_samples_of_a_prompt_need_not_be_neighbours() -> None:
    order = torch.tensor([3, 0, 5, 1, 4, 2])

    shuffled = group_advantages(REWARDS[order], PROMPTS[order], norm="batch")

    torch.testing.assert_close(shuffled, group_advantages(REWARDS, PROMPTS, norm="batch")[order])


@pytest.mark.parametrize("norm", ["batch", "prompt", "none"])
def test_equal_rewards_have_no_advantage(norm: str) -> None:
    assert group_advantages(torch.ones(4), torch.tensor([0, 0, 1, 1]), norm=norm).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("norm", ["batch", "prompt", "none"])
def test_equal_rewards_have_no_advantage_where_their_float_mean_differs_from_them(norm: str) -> None:
    rewards = torch.tensor([0.7, 0.1]).repeat_interleave(10)  # float32: the mean of ten 0.7 is not 0.7

    advantages = group_advantages(rewards, torch.arange(2).repeat_interleave(10), norm=norm)

    assert advantages.tolist() == [0] * 20


@pytest.mark.parametrize("norm", ["batch", "prompt", "none"])
def test_nothing_is_fine(norm: str) -> None:
    assert group_advantages(torch.zeros(0), torch.zeros(0, dtype=torch.long), norm=norm).tolist() == []


def test_unknown_norm() -> None:
    with pytest.raises(ValueError, match="batch, prompt, none"):
        group_advantages(REWARDS, PROMPTS, norm="layer")


def test_has_variance_marks_prompts_that_teach() -> None:
    assert has_variance(REWARDS, PROMPTS).tolist() == [True, True, False, False, True, True]
