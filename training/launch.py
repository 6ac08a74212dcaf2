"""One run from its recipe to its exit status: what `python -m training run` does."""

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from observability import tracing
from training import models
from training.checkpoint_sync import KeptCheckpoints
from training.checkpoints import Checkpoint, newest_checkpoint
from training.cluster import cluster, machines
from training.cluster.rewards import RewardWorkers
from training.codec import Codec
from training.digests import model_identity
from training.driver.controller import Controller, Outcome
from training.driver.snapshot import Attempt
from training.engine_choice import EngineChoice, EngineMissing, settle
from training.errors import is_infrastructure, telling_line
from training.flops import ModelShape
from training.model_hub import fetch_model
from training.recipe import Recipe, RecipeError, blame_field, check_runnable, content_hash
from training.reporting import JOURNAL, Reporter, open_reporter
from training.tasks import Task
from training.usable import check_verifiers, demanding_verifiers
from training.verifiers.service import Verification
from training.waiting import Interrupted, Stopped, Switchboard
from training.whole_files import replace_file

log = logging.getLogger("training")

DOWNLOAD_TIMEOUT_SECONDS = 6 * 3600.0
EXPORT_TIMEOUT_SECONDS = 3600.0
SERVER_TIMEOUT_SECONDS = 3600.0
STORE_TIMEOUT_SECONDS = 3600.0
FAILED_STORE_TIMEOUT_SECONDS = 60.0  # the next attempt waits for this one's end


def run(recipe: Recipe, run_dir: Path, *, resume: bool) -> Outcome:
    """Train to the budget, or to SIGTERM or SIGINT. Any error is raised after the server has been told."""
    run_dir.mkdir(parents=True, exist_ok=True)
    home = _home(run_dir)
    task = check_runnable(recipe, home, patience=DOWNLOAD_TIMEOUT_SECONDS)
    kept = KeptCheckpoints(run_dir, recipe.checkpoint.keep, resumes=resume)
    checkpoint = _checkpoint_of(kept, recipe, run_dir, resume=resume)
    model_folder = _model_folder(recipe, home)
    identity = _identity_of(model_folder, checkpoint)
    with blame_field("model", models.ModelError):
        codec = Codec(model_folder, chat_template=recipe.rollout.chat_template)
    with blame_field("engine.type", EngineMissing):
        asked, (recipe, engine) = recipe, settle(recipe, model_folder, run_dir, resume=resume)
    step = checkpoint.step if checkpoint else None
    device = f"{_device_words(recipe)}, {engine}"
    log.info("%s", engine)
    uploads = kept.begin(checkpoint)
    began = time.monotonic()

    @cache
    def reporter() -> Reporter:
        """Says that the run has started, at its first use: when it has its devices, or has ended without them."""
        return open_reporter(run_dir, resume=resume, resumed_from_step=step, device=device)

    def conclude(outcome: Outcome) -> None:
        try:
            _write_summary(asked, engine, run_dir, outcome, time.monotonic() - began)
        except OSError as error:  # the run has ended as it has, and its checkpoint is there
            log.warning("%s cannot be written: %s", run_dir / "summary.json", error)
        reporter().finish(outcome.state, outcome.reason)

    patience = STORE_TIMEOUT_SECONDS
    try:
        check_verifiers(task, recipe)
        prepared = partial(
            Attempt,
            recipe=recipe,
            task=task,
            codec=codec,
            run_dir=run_dir,
            home=home,
            shape=ModelShape.of(model_folder),
            resume=checkpoint,
            model=identity,
            uploads=uploads,
        )
        outcome = asyncio.run(_run(prepared, recipe, task, run_dir, model_folder, reporter, conclude))
    except Stopped:
        outcome = _stopped_at(checkpoint)
        conclude(outcome)
    except BaseException as error:
        patience = FAILED_STORE_TIMEOUT_SECONDS
        failed = {"infrastructure": True} if is_infrastructure(error) else {}
        reporter().finish("failed", telling_line(error), **failed)
        raise
    finally:
        asyncio.run(cluster.disconnect())
        kept.end(patience)
        wait_for_server(reporter())
    return outcome


def _checkpoint_of(
    kept: KeptCheckpoints, recipe: Recipe, run_dir: Path, *, resume: bool
) -> Checkpoint | None:
    """That a resume goes on from, where there is one. Raises RecipeError where something else would be lost."""
    checkpoint = kept.to_resume() if resume else None
    if checkpoint:
        checkpoint.refuse_unless_of(recipe)
    journal = run_dir / JOURNAL
    if not resume and journal.exists() and journal.stat().st_size:
        raise RecipeError("", f"{run_dir} holds a run already; use --resume, or another --run-dir")
    return checkpoint


def _identity_of(model_folder: Path, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Of the model that the run begins from. Raises CheckpointError where the checkpoint was made with another."""
    identity = model_identity(model_folder)
    if checkpoint:
        checkpoint.refuse_unless_made_with(identity)
    return identity


def _stopped_at(checkpoint: Checkpoint | None) -> Outcome:
    """Before engines and trainers were there."""
    step = checkpoint.step if checkpoint else 0
    return Outcome("cancelled", "stopped before training", step, Controller.usage_of(checkpoint), None)


def wait_for_server(reporter: Reporter) -> None:
    """Devices are free by now; what the server does not have yet may be the run's last evaluation."""
    if reporter.finish(timeout=0).sent:
        return
    log.warning("waiting for the server, which does not have all records yet, for at most an hour")
    if not reporter.finish(timeout=SERVER_TIMEOUT_SECONDS).sent:
        log.warning("given up; the journal keeps them, and a resume sends them")


async def _run(
    prepared: Callable[..., Attempt],
    recipe: Recipe,
    task: Task,
    run_dir: Path,
    model_folder: Path,
    reporter: Callable[[], Reporter],
    conclude: Callable[[Outcome], None],
) -> Outcome:
    """Everything that needs the event loop. `prepared` makes the attempt of its actors; `reporter` is opened when they
    are there; `conclude` comes before their slow goodbye. Raises Stopped before training."""
    switch = Switchboard()
    loop = asyncio.get_running_loop()
    address = cluster.connect(recipe.resources, _weights_bytes(recipe, model_folder))
    heed_signals(switch)  # after ray.init, which has handlers of its own
    rewards = None
    if recipe.resources.reward_workers is not None:
        rewards = RewardWorkers(recipe.resources, demanding_verifiers(task, recipe))
    actors = cluster.Cluster(recipe, model_folder, switch, address=address, rewards=rewards)
    try:
        with tracing.span("start engines and trainers"):
            generator, trainer = await actors.start()
        _write_driver_file(run_dir, address, actors, model_folder)
        actors.has_replaced = partial(_write_driver_file, run_dir, address, actors, model_folder)
        attempt = prepared(
            generator=generator,
            trainer=trainer,
            reporter=reporter(),
            switch=switch,
            verification=rewards or Verification(),
            num_lost_engines=lambda: actors.num_lost_engines,
        )
        with machines.watched(lambda: actors.parts, reporter().log_system):
            outcome = await actors.guard(Controller(attempt).run())
        if recipe.checkpoint.save_model and outcome.state == "succeeded":
            await _save_model(recipe, run_dir, model_folder, trainer)
    except BaseException:
        loop.set_exception_handler(_note_late_error)
        await actors.stop(patiently=False)
        raise
    conclude(outcome)
    await actors.stop(patiently=outcome.state == "succeeded")
    return outcome


def heed_signals(switch: Switchboard) -> None:
    """SIGTERM or Ctrl-C: the run finishes its step, writes a checkpoint and ends. Ctrl-C once more: it fails at once.

    A second SIGTERM changes nothing: a server may ask for one stop twice.
    """

    def interrupt() -> None:
        if switch.is_stopping:
            switch.fail(Interrupted("ended at once at a second Ctrl-C, without a checkpoint"))
        else:
            log.info("stopping with a checkpoint; Ctrl-C once more ends at once, without one")
            switch.stop()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, switch.stop)
    loop.add_signal_handler(signal.SIGINT, interrupt)


def _note_late_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What work that nobody waits for any more says of the same end; the run has its reason."""
    log.debug("after the error: %s", context.get("exception") or context["message"])


async def _save_model(
    recipe: Recipe, run_dir: Path, model_folder: Path, trainer: cluster.RemoteTrainer
) -> None:
    """RUN_DIR/model, from the last checkpoint. The run has ended well: what fails here is told, and can be repeated."""
    checkpoint = newest_checkpoint(run_dir / "checkpoints")
    if checkpoint is None:  # no step was made
        return
    out = run_dir / "model"
    try:
        written = trainer.export(
            checkpoint.trainer_path, str(model_folder), str(out), recipe.precision.generator
        )
        async with asyncio.timeout(EXPORT_TIMEOUT_SECONDS):
            await written
    except Exception as error:
        log.warning(
            "the model of step %d was not saved to %s: %s; `python -m training export --run-dir %s --out FOLDER` "
            "makes it of the checkpoint",
            *(checkpoint.step, out, telling_line(error), run_dir),
        )


def _model_folder(recipe: Recipe, home: Path) -> Path:
    """Where it was not here, after a download or its lessons, and a check. Raises RecipeError."""
    if not (models.is_to_be_downloaded(recipe.model, home) or models.is_to_be_made(recipe.model, home)):
        return models.find_model(recipe.model, home)
    with blame_field("model", models.ModelError):
        folder = fetch_model(recipe.model, home)
    check_runnable(recipe, home)
    return folder


def _weights_bytes(recipe: Recipe, model_folder: Path) -> int:
    """Of one version as it travels to the generator."""
    size = 4 if recipe.precision.generator == "float32" else 2
    return size * (models.parameter_count(model_folder) or 0)


def _home(run_dir: Path) -> Path:
    """HEADROOM_HOME; without it, the home that `run_dir` (HOME/runs/ID) lies in, else the default."""
    runs = run_dir.resolve().parent
    is_in_a_home = runs.name == "runs" and (runs.parent / "models").is_dir()
    return runs.parent if is_in_a_home and not os.environ.get("HEADROOM_HOME") else models.default_home()


def _device_words(recipe: Recipe) -> str:
    resources = recipe.resources
    kind = "GPU" if resources.generator_gpus + resources.trainer_gpus else "CPU core"
    return f"{resources.devices} {kind}{'s' if resources.devices > 1 else ''}"


def _write_driver_file(run_dir: Path, address: str, actors: cluster.Cluster, model_folder: Path) -> None:
    """Who works for this run, and from which model: for people, for whoever cleans up, and for an export."""
    content = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "ray": address,
        "processes": actors.processes,
        "model": str(model_folder),
    }
    (run_dir / "driver.json").write_text(json.dumps(content) + "\n")


def _write_summary(
    recipe: Recipe, engine: EngineChoice, run_dir: Path, outcome: Outcome, wall_seconds: float
) -> None:
    content: dict[str, Any] = {
        "recipe": recipe.name,
        "content_hash": content_hash(recipe),
        "seed": recipe.seed,
        "engine": asdict(engine),
        "state": outcome.state,
        "reason": outcome.reason,
        "step": outcome.step,
        "pass_rate": outcome.pass_rate,
        "compute": asdict(outcome.usage),
        "wall_seconds": round(wall_seconds, 3),
    }
    replace_file(run_dir / "summary.json", json.dumps(content, indent=1) + "\n")
