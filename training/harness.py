"""Tasks of lm-evaluation-harness (`lm_eval/NAME`): it brings prompts, answers and metrics, and drives the engine that
the recipe names by itself. An extra of the installation: `headroom[lm-eval]`."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.benchmarks import PREFIX, check_options
from training.errors import first_line
from training.schema import Recipe
from training.tasks import Prompt, TaskError

OWN_TASKS = "lm_eval"  # folder of HEADROOM_HOME/data with YAML tasks of one's own


def measure(
    task: str, options: Mapping[str, Any], recipe: Recipe, folder: Path, home: Path, limit: int | None
) -> tuple[dict[str, Any], list[Prompt]]:
    """(figures of a task, its problems' texts). `pass_rate` is the task's first metric, which `metric` names, by its
    first filter; `metrics` are all. folder: of the model. options: some of OPTIONS. Raises
    TaskError for another one, and where the harness, the task or its data are not there.
    """
    check_options(options)
    if importlib.util.find_spec("lm_eval") is None:
        raise TaskError(f"{task} needs lm-evaluation-harness; install headroom[lm-eval]")
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    name, own = task.removeprefix(PREFIX), home / "data" / OWN_TASKS
    manager = TaskManager(include_path=str(own) if own.is_dir() else None)
    if name not in manager.all_tasks:
        raise TaskError(f"lm-evaluation-harness has no task named {name!r}, and {own} has no YAML file of it")
    gen_kwargs = {"max_gen_toks": recipe.rollout.max_response_tokens}  # its own 256 would cut reasoning
    given = {"apply_chat_template": recipe.rollout.chat_template, "gen_kwargs": gen_kwargs, **options}
    try:
        found: Any = simple_evaluate(
            **_model(recipe, folder), tasks=[name], limit=limit, task_manager=manager, **given
        )
    except ImportError as error:  # of the engine's package, or one that a task asks for
        raise TaskError(f"{task}: {first_line(error)}") from error
    except Exception as error:  # data sets that are not there are reported as one of many types
        raise TaskError(
            f"{task}: {first_line(error)}; offline, its data must be in the cache of HF_HOME"
        ) from error
    # Of each problem all that its row says in words, column by column, without the examples before it.
    problems = [
        Prompt(f"{of}/{each['doc_id']}", text, "", part=f"{of}/{column}")
        for of, of_task in found["samples"].items()
        for each in of_task
        for column, text in each["doc"].items()
        if isinstance(text, str) and text.strip()
    ]
    return _figures(name, found), problems


def _model(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The harness's own classes for both engines, as our engines hold the model."""
    precision, resources = recipe.precision, recipe.resources
    common = {"pretrained": str(folder), "dtype": precision.generator}
    if recipe.engine.type == "transformers":
        device = "cuda" if resources.generator_gpus else "cpu"
        return {"model": "hf", "model_args": common, "device": device, "batch_size": 64}
    engine = {
        "tensor_parallel_size": resources.gpus_per_generator or 1,
        "max_model_len": recipe.rollout.max_sequence_tokens,
        "gpu_memory_utilization": recipe.engine.gpu_memory_utilization,
        "hf_overrides": {"head_dtype": precision.head_generator},
    }
    return {"model": "vllm", "model_args": common | engine, "batch_size": "auto"}


def _figures(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    of_all: Mapping[str, Any] = found["results"].get(name) or found["groups"][name]
    metrics = {key: value for key, value in of_all.items() if "," in key and isinstance(value, int | float)}
    main = next(key for key in metrics if "_stderr," not in key)
    metric, _, how = main.partition(",")
    return {
        "metric": metric,
        "pass_rate": metrics[main],
        "pass_rate_stderr": metrics.get(f"{metric}_stderr,{how}"),
        "n_prompts": sum(count["effective"] for count in found["n-samples"].values()),
        "k": 1,
        "truncation_rate": None,
        "metrics": metrics,
        "lm_eval": found["lm_eval_version"],
        "version": found["versions"].get(name),
    }
