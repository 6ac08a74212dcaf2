"""A shared chart as data, compared with the payloads of `webapp.science.curves`."""

import dataclasses
import json

import pytest

from tests.webapp.interfaces.pages.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)
from webapp.reporting.shares.drawing import Target, comparison_drawing, run_drawing, x_range, y_range
from webapp.science.curves.comparison.compare import comparison
from webapp.science.curves.fitting import Question
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.run.figure import run_figure

pytestmark = pytest.mark.django_db


def drawn(run, scale="log", **question):
    figure = run_figure(run, Question(**question))
    return figure, run_drawing(run, figure, scale)


def test_a_run_is_drawn_as_its_page_draws_it(make_run):  # noqa: F811
    figure, drawing = drawn(make_run(30), cutoff=4.0)

    forecast = figure["forecast"]["drawn"]
    assert [line.style for line in drawing.lines] == ["solid", "dashed"]
    assert drawing.lines[0].x == forecast["solid"]["x"]
    assert drawing.lines[1].y == forecast["dashed"]["y"]
    assert drawing.bands[0].lo == forecast["band"]["lo"]
    assert drawing.window == tuple(figure["fit"]["window"])
    by_role = {points.role: len(points.x) for points in drawing.points}
    assert sum(by_role.values()) == len(figure["points"]["x"])
    assert by_role["after"] == figure["points"]["role"].count("after") > 0


def test_the_ceiling_is_never_without_its_interval(make_run):  # noqa: F811
    figure, drawing = drawn(make_run(30))

    forecast, paper = figure["forecast"]["ceiling"], figure["ceiling"]
    assert drawing.ceiling.height == forecast["value"]
    assert forecast["interval_text"] in drawing.ceiling.words
    assert forecast["interval_text"] in drawing.sentences[0]
    assert drawing.sentences[1] == f"A of Eq. 1 {paper['text']}, {paper['interval_text']}."


def test_what_is_not_known_has_no_line_and_says_so(make_run):  # noqa: F811
    figure, drawing = drawn(make_run(30, to=0.6))

    assert not figure["forecast"]["ceiling"]["identified"]
    assert drawing.ceiling.height is None and not drawing.ceiling.identified
    assert "not known yet, 90 % 0." in drawing.ceiling.words
    assert "not known yet" in drawing.sentences[0]
    assert "The tail is not known yet" in drawing.sentences[1]


def test_without_evaluations_there_is_nothing_but_the_reason(make_run):  # noqa: F811
    _, drawing = drawn(make_run(0))

    assert drawing.is_empty
    assert drawing.ceiling is None
    assert drawing.sentences[0].startswith("No fit yet")


def test_a_comparison_keeps_order_colours_and_words(make_run):  # noqa: F811
    runs = [make_run(20, a=0.7, name="better"), make_run(20, a=0.5, seed=1, name="worse")]
    payload = comparison(runs, [])
    drawing = comparison_drawing(payload, "log")

    assert [key.label for key in drawing.legend] == [row["label"] for row in payload["table"]]
    assert {points.series for points in drawing.points} == {0, 1}
    assert drawing.sentences == tuple(payload["sentences"])
    assert drawing.lines[0].x[-1] <= payload["series"][0]["fit"]["solid_until"]
    assert all(
        key.detail == "forecast ceiling {text}, {interval_text}".format(**row["forecast_ceiling"])
        for row, key in zip(payload["table"], drawing.legend, strict=True)
    )


def test_published_curves_keep_their_place_among_the_series(make_run):  # noqa: F811
    reference = ReferenceFit(
        slug="scalerl", name="ScaleRL", source="paper", a=0.61, b=1.9, c_mid=2500.0, margin=0.02
    )
    drawing = comparison_drawing(comparison([make_run(20)], [reference], view="share"), "log")

    assert [key.hollow for key in drawing.legend] == [False, True]
    dotted = [line for line in drawing.lines if line.style == "dotted"]
    assert [line.series for line in dotted] == [1]


def test_a_drawing_is_plain_json(make_run):  # noqa: F811
    _, drawing = drawn(make_run(12))

    assert json.loads(json.dumps(drawing.as_json()))["heading"] == drawing.heading
    said = {field.name for field in dataclasses.fields(drawing)}
    assert said - {"target", "missing"} < set(drawing.as_json())


def test_ranges_of_nothing_can_still_be_drawn():
    assert x_range("log", (), ()) == (0.01, 1.0)
    assert y_range((), (), None) == (0.0, 1.0)


def test_values_that_a_view_cannot_show_are_left_open(make_run):  # noqa: F811
    payload = comparison([make_run(20)], [])
    payload["series"][0]["points"]["y"][3] = None

    drawing = comparison_drawing(payload, "log")

    assert all(end == end for end in drawing.y_range)


def test_a_chart_without_a_claim_says_nothing_of_one(make_run):  # noqa: F811
    """What a report said when it was published is compared with this."""
    _, drawing = drawn(make_run(30))
    claimed = dataclasses.replace(drawing, target=Target(1.0, 0.5, 0.4, 0.6, "target"))

    assert "target" not in drawing.as_json()
    assert claimed.as_json()["target"]["came"] == ()
