"""Which runs are made: recipes, tasks, models, seeds, states, lengths and the curve of each. Pure, from one seed."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from webapp.record.runs.models import State

PASS_RATE = "eval/pass_rate"
EVALUATIONS = 50  # of a run that spends its budget
MIN_STEPS = 30
LONG_SHARE, LONG_FACTOR = 0.01, 10.0  # one run in a hundred is ten times as long
RESUMED_SHARE = 0.05
TRACKED_SHARE = 0.1
TRUNCATED_SHARE = 0.02
TRUNCATION_METRIC, TRUNCATION_END = "train/truncation_rate", 0.25

# task -> pass rate before training, ceiling of the best recipe
TASKS = {"math": (0.20, 0.66), "code": (0.12, 0.52), "math+code": (0.17, 0.60), "arithmetic": (0.16, 0.95)}
# model -> factor on the gain, device-hours of a run
MODELS = {"dense-8b": (1.0, 16_000.0), "moe-17b-16e": (1.12, 50_000.0), "dense-1.5b": (0.8, 800.0)}
STATES = {
    State.SUCCEEDED: 0.82, State.FAILED: 0.05, State.CANCELLED: 0.04, State.LOST: 0.02, State.RUNNING: 0.05,
    State.QUEUED: 0.02,
}  # fmt: skip
REASONS = {
    State.FAILED: "the trainer ended with status 1: out of memory in step {step}",
    State.CANCELLED: "cancelled on the page",
    State.LOST: "no heartbeat for 60 s, and Ray does not know the job",
    State.QUEUED: "waits for 8 GPUs",
}


@dataclass(frozen=True)
class Shape:
    """How a metric follows its run: from `start` to `end` along the curve's share of the gain, with noise (one
    standard deviation), within [lo, hi]. `every` evaluation or every step."""

    metric: str
    start: float
    end: float
    noise: float
    lo: float = 0.0
    hi: float = 1e9
    evaluated: bool = False


SHAPES = (
    Shape(PASS_RATE, 0, 1, 0.010, 0, 1, evaluated=True),  # start and end are the run's own
    Shape("eval/truncation_rate", 0.01, 0.03, 0.004, 0, 1, evaluated=True),
    Shape("train/reward", -0.4, 0.4, 0.05, -1, 1),
    Shape("train/truncation_rate", 0.01, 0.04, 0.008, 0, 1),
    Shape("train/entropy", 0.7, 0.25, 0.02),
    Shape("train/grad_norm", 0.5, 0.2, 0.05),
    Shape("train/ratio_max", 4, 9, 2, 1),
    Shape("train/ratio_min", 0.3, 0.12, 0.03, 0.001, 1),
    Shape("train/ratio_clip_fraction", 0.02, 0.05, 0.01, 0, 1),
    Shape("train/mismatch_logp_mean", 0.001, 0.002, 0.0003),
    Shape("train/mismatch_logp_max", 0.2, 0.5, 0.1),
    Shape("train/kl", 0.001, 0.004, 0.0005),
    Shape("train/kl_reference", 0.0, 0.08, 0.004),
    Shape("train/response_length", 3000, 4800, 200, 1),
    Shape("train/effective_batch", 700, 420, 25, 1),
    Shape("train/verifier_failure_rate", 0.001, 0.001, 0.0005, 0, 1),
    Shape("train/staleness_mean", 4, 4, 0.5),
    Shape("train/staleness_max", 8, 8, 0.4),
    Shape("train/token_staleness_mean", 3, 3, 0.4),
    Shape("perf/tokens_per_second", 41_000, 38_000, 900),
    Shape("perf/generator_idle", 0.04, 0.06, 0.01, 0, 1),
    Shape("perf/trainer_idle", 0.15, 0.10, 0.02, 0, 1),
)
STEP_SERIES = sum(not shape.evaluated for shape in SHAPES)
EVALUATED_SERIES = len(SHAPES) - STEP_SERIES


@dataclass(frozen=True)
class MadeRun:
    """One run to make. `steps` were trained of `planned`; every `evaluate_every`-th is evaluated. Curve: Eq. 1 in
    device-hours. `resumed_from`: its first attempt crashed some steps after this one; None: one attempt."""

    position: int
    recipe: int  # index into the recipes given
    tracked: bool
    task: str
    model: str
    seed: int
    state: State
    planned: int
    steps: int
    evaluate_every: int
    r0: float
    a: float
    b: float
    c_mid: float
    budget_hours: float
    age_hours: float  # ago that it was launched
    resumed_from: int | None
    truncated: bool  # its answers run into the length limit at the end

    @property
    def values(self) -> int:
        """About how many values it has in all its series; those that a crash repeated are not counted."""
        if self.state == State.QUEUED:
            return 0
        return STEP_SERIES * self.steps + EVALUATED_SERIES * (1 + self.steps // self.evaluate_every)

    @property
    def hours_per_step(self) -> float:
        return self.budget_hours / self.planned

    @property
    def crashed_at(self) -> int | None:
        """The last step of the first attempt, past the checkpoint; None for one attempt."""
        return None if self.resumed_from is None else self.resumed_from + self.evaluate_every

    def reason(self) -> str:
        """Why it is in its state, in the words of the services."""
        return REASONS.get(self.state, "").format(step=self.steps)


def plan_runs(count: int, points: int, recipes: int, *, seed: int = 0) -> list[MadeRun]:
    """`count` runs of `recipes` recipes with about `points` values in all.

    A recipe has one ceiling a task and model; its seeds differ by chance. Raises ValueError where the points do not
    suffice for MIN_STEPS steps of each run.
    """
    rng = np.random.default_rng(seed)
    states = rng.choice(np.array(list(STATES)), size=count, p=list(STATES.values()))
    trained = np.array([_share_trained(state, rng) for state in states])
    planned = _lengths(count, points, trained, rng)
    groups = list(product(TASKS, MODELS))
    quality = rng.uniform(0.86, 1.0, recipes)  # of the best ceiling
    speed = rng.uniform(0.08, 0.3, recipes)  # C_mid as a share of the budget
    shape = rng.uniform(0.9, 2.4, recipes)
    runs = []
    for i in range(count):
        recipe = i % recipes
        task, model = groups[(i // recipes) % len(groups)]
        r0, best = TASKS[task]
        factor, hours = MODELS[model]
        a = r0 + factor * (best * quality[recipe] - r0)
        planned_steps, steps = int(planned[i]), int(planned[i] * trained[i])
        every = max(1, round(planned_steps / EVALUATIONS))
        resumed = _resumed_from(steps, every, rng)
        runs.append(
            MadeRun(
                position=i,
                recipe=recipe,
                tracked=bool(rng.random() < TRACKED_SHARE)
                or states[i] == State.RUNNING,  # so that no worker misses its job
                task=task,
                model=model,
                seed=i // (recipes * len(groups)),
                state=State(states[i]),
                planned=planned_steps,
                steps=steps,
                evaluate_every=every,
                r0=float(r0 + rng.normal(0, 0.004)),
                a=float(min(0.99, a + rng.normal(0, 0.008))),
                b=float(shape[recipe] * rng.uniform(0.9, 1.1)),
                c_mid=float(hours * speed[recipe] * rng.uniform(0.85, 1.15)),
                budget_hours=hours,
                age_hours=float(24 * 365 * (count - i) / count),
                resumed_from=resumed,
                truncated=bool(rng.random() < TRUNCATED_SHARE) and states[i] != State.QUEUED,
            )
        )
    return runs


def _share_trained(state: State, rng: np.random.Generator) -> float:
    """How much of the budget a run in this state has spent."""
    if state == State.SUCCEEDED:
        return 1.0
    return 0.0 if state == State.QUEUED else float(rng.uniform(0.15, 0.95))


def _lengths(count: int, points: int, trained: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Planned steps [count] such that what is trained comes to about `points` values."""
    weights = rng.lognormal(0.0, 0.4, count)
    weights[rng.random(count) < LONG_SHARE] *= LONG_FACTOR
    evaluated = EVALUATED_SERIES * EVALUATIONS * trained.sum()
    steps = (points - evaluated) * weights / (STEP_SERIES * (weights * trained).sum())
    if (steps < MIN_STEPS).mean() > 0.5:
        least = int(count * (MIN_STEPS * STEP_SERIES + EVALUATIONS * EVALUATED_SERIES))
        raise ValueError(f"{points:,} points are too few for {count:,} runs: at least {least:,}")
    return np.maximum(MIN_STEPS, steps.round())


def _resumed_from(steps: int, every: int, rng: np.random.Generator) -> int | None:
    """A checkpoint in the middle of the run, for the few runs that crashed once."""
    if rng.random() >= RESUMED_SHARE or steps < 10 * every:
        return None
    return every * (steps // (2 * every))


def config_of(base: dict[str, Any], run: MadeRun) -> dict[str, Any]:
    """The configuration in force of a made run: the recipe's with its own task, model, seed and budget."""
    return base | {
        "task": base.get("task", {}) | {"name": run.task},
        "model": run.model,
        "seed": run.seed,
        "budget": {"device_hours": run.budget_hours},
    }
