"""What one attempt of a run is made of: the driver's parts take from it what they need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.checkpoint_sync import Uploads
from training.checkpoints import Checkpoint
from training.codec import Codec
from training.driver.publisher import TrainerHandle
from training.flops import ModelShape
from training.reporting import Reporter
from training.rollouts import Generator, Rollouts
from training.schema import Recipe
from training.tasks import Task
from training.verifiers.service import Verification
from training.waiting import Switchboard, Timeouts


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
