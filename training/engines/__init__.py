"""Generator engines. Both satisfy `training.rollouts.Generator` and are built by `make_engine`."""

from pathlib import Path
from typing import Any


def make_engine(recipe: dict[str, Any], model_folder: str, threads: int = 1) -> Any:
    """The engine that the recipe names. Imports torch and, for vllm, vLLM: call it in the generator's process.

    Raises EngineMissing where that one is not installed, ValueError for `auto`, which the driver has to settle.
    """
    from training.engine_choice import refuse_missing
    from training.recipe import parse_recipe

    parsed = parse_recipe(recipe)
    if parsed.engine.type == "auto":
        raise ValueError("engine.type is still auto; training.engine_choice.settle says which engine that is")
    refuse_missing(parsed.engine.type)
    if parsed.engine.type == "vllm":
        from training.engines.vllm_engine import VllmEngine

        return VllmEngine(parsed, Path(model_folder), threads)
    from training.engines.transformers_engine import TransformersEngine

    return TransformersEngine(parsed, Path(model_folder), threads)
