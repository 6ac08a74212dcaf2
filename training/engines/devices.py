"""Where an engine runs."""

import torch

from training.schema import Recipe


def device_of(recipe: Recipe) -> str:
    """cuda where the recipe gives the generator GPUs, else cpu. RuntimeError where those GPUs are not there."""
    wanted = recipe.resources.gpus_per_generator
    there = torch.cuda.device_count() if wanted else 0
    if there < wanted:
        raise RuntimeError(
            f"resources.generator_gpus is {recipe.resources.generator_gpus}: an engine needs {wanted} CUDA "
            f"device{'s' if wanted > 1 else ''}, {there} visible"
        )
    return "cuda" if wanted else "cpu"
