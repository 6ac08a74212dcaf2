"""The runs list as CSV and JSON: all that the filter leaves, in its order, with the columns that are shown."""

import csv
import io
import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.webapp.interfaces.pages.test_run_list import many  # noqa: F401 (fixture)
from webapp.base.errors import InvalidInput
from webapp.interfaces.pages.run_list import export, listing
from webapp.interfaces.pages.run_list.columns import COLUMNS
from webapp.record.runs.filtering import compile_filter
from webapp.record.runs.models import Run, Summary


def body(response):
    return b"".join(response.streaming_content).decode()


def table(response):
    assert response.status_code == 200, response.content
    return list(csv.DictReader(io.StringIO(body(response), newline="")))


def test_the_list_links_to_files_of_what_it_shows(ada, many):  # noqa: F811
    many(60)

    page = ada.get("/runs?filter=seed<55&sort=seed&columns=name,seed&page=2").content.decode()

    links = re.findall(r'href="(/runs\.(?:csv|json)\?[^"]+)" download', page)
    assert [link.partition("?")[0] for link in links] == ["/runs.csv", "/runs.json"]
    rows = table(ada.get(links[0].replace("&amp;", "&")))
    assert [row["seed"] for row in rows] == [str(seed) for seed in range(55)]
    assert [row["seed"] for row in json.loads(body(ada.get(links[1].replace("&amp;", "&"))))["runs"]] == list(
        range(55)
    )


def test_columns_of_the_list_are_columns_of_the_file(ada, many):  # noqa: F811
    run = many(1)[0]

    (row,) = table(ada.get("/runs.csv?columns=name,latest,used,ceiling,config.lr"))

    assert row == {
        "id": run.pk, "name": "run 000", "recipe": "scalerl", "revision": "1", "tags": "t", "archived_at": "",
        "pass_rate": "0.3", "pass_rate_stderr": "", "used_device_hours": "1.0", "budget_device_hours": "",
        "ceiling_identified": "True", "ceiling": "0.4", "ceiling_lo": "0.3", "ceiling_hi": "0.5",
        "ceiling_level": "0.9", "config.lr": "0.0",
    }  # fmt: skip


def test_every_column_has_its_place_in_a_file(ada, many):  # noqa: F811
    many(2)
    keys = ",".join(column.key for column in COLUMNS)

    rows = json.loads(body(ada.get(f"/runs.json?columns={keys}")))["runs"]

    assert set(export.PARTS) == {column.key for column in COLUMNS}
    assert set(rows[0]) == set(export.PART)
    assert rows[0]["alarms"] == [] and rows[0]["tags"] == ["t"] and rows[0]["state"] == "succeeded"


def test_a_ceiling_that_is_not_known_has_its_interval_alone(ada, many):  # noqa: F811
    run = many(1)[0]
    Summary.objects.filter(run=run).update(
        fit_status="not_identified", tail=0.7, ceiling=None, ceiling_lo=0.52, ceiling_hi=0.8
    )

    (row,) = json.loads(body(ada.get("/runs.json?columns=ceiling")))["runs"]

    assert (row["ceiling_identified"], row["ceiling"], row["ceiling_lo"], row["ceiling_hi"]) == (
        False, None, 0.52, 0.8,
    )  # fmt: skip


def test_no_text_of_a_run_becomes_a_formula(ada, many):  # noqa: F811
    run = many(1)[0]
    Run.objects.filter(pk=run.pk).update(name="=HYPERLINK(1)", config={"a": "@SUM(1)"})

    (row,) = table(ada.get("/runs.csv?columns=name,config.a"))

    assert (row["name"], row["config.a"]) == ("'=HYPERLINK(1)", "'@SUM(1)")


def test_a_wrong_filter_says_where(ada, many):  # noqa: F811
    many(1)

    text = ada.get("/runs.csv?filter=ceiling>>1")
    said = ada.get("/runs.json?filter=ceiling>>1")

    assert (text.status_code, text["Content-Type"]) == (422, "text/plain; charset=utf-8")
    assert "character 9" in text.content.decode()
    assert said.status_code == 422 and said.json()["error"]["field"] == "filter"


def test_more_runs_than_asked_for_are_refused_not_cut_off(project, many):  # noqa: F811
    many(4)

    with pytest.raises(InvalidInput, match="More than 3 runs fit"):
        export.ids_of(project, listing.ListState(), compile_filter("", user=None), most=3)

    assert len(export.ids_of(project, listing.ListState(), compile_filter("", user=None), most=4)) == 4


def test_a_thousand_runs_cost_few_queries(ada, many):  # noqa: F811
    many(3)
    with CaptureQueriesContext(connection) as few:
        table(ada.get("/runs.csv"))
    many(2 * export.BATCH)

    with CaptureQueriesContext(connection) as captured:
        rows = table(ada.get("/runs.csv"))

    assert len(rows) == 2 * export.BATCH + 3
    assert (
        len(captured) == len(few) + 2 * 3
    )  # two further batches: runs, their alarms and the record of forecasts
    assert not any("runs_point" in q["sql"] or "runs_record" in q["sql"] for q in captured)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_files_of_an_empty_list(ada, project, form):
    text = body(ada.get(f"/runs.{form}?filter=name:nothing"))

    assert (text.count("\n") == 1) if form == "csv" else (json.loads(text)["runs"] == [])


def test_the_pages_of_a_list_part_every_run_once(ada, many):  # noqa: F811
    """Equal values do not move runs from page to page: every order is total."""
    Run.objects.bulk_update([run for run in many(120) if not setattr(run, "seed", 7)], ["seed"])

    seen = [
        pk
        for page in (1, 2, 3)
        for pk in re.findall(r'data-run="([^"]+)"', ada.get(f"/runs?sort=seed&page={page}").content.decode())
    ]

    assert len(seen) == len(set(seen)) == 120
    assert listing.PAGE_SIZE == 50
