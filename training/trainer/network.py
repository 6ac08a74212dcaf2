"""The networks of the trainer: a causal LM whose head runs in the precision that the recipe asks for, and a critic.

The value head of PPO: what a response is expected to be rewarded with, before each of its tokens.

What is done to a network's layers before training: recomputed in the backward pass, compiled, sharded over ranks.

In this order, each around the one before. A layer's `forward` is replaced and not the layer, so that the names of its
parameters stay those of the checkpoint format, and FSDP2's hooks run outside of the compiled code.

Low-rank adapters (LoRA, arXiv 2106.09685): a linear layer multiplies by W + alpha / rank B A; W stays as it is.

The sum is made before the product, in float32, and not beside it: so trainer and engines, which get the sum, multiply
with the same numbers. For sequences much longer than the rank it costs next to nothing.
"""

import copy
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._functorch import config as functorch_config
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from training.schema import Recipe, Resources, Trainer
from training.trainer.layout import Layout
from training.trainer.sequences import Sequences

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
        self.dtype = DTYPES[recipe.precision.trainer]  # of the policy's activations
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
        hidden = hidden_states(self.policy.get_decoder(), inputs, self.dtype)
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


def compile_layers(networks: Networks, device: str, backend: str = "inductor") -> None:
    """torch.compile each layer, and the norm after the last, once for any batch and length. CompileError without a C++
    compiler on a CPU."""
    check_compiler("trainer.compile", device)
    # Backward passes run outside of autocast, compiled or not.
    functorch_config.backward_pass_autocast = "off"
    norms = (getattr(decoder, "norm", None) for decoder in _decoders(networks))
    for module in filter(None, chain(chain.from_iterable(_layers(networks)), norms)):
        module.forward = torch.compile(module.forward, dynamic=True, backend=backend)


def recompute_layers(networks: Networks, kept: int = 0) -> None:
    """Keep each layer's input only; the backward pass computes the rest of it again. The last `kept` layers of each
    network, which it comes to first, stay as they are."""
    for layers in _layers(networks):
        for layer in layers[: max(0, len(layers) - kept)]:
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


def shard(
    networks: Networks,
    layout: Layout,
    dtype: torch.dtype = torch.float32,
    fill: Callable[[torch.nn.Module], None] | None = None,
) -> None:
    """Divide the networks over the ranks of the layout, and by FSDP2: each layer by itself, its experts where they are
    divided, the embeddings unless the head is tied to them, the rest.

    Layers are gathered and multiplied in `dtype`, the policy's; a critic's own trunk, embeddings and head in float32.
    Gradients are added up in float32 after every micro-batch, and not averaged: the loss of a rank is its share in the
    loss of the batch. `fill` gives a module its weights right before they are split, one after the other: so no rank
    ever holds more than its share and one of them.
    """
    config = networks.policy.config
    policy = networks.policy.get_decoder()
    trunk: Any = networks.critic and networks.critic.trunk
    low = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    units = [(layer, low) for layer in _layers_of(policy)]
    units += [(layer, MixedPrecisionPolicy()) for layer in (_layers_of(trunk) if trunk is not None else ())]
    if not config.tie_word_embeddings:
        units.append((policy.get_input_embeddings(), MixedPrecisionPolicy()))
    for module, precision in [*units, (networks, MixedPrecisionPolicy())]:
        if fill is not None:
            fill(module)
        for experts in layout.divide(module, config):
            fully_shard(
                experts,
                mesh=layout.expert_shards,
                mp_policy=precision,
                shard_placement_fn=layout.expert_dimension,
            )
        fully_shard(module, mesh=layout.shards, mp_policy=precision)
    for module in networks.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other


def whole(value: Tensor) -> Tensor:
    """The tensor, gathered from all ranks where it is sharded; a collective."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def release(networks: Networks) -> None:
    """Give up gathered weights after passes without a backward pass, which would do it."""
    if isinstance(networks, FSDPModule):
        networks.reshard()


def _layers(networks: Networks) -> Iterator[Any]:
    """Of each network, in their order."""
    return map(_layers_of, _decoders(networks))


def _decoders(networks: Networks) -> Iterator[Any]:
    for model in networks.transformers():
        yield model.get_decoder() if model is networks.policy else model


def _layers_of(decoder: Any) -> Any:
    """ValueError for a family that keeps them elsewhere."""
    if not hasattr(decoder, "layers"):
        raise ValueError(
            f"model: {type(decoder).__name__} has no `layers`: it is trained by one rank alone, without "
            "trainer.activation_checkpointing and trainer.compile"
        )
    return decoder.layers


DOWN, UP, SCALE = "lora_a", "lora_b", "lora_scale"  # A: [rank, in], B: [out, rank], alpha / rank: []


class LoraLinear(torch.nn.Linear):
    """A linear layer with its own weight, frozen, and an adapter of zero effect."""

    def __init__(self, plain: torch.nn.Linear, rank: int, alpha: float, device: str) -> None:
        """device: of the scale; the adapter lies where the weight does."""
        super().__init__(plain.in_features, plain.out_features, bias=False, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        there = plain.weight.device
        self.lora_a = torch.nn.Parameter(torch.zeros(rank, self.in_features, device=there))
        self.lora_b = torch.nn.Parameter(torch.zeros(self.out_features, rank, device=there))
        self.lora_scale: Tensor
        self.register_buffer(SCALE, torch.tensor(alpha / rank, device=device))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - as in torch
        """input: [..., in]."""
        with torch.autocast(input.device.type, enabled=False):
            weight = self.adapted()
        return functional.linear(input, weight, self.bias)

    def adapted(self) -> Tensor:
        """The weight with its adapter, float32, [out, in]."""
        return added(self.weight, self.lora_a, self.lora_b, self.lora_scale)


def added(weight: Tensor, down: Tensor, up: Tensor, scale: Tensor) -> Tensor:
    """W + scale B A, float32, [out, in]."""
    return weight.float() + scale * (up.float() @ down.float())


def add_adapters(model: PreTrainedModel, settings: Trainer, device: str) -> None:
    """Freeze the model, and give every linear layer of its decoder an adapter; does nothing without a rank.

    On the meta device they have no values yet: `start_of` says them.
    """
    if settings.lora_rank is None:
        return
    model.requires_grad_(False)
    decoder = model.get_decoder()
    plain = [(name, each) for name, each in decoder.named_modules() if type(each) is torch.nn.Linear]
    for name, layer in plain:
        adapted = LoraLinear(layer, settings.lora_rank, settings.lora_alpha, device)
        start = start_of(f"{model.base_model_prefix}.{name}.{DOWN}", adapted.lora_a)
        if start is not None and not adapted.lora_a.is_meta:
            with torch.no_grad():
                adapted.lora_a.copy_(start)
        decoder.set_submodule(name, adapted)


def start_of(name: str, parameter: Tensor) -> Tensor | None:
    """What an adapter's A begins with, the same on every rank: uniform in +-1 / sqrt(in). None of other parameters."""
    if not name.endswith(f".{DOWN}"):
        return None
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return (2 * torch.rand(parameter.shape, generator=generator) - 1) / math.sqrt(parameter.shape[1])


def is_adapter(name: str) -> bool:
    """Whether it is a part of an adapter, and no weight of the model."""
    return name.rpartition(".")[2] in (DOWN, UP, SCALE)


def adapter_of(name: str, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor] | None:
    """(A, B, scale) of the weight of that name; None where it has none."""
    layer = name.removesuffix(".weight")
    if f"{layer}.{DOWN}" not in state:
        return None
    return state[f"{layer}.{DOWN}"], state[f"{layer}.{UP}"], state[f"{layer}.{SCALE}"]


def as_held(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The weight rounded to the generator's dtype, in its own: what both sides multiply with after every
    update. Gradients go to the weight as if it were not rounded.

    The generator gets its weights in its own precision, and with an FP32 head multiplies those in float32. The
    weights of the trainer are float32: without this its head would be another one from the first update on.
    """
    return weight if dtype == weight.dtype else _Rounded.apply(weight, dtype)


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, dtype: torch.dtype) -> Tensor:
        return weight.to(dtype).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class CompileError(RuntimeError):
    """A recipe asks for compiled code where there is no compiler; the message names the field."""


def check_compiler(field: str, device: str) -> None:
    """CompileError on a CPU without a C++ compiler; `field` of the recipe asks for it."""
    compiler = os.environ.get("CXX", "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise CompileError(
            f"{field} needs a C++ compiler and there is no {compiler}: install one, name it in CXX, "
            f"or set {field} to false"
        )
