"""Samples of a run: some prompts of a step or an evaluation with all of their responses, as Parquet files.

RUN_DIR/samples/eval-00000100.parquet    held-out prompts after 100 updates, the same ones each time
                train-00000100.parquet   prompts of the batch of update 100

A row is a response; `KINDS_OF_VALUES` has its columns. A file is replaced whole, so that a step that is made again
after a resume has its samples once. Light: pyarrow is imported when a file is read or written.
"""

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headroom.samples import named

KINDS = ("eval", "train")
NAME = re.compile(r"(eval|train)-(\d{8,18})\.parquet")
MOST_STEP = 10**18 - 1
MOST_FILES = 200  # of a kind; beyond them, an even spread over the steps stays
MOST_ROWS = 4096  # of a file
MOST_CHARACTERS = 32_000_000  # of all texts of a file
MOST_OF_A_RESPONSE, MOST_OF_A_TEXT, MOST_OF_A_WORD = 200_000, 50_000, 200  # characters
ROWS_TOGETHER = 64  # what is read at once of a file

KINDS_OF_VALUES: dict[str, type] = {
    "group": int,  # the prompt's place in the file, from 0 on
    "sample": int,  # the response's place in its group
    "prompt_id": str,
    "part": str,  # of a mixture of tasks
    "difficulty": float,
    "prompt": str,
    "answer": str,  # what the response is judged against
    "response": str,
    "characters": int,  # of the response before it was cut
    "prompt_tokens": int,
    "tokens": int,  # of the response
    "reward": float,
    "advantage": float,  # null: not in the loss
    "correct": bool,
    "why": str,  # why it is not correct, or could not be judged
    "judged": bool,
    "truncated": bool,  # it had not ended when there was no more room
    "interrupted": bool,  # its thinking was ended by force
    "forced": int,  # tokens that the policy did not choose
    "version_oldest": int,  # of the weights that made its tokens
    "version_newest": int,
    "logp_gap": float,  # mean |log-probability of the trainer - of the generator| of its chosen tokens, nats
    "extra": str,  # whatever else came with it, as a JSON object
}
LIMITS = {"response": MOST_OF_A_RESPONSE, "prompt_id": MOST_OF_A_WORD, "part": MOST_OF_A_WORD}
_WHOLE = 2**63 - 1


class SamplesError(ValueError):
    """Rows or a file that cannot be used; the message says why."""


@dataclass(frozen=True)
class Prepared:
    """Rows as they are stored, by group. `left_out`: how many more came than a file takes."""

    rows: list[dict[str, Any]]
    left_out: int


def file_name(kind: str, step: int) -> str:
    """Raises SamplesError for another kind, or a step that is none."""
    if kind not in KINDS:
        raise SamplesError(f"samples are of {' or '.join(KINDS)}, not of {kind!r}")
    if not 0 <= step <= MOST_STEP:
        raise SamplesError(f"{step} is no step of samples: they begin at 0")
    return f"{kind}-{step:08d}.parquet"


def steps_in(folder: Path, kind: str) -> list[int]:
    """Of the files that lie there, in order."""
    names = (NAME.fullmatch(path.name) for path in folder.glob(f"{kind}-*.parquet"))
    return sorted(int(name[2]) for name in names if name)


# -- rows ----------------------------------------------------------------------------------------------------


def prepare(rows: Iterable[Mapping[str, Any]]) -> Prepared:
    """What of any rows is stored: known columns with values of their kind, everything else in `extra`; long texts cut.

    A row without `prompt_id` gets one of its prompt; `group` and `sample` are counted here.
    """
    kept: list[dict[str, Any]] = []
    left, room = 0, MOST_CHARACTERS
    groups: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        if left or len(kept) >= MOST_ROWS:
            left += 1
            continue
        made = _row(row)
        room -= len(made["prompt"]) + len(made["answer"]) + len(made["response"]) + len(made["extra"])
        if room < 0 and kept:
            left += 1
            continue
        key = made["prompt_id"]
        made["group"] = groups.setdefault(key, len(groups))
        made["sample"] = seen[key]
        seen[key] += 1
        kept.append(made)
    return Prepared(sorted(kept, key=lambda row: row["group"]), left)


def _row(given: Mapping[str, Any]) -> dict[str, Any]:
    row = named(given)
    made = {name: _value(name, row.get(name)) for name in KINDS_OF_VALUES}
    response = row.get("response")
    made["characters"] = made["characters"] or (0 if response is None else len(_text(response)))
    if not made["prompt_id"]:
        made["prompt_id"] = hashlib.sha256(made["prompt"].encode()).hexdigest()[:12]
    if made["judged"] is None:
        made["judged"] = made["correct"] is not None
    others = {str(name): value for name, value in row.items() if name not in KINDS_OF_VALUES}
    if others:
        text = json.dumps(others, default=str, ensure_ascii=False)
        made["extra"] = cut(_unicode(text), MOST_OF_A_TEXT)
    return made


def _value(name: str, value: Any) -> Any:
    """As the column has it; null, or empty for a text, where it is of another kind."""
    kind = KINDS_OF_VALUES[name]
    if kind is str:
        if value is None:
            return ""
        return cut(_unicode(_text(value)), LIMITS.get(name, MOST_OF_A_TEXT))
    if kind is bool:
        return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if kind is float:
        return float(value)
    return int(value) if 0 <= value <= _WHOLE else None  # each counts something


def _text(value: Any) -> str:
    """As it is; of a conversation each turn after the name of who speaks; of anything else its JSON."""
    if isinstance(value, str):
        return value
    if (
        isinstance(value, list)
        and value
        and all(isinstance(turn, dict) and "content" in turn for turn in value)
    ):
        return "\n\n".join(f"{turn.get('role', '')}: {turn['content']}" for turn in value)
    return json.dumps(value, default=str, ensure_ascii=False)


def _unicode(text: str) -> str:
    """Without halves of surrogate pairs, which no file takes, and NUL, which PostgreSQL does not take."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{SYMBOL FOR NULL}")


def cut(text: str, most: int) -> str:
    """The text's beginning and end with a mark between them, where it has more characters than `most`: a response's
    answer is at its end."""
    if len(text) <= most:
        return text
    mark = f"\n[… {len(text) - most:,} characters left out …]\n"
    return text[: most // 2] + mark + text[len(text) - (most - most // 2) :]


# -- files ---------------------------------------------------------------------------------------------------


def write(folder: Path, kind: str, step: int, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows of `prepare` as the file of a step, at once or not at all. Raises OSError and SamplesError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / file_name(kind, step)
    folder.mkdir(parents=True, exist_ok=True)
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in KINDS_OF_VALUES.items()])
    partial = folder / f".{path.name}.{os.getpid()}.partial"
    try:
        table = pa.Table.from_pylist(list(rows), schema=schema)
        pq.write_table(table, partial, compression="zstd", row_group_size=ROWS_TOGETHER)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def remove_after(folder: Path, step: int) -> None:
    """Samples of steps past the one that a run goes on from; and what a dead attempt has half written."""
    for kind in KINDS:
        for each in steps_in(folder, kind):
            if each > step:
                (folder / file_name(kind, each)).unlink(missing_ok=True)
    for partial in folder.glob(".*.partial"):
        partial.unlink(missing_ok=True)


def thin(folder: Path, kind: str) -> None:
    """Remove what is beyond MOST_FILES."""
    for step in superfluous(steps_in(folder, kind)):
        (folder / file_name(kind, step)).unlink(missing_ok=True)


def superfluous(steps: Sequence[int], most: int = MOST_FILES) -> list[int]:
    """Which of the steps, in order, may go: those nearest to the one before them, never the first or the last."""
    kept, gone = list(steps), []
    while len(kept) > max(2, most):
        place = min(range(1, len(kept) - 1), key=lambda i: kept[i + 1] - kept[i - 1])
        gone.append(kept.pop(place))
    return gone


@dataclass(frozen=True)
class Wanted:
    """Which rows: bounds hold where they are not None; `flags` are names out of FLAGS that all hold; `text` is looked
    for in prompt and response, in any case."""

    prompt_id: str = ""
    reward_min: float | None = None
    reward_max: float | None = None
    tokens_min: int | None = None
    tokens_max: int | None = None
    difficulty_min: float | None = None
    difficulty_max: float | None = None
    flags: tuple[str, ...] = ()
    text: str = ""


EVERYTHING = Wanted()
FLAGS = ("correct", "incorrect", "unjudged", "truncated", "interrupted", "forced", "left_out")


def read(
    path: Path, wanted: Wanted = EVERYTHING, *, first: int = 0, most: int = MOST_ROWS
) -> tuple[list[dict[str, Any]], int]:
    """(the wanted rows from the `first` on, at most so many; how many are wanted in all).

    Texts are read of no more rows than must be. Raises FileNotFoundError, and SamplesError for a damaged file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = [name for name, kind in KINDS_OF_VALUES.items() if kind is not str]
            texts = ["prompt", "response"] if wanted.text else []
            table = file.read([*names, "prompt_id", *texts])
            places = [place for place, row in enumerate(table.to_pylist()) if _is_wanted(row, wanted)]
            return _rows_at(file, places[first : first + most]), len(places)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, KeyError) as error:
        raise SamplesError(f"{path.name} cannot be read: {str(error).splitlines()[0][:200]}") from error


def _rows_at(file: Any, places: Sequence[int]) -> list[dict[str, Any]]:
    """Whole rows at these places, in order; of each row group that has one."""
    found: list[dict[str, Any]] = []
    start = 0
    for number in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        inside = [place - start for place in places if start <= place < start + size]
        if inside:
            found += file.read_row_group(number).take(inside).to_pylist()
        start += size
    return found


def _is_wanted(row: Mapping[str, Any], wanted: Wanted) -> bool:
    if wanted.prompt_id and row["prompt_id"] != wanted.prompt_id:
        return False
    for name in ("reward", "tokens", "difficulty"):
        low, high = getattr(wanted, f"{name}_min"), getattr(wanted, f"{name}_max")
        value = row[name]
        if (low is not None or high is not None) and value is None:
            return False
        if (low is not None and value < low) or (high is not None and value > high):
            return False
    if not all(_has(row, flag) for flag in wanted.flags):
        return False
    text = wanted.text.casefold()
    return not text or text in row["response"].casefold() or text in row["prompt"].casefold()


def _has(row: Mapping[str, Any], flag: str) -> bool:
    if flag == "incorrect":
        return row["judged"] is True and row["correct"] is False
    if flag == "unjudged":
        return row["judged"] is False
    if flag == "left_out":
        return row["advantage"] is None
    return bool(row[flag])


def by_prompt(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Prompt id -> what an index keeps of its responses: rewards and correctness of each, the prompt's beginning."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(
            row["prompt_id"],
            {"text": row["prompt"][:120], "difficulty": row["difficulty"], "rewards": [], "correct": []},
        )
        entry["rewards"].append(row["reward"])
        entry["correct"].append(row["correct"])
    return found
