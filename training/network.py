"""The policy network: a causal LM whose head runs in the precision that the recipe asks for."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_network(folder: Path, device: str = "cpu") -> PreTrainedModel:
    """The model with float32 weights. The optimiser updates these; lower precision is a matter of autocast."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, attn_implementation="sdpa"
    )
    return model.to(device)


def head_logits(model: PreTrainedModel, hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """Float32 logits [..., V], with the matrix product in `dtype` (FP32 head: section 3.2)."""
    weight = model.get_output_embeddings().weight
    with torch.autocast(hidden.device.type, enabled=False):
        return (hidden.to(dtype) @ weight.to(dtype).T).float()


def sequence_logp(
    model: PreTrainedModel,
    tokens: Tensor,
    *,
    head_dtype: torch.dtype,
    body_dtype: torch.dtype = torch.float32,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """(log-probability of each token given those before it, entropy of the prediction), both [N, L - 1].

    tokens: [N, L], padded on the right, so that causal attention needs no mask.
    """
    with torch.autocast(tokens.device.type, dtype=body_dtype, enabled=body_dtype != torch.float32):
        hidden = model.get_decoder()(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state
    logits = head_logits(model, hidden, head_dtype) / temperature
    log_probabilities = logits.log_softmax(dim=-1)
    logp = log_probabilities.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=-1)
    return logp, entropy
