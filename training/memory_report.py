"""What `python -m training memory` says of a recipe: per GPU, per host, and whether it fits."""

from dataclasses import asdict, dataclass
from typing import Any

from training import memory
from training.memory import CONTEXT, GAPS, GIB, Need, Shape, gib, occupied
from training.recipe import blame_field
from training.schema import Recipe


@dataclass(frozen=True)
class Report:
    """`traced`: bytes of a trainer rank by following its passes; None where only the estimate was asked for."""

    recipe: Recipe
    shape: Shape
    need: Need
    traced: int | None
    problem: tuple[str, str] | None

    @property
    def occupied(self) -> float:
        """Bytes of a GPU that a trainer rank takes, by the trace where there is one."""
        return occupied(self.need.trainer if self.traced is None else self.traced)

    def as_json(self) -> dict[str, Any]:
        """Bytes and counts."""
        field, reason = self.problem or (None, None)
        return {
            "recipe": self.recipe.name,
            "model": self.recipe.model,
            "parameters": self.shape.parameters,
            "gpu_bytes": int(self.recipe.resources.gpu_gib * GIB),
            "trainer_ranks": self.recipe.resources.num_trainers,
            "trainer_traced_bytes": self.traced,
            "trainer_occupied_bytes": int(self.occupied),
            **asdict(self.need),
            "fits": self.problem is None,
            "field": field,
            "reason": reason,
        }

    def as_text(self) -> str:
        """Lines for people."""
        need, resources, length = self.need, self.recipe.resources, self.recipe.rollout.max_sequence_tokens
        traced = "not traced" if self.traced is None else f"{gib(self.traced)} traced"
        lines = [
            f"{self.recipe.name}, {self.shape.parameters / 1e9:.2f} billion parameters ({self.recipe.model}), "
            f"sequences of {length:,} tokens, GPUs of {resources.gpu_gib:g} GiB",
            f"trainer, each of {resources.num_trainers} ranks   {traced}, {gib(need.trainer)} by arithmetic; of a GPU "
            f"{gib(self.occupied)}, with {gib(CONTEXT)} for its context and {GAPS:.0%} for the allocator's gaps",
        ]
        if resources.generator_gpus:
            lines += [
                f"engine, each of {resources.generator_gpus} GPUs   {gib(need.engine_weights)} of weights, "
                f"{gib(need.kv_cache)} of KV cache: {need.kv_tokens:,} tokens, {need.kv_sequences:,} sequences of full "
                f"length (engine.max_sequences {self.recipe.engine.max_sequences})",
                f"new weights           {gib(need.arriving)} an engine's GPU while they travel, in the host's memory "
                "where the GPU has no room",
            ]
        lines += [
            f"hosts, all together   {gib(need.host_loading)} while the ranks read the model, "
            f"{gib(need.host_checkpoint)} while a checkpoint is written",
            f"shared memory         {gib(need.shared_memory)} a host",
            "it fits" if self.problem is None else f"it does not fit: {': '.join(self.problem)}",
        ]
        return "\n".join(lines)


def report(recipe: Recipe, *, is_traced: bool) -> Report:
    """RecipeError (model) where its sizes are not known. The trace takes about a second for each layer."""
    with blame_field("model", memory.ModelError, memory.Unknown):
        file = memory.shape_file(recipe.model)
        shape = Shape.of(file)
    need = memory.need(recipe, shape, recipe.resources.gpu_gib * GIB)
    traced = None
    if is_traced:
        from training.trainer.memory_trace import trace_peak

        traced = trace_peak(recipe, file)
    return Report(
        recipe, shape, need, traced, _too_long(recipe, shape) or memory.problem(recipe, shape, traced)
    )


def _too_long(recipe: Recipe, shape: Shape) -> tuple[str, str] | None:
    """As a launch says it of a model that is there."""
    wanted = recipe.rollout.max_sequence_tokens
    if wanted <= shape.context:
        return None
    return (
        "model",
        f"a context of {shape.context:,} tokens; the recipe needs {wanted:,} (prompt, thinking and answer)",
    )
