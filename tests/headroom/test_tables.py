"""Which tables hold responses, and of which step and kind they are."""

import io
import json

import pytest

from headroom.tables import by_step, kind_of, place_of, read, responses, rows_in, rows_of

ROW = {"prompt": "1 + 1 =", "response": "2", "reward": 1.0}


def found(value):
    return list(responses(rows_in(value)))


@pytest.mark.parametrize(
    "table",
    [
        {"columns": ["input", "output", "score"], "data": [["1 + 1 =", "2", 1.0]]},  # wandb, MLflow
        {"_type": "trackio.table", "_value": [{"prompt": "1 + 1 =", "completion": "2", "accuracy_reward": 1.0}]},
        [{"Question": "1 + 1 =", "generation": "2", "score": 1.0}],
        [{"_type": "trackio.trace", "metadata": {"score": 1.0}, "spans": [], "messages": [
            {"role": "user", "content": "1 + 1 ="}, {"role": "assistant", "content": "2"},
        ]}],
    ],
)  # fmt: skip
def test_tables_as_trackers_write_them(table):
    assert found(table) == [ROW]


def test_a_row_of_verls_table_for_wandb_is_many_responses():
    table = {
        "columns": ["step", "input_1", "output_1", "score_1", "input_2", "output_2", "score_2"],
        "data": [[10, "1 + 1 =", "2", 1.0, "2 + 2 =", "5", 0.0]],
    }

    assert found(table) == [
        {"step": 10} | ROW,
        {"step": 10, "prompt": "2 + 2 =", "response": "5", "reward": 0.0},
    ]


def trace(inputs, outputs, **others):
    """As MLflow's client writes one: what a span says is JSON within JSON."""
    attributes = {"mlflow.spanInputs": json.dumps(inputs), "mlflow.spanOutputs": json.dumps(outputs)}
    inner = {"parent_span_id": "a", "name": "inner", "attributes": {"mlflow.spanInputs": '"other"'}}
    return {"spans": [inner, {"parent_span_id": None, "name": "answer", "attributes": attributes} | others]}


@pytest.mark.parametrize(
    ("inputs", "outputs", "rows"),
    [
        ({"question": "1 + 1 ="}, {"answer": "2", "output": "3", "score": 0.0},
         [{"prompt": "1 + 1 =", "answer": "2", "response": "3", "reward": 0.0}]),
        ({"text": "1 + 1 ="}, "2", [{"prompt": "1 + 1 =", "response": "2"}]),
        ({"messages": [{"role": "user", "content": "q"}], "model": "m"}, {"choices": [{"message": {"content": "r"}}]},
         [{"prompt": [{"role": "user", "content": "q"}], "response": "r"}]),
        ({"a": 1, "b": 2}, {"sum": 3, "exact": True},
         [{"prompt": '{"a": 1, "b": 2}', "response": {"sum": 3, "exact": True}}]),
        ("x" * 2_000_000, "y" * 2_000_000, [{"prompt": "x" * 2_000_000, "response": "y" * 2_000_000}]),
    ],
)  # fmt: skip
def test_a_trace_of_mlflow_is_a_response(inputs, outputs, rows):
    assert found(trace(inputs, outputs)) == rows


@pytest.mark.parametrize(
    "spans",
    [
        [],
        ["text"],
        [{"parent_span_id": "a"}],
        [{"attributes": []}],
        [{"attributes": {"mlflow.spanInputs": "1"}}],
    ],
)
def test_a_trace_that_tells_nothing_holds_none(spans):
    assert found({"spans": spans}) == []


def test_many_values_within_a_value_are_left_as_they_are():
    many = "[" + "[]," * 400_000 + "0]"

    (row,) = found(
        trace({"x": 1}, {"y": 2}, attributes={"mlflow.spanInputs": many, "mlflow.spanOutputs": many})
    )

    assert row == {"prompt": many, "response": many}


@pytest.mark.parametrize(
    "table",
    [
        {"columns": ["x", "y"], "data": [[1, 2]]},
        {"columns": ["input", "output"], "data": [[1.5, 2.5]]},  # numbers to plot
        {"lr": 1e-6}, {"_type": "trackio.image"}, [1, 2], "text", None,
    ],
)  # fmt: skip
def test_other_values_hold_none(table):
    assert found(table) == []


def test_the_only_number_beside_trls_advantage_is_the_reward():
    row = {"step": 1, "prompt": "1 + 1 =", "completion": "2", "has_two": 1.0, "note": "n", "advantage": 0.5}

    assert found([row]) == [{"step": 1} | ROW | {"note": "n", "advantage": 0.5}]


def test_answers_may_be_numbers():
    """pandas reads them so where MLflow's client adds to a table."""
    assert found({"columns": ["inputs", "outputs"], "data": [["1 + 1 =", 2]]}) == [
        {"prompt": "1 + 1 =", "response": 2}
    ]


def test_of_several_reward_functions_none_is_the_reward():
    table = [{"prompt": "p", "completion": "c", "accuracy_reward": 1.0, "format_reward": 0.0}]

    assert found(table) == [{"prompt": "p", "response": "c", "accuracy_reward": 1.0, "format_reward": 0.0}]


def test_rows_may_have_other_columns_each():
    rows = [ROW, {"input": "q", "output": "a", "judge": "no\x07t"}, {"note": "alone"}]

    assert list(responses(rows)) == [
        ROW,
        {"prompt": "q", "response": "a", "judge": "no\x07t"},
        {"note": "alone"},
    ]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("rollouts/10.jsonl", ("rollouts", 10)),
        ("10.jsonl", ("table", 10)),
        ("val_step10.json", ("val", 10)),
        ("completions/completions_00010.parquet", ("completions/completions", 10)),
        ("logged/completions/10.json", ("logged/completions", 10)),
        ("media/val/generations_10.table.json", ("media/val/generations", 10)),
        ("eval_math500.json", ("eval_math500", None)),
        ("aime_24.json", ("aime_24", None)),
        ("eval_results_table.json", ("eval_results_table", None)),
    ],
)
def test_the_step_in_a_files_name(path, place):
    assert place_of(path) == place


def test_kinds_by_words():
    names = ["val_step10.json", "media/val/generations_7.table.json", "evals/1.jsonl", "Eval-results.json"]
    assert {kind_of(name) for name in names} == {"eval"}
    assert {kind_of(name) for name in ["completions", "rollouts/1.jsonl", "valuable.json"]} == {"train"}


def test_rows_by_their_own_step():
    rows = [{"step": 3, "a": 1}, {"step": -1, "a": 2}, {"a": 3}, {"step": 3.0, "a": 4}, {"step": 2.5}]

    assert by_step(rows, 7, 100) == {
        3: [{"a": 1}, {"a": 4}],
        7: [{"step": -1, "a": 2}, {"a": 3}, {"step": 2.5}],
    }


def test_lines_and_what_is_no_json():
    lines = b'{"input": "p", "output": "r"}\n\n[1]\n'
    assert list(rows_of("1.jsonl", io.BytesIO(lines))) == [{"input": "p", "output": "r"}]
    with pytest.raises(ValueError):
        list(rows_of("1.json", io.BytesIO(b"{")))


def test_parquet_as_trl_writes_it(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    row = {"step": 1, "prompt": [{"role": "user", "content": "p"}], "completion": "c", "my_reward": 0.5}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "completions_00001.parquet")
    (tmp_path / "2.json").write_text(json.dumps([ROW]))

    assert list(read(tmp_path / "completions_00001.parquet")) == [
        {"step": 1, "prompt": row["prompt"], "response": "c", "reward": 0.5}
    ]
    assert list(read(tmp_path / "2.json")) == [ROW]
