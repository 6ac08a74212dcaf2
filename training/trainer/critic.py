"""The value head of PPO: what a response is expected to be rewarded with, before each of its tokens."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training.trainer.network import hidden_states
from training.trainer.sequences import Sequences


class Critic(torch.nn.Module):
    """A linear head in float32, on the policy's hidden states or on a float32 copy of the policy's layers.

    It starts at zero, so that the first values are 0 and the first advantages the rewards.
    """

    def __init__(self, policy: PreTrainedModel, trunk: str) -> None:
        super().__init__()
        decoder: Any = policy.get_decoder()
        self.trunk = copy.deepcopy(decoder) if trunk == "separate" else None
        self.head = torch.nn.Linear(policy.config.hidden_size, 1, device=policy.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Sequences, hidden: Tensor) -> Tensor:
        """Value before what follows each token that has a place, [m] float32.

        hidden: [m, H], the policy's, which a separate trunk does not look at.
        """
        if self.trunk is not None:
            hidden = hidden_states(self.trunk, inputs, torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            return self.head(hidden.float()).sum(dim=-1)  # of one: FSDP2 warns of a view, which squeeze is
