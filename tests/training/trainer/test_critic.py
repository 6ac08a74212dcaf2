from pathlib import Path

import torch

from training.trainer.critic import Critic
from training.trainer.network import hidden_states, load_network

TOKENS = torch.tensor([[5, 6, 7, 8], [9, 4, 5, 0]])


def test_starts_at_zero_in_float32_whatever_the_policys_precision(toy_model: Path) -> None:
    policy = load_network(toy_model)
    hidden = hidden_states(policy.get_decoder(), TOKENS, torch.bfloat16)

    values = Critic(policy, "shared")(TOKENS, hidden)

    assert (values.dtype, values.shape) == (torch.float32, (2, 3))
    assert values.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_shared_head_teaches_the_policys_layers(toy_model: Path) -> None:
    policy = load_network(toy_model)
    critic = Critic(policy, "shared")
    torch.nn.init.ones_(critic.head.weight)

    critic(TOKENS, hidden_states(policy.get_decoder(), TOKENS, torch.float32)).sum().backward()

    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in policy.get_decoder().parameters())


def test_separate_trunk_is_a_copy_that_leaves_the_policy_alone(toy_model: Path) -> None:
    policy = load_network(toy_model)
    critic = Critic(policy, "separate")
    torch.nn.init.ones_(critic.head.weight)
    hidden = hidden_states(policy.get_decoder(), TOKENS, torch.float32)

    values = critic(TOKENS, torch.zeros_like(hidden))
    values.sum().backward()

    torch.testing.assert_close(values, critic.head(hidden).squeeze(-1))
    assert all(p.grad is None for p in policy.parameters())
    assert sum(p.numel() for p in critic.parameters()) > sum(p.numel() for p in critic.head.parameters())
