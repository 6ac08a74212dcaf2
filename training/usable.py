"""Whether a run can begin: prompts short enough and spelt by the vocabulary, verifiers that work on this machine."""

import logging
from collections.abc import Sequence
from typing import Any

from training.rollouts import Rollouts
from training.schema import Recipe
from training.tasks import Prompt, Task

log = logging.getLogger("training")


def check_verifiers(task: Task, recipe: Recipe, prompts: Sequence[Prompt] | None = None) -> None:
    """Let `demanding_verifiers`, or those of `prompts`, say what this machine lacks; their own error. Reward workers
    ask on their nodes."""
    if recipe.resources.reward_workers is None:
        asked = (
            demanding_verifiers(task, recipe) if prompts is None else demanding_verifiers_of(task, prompts)
        )
        for verifier in asked:
            verifier.check()


def demanding_verifiers(task: Task, recipe: Recipe) -> list[Any]:
    """Those that need something of the machine that judges (the sandbox): their `check` raises what is missing."""
    prompts = [*task.training_prompts(recipe.seed), *task.held_out_prompts(recipe.eval.prompts)]
    return demanding_verifiers_of(task, prompts)


def demanding_verifiers_of(task: Task, prompts: Sequence[Prompt]) -> list[Any]:
    """The same, of these prompts."""
    verifiers = {task.verifier(prompt) for prompt in prompts}
    return [verifier for verifier in verifiers if hasattr(verifier, "check")]


def usable_training(prompts: Sequence[Prompt], rollouts: Rollouts) -> tuple[list[Prompt], dict[str, float]]:
    """(the prompts that can be used, metrics of the run's first record). ValueError where none can be."""
    usable, reason = _usable(prompts, rollouts)
    left_out = len(prompts) - len(usable)
    if not usable:
        raise ValueError(f"no training prompt can be used: {reason}")
    if left_out:
        log.warning("%d of %d training prompts are left out: %s", left_out, len(prompts), reason)
    return usable, {"data/prompts_left_out": float(left_out)}


def usable_held_out(
    prompts: Sequence[Prompt], rollouts: Rollouts, what: str = "held-out prompts"
) -> Sequence[Prompt]:
    """All of them, or ValueError: an evaluation of fewer prompts could not be compared with other runs."""
    usable, reason = _usable(prompts, rollouts)
    if len(usable) < len(prompts):
        raise ValueError(f"{len(prompts) - len(usable)} of {len(prompts)} {what} cannot be used: {reason}")
    return prompts


def _usable(prompts: Sequence[Prompt], rollouts: Rollouts) -> tuple[list[Prompt], str]:
    """(usable prompts, why the first of the others is not)."""
    kept, reason = [], ""
    for prompt in prompts:
        try:
            rollouts.prompt_tokens(prompt)
            kept.append(prompt)
        except ValueError as error:
            reason = reason or str(error)
    return kept, reason
