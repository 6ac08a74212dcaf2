import math

import pytest
import torch

from training.schema import Critic, Optimizer
from training.trainer.optimization import learning_rate_share, make_optimizer


def shares(settings: Optimizer, *steps: int) -> list[float]:
    return [learning_rate_share(step, settings) for step in steps]


def test_constant_after_a_linear_warm_up() -> None:
    settings = Optimizer(warmup_steps=4)

    assert shares(settings, 1, 2, 3, 4, 5, 1000) == [0.25, 0.5, 0.75, 1, 1, 1]


def test_no_warm_up() -> None:
    assert shares(Optimizer(warmup_steps=0), 1, 2) == [1, 1]


def test_cosine_goes_down_to_its_lowest_and_stays() -> None:
    settings = Optimizer(warmup_steps=2, schedule="cosine", decay_steps=10, min_lr_share=0.2)

    quarter = 0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2
    assert shares(settings, 1, 2, 4, 6, 10, 99) == pytest.approx([0.5, 1, quarter, 0.6, 0.2, 0.2])


def test_adamw_has_the_papers_settings_and_the_critic_a_rate_of_its_own() -> None:
    one, other = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))

    optimizer = make_optimizer([one], [other], Optimizer(), Critic(lr=1e-3))

    policy, critic = optimizer.param_groups
    assert (policy["lr"], policy["eps"], policy["weight_decay"]) == (5e-7, 1e-15, 0.01)
    assert (critic["lr"], critic["params"]) == (1e-3, [other])
    assert len(make_optimizer([one], [], Optimizer(), Critic()).param_groups) == 1
