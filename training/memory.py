"""What a recipe takes of GPUs and hosts, by arithmetic: from the model's config.json and the recipe alone. No torch.

`training.trainer.memory_trace` finds the trainer's part by following its passes; tests hold this estimate to it. What
does not fit is refused before a run is queued.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.models import ModelError, find_model
from training.schema import Recipe

GIB = 1 << 30
SHAPES = Path(__file__).parent / "shapes"  # config.json of models, without weights
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
ADAM_BYTES = 16  # of a parameter: weight, gradient and two moments, all float32
GPU_SPARE = 1.5 * GIB  # CUDA's context, what the allocator loses between blocks, buffers of NCCL
ENGINE_SPARE = 4.0 * GIB  # of an engine beside weights and cache: activations, CUDA graphs, logits
LOADING_UNITS = (
    2.5  # of the largest layer in float32: what a rank holds while it reads; benchmarks/bench_loading.py
)
MOST_GPUS = 1024  # that are proposed


class Unknown(ValueError):
    """A model whose memory cannot be said from its configuration."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder of the Llama and Qwen families, dense or a mixture of experts."""

    layers: int
    hidden: int
    mlp: int  # width that one token passes through, over all of its experts
    copies: int  # of a token's hidden state in a mixture: experts that it goes to; else 0
    queries: int  # query heads x head size
    keys: int  # key heads x head size
    vocabulary: int
    layer_parameters: int
    is_tied: bool
    context: int

    @property
    def embedding(self) -> int:
        """Parameters of the embeddings, and of the head."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All of them, a tied head once."""
        return self.layers * self.layer_parameters + self.embedding * (1 if self.is_tied else 2) + self.hidden

    def trained(self, lora_rank: int | None) -> int:
        """Parameters that are trained: all, or those of adapters of all linear layers, which experts are not."""
        if lora_rank is None:
            return self.parameters
        ends = 4 * self.hidden + 2 * self.queries + 2 * self.keys
        if not self.copies:
            ends += 3 * self.hidden + 3 * self.mlp
        return lora_rank * ends * self.layers

    @classmethod
    def of(cls, file: Path) -> "Shape":
        """Of a config.json. Raises Unknown where it lacks a size, or says one that is not understood."""
        try:
            config = json.loads(file.read_text())
            return cls._of(config.get("text_config", config))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
            raise Unknown(
                f"{file} does not say the model's sizes ({type(error).__name__}: {error})"
            ) from None

    @classmethod
    def _of(cls, config: dict[str, Any]) -> "Shape":
        hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        head = int(config.get("head_dim") or hidden // heads)
        queries, keys = heads * head, int(config.get("num_key_value_heads") or heads) * head
        experts = int(config.get("num_experts") or config.get("num_local_experts") or 0)
        width = int(config.get("moe_intermediate_size") or config["intermediate_size"])
        copies = int(config["num_experts_per_tok"]) if experts else 0
        attention = 2 * hidden * (queries + keys) + 2 * hidden + 2 * head
        return cls(
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            mlp=width * max(1, copies),
            copies=copies,
            queries=queries,
            keys=keys,
            vocabulary=int(config["vocab_size"]),
            layer_parameters=attention + 3 * hidden * width * max(1, experts) + hidden * experts,
            is_tied=bool(config.get("tie_word_embeddings", False)),
            context=int(config["max_position_embeddings"]),
        )


@dataclass(frozen=True)
class Need:
    """Bytes, each of one GPU unless it says otherwise, and what an engine's KV cache holds.

    trainer: of one rank at its fullest. engine_weights, kv_cache: of one of an engine's GPUs. arriving: new weights on
    their way to an engine, beside the old ones. host_loading, host_checkpoint: of all ranks' machines together, while
    the model is read and while a checkpoint is written. shared_memory: of a machine, where weights travel through it.
    """

    trainer: int
    engine_weights: int
    kv_cache: int
    kv_tokens: int
    kv_sequences: int
    arriving: int
    host_loading: int
    host_checkpoint: int
    shared_memory: int


def shape_file(model: str, home: Path | None = None) -> Path:
    """The config.json of a model that is here, or of a known shape (`dense-8b`). Raises ModelError naming these."""
    try:
        return find_model(model, home) / "config.json"
    except ModelError as error:
        known = sorted(path.stem for path in SHAPES.glob("*.json"))
        if model in known:
            return SHAPES / f"{model}.json"
        raise ModelError(f"{error}; shapes without weights: {', '.join(known)}") from None


def need(recipe: Recipe, shape: Shape, gpu_bytes: float) -> Need:
    """What the recipe takes on GPUs of this size."""
    resources = recipe.resources
    dtype, devices = BYTES[recipe.precision.generator], max(1, resources.gpus_per_generator)
    trainer = trainer_bytes(recipe, shape)
    weights = shape.parameters * dtype // devices
    token = -(-2 * shape.layers * shape.keys * dtype // devices)
    if recipe.kv_cache_bytes is not None:
        cache = recipe.kv_cache_bytes
    else:
        cache = max(0, int(recipe.engine.gpu_memory_utilization * gpu_bytes - weights - ENGINE_SPARE))
    tokens = cache // token
    unit = 4 * max(shape.layer_parameters, shape.embedding)
    return Need(
        trainer=trainer,
        engine_weights=weights,
        kv_cache=cache,
        kv_tokens=tokens,
        kv_sequences=tokens // recipe.rollout.max_sequence_tokens,
        arriving=weights,
        host_loading=int(LOADING_UNITS * unit) * resources.num_trainers,
        host_checkpoint=12 * shape.trained(recipe.trainer.lora_rank),
        shared_memory=0 if recipe.broadcasts_weights else 2 * shape.parameters * dtype,
    )


def trainer_bytes(recipe: Recipe, shape: Shape) -> int:
    """Of one rank: weights, gradients and moments in float32, its share of them, and the fullest of two moments of a
    micro-batch: the logits of a chunk of tokens, and the backward pass of the last layer."""
    ranks, chunk = recipe.resources.num_trainers, recipe.trainer.head_chunk_tokens
    low = BYTES[recipe.precision.trainer]
    length = recipe.rollout.max_sequence_tokens
    tokens = length * max(1, recipe.trainer.micro_batch_tokens // length)
    trained = shape.trained(recipe.trainer.lora_rank)
    held = 4 * (
        (shape.parameters if recipe.trainer.lora_rank else 0)
        + (shape.parameters if recipe.loss.kl_coef else 0)
    )
    states = (ADAM_BYTES * trained + held) // ranks
    if recipe.uses_critic:
        states += ADAM_BYTES * shape.parameters // ranks if recipe.critic.trunk == "separate" else 0
    head = 4 * shape.embedding
    gathered = (head if ranks > 1 else 0, low * shape.layer_parameters if ranks > 1 else 0)
    width = 6 * shape.mlp + 6 * shape.queries + (8 + 2 * shape.copies) * shape.hidden
    kept = shape.hidden if recipe.trainer.activation_checkpointing else width
    inputs = shape.layers * tokens * low * kept
    at_head = sum(gathered) + inputs + head + 16 * min(chunk, tokens) * shape.vocabulary
    at_head += 9 * tokens * shape.hidden * low
    working = 7 * shape.mlp + 7 * shape.queries + (9 + 4 * shape.copies) * shape.hidden
    at_layer = gathered[0] + 2 * head + 3 * gathered[1] + 4 * shape.layer_parameters + inputs
    at_layer += tokens * low * working
    return int(states + max(at_head, at_layer))


def problem(recipe: Recipe, shape: Shape, traced: int | None = None) -> tuple[str, str] | None:
    """(field, sentence with the numbers) of the first thing that does not fit the recipe's GPUs; None if all does.

    traced: bytes of a trainer rank, in place of the estimate.
    """
    resources, gpu = recipe.resources, recipe.resources.gpu_gib * GIB
    said = need(recipe, shape, gpu)
    trainer = said.trainer if traced is None else traced
    if resources.generator_gpus and said.kv_tokens < recipe.rollout.max_sequence_tokens:
        return (
            "engine.gpu_memory_utilization",
            f"each engine's GPU has {gib(said.kv_cache)} for its KV cache beside {gib(said.engine_weights)} of "
            f"weights: {said.kv_tokens:,} tokens, less than one sequence of {recipe.rollout.max_sequence_tokens:,}; "
            "more GPUs an engine (resources.generators below generator_gpus) would hold it",
        )
    lent = said.engine_weights + said.kv_cache + ENGINE_SPARE if resources.shared else 0
    if not resources.trainer_gpus or trainer + lent + GPU_SPARE <= gpu:
        return None
    beside = f" beside {gib(lent)} of an engine" if lent else ""
    return (
        "resources.trainer_gpus",
        f"a trainer rank needs {gib(trainer + GPU_SPARE)}{beside} of a GPU with {resources.gpu_gib:g} GiB "
        f"(resources.gpu_gib); {_proposal(recipe, shape, gpu - lent)}",
    )


def _proposal(recipe: Recipe, shape: Shape, room: float) -> str:
    for words, changed in _changes(recipe):
        if (wanted := trainer_bytes(changed, shape) + GPU_SPARE) <= room:
            return f"{words} would take {gib(wanted)}"
    return f"no number of GPUs up to {MOST_GPUS:,} makes it fit: shorter sequences would"


def _changes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """What a person would try, the cheapest first; each keeps those before it."""
    trainer, resources = recipe.trainer, recipe.resources
    length = recipe.rollout.max_sequence_tokens
    said: list[str] = []
    for name, value in (
        ("activation_checkpointing", True),
        ("micro_batch_tokens", min(length, trainer.micro_batch_tokens)),
        ("head_chunk_tokens", min(1024, trainer.head_chunk_tokens)),
    ):
        if getattr(trainer, name) != value:
            trainer = trainer.model_copy(update={name: value})
            said.append(f"trainer.{name} {str(value).lower()}")
            yield ", ".join(said), recipe.model_copy(update={"trainer": trainer})
    count = resources.num_trainers
    while (count := 2 * count) <= MOST_GPUS and not resources.shared:
        more = resources.model_copy(update={"trainer_gpus": count, "trainers": None})
        yield (
            ", ".join([*said, f"resources.trainer_gpus {count}"]),
            recipe.model_copy(update={"trainer": trainer, "resources": more}),
        )


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB"
