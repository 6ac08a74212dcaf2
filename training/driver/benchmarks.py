"""Benchmarks of a run's evaluations (`eval.downstream`), by the generator that trains."""

import logging
from collections.abc import Mapping, Sequence

from training.benchmarks import contamination, make_benchmark
from training.driver.snapshot import Attempt
from training.evaluation import evaluation_metrics, sampled
from training.rollouts import warn_of_failures
from training.tasks import Prompt
from training.usable import check_verifiers, usable_held_out

log = logging.getLogger("training")


class Benchmarks:
    """Takes one at a time. Raises Stopped or WaitTimeout while it waits."""

    def __init__(self, attempt: Attempt, training: Sequence[Prompt]) -> None:
        """Data are read, and compared with the training prompts. TaskError, or ValueError where a prompt cannot be
        used."""
        self._evaluation, self._switch = attempt.recipe.eval, attempt.switch
        self._timeout = attempt.timeouts.evaluation
        self._settings = {each.task: each for each in self._evaluation.downstream}
        self._taken = {
            name: make_benchmark(name, each.options, attempt.home) for name, each in self._settings.items()
        }
        self._rollouts = {name: attempt.rollouts(one.task) for name, one in self._taken.items()}
        self._contamination: dict[str, float] = {}
        for name, one in self._taken.items():
            usable_held_out(one.prompts, self._rollouts[name], f"prompts of the benchmark {name}")
            check_verifiers(one.task, attempt.recipe, one.prompts)
            self._contamination[name] = contamination(one.prompts, training)

    def missing(self, step: int, taken: Mapping[str, int]) -> list[str]:
        """Those that these weights were not measured on. taken: benchmark -> step that it was last taken at."""
        return [name for name in self._settings if taken.get(name) != step]

    def due(self, step: int, taken: Mapping[str, int]) -> list[str]:
        """Those of them whose turn it is."""
        usual = self._evaluation.every_steps
        return [n for n in self.missing(step, taken) if step % (self._settings[n].every_steps or usual) == 0]

    async def measure(self, name: str, step: int) -> dict[str, float]:
        """`downstream/NAME`: mean@k after `step` updates, with its standard error over prompts and what tells of it."""
        work = sampled(
            self._rollouts[name],
            self._taken[name].prompts,
            self._settings[name].k,
            self._evaluation.temperature,
            f"downstream/{name}/{step}",
        )
        groups = await self._switch.result(work, what=f"the benchmark {name}", timeout=self._timeout)
        warn_of_failures(groups)
        found = evaluation_metrics(groups)
        log.info(
            "step %d  %s %.3f ± %.3f", step, name, found["eval/pass_rate"], found["eval/pass_rate_stderr"]
        )
        return {
            f"downstream/{name}": found["eval/pass_rate"],
            f"downstream/{name}_stderr": found["eval/pass_rate_stderr"],
            f"downstream/{name}_truncation_rate": found["eval/truncation_rate"],
            f"downstream/{name}_contamination": self._contamination[name],
        }
