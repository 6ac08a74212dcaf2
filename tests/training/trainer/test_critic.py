from pathlib import Path

import torch

from training.trainer.network import Critic, hidden_states, load_network
from training.trainer.sequences import arrange

INPUTS = arrange(torch.tensor([[5, 6, 7], [9, 4, 5]]), None)


def test_starts_at_zero_in_float32_whatever_the_policys_precision(toy_model: Path) -> None:
    policy = load_network(toy_model)
    hidden = hidden_states(policy.get_decoder(), INPUTS, torch.bfloat16)

    values = Critic(policy, "shared")(INPUTS, hidden)

    assert (values.dtype, values.shape) == (torch.float32, (6,))
    assert values.tolist() == [0] * 6


def test_shared_head_teaches_the_policys_layers(toy_model: Path) -> None:
    policy = load_network(toy_model)
    critic = Critic(policy, "shared")
    torch.nn.init.ones_(critic.head.weight)

    critic(INPUTS, hidden_states(policy.get_decoder(), INPUTS, torch.float32)).sum().backward()

    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in policy.get_decoder().parameters())


def test_separate_trunk_is_a_copy_that_leaves_the_policy_alone(toy_model: Path) -> None:
    policy = load_network(toy_model)
    critic = Critic(policy, "separate")
    torch.nn.init.ones_(critic.head.weight)
    hidden = hidden_states(policy.get_decoder(), INPUTS, torch.float32)

    values = critic(INPUTS, torch.zeros_like(hidden))
    values.sum().backward()

    torch.testing.assert_close(values, critic.head(hidden).squeeze(-1))
    assert all(p.grad is None for p in policy.parameters())
    assert sum(p.numel() for p in critic.parameters()) > sum(p.numel() for p in critic.head.parameters())
