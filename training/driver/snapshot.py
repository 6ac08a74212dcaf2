"""The driver's own state in a checkpoint: what has been counted, which prompts come, which groups are on their way.

What one attempt of a run is made of: the driver's parts take from it what they need.
"""

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from training.checkpoint_sync import Uploads
from training.checkpoints import DRIVER, FREE_SECTIONS, Checkpoint, CheckpointError, damaged, what_is_trained
from training.codec import Codec
from training.driver.curriculum import PromptSampler
from training.driver.publisher import TrainerHandle
from training.driver.samples import SampleKeeper
from training.driver.staleness import BufferState, Ticket, WorkBuffer
from training.driver.stepmetrics import ComputeMeter, StepMetrics, Usage
from training.flops import ModelShape
from training.reporting import Reporter
from training.rollouts import Draft, Generator, Group, Rollouts, Sample
from training.schema import Recipe
from training.tasks import Prompt, Task
from training.verifiers.service import Verification
from training.waiting import Switchboard, Timeouts

SAMPLES = "samples.npz"
_SCALARS = ("finished", "interrupted", "reward", "correct", "failure")


@dataclass(frozen=True)
class Work:
    """A group on its way. `round` counts the prompts that were replaced by this one (dynamic sampling)."""

    ticket: Ticket
    draft: Draft
    round: int = 0

    def frozen(self) -> "Work":
        """As it is now."""
        return replace(
            self, draft=replace(self.draft, samples=[copy(sample) for sample in self.draft.samples])
        )


@dataclass(frozen=True)
class RunState:
    """All of the driver's own that a resume needs."""

    usage: Usage
    sampler: dict[str, Any]
    buffer: BufferState[Group]
    works: Sequence[Work] = ()  # one for each running ticket
    pass_rate: float | None = None
    evaluated_step: int = -1
    benchmarked: Mapping[str, int] = field(
        default_factory=dict
    )  # benchmark -> step that it was last taken at
    num_refills: int = 0

    def frozen(self) -> "RunState":
        """As it is now: samples on their way grow, and are copied (their tokens are not, they are never changed)."""
        return replace(self, works=[work.frozen() for work in self.works])


def to_files(state: RunState, recipe: Recipe, model: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """Name -> content. Log-probabilities are kept in float32, as the trainer takes them. model: its identity."""
    finished = [(ticket, group.prompt, group.samples) for ticket, group in state.buffer.finished]
    running = [(work.ticket, work.draft.prompt, work.draft.samples) for work in state.works]
    groups = [_described(*group) for group in [*finished, *running]]
    for entry, work in zip(groups[len(finished) :], state.works, strict=True):
        entry |= {"round": work.round, "thinking_share": work.draft.thinking_share, "key": work.draft.key}
    driver = {
        "step": state.buffer.trainer_version,
        "recipe": what_is_trained(recipe),
        "free": recipe.model_dump(mode="json", include=set(FREE_SECTIONS)),
        "model": dict(model or {}),
        "usage": asdict(state.usage),
        "sampler": state.sampler,
        "pass_rate": state.pass_rate,
        "evaluated_step": state.evaluated_step,
        "benchmarked": dict(state.benchmarked),
        "num_refills": state.num_refills,
        "generator_version": state.buffer.generator_version,
        "num_finished": len(finished),
        "groups": groups,
    }
    arrays = _arrays([samples for _, _, samples in [*finished, *running]])
    return {DRIVER: json.dumps(driver).encode(), SAMPLES: arrays}


def from_checkpoint(checkpoint: Checkpoint, prompt: Callable[[str], Prompt]) -> RunState:
    """What `to_files` was given. Raises CheckpointError naming the damaged file, or a prompt that is gone."""
    driver = checkpoint.driver
    try:
        samples = _Reader(np.load(checkpoint.folder / SAMPLES, allow_pickle=False))
        groups = [_Entry(entry, samples) for entry in driver["groups"]]
    except Exception as error:  # a damaged archive is reported as one of many types
        raise damaged(checkpoint.folder / SAMPLES, error) from error
    try:
        finished, running = groups[: driver["num_finished"]], groups[driver["num_finished"] :]
        return RunState(
            usage=Usage(**driver["usage"]),
            sampler=driver["sampler"],
            buffer=BufferState(
                trainer_version=driver["step"],
                generator_version=driver["generator_version"],
                finished=[(entry.ticket, Group(entry.prompt(prompt), entry.samples)) for entry in finished],
                running=[entry.ticket for entry in running],
            ),
            works=[entry.work(prompt) for entry in running],
            pass_rate=driver["pass_rate"],
            evaluated_step=driver["evaluated_step"],
            benchmarked=driver.get("benchmarked", {}),
            num_refills=driver["num_refills"],
        )
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(checkpoint.folder / DRIVER, error) from error


def _described(ticket: Ticket, prompt: Prompt, samples: Sequence[Sample]) -> dict[str, Any]:
    """A group without its tokens."""
    return {
        **asdict(ticket),
        "prompt": prompt.id,
        "prompt_tokens": len(samples[0].prompt),
        "samples": [
            {"tokens": len(sample.response), "reason": sample.reason}
            | {name: getattr(sample, name) for name in _SCALARS}
            for sample in samples
        ],
    }


def _arrays(groups: Iterable[Sequence[Sample]]) -> bytes:
    """All tokens one after the other: prompts, a group's once; then responses with what belongs to each token."""
    groups = list(groups)
    samples = [sample for group in groups for sample in group]
    file = io.BytesIO()
    np.savez_compressed(
        file,
        prompts=_joined((group[0].prompt for group in groups), np.int32),
        responses=_joined((sample.response for sample in samples), np.int32),
        logp=_joined((sample.logp for sample in samples), np.float32),
        chosen=_joined((sample.chosen for sample in samples), np.bool_),
        versions=_joined((sample.versions for sample in samples), np.int32),
    )
    return file.getvalue()


def _joined(parts: Iterable[Sequence[Any]], dtype: type) -> np.ndarray:
    return np.array([value for part in parts for value in part], dtype)


class _Reader:
    """Cuts the arrays up again, in the order in which they were joined."""

    def __init__(self, archive: Any) -> None:
        self._values = {name: archive[name].tolist() for name in archive.files}
        self._at = dict.fromkeys(self._values, 0)

    def next(self, name: str, count: int) -> list[Any]:
        """The next values of an array; ValueError where there are fewer."""
        start = self._at[name]
        self._at[name] += count
        part = self._values[name][start : start + count]
        if len(part) != count:
            raise ValueError(f"{name} ends early")
        return part


class _Entry:
    """One group of the checkpoint."""

    def __init__(self, entry: dict[str, Any], reader: _Reader) -> None:
        self._entry = entry
        self.ticket = Ticket(entry["number"], entry["version"])
        tokens = reader.next("prompts", entry["prompt_tokens"])
        self.samples = [self._sample(about, tokens, reader) for about in entry["samples"]]

    def _sample(self, about: dict[str, Any], prompt: list[int], reader: _Reader) -> Sample:
        count = about["tokens"]
        return Sample(
            prompt,
            response=reader.next("responses", count),
            logp=reader.next("logp", count),
            chosen=reader.next("chosen", count),
            versions=reader.next("versions", count),
            reason=about.get("reason", ""),  # older checkpoints do not say
            **{name: about[name] for name in _SCALARS},
        )

    def prompt(self, find: Callable[[str], Prompt]) -> Prompt:
        """The task's prompt. CheckpointError where it has none with this id."""
        try:
            return find(self._entry["prompt"])
        except KeyError:
            raise CheckpointError(
                f"the task has no prompt {self._entry['prompt']!r}, which the checkpoint was working on"
            ) from None

    def work(self, find: Callable[[str], Prompt]) -> Work:
        """A group to go on with."""
        entry = self._entry
        draft = Draft(self.prompt(find), self.samples, entry["key"], entry["thinking_share"])
        return Work(self.ticket, draft, entry["round"])


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """`generator` and `trainer` may be here or behind Ray actors."""

    recipe: Recipe
    task: Task
    codec: Codec
    generator: Generator
    trainer: TrainerHandle
    reporter: Reporter
    run_dir: Path
    shape: ModelShape
    home: Path | None = None  # where benchmarks' data are; None: HEADROOM_HOME
    resume: Checkpoint | None = None
    model: Mapping[str, Any] | None = None  # what checkpoints note of it (`model_identity`)
    switch: Switchboard = field(default_factory=Switchboard)
    verification: Verification = field(default_factory=Verification)
    uploads: Uploads | None = None  # what copies checkpoints to a store
    timeouts: Timeouts = Timeouts()
    num_lost_engines: Callable[[], int] = lambda: 0  # that have died until now, and were replaced

    def rollouts(self, task: Task | None = None) -> Rollouts:
        """Of the run's task, or of another."""
        task = task or self.task
        return Rollouts(self.recipe, task, self.codec, self.generator, self.verification, self.timeouts)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the loops of an attempt share. first: metrics for the first record."""

    sampler: PromptSampler
    buffer: WorkBuffer[Group]
    meter: ComputeMeter
    step_metrics: StepMetrics
    samples: SampleKeeper
    reporter: Reporter
    first: dict[str, float]

    @property
    def step(self) -> int:
        """Updates made."""
        return self.buffer.trainer_version

    def log(self, metrics: dict[str, float]) -> None:
        """Of this step, with the compute used until now. What is not finite is left out: one answer has no error."""
        known = {name: value for name, value in (metrics | self.first).items() if math.isfinite(value)}
        self.first.clear()
        self.reporter.log(known, step=self.step, compute=asdict(self.meter.usage()))
