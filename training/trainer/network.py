"""The networks of the trainer: a causal LM whose head runs in the precision that the recipe asks for, and a critic."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from training.schema import Recipe, Resources
from training.trainer.held import as_held
from training.trainer.layout import Layout
from training.trainer.sequences import Sequences

if TYPE_CHECKING:
    from training.trainer.critic import Critic

transformers_logging.disable_progress_bar()  # a run's log is read by people
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_network(folder: Path, device: str = "cpu") -> PreTrainedModel:
    """The model with float32 weights. The optimiser updates these; lower precision is a matter of autocast."""
    model: Any = AutoModelForCausalLM.from_pretrained(  # nosec B615  # local files only
        folder, dtype=torch.float32, local_files_only=True, attn_implementation="sdpa"
    )
    return model.to(device)


class Networks(torch.nn.Module):
    """Policy and critic as one module: what FSDP2 gathers for a pass (embeddings, head), it gathers once."""

    def __init__(
        self, policy: PreTrainedModel, critic: "Critic | None", recipe: Recipe, layout: Layout | None = None
    ) -> None:
        """layout: of this rank, alone by default."""
        super().__init__()
        self.policy: Any = policy
        self.critic = critic
        self._layout = layout or Layout(Resources())
        self._body_dtype = DTYPES[recipe.precision.trainer]
        self._head_dtype = DTYPES[recipe.precision.head_trainer]
        self._held_dtype = DTYPES[recipe.precision.generator]
        self._temperature = recipe.rollout.temperature
        self._has_entropy_bonus = recipe.loss.entropy_coef > 0
        self._chunk_tokens = recipe.trainer.head_chunk_tokens

    def forward(
        self, tokens: Tensor, wanted: Tensor, lengths: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(log-probability of each token but the first, entropy of its prediction, value before it), [N, L - 1] each.

        tokens: [N, L], padded on the right. wanted: [N, L - 1] bool; the other positions do not pass through the head:
        their log-probability and entropy are 0. lengths: of the N sequences, to pass them through the layers without
        padding. Values are None without a critic.
        """
        layout, inner = self._layout, None if lengths is None else [length - 1 for length in lengths]
        inputs = layout.arrange(tokens[:, :-1], inner)
        hidden = hidden_states(self.policy.get_decoder(), inputs, self._body_dtype)
        positions = layout.own(self.positions(wanted.flatten().index_select(0, inputs.places)))
        places = inputs.places.index_select(0, positions)
        said = head_logp(
            as_held(layout.head(self.policy.get_output_embeddings().weight), self._held_dtype),
            layout.shared(hidden).index_select(0, positions),
            tokens[:, 1:].flatten().index_select(0, places),
            dtype=self._head_dtype,
            temperature=self._temperature,
            entropy_has_gradient=self._has_entropy_bonus,
            chunk_tokens=self._chunk_tokens,
        )
        logp, entropy = (layout.together(_spread(value, places, wanted.shape)) for value in said)
        if self.critic is None:
            return logp, entropy, None
        values = _spread(self.critic(inputs, hidden), inputs.places, wanted.shape)
        return logp, entropy, layout.of_parts(values)

    def positions(self, wanted: Tensor) -> Tensor:
        """Where `wanted` is True; how many these are says the data."""
        return wanted.nonzero().squeeze(-1)

    def transformers(self) -> Iterator[Any]:
        """The policy, and the critic's own trunk."""
        yield self.policy
        if self.critic is not None and self.critic.trunk is not None:
            yield self.critic.trunk


def hidden_states(decoder: Any, inputs: Sequences, dtype: torch.dtype) -> Tensor:
    """Last hidden state of each token that has a place, [m, H]; `dtype` is that of the activations, also of those that
    layers add to, as in the generator."""
    embedded = decoder.get_input_embeddings()(inputs.tokens).to(dtype)
    with torch.autocast(embedded.device.type, dtype=dtype, enabled=dtype != torch.float32):
        said = decoder(inputs_embeds=embedded, use_cache=False, **inputs.arguments).last_hidden_state
    return said.flatten(0, 1)[: len(inputs.places)]


def _spread(values: Tensor, places: Tensor, shape: torch.Size) -> Tensor:
    """Float32 of the shape: the values at their places of the flattened one, else 0."""
    where = (places // shape[1], places % shape[1])
    return torch.zeros(shape, device=values.device).index_put(where, values)


def head_logits(model: PreTrainedModel, hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """Float32 logits [..., V], with the matrix product in `dtype` (FP32 head: section 3.2)."""
    return _logits(model.get_output_embeddings().weight.to(dtype), hidden)


def head_logp(
    weight: Tensor,
    hidden: Tensor,
    following: Tensor,
    *,
    dtype: torch.dtype,
    temperature: float,
    entropy_has_gradient: bool,
    chunk_tokens: int,
) -> tuple[Tensor, Tensor]:
    """`logp_and_entropy` of M hidden states; logits of at most `chunk_tokens` of them exist at the same time.

    weight: [V, H], cast to `dtype`; hidden: [M, H]; following: [M]. With more than one chunk, the backward pass makes
    the logits of a chunk anew: a vocabulary of 150,000 and 16,384 tokens would be 10 GB.
    """
    weight = weight.to(dtype)

    def of_chunk(weight: Tensor, hidden: Tensor, following: Tensor) -> tuple[Tensor, Tensor]:
        logits = _logits(weight, hidden)
        return logp_and_entropy(
            logits, following, temperature=temperature, entropy_has_gradient=entropy_has_gradient
        )

    if len(hidden) <= chunk_tokens:
        return of_chunk(weight, hidden, following)
    chunks = zip(hidden.split(chunk_tokens), following.split(chunk_tokens), strict=True)
    found: list[Any] = [checkpoint(of_chunk, weight, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.cat([logp for logp, _ in found]), torch.cat([entropy for _, entropy in found])


def logp_and_entropy(
    logits: Tensor, following: Tensor, *, temperature: float, entropy_has_gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """(log-probability of each token, entropy of its prediction), both [...] float32.

    logits: [..., V]; following: [...], the token that came after each.
    """
    scaled = logits if temperature == 1 else logits / temperature
    log_probabilities = scaled.log_softmax(dim=-1)
    logp = log_probabilities.gather(-1, following.unsqueeze(-1)).squeeze(-1)
    with torch.set_grad_enabled(entropy_has_gradient and torch.is_grad_enabled()):
        entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=-1)
    return logp, entropy


def _logits(weight: Tensor, hidden: Tensor) -> Tensor:
    """weight: [V, H], in the dtype of the matrix product."""
    with torch.autocast(hidden.device.type, enabled=False):
        return (hidden.to(weight.dtype) @ weight.T).float()
