"""CSV: dialects, wide and long tables, the guess of the columns, and what is refused with its line."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.webapp.interfaces.imports.readers.reading import broken, rows_of, runs_of, written
from webapp.interfaces.imports.readers.kinds import guess_kind, preview
from webapp.interfaces.imports.readers.rows import BadSource, Options, ServerOptions
from webapp.interfaces.imports.readers.table_files import CsvTable

WIDE = "step,time,tokens,pass_rate,loss\n0,2026-01-01T00:00:00Z,0,0.1,nan\n10,2026-01-01T01:00:00Z,500,0.25,1.5\n"
LONG = "run,step,metric,value\na,1,loss,3\na,1,eval/pass_rate,0.5\nb,1,loss,4\na,2,loss,2\nb,2,loss,inf\n"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_dialects(tmp_path: Path, separator: str, mark: str) -> None:
    path = written(tmp_path, "runs.csv", mark + WIDE.replace(",", separator))
    first, second = rows_of("csv", path, devices=4)
    assert (first.line, first.step, first.metrics) == (2, 0, {"eval/pass_rate": 0.1, "loss": None})
    assert (second.line, second.step, second.metrics) == (3, 10, {"eval/pass_rate": 0.25, "loss": 1.5})
    assert second.compute == {"device_hours": 4.0, "flops": None, "tokens": 500.0}


def test_windows_lines_quotes_and_line_breaks_in_cells(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", 'step,"loss, mean",note\r\n1,0.5,"two\r\nlines"\r\n\r\n2,"0.25",x\r\n')
    rows = rows_of("csv", path)
    assert [(row.line, row.step, row.metrics) for row in rows] == [
        (2, 1, {"loss, mean": 0.5}), (5, 2, {"loss, mean": 0.25})
    ]  # fmt: skip


def test_a_long_table_gives_each_line_to_its_run(tmp_path: Path) -> None:
    runs = runs_of("csv", written(tmp_path, "long.csv", LONG))
    assert set(runs) == {"a", "b"}
    of_a = [(row.line, row.step, row.metrics) for row in runs["a"].rows()]
    assert of_a == [(2, 1, {"loss": 3.0}), (3, 1, {"eval/pass_rate": 0.5}), (5, 2, {"loss": 2.0})]
    assert [(row.line, row.metrics) for row in runs["b"].rows()] == [(4, {"loss": 4.0}), (6, {"loss": None})]


def test_compute_among_the_metrics_of_a_long_table_holds_for_its_step(tmp_path: Path) -> None:
    text = (
        "step,metric,value\n1,acc,0.5\n1,train/num_tokens,100\n2,acc,0.6\n3,train/num_tokens,300\n3,acc,0.7\n"
    )
    rows = rows_of("csv", written(tmp_path, "long.csv", text), columns={
        "step": "step", "metric": "metric", "value": "value", "pass_rate": "acc",
    })  # fmt: skip
    tokens = [(row.metrics.get("eval/pass_rate"), row.compute["tokens"]) for row in rows]
    assert tokens == [(0.5, 100.0), (None, 100.0), (0.6, None), (None, 300.0), (0.7, 300.0)]


def test_two_pass_rates_of_verl_in_a_long_table_are_none(tmp_path: Path) -> None:
    text = "step,metric,value\n1,val-core/a/acc/mean@4,0.5\n1,val-core/b/acc/mean@4,0.6\n"
    (run,) = runs_of("csv", written(tmp_path, "long.csv", text)).values()
    assert not any("eval/pass_rate" in row.metrics for row in run.rows())
    assert "Which is the pass rate is not clear" in run.notes[0]


def test_the_accuracy_reward_of_trl_is_the_pass_rate(tmp_path: Path) -> None:
    text = "step,eval/rewards/accuracy_reward/mean,train/num_tokens\n1,0.5,10\n2,0.6,20\n"
    rows = rows_of("csv", written(tmp_path, "wide.csv", text), columns={"step": "step"})
    found = [
        (row.metrics["eval/pass_rate"], row.metrics.get("eval/k"), row.compute["tokens"]) for row in rows
    ]
    assert found == [(0.5, None, 10.0), (0.6, None, 20.0)]


def test_a_percent_sign_is_left_out_and_decides_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "step,acc,share\n1,30%,5 %\n2,32.5%,6 %\n")
    columns = {"step": "step", "pass_rate": "acc"}
    rows = rows_of("csv", path, columns=columns, percent=True)
    assert [row.metrics for row in rows] == [
        {"eval/pass_rate": 0.3, "share": 5.0},
        {"eval/pass_rate": 0.325, "share": 6.0},
    ]
    assert "is 30, not between 0 and 1" in broken("csv", path, columns=columns).reason


def test_amounts_of_each_row_are_added_up(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "step,tokens,gpu_hours\n1,10,1.5\n2,5,\n3,7,2\n")
    columns = {"step": "step", "tokens": "tokens", "device_hours": "gpu_hours"}
    rows = rows_of("csv", path, columns=columns, per_row=("tokens",))
    assert [row.compute["tokens"] for row in rows] == [10, 15, 22]
    assert [row.compute["device_hours"] for row in rows] == [1.5, None, 2]


def test_without_a_step_rows_are_counted_when_the_person_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "loss,acc\n3,0.1\n2,0.2\n")
    assert "Say which column is what" in broken("csv", path).reason
    assert [row.step for row in rows_of("csv", path, columns={"pass_rate": "acc"})] == [1, 2]


def test_many_columns_are_compared_in_one_pass(tmp_path: Path) -> None:
    """Each with all before it took 5 s of CPU for a line of 130 kB."""
    path = written(tmp_path, "a.csv", ",".join(f"c{number}" for number in range(20_000)) + "\n")

    begin = time.process_time()
    CsvTable(path)
    assert time.process_time() - begin < 2


def test_a_column_of_text_is_left_out_and_said(tmp_path: Path) -> None:
    (run,) = runs_of("csv", written(tmp_path, "a.csv", "step,note,loss\n1,,1\n2,fine,2\n3,5,n/a\n")).values()
    assert [row.metrics for row in run.rows()] == [{"loss": 1.0}, {"loss": 2.0}, {}]
    assert run.notes == ['"note" is text ("fine" in line 3) and left out.']


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "The first line has to name the columns"),
        ("step,loss\n", None, "There are no rows"),
        ("step,loss,loss\n1,2,3\n", 1, 'Two columns are called "loss"'),
        ("step,loss\n1,2\n2,3,4\n", 3, "This row has 3 cells; there are 2 columns"),
        ("step;loss\n1;2\n2;0,5\n", 3, "numbers have a decimal point, and no comma"),
        ('step,loss\n1,"0,5"\n', 2, "numbers have a decimal point, and no comma"),
        ("step,loss\n1,2\n2,oops\n", 3, 'loss is "oops", which is no number'),
        ("step,loss\n1,1_000\n2,3\n3,4\n", None, ""),  # text, left out
        ("step,loss\n1.5,2\n", 2, 'A step is an integer from 0 to 9007199254740992, not "1.5"'),
        ("step,loss\n-1,2\n", 2, "A step is an integer"),
        ("step,loss\n,2\n", 2, "A step is an integer"),
        ("step,loss\n99999999999999999,2\n", 2, "A step is an integer"),
        ("step,tokens\n1,-5\n", 2, "tokens is -5, below 0"),
        ("step,pass_rate\n1,41\n", 2, "not between 0 and 1"),
        ("step,pass_rate,pass_rate_stderr\n1,0.4,-1\n", 2, "below 0"),
        ("step,time,loss\n1,2026-01-01 00:00:00,2\n", 2, "has no offset from UTC"),
        ("step,time,loss\n1,yesterday,2\n", 2, "is no time"),
        ("step,time,loss\n1,12,2\n", 2, "is no time"),
        ('step,loss\n1,"2\n', 2, "This is no row of a CSV file"),
        ("run,step,loss\na,1,2\n,2,3\n", 3, "The run has no name"),
        (f"step,{'x' * 251}\n1,2\n", None, "1 to 250 printable characters"),
        ("step,a\x07b\n1,2\n", None, "1 to 250 printable characters"),
        (f"step,metric,value\n1,{'x' * 251},2\n", 2, "1 to 250 printable characters"),
        ("step,loss\n1,2\n2,\0\n", 3, "null byte"),
        (b"step,loss\n1,2\n2,\xff\n", 3, "not UTF-8"),
        ("step,loss\n1,2\n".encode("utf-16"), 1, "UTF-16"),
        (b"step,loss\n" + b"1" * 5_000_000, 2, "longer than"),
    ],
)  # fmt: skip
def test_what_is_refused_names_line_and_reason(
    tmp_path: Path, text: str | bytes, line: int | None, reason: str
) -> None:
    path = written(tmp_path, "bad.csv", text)
    if not reason:
        assert all(row.metrics == {} for row in rows_of("csv", path))
        return
    error = broken("csv", path)
    assert (error.file, error.line) == ("bad.csv", line) and reason in error.reason
    assert str(error).startswith("bad.csv")


def test_rows_before_the_broken_one_are_given(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "step,loss\n1,2\n2,3\n3,oops\n")
    (run,) = runs_of("csv", path).values()
    rows = run.rows()
    assert [next(rows).step, next(rows).step] == [1, 2]
    with pytest.raises(BadSource):
        next(rows)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"step": "nope"}, 'There is no column "nope" for step'),
        ({"step": "step", "tokens": "step"}, "One column cannot be two things"),
        ({"step": "step", "pass_rate": "nope"}, "There is no column"),
    ],
)
def test_a_mapping_that_does_not_fit(tmp_path: Path, columns: dict[str, str], reason: str) -> None:
    assert reason in broken("csv", written(tmp_path, "a.csv", WIDE), columns=columns).reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": {"speed": "x"}}, {"columns": {"metric": "x"}}, {"per_row": ("loss",)}, {"devices": 0},
        {"devices": float("nan")}, {"timezone": "Mars/Olympus"}, {"timezone": "../../etc/passwd"},
    ],
)  # fmt: skip
def test_options_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Options(**wrong)


def test_options_keep_their_credentials_out_of_what_is_stored() -> None:
    said = {"columns": {"step": "s"}, "per_row": ("tokens",), "devices": 8}
    options = ServerOptions(**said, token="secret", user="me")
    assert "secret" not in repr(options)
    assert Options(**Options(**said).model_dump(mode="json")) == Options(**said)
    for wrong in ({"colour": "red"}, {"token": "secret"}):
        with pytest.raises(ValueError):
            Options(**wrong)


def test_the_preview_guesses_and_says_what_is_unclear(tmp_path: Path) -> None:
    text = "run,iteration,timestamp,tokens,accuracy\na,1,1760000000,50,0.1\na,2,1760000060,40,0.2\nb,1,1760000000,1,0\n"
    found = preview("csv", written(tmp_path, "a.csv", text), Options(devices=8))
    assert found.guess.columns == {"run": "run", "step": "iteration", "time": "timestamp", "tokens": "tokens"}
    assert found.guess.devices == 8 and found.columns[-1] == "accuracy"
    assert found.rows[0] == ("a", "1", "1760000000", "50", "0.1") and len(found.rows) == 3
    said = " ".join(found.unclear)
    assert "tokens falls" in said and "No column has the name of a pass rate" in said


def test_a_time_zone_for_times_without_offset(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "step,time\n1,2026-07-01 12:00:00\n")
    (row,) = rows_of("csv", path, timezone="Europe/Berlin")
    assert row.time is not None and row.time.isoformat() == "2026-07-01T12:00:00+02:00"


def test_a_clock_that_goes_back_adds_nothing(tmp_path: Path) -> None:
    times = ("2026-01-01T00:00Z", "2026-01-01T02:00Z", "2026-01-01T01:00Z", "2026-01-01T03:00Z")
    text = "step,time\n" + "".join(f"{step},{time}\n" for step, time in enumerate(times))
    rows = rows_of("csv", written(tmp_path, "a.csv", text), devices=2)
    assert [row.compute["device_hours"] for row in rows] == [0, 4, 4, 6]


def test_a_file_that_has_grown_gives_the_same_rows_first(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", LONG)
    before = {name: list(run.rows()) for name, run in runs_of("csv", path).items()}
    written(tmp_path, "a.csv", LONG + "c,1,loss,9\na,3,loss,1\n")
    after = {name: list(run.rows()) for name, run in runs_of("csv", path).items()}
    assert all(after[name][: len(rows)] == rows for name, rows in before.items())
    assert len(after["a"]) == 4 and set(after) == {"a", "b", "c"}


# --- a pass rate: which column, and in what


@pytest.mark.parametrize(
    "name",
    ["val_acc", "heldout_acc", "held-out accuracy", "test_accuracy", "eval_acc", "eval/math/accuracy", "Val/pass@1",
     "validation.solve_rate", "eval/acc/mean"],
)  # fmt: skip
def test_what_sounds_like_a_pass_rate_is_guessed_to_be_asked(tmp_path: Path, name: str) -> None:
    found = preview(
        "csv", written(tmp_path, "a.csv", f"step,train_acc,{name},stderr\n1,0.5,0.25,0.1\n"), Options()
    )
    assert found.asked == ("pass_rate", "pass_rate_stderr")
    assert found.guess.columns == {"step": "step", "pass_rate": name, "pass_rate_stderr": "stderr"}
    assert not found.guess.percent and f"Is {name} the held-out pass rate?" in " ".join(found.unclear)


@pytest.mark.parametrize(
    ("columns", "error"), [("val_acc_se", "val_acc_se"), ("stderr,val_acc_sem", "stderr"), ("x", None)]
)
def test_its_standard_error_is_guessed_with_it(tmp_path: Path, columns: str, error: str | None) -> None:
    cells = ",0.1" * len(columns.split(","))
    text = f"step,val_acc,{columns}\n1,0.5{cells}\n"
    found = preview("csv", written(tmp_path, "a.csv", text), Options())
    assert found.guess.columns.get("pass_rate_stderr") == error


@pytest.mark.parametrize(
    "name", ["acc", "train_acc", "eval_loss", "evalacc", "test_accuracy_loss", "rewards/acc"]
)
def test_what_does_not_is_not(tmp_path: Path, name: str) -> None:
    found = preview("csv", written(tmp_path, "a.csv", f"step,{name},stderr\n1,0.5,0.1\n"), Options())
    assert found.guess.columns == {"step": "step"} and found.asked == ()


@pytest.mark.parametrize(
    ("values", "percent"),
    [
        ("41.5 50", True),
        ("0.5 1.5", True),
        ("0.4 1", False),
        ("50 101", False),
        ("-1 50", False),
        ("nan x", False),
    ],
)
def test_percentages_are_recognised(tmp_path: Path, values: str, percent: bool) -> None:
    text = "step,pass_rate\n" + "".join(f"{step},{value}\n" for step, value in enumerate(values.split()))
    found = preview("csv", written(tmp_path, "a.csv", text), Options())
    assert found.guess.percent is percent and ("is it in percent?" in " ".join(found.unclear)) is percent


def test_percentages_are_stored_as_shares(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "step,acc,sem,loss\n1,41.5,2,3\n2,0.5,,50\n")
    columns = {"step": "step", "pass_rate": "acc", "pass_rate_stderr": "sem"}
    assert [row.metrics for row in rows_of("csv", path, columns=columns, percent=True)] == [
        {"eval/pass_rate": 0.415, "eval/pass_rate_stderr": 0.02, "loss": 3}, {"eval/pass_rate": 0.005, "loss": 50}
    ]  # fmt: skip
    assert "If it is in percent, say so" in broken("csv", path, columns=columns).reason


def test_what_is_no_percentage_is_refused(tmp_path: Path) -> None:
    error = broken("csv", written(tmp_path, "a.csv", "step,pass_rate\n1,50\n2,101\n"), columns={
        "step": "step", "pass_rate": "pass_rate",
    }, percent=True)  # fmt: skip
    assert error.line == 3 and "is 101, not between 0 and 100" in error.reason
    error = broken("csv", written(tmp_path, "b.csv", "step,acc\n1,50\n"), percent=True)
    assert "Say which metric is the pass rate" in error.reason


# --- long tables


def test_a_pass_rate_that_is_there_is_not_derived_again(tmp_path: Path) -> None:
    name = "val-core/gsm8k/acc/mean@4"
    text = "step,metric,value\n" + "".join(
        f"{s},eval/pass_rate,0.{s}\n{s},{name},0.{s}\n" for s in range(1, 4)
    )
    rows = rows_of("csv", written(tmp_path, "long.csv", text))
    assert [row.metrics for row in rows if "eval/pass_rate" in row.metrics] == [
        {"eval/pass_rate": share} for share in (0.1, 0.2, 0.3)
    ]


def test_a_pass_rate_that_is_named_takes_the_place_of_the_one_that_is_there(tmp_path: Path) -> None:
    text = "step,metric,value\n1,eval/pass_rate,0.9\n1,acc,0.5\n"
    columns = {"step": "step", "metric": "metric", "value": "value", "pass_rate": "acc"}
    (run,) = runs_of("csv", written(tmp_path, "long.csv", text), columns=columns).values()
    assert [row.metrics for row in run.rows()] == [{}, {"acc": 0.5, "eval/pass_rate": 0.5}]
    assert "eval/pass_rate of the source is left out" in run.notes[0]


def test_standard_errors_among_the_metrics_stand_beside_their_values(tmp_path: Path) -> None:
    text = (
        "step,metric,value\n1,acc,0.5\n1,acc_stderr,0.1\n1,loss,2\n2,sem,0.2\n2,acc,0.6\n3,lonely_stderr,1\n"
    )
    columns = {"step": "step", "metric": "metric", "value": "value"}
    path = written(tmp_path, "long.csv", text)
    named = {"pass_rate": "acc", "pass_rate_stderr": "sem"}
    assert [(row.line, row.metrics) for row in rows_of("csv", path, columns=columns)] == [
        (2, {"acc": 0.5, "acc_stderr": 0.1}), (4, {"loss": 2}), (5, {"sem": 0.2}), (6, {"acc": 0.6}),
        (7, {"lonely_stderr": 1}),
    ]  # fmt: skip
    rates = [row.metrics for row in rows_of("csv", path, columns=columns | named) if "acc" in row.metrics]
    assert rates[1] == {"acc": 0.6, "sem": 0.2, "eval/pass_rate": 0.6, "eval/pass_rate_stderr": 0.2}


def test_a_column_of_standard_errors_is_of_the_value_in_its_row(tmp_path: Path) -> None:
    text = "step,metric,value,stderr\n1,eval/pass_rate,0.5,0.1\n1,loss,2,\n1,kl,3,0.5\n"
    rows = rows_of("csv", written(tmp_path, "long.csv", text))
    assert [row.metrics for row in rows] == [
        {"eval/pass_rate": 0.5, "eval/pass_rate_stderr": 0.1}, {"loss": 2}, {"kl": 3, "kl_stderr": 0.5}
    ]  # fmt: skip


# --- charts of W&B


def chart(*names: str) -> str:
    return ",".join(f'"{name}{bound}"' for name in names for bound in ("", "__MIN", "__MAX"))


CHART = (
    f'"Step",{chart("grpo - seed 1 - eval/acc", "b - eval/acc", "b - _step")}\n'
    '"0","0.25","0.1","0.9","","","","","",""\n"10","0.5","0.5","0.5","0.75","0.7","0.8","10","10","10"\n'
)


def test_a_chart_of_wandb_is_one_run_for_each_of_its_runs(tmp_path: Path) -> None:
    path = written(tmp_path, "chart.csv", CHART)
    shown = preview("csv", path, Options())
    assert (guess_kind(path), shown.columns) == ("csv", ("run", "Step", "eval/acc"))
    assert shown.guess.columns == {"run": "run", "step": "Step", "pass_rate": "eval/acc"}

    runs = runs_of("csv", path, columns=shown.guess.columns)

    assert {
        name: [(row.line, row.step, row.metrics) for row in run.rows()] for name, run in runs.items()
    } == {
        "grpo - seed 1": [(2, 0, {"eval/pass_rate": 0.25}), (3, 10, {"eval/pass_rate": 0.5})],
        "b": [(3, 10, {"eval/pass_rate": 0.75})],
    }


def test_a_chart_over_another_axis_keeps_its_step(tmp_path: Path) -> None:
    text = f'"train/global_step",{chart("a - acc", "a - _step")}\n5,0.1,0.1,0.1,7,7,7\n'
    (row,) = rows_of("csv", written(tmp_path, "chart.csv", text))
    assert (row.step, row.metrics) == (5, {"acc": 0.1, "_step": 7})


def test_a_table_with_dashes_is_no_chart(tmp_path: Path) -> None:
    (row,) = rows_of("csv", written(tmp_path, "a.csv", "step,a - b,a - b__MIN\n1,2,3\n"))
    assert row.metrics == {"a - b": 2, "a - b__MIN": 3}
