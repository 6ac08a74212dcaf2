"""A file of a run that is a table of responses: its rows are samples of the run, the file stays as it came."""

import io
import json

import pytest

from tests.launching import tracked_run
from webapp.identity.accounts.services import create_project
from webapp.interfaces import files
from webapp.record.artifacts.store import open_file
from webapp.record.samples.models import SampleFile
from webapp.record.samples.selectors import find, rows_of

TABLE = {"columns": ["input", "output", "score"], "data": [["1 + 1 =", "2", 1.0], ["1 + 1 =", "3", 0.0]]}


@pytest.fixture
def run(db, settings, tmp_path):
    settings.HEADROOM_HOME = tmp_path
    return tracked_run(user=None, project=create_project(slug="math", name="Math"), name="elsewhere")


def keep(run, path, content):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    artifact = files.keep(run, path, io.BytesIO(content).read, len(content))
    with open_file(artifact) as file:
        assert file.read() == content


def steps():
    return [(one.kind, one.step, one.rows) for one in SampleFile.objects.all()]


def shown(run, kind, step):
    rows, _ = rows_of(find(run, kind, step))
    return [(row["prompt"], row["response"], row["reward"], row["part"]) for row in rows]


def test_of_the_step_in_its_name(run):
    keep(run, "val_step10.json", [{"input": "1 + 1 =", "output": "2", "score": 1.0}])
    keep(run, "rollouts/7.jsonl", b'{"input": "q", "output": "r", "score": 0.5, "step": 7, "acc": 1}\n')
    keep(run, "media/val/generations_12.table.json", TABLE)
    keep(run, "eval_math500.json", TABLE)  # the run has no step yet

    assert steps() == [("eval", 0, 2), ("eval", 10, 1), ("eval", 12, 2), ("train", 7, 1)]
    assert shown(run, "train", 7) == [("q", "r", 0.5, "rollouts")]
    assert json.loads(rows_of(find(run, "train", 7))[0][0]["extra"]) == {"acc": 1}


def test_a_table_that_grows_has_each_step_once_and_other_tables_stay(run):
    """verl logs its table for wandb anew at each evaluation, with all rows so far."""
    rows = []
    for step in (5, 10):
        rows.append([step, f"q{step}", "a", 1.0])
        table = {"columns": ["step", "input_1", "output_1", "score_1"], "data": rows}
        keep(run, f"media/val/generations_{step}.table.json", table)
    keep(run, "eval_other.json", [{"step": 10, "prompt": "p", "completion": "c"}])

    assert steps() == [("eval", 5, 1), ("eval", 10, 2)]
    assert shown(run, "eval", 10) == [
        ("q10", "a", 1.0, "media/val/generations"), ("p", "c", None, "eval_other")
    ]  # fmt: skip


def test_other_columns_at_each_step_huge_cells_and_control_characters(run):
    huge = "x" * 1_000_000
    keep(run, "logged/completions/1.json", [{"prompt": "a\x07\x00b", "completion": huge, "judge": "\x1b[0m"}])
    keep(run, "logged/completions/2.json", [{"query": "q", "generation": "r", "advantage": -1, "new": [1]}])

    ((first,), _), ((second,), _) = (rows_of(find(run, "train", step)) for step in (1, 2))
    assert first["prompt"] == "a\x07␀b" and json.loads(first["extra"]) == {"judge": "\x1b[0m"}
    assert first["characters"] == 1_000_000 and "characters left out" in first["response"]
    assert second["advantage"] == -1 and json.loads(second["extra"]) == {"new": [1]}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[" * 100_000, b"\xff\xfe", b"[1, 2]", b'{"columns": 1, "data": []}',
        b'{"columns": ["x", "y"], "data": [[1, 2]]}', b'[{"prompt": "p", "note": "n"}]',
        b"[" + b"{}," * 600_000 + b"{}]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["1.json", "1.jsonl", "1.parquet", "1.txt"])
def test_anything_else_is_a_file_and_nothing_more(run, name, content):
    keep(run, name, content)

    assert steps() == []
