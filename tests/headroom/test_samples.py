"""Run.log_samples: never in the way of a training; rows arrive as they were logged."""

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headroom import artifacts
from headroom.run import Run
from headroom.samples import are_samples, rows_of
from headroom.syncing import sync
from tests.headroom.fake_server import FakeServer

Begin = Callable[..., Run]
ROWS = [
    {"prompt": "2 + 2 =", "response": "4", "reward": 1.0},
    {"prompt": "2 + 2 =", "response": "5", "reward": 0.0},
]


def lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(content).splitlines()]


def test_samples_arrive_before_the_end_of_the_run(
    begin: Begin, server: FakeServer, journal_path: Any
) -> None:
    run = begin()
    run.log_samples(10, ROWS)
    run.log_samples(10, iter(ROWS), kind="eval")

    assert run.finish()
    assert {name: lines(content) for (_, name), content in server.files.items()} == {
        "train/10?attempt=1": ROWS, "eval/10?attempt=1": ROWS,
    }  # fmt: skip
    assert server.requests[-1][0].endswith("/finish")
    assert not list(artifacts.folder_of(journal_path).iterdir())


def test_while_the_server_is_away_samples_wait_beside_the_journal(
    begin: Begin, server: FakeServer, journal_path: Path
) -> None:
    run = begin(mode="offline")
    run.log_samples(1, ROWS)
    run.finish()
    assert len(artifacts.waiting(artifacts.folder_of(journal_path))) == 1

    (synced,) = sync(journal_path, server.url, "t")

    assert (synced.problem, [name for _, name in server.files]) == ("", ["train/1?attempt=1"])


def test_a_server_that_keeps_no_samples_is_named_once(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse = lambda path, body: (404, "no such address") if "samples" in path else None
    run = begin()
    for step in range(3):
        run.log_samples(step, ROWS)

    assert (run.finish().sent, run.finish().values) == (True, 3)
    assert (
        len([one for one in caplog.records if "train/0 is not kept by the server" in one.getMessage()]) <= 1
    )
    assert server.files == {}


@pytest.mark.parametrize(
    ("step", "rows", "kind", "why"),
    [
        (1, ["no mapping"], "train", "a row of samples is a mapping, not a str"),
        (1, ROWS, "test", "kind must be one of train, eval"),
        (-1, ROWS, "train", "samples are of whole steps from 0 on"),
        ("x", ROWS, "train", "samples are of whole steps from 0 on"),
        (float("inf"), ROWS, "train", "samples are of whole steps from 0 on"),
        (1, None, "train", "samples are rows, columns or a table, not a NoneType"),
    ],
)
def test_what_is_no_sample_is_a_warning(
    begin: Begin,
    server: FakeServer,
    caplog: pytest.LogCaptureFixture,
    step: Any,
    rows: Any,
    kind: str,
    why: str,
) -> None:
    run = begin()
    run.log_samples(step, rows, kind=kind)

    assert run.finish()
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert any(f"are not kept: {why}" in each for each in said) and server.files == {}


def test_columns_tables_and_names_of_other_trainers() -> None:
    class Table:
        columns = ["prompt", "completion", "score"]
        data = [["a", "b", 1.0]]

    ours = [{"prompt": "a", "response": "b", "reward": 1.0}]
    assert list(rows_of(Table())) == ours
    assert list(rows_of({"input": ["a"], "output": ["b"], "score": [1.0]})) == ours
    assert list(rows_of([{"prompt": "a", "response": "b", "output": "c"}])) == [
        {"prompt": "a", "response": "b", "output": "c"}
    ]
    assert are_samples(Table.columns) and not are_samples(["prompt", "loss"])
    with pytest.raises(ValueError, match="of one length: prompt has 2, output has 1"):
        list(rows_of({"prompt": ["a", "b"], "output": ["c"]}))


def test_numbers_that_json_has_no_word_for_are_unknown(begin: Begin, server: FakeServer) -> None:
    run = begin()
    run.log_samples(
        1,
        [
            {
                "prompt": "a",
                "reward": float("nan"),
                "parts": {"format": float("inf")},
                7: {
                    1,
                },
            }
        ],
    )

    assert run.finish()
    ((row,),) = (lines(content) for content in server.files.values())
    assert row == {"prompt": "a", "reward": None, "parts": {"format": None}, "7": "{1}"}
