"""Curves, series, fits, figure, comparison and leaderboard over HTTP."""

import csv
import io

import numpy as np
import pytest

from tests.webapp.interfaces.pages.data import mixture_records
from webapp.record.runs.models import Run
from webapp.science.curves import services
from webapp.science.curves.record.keeping import keep_record
from webapp.science.curves.record.recalibrating import note_changed


@pytest.fixture
def evaluated(writer, tracked, record):
    """A run with 40 evaluations along Eq. 1, reported over HTTP, and its stored fit."""
    rng = np.random.default_rng(0)
    hours = [0.0, *np.geomspace(0.1, 8.0, 40)]
    rates = [0.2 + 0.4 / (1 + h**-2.0) if h else 0.2 for h in hours]
    records = [
        record(
            i,
            {"eval/pass_rate": rate + 0.003 * rng.standard_normal(), "eval/pass_rate_stderr": 0.01},
            compute={"device_hours": hour, "flops": 1e15 * hour, "tokens": 1e6 * hour},
        )
        for i, (hour, rate) in enumerate(zip(hours, rates, strict=True))
    ]
    assert writer.post(f"runs/{tracked.pk}/records", {"records": records}).status_code == 200
    services.refit(tracked.pk)
    return tracked


def rows_of(response):
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(response.content.decode())))


def test_the_curve_has_every_point(reader, evaluated):
    body = reader.get(f"runs/{evaluated.pk}/curve").json()

    assert (body["total"], len(body["points"])) == (41, 41)
    assert body["points"][0]["compute"] == 0
    assert body["points"][-1] == {
        "compute": pytest.approx(8.0), "value": pytest.approx(0.59, abs=0.02), "stderr": 0.01, "step": 40, "attempt": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("x", "last"), [("flops", 8e15), ("tokens", 8e6), ("step", 40)])
def test_the_curve_on_other_axes(reader, evaluated, x, last):
    points = reader.get(f"runs/{evaluated.pk}/curve", x=x).json()["points"]

    assert points[-1]["compute"] == pytest.approx(last)


def test_the_curve_as_csv_is_what_scaling_fit_reads(reader, evaluated):
    rows = rows_of(reader.get(f"runs/{evaluated.pk}/curve", format="csv", start="false"))

    assert len(rows) == 40
    assert all(float(row["compute"]) > 0 and row["reward"] == row["value"] for row in rows)


def test_a_curve_has_the_same_names_in_json_and_csv(reader, evaluated):
    point = reader.get(f"runs/{evaluated.pk}/curve").json()["points"][-1]
    row = rows_of(reader.get(f"runs/{evaluated.pk}/curve", format="csv"))[-1]

    assert {name: float(row[name]) for name in point} == point


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("curve", {"x": "money"}, "x"),
        ("curve", {"format": "xml"}, "format"),
        ("series", {"points": 5}, "points"),
        ("figure", {"cutoff": -1}, "cutoff"),
        ("figure", {"cutoff": "nan"}, "cutoff"),
        ("figure", {"level": 2}, "level"),
    ],
)
def test_bad_questions_name_the_field(reader, evaluated, problem, path, query, field):
    assert problem(reader.get(f"runs/{evaluated.pk}/{path}", **query))[:3] == (422, "invalid_input", field)


@pytest.mark.parametrize("path", ["curve", "series"])
@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        ("eval/pass_rat", 'did you mean "eval/pass_rate"?'),
        ("nothing", "its metrics are listed beside it, under /metrics."),
        ("a\u2028" * 500, "its metrics are listed beside it, under /metrics."),
    ],
)
def test_an_unknown_metric_is_named_with_the_nearest(reader, evaluated, problem, path, metric, hint):
    status, code, field, message = problem(reader.get(f"runs/{evaluated.pk}/{path}", metric=metric))

    assert (status, code, field) == (404, "not_found", "metric")
    assert message == f"Run {evaluated.pk} has no metric {metric[:300]}; {hint}"


def test_a_run_without_evaluations_has_an_empty_curve(reader, tracked):
    assert reader.get(f"runs/{tracked.pk}/curve").json()["total"] == 0
    assert reader.get(f"runs/{tracked.pk}/series").json()["total"] == 0


def test_limit_and_cursor_hold_for_csv_too(reader, writer, evaluated, record, problem):
    for step in (41, 42):
        compute = {"device_hours": 0.2 * step, "flops": 2e14 * step, "tokens": 2e5 * step}
        later = record(step, {"eval/pass_rate": 0.6}, compute=compute)
        assert writer.post(f"runs/{evaluated.pk}/records", {"records": [later]}).status_code == 200
        services.refit(evaluated.pk)
    ids = [str(item["id"]) for item in reader.get("fits").json()["items"]]
    page = reader.get("fits", limit=1).json()

    def table(path, **query):
        return [row["id"] for row in rows_of(reader.get(path, format="csv", **query))]

    assert table("fits") == table(f"runs/{evaluated.pk}/fits") == ids and len(ids) == 3
    assert table("fits", limit=1) == ids[:1]
    assert table("fits", limit=1, cursor=page["next"]) == ids[1:2]
    assert table("fits", cursor=page["next"]) == ids[1:]
    assert problem(reader.get("fits", format="csv", limit=0))[2] == "limit"
    assert problem(reader.get("fits", format="csv", cursor="x"))[2] == "cursor"


def test_the_series_says_whether_and_how_it_was_sampled(reader, evaluated):
    whole = reader.get(f"runs/{evaluated.pk}/series", metric="eval/pass_rate").json()
    sampled = reader.get(f"runs/{evaluated.pk}/series", metric="eval/pass_rate", points=10).json()

    assert (whole["sampled"], whole["method"], whole["shown"]) == (False, "every point", 41)
    assert sampled["sampled"] is True
    assert "minimum and maximum" in sampled["method"]
    assert sampled["shown"] == len(sampled["points"]) <= 10
    assert sampled["total"] == 41


def test_a_window_of_a_series_comes_whole(reader, evaluated):
    body = reader.get(f"runs/{evaluated.pk}/series", metric="eval/pass_rate", points=10, lo=4, hi=9).json()

    assert body["sampled"] is False
    assert all(4 <= point["step"] <= 9 for point in body["points"])
    assert {tuple(point["roles"]) for point in body["points"]} == {()}


def test_series_of_many_runs_in_columns(reader, evaluated, tracked, problem):
    query = {"metric": "eval/pass_rate", "points": 10, "run": [evaluated.pk, tracked.pk, evaluated.pk]}

    (item,) = reader.get("series", **query).json()["items"]
    one = reader.get(f"runs/{evaluated.pk}/series", metric="eval/pass_rate", points=10).json()

    assert (item["run"], item["total"], item["method"]) == (evaluated.pk, 41, one["method"])
    assert item["value"] == [point["value"] for point in one["points"]]
    for role in ("last", "min", "max"):
        assert item[role] == [i for i, point in enumerate(one["points"]) if role in point["roles"]]
    by_hours = {"metric": "eval/pass_rate", "points": 10, "x": "device_hours"}
    columns = reader.get("series", run=evaluated.pk, **by_hours).json()["items"][0]["compute"]
    points = reader.get(f"runs/{evaluated.pk}/series", **by_hours).json()["points"]
    assert columns == [point["compute"] for point in points]
    assert problem(reader.get("series", run="nothing"))[:2] == (404, "not_found")


def test_panels_over_any_x_and_a_part_of_it(reader, evaluated, problem):
    asked = {"run": evaluated.pk, "metric": "eval/pass_rate"}
    line = lambda **more: reader.get("panels", **asked, **more).json()["panels"][0]["lines"][0]

    assert line(lo=4, hi=9)["x"] == line()["x"][3:11]  # and one beyond each end
    assert line(x="wall_clock")["x"][0] == 0
    assert line(x="eval/pass_rate")["x"] == pytest.approx(sorted(line()["y"]), rel=1e-4)
    status, code, field, message = problem(reader.get("panels", **asked, x="eval/pass_rat"))
    assert (status, code, field) == (
        422,
        "invalid_input",
        "x",
    ) and 'did you mean "eval/pass_rate"?' in message


def test_metric_names(reader, evaluated):
    assert reader.get(f"runs/{evaluated.pk}/metrics").json() == {"items": ["eval/pass_rate"], "next": None}


def test_fits_as_json_and_csv(reader, evaluated):
    listed = reader.get(f"runs/{evaluated.pk}/fits").json()
    (item,) = listed["items"]
    (row,) = rows_of(reader.get("fits", run=evaluated.pk, format="csv"))

    assert item == reader.get(f"fits/{item['id']}").json() == reader.get("fits").json()["items"][0]
    assert item["status"] == "ok"
    assert len(item["data_digest"]) == 64
    assert row["data_digest"] == item["data_digest"]
    assert float(row["A_lo"]) < float(row["A"]) < float(row["A_hi"])


def test_a_fit_has_the_forecast_from_the_same_points(reader, evaluated):
    (item,) = reader.get("fits").json()["items"]
    (row,) = rows_of(reader.get("fits", format="csv"))

    forecast = item["forecast"]
    assert (forecast["status"], forecast["level"], forecast["recalibrated_by"]) == ("ok", 0.9, 1.0)
    assert forecast["seen"] == pytest.approx(8.0)
    assert forecast["interval"][0] < forecast["ceiling"] < forecast["interval"][1]
    assert [forecast["multiples"][times]["compute"] for times in ("2", "4", "10")] == pytest.approx(
        [16, 32, 80]
    )
    assert len(forecast["compute"]) == len(forecast["value"]) == len(forecast["lo"]) == len(forecast["hi"])
    assert (row["forecast_status"], float(row["forecast_lo"])) == ("ok", forecast["interval"][0])
    assert list(row)[-5:] == [
        "created_at",
        "forecast_status",
        "forecast_ceiling",
        "forecast_lo",
        "forecast_hi",
    ]


def test_a_fit_changes_its_etag_with_the_record(reader, evaluated):
    fit = reader.get("fits").json()["items"][0]["id"]
    before = reader.get(f"fits/{fit}")["ETag"]
    assert reader.get(f"fits/{fit}")["ETag"] == before

    note_changed(evaluated.project)

    assert reader.get(f"fits/{fit}")["ETag"] != before


def test_the_record_of_forecasts(reader, evaluated, stranger):
    Run.objects.filter(pk=evaluated.pk).update(state="succeeded")
    assert reader.get("forecasts/record").json()["waiting"] == 1
    keep_record(evaluated.pk)

    found = reader.get("forecasts/record", task=evaluated.task).json()

    assert (found["runs"], found["forecasts"], found["waiting"], found["recalibrates"]) == (1, 4, 0, True)
    assert found["factors"] == {"0.5": None, "0.8": None, "0.9": None}
    assert [row["method"] for row in found["methods"]] == ["forecast", "last", "eq1", "paper"]
    assert {row["key"] for row in found["by"]["share"]} == {"0.25", "0.375", "0.5", "0.75"}
    assert reader.get("forecasts/record", task="none").json()["forecasts"] == 0
    assert stranger.get("forecasts/record").json()["forecasts"] == 0


def test_fits_of_others_do_not_exist(stranger, reader, evaluated, problem):
    fit = reader.get("fits").json()["items"][0]["id"]

    assert problem(stranger.get(f"fits/{fit}"))[:2] == (404, "not_found")
    assert problem(stranger.get("fits", run=evaluated.pk))[:2] == (404, "not_found")
    assert stranger.get("fits").json()["items"] == []
    assert problem(reader.get(f"fits/{10**30}"))[:2] == (404, "not_found")


def test_the_figure_answers_204_when_nothing_is_new(reader, evaluated):
    version = Run.objects.get(pk=evaluated.pk).version

    assert reader.get(f"runs/{evaluated.pk}/figure", since=version).status_code == 204
    assert reader.get(f"runs/{evaluated.pk}/figure", since=version - 1).json()["version"] == version


def test_the_leaderboard_as_json_and_csv(reader, evaluated):
    groups = reader.get("leaderboard").json()["groups"]
    rows = rows_of(reader.get("leaderboard", format="csv", published="false"))

    assert groups[0]["rows"][0]["runs"] == [evaluated.pk]
    assert any(row["published"] for group in groups for row in group["rows"])
    (row,) = rows
    assert (row["recipe"], row["runs"]) == ("elsewhere", evaluated.pk)
    assert float(row["lo"]) < float(row["A"]) < float(row["hi"])
    assert float(row["c90_lo"]) < float(row["c90"]) < float(row["c90_hi"])
    (same,) = rows_of(reader.get("leaderboard", format="csv", published="false", task=row["task"], budget=4))
    assert float(same["at_budget_lo"]) < float(same["at_budget"]) < float(same["at_budget_hi"])
    assert reader.get("leaderboard", task="chess", published="false").json()["groups"] == []


def test_compare(reader, evaluated, problem):
    body = reader.get("compare", run=[evaluated.pk], reference=["scalerl"], view="share").json()

    assert [row["label"] for row in body["table"]][1] == "ScaleRL (published)"
    assert problem(reader.get("compare"))[:3] == (422, "invalid_input", "run")
    assert problem(reader.get("compare", run=["nothing"]))[0] == 404
    assert problem(reader.get("compare", run=[evaluated.pk], reference=["nothing"]))[0] == 404
    assert problem(reader.get("compare", recipe=["nothing@1"]))[0] == 404
    assert problem(reader.get("compare", run=[evaluated.pk], budget=-1))[:3] == (
        422,
        "invalid_input",
        "budget",
    )


def test_compare_at_a_budget_and_by_slopes(reader, evaluated):
    body = reader.get("compare", run=[evaluated.pk], view="slope", by="recipe", budget=4).json()

    assert body["series"][0]["fit"]["y"]
    (row,) = body["odds"]["rows"]
    assert row["lo"] < row["value"] < row["hi"]


@pytest.fixture
def mixture(writer, tracked):
    """A run on a mixture of two tasks, fitted."""
    records = [entry.model_dump() for entry in mixture_records(0, 30)]
    assert writer.post(f"runs/{tracked.pk}/records", {"records": records}).status_code == 200
    services.refit(tracked.pk)
    return tracked


def test_fits_of_a_mixture_name_their_curves(reader, mixture):
    names = lambda **query: sorted(
        fit["metric"] for fit in reader.get(f"runs/{mixture.pk}/fits", **query).json()["items"]
    )

    assert names() == ["eval/code/pass_rate", "eval/math/pass_rate", "eval/pass_rate"]
    assert names(metric="eval/math/pass_rate") == ["eval/math/pass_rate"]
    assert names(metric="eval/art/pass_rate") == []


def test_the_figure_of_a_part(reader, mixture, problem):
    body = reader.get(f"runs/{mixture.pk}/figure", metric="eval/math/pass_rate").json()

    assert body["metric"] == "eval/math/pass_rate"
    assert body["ceiling"]["lo"] < 0.5 < body["ceiling"]["hi"]
    assert len(body["curves"]) == 3
    for wrong in ("train/reward", "eval/\0/pass_rate"):
        assert problem(reader.get(f"runs/{mixture.pk}/figure", metric=wrong))[:3] == (
            422,
            "invalid_input",
            "metric",
        )


def test_many_curves_have_every_point_in_columns(reader, evaluated, django_assert_max_num_queries):
    with django_assert_max_num_queries(4):
        body = reader.get(f"curves?run={evaluated.pk}&run={evaluated.pk}&x=tokens").json()
    alone = reader.get(f"runs/{evaluated.pk}/curve?x=tokens").json()["points"]

    (curve,) = body["items"]
    assert curve["run"] == evaluated.pk
    for column in ("step", "compute", "value", "stderr"):
        assert curve[column] == [point[column] for point in alone]
    assert len(curve["time"]) == len(alone)


def test_many_curves_have_the_columns_that_are_named(reader, evaluated, problem):
    whole = reader.get(f"curves?run={evaluated.pk}").json()["items"][0]
    some = reader.get(f"curves?run={evaluated.pk}&column=value&column=time&column=value").json()["items"][0]
    empty = reader.get(f"curves?run={evaluated.pk}&column=value&metric=nothing").json()["items"][0]

    assert some == {name: whole[name] for name in ("run", "value", "time")}
    assert empty == {"run": evaluated.pk, "value": []}
    assert problem(reader.get(f"curves?run={evaluated.pk}&column=vale"))[:3] == (
        422,
        "invalid_input",
        "column.0",
    )


def test_many_curves_of_an_unknown_series_are_empty(reader, evaluated):
    body = reader.get(f"curves?run={evaluated.pk}&metric=nothing").json()

    assert body["items"][0]["value"] == []


@pytest.mark.parametrize(
    ("query", "status"), [("run=unknown", 404), ("", 422), ("&".join(["run=a"] * 101), 422)]
)
def test_many_curves_refuse_what_is_not_there(reader, query, status):
    assert reader.get(f"curves?{query}").status_code == status
