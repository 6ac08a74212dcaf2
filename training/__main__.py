"""`python -m training pretrain|run|export|evaluate|memory`: without any server. With HEADROOM_URL set, records of a run
go there too."""

import argparse
import contextlib
import json
import logging
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from observability import context, errors, logs, tracing
from training.errors import EXIT_TEMPORARY, is_infrastructure, telling_line
from training.job_secrets import take_secrets
from training.lessons import LESSONS
from training.log_copy import copy_output
from training.models import BASE_MODEL, MADE, default_home
from training.recipe import RecipeError, apply_overrides, load_recipe

EXIT_SECONDS = 5.0  # for exit handlers
EXIT_DOES_NOT_FIT = 3


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 the budget was reached or a stop was asked for, 1 an error (its reason is the last line),
    75 one of what it ran on: the same with --resume may go through, 3 (of memory) the recipe does not fit."""
    options = _parser().parse_args(arguments)
    is_json = getattr(options, "json", False)  # then it has standard output for itself
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr if is_json else sys.stdout,
    )
    for chatty in ("httpx", "httpcore", "filelock", "aiobotocore", "botocore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        return options.command(options)
    except Exception as error:
        logging.getLogger("training").debug("", exc_info=True)
        print(f"error: {telling_line(error)}", file=sys.stderr, flush=True)
        logs.say_in_lines(telling_line(error))
        if not isinstance(error, RecipeError):
            errors.report(error)
        return EXIT_TEMPORARY if is_infrastructure(error) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="pretrain|run|export|evaluate|memory")

    pretrain = commands.add_parser(
        "pretrain", help="make a tiny base model (that of the default task is made already)"
    )
    pretrain.add_argument(
        "name", nargs="?", default=BASE_MODEL, help=f"one of {', '.join(LESSONS)} (default: {BASE_MODEL})"
    )
    pretrain.add_argument("--out", type=Path, help="folder (default: HEADROOM_HOME/models/NAME)")
    pretrain.add_argument("--steps", type=int, help="fewer steps, for a quick and bad model")
    pretrain.add_argument("--teach", action="store_true", help="teach it even if it is made already")
    pretrain.set_defaults(command=_pretrain)

    run = commands.add_parser("run", help="train a recipe")
    run.add_argument("recipe", help="a YAML file, or the name of a committed recipe, e.g. tiny/scalerl")
    run.add_argument("--run-dir", type=Path, required=True, help="metrics.jsonl, summary.json, checkpoints/")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. optimizer.lr=1e-4")
    run.add_argument("--steps", type=int, help="stop after this many updates (budget.max_steps)")
    run.add_argument("--depth", type=int, help="versions the trainer may be ahead; 0 = synchronous")
    run.add_argument("--engine", choices=["vllm", "transformers", "auto"], help="engine.type")
    run.add_argument("--seed", type=int)
    run.add_argument(
        "--resume", action="store_true", help="go on from the newest checkpoint in the run folder"
    )
    run.set_defaults(command=_run)

    export = commands.add_parser("export", help="write a checkpoint's model in Hugging Face format")
    export.add_argument("--run-dir", type=Path, required=True, help="folder of the run")
    export.add_argument("--step", type=int, help="of the checkpoint (default: the newest)")
    export.add_argument("--out", type=Path, required=True, help="folder that the model will be")
    export.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16", help="of the weights")
    export.add_argument(
        "--base-model", type=Path, help="folder of the model that the run started from, if moved"
    )
    export.set_defaults(command=_export)

    evaluate = commands.add_parser("evaluate", help="measure a checkpoint, or any model, on a benchmark")
    evaluate.add_argument("subject", help="folder of a checkpoint or of a run (its newest), or a model")
    evaluate.add_argument(
        "--task", required=True, help="a benchmark such as gsm8k, or a task's held-out prompts"
    )
    evaluate.add_argument("--k", type=int, default=1, help="responses to each prompt (default: 1)")
    evaluate.add_argument("--limit", type=int, help="the first so many prompts alone")
    evaluate.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of the task")
    evaluate.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of run")
    evaluate.add_argument("--json", action="store_true", help="all figures, as JSON")
    evaluate.set_defaults(command=_evaluate)

    memory = commands.add_parser("memory", help="what a recipe takes of GPUs and hosts; needs neither")
    memory.add_argument("recipe", help="as of run")
    memory.add_argument("--model", help="name, folder or shape (such as dense-8b) in place of the recipe's")
    memory.add_argument("--gpu-gib", type=float, help="memory of one GPU (resources.gpu_gib)")
    memory.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of run")
    memory.add_argument("--estimate", action="store_true", help="by arithmetic alone, at once")
    memory.add_argument("--json", action="store_true", help="GiB, as JSON")
    memory.set_defaults(command=_memory)
    return parser


def _pretrain(options: argparse.Namespace) -> int:
    # Threads that spin while they wait make it take five times as long beside other work; torch's import reads this.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from training.pretrain import lessons_of, pretrain

    lessons = lessons_of(options.name)
    out = options.out or default_home() / "models" / options.name
    if options.steps is not None:
        lessons = replace(lessons, steps=options.steps)
    made = pretrain(out, lessons, made=None if options.teach else MADE / options.name)
    print(f"{'made' if made else 'already complete:'} {out}", flush=True)
    return 0


def _run(options: argparse.Namespace) -> int:
    context.of_process(**context.driver_ids())
    copy_output(options.run_dir)
    errors.hide(os.environ[name] for name in take_secrets())
    errors.install("driver")
    logs.driver_lines(options.run_dir)
    named = {
        "budget.max_steps": options.steps,
        "offpolicy.mode": None if options.depth is None else "pipeline",
        "offpolicy.k": options.depth,
        "engine.type": options.engine,
        "seed": options.seed,
    }
    recipe = apply_overrides(load_recipe(options.recipe), _overrides(options, named))
    from training.launch import run

    with tracing.span("run", parent=os.environ.get(tracing.PARENT_VARIABLE), recipe=recipe.name):
        outcome = run(recipe, options.run_dir, resume=options.resume)
    rate = "" if outcome.pass_rate is None else f", pass rate {outcome.pass_rate:.3f}"
    print(f"{outcome.state}: {outcome.reason}; step {outcome.step}{rate}", flush=True)
    return 0


def _export(options: argparse.Namespace) -> int:
    from training.export import export_run

    export_run(
        options.run_dir, options.out, step=options.step, dtype=options.dtype, base_model=options.base_model
    )
    print(f"made: {options.out}", flush=True)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from training.evaluate import as_text, evaluate, subject_of

    if options.k < 1 or (options.limit or 1) < 1:
        raise RecipeError("", "--k and --limit must be at least 1")
    subject = subject_of(options.subject, dict(map(_parse_setting, options.set)), default_home())
    settings = dict(map(_parse_setting, options.option))
    result = evaluate(subject, options.task, settings, k=options.k, limit=options.limit)
    print(json.dumps(result, indent=2) if options.json else as_text(result), flush=True)
    return 0


def _memory(options: argparse.Namespace) -> int:
    from training.memory_report import report

    overrides = _overrides(options, {"resources.gpu_gib": options.gpu_gib, "model": options.model})
    recipe = apply_overrides(load_recipe(options.recipe), overrides)
    said = report(recipe, is_traced=not options.estimate)
    print(json.dumps(said.as_json(), indent=2) if options.json else said.as_text(), flush=True)
    return EXIT_DOES_NOT_FIT if said.misfits else 0


def _overrides(options: argparse.Namespace, named: dict[str, Any]) -> dict[str, Any]:
    """Of the recipe: those of --set, then those that have an option of their own, where it was given."""
    given = {name: value for name, value in named.items() if value is not None}
    return dict(map(_parse_setting, options.set)) | given


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise RecipeError("", f"--set and --option take KEY=VALUE, not {setting!r}")
    number = yaml.safe_load(value)
    if isinstance(number, str):  # YAML reads 1e-4 as text
        with contextlib.suppress(ValueError):
            number = float(number)
    return key, number


def end_at_the_latest(status: int, seconds: float) -> None:
    """Have this process end with `status` although a library's exit handlers hang (Ray's do, without its head)."""

    def end() -> None:
        time.sleep(seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    threading.Thread(target=end, name="end", daemon=True).start()


if __name__ == "__main__":
    exit_status = main()
    end_at_the_latest(exit_status, EXIT_SECONDS)
    sys.exit(exit_status)
