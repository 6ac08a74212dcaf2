"""What the columns of a table are likely to be, by their names: for a person to confirm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webapp.interfaces.imports.readers.rows import COMPUTE

NAMES = {  # role -> names that say it, the surest first; case does not matter
    "run": ("run", "run_name", "run name", "run_id", "run id"),
    "step": ("train/global_step", "global_step", "step", "_step", "iteration", "iter", "update"),
    "time": ("time", "timestamp", "_timestamp", "wall_time", "wall time", "datetime", "date"),
    "elapsed": ("elapsed", "elapsed_seconds", "_runtime", "relative time (process)"),
    "device_hours": ("device_hours", "compute/device_hours", "gpu_hours", "gpu-hours", "gpu hours"),
    "flops": ("flops", "compute/flops", "train/total_flos", "total_flos"),
    "tokens": (
        "compute/tokens",
        "train/num_tokens",
        "progress/total_tokens",
        "total_tokens",
        "num_tokens",
        "tokens",
    ),
    "pass_rate": ("pass_rate", "eval/pass_rate", "pass rate"),
    "pass_rate_stderr": ("pass_rate_stderr", "eval/pass_rate_stderr", "pass rate stderr"),
    "metric": ("metric", "metric_name", "tag"),
    "value": ("value", "metric_value"),
}


@dataclass(frozen=True)
class Guess:
    """columns: role -> column. unclear: what has to be decided before reading; remarks: what may be looked at."""

    columns: Mapping[str, str]
    unclear: tuple[str, ...]
    remarks: tuple[str, ...]


def guess(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Guess:
    """rows: the first ones, as text."""
    by_name = {name.strip().lower(): name for name in reversed(columns) if name}
    found: dict[str, str] = {}
    unclear, remarks = [], []
    for role, names in NAMES.items():
        fitting = [by_name[name] for name in names if name in by_name]
        if fitting:
            found[role] = fitting[0]
        if len(fitting) > 1:
            remarks.append(f"{role} is {fitting[0]} here; {' and '.join(fitting[1:])} would fit as well.")
    if ("metric" in found) != ("value" in found):
        found.pop("metric", None), found.pop("value", None)
    if "step" not in found:
        unclear.append("No column has the name of a step; without one, rows are counted.")
    unclear += _amounts_that_fall(columns, rows, found)
    if "metric" not in found and "pass_rate" not in found:
        remarks.append("No column has the name of a pass rate; without one, no curve is fitted.")
    if not set(COMPUTE) & set(found):
        remarks.append(
            "No column is device-hours, FLOPs or tokens: say how many devices, or compute stays unknown."
        )
    return Guess(found, tuple(unclear), tuple(remarks))


def _amounts_that_fall(
    columns: Sequence[str], rows: Sequence[Sequence[str]], found: Mapping[str, str]
) -> list[str]:
    """Totals never fall within a run, so that a column which does is the amount of each row."""
    sentences = []
    run = columns.index(found["run"]) if "run" in found else None
    for role in COMPUTE:
        if role not in found:
            continue
        position = columns.index(found[role])
        pairs = zip(rows, rows[1:], strict=False)
        if any(
            (run is None or one[run] == next_one[run]) and _falls(one[position], next_one[position])
            for one, next_one in pairs
        ):
            sentences.append(
                f"{found[role]} falls: if it is the amount of each row, say so; a total does not fall."
            )
    return sentences


def _falls(before: str, after: str) -> bool:
    try:
        return float(after) < float(before)
    except ValueError:
        return False
