"""What the columns of a table are likely to be, by their names: for a person to confirm."""

import re
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
    "pass_rate_stderr": ("pass_rate_stderr", "eval/pass_rate_stderr", "pass rate stderr", "stderr"),
    "metric": ("metric", "metric_name", "tag"),
    "value": ("value", "metric_value"),
}
PERCENT_SIGN = re.compile(r"(?<=[\d.])\s*%$", re.ASCII)
PASS_RATE_LIKE = re.compile(  # a share of what is held out: a person has to confirm it
    r"(val|valid|validation|eval|evaluation|test|dev|held[-_ ]?out)([-_/. ].*)?[-_/. ]"
    r"(acc|accuracy|pass[-_ ]?rate|pass(@|_at_)1|(success|solve)[-_ ]?rate)([-_/. ]mean)?",
    re.IGNORECASE,
)

ERRORS = ("_stderr", "_sem", "_se")  # behind the name of a mean


@dataclass(frozen=True)
class Guess:
    """columns: role -> column. likely: as well, but to be asked first. percent: the pass rate seems to be in percent.

    unclear: what has to be decided before reading; remarks: what may be looked at.
    """

    columns: Mapping[str, str]
    likely: Mapping[str, str]
    percent: bool
    unclear: tuple[str, ...]
    remarks: tuple[str, ...]


def guess(columns: Sequence[str], rows: Sequence[Sequence[str]], named: Mapping[str, str]) -> Guess:
    """rows: the first ones, as text. named: role -> column, where a person has said it before."""
    by_name = {name.strip().lower(): name for name in reversed(columns) if name}
    found: dict[str, str] = {}
    unclear, remarks = [], []
    for role, names in NAMES.items():
        fitting = [by_name[name] for name in names if name in by_name]
        if named.get(role) in columns:
            found[role] = named[role]
        elif fitting:
            found[role] = fitting[0]
        if found.get(role) in fitting[:1] and len(fitting) > 1:
            remarks.append(f"{role} is {fitting[0]} here; {' and '.join(fitting[1:])} would fit as well.")
    if ("metric" in found) != ("value" in found):
        found.pop("metric", None), found.pop("value", None)
    if "step" not in found:
        unclear.append("No column has the name of a step; without one, rows are counted.")
    unclear += _amounts_that_fall(columns, rows, found)
    likely: dict[str, str] = {}
    if "metric" not in found and "pass_rate" not in found:
        like = [name for name in columns if name not in found.values() and PASS_RATE_LIKE.fullmatch(name)]
        beside = [found.pop("pass_rate_stderr", ""), *(f"{like[0]}{ending}" for ending in ERRORS if like)]
        if like:
            errors = [name for name in beside if name in columns]
            likely = {"pass_rate": like[0]} | ({"pass_rate_stderr": errors[0]} if errors else {})
        remarks.append(
            f"Is {' or '.join(like[:5])} the held-out pass rate? Its name suggests it; nothing else says so."
            if like
            else "No column has the name of a pass rate; without one, no curve is fitted."
        )
    rate = (found | likely).get("pass_rate")
    percent = rate is not None and in_percent([row[columns.index(rate)] for row in rows])
    if percent:
        remarks.append(f"{rate} goes beyond 1, up to 100 at most: is it in percent?")
    if not set(COMPUTE) & set(found):
        remarks.append(
            "No column is device-hours, FLOPs or tokens: say how many devices, or compute stays unknown."
        )
    return Guess(found, likely, percent, tuple(unclear), tuple(remarks))


def in_percent(cells: Sequence[str]) -> bool:
    """Whether these numbers, as text, cannot be shares but can be percentages."""
    numbers = [number for cell in cells if (number := _number(cell)) is not None]
    return any(number > 1 for number in numbers) and all(0 <= number <= 100 for number in numbers)


def _amounts_that_fall(
    columns: Sequence[str], rows: Sequence[Sequence[str]], found: Mapping[str, str]
) -> list[str]:
    """Totals never fall within a run, so that a column which does is the amount of each row."""
    sentences = []
    run = columns.index(found["run"]) if "run" in found else None
    for name in (found[role] for role in COMPUTE if role in found):
        position = columns.index(name)
        if any(
            (run is None or one[run] == other[run]) and _falls(one[position], other[position])
            for one, other in zip(rows, rows[1:], strict=False)
        ):
            sentences.append(f"{name} falls: if it is the amount of each row, say so; a total does not fall.")
    return sentences


def _falls(before: str, after: str) -> bool:
    one, other = _number(before), _number(after)
    return one is not None and other is not None and other < one


def without_sign(cell: str) -> str:
    """Of "30 %" 30: what is in percent a person says."""
    return PERCENT_SIGN.sub("", cell.strip())


def _number(cell: str) -> float | None:
    try:
        return float(without_sign(cell))
    except ValueError:
        return None
