"""Whether a model's head is the one that trainer and transformers engine compute."""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput


class _OfDecoder(BaseModelOutput):
    """Only a last hidden state; what else a decoder may say is None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """ValueError where the model's logits are not the product of its head's weight and its last hidden state, which is
    what `network.head_logits` and `head_logp` compute.

    By eight words and three hidden states of its own, so also for a model whose weights are on the meta device.
    """
    head: Any = model.get_output_embeddings()
    bodies: set[Any] = {model.base_model, model.get_decoder()}
    if model in bodies or not isinstance(getattr(head, "weight", None), Tensor):
        raise ValueError(f"model: {type(model).__name__} has no decoder and head that can be trained")
    there, generator = head.weight.device, torch.Generator().manual_seed(0)
    device, width = "cpu" if head.weight.is_meta else there, head.weight.shape[1]
    weight = torch.randn(8, width, generator=generator).to(device)
    hidden: Any = torch.randn(1, 3, width, generator=generator).to(device)
    name = next(name for name, module in model.named_modules() if module is head)
    tokens = torch.zeros(1, 3, dtype=torch.long, device=there)
    for body in bodies:
        body.forward = lambda *_, **__: _OfDecoder(last_hidden_state=hidden)
    try:
        said = functional_call(
            model, {f"{name}.weight": weight}, (), {"input_ids": tokens}, tie_weights=False
        )
        logits = said.logits
    except RuntimeError:  # it multiplies with, or adds, what has another shape or no value yet
        logits = None
    finally:
        for body in bodies:
            del body.forward
    wanted = hidden @ weight.T
    if logits is None or logits.shape != wanted.shape or not torch.allclose(logits, wanted, 1e-4, 1e-3):
        raise ValueError(
            f"model: the logits of {type(model).__name__} are not its head's weight times the last hidden state, "
            "so its log-probabilities would be wrong"
        )
