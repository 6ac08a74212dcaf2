"""Generator engines. Both satisfy `training.rollouts.Generator` and are built by `make_engine`."""

from pathlib import Path
from typing import Any


def make_engine(recipe: dict[str, Any], model_folder: str, threads: int = 1) -> Any:
    """The engine that the recipe names. Imports torch and, for vllm, vLLM: call it in the generator's process."""
    from training.recipe import parse_recipe

    parsed = parse_recipe(recipe)
    if parsed.engine.type == "vllm":
        from training.engines.vllm_engine import VllmEngine

        return VllmEngine(parsed, Path(model_folder), threads)
    from training.engines.transformers_engine import TransformersEngine

    return TransformersEngine(parsed, Path(model_folder), threads)
