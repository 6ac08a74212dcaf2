"""Responses of a step as they are sent: JSON lines, compressed, beside the journal until the server has them."""

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from headroom.values import to_number

KINDS = ("train", "eval")
# Column -> what other trainers and trackers call it, in lower case.
NAMES: dict[str, tuple[str, ...]] = {
    "prompt": ("input", "inputs", "question", "query", "prompts", "request"),
    "response": (
        "completion",
        "completions",
        "output",
        "outputs",
        "generation",
        "generated",
        "responses",
        "prediction",
        "predictions",
    ),
    "answer": ("gts", "ground_truth", "target", "targets", "expected", "reference", "solution"),
    "prompt_id": ("id", "uid", "problem_id", "example_id"),
    "reward": ("score", "rewards", "scores"),
    "advantage": ("advantages",),
    "tokens": ("response_length", "completion_length", "num_tokens", "response_tokens"),
    "truncated": ("is_truncated", "clipped"),
    "correct": ("is_correct", "passed", "success"),
}
_KNOWN = {other: name for name, others in NAMES.items() for other in (name, *others)}


def named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with our names for its columns, where another one is known and ours is not there. The only column of a
    reward function (`accuracy_reward`; beside an advantage, as of TRL, whatever its name) is the reward."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        ours = _KNOWN.get(str(name).lower(), str(name))
        found[str(name) if ours != name and (ours in row or ours in found) else ours] = value
    if "reward" not in found and len(rewards := _rewards(found)) == 1:
        found["reward"] = found.pop(rewards[0])
    return found


def _rewards(row: Mapping[str, Any]) -> list[str]:
    """Columns that may be a reward function's."""
    names = [name for name in row if "reward" in name.lower() and "std" not in name.lower()]
    if not names and "advantage" in row:
        names = [name for name in row if name not in _KNOWN and name != "step"]
    return [name for name in names if to_number(row[name]) is not None]


def is_known(column: str) -> bool:
    """Whether this is a name of a column of samples, ours or another one."""
    return column.lower() in _KNOWN


def are_samples(columns: Iterable[Any]) -> bool:
    """Whether a table with these columns holds responses to prompts."""
    found = {_KNOWN.get(str(name).lower()) for name in columns}
    return {"prompt", "response"} <= found


def rows_of(rows: Any) -> Iterator[Mapping[str, Any]]:
    """Of an iterable of mappings, a mapping of columns, a data frame, or an object with `columns` and `data`.

    Raises TypeError for anything else, and ValueError for columns of different lengths.
    """
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        rows = rows.to_dict("records")
    elif hasattr(rows, "columns") and hasattr(rows, "data"):
        rows = [dict(zip(map(str, rows.columns), row, strict=False)) for row in rows.data]
    elif isinstance(rows, Mapping):
        columns = {name: list(values) for name, values in rows.items()}
        if len({len(values) for values in columns.values()}) > 1:
            said = ", ".join(f"{name} has {len(values)}" for name, values in columns.items())
            raise ValueError(f"columns of samples are of one length: {said}")
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if not isinstance(rows, Iterable):
        raise TypeError(f"samples are rows, columns or a table, not a {type(rows).__name__}")
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"a row of samples is a mapping, not a {type(row).__name__}")
        yield named(row)


def write_lines(path: Path | IO[bytes], rows: Iterable[Mapping[str, Any]]) -> int:
    """A row a line; how many. Raises OSError, and what `rows` raises."""
    count = 0
    with gzip.open(path, "wt", encoding="utf-8", errors="replace", compresslevel=5) as file:
        for row in rows:
            file.write(json.dumps(_plain(row), default=_other) + "\n")
            count += 1
    return count


def _plain(value: Any) -> Any:
    """Without numbers that JSON has no word for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [_plain(each) for each in value]
    return value


def _other(value: Any) -> Any:
    """A number of numpy or torch as one; anything else in words."""
    number = to_number(value)
    return str(value) if number is None else number
