"""What `python -m training memory` says of a recipe: per GPU, per machine, and whether it fits."""

from dataclasses import dataclass
from typing import Any

from training import memory
from training.memory import CONTEXT, GAPS, GIB, GPUS_A_NODE, Need, Shape, gib, occupied, trainer_bytes
from training.misfits import Misfit, layout_misfits, misfits
from training.models import check_trainable
from training.recipe import blame_field, memory_here
from training.schema import Recipe


@dataclass(frozen=True)
class Report:
    """`traced`: bytes of a trainer rank by following its passes; None where only the estimate was asked for."""

    recipe: Recipe
    shape: Shape
    need: Need
    traced: int | None
    misfits: list[Misfit]

    def as_json(self) -> dict[str, Any]:
        """GiB and counts."""
        need, resources = self.need, self.recipe.resources
        return {
            "recipe": self.recipe.name,
            "model": self.recipe.model,
            "parameters": self.shape.parameters,
            "gpu_gib": resources.gpu_gib,
            "fits": not self.misfits,
            "trainer": {
                "ranks": resources.num_trainers,
                "peak_gib": _gib(need.trainer),
                "is_traced": self.traced is not None,
                "occupied_gib": _gib(occupied(need.trainer) if resources.trainer_gpus else need.trainer),
                "host_gib_per_node": _gib(need.host_loading),
                "checkpoint_gib_per_node": _gib(need.host_checkpoint),
            },
            "generator": {
                "engines": resources.num_generators,
                "weights_gib": _gib(need.engine_weights),
                "kv_cache_gib": _gib(need.kv_cache),
                "kv_tokens": need.kv_tokens,
                "full_length_sequences": need.kv_sequences,
                "arriving_weights_gib": _gib(need.arriving),
                "host_gib_per_node": _gib(need.host_arriving),
            },
            "parts_without_gpus_gib": _gib(self.need.host_parts),
            "shared_memory_gib_per_node": _gib(need.shared_memory),
            "problems": [f"{each.field}: {each.sentence}" for each in self.misfits],
            "proposals": [{"set": each.change, "why": each.then} for each in self.misfits if each.change],
        }

    def as_text(self) -> str:
        """Lines for people."""
        need, resources, length = self.need, self.recipe.resources, self.recipe.rollout.max_sequence_tokens
        estimate = trainer_bytes(self.recipe, self.shape)
        traced = "not traced" if self.traced is None else f"{gib(self.traced)} traced"
        lines = [
            f"{self.recipe.name}, {self.shape.parameters / 1e9:.2f} billion parameters ({self.recipe.model}), "
            f"sequences of {length:,} tokens"
            + (
                f", GPUs of {resources.gpu_gib:g} GiB"
                if resources.generator_gpus + resources.trainer_gpus
                else ""
            ),
            f"trainer, each of {resources.num_trainers} ranks   {traced}, {gib(estimate)} by arithmetic"
            + self._on_gpu(),
        ]
        if resources.generator_gpus:
            lines += [
                f"engine, each of {resources.generator_gpus} GPUs   {gib(need.engine_weights)} of weights, "
                f"{gib(need.kv_cache)} of KV cache: {need.kv_tokens:,} tokens, {need.kv_sequences:,} sequences of full "
                f"length (engine.max_sequences {self.recipe.engine.max_sequences})",
                self._new_weights(),
            ]
        if self.need.host_parts:
            lines.append(f"parts without GPUs    {gib(self.need.host_parts)} of their machine's memory")
        lines += [
            f"a machine's memory    {gib(need.host_loading)} while its ranks, up to {GPUS_A_NODE}, read the model, "
            f"{gib(need.host_checkpoint)} while they write a checkpoint; {gib(need.shared_memory)} of shared memory",
            *([f"it does not fit: {each.field}: {each.sentence}" for each in self.misfits] or ["it fits"]),
        ]
        return "\n".join(lines)

    def _on_gpu(self) -> str:
        if not self.recipe.resources.trainer_gpus:
            return ""
        spare = f"with {gib(CONTEXT)} for its context and {GAPS:.0%} for the allocator's gaps"
        return f"; of a GPU {gib(occupied(self.need.trainer))}, {spare}"

    def _new_weights(self) -> str:
        need = self.need
        if not need.arriving:
            return "new weights           travel through shared memory"
        where = "on it"
        if need.host_arriving:
            where = f"{gib(need.host_arriving)} in the memory of its machine, as it has no room for them"
        return f"new weights           {gib(need.arriving)} for each of an engine's GPUs while they travel, {where}"


def report(recipe: Recipe, *, is_traced: bool) -> Report:
    """RecipeError (model) where its sizes are not known, or it cannot be trained. A trace takes a second a layer."""
    with blame_field("model", memory.ModelError, memory.Unknown):
        file = memory.shape_file(recipe.model)
        check_trainable(file)
        shape = Shape.of(file)
    traced = None
    if is_traced and not any(layout_misfits(recipe, shape)):
        from training.trainer.memory_trace import trace_peak

        traced = trace_peak(recipe, file)
    need = memory.need(recipe, shape, recipe.resources.gpu_gib * GIB, traced)
    unfit = misfits(recipe, shape, traced, memory_here())
    return Report(recipe, shape, need, traced, [*_too_long(recipe, shape), *unfit])


def _too_long(recipe: Recipe, shape: Shape) -> list[Misfit]:
    """As a launch says it of a model that is there."""
    wanted = recipe.rollout.max_sequence_tokens
    if wanted <= shape.context:
        return []
    reason = (
        f"a context of {shape.context:,} tokens; the recipe needs {wanted:,} (prompt, thinking and answer)"
    )
    return [Misfit("model", reason, f"sequences of {shape.context:,} would do", {})]


def _gib(size: float) -> float:
    return round(size / GIB, 3)
