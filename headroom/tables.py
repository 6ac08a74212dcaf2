"""Responses in the tables that other trainers and trackers write: which tables have some, and of which step each is.

Known are JSON (wandb's and MLflow's `{"columns", "data"}`, MLflow's traces, trackio's tables and traces, a list of
objects), JSON lines (verl's dumps) and Parquet (TRL's completions).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from headroom.samples import are_samples, is_known, named
from headroom.values import to_number

SUFFIXES = (".json", ".jsonl", ".parquet")
LOOKED_AT = 50  # rows, to see what the table holds
HELD_OUT = frozenset({"eval", "evals", "evaluation", "heldout", "test", "val", "valid", "validation"})
# 10.jsonl of verl, val_step10.json, completions_00010.parquet of TRL; math500.json and aime_24.json name no step.
STEP_IN_NAME = re.compile(r"(?:(?:^|/)|[_-]?step[_-]?|_(?=\d{5}))0*(\d{1,18})$")
STEP_OF_OURS = re.compile(r"_(\d{1,18})\.table$")  # as our `wandb` names the file of a table
MOST_INSIDE = 1_000_000  # characters of JSON within JSON
TRACE_OF_MLFLOW = "traces.json"  # in a folder that has the trace's id as its name
Row = Mapping[str, Any]


def kind_of(name: str) -> str:
    """Of a table or a file by the words of its name: eval or train."""
    return "eval" if HELD_OUT & set(re.split(r"[\W_\d]+", name.lower())) else "train"


def place_of(path: str) -> tuple[str, int | None]:
    """The name that the tables of all steps share, and the step that the file's name says."""
    if Path(path).name == TRACE_OF_MLFLOW:
        return Path(path).parent.name, None
    stem = path.removesuffix(Path(path).suffix)
    found = STEP_OF_OURS.search(stem) or STEP_IN_NAME.search(stem)
    if found is None:
        return stem, None
    return stem[: found.start()].rstrip("/") or "table", int(found[1])


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Responses of a file; none where it is no table of them. Raises OSError, ValueError, ImportError (pyarrow)."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return responses(pq.read_table(path).to_pylist())
    return _read_text(path)


def _read_text(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        yield from responses(rows_of(path.name, file))


def rows_of(name: str, file: IO[bytes], check: Callable[[bytes], None] = lambda text: None) -> Iterable[Row]:
    """Rows of a file of JSON, or of JSON lines; none of one that holds anything else. Each text is shown to `check`
    before it is read. Raises ValueError where it is no JSON, and what `check` raises."""
    if name.endswith(".jsonl"):
        return _rows_of_lines(file, check)
    content = file.read()
    check(content)
    return rows_in(json.loads(content))


def _rows_of_lines(file: IO[bytes], check: Callable[[bytes], None]) -> Iterator[Row]:
    for line in file:
        check(line)
        row = json.loads(line) if line.strip() else None
        if isinstance(row, dict):
            yield row


def rows_in(found: Any) -> Sequence[Row]:
    """Of a value of JSON that is a table; none of anything else."""
    if isinstance(found, dict):
        columns, data = found.get("columns"), found.get("data")
        if isinstance(columns, list) and isinstance(data, list):
            names = [str(name) for name in columns]
            return [dict(zip(names, row, strict=False)) for row in data if isinstance(row, list)]
        found = found.get("_value", [found])
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def responses(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """All rows, with our names, of a table that has prompts and responses; none of another one. A row may hold several,
    and other columns than the one before."""
    found = (one for row in rows for one in _unfolded(row))
    first = list(islice(found, LOOKED_AT))
    if any(are_samples(row) and isinstance(row["prompt"], str | list) for row in map(named, first)):
        yield from map(named, chain(first, found))


def _unfolded(row: Row) -> Iterable[Row]:
    """A trace of trackio by its last turn, one of MLflow by its outermost span. verl's table for wandb has a row a
    step, and for each response columns of its own: input_1, output_1, score_1, input_2, …"""
    if isinstance(row.get("messages"), list) and row.get("_type") == "trackio.trace":
        return [_of_trace(row)]
    if list(row) == ["spans"] and isinstance(row["spans"], list):
        return [_of_spans(row["spans"])]
    single: dict[int, dict[str, Any]] = {}
    shared = {}
    for name, value in row.items():
        stem, _, number = str(name).rpartition("_")
        if number.isdecimal() and is_known(stem):
            single.setdefault(int(number), {})[stem] = value
        else:
            shared[name] = value
    if not any(map(are_samples, single.values())):
        return [row]
    return [shared | each for each in single.values()]


def _of_trace(row: Row) -> Row:
    turns = row["messages"]
    said = [i for i, turn in enumerate(turns) if isinstance(turn, dict) and turn.get("role") == "assistant"]
    last = said[-1] if said else len(turns)
    prompt = (
        turns[0]["content"]
        if last == 1 and isinstance(turns[0], dict) and "content" in turns[0]
        else turns[:last]
    )
    about = row.get("metadata")
    others = {"spans": row["spans"]} if row.get("spans") else {}
    response = turns[last].get("content") if said else ""
    return (
        (about if isinstance(about, dict) else {}) | others | {"prompt": prompt, "response": response or ""}
    )


def _of_spans(spans: Sequence[Any]) -> Row:
    """Its inputs are the prompt, its outputs the response, unless they name both; empty where it has none."""
    outer = [span for span in spans if isinstance(span, dict) and not span.get("parent_span_id")]
    attributes = outer[0].get("attributes") if outer else None
    if not isinstance(attributes, dict):
        return {}
    given, said = (_of_json(attributes.get(f"mlflow.span{name}")) for name in ("Inputs", "Outputs"))
    if given is None or said is None:
        return {}
    named_so = {**(given if isinstance(given, dict) else {}), **(said if isinstance(said, dict) else {})}
    if are_samples(named_so):
        return named_so
    prompt = _single(given.get("messages", given) if isinstance(given, dict) else given)
    prompt = prompt if isinstance(prompt, str | list) else json.dumps(prompt)
    return {"prompt": prompt, "response": _single(_of_chat(said))}


def _of_json(text: Any) -> Any:
    """As it is where it is none, or so long that its many values could take the memory."""
    if not isinstance(text, str) or (len(text) > MOST_INSIDE and not text.startswith('"')):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _single(value: Any) -> Any:
    """The only one of a function's arguments."""
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _of_chat(said: Any) -> Any:
    """What a chat's completion says, as OpenAI's answers have it; anything else as it is."""
    try:
        return said["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError):
        return said


def by_step(rows: Iterable[dict[str, Any]], otherwise: int, most: int) -> dict[int, list[dict[str, Any]]]:
    """Rows by what they say as their `step`, a whole number from 0 to `most`; of what says none it is another one."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        step = to_number(row.get("step"))
        if step is None or step != int(step) or not 0 <= step <= most:
            step = otherwise
        else:
            row = {name: value for name, value in row.items() if name != "step"}
        found.setdefault(int(step), []).append(row)
    return found
