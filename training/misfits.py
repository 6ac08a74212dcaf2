"""What of a recipe does not fit its model and its GPUs, and the change that would. No torch.

It is refused before a run is queued, with the field, the numbers and the change.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

from training.memory import ENGINE_SPARE, GIB, Shape, gib, kv_token_bytes, need, occupied, trainer_bytes
from training.schema import Recipe

MIB = 1 << 20
MOST_GPUS = 1024  # that are proposed
# With which a trainer's layers take the least memory.
LEAN = {"activation_checkpointing": True, "kept_layers": 0}


@dataclass(frozen=True)
class Misfit:
    """`field` of the recipe; `reason`: a sentence with the numbers; `change`: what would fit, dotted names -> values,
    empty where nothing is known; `then`: what would come of it, or instead of a change what else would fit."""

    field: str
    reason: str
    then: str
    change: dict[str, Any]

    @property
    def sentence(self) -> str:
        """Reason and change."""
        words = ", ".join(f"{name} {json.dumps(value)}" for name, value in self.change.items())
        return f"{self.reason}; {words} {self.then}" if words else f"{self.reason}; {self.then}"


def misfits(
    recipe: Recipe, shape: Shape, traced: int | None = None, machine: int | None = None
) -> list[Misfit]:
    """All of it, in the order in which it is to be mended. What a layout that does not divide the model would take is
    not asked.

    traced: bytes of a trainer rank, in place of the estimate. machine: of the memory of the one that will train; None
    where it is not known.
    """
    undivided = list(layout_misfits(recipe, shape))
    fitting = (
        _engine(recipe, shape),
        _trainer(recipe, shape, traced),
        _machine(recipe, shape, traced, machine),
    )
    return undivided or [misfit for part in fitting for misfit in part]


# -- layouts ---------------------------------------------------------------------------------------------------------


def layout_misfits(recipe: Recipe, shape: Shape) -> Iterator[Misfit]:
    """Where ranks, or the GPUs of an engine, cannot divide the model as asked."""
    resources = recipe.resources
    together = resources.ranks_of_a_row
    if shape.key_heads % together or shape.heads % together:
        name = "tensor" if resources.trainer_context_parallel == 1 else "context"
        yield Misfit(
            f"resources.trainer_{name}_parallel",
            f"trainer_tensor_parallel times trainer_context_parallel is {together}, and these ranks divide the heads: "
            f"the model has {shape.heads} of queries and {shape.key_heads} of keys",
            "would do",
            _fewer_of_a_row(recipe, shape),
        )
    yield from _experts(recipe, shape)
    devices = resources.gpus_per_generator
    if devices > 1 and not _engine_divides(shape, devices):
        counts = _divisors(resources.generator_gpus, devices)
        fewer = max(count for count in counts if _engine_divides(shape, count))
        yield Misfit(
            "resources.generators",
            f"the {devices} GPUs of an engine divide the heads: the model has {shape.heads} of queries and "
            f"{shape.key_heads} of keys, and layers {shape.width:,} wide",
            "would do",
            {"resources.generators": resources.generator_gpus // fewer},
        )


def _fewer_of_a_row(recipe: Recipe, shape: Shape) -> dict[str, int]:
    resources = recipe.resources
    common = gcd(shape.key_heads, shape.heads, resources.num_trainers)
    tensor = max(_divisors(common, resources.trainer_tensor_parallel))
    context = max(_divisors(common // tensor, resources.trainer_context_parallel))
    names = {"trainer_tensor_parallel": tensor, "trainer_context_parallel": context}
    return {f"resources.{name}": count for name, count in names.items() if count != getattr(resources, name)}


def _experts(recipe: Recipe, shape: Shape) -> Iterator[Misfit]:
    """Their number has to be divided by ranks, which are a multiple of those that divide layers."""
    resources, name = recipe.resources, "resources.trainer_expert_parallel"
    asked, tensor = resources.trainer_expert_parallel, resources.trainer_tensor_parallel
    if asked > 1 and (not shape.experts or shape.experts % asked):
        has = f"has {shape.experts} experts a layer" if shape.experts else "has no experts"
        reason = f"the model {has}, which {asked} ranks cannot divide"
    elif tensor > 1 and shape.experts and asked == 1:
        reason = (
            f"a mixture of experts with trainer_tensor_parallel {tensor} needs {tensor} or a multiple of it"
        )
    else:
        return
    if not shape.experts:
        yield Misfit(name, reason, "would do", {name: 1})
        return
    common = gcd(shape.experts, resources.num_trainers)
    fitting = [count for count in _divisors(common, max(asked, tensor)) if not count % tensor]
    change = {name: fitting[-1]} if fitting else {"resources.trainer_tensor_parallel": 1, name: 1}
    yield Misfit(name, reason, "would do", change)


def _engine_divides(shape: Shape, devices: int) -> bool:
    """As vLLM does: where there are fewer heads of keys than GPUs, several have the same."""
    few, many = sorted((shape.key_heads, devices))
    return not (shape.heads % devices or shape.width % devices or many % few)


def _divisors(number: int, most: int) -> list[int]:
    return [count for count in range(1, min(number, most) + 1) if not number % count]


# -- memory ----------------------------------------------------------------------------------------------------------


def _engine(recipe: Recipe, shape: Shape) -> Iterator[Misfit]:
    """Its KV cache holds a sequence, and its GPU the cache."""
    resources, length = recipe.resources, recipe.rollout.max_sequence_tokens
    gpu = resources.gpu_gib * GIB
    said, token = need(recipe, shape, gpu), kv_token_bytes(recipe, shape)
    taken = said.engine_weights + ENGINE_SPARE
    least = {"engine.kv_cache_mib": -(-length * token // MIB)}
    holds = f"{said.kv_tokens:,} tokens, less than one sequence of {length:,}"
    if recipe.kv_cache_bytes is None and said.kv_tokens < length:
        yield Misfit(
            "engine.gpu_memory_utilization",
            f"each engine's GPU has {gib(said.kv_cache)} for its KV cache beside {gib(said.engine_weights)} of "
            f"weights: {holds}",
            *_more_gpus_an_engine(recipe, shape),
        )
    elif said.kv_tokens < length:
        reason = f"a KV cache of {said.kv_cache // MIB:,} MiB holds {holds}"
        yield Misfit("engine.kv_cache_mib", reason, "would hold one", least)
    elif recipe.kv_cache_bytes is not None and resources.generator_gpus and taken + said.kv_cache > gpu:
        reason = (
            f"{gib(said.kv_cache)} of KV cache, {gib(said.engine_weights)} of weights and {gib(ENGINE_SPARE)} for the "
            f"rest of an engine are more than a GPU with {resources.gpu_gib:g} GiB (resources.gpu_gib)"
        )
        if (room := int(gpu - taken)) >= length * token:
            yield Misfit("engine.kv_cache_mib", reason, "would fit", {"engine.kv_cache_mib": room // MIB})
        else:
            yield Misfit("engine.kv_cache_mib", reason, *_more_gpus_an_engine(recipe, shape))


def _more_gpus_an_engine(recipe: Recipe, shape: Shape) -> tuple[str, dict[str, Any]]:
    """(what would come of it, the change): GPUs that there are by preference, else more of them."""
    resources, gpu = recipe.resources, recipe.resources.gpu_gib * GIB
    now, gpus = resources.gpus_per_generator, resources.generator_gpus
    most = shape.heads if recipe.engine.type != "transformers" else 1
    counts = [count for count in range(now + 1, most + 1) if _engine_divides(shape, count)]
    best = need(recipe, shape, gpu).kv_tokens
    for count in sorted(counts, key=lambda count: gpus % count > 0):
        engines = max(1, gpus // count)
        changed: dict[str, Any] = {"generators": engines, "generator_gpus": engines * count}
        if resources.shared and engines * count != gpus:
            continue
        tried = recipe.model_copy(update={"resources": resources.model_copy(update=changed)})
        said = need(tried, shape, gpu)
        is_held = said.engine_weights + ENGINE_SPARE + (tried.kv_cache_bytes or 0) <= gpu
        if is_held and said.kv_tokens >= recipe.rollout.max_sequence_tokens:
            names = {name: value for name, value in changed.items() if value != getattr(resources, name)}
            return f"would hold {said.kv_tokens:,}", {f"resources.{name}": v for name, v in names.items()}
        best = max(best, said.kv_tokens)
    return f"no number of GPUs an engine up to {max([now, *counts])} holds it, {best:,} tokens at most", {}


def _trainer(recipe: Recipe, shape: Shape, traced: int | None) -> Iterator[Misfit]:
    resources, gpu = recipe.resources, recipe.resources.gpu_gib * GIB
    said = need(recipe, shape, gpu, traced)
    lent = said.engine_weights + said.kv_cache + ENGINE_SPARE if resources.shared else 0
    if not resources.trainer_gpus or occupied(said.trainer) + lent <= gpu:
        return
    beside = f" beside {gib(lent)} of an engine" if lent else ""
    yield Misfit(
        "resources.trainer_gpus",
        f"a trainer rank needs {gib(occupied(said.trainer))}{beside} of a GPU with {resources.gpu_gib:g} GiB "
        "(resources.gpu_gib)",
        *_leaner(recipe, shape, gpu - lent),
    )


def _machine(recipe: Recipe, shape: Shape, traced: int | None, machine: int | None) -> Iterator[Misfit]:
    """Parts without GPUs, and the weights that travel between them, lie in the memory of the machine that trains."""
    resources, said = recipe.resources, need(recipe, shape, 0, traced)
    taken = said.host_parts + said.shared_memory
    if machine is None or not said.host_parts or taken <= machine:
        return
    field = f"resources.{'generator' if resources.trainer_gpus else 'trainer'}_gpus"
    reason = f"parts without GPUs need {gib(taken)} of this machine's memory, which is {gib(machine)}"
    for change, changed in _in_place(recipe):
        less = need(changed, shape, 0)
        if (taken := less.host_parts + less.shared_memory) <= machine:
            yield Misfit(field, reason, f"would take {gib(taken)}", change)
            return
    yield Misfit(field, reason, "a smaller model would do, or a larger machine", {})


def _leaner(recipe: Recipe, shape: Shape, room: float) -> tuple[str, dict[str, Any]]:
    """(what would come of it, the cheapest change of a trainer that fits)."""
    for change, changed in _changes(recipe):
        wanted = occupied(trainer_bytes(changed, shape))
        if wanted <= room and not any(layout_misfits(changed, shape)):
            return f"would take {gib(wanted)}", change
    if recipe.resources.shared:
        return _smaller_cache(recipe, shape, room)
    return f"no number of GPUs up to {MOST_GPUS:,} makes it fit: {_shorter(recipe, shape, room)}", {}


def _smaller_cache(recipe: Recipe, shape: Shape, room: float) -> tuple[str, dict[str, Any]]:
    """As `_leaner`, on GPUs that an engine shares: its cache gives way."""
    least = recipe.rollout.max_sequence_tokens * kv_token_bytes(recipe, shape)
    for change, changed in _changes(recipe):
        wanted = occupied(trainer_bytes(changed, shape))
        cache = int(room + (recipe.kv_cache_bytes or 0) - wanted)
        if cache >= least:
            return f"would take {gib(wanted)}", change | {"engine.kv_cache_mib": cache // MIB}
    return f"nothing makes it fit beside an engine: {_shorter(recipe, shape, room)}", {}


def _shorter(recipe: Recipe, shape: Shape, room: float) -> str:
    length = recipe.rollout.max_sequence_tokens
    while length := length // 2:
        lean = LEAN | {"micro_batch_tokens": length, "head_chunk_tokens": 1024}
        changed = recipe.model_copy(update={"trainer": recipe.trainer.model_copy(update=lean)})
        if occupied(trainer_bytes(changed, shape, length)) <= room:
            return f"sequences of {length:,} tokens would"
    return "shorter sequences would not either"


def _changes(recipe: Recipe) -> Iterator[tuple[dict[str, Any], Recipe]]:
    """What a person would try, the cheapest first; each keeps those before it, moments on the host apart."""
    made: dict[str, Any] = {}
    leaner = recipe
    for made, leaner in _in_place(recipe):
        yield made, leaner
    optimizer = recipe.optimizer.model_copy(update={"offload_moments": True})
    yield made | {"optimizer.offload_moments": True}, leaner.model_copy(update={"optimizer": optimizer})
    yield from _more_ranks(leaner, made)


def _in_place(recipe: Recipe) -> Iterator[tuple[dict[str, Any], Recipe]]:
    """Of these changes what takes no other memory and no more devices."""
    trainer, length = recipe.trainer, recipe.rollout.max_sequence_tokens
    made: dict[str, Any] = {}
    for name, value in (
        *LEAN.items(),
        ("micro_batch_tokens", min(length, trainer.micro_batch_tokens)),
        ("head_chunk_tokens", min(1024, trainer.head_chunk_tokens)),
    ):
        if getattr(trainer, name) != value:
            trainer = trainer.model_copy(update={name: value})
            made = made | {f"trainer.{name}": value}
            yield made, recipe.model_copy(update={"trainer": trainer})


def _more_ranks(recipe: Recipe, made: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Recipe]]:
    """Sequences divided over the ranks that there are, and more of both."""
    trainer, resources, length = recipe.trainer, recipe.resources, recipe.rollout.max_sequence_tokens
    count, now = resources.num_trainers, resources.trainer_context_parallel
    while count <= MOST_GPUS and not resources.shared:
        more = {"trainer_gpus": count, "trainers": None}
        change = made | ({"resources.trainer_gpus": count} if count != resources.num_trainers else {})
        if change != made:
            yield change, recipe.model_copy(update={"resources": resources.model_copy(update=more)})
        for context in (2 * now, 4 * now):
            if count % (context * resources.trainer_tensor_parallel):
                break
            tokens = -(-length // context)
            divided = {"resources.trainer_context_parallel": context, "trainer.micro_batch_tokens": tokens}
            update: dict[str, Any] = {
                "resources": resources.model_copy(update=more | {"trainer_context_parallel": context}),
                "trainer": trainer.model_copy(update={"micro_batch_tokens": tokens}),
            }
            yield change | divided, recipe.model_copy(update=update)
        count *= 2
