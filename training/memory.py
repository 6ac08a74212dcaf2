"""What a recipe takes of GPUs and hosts, by arithmetic: from the model's config.json and the recipe alone. No torch.

`training.trainer.memory_trace` finds the trainer's part by following its passes; tests hold this estimate to it.
`training.misfits` says what does not fit.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.models import ModelError, find_model, parameter_count
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
MOST_UNEXPLAINED = 1.1  # parameters, of those that the sizes of a configuration make
GPUS_A_NODE = 8  # at most: the machines that GPUs of this size come in
ARRIVING_SPARE = 1 * GIB  # of an engine's GPU that stays free beside new weights that wait there


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
    def width(self) -> int:
        """Of one expert, or of the layer's only one."""
        return self.mlp // max(1, self.copies)

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
        """Of a config.json. Raises Unknown where it lacks a size, or says one that is not understood, and where the
        weights beside it are more than its sizes make: its layers are of another kind."""
        try:
            config = json.loads(file.read_text())
            shape = cls._of(config.get("text_config", config))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
            raise Unknown(
                f"{file} does not say the model's sizes ({type(error).__name__}: {error})"
            ) from None
        counted = parameter_count(file.parent) or 0
        if counted > MOST_UNEXPLAINED * shape.parameters:
            raise Unknown(
                f"{file} is not understood: its sizes make {shape.parameters:,} parameters, and there are {counted:,}"
            )
        return shape

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
        layers, vocabulary = int(config["num_hidden_layers"]), int(config["vocab_size"])
        if min(layers, hidden, heads, key_heads, head, width, vocabulary) < 1:
            raise ValueError("a size below 1")
        return cls(
            layers=layers,
            hidden=hidden,
            mlp=width * max(1, copies),
            copies=copies,
            queries=queries,
            keys=keys,
            vocabulary=vocabulary,
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

    trainer: of one rank at its fullest. engine_weights, kv_cache: of one of an engine's GPUs. arriving: new weights by
    broadcast, which each of them gets whole, beside the old ones. host_parts: of all parts without GPUs, in the memory
    of one machine. The others are of a machine with up to `GPUS_A_NODE` ranks, or GPUs of engines. host_loading,
    host_checkpoint: while ranks read the model and while they write a checkpoint. host_arriving: where GPUs have no
    room for new weights. shared_memory: where weights travel through it.
    """

    trainer: int
    engine_weights: int
    kv_cache: int
    kv_tokens: int
    kv_sequences: int
    arriving: int
    host_parts: int
    host_loading: int
    host_checkpoint: int
    host_arriving: int
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


def need(recipe: Recipe, shape: Shape, gpu_bytes: float, traced: int | None = None) -> Need:
    """What the recipe takes on GPUs of this size. traced: bytes of a trainer rank, in place of the estimate."""
    resources = recipe.resources
    dtype, devices = BYTES[recipe.precision.generator], max(1, resources.gpus_per_generator)
    trainer = trainer_bytes(recipe, shape) if traced is None else traced
    whole = shape.parameters * dtype
    weights = whole // devices
    if recipe.kv_cache_bytes is not None:
        cache = recipe.kv_cache_bytes
    else:
        cache = max(0, int(recipe.engine.gpu_memory_utilization * gpu_bytes - weights - ENGINE_SPARE))
    tokens = cache // kv_token_bytes(recipe, shape)
    ranks = resources.num_trainers
    there = min(ranks, GPUS_A_NODE)
    shares = there / resources.ranks_of_a_copy  # of all weights, in a machine
    arriving = whole if recipe.broadcasts_weights else 0
    has_room = gpu_bytes - weights - ENGINE_SPARE - cache > arriving + ARRIVING_SPARE
    unit = 4 * max(shape.layer_parameters, shape.embedding)
    trained = shape.trained(recipe.trainer.lora_rank)
    offloaded = MOMENTS_BYTES * trained if recipe.optimizer.offload_moments else 0
    return Need(
        trainer=trainer,
        engine_weights=weights,
        kv_cache=cache,
        kv_tokens=tokens,
        kv_sequences=tokens // recipe.rollout.max_sequence_tokens,
        arriving=arriving,
        host_parts=_host_parts(recipe, trainer, weights + cache * (recipe.engine.type == "vllm")),
        host_loading=int(LOADING_UNITS * unit) * there + int(offloaded * shares),
        host_checkpoint=int((12 * trained + offloaded) * shares),
        host_arriving=0 if has_room else arriving * min(resources.generator_gpus, GPUS_A_NODE),
        shared_memory=0 if recipe.broadcasts_weights else 2 * whole,
    )


def _host_parts(recipe: Recipe, trainer: int, engine: int) -> int:
    """Bytes of the ranks and engines that have no GPUs; an engine of transformers has no cache of a given size."""
    resources = recipe.resources
    ranks = 0 if resources.trainer_gpus else resources.num_trainers
    return ranks * trainer + (0 if resources.generator_gpus else resources.num_generators * engine)


def kv_token_bytes(recipe: Recipe, shape: Shape) -> int:
    """Of one token's keys and values on each of an engine's GPUs, of which each has one head of keys or more."""
    heads = -(-shape.key_heads // max(1, recipe.resources.gpus_per_generator))
    return 2 * shape.layers * heads * (shape.keys // shape.key_heads) * BYTES[recipe.precision.generator]


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
    recomputed = max(0, shape.layers - recipe.trainer.kept_layers) * recipe.trainer.activation_checkpointing
    inputs = recomputed * tokens * low * shape.hidden
    inputs += (shape.layers - recomputed) * low * (tokens * width + is_alone * shape.layer_parameters)
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
    groups = resources.num_trainers // resources.ranks_of_a_row
    rows = -(
        -recipe.rollout.prompts_per_step * recipe.rollout.generations_per_prompt // groups
    )  # of a whole batch
    return length * max(1, min(most // length, rows))


def _state_bytes(recipe: Recipe, shape: Shape) -> int:
    """What a rank holds of weights, gradients and moments. Embeddings and head are not divided by columns."""
    ranks, tensor = recipe.resources.ranks_of_a_copy, recipe.resources.trainer_tensor_parallel
    trained = shape.trained(recipe.trainer.lora_rank)
    adam = ADAM_BYTES - MOMENTS_BYTES * recipe.optimizer.offload_moments
    copies = int(recipe.trainer.lora_rank is not None) + int(recipe.loss.kl_coef > 0)
    states = adam * trained + 4 * copies * shape.parameters
    if recipe.uses_critic and recipe.critic.trunk == "separate":
        states += adam * shape.parameters
    ends = shape.embedding * (1 if shape.is_tied else 2)
    each = adam * int(recipe.trainer.lora_rank is None) + 4 * copies
    return (states + (tensor - 1) * ends * each) // ranks


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB"
