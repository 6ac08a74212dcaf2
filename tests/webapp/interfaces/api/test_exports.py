"""Exports: every record, in each form, streamed; out and in again nothing is lost."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from tests.launching import tracked_run
from webapp.base.requests import Limit
from webapp.interfaces.api import auth
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Record
from webapp.record.runs.tokens import create_job_token


def body_of(response):
    assert response.status_code == 200, response.content
    return b"".join(response.streaming_content)


def lines_of(response):
    return [json.loads(line) for line in body_of(response).splitlines()]


def rows_of(response):
    return list(csv.DictReader(io.StringIO(body_of(response).decode())))


def parquet_of(response):
    return pq.ParquetFile(io.BytesIO(body_of(response)))


def counted(answer):
    """New records, and those that were stored already."""
    return answer.json()["accepted"], answer.json()["duplicates"]


@pytest.fixture
def reported(writer, tracked, record):
    """600 records: more than a page; one value was not finite, one metric never was, one time has microseconds."""
    records = [record(i, {"train/reward": 0.1 * i, "eval/pass_rate": 0.5, "a,b": 1.0}) for i in range(600)]
    records[5]["time"] = "2026-01-01T01:00:05.123456+01:00"
    records[7]["metrics"] = {"train/reward": None, "never": None, "train/reward_stderr": 0.25}
    assert writer.post(f"runs/{tracked.pk}/records", {"records": records}).status_code == 200
    return tracked


def test_jsonl_is_what_records_take_and_loses_nothing(writer, reader, reported, project, user):
    lines = lines_of(reader.get(f"runs/{reported.pk}/export", superseded="true"))
    copy = tracked_run(user=user, project=project, name="copy")

    assert lines[0]["about"] == {
        "name": reported.name, "task": reported.task, "model": reported.model, "seed": reported.seed,
        "state": "running", "config": {}, "meaning": {}, "superseded_after": {},
    }  # fmt: skip
    assert not any("about" in line for line in lines[1:])
    answer = writer.post(f"runs/{copy.pk}/records", {"records": lines})

    assert counted(answer) == (600, 0)
    columns = ("attempt", "seq", "step", "time", "compute", "metrics")
    stored = [
        list(Record.objects.filter(run=run).order_by("seq").values_list(*columns)) for run in (reported, copy)
    ]
    assert stored[0] == stored[1]
    assert lines[5]["time"] == "2026-01-01T00:00:05.123456Z"
    again = writer.post(f"runs/{reported.pk}/records", {"records": lines})
    assert counted(again) == (0, 600)


def test_csv_has_a_column_a_metric(reader, reported):
    response = reader.get(f"runs/{reported.pk}/export", format="csv")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == f'attachment; filename="{reported.pk}-records.csv"'

    rows = rows_of(response)

    assert list(rows[0]) == [
        "attempt", "seq", "step", "time", "device_hours", "flops", "tokens",
        "a,b", "eval/pass_rate", "never", "train/reward", "train/reward_stderr", "about",
    ]  # fmt: skip
    assert json.loads(rows[0]["about"])["name"] == reported.name and rows[1]["about"] == ""
    assert len(rows) == 600
    assert rows[3]["train/reward"] == repr(0.1 * 3)
    assert rows[3]["time"] == "2026-01-01T00:00:00.000Z"
    assert (rows[7]["train/reward"], rows[7]["train/reward_stderr"], rows[7]["a,b"]) == ("", "0.25", "")


def test_a_long_table_has_a_row_a_value(reader, reported):
    rows = rows_of(reader.get(f"runs/{reported.pk}/export", format="csv", shape="long"))

    assert len(rows) == 600 * 3
    first = {row["metric"]: (row["seq"], row["value"]) for row in rows[3:6]}
    assert first == {"train/reward": ("1", "0.1"), "eval/pass_rate": ("1", "0.5"), "a,b": ("1", "1.0")}


def test_parquet_has_types_and_row_groups(reader, reported):
    file = parquet_of(reader.get(f"runs/{reported.pk}/export", format="parquet"))
    table = file.read().to_pydict()

    assert {field.name: str(field.type) for field in file.schema_arrow} == {
        "attempt": "int64", "seq": "int64", "step": "int64", "time": "timestamp[us, tz=UTC]",
        "device_hours": "double", "flops": "double", "tokens": "double", "a,b": "double", "eval/pass_rate": "double",
        "never": "double", "train/reward": "double", "train/reward_stderr": "double",
        "about": "string",
    }  # fmt: skip
    assert json.loads(table["about"][0])["seed"] == reported.seed and table["about"][1] is None
    assert table["seq"] == list(range(600))
    assert table["train/reward"][5:9] == [0.5, 0.1 * 6, None, 0.8]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_only_what_was_asked_for(reader, reported, form):
    response = reader.get(f"runs/{reported.pk}/export", format=form, metric=["never", "nowhere"])

    if form == "jsonl":
        assert [line["metrics"] for line in lines_of(response)] == [{"never": None}]
    elif form == "csv":
        assert [(row["seq"], row["never"], row["nowhere"]) for row in rows_of(response)] == [("7", "", "")]
    else:
        assert parquet_of(response).read(["seq", "never"]).to_pydict() == {"seq": [7], "never": [None]}


def test_metrics_of_which_none_was_reported_are_named_with_the_nearest(reader, reported, problem):
    answer = reader.get(f"runs/{reported.pk}/export", metric=["train/rewards", "nowhere"])

    message = f'Run {reported.pk} has no metric train/rewards; did you mean "train/reward"?'
    assert problem(answer) == (404, "not_found", "metric", message)
    assert reader.get(f"runs/{reported.pk}/export", metric="never").status_code == 200


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_run_without_records_gives_an_empty_file(reader, tracked, form):
    response = reader.get(f"runs/{tracked.pk}/export", format=form)

    if form == "parquet":
        assert parquet_of(response).metadata.num_rows == 0
    else:
        assert len(body_of(response).splitlines()) == (1 if form == "csv" else 0)


def test_superseded_records_are_left_out_unless_asked_for(writer, reader, tracked, record):
    first = [record(i, {"a": 1.0}) for i in range(10)]
    second = [record(i, {"a": 2.0}, attempt=2) for i in range(5, 8)]
    writer.post(f"runs/{tracked.pk}/records", {"records": first + second})
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=4)

    effective = lines_of(reader.get(f"runs/{tracked.pk}/export"))
    every = lines_of(reader.get(f"runs/{tracked.pk}/export", superseded="true"))

    assert [(line["attempt"], line["step"]) for line in effective] == [
        *((1, step) for step in range(5)), *((2, step) for step in range(5, 8)),
    ]  # fmt: skip
    assert len(every) == 13


def test_a_metric_named_like_a_column_or_a_formula_harms_nothing(writer, reader, tracked, record):
    writer.post(f"runs/{tracked.pk}/records", {"records": [record(3, {"step": 1.5, "=1+1": 2.0})]})

    (row,) = rows_of(reader.get(f"runs/{tracked.pk}/export", format="csv"))

    assert (row["step"], row["metric.step"], row["'=1+1"]) == ("3", "1.5", "2.0")


def test_too_many_metrics_for_columns_are_said_not_cut(writer, reader, tracked, record, problem):
    batches = [[record(b, {f"m{b}.{i}": 1.0 for i in range(1000)})] for b in range(3)]
    for batch in batches:
        assert writer.post(f"runs/{tracked.pk}/records", {"records": batch}).status_code == 200

    wide = reader.get(f"runs/{tracked.pk}/export", format="parquet")
    long = reader.get(f"runs/{tracked.pk}/export", format="parquet", shape="long")

    assert problem(wide)[:3] == (422, "invalid_input", "metric")
    assert parquet_of(long).metadata.num_rows == 3000


def test_an_export_reads_page_by_page(reader, reported, django_assert_num_queries):
    reader.get("runs")  # the token's use is noted once a minute

    with django_assert_num_queries(6):  # token, run, its newest seq, three pages
        body_of(reader.get(f"runs/{reported.pk}/export"))


def test_a_project_as_one_file(writer, reader, reported, tracked, project, user, record):
    other = tracked_run(user=user, project=project, name="other", task="code", config={"loss": "cispo"})
    writer.post(f"runs/{other.pk}/records", {"records": [record(1, {"eval/pass_rate": 0.25})]})

    runs = lines_of(reader.get("export", content="runs", filter="task:code"))
    curves = rows_of(reader.get("export", format="csv"))
    records = lines_of(reader.get("export", content="records", filter=f"id:{other.pk}"))
    named = parquet_of(reader.get("export", format="parquet", metric="train/reward", filter="task:math"))

    assert [(run["id"], run["config"]) for run in runs] == [(other.pk, {"loss": "cispo"})]
    assert curves[0]["run"] == other.pk
    assert (curves[0]["value"], curves[0]["device_hours"], len(curves)) == ("0.25", "0.1", 600)
    assert [(line["run"], line["seq"], line["metrics"]) for line in records] == [
        (other.pk, 1, {"eval/pass_rate": 0.25})
    ]
    assert named.metadata.num_rows == 599


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("content", ["runs", "curves", "records"])
def test_each_content_is_a_table_too(reader, reported, content, form):
    response = reader.get("export", content=content, format=form)

    rows = rows_of(response) if form == "csv" else parquet_of(response).read().to_pylist()

    assert len(rows) == {"runs": 1, "curves": 599, "records": 1800}[content]
    if content == "runs":
        assert (rows[0]["id"], json.loads(rows[0]["config"])) == (reported.pk, {})


def test_a_project_never_has_the_runs_of_another(reader, stranger, reported):
    assert lines_of(stranger.get("export", content="runs")) == []
    assert stranger.get(f"runs/{reported.pk}/export").status_code == 404


def test_a_wrong_filter_or_form_is_named(reader, reported, problem):
    assert problem(reader.get("export", filter="speed > 3"))[:3] == (422, "invalid_input", "filter")
    assert problem(reader.get("export", content="all"))[:3] == (422, "invalid_input", "content")
    assert problem(reader.get(f"runs/{reported.pk}/export", format="xml"))[:3] == (
        422,
        "invalid_input",
        "format",
    )


def test_exports_are_limited_and_say_how_long_to_wait(reader, reported, problem, monkeypatch):
    monkeypatch.setattr(auth.READ_WHOLE, "limit", Limit(1, 86_400))
    assert reader.get(f"runs/{reported.pk}/export").status_code == 200

    refused = reader.get(f"runs/{reported.pk}/export")

    assert problem(refused)[:2] == (429, "too_many_requests")
    assert int(refused["Retry-After"]) > 0


def test_the_token_of_a_run_exports_nothing(project, tracked):
    from tests.webapp.interfaces.api.conftest import ApiClient

    client = ApiClient(create_job_token(tracked))

    assert client.get(f"runs/{tracked.pk}/export").status_code == 403
