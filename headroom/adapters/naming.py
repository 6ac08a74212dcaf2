"""Headroom's names for what other trainers log, so that diagnostics and alarms know it."""

import re
from collections.abc import Mapping
from typing import Any

# What trainers themselves call the pass rate: verl's only `val-core/.../mean@K` (its adapter for MLflow, which takes no
# @, writes `_at_`), and the mean of TRL's own `accuracy_reward`, which is 1 or 0. What other reward functions give,
# only who wrote them knows.
USUAL_PASS_RATE = re.compile(r"val-core/.+/mean(?:@|_at_)(?P<k>\d+)|eval[_/]rewards/accuracy_reward/mean")
TOTAL_TOKENS = (
    "compute/tokens", "num_tokens", "train/num_tokens", "num_input_tokens_seen", "train/num_input_tokens_seen",
)  # fmt: skip
# The held-out pass rate, overall or of a part of a mixture of tasks. NUL cannot be asked of PostgreSQL.
PART_PASS_RATE = re.compile(r"eval/(?:(?P<part>[^/\0]+(?:/[^/\0]+)*)/)?pass_rate")
SYSTEM = "system/"  # in front of what machines do, which is no metric of the training
VERL_STEP, VERL_TOKENS = "timing_s/step", "perf/total_num_tokens"  # of one step: seconds, tokens
VERL_BESIDE = ("timing_s/testing", "timing_s/save_checkpoint")  # parts of timing_s/step that are not training
VERL_DEVICES = "trainer/n_gpus_per_node"  # of its configuration, and of none but its
MAX_SEED = 2**31 - 1
MOST_DIGITS = 18
MODEL_NAMES = (
    "model_name_or_path", "model_name", "model", "actor_rollout_ref/model/path", "actor_rollout_ref.model.path",
    "_name_or_path",
)  # fmt: skip  # under which trainers have it

TRL = {
    "reward": "train/reward",
    "completions/clipped_ratio": "train/truncation_rate",
    "completions/mean_length": "train/response_length",
    "clip_ratio/region_mean": "train/ratio_clip_fraction",
    "sampling/sampling_logp_difference/mean": "train/mismatch_logp_mean",
    "sampling/sampling_logp_difference/max": "train/mismatch_logp_max",
    "sampling/importance_sampling_ratio/min": "train/ratio_min",
    "sampling/importance_sampling_ratio/max": "train/ratio_max",
}
VERL = {
    "critic/rewards/mean": "train/reward",
    "actor/entropy": "train/entropy",
    "actor/grad_norm": "train/grad_norm",
    "actor/pg_loss": "train/loss",
    "actor/lr": "train/learning_rate",
    "actor/pg_clipfrac": "train/ratio_clip_fraction",
    "response_length/clip_ratio": "train/truncation_rate",
    "response_length/mean": "train/response_length",
}
GROUPS = (
    "compute/",
    "eval/",
    "perf/",
    SYSTEM,
    "test/",
)  # in front of a name they are nothing of the trainer's
PRIME_RL = {
    "reward/all/mean": "train/reward",
    "entropy/all/mean": "train/entropy",
    "optim/grad_norm": "train/grad_norm",
    "optim/lr": "train/learning_rate",
    "loss/mean": "train/loss",
    "is_truncated/all/mean": "train/truncation_rate",
    "decode_len/all/mean": "train/response_length",
}


def of_transformers(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Logs of a transformers or TRL trainer: `eval_x` becomes `eval/x`, all else is of training."""
    return {_of_transformers(name): value for name, value in logs.items()}


def _of_transformers(name: str) -> str:
    if name.startswith("eval_"):
        return f"eval/{name.removeprefix('eval_')}"
    return TRL.get(name, f"train/{name.removeprefix('train_')}")


def name_of_transformers(name: str) -> str:
    """One name as the callbacks of transformers hand it to a tracker: as the trainer logs it (MLflow), or with the
    group that transformers puts in front (`train/reward`, `eval/loss`: trackio)."""
    if name.startswith(GROUPS):
        return name
    if name.startswith("train/"):
        return TRL.get(name.removeprefix("train/"), name)
    return _of_transformers(name)


def of_verl(data: Mapping[str, Any]) -> dict[str, Any]:
    """A step's metrics of verl, which have a group in front already."""
    return {name_of_verl(name): value for name, value in data.items()}


def name_of_verl(name: str) -> str:
    """One name of verl's."""
    return VERL.get(name, name)


def verl_seconds(values: Mapping[str, float | None]) -> float:
    """How long a step of verl trained [s]; 0 for what says nothing of it."""
    beside = sum(values.get(name) or 0.0 for name in VERL_BESIDE)
    return max(0.0, (values.get(VERL_STEP) or 0.0) - beside)


def of_prime_rl(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of prime-rl's metrics.jsonl, which has names with a group in front already."""
    return {PRIME_RL.get(name, name): value for name, value in row.items()}


def of_tracker(name: str) -> str:
    """A metric as a tracker has it: of verl, of prime-rl, or of transformers and TRL, whose own names stand behind
    `train/` there. One name alone says which; what none of them uses stays as it is."""
    if name.startswith("train/"):
        return TRL.get(name.removeprefix("train/"), name)
    return VERL.get(name) or PRIME_RL.get(name) or name


RENAMED = {**TRL, **VERL, **PRIME_RL}  # a trainer's own name -> ours


def names_for(name: str) -> list[str]:
    """A metric's name, then those that it may have here where `name` is what its trainer calls it."""
    return list(dict.fromkeys((name, of_tracker(name), name_of_verl(name), name_of_transformers(name))))


def originals_of(name: str) -> list[str]:
    """What trainers call the metric that has this name here."""
    return [original for original, ours in RENAMED.items() if ours == name]


def entry(config: Mapping[str, Any], path: str) -> Any:
    """One entry by its path, whether the configuration was logged flat (MLflow) or nested (trackio)."""
    if path in config:
        return config[path]
    first, slash, rest = path.partition("/")
    nested = config.get(first)
    return entry(nested, rest) if slash and isinstance(nested, Mapping) else None


def model_of(config: Mapping[str, Any]) -> str:
    """The model's name, where a configuration has it under a name that trainers use."""
    found = (entry(config, name) for name in MODEL_NAMES)
    return next((name for name in found if name and isinstance(name, str)), "")


def whole_number(value: Any) -> int | None:
    """From 0, also as text; None for anything else."""
    digits = str(value).strip().removesuffix(".0")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else None


def seed_of(config: Mapping[str, Any]) -> int | None:
    """None for what is no seed."""
    seed = whole_number(config.get("seed"))
    return None if seed is None or seed > MAX_SEED else seed


def verl_devices(config: Mapping[str, Any]) -> int | None:
    """GPUs that verl's configuration names, flat or nested; None where it is none of verl's. verl trains on one node
    where it is not told how many."""
    a_node, nodes = whole_number(entry(config, VERL_DEVICES)), entry(config, "trainer/nnodes")
    return (a_node or 0) * (1 if nodes is None else whole_number(nodes) or 0) or None
