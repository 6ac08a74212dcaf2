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
MOMENTS_BYTES = 8
# Of a trainer's GPU beside tensors, as measured on an H200 (docs/scale.md): CUDA's context took 0.77 GiB, and blocks
# that the allocator kept for itself 1.3 to 13.5 % of the peak. Buffers of NCCL were not measured.
CONTEXT, GAPS = 0.8 * GIB, 0.14
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
    expert_parameters: int  # of a layer, of those above
    experts: int
    heads: int
    key_heads: int
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
        key_heads = int(config.get("num_key_value_heads") or heads)
        queries, keys = heads * head, key_heads * head
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
            expert_parameters=3 * hidden * width * experts,
            experts=experts,
            heads=heads,
            key_heads=key_heads,
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
    trained = shape.trained(recipe.trainer.lora_rank)
    offloaded = MOMENTS_BYTES * trained if recipe.optimizer.offload_moments else 0
    return Need(
        trainer=trainer,
        engine_weights=weights,
        kv_cache=cache,
        kv_tokens=tokens,
        kv_sequences=tokens // recipe.rollout.max_sequence_tokens,
        arriving=weights,
        host_loading=int(LOADING_UNITS * unit) * resources.num_trainers + offloaded,
        host_checkpoint=12 * trained + offloaded,
        shared_memory=0 if recipe.broadcasts_weights else 2 * shape.parameters * dtype,
    )


def trainer_bytes(recipe: Recipe, shape: Shape, length: int | None = None) -> int:
    """Of one rank: weights, gradients and moments in float32, its share of them, and the fullest of two moments of a
    micro-batch: the logits of a chunk of tokens, and the backward pass of the last layer.

    length: of the longest sequence, tokens; by default the recipe's.
    """
    resources, chunk = recipe.resources, recipe.trainer.head_chunk_tokens
    ranks, low = resources.num_trainers, BYTES[recipe.precision.trainer]
    tensor, experts = resources.trainer_tensor_parallel, resources.trainer_expert_parallel
    tokens = tokens_of_a_rank(recipe, length or recipe.rollout.max_sequence_tokens)
    head = 4 * shape.embedding
    dense = (shape.layer_parameters - shape.expert_parameters) // tensor
    layer = dense + shape.expert_parameters // experts
    gathered = (head if ranks > 1 else 0, low * layer if ranks > 1 else 0)
    sent = shape.copies * shape.hidden // tensor if experts > 1 else 0
    is_alone = (
        ranks == 1 and low < 4
    )  # then weights of norms are float32, and autocast keeps copies of the others
    width = (4 * shape.mlp + 7 * shape.queries + 3 * shape.keys) // tensor
    width += (8 + 3 * is_alone + 2 * shape.copies) * shape.hidden
    if recipe.trainer.activation_checkpointing:
        inputs = shape.layers * tokens * low * shape.hidden
    else:
        inputs = shape.layers * low * (tokens * width + is_alone * shape.layer_parameters)
    at_head = sum(gathered) + inputs + head + 16 * min(chunk, tokens // tensor) * shape.vocabulary
    at_head += 9 * tokens * shape.hidden * low
    working = width + (2 + 2 * shape.copies) * shape.hidden + 4 * sent
    at_layer = gathered[0] + (2 if tensor == 1 else 3) * head + 3 * gathered[1] + 4 * layer + inputs
    at_layer += tokens * low * working
    return int(_state_bytes(recipe, shape) + max(at_head, at_layer))


def occupied(peak: float) -> float:
    """Bytes of a GPU that a trainer rank with such a peak of tensors takes."""
    return CONTEXT + (1 + GAPS) * peak


def tokens_of_a_rank(recipe: Recipe, length: int) -> int:
    """That pass through its layers at a time, at most, with sequences of this length."""
    resources, most = recipe.resources, recipe.row_group_tokens
    asked = recipe.asks_to_pack
    if asked or (asked is None and resources.trainer_gpus):
        return -(-max(length, most) // resources.trainer_context_parallel)
    return length * max(1, most // length)


def _state_bytes(recipe: Recipe, shape: Shape) -> int:
    """What a rank holds of weights, gradients and moments. Embeddings and head are not divided by columns."""
    ranks, tensor = recipe.resources.num_trainers, recipe.resources.trainer_tensor_parallel
    trained = shape.trained(recipe.trainer.lora_rank)
    adam = ADAM_BYTES - MOMENTS_BYTES * recipe.optimizer.offload_moments
    copies = int(recipe.trainer.lora_rank is not None) + int(recipe.loss.kl_coef > 0)
    states = adam * trained + 4 * copies * shape.parameters
    if recipe.uses_critic and recipe.critic.trunk == "separate":
        states += adam * shape.parameters
    ends = shape.embedding * (1 if shape.is_tied else 2)
    each = adam * int(recipe.trainer.lora_rank is None) + 4 * copies
    return (states + (tensor - 1) * ends * each) // ranks


def layout_problem(recipe: Recipe, shape: Shape) -> tuple[str, str] | None:
    """(field, sentence with the numbers) where the trainer's ranks cannot divide the model as asked."""
    resources = recipe.resources
    tensor, experts, together = (
        resources.trainer_tensor_parallel,
        resources.trainer_expert_parallel,
        resources.ranks_of_a_row,
    )
    if shape.key_heads % together or shape.heads % together:
        name = "tensor" if resources.trainer_context_parallel == 1 else "context"
        return (
            f"resources.trainer_{name}_parallel",
            f"trainer_tensor_parallel times trainer_context_parallel is {together}, and these ranks divide the heads: "
            f"the model has {shape.heads} of queries and {shape.key_heads} of keys; "
            f"{_divisor(shape.key_heads, together)} would do",
        )
    if experts > 1 and (not shape.experts or shape.experts % experts):
        has = f"has {shape.experts} experts a layer" if shape.experts else "has no experts"
        return (
            "resources.trainer_expert_parallel",
            f"the model {has}, which {experts} ranks cannot divide; {_divisor(shape.experts, experts)} would do",
        )
    if tensor > 1 and shape.experts and experts == 1:
        return (
            "resources.trainer_expert_parallel",
            f"a mixture of experts with trainer_tensor_parallel {tensor} needs {tensor} or a multiple of it",
        )
    return None


def _divisor(number: int, most: int) -> int:
    return max(count for count in range(1, most + 1) if not number % count) if number else 1


def problem(recipe: Recipe, shape: Shape, traced: int | None = None) -> tuple[str, str] | None:
    """(field, sentence with the numbers) of the first thing that does not fit the recipe's GPUs; None if all does.

    traced: bytes of a trainer rank, in place of the estimate.
    """
    if layout := layout_problem(recipe, shape):
        return layout
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
    if not resources.trainer_gpus or occupied(trainer) + lent <= gpu:
        return None
    beside = f" beside {gib(lent)} of an engine" if lent else ""
    return (
        "resources.trainer_gpus",
        f"a trainer rank needs {gib(occupied(trainer))}{beside} of a GPU with {resources.gpu_gib:g} GiB "
        f"(resources.gpu_gib); {_proposal(recipe, shape, gpu - lent)}",
    )


def _proposal(recipe: Recipe, shape: Shape, room: float) -> str:
    for words, changed in _changes(recipe):
        wanted = occupied(trainer_bytes(changed, shape))
        if wanted <= room and layout_problem(changed, shape) is None:
            return f"{words} would take {gib(wanted)}"
    return f"no number of GPUs up to {MOST_GPUS:,} makes it fit: {_shorter(recipe, shape, room)}"


def _shorter(recipe: Recipe, shape: Shape, room: float) -> str:
    length = recipe.rollout.max_sequence_tokens
    while length := length // 2:
        lean = {"activation_checkpointing": True, "micro_batch_tokens": length, "head_chunk_tokens": 1024}
        changed = recipe.model_copy(update={"trainer": recipe.trainer.model_copy(update=lean)})
        if occupied(trainer_bytes(changed, shape, length)) <= room:
            return f"sequences of {length:,} tokens would"
    return "shorter sequences would not either"


def _changes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """What a person would try, the cheapest first; each keeps those before it, moments on the host apart."""
    trainer, length = recipe.trainer, recipe.rollout.max_sequence_tokens
    said: dict[str, str] = {}
    for name, value in (
        ("activation_checkpointing", True),
        ("micro_batch_tokens", min(length, trainer.micro_batch_tokens)),
        ("head_chunk_tokens", min(1024, trainer.head_chunk_tokens)),
    ):
        if getattr(trainer, name) != value:
            trainer = trainer.model_copy(update={name: value})
            said[name] = f"trainer.{name} {str(value).lower()}"
            yield ", ".join(said.values()), recipe.model_copy(update={"trainer": trainer})
    leaner = recipe.model_copy(update={"trainer": trainer})
    optimizer = recipe.optimizer.model_copy(update={"offload_moments": True})
    words = "optimizer.offload_moments true"
    yield ", ".join((*said.values(), words)), leaner.model_copy(update={"optimizer": optimizer})
    yield from _more_ranks(leaner, said)


def _more_ranks(recipe: Recipe, said: dict[str, str]) -> Iterator[tuple[str, Recipe]]:
    """Sequences divided over the ranks that there are, and more of both."""
    trainer, resources, length = recipe.trainer, recipe.resources, recipe.rollout.max_sequence_tokens
    count, now = resources.num_trainers, resources.trainer_context_parallel
    while count <= MOST_GPUS and not resources.shared:
        more = {"trainer_gpus": count, "trainers": None}
        words = {"ranks": f"resources.trainer_gpus {count}"} if count != resources.num_trainers else {}
        if words:
            changed: dict[str, Any] = {"resources": resources.model_copy(update=more)}
            yield ", ".join((said | words).values()), recipe.model_copy(update=changed)
        for context in (2 * now, 4 * now):
            if count % (context * resources.trainer_tensor_parallel):
                break
            tokens = -(-length // context)
            words["context"] = f"resources.trainer_context_parallel {context}"
            words["micro_batch_tokens"] = f"trainer.micro_batch_tokens {tokens}"
            changed = {
                "resources": resources.model_copy(update=more | {"trainer_context_parallel": context}),
                "trainer": trainer.model_copy(update={"micro_batch_tokens": tokens}),
            }
            yield ", ".join((said | words).values()), recipe.model_copy(update=changed)
        count *= 2


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB"
